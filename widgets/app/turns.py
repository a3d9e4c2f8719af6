"""Turns: so many computations at once and no more; who comes later waits in order and is told the place."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workbench.errors import Cancelled
from workbench.integrators import Cancel

PULSE = 0.05
"""Seconds between two looks at whether somebody who waits still wants to."""


class Turns:
    """Turns for a number of computations at a time; safe to share between threads.

    Args:
        limit: How many may run at once.
    """

    def __init__(self, limit: int = 1) -> None:
        self.limit = max(1, limit)
        self._changed = threading.Condition()
        self._queue: list[object] = []
        self._running = 0

    @property
    def waiting(self) -> int:
        """How many wait."""
        with self._changed:
            return len(self._queue)

    @property
    def running(self) -> int:
        """How many run."""
        with self._changed:
            return self._running

    @contextmanager
    def turn(self, cancel: Cancel, told: Callable[[int], None] = lambda place: None) -> Iterator[None]:
        """Wait for a turn and hold it until the block ends.

        Args:
            cancel: Asked now and then whether the caller has gone.
            told: Called with the place in the queue, 1 for the next, whenever it has changed.

        Raises:
            Cancelled: If `cancel` was set while it waited.
        """
        me, said = object(), 0
        with self._changed:
            self._queue.append(me)
        try:
            while True:
                with self._changed:
                    place = self._queue.index(me) + 1
                    if place == 1 and self._running < self.limit:
                        self._running += 1
                        break
                    if place == said:
                        self._changed.wait(PULSE)
                if cancel.is_set():
                    raise Cancelled("stopped while it waited for its turn")
                if place != said:
                    said = place
                    told(place)
        finally:
            with self._changed:
                self._queue.remove(me)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()
