"""Curves of latents made visible by the untouched model, and what part of a picture is the condition's doing.

A curve that was lifted to latents is decoded by the solver that made them. The condition can follow the
curve or stay where it began: what differs between the two films is what the condition does, what moves while
it stays is what the map does.

`render_gaps` scores frames that nothing has seen: hidden from the model, from the embedding, the neighbours
and the curve alike, they are compared in the space of frames with what the lifted latents render to.

References:
    Sandilya et al., "Contrastive Diffusion Alignment: Learning Structured Latents for Controllable
        Generation", 2025, https://arxiv.org/abs/2510.14190
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.conda.gaps import GapScore
from workbench.errors import SettingError, ShapeError
from workbench.integrators import Cancel, Progress
from workbench.inversions.conditions import given_each
from workbench.inversions.latent import Latent
from workbench.inversions.solve import decode
from workbench.models import ScoreModel
from workbench.nets import NetModel, given
from workbench.report import Provenance, SolveReport, Status
from workbench.types import Points


@dataclass(frozen=True, slots=True)
class Rendered:
    """A curve of latents as frames, twice.

    Attributes:
        following: Frames with the condition that follows the curve, shape (steps, dim).
        held: Frames with the condition held where it was set, same shape.
        moved: How far the frames move along the curve while the condition is held: root mean square distance
            to their mean, relative to that of the film whose condition follows.
        conditioned: Root mean square distance between the two films, relative to the same.
        report: How both decodings went: the worse status, the calls of both.
        provenance: Where it came from.
    """

    following: Points
    held: Points
    moved: float
    conditioned: float
    report: SolveReport
    provenance: Provenance

    def __str__(self) -> str:
        return (
            f"Held, the frames move {100 * self.moved:.0f} % as far as with the condition following; "
            f"the two differ by {100 * self.conditioned:.0f} %"
        )


def render_path(
    model: NetModel | Sequence[ScoreModel],
    latent: Latent,
    states: Tensor,
    following: Sequence[int | float | str | None] | Tensor,
    *,
    held: int | float | str | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> Rendered:
    """Render lifted latents with the condition following the curve, and with it held.

    Args:
        model: A class-conditional network, or one model a class, as for `given_each`.
        latent: The latents that were lifted from; its grid and solver are used.
        states: Lifted states as `Latent.joined` gives them, shape (steps, dim or 2 dim).
        following: The condition at each point of the curve, as for `given_each`.
        held: The condition held; that of the first point if None.
        progress: Called with the fraction done and a sentence.
        cancel: Stops between levels.

    Returns:
        Both films. Cost: twice the solver's calls a point, up to twice as many where a condition lies
        between two classes.

    Raises:
        ShapeError: If the states do not fit the latent, or the conditions the states.
        SettingError: For an unknown condition.
    """
    listed = following.tolist() if isinstance(following, Tensor) else list(following)
    if states.ndim != 2 or len(listed) != len(states):
        raise ShapeError(f"{len(listed)} conditions for states of shape {tuple(states.shape)}", "one a state")
    lifted = latent.with_joined(states)
    still = listed[0] if held is None else held
    films = [
        decode(given_each(model, conditions), lifted, progress=part, cancel=cancel)
        for conditions, part in ((listed, _half(progress, 0)), ([still] * len(listed), _half(progress, 1)))
    ]
    first, second = (film.points for film in films)
    scale = spread_of(first).clamp_min(torch.finfo(first.dtype).tiny)
    return Rendered(
        following=first,
        held=second,
        moved=float(spread_of(second) / scale),
        conditioned=float((first - second).square().sum(-1).mean().sqrt() / scale),
        report=_both(films[0].report, films[1].report),
        provenance=films[0].provenance,
    )


@dataclass(frozen=True, slots=True)
class FrameGaps:
    """Hidden frames against what each method renders.

    Attributes:
        errors: Relative error of each method: root of the summed squared distance over that of the mean
            visible frame.
        per_gap: The same gap by gap, shape (gaps,) each.
        frames: What each method rendered, shape (hidden, dim).
        rows: The hidden rows, gap by gap.
        report: How the decoding went.
        provenance: Where it came from.
    """

    errors: dict[str, float]
    per_gap: dict[str, Tensor]
    frames: dict[str, Points]
    rows: Tensor
    report: SolveReport
    provenance: Provenance


def render_gaps(
    model: ScoreModel,
    latent: Latent,
    score: GapScore,
    frames: Points,
    *,
    methods: Sequence[str] = ("lerp_z", "slerp_z", "spline_z", "lerp_c", "spline_c"),
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> FrameGaps:
    """Render the latents predicted for hidden frames, and compare frame with frame.

    Args:
        model: The model, the hidden frames' condition bound.
        latent: Latents of all frames; its grid and solver are used.
        score: What `measure_gaps` predicted from `latent.joined()`.
        frames: All frames, shape (count, dim); the hidden ones are read to score and for nothing else.
        methods: Which predictions to render.
        progress: Called with the fraction done and a sentence.
        cancel: Stops between levels.

    Returns:
        Errors in the space of frames. Cost: the solver's calls a hidden frame and method.

    Raises:
        ShapeError: If frames and latents differ in number.
        SettingError: For a method that the score does not hold.
    """
    strange = [name for name in methods if name not in score.predictions]
    if strange or not methods:
        raise SettingError(
            f"method {strange[0]!r}" if strange else "no method",
            f"some of {', '.join(score.predictions)}",
            "methods=('spline_c',)",
        )
    if len(frames) != len(latent):
        raise ShapeError(f"{len(frames)} frames of {len(latent)} latents", "as many of both")
    seen = torch.ones(len(frames), dtype=torch.bool)
    seen[score.rows] = False
    truth = frames[score.rows]
    scale = (truth - frames[seen].mean(0)).square().sum(1)
    count = int(score.gaps.max()) + 1
    totals = torch.zeros(count, dtype=scale.dtype).index_add_(0, score.gaps, scale)
    states = torch.cat([score.predictions[name] for name in methods])
    film = decode(model, latent.with_joined(states), progress=progress, cancel=cancel)
    made = dict(zip(methods, film.points.split(len(truth)), strict=True))
    errors, per_gap = {}, {}
    for name, guess in made.items():
        wrong = (guess - truth).square().sum(1)
        parts = torch.zeros_like(totals).index_add_(0, score.gaps, wrong)
        errors[name] = float((parts.sum() / totals.sum()).sqrt())
        per_gap[name] = (parts / totals).sqrt()
    return FrameGaps(errors, per_gap, made, score.rows, film.report, film.provenance)


def condition_along(conditions: Tensor, neighbours: Tensor, weights: Tensor) -> list[float]:
    """The condition that follows a lifted curve: that of the neighbours, averaged with their weights.

    Args:
        conditions: Class index of every frame, for classes that lie on a scale, shape (count,).
        neighbours: Neighbours of each point, shape (steps, k).
        weights: Their weights, same shape.

    Returns:
        A number between class indices for each point, kept inside the range of the data.
    """
    values = conditions.to(weights)
    along = (weights * values[neighbours]).sum(-1)
    return along.clamp(values.min(), values.max()).tolist()


def spread_of(frames: Points) -> Tensor:
    """Root mean square distance of frames to their mean."""
    return (frames - frames.mean(0)).square().sum(-1).mean().sqrt()


def _both(first: SolveReport, second: SolveReport) -> SolveReport:
    """The report of two decodings, with the first status that is no success."""
    status = next(
        (one.status for one in (first, second) if one.status is not Status.CONVERGED), Status.CONVERGED
    )
    return replace(
        first,
        status=status,
        iterations=first.iterations + second.iterations,
        model_calls=first.model_calls + second.model_calls,
        warnings=(*first.warnings, *second.warnings),
    )


def _half(progress: Progress | None, index: int) -> Progress | None:
    if progress is None:
        return None
    return lambda fraction, message: progress((index + fraction) / 2, message)


def bind(model: ScoreModel, condition: int | str | None) -> ScoreModel:
    """The model with a condition bound where it is a network with classes, itself otherwise.

    Args:
        model: A score model.
        condition: Class index or name; None binds nothing.

    Returns:
        The model to ask.

    Raises:
        SettingError: For a class that the network does not have.
    """
    if isinstance(model, NetModel) and condition is not None:
        return given(model, condition)
    return model
