"""JupyterLab as the workbench wants it: started offline, with settings under which callbacks stay where they
belong.

`overrides.json` keeps the messages of widgets on the kernel's main thread (on another one torch forgets the
notebook's gradient mode) and keeps JupyterLab from asking for news.
"""

import json
import os
import sys
from pathlib import Path

OVERRIDES = Path(__file__).parent / "overrides.json"


def lab_command(root: Path, *, port: int | None = None, browser: bool = True) -> list[str]:
    """The command that starts JupyterLab on the loopback interface.

    Args:
        root: Folder that it shows.
        port: Port; a free one near 8888 if None. With a port, that one or none.
        browser: Open a browser.

    Returns:
        Arguments, the interpreter first. Run it with `lab_environment`.
    """
    command = [sys.executable, "-m", "jupyterlab", "--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={root}"]
    command.append("--LabApp.extension_manager=readonly")
    if port is not None:
        command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    if not browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command


def lab_environment(folder: Path) -> dict[str, str]:
    """The environment for JupyterLab: settings of its own, and no spinning of idle threads in its kernels.

    The overrides are written as user settings of a folder of its own, so that nothing of the user's or of the
    installation is changed.

    Args:
        folder: Folder for settings and workspaces; made if it is not there.

    Returns:
        A copy of the process's environment with what JupyterLab needs.
    """
    settings = folder / "settings"
    for name, values in json.loads(OVERRIDES.read_text(encoding="utf-8")).items():
        package, plugin = name.split(":")
        path = settings / package / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(json.dumps(values), encoding="utf-8")
    return {
        **os.environ,
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "OMP_WAIT_POLICY": "passive",
    }
