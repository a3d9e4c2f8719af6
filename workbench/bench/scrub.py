"""The noise scrubber: answers at a grid of noise levels, and the levels at which something changes its kind.

The kinds of event are those of `workbench.bench.events`. For a network the stationary points are those that
show along the paths: their number of barriers, as coarse as the grid.
"""

import math
from dataclasses import dataclass
from typing import Literal

from workbench.bench.answers import Inquiry, LensAnswer
from workbench.bench.bench import Bench
from workbench.bench.events import Change, LevelEvent, find_crossings, find_mode_events
from workbench.bench.results import BenchResult
from workbench.bench.state import BenchState
from workbench.errors import SettingError
from workbench.flows import noise_range
from workbench.integrators import Cancel, Progress
from workbench.metrics import DENSE_LIMIT
from workbench.models import ExactScore, Landscape
from workbench.strings.profile import Profile, find_extrema
from workbench.subjects import Subject
from workbench.worlds import GaussianMixture

LEVELS = 21
"""Levels of a grid."""
PROMINENCE = 0.02
"""Height in nats below which a bump along a network's path counts as noise."""


@dataclass(frozen=True, slots=True)
class Scrub:
    """Answers at every level of a grid.

    Attributes:
        levels: The levels, ascending.
        results: The answers at each; fewer than levels if it was cancelled.
        events: Where something changes its kind, ascending.
    """

    levels: tuple[float, ...]
    results: tuple[BenchResult, ...]
    events: tuple[LevelEvent, ...]

    def at(self, sigma: float) -> BenchResult:
        """The answers at the computed level nearest to one, on the scale of ratios; nothing is computed.

        Raises:
            SettingError: If nothing was computed.
        """
        if not self.results:
            raise SettingError(
                "a scrubber without a level", "one computed level or more", "scrub_levels again"
            )
        return self.results[nearest_level(self.levels[: len(self.results)], sigma)]


def nearest_level(levels: tuple[float, ...], sigma: float) -> int:
    """Index of the level nearest to one on the scale of ratios; 0 is as far below the first as can be."""
    if sigma <= 0.0:
        return 0
    return min(range(len(levels)), key=lambda k: abs(math.log(max(levels[k], 1e-300) / sigma)))


def level_grid(subject: Subject, *, count: int = LEVELS) -> tuple[float, ...]:
    """Levels at equal ratios over what is worth looking at.

    Args:
        subject: The subject.
        count: How many, 2 or more.

    Returns:
        Ascending levels; a world's own range, else from a hundredth of the data's deviation, or the model's
        cleanest level, to the model's noisiest.

    Raises:
        SettingError: If the subject has no noise levels.
    """
    if isinstance(subject.model, Landscape):
        raise SettingError(f"noise levels of {subject.frame}, {subject.lacking}", "a density or a model")
    if count < 2:
        raise SettingError(f"count={count}", "2 levels or more")
    given = subject.world.facts.levels if subject.world is not None else None
    low, high = noise_range(subject.model)
    if given is None:
        deviation = subject.frame.data_std
        given = (max(low, 0.05 * deviation), min(high, 10.0 * deviation))
    ratio = given[1] / given[0]
    return tuple(given[0] * ratio ** (k / (count - 1)) for k in range(count))


def scrub_levels(
    bench: Bench,
    *,
    state: BenchState | None = None,
    levels: tuple[float, ...] | None = None,
    resolution: Literal["coarse", "full"] = "coarse",
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> Scrub:
    """Compute all lenses at a grid of noise levels, so that a slider only has to look them up.

    Args:
        bench: Whose lenses are asked; its cache keeps the answers.
        state: What is asked at every level; the bench's own state if None.
        levels: Levels, ascending; `level_grid` if None.
        resolution: "coarse" or "full".
        progress: Called with the share done and the level.
        cancel: Asked before every level; what is done so far is returned.

    Returns:
        The answers and the events.

    Raises:
        SettingError: If the subject has no noise levels.
    """
    state = bench.state if state is None else state
    inquiry = bench.inquiry(state)
    subject = inquiry.place.subject
    levels = level_grid(subject) if levels is None else levels
    results: list[BenchResult] = []
    for number, sigma in enumerate(levels):
        if cancel is not None and cancel.is_set():
            break
        if progress is not None:
            progress(number / (len(levels) + 1), f"σ = {sigma:.3g}, level {number + 1} of {len(levels)}")
        results.append(bench.ask(state.but(sigma=sigma), resolution=resolution, cancel=cancel))
    if progress is not None:
        progress(len(results) / (len(levels) + 1), "looking for levels where something changes")
    done = levels[: len(results)]
    events = find_events(inquiry, done, cancel=cancel)
    if not isinstance(subject.model, ExactScore):
        events += _path_events(done, results)
    if progress is not None:
        progress(1.0, f"{len(results)} levels, {len(events)} events")
    return Scrub(levels, tuple(results), tuple(sorted(events, key=lambda event: event.sigma)))


def find_events(
    inquiry: Inquiry, levels: tuple[float, ...], *, cancel: Cancel | None = None
) -> list[LevelEvent]:
    """Where stationary points of a world change in number, and where leading directions cross at the ends.

    Args:
        inquiry: What is asked; its ends are looked at.
        levels: Levels, ascending.
        cancel: Asked between levels.

    Returns:
        Events in no order.
    """
    subject = inquiry.place.subject
    events = []
    model = subject.model
    if isinstance(model, GaussianMixture) and len(levels) > 1:
        events += inquiry.once("mode events", levels, make=lambda: find_mode_events(model, levels))
    if isinstance(subject.model, ExactScore) and subject.frame.dim <= DENSE_LIMIT:
        for name, point in zip(("start", "end"), inquiry.ends(), strict=True):
            if cancel is not None and cancel.is_set():
                break
            events += find_crossings(subject.model, point, levels, where=f"posterior at the {name}")
    return events


# -- networks


def _path_events(levels: tuple[float, ...], results: list[BenchResult]) -> list[LevelEvent]:
    """Between which levels the number of barriers along a network's paths changes; as coarse as the grid."""
    counts = [_barriers(result) for result in results]
    events = []
    for k in range(len(counts) - 1):
        for line in counts[k].keys() & counts[k + 1].keys():
            before, after = counts[k][line], counts[k + 1][line]
            if before != after:
                sigma, half = math.sqrt(levels[k] * levels[k + 1]), 0.5 * (levels[k + 1] - levels[k])
                change: Change = "saddle vanishes" if after < before else "saddle appears"
                events.append(LevelEvent(sigma, half, change, before, after, f"barriers along the {line}"))
    return events


def _barriers(result: BenchResult) -> dict[str, int]:
    """Number of inner maxima along each path."""
    counts = {}
    for said in result.answers:
        for reading in _profiles(said):
            inner = [e for e in find_extrema(reading[1], prominence=PROMINENCE) if 0.0 < e.t < 1.0]
            counts[reading[0]] = sum(e.kind == "maximum" for e in inner)
    return counts


def _profiles(said: LensAnswer) -> list[tuple[str, Profile]]:
    """Energy profiles among a lens's readings."""
    return [
        (along.line, Profile(along.arc, along.values))
        for along in said.readings
        if along.title == "energy" and along.arc is not None
    ]
