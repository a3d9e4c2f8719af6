"""Watching a run from outside: where it is, what its solver says, and who asks it to stop."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench.headless.folder import write_whole
from workbench.headless.progress import read_progress
from workbench.headless.record import code_number


@dataclass(frozen=True, slots=True)
class Moment:
    """What the listener of a run is told, a few times a second."""

    cell: int
    cells: int
    title: str
    elapsed: float
    fraction: float | None = None
    message: str = ""


Listener = Callable[[Moment], None]


class Steps:
    """Saves the notebook after each code cell, and tells the listener where the run is."""

    def __init__(self, session: Any, folder: Path, listener: Listener | None) -> None:
        self.session, self.folder, self.listener = session, folder, listener
        self.began = time.monotonic()
        self.moment: Moment | None = None

    def __call__(self, notebook: Any, index: int, event: str) -> None:
        import nbformat

        cell = notebook.cells[index]
        if cell.cell_type != "code":
            return
        if event == "end":
            (self.folder / ".progress").unlink(missing_ok=True)
            write_whole(self.folder / "notebook.ipynb", nbformat.writes(notebook))
            return
        lines = [line.strip() for line in cell.source.splitlines() if line.strip()]
        cells = code_number(notebook, len(notebook.cells))
        elapsed = time.monotonic() - self.began
        self.moment = Moment(code_number(notebook, index), cells, lines[0][:60] if lines else "", elapsed)
        if self.listener:
            self.listener(self.moment)

    def tick(self) -> None:
        """Tell the listener about the inner progress of the current cell."""
        if self.moment is None or self.listener is None:
            return
        inner = read_progress(self.folder / ".progress")
        extra = {} if inner is None else {"fraction": inner[0], "message": inner[1]}
        self.listener(replace(self.moment, elapsed=time.monotonic() - self.began, **extra))


@contextmanager
def ticking(steps: Any) -> Iterator[None]:
    """Call ``steps.tick`` a few times a second from a thread while the block runs."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.25):
            steps.tick()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        (steps.folder / ".progress").unlink(missing_ok=True)


_LIVE: set[Any] = set()


@contextmanager
def live(session: Any) -> Iterator[None]:
    """Let signals and the end of the parent stop this session while the block runs.

    The parent is the process named in ``WORKBENCH_PARENT``, for runs started by another program.
    """
    stop = threading.Event()
    parent = int(os.environ.get("WORKBENCH_PARENT", "0"))

    def watch() -> None:
        while not stop.wait(0.5):
            if os.getppid() != parent:
                session.cancel()
                return

    if parent:
        threading.Thread(target=watch, daemon=True).start()
    _LIVE.add(session)
    try:
        yield
    finally:
        _LIVE.discard(session)
        stop.set()


def cancel_on_signals() -> None:
    """SIGINT, SIGTERM and SIGHUP stop the kernels of live sessions, whose runs then end in order.

    Where nothing runs they are a ``KeyboardInterrupt``. For the command line; a library leaves signals
    to its caller.
    """

    def stop(number: int, frame: Any) -> None:
        if not _LIVE:
            raise KeyboardInterrupt
        for session in tuple(_LIVE):
            session.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
