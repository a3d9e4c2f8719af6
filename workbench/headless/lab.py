"""JupyterLab on an executed copy: a person first sees a finished notebook, and may change it at will."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from workbench.errors import DataError, SettingError
from workbench.headless.catalog import find_notebooks, open_notebook
from workbench.headless.run import execute, plan_run
from workbench.headless.watch import Listener

TOUR = "00_tour"


def prepare_lab(folder: Path, *, listener: Listener | None = None) -> Path:
    """Copy the notebooks into a folder, the tour executed; copies that exist are a person's and are kept.

    Args:
        folder: Where to; made if it is not there.
        listener: Told where the run of the tour is.

    Returns:
        The copy of the tour.

    Raises:
        DataError: If the tour does not complete.
    """
    work = folder / "notebooks"
    work.mkdir(parents=True, exist_ok=True)
    for path in find_notebooks():
        copy = work / path.name
        if copy.exists():
            continue
        if path.stem != TOUR:
            shutil.copyfile(path, copy)
            continue
        with tempfile.TemporaryDirectory() as scratch:
            plan = plan_run(open_notebook(path), environment={})
            result = execute(plan, out=Path(scratch) / "run", listener=listener)
            if result.exit_code:
                raise DataError(f"{path.name}: {result.status}: {result.message}", "a tour that completes")
            copy.write_text(_without_injection(result.folder / "notebook.ipynb"), encoding="utf-8")
    return work / f"{TOUR}.ipynb"


def open_lab(notebook: Path, *, port: int | None = None, browser: bool = True) -> int:
    """Start JupyterLab on a notebook and wait for its end.

    Args:
        notebook: What is shown first.
        port: Its port; a free one if None.
        browser: Open a browser.

    Returns:
        JupyterLab's exit code.

    Raises:
        SettingError: If the notebook is not there.
    """
    if not notebook.is_file():
        raise SettingError(f"missing notebook {notebook}", "what `workbench lab --prepare-only` leaves")
    from workbench.headless.engine import kernel_environment

    command = [sys.executable, "-m", "widgets.lab", str(notebook)]  # a front end: started, never imported
    command += [f"--port={port}"] if port else []
    command += [] if browser else ["--no-browser"]
    return subprocess.run(command, env=kernel_environment()).returncode


def _without_injection(path: Path) -> str:
    """The text of an executed notebook without the cell of injected parameters, which are the defaults."""
    node = json.loads(path.read_text(encoding="utf-8"))
    node["cells"] = [
        c for c in node["cells"] if "injected-parameters" not in c.get("metadata", {}).get("tags", [])
    ]
    for cell in node["cells"]:
        cell["metadata"].pop("papermill", None)
        if not cell["metadata"].get("tags"):
            cell["metadata"].pop("tags", None)
    node["metadata"].pop("papermill", None)
    return json.dumps(node, indent=1, ensure_ascii=False) + "\n"
