"""Two speeds: a coarse answer while a user drags, the full one on release, and never an old one after a new
one.

One worker thread a view does the work, so that the kernel stays free. Requests replace each other: at most
one waits behind the one that runs. A request that runs at full speed is cancelled by any newer one; a coarse
one is let finish, because otherwise a steady drag would never see an answer.

Gradient modes of torch belong to threads, and a notebook's setting does not reach the worker's: the worker
computes without recording gradients, whatever the notebook has set. Results are delivered from the worker's
thread, one at a time, in the order in which they were computed.
"""

import atexit
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from workbench.errors import ConvergenceWarning, WorkbenchError

Speed = Literal["coarse", "full"]
Progress = Callable[[float, str], None]
Work = Callable[[Any, Speed, threading.Event, Progress], Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request.

    Attributes:
        request: What was asked.
        speed: How.
        value: The answer; None after an error.
        error: One sentence; empty if all went well.
        stopped: The user cancelled it; the value, if any, is the best that was reached.
        seconds: Time from the request to the answer, waiting included.
    """

    request: Any
    speed: Speed
    value: Any
    error: str
    stopped: bool
    seconds: float


@dataclass(slots=True)
class _Ticket:
    request: Any
    speed: Speed
    due: float
    asked: float
    cancel: threading.Event
    superseded: bool = False


def sentence_of(error: BaseException) -> str:
    """One sentence on an error, fit for a person: never a traceback."""
    if isinstance(error, WorkbenchError):
        return str(error)
    first = str(error).strip().split("\n")[0]
    return f"the computation failed with {type(error).__name__}" + (f": {first}" if first else "")


class Scheduler:
    """Runs the newest request on a worker thread.

    Args:
        work: Called as work(request, speed, cancel, progress); it should look at `cancel.is_set()` now and
            then.
        deliver: Called with each outcome that is still wanted, from the worker's thread.
        progress: Called with a share in [0, 1] and a few words, from the worker's thread.
        idle: Called when nothing waits or runs any more; it must not wait for another thread.
    """

    def __init__(
        self,
        work: Work,
        *,
        deliver: Callable[[Outcome], None],
        progress: Progress | None = None,
        idle: Callable[[], None] | None = None,
    ) -> None:
        self._work, self._deliver = work, deliver
        self._progress = progress or (lambda share, words: None)
        self._idle = idle or (lambda: None)
        self._state = threading.Condition()
        self._waiting: _Ticket | None = None
        self._running: _Ticket | None = None
        self._closed = False
        self._thread: threading.Thread | None = None
        _open.add(self)

    @property
    def busy(self) -> bool:
        """Whether a request waits or runs."""
        with self._state:
            return self._waiting is not None or self._running is not None

    def submit(self, request: Any, speed: Speed = "full", *, delay: float | int = 0.0) -> None:
        """Ask for an answer; what waits is forgotten, and what runs at full speed is cancelled.

        Args:
            request: Handed to the work.
            speed: "coarse" or "full".
            delay: Seconds to wait for a newer request before starting.
        """
        now = time.monotonic()
        with self._state:
            if self._closed:
                return
            self._waiting = _Ticket(request, speed, now + delay, now, threading.Event())
            if self._running is not None and (self._running.speed == "full" or speed == "full"):
                self._running.superseded = True
                self._running.cancel.set()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=_serve, args=(weakref.ref(self),), name="workbench-view", daemon=True
                )
                self._thread.start()
            self._state.notify_all()

    def cancel(self) -> None:
        """Drop what waits and stop what runs; its best answer so far is delivered as stopped."""
        with self._state:
            self._waiting = None
            if self._running is not None:
                self._running.cancel.set()
            self._state.notify_all()

    def wait(self, timeout: float | int = 30.0) -> bool:
        """Block until nothing waits or runs.

        Returns:
            False if that took longer than `timeout` seconds.
        """
        with self._state:
            return self._state.wait_for(lambda: self._waiting is None and self._running is None, timeout)

    def close(self) -> None:
        """Stop for good: nothing more is computed or delivered."""
        with self._state:
            self._closed = True
            self._waiting = None
            if self._running is not None:
                self._running.superseded = True
                self._running.cancel.set()
            self._state.notify_all()

    def _next(self, patience: float | int) -> _Ticket | None:
        """The ticket whose time has come, moved to running; None if there was none for a while."""
        end = time.monotonic() + patience
        with self._state:
            while True:
                now = time.monotonic()
                if self._closed or now >= end:
                    return None
                if self._waiting is None:
                    self._state.wait(end - now)
                elif self._waiting.due > now:
                    end = max(end, self._waiting.due + patience)
                    self._state.wait(self._waiting.due - now)
                else:
                    self._running, self._waiting = self._waiting, None
                    return self._running

    def _run(self, ticket: _Ticket) -> None:
        value, error = None, ""

        def progress(share: float, words: str = "") -> None:
            if not ticket.superseded:
                self._progress(share, words)

        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the status line says it
                value = self._work(ticket.request, ticket.speed, ticket.cancel, progress)
        except Exception as problem:  # a view shows a sentence, whatever went wrong
            error = sentence_of(problem)
        seconds = time.monotonic() - ticket.asked
        stopped = ticket.cancel.is_set()
        try:
            if not ticket.superseded:
                self._deliver(Outcome(ticket.request, ticket.speed, value, error, stopped, seconds))
        except Exception as problem:  # the answer cannot be shown: say so instead
            self._deliver(Outcome(ticket.request, ticket.speed, None, sentence_of(problem), stopped, seconds))
        finally:
            with self._state:
                self._running = None
                if self._waiting is None and not self._closed:
                    self._idle()
                self._state.notify_all()


_open: "weakref.WeakSet[Scheduler]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Stop every worker before the interpreter goes: one that is inside torch then would take it down."""
    workers = [scheduler._thread for scheduler in list(_open)]
    for scheduler in list(_open):
        scheduler.close()
    for worker in workers:
        if worker is not None:
            worker.join(PATIENCE)


PATIENCE = 10.0
"""Seconds that the end of a program waits for a worker to notice that it was cancelled."""


def _serve(reference: "weakref.ref[Scheduler]") -> None:
    """The worker: holds its scheduler only while it works, so that a dropped view is collected."""
    while True:
        scheduler = reference()
        if scheduler is None or scheduler._closed:
            return
        ticket = scheduler._next(patience=5.0)
        if ticket is not None:
            scheduler._run(ticket)
        del scheduler, ticket
