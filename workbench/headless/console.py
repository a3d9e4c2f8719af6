"""Progress for the person who waits: the cell, the time, and what the solver inside says."""

import sys
import time
from typing import TextIO

from workbench.headless.watch import Moment


class Console:
    """A listener for ``execute``. On a terminal one line is rewritten; elsewhere one line for each cell.

    Args:
        stream: Where to write; standard error by default.
        quiet: Write nothing.
    """

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self.stream = stream or sys.stderr
        self.quiet = quiet
        self.live = self.stream.isatty()
        self._cell, self._said = -1, 0.0

    def __enter__(self) -> "Console":
        return self

    def __exit__(self, *_: object) -> None:
        if self.live and not self.quiet:
            self.stream.write("\r\x1b[K")

    def __call__(self, moment: Moment) -> None:
        """Show a moment of a run."""
        if self.quiet:
            return
        line = describe(moment)
        now = time.monotonic()
        if self.live:
            self.stream.write(f"\r\x1b[K{line[:110]}")
            self.stream.flush()
        elif moment.cell != self._cell or (moment.fraction is not None and now - self._said > 10):
            self._cell, self._said = moment.cell, now
            print(line, file=self.stream, flush=True)


def describe(moment: Moment) -> str:
    """A moment in one line: ``[ 3/12] 4.2 s  48 % residual 3e-5 | title``."""
    inner = "" if moment.fraction is None else f"{moment.fraction:4.0%} {moment.message} | "
    return f"[{moment.cell:2d}/{moment.cells}] {moment.elapsed:6.1f} s  {inner}{moment.title}"
