"""nbval that compares records, by their own tolerances, and nothing else; and that cannot pass vacuously.

A conftest beside the notebooks takes the one hook below. Then ``pytest --nbval`` and
``pytest --nbval-lax`` do the same: printed text, pictures, widgets and ids are never compared; a cell
that was never executed, and a notebook that records nothing, are errors at collection.

With ``WORKBENCH_EXECUTED=FOLDER`` nothing is executed: the cells are judged by the notebooks that a
regression has just executed into that folder, so that one execution serves both.
"""

import os
from collections import deque
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode, read
from nbval.plugin import IPyNbCell

from workbench.headless.compare import disagreement
from workbench.headless.engine import kernel_environment
from workbench.headless.record import MIME, SCHEMA, Record, records_of

EXECUTED = "WORKBENCH_EXECUTED"


class _AllBut:
    """A set of everything but a few keys; nbval only asks whether a key is in its set to skip."""

    def __init__(self, *compared: str) -> None:
        self.compared = compared

    def __contains__(self, key: object) -> bool:
        return key not in self.compared


class Judged:
    """A record whose equality is agreement within the reference's tolerance."""

    __hash__ = None  # type: ignore[assignment] - equality is not transitive

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self.record = Record.parse(payload)

    def __eq__(self, now: object) -> bool:
        return isinstance(now, Judged) and not disagreement(self.record, now.record)

    def __repr__(self) -> str:
        return self.record.line()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Make every collected notebook cell compare records only; refuse references that were never run.

    Args:
        config: pytest's configuration.
        items: What was collected.

    Raises:
        pytest.UsageError: If a reference was not executed, or records nothing.
    """
    cells: list[Any] = [item for item in items if isinstance(item, IPyNbCell)]
    if not cells:
        return
    os.environ.update(kernel_environment() | {"PYTHONHASHSEED": "0", "WORKBENCH_DETERMINISTIC": "1"})
    # nbval leaves the null device open behind each kernel; where warnings are errors that would be one
    config.addinivalue_line("filterwarnings", "ignore:unclosed file.*/dev/null:ResourceWarning")
    config.option.nbval_current_env = True
    config.option.nbval_cell_timeout = min(config.option.nbval_cell_timeout, 600)
    never = [c.nodeid for c in cells if c.cell.source.strip() and c.cell.execution_count is None]
    if never:
        raise pytest.UsageError(f"reference cells that were never executed: {', '.join(never[:5])}")
    for file in dict.fromkeys(c.parent for c in cells):
        outputs = [o for cell in file.nb.cells for o in cell.get("outputs", [])]
        if not records_of(outputs):
            raise pytest.UsageError(f"reference without a recorded number: {file.path}")
        file.skip_compare = _AllBut("data", MIME)
        if os.environ.get(EXECUTED):
            file.setup = partial(_replay, file)
    for cell in cells:
        cell.options["check"] = True
        cell.sanitize = _judged
        cell.format_output_compare = partial(_explain, cell)


def _judged(value: Any) -> Any:
    return Judged(value) if isinstance(value, Mapping) and value.get("schema") == SCHEMA else value


def _explain(cell: Any, key: str, old: Any, now: Any) -> None:
    """Put the sentence of a disagreement into nbval's report."""
    sentence = f"{key}: {now!r} where {old!r} was expected"
    if isinstance(old, Judged) and isinstance(now, Judged):
        sentence = disagreement(old.record, now.record)
    cell.comparison_traceback.append(cell.colors.FAIL + sentence + cell.colors.ENDC)


def _replay(file: Any) -> None:
    file.kernel = Replay(find_executed(Path(os.environ[EXECUTED]), file.path.stem))


def find_executed(folder: Path, name: str) -> Path:
    """The executed notebook of a default preset in a regression's folder.

    Args:
        folder: What ``workbench regress --out`` left.
        name: The notebook's.

    Raises:
        FileNotFoundError: If it is not there.
    """
    path = folder / f"{name}-default" / "notebook.ipynb"
    if not path.is_file():
        raise FileNotFoundError(f"no executed notebook {path}")
    return path


class Replay:
    """Stands where nbval expects a kernel, and answers each cell with its outputs in an executed notebook.

    Args:
        path: The executed notebook.
    """

    def __init__(self, path: Path) -> None:
        cells = read(path, as_version=4).cells
        self.cells = deque(
            c
            for c in cells
            if c.cell_type == "code" and "injected-parameters" not in c.metadata.get("tags", [])
        )
        self.messages: deque[dict[str, Any]] = deque()
        self.count = 0

    def execute_cell_input(self, source: str, allow_stdin: bool | None = None) -> str:
        """Queue the outputs of the next cell, which must have this source."""
        self.count += 1
        name = str(self.count)
        cell = self.cells.popleft() if self.cells else NotebookNode(source=None)
        if cell.source != source:
            raise RuntimeError(f"cell {self.count} differs from the one that was executed")
        status = cell.metadata.get("papermill", {}).get("status", "completed")
        outputs = list(cell.outputs)
        if status != "completed" and not any(o.output_type == "error" for o in outputs):
            outputs.append(
                {"output_type": "error", "ename": "NotRun", "evalue": status, "traceback": [status]}
            )
        for output in outputs:
            self._queue(name, output["output_type"], {"metadata": {}, **output})
        self._queue(name, "status", {"execution_state": "idle"})
        return name

    def _queue(self, name: str, kind: str, content: Mapping[str, Any]) -> None:
        self.messages.append({"msg_type": kind, "parent_header": {"msg_id": name}, "content": content})

    def get_message(self, stream: str, timeout: Any = None) -> dict[str, Any]:
        """The next queued message."""
        return self.messages.popleft()

    def await_reply(self, name: str, timeout: Any = None) -> None:
        """Nothing to wait for."""

    def await_idle(self, name: str, timeout: Any = None) -> None:
        """Nothing to wait for."""
        self.messages.clear()

    def is_alive(self) -> bool:
        """Always."""
        return True

    def stop(self) -> None:
        """Nothing to stop."""
