"""Frames of the cylinder wake as a set: eleven flows, their scaling, and the gaps that no model has seen.

Flows at Reynolds numbers 60 to 160 in steps of 10 are computed on the standard grid until they repeat, and
from then on every 20th step is kept: 250 frames of 30 x 50 pixels a flow, about nine cycles. A pixel is the
speed in units of the inflow, scaled so that 0 becomes -1 and 1.5 becomes 1. Of every 41 frames the last six,
about a quarter of a cycle, are hidden: no shipped model was trained on them.

With the package travel all frames at Reynolds number 100 and the first 28, about one cycle, at 60, 80, 120,
140 and 160, in half precision.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.checks import check_choice, check_count
from workbench.embeddings import fit_pca
from workbench.errors import SettingError, ShapeError
from workbench.frames.wake import simulate_wake
from workbench.integrators import Cancel, Progress
from workbench.types import Points

REYNOLDS = tuple(float(10 * i) for i in range(6, 17))
"""Reynolds number of each flow; class k of the set is `REYNOLDS[k]`."""

WAKE_CLASSES = tuple(f"Re {value:g}" for value in REYNOLDS)
WAKE_SHAPE = (1, 30, 50)
FASTEST = 1.5
"""Speed, in units of the inflow, that becomes 1."""

FIRST_STEP, EVERY, COUNT = 8_000, 20, 250
GAP, PERIOD_OF_GAPS = 6, 41
_SHIPPED, _ONE_CYCLE = (0, 2, 6, 8, 10), 28


@dataclass(frozen=True, slots=True)
class WakeFrames:
    """Frames with what is known of them.

    Attributes:
        points: Flat frames in [-1, 1], shape (count, 1500).
        labels: Flow of each, an index into `REYNOLDS`, shape (count,).
        steps: Time step of each, shape (count,).
        hidden: Whether no shipped model has seen it, shape (count,).
    """

    points: Points
    labels: Int[Tensor, "*batch"]
    steps: Float[Tensor, "*batch"]
    hidden: Bool[Tensor, "*batch"]

    def at(self, rows: Tensor) -> "WakeFrames":
        """Some of the frames."""
        return WakeFrames(self.points[rows], self.labels[rows], self.steps[rows], self.hidden[rows])


def hidden_frames(steps: Tensor) -> Tensor:
    """Which frames of a flow are hidden, from their time steps."""
    return (steps - FIRST_STEP).div(EVERY).remainder(PERIOD_OF_GAPS) >= PERIOD_OF_GAPS - GAP


def scaled(speed: Tensor) -> Tensor:
    """Pictures of speed in units of the inflow as flat points in [-1, 1]."""
    return (speed * (2 / FASTEST) - 1).flatten(-2)


def simulate_frames(
    reynolds: tuple[float, ...] = REYNOLDS,
    *,
    count: int = COUNT,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> WakeFrames:
    """Compute the set afresh.

    Args:
        reynolds: Flows, each one of `REYNOLDS`.
        count: Frames of each.
        progress: As for `simulate_wake`.
        cancel: As for `simulate_wake`.

    Returns:
        The frames, flow after flow; hidden ones are marked. About 4.5 s of one core a flow.

    Raises:
        SettingError: For a flow that is not one of the set, or no frame.
    """
    check_count("count", count)
    strange = [value for value in reynolds if value not in REYNOLDS]
    if strange or not reynolds:
        raise SettingError(
            f"a flow at Reynolds number {strange[0]:g}" if strange else "no flow",
            f"some of {', '.join(f'{value:g}' for value in REYNOLDS)}",
            "simulate_wake for any other",
        )
    result = simulate_wake(
        reynolds,
        steps=FIRST_STEP + EVERY * count,
        frames_from=FIRST_STEP,
        every=EVERY,
        progress=progress,
        cancel=cancel,
    )
    labels = torch.tensor([REYNOLDS.index(value) for value in reynolds])
    kept = result.frames.shape[1]
    steps = result.times.repeat(len(reynolds))
    return WakeFrames(
        scaled(result.frames).flatten(0, 1).float(),
        labels.repeat_interleave(kept),
        steps,
        hidden_frames(steps),
    )


@cache
def _all_frames() -> WakeFrames:
    return simulate_frames()


def load_wake(split: str = "sample") -> WakeFrames:
    """Frames of the set.

    Args:
        split: "sample" for those that travel with the package, "train" for what the shipped model learnt
            from, "test" for the hidden ones of all flows; the latter two are computed once a process, in
            about a minute.

    Returns:
        The frames.

    Raises:
        SettingError: For another name.
    """
    check_choice("split", split, ("sample", "train", "test"))
    if split != "sample":
        frames = _all_frames()
        return frames.at(frames.hidden if split == "test" else ~frames.hidden)
    with resources.as_file(resources.files("workbench") / "images" / "wake-sample.npz") as path:
        archive = np.load(path, allow_pickle=False)
        points = torch.from_numpy(archive["points"].astype(np.float32))
        labels, steps = (torch.from_numpy(archive[name]) for name in ("labels", "steps"))
    return WakeFrames(points, labels.long(), steps.float(), hidden_frames(steps.float()))


def sample_of(frames: WakeFrames) -> WakeFrames:
    """The part of the full set that travels with the package."""
    middle = REYNOLDS.index(100.0)
    rows = [torch.arange(COUNT) + middle * COUNT]
    rows += [torch.arange(_ONE_CYCLE) + flow * COUNT for flow in _SHIPPED]
    return frames.at(torch.cat(rows))


def write_sample(frames: WakeFrames, path: str) -> None:
    """Write frames in half precision."""
    np.savez_compressed(
        path,
        points=frames.points.numpy().astype(np.float16),
        labels=frames.labels.numpy().astype(np.uint8),
        steps=frames.steps.numpy().astype(np.int32),
    )


@dataclass(frozen=True, slots=True)
class Phase:
    """The clock of a cyclic series.

    Attributes:
        angle: Straight line through the phase, in radians, shape (count,).
        period: Length of a cycle in the unit of the times.
        r2: How straight the phase is in time.
    """

    angle: Float[Tensor, " count"]
    period: float
    r2: float


def phase_of(points: Points, times: Float[Tensor, " count"], known: Tensor | None = None) -> Phase:
    """Phase of frames that turn steadily: the angle in their two leading principal directions, unrolled.

    Args:
        points: Frames in the order of their times, shape (count, dim).
        times: Their times, shape (count,).
        known: Rows from which directions and line are found; all if None.

    Returns:
        The straight line through the phase at every frame.

    Raises:
        ShapeError: If there are fewer than three frames.
    """
    rows = torch.arange(len(points)) if known is None else known
    if len(rows) < 3:
        raise ShapeError(f"{len(rows)} frames", "at least three")
    pair = fit_pca(points[rows].double(), axes=2).encode(points[rows].double())
    pair = pair / pair.std(0)
    turned = np.unwrap(torch.atan2(pair[:, 1], pair[:, 0]).numpy())
    rate, begin = np.polyfit(times[rows].double().numpy(), turned, 1)
    line = torch.from_numpy(rate * times.double().numpy() + begin)
    left = turned - line[rows].numpy()
    r2 = 1.0 - float((left**2).sum() / ((turned - turned.mean()) ** 2).sum())
    return Phase(line, float(2 * np.pi / abs(rate)), r2)
