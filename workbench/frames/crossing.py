"""Curves that pass between conditions: from one Reynolds number, or label, to another through the map.

Frames of several flows have latents, each found with the frame's own condition, and one map. A curve in it
leaves the one flow and arrives at the other; on the way it passes conditions at which no frame of the map was
taken. The condition can follow, interpolated among the neighbours as the latents are, or stay at the
beginning. Where the true frames at such a condition are known, both films are held against them.

A curve says where it is among the conditions, and not at which moment of the cycle, so that a rendered frame
is compared with all known frames of its condition and the nearest one counts. The unit is the spread of those
frames: 1 is as far as their mean is from them, and a film that shows a frame of that flow has 0.

References:
    Sandilya et al., "Contrastive Diffusion Alignment: Learning Structured Latents for Controllable
        Generation", 2025, https://arxiv.org/abs/2510.14190
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from workbench.conda.context import Context, make_context
from workbench.conda.lifts import Lift
from workbench.embeddings import fit_pca
from workbench.errors import SettingError, ShapeError
from workbench.frames.files import FrameSet
from workbench.frames.rendering import Rendered, condition_along, render_path, spread_of
from workbench.integrators import Cancel, Progress
from workbench.inversions.latent import Latent
from workbench.models import ScoreModel
from workbench.nets import NetModel
from workbench.report import Provenance, SolveReport
from workbench.types import Points

_NEAR = 0.5  # classes that a point of the curve may be off the condition whose frames are known


@dataclass(frozen=True, slots=True)
class Passage:
    """Cyclic flows on a scale of conditions, parted: every other one makes a map, those between are known.

    Attributes:
        points: Frames of the map, shape (count, dim).
        labels: Class of each, shape (count,).
        context: What the map is told: the moment of the cycle as cosine and sine, and the place on the scale.
        anchors: Frames at one moment of the cycle, one a condition in the order of the scale.
        truth: Place on the scale to the frames of a flow that the map leaves out.
        scale: Class index and value of the variable of every class that has frames, shape (classes, 2).
        name: Of the variable.
    """

    points: Points
    labels: Tensor
    context: Context
    anchors: list[int]
    truth: dict[float, Tensor]
    scale: Tensor
    name: str

    def values_at(self, conditions: Tensor) -> list[float]:
        """The variable at places among the classes, linear between two of them."""
        index, values = self.scale[self.scale[:, 0].argsort()].numpy().T
        return np.interp(conditions.double().numpy(), index, values).tolist()


def part_conditions(frames: FrameSet) -> Passage | None:
    """Part flows by their condition, as `render_crossing` wants them.

    The moment of the cycle is the angle in the two leading principal directions of the map's frames. As many
    frames are taken of each flow as the shortest has.

    Args:
        frames: Frames whose classes lie on a scale: each has one value of the first variable.

    Returns:
        The parts; None if fewer than three such classes have frames, or if the classes between the first and
        the last do not all stand in the order of their values, so that a place between two means nothing.
    """
    labels, values = frames.labels, frames.variables
    if labels is None or values is None:
        return None
    present = labels.unique().tolist()
    scale = [values[labels == k, 0] for k in present]
    if len(present) < 3 or any(float(own.max() - own.min()) > 0 for own in scale):
        return None
    levels = sorted((float(own[0]), k) for own, k in zip(scale, present, strict=True))
    present = [k for _, k in levels]
    if len({later > former for former, later in pairwise(present)}) > 1:
        return None
    shortest = min(len(own) for own in scale)
    mapped, between = present[::2], present[1 : 2 * len(present[::2]) - 2 : 2]
    kept = torch.cat([(labels == k).nonzero()[:shortest, 0] for k in mapped])
    points, own = frames.points[kept], labels[kept]
    pair = fit_pca(points.double(), axes=2).encode(points.double())
    angle = torch.atan2(pair[:, 1], pair[:, 0])
    place = (own - min(mapped)) / (max(mapped) - min(mapped)) * 2 - 1
    known = torch.stack([angle.cos(), angle.sin(), place.to(angle)], dim=1)
    return Passage(
        points=points,
        labels=own,
        context=make_context(len(points), known, groups=own, times=frames.times[kept]),
        anchors=[int(torch.where(own == k, angle.abs(), torch.inf).argmin()) for k in mapped],
        truth={float(k): frames.points[labels == k] for k in between},
        scale=torch.tensor([(k, value) for value, k in levels], dtype=torch.float64),
        name=frames.names[0] if frames.names else "condition",
    )


@dataclass(frozen=True, slots=True)
class Crossing:
    """A curve between conditions, rendered twice and held against what is known.

    Attributes:
        rendered: Both films.
        conditions: Where each point of the curve lies among the classes, shape (steps,).
        known: Conditions whose frames are known, shape (known,).
        places: The point of the curve that is nearest to each, shape (known,).
        following: Distance of its frame to the nearest known one, the condition following, shape (known,).
        held: The same with the condition held.
        report: How the rendering went.
        provenance: Where it came from.
    """

    rendered: Rendered
    conditions: Tensor
    known: Tensor
    places: Tensor
    following: Tensor
    held: Tensor
    report: SolveReport
    provenance: Provenance

    @property
    def following_error(self) -> float:
        """Root mean square over the known conditions, in units of their frames' spread."""
        return float(self.following.square().mean().sqrt())

    @property
    def held_error(self) -> float:
        """The same with the condition held."""
        return float(self.held.square().mean().sqrt())

    def __str__(self) -> str:
        return (
            f"Between the conditions a frame is {self.following_error:.3f} spreads off the true flow with "
            f"the condition following, {self.held_error:.3f} with it held"
        )


def render_crossing(
    model: NetModel | Sequence[ScoreModel],
    latent: Latent,
    lifted: Lift,
    labels: Tensor,
    truth: Mapping[float, Points],
    *,
    held: int | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> Crossing:
    """Render a curve between conditions with the condition following and held, and score both.

    Args:
        model: A class-conditional network whose classes lie on a scale, or one model a class.
        latent: Latents of the map's frames, each found with its own condition; grid and solver are used.
        lifted: The curve's lift, as in `TraceResult.lifted`.
        labels: Class index of each frame of the map, shape (count,).
        truth: Place among the classes (2.5 is between the third and the fourth) to frames that are known
            there, shape (any, dim). Nothing but the score reads them.
        held: The condition held; the class nearest to the curve's beginning if None.
        progress: Called with the fraction done and a sentence.
        cancel: Stops between levels.

    Returns:
        Both films and their errors. Cost: that of `render_path`.

    Raises:
        SettingError: If the curve passes no known condition, or frames do not differ.
        ShapeError: If labels and latents differ in number, or known frames are of another size.
    """
    if labels.shape != (len(latent),):
        raise ShapeError(f"labels of shape {tuple(labels.shape)}", f"({len(latent)},), one a latent")
    if not truth:
        raise SettingError("no known frames", "at least one condition with its frames", "{2.0: frames}")
    along = condition_along(labels, lifted.neighbours, lifted.weights)
    at = torch.tensor(along, dtype=torch.float64)
    known = torch.tensor(sorted(truth), dtype=torch.float64)
    apart, places = (at[None] - known[:, None]).abs().min(dim=1)
    if float(apart.max()) > _NEAR:
        far = int(apart.argmax())
        raise SettingError(
            f"known frames at {float(known[far]):g}",
            f"conditions that the curve passes, {float(at.min()):.3g} to {float(at.max()):.3g}",
            "other anchors",
        )
    still = round(along[0]) if held is None else held
    states = lifted.latents.to(latent.points)
    films = render_path(model, latent, states, along, held=still, progress=progress, cancel=cancel)
    scores = [
        torch.stack(
            [
                _off(film[place], truth[float(key)].to(film))
                for key, place in zip(known.tolist(), places.tolist(), strict=True)
            ]
        )
        for film in (films.following, films.held)
    ]
    return Crossing(films, at, known, places, scores[0], scores[1], films.report, films.provenance)


def _off(frame: Tensor, known: Points) -> Tensor:
    """Distance of a frame to the nearest of some, in units of their spread."""
    if known.ndim != 2 or known.shape[1:] != frame.shape:
        raise ShapeError(f"known frames of shape {tuple(known.shape)}", f"(any, {len(frame)})")
    spread = spread_of(known)
    if not float(spread) > 0:
        raise SettingError("known frames that do not differ", "frames of a whole cycle")
    return (known - frame).norm(dim=1).min() / spread
