"""What each lens says about the same two points, in one form.

An answer holds curves in the space of the model, ellipses on the plane that is looked at, single facts, and
either a report or one sentence on why the lens has nothing to say. Coarse answers follow a pointer, full ones
come when it rests. `BENCH_LENSES` lists who is asked; a further lens is one more entry.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from torch import Tensor

from workbench.bench.cache import ContentCache, content_key
from workbench.bench.places import Place, level_of, place_of, subject_of_state
from workbench.bench.state import BenchState
from workbench.errors import ConvergenceWarning, SettingError
from workbench.integrators import Cancel, Progress
from workbench.report import Estimate, Provenance, SolveReport, Status

Resolution = Literal["coarse", "full"]
Kind = Literal["straight", "slerp", "path", "exact", "geodesic", "other", "trajectory"]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Line:
    """A curve between the two ends, as a lens found it.

    Attributes:
        name: Its name in legends and tables, unique within a bench.
        kind: What it is.
        points: Nodes, shape (nodes, dim), in the data's unit.
        sigma: Noise level at which it was found.
        report: How its solve went; None for curves that need none.
        solved: The number its lens certifies (a barrier, a length), with its error; None if there is none.
    """

    name: str
    kind: Kind
    points: Tensor
    sigma: float
    report: SolveReport | None = None
    solved: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Ellipse:
    """An ellipse on the plane that is looked at: its points are centre + root u with u on the unit circle.

    Attributes:
        name: What it shows.
        kind: "metric" for a unit ball, whose size is in the metric's unit; "posterior" for one standard
            deviation, true to scale.
        centre: Shape (2,), coordinates of the plane.
        root: Shape (2, 2), symmetric.
    """

    name: str
    kind: Literal["metric", "posterior"]
    centre: Tensor
    root: Tensor


@dataclass(frozen=True, slots=True)
class Along:
    """A reading along a curve.

    Attributes:
        line: Name of the curve.
        title: What is read.
        values: Shape (count,).
        unit: Its unit in words.
        arc: Arc length at which each was read, shape (count,); None for the curve's nodes.
    """

    line: str
    title: str
    values: Tensor
    unit: str = ""
    arc: Tensor | None = None


@dataclass(frozen=True, slots=True)
class LensAnswer:
    """What one lens says.

    Attributes:
        lens: Name of the lens.
        speed: "coarse" or "full".
        sigma: Noise level of what it measured.
        lines: Curves it found.
        ellipses: Ellipses at the ends.
        readings: Readings along curves.
        facts: Single numbers by name.
        sentence: Why it has nothing to say; empty if it has.
        notes: Further sentences for the reader.
        report: Status, residual and cost of all it did; None if it did nothing.
        provenance: Settings, seed, device and sources; None if it did nothing.
        methods: Names of the methods used, as `workbench.bench.citations` knows them.
        seconds: Time that it took; 0 in answers that are compared.
    """

    lens: str
    speed: Resolution
    sigma: float = 0.0
    lines: tuple[Line, ...] = ()
    ellipses: tuple[Ellipse, ...] = ()
    readings: tuple[Along, ...] = ()
    facts: tuple[tuple[str, Estimate], ...] = ()
    sentence: str = ""
    notes: tuple[str, ...] = ()
    report: SolveReport | None = None
    provenance: Provenance | None = None
    methods: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def says_something(self) -> bool:
        """Whether there is anything to draw or to tabulate."""
        return not self.sentence


@dataclass(frozen=True, slots=True)
class Inquiry:
    """One question to the lenses: what is asked, where, how well, and with what at hand.

    Attributes:
        state: What is asked.
        place: The subject and its plane.
        speed: "coarse" or "full".
        cache: Answers that are at hand.
        progress: Called with a share and a sentence.
        cancel: Asked now and then; None for never.
        near: Answers to a state close by, from which coarse ones may start; full ones never look at them.
    """

    state: BenchState
    place: Place
    speed: Resolution
    cache: ContentCache
    progress: Progress | None = None
    cancel: Cancel | None = None
    near: tuple["LensAnswer", ...] = ()

    @property
    def full(self) -> bool:
        """Whether the full answer is asked for."""
        return self.speed == "full"

    @property
    def level(self) -> float:
        """Noise level of fields, metrics and Jacobians."""
        return level_of(self.place.subject, self.state.sigma)

    def ends(self) -> tuple[Tensor, Tensor]:
        """Both ends.

        Raises:
            SettingError: If they coincide.
        """
        start, end = self.place.subject.ends(self.state.start, self.state.end)
        if bool((start == end).all()):
            raise SettingError("two equal ends", "two different points", "moving one of them")
        return start, end

    def once(self, what: str, *parts: Any, make: Callable[[], Made]) -> Made:
        """A computation on the subject's model, from the cache if the same was done before.

        Args:
            what: Its name.
            parts: All else that it depends on.
            make: Does it.
        """
        return self.cache.get(self._key(what, parts), make, keep=_finished)

    def at_hand(self, what: str, *parts: Any) -> Any | None:
        """A computation that `once` has kept; None where there is none."""
        return self.cache.peek(self._key(what, parts))

    def _key(self, what: str, parts: tuple) -> str:
        return content_key(what, self.place.subject.model, *parts)


def _finished(result: Any) -> bool:
    """Whether a result may be kept: one that was cancelled may not."""
    report = getattr(result, "report", None)
    return not (isinstance(report, SolveReport) and report.status is Status.CANCELLED)


@dataclass(frozen=True, slots=True)
class BenchLens:
    """An entry of the list.

    Attributes:
        name: The lens.
        question: What it answers at two points.
        ask: Gives its answer.
    """

    name: str
    question: str
    ask: Callable[[Inquiry], LensAnswer]


def answer(
    lens: BenchLens,
    state: BenchState,
    place: Place | None = None,
    *,
    resolution: Resolution = "full",
    cache: ContentCache | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    near: tuple[LensAnswer, ...] = (),
) -> LensAnswer:
    """What a lens says about the two points of a state.

    Args:
        lens: An entry of `BENCH_LENSES`.
        state: What is asked.
        place: The subject and its plane, if they are open; else those that the state names.
        resolution: "coarse" or "full".
        cache: Answers at hand; a fresh cache if None.
        progress: Called with a share and a sentence.
        cancel: Asked now and then.
        near: Answers to a state close by, from which a coarse one may start.

    Returns:
        The answer. A lens with nothing to say returns one sentence.

    Raises:
        SettingError: If the state names no valid points or the lens is asked for something it cannot do.
    """
    place = place_of(state, subject_of_state(state)) if place is None else place
    cache = ContentCache() if cache is None else cache
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report in the answer says it
        found = lens.ask(Inquiry(state, place, resolution, cache, progress, cancel, near))
    return replace(found, seconds=time.perf_counter() - began)


def together(reports: list[SolveReport], *, message: str = "") -> SolveReport:
    """Several solves as one: the worst status, the largest residual, all calls and warnings."""
    order = [Status.CONVERGED, Status.MAX_ITERATIONS, Status.DIVERGED, Status.CANCELLED]
    residuals = [report.residual for report in reports if report.residual is not None]
    return SolveReport(
        status=max((report.status for report in reports), key=order.index),
        iterations=sum(report.iterations for report in reports),
        residual=max(residuals, default=None),
        model_calls=sum(report.model_calls for report in reports),
        warnings=tuple(dict.fromkeys(text for report in reports for text in report.warnings)),
        message=message,
    )
