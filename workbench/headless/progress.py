"""The thin line from a solver in a kernel to the person who waits: a fraction and a few words.

The runner names a small file in the environment (``WORKBENCH_PROGRESS``), the solver's ``progress``
callback overwrites it a few times a second, and the runner reads it while the cell is busy. Nothing is
put into the notebook. In an open notebook, where there is no such file, the calls do nothing.

Example:
    ``find_path(model, start, end, progress=workbench.show_progress)``
"""

import contextlib
import json
import os
import time
from pathlib import Path

_PERIOD = 0.2  # seconds between two writes
_last = 0.0


def show_progress(fraction: float, message: str = "") -> None:
    """Tell the runner how far the current solve is.

    Args:
        fraction: Done so far, 0 to 1.
        message: A few words, such as "residual 3e-5".
    """
    global _last
    path = os.environ.get("WORKBENCH_PROGRESS", "")
    now = time.monotonic()
    if not path or (now - _last < _PERIOD and fraction < 1):
        return
    _last = now
    text = json.dumps({"fraction": min(max(float(fraction), 0.0), 1.0), "message": str(message)[:120]})
    with contextlib.suppress(OSError):  # a full disk must not stop a solve for want of a progress bar
        temporary = Path(f"{path}.new")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)


def read_progress(path: str | Path) -> tuple[float, str] | None:
    """What the kernel last said, or None.

    Args:
        path: The file named in ``WORKBENCH_PROGRESS``.

    Returns:
        Fraction and message.
    """
    try:
        said = json.loads(Path(path).read_text(encoding="utf-8"))
        return float(said["fraction"]), str(said["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
