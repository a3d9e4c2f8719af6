"""The command ``workbench``.

Every message for the user is one sentence on standard error; results go to standard output. Exit codes
of ``run`` stand in ``workbench.headless.run``, those of ``regress`` in ``workbench.headless.regress``.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: idle threads that spin slow others down
