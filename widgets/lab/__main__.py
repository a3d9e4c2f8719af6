"""``python -m widgets.lab NOTEBOOK``: JupyterLab on a notebook, with the workbench's settings."""

import argparse
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from widgets.lab import lab_command, lab_environment


def main() -> int:
    """Start JupyterLab and wait for its end."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[2])
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--port", type=int)
    parser.add_argument("--no-browser", action="store_true")
    asked = parser.parse_args()
    if find_spec("jupyterlab") is None:
        sys.exit("got no installed package 'jupyterlab'; expected the optional extra [lab]; "
                 "try pip install 'latent-workbench[lab]'")  # fmt: skip
    folder = asked.notebook.resolve().parent
    command = lab_command(folder, port=asked.port, browser=not asked.no_browser)
    command.append(f"--LabApp.default_url=/lab/tree/{asked.notebook.name}")
    return subprocess.run(command, env=lab_environment(folder / ".settings")).returncode


if __name__ == "__main__":
    sys.exit(main())
