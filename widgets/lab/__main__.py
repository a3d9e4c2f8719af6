"""`python -m widgets.lab NOTEBOOK`: JupyterLab on a notebook, offline, with the settings of the workbench."""

import argparse
import subprocess
import sys
from pathlib import Path

from widgets.lab import lab_command, lab_environment


def main(arguments: list[str] | None = None) -> int:
    """Start JupyterLab and wait for its end.

    Args:
        arguments: Words of the command line; those of the process if None.

    Returns:
        JupyterLab's exit code; 130 after an interruption, 2 if the notebook is not there.
    """
    parser = argparse.ArgumentParser(prog="python -m widgets.lab", description=__doc__)
    parser.add_argument("notebook", type=Path, help="what is shown first")
    parser.add_argument("--port", type=int, help="a port, or none if it is taken")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    asked = parser.parse_args(arguments)
    if not asked.notebook.is_file():
        print(f"got notebook {asked.notebook}, which is not there; expected a file", file=sys.stderr)
        return 2
    root = asked.notebook.resolve().parent
    command = lab_command(root, port=asked.port, browser=not asked.no_browser)
    command.append(f"--LabApp.default_url=/lab/tree/{asked.notebook.name}")
    try:
        return subprocess.run(command, env=lab_environment(root.parent)).returncode
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
