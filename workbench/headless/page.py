"""The page for people without notebooks, started as a front end of its own and never imported."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from workbench.errors import MissingExtra


def open_page(
    *,
    model: Path | None = None,
    port: int = 5006,
    address: str = "127.0.0.1",
    token: str = "",
    computations: int = 0,
    browser: bool = True,
) -> int:
    """Serve the page and wait for its end.

    Args:
        model: A folder, or a file, with a model of one's own.
        port: Its port; a free one if 0.
        address: Address to listen on; beyond this machine a token is needed.
        token: What visitors must know. It is handed on in the environment, where other users cannot read it.
        computations: How many may run at once; half the cores if 0.
        browser: Open a browser.

    Returns:
        The server's exit code.

    Raises:
        MissingExtra: If Panel is not installed.
    """
    if find_spec("panel") is None:
        raise MissingExtra.of("panel", "panel")
    command = [sys.executable, "-m", "widgets.app", f"--port={port}", f"--address={address}"]
    command += [f"--model={model}"] if model is not None else []
    command += [f"--computations={computations}"] if computations else []
    command += [] if browser else ["--no-browser"]
    environment = {**os.environ, "WORKBENCH_TOKEN": token or os.environ.get("WORKBENCH_TOKEN", "")}
    try:
        return subprocess.run(command, env=environment).returncode
    except KeyboardInterrupt:
        return 130
