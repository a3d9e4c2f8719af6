"""Either module can be imported first, and papermill by itself knows the engine."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "first", ["import workbench.headless.engine", "import workbench.headless.nbval", "import papermill"]
)
def test_the_engine_can_be_imported_first_or_last(first, tmp_path):
    code = f"{first}\nfrom papermill.engines import papermill_engines\n"
    code += "print(papermill_engines.get_engine('workbench').__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "WorkbenchEngine"
