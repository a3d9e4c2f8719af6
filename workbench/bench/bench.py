"""The bench: one state that every view reads and writes, and the answers of all lenses to it.

Views subscribe and hear, in order: the state as soon as it changes, then the coarse answers lens by lens, the
field and the table, and the full ones after them. A newer change cancels an older computation; what was
computed before for the same content is not computed again. Work happens on one worker thread a bench, so
that a kernel or a page stays responsive. Nothing here knows a front end.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from workbench.bench.answers import Inquiry, LensAnswer, Resolution
from workbench.bench.asking import ask_all
from workbench.bench.cache import ContentCache
from workbench.bench.compare import Comparison
from workbench.bench.opening import suited, without_place
from workbench.bench.places import Place, place_of, subject_of_state
from workbench.bench.results import BenchEvent, BenchResult
from workbench.bench.state import BenchState, load_view, save_view, state_of, state_of_cell
from workbench.bench.vias import add_via, drop_via, put_point
from workbench.fields import Field
from workbench.integrators import Cancel, Progress
from workbench.scheduling import Outcome, Scheduler, Speed
from workbench.subjects import Subject

Gate = Callable[[Cancel], AbstractContextManager[Any]]
Listener = Callable[[BenchEvent], None]

_SUBJECT = ("world", "model", "condition", "guidance", "device", "dtype")
_PLANE = (*_SUBJECT, "projection")
_CURVES = (*_SUBJECT, "sigma", "via", "metric", "weight")


class Bench:
    """One user's bench: a state, the lenses that look at it, and what they said last.

    Args:
        state: What to look at first; a `BenchState`, or its entries by name.
        cache: Answers that are at hand; give several benches one cache and they share what they computed.
        open_subject: Opens the subject of a state.
        gate: Called with the request's cancel before each computation; the context it returns is held while
            computing. A page that limits concurrent computations waits in it.
        settings: Entries of the state.

    Raises:
        SettingError: For an unknown entry or one that cannot be used.
    """

    def __init__(
        self,
        state: BenchState | Mapping[str, Any] | None = None,
        *,
        cache: ContentCache | None = None,
        open_subject: Callable[[BenchState], Subject] = subject_of_state,
        gate: Gate | None = None,
        **settings: Any,
    ) -> None:
        first = state if isinstance(state, BenchState) else state_of(state or {})
        self._state = first.but(**settings)
        self.cache = ContentCache() if cache is None else cache
        self._open = open_subject
        self._gate: Gate = (lambda cancel: nullcontext()) if gate is None else gate
        self._listeners: list[Listener] = []
        self._lock = threading.RLock()  # of the state, the plane and the list of listeners
        self._telling = threading.RLock()  # held while listeners are called, so that order is kept
        self._subject: tuple[tuple, Subject] | None = None
        self._places: tuple[tuple, Place] | None = None
        self._last: dict[str, LensAnswer] = {}
        self._background: Field | None = None
        self._table: Comparison | None = None
        self._answered: BenchState | None = None  # what the table belongs to
        self._scheduler = Scheduler(
            self._work, deliver=self._deliver, progress=self._progressed, idle=self._idle
        )

    @classmethod
    def load(cls, path: str | Path, **arguments: Any) -> "Bench":
        """A bench with the state of a view file.

        Args:
            path: The file.
            arguments: As for the bench itself.

        Raises:
            DataError: If it is no view file.
            SettingError: If a parameter in it cannot be used.
        """
        return cls(load_view(path), **arguments)

    def save(self, path: str | Path) -> Path:
        """Write the state as a view file; returns its path."""
        return save_view(self.state, path)

    # -- state

    @property
    def state(self) -> BenchState:
        """What is looked at now."""
        with self._lock:
            return self._state

    @property
    def place(self) -> Place:
        """The subject and its plane; opened if need be.

        Raises:
            WorkbenchError: If the state's subject cannot be opened.
        """
        return self._place(self.state)

    @property
    def answers(self) -> dict[str, LensAnswer]:
        """What each lens said last, by name."""
        with self._lock:
            return dict(self._last)

    @property
    def background(self) -> Field | None:
        """The field that was delivered last."""
        with self._lock:
            return self._background

    @property
    def table(self) -> Comparison | None:
        """The table that was delivered last."""
        with self._lock:
            return self._table

    @property
    def busy(self) -> bool:
        """Whether anything is being computed."""
        return self._scheduler.busy

    def to_parameters(self) -> str:
        """The parameters cell of the notebook that repeats this view."""
        return self.state.as_cell()

    def from_parameters(self, cell: str | Mapping[str, Any], *, speed: Speed = "full") -> None:
        """Look at what a parameters cell, or a mapping of its names, asks for."""
        self.look_at(state_of_cell(cell) if isinstance(cell, str) else state_of(cell), speed=speed)

    def change(self, *, speed: Speed = "full", delay: float = 0.0, **changes: Any) -> BenchState:
        """Change entries of the state and ask for answers.

        Args:
            speed: "coarse" while a gesture lasts, "full" at its end; full brings coarse answers first.
            delay: Seconds to wait for a newer change before computing.
            changes: Entries by name.

        Returns:
            The new state. A subject that is not open yet is opened by the worker; its errors come as events.

        Raises:
            SettingError: If an entry cannot be used; the state stays as it was.
            DataError: If an end names a file that is no picture; likewise.
        """
        return self.look_at(self.state.but(**changes), speed=speed, delay=delay)

    def look_at(self, state: BenchState, *, speed: Speed = "full", delay: float = 0.0) -> BenchState:
        """Make a state the bench's own and ask for its answers; arguments and errors as in `change`."""
        with self._lock:
            open_now = self._subject is not None and self._subject[0] == _entries(state, _SUBJECT)
        if open_now:
            subject = self._subject_of(state)
            subject.ends(state.start, state.end)
            subject.points(state.via)
            if state.projection != self.state.projection:
                place_of(state, subject)
        with self._telling:
            with self._lock:
                if _entries(state, _SUBJECT) != _entries(self._state, _SUBJECT):
                    self._last, self._background, self._table = {}, None, None  # said of other points
                    self._answered = None
                self._state = state
            self._tell(BenchEvent("state", state, speed))
            self._scheduler.submit(state, speed, delay=delay)
        return state

    def refresh(self, *, speed: Speed = "full", delay: float = 0.0) -> None:
        """Ask for the answers to the state as it is."""
        self._scheduler.submit(self.state, speed, delay=delay)

    def with_subject(self, *, world: str = "", model: str = "fashion") -> BenchState:
        """The state of another subject: its own ends, a metric and regimes that it has; not looked at yet.

        Args:
            world: A world's name; overrides the model.
            model: A model's name.

        Raises:
            WorkbenchError: If it cannot be opened.
        """
        state = without_place(self.state, world=world, model=model)
        return suited(state, self._subject_of(state))

    def twin(self, **changes: Any) -> "Bench":
        """Another bench that opens subjects in the same way and shares what was computed.

        Args:
            changes: Entries in which its state differs.

        Raises:
            SettingError: If an entry cannot be used.
        """
        changed = self.state.but(**changes)
        return Bench(changed, cache=self.cache, open_subject=self._open, gate=self._gate)

    # -- gestures

    def moved(self, handle: str, x: float, y: float) -> BenchState:
        """The state after a point was put to a place of the picture; it is not looked at yet.

        Args:
            handle: "start", "end" or "via 0", "via 1", ...
            x: Abscissa on the plane.
            y: Ordinate.

        Raises:
            SettingError: If there is no such point.
        """
        return put_point(self.state, handle, self.place.text_at(x, y))

    def with_via(self, x: float, y: float) -> BenchState:
        """The state with one more via point, sorted along the line between the ends."""
        return add_via(self.state, self.place.subject, self.place.text_at(x, y))

    def without_via(self, handle: str) -> BenchState:
        """The state without one of its via points."""
        return drop_via(self.state, handle)

    # -- listening and waiting

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear every event from now on.

        Args:
            listener: Called with each event, one at a time and in order: "state" from the thread that changed
                it, everything else from the worker's. It must not wait for the bench.

        Returns:
            Call it to hear no more.
        """
        with self._lock:
            self._listeners.append(listener)

        def leave() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return leave

    def wait(self, timeout: float = 60.0) -> bool:
        """Block until all answers are delivered; False if that took longer."""
        return self._scheduler.wait(timeout)

    def cancel(self) -> None:
        """Stop computing and keep what was delivered."""
        self._scheduler.cancel()

    def close(self) -> None:
        """Stop for good."""
        self._scheduler.close()
        with self._lock:
            self._listeners.clear()

    # -- computing

    def ask(
        self,
        state: BenchState | None = None,
        *,
        resolution: Resolution = "full",
        progress: Progress | None = None,
        cancel: Cancel | None = None,
    ) -> BenchResult:
        """All answers to a state, here and now, without the worker and without events.

        Args:
            state: What is asked; the bench's own state if None.
            resolution: "coarse" or "full".
            progress: Called with a share and a sentence.
            cancel: Asked now and then.

        Returns:
            Answers, field and table; what cannot be answered is a sentence in the notes.

        Raises:
            WorkbenchError: If the subject or its points cannot be used.
        """
        state = self.state if state is None else state
        place = self._place(state)
        place.subject.ends(state.start, state.end)
        with torch.no_grad():
            return ask_all(Inquiry(state, place, resolution, self.cache, progress, cancel))

    def inquiry(
        self,
        state: BenchState | None = None,
        *,
        resolution: Resolution = "full",
        cancel: Cancel | None = None,
    ) -> Inquiry:
        """The question that a state puts to the lenses, for those who ask one of them themselves."""
        state = self.state if state is None else state
        return Inquiry(state, self._place(state), resolution, self.cache, None, cancel)

    # -- the worker

    def _work(self, state: BenchState, speed: Speed, cancel: threading.Event, progress: Progress) -> str:
        """Answer one request on the worker's thread; returns what to say at its end."""

        def tell(event: BenchEvent) -> None:
            with self._telling:  # looked at within, or a newer state could come between
                if (
                    not cancel.is_set() or state == self.state
                ):  # stopped by the user: the best so far is shown
                    self._remember(event)

        with self._gate(cancel):
            if cancel.is_set():
                return "stopped"
            place = self._place(state)
            place.subject.ends(state.start, state.end)
            if speed == "full" and not self._known(state):
                ask_all(Inquiry(state, place, "coarse", self.cache, None, cancel, self._near(state)), tell)
            if cancel.is_set():
                return "stopped"
            coarse = speed == "coarse"  # there before a bar could be drawn: its progress is not told
            near = self._near(state) if coarse else ()
            told = None if coarse else progress
            result = ask_all(Inquiry(state, place, speed, self.cache, told, cancel, near), tell)
        return "; ".join(result.notes)

    def _known(self, state: BenchState) -> bool:
        """Whether coarse answers to the state are on the screen already."""
        with self._lock:
            return self._table is not None and self._answered == state

    def _near(self, state: BenchState) -> tuple[LensAnswer, ...]:
        """The last answers, if they are about the same curves with other ends."""
        with self._lock:
            before = self._answered
            if before is None or _entries(before, _CURVES) != _entries(state, _CURVES):
                return ()
            return tuple(self._last.values())

    def _remember(self, event: BenchEvent) -> None:
        with self._telling:
            with self._lock:
                if event.answer is not None:
                    self._last[event.answer.lens] = event.answer
                elif event.what == "background":
                    self._background = event.background
                elif event.what == "table":
                    self._table, self._answered = event.table, event.state
                    asked = event.state.lens_names
                    self._last = {name: said for name, said in self._last.items() if name in asked}
            self._tell(event)

    def _deliver(self, outcome: Outcome) -> None:
        state = outcome.request
        if outcome.error:
            self._tell(BenchEvent("error", state, outcome.speed, words=outcome.error))
        else:
            words = "stopped by you, best so far" if outcome.stopped else outcome.value
            self._tell(BenchEvent("done", state, outcome.speed, share=outcome.seconds, words=words))

    def _progressed(self, share: float, words: str) -> None:
        self._tell(BenchEvent("progress", self.state, share=share, words=words))

    def _idle(self) -> None:
        self._tell(BenchEvent("idle", self.state))

    def _tell(self, event: BenchEvent) -> None:
        with self._telling:
            with self._lock:
                listeners = tuple(self._listeners)
            for listener in listeners:
                listener(event)

    # -- subjects and planes

    def _subject_of(self, state: BenchState) -> Subject:
        key = _entries(state, _SUBJECT)
        with self._lock:
            if self._subject is not None and self._subject[0] == key:
                return self._subject[1]
        opened = self._open(state)
        with self._lock:
            self._subject = (key, opened)
        return opened

    def _place(self, state: BenchState) -> Place:
        subject = self._subject_of(state)
        kind = state.projection == "slice" or (subject.frame.dim > 2 and subject.choices is None)
        key = (*_entries(state, _PLANE), *((state.start, state.end, state.via) if kind else ()))
        with self._lock:
            if self._places is not None and self._places[0] == key:
                return self._places[1]
        place = place_of(state, subject)
        with self._lock:
            self._places = (key, place)
        return place

    def __repr__(self) -> str:
        state = self.state
        return f"Bench({state.world or state.model}, {state.lenses}, {'busy' if self.busy else 'idle'})"


def _entries(state: BenchState, names: tuple[str, ...]) -> tuple:
    return tuple(getattr(state, name) for name in names)
