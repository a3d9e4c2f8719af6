"""The entry of the command ``workbench``: signals and errors; what it can do stands in ``commands``.

Light to import, so that the handlers stand before the first second of other imports begins.
"""

import os
import sys
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: idle threads that spin slow others down

BAD_SETTINGS, CANCELLED = 2, 130


def main() -> None:
    """Run the command; errors made on purpose, and those of files, become one sentence and exit code 2."""
    try:
        _run()
    except KeyboardInterrupt:
        _end("cancelled before anything was run", CANCELLED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        where = f" ({error.filename})" if error.filename is not None else ""
        _end(
            f"got {error.strerror or error}{where}; expected files and folders that can be read and written",
            BAD_SETTINGS,
        )
    except SystemExit as ended:
        if isinstance(getattr(ended.__context__, "__cause__", None), KeyboardInterrupt):  # typer is silent
            _end("cancelled", CANCELLED)
        raise


def _run() -> None:
    from workbench.headless.watch import cancel_on_signals

    cancel_on_signals()
    modules: dict[str, Any] = sys.modules
    modules.setdefault("rfc3987_syntax", None)  # nbformat would load this grammar, 1.4 s, for nothing
    from workbench.errors import WorkbenchError
    from workbench.headless.commands import app

    try:
        app()
    except WorkbenchError as error:
        _end(str(error), BAD_SETTINGS)


def _end(sentence: str, code: int) -> None:
    print(f"workbench: {sentence}", file=sys.stderr)
    sys.exit(code)
