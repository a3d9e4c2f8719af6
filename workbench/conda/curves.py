"""The curves that a trace is made of: what they go through, their points, and what stands beside them.

A spline through anchors at their times, a line or an arc between two, a forecast from one, a shift of one by
the difference of two conditional means; the interpolations of latents that one would draw without a map; and
the variables that follow a curve.

References:
    Contrastive Diffusion Alignment: Learning Structured Latents for Controllable Generation (Sandilya et al.,
    2025), https://arxiv.org/abs/2510.14190
"""

import torch
from torch import Tensor

from workbench.checks import shown
from workbench.conda.context import Context
from workbench.conda.latents import Latents
from workbench.conda.lifts import Lift, NeighbourIndex
from workbench.conda.trajectories import conditional_mean, fit_dynamics, fit_spline
from workbench.curves import Curve, slerp, straight
from workbench.errors import SettingError, ShapeError

KINDS = ("spline", "line", "arc", "forecast", "shift")
"""Curves that can be drawn."""


def find_anchors(
    points: Tensor, context: Context, anchors: object, kind: str
) -> tuple[Tensor | None, Tensor]:
    """What a curve goes through or starts from.

    Args:
        points: The embedding, shape (count, dim).
        context: What is known about its frames.
        anchors: Rows of frames, points of the embedding, or None for the first choice of the kind.
        kind: One of `KINDS`.

    Returns:
        Rows (None for free points) and points of the anchors.

    Raises:
        SettingError: If an anchor does not exist, or there are more or fewer than the kind needs.
        ShapeError: If points are of another dimension.
    """
    count = len(points)
    if anchors is None:
        rows = context.order if kind == "spline" else context.order[[0, -1]]
        rows = context.order[-1:] if kind == "forecast" else rows
        rows = rows[:1] if kind == "shift" else rows
        return rows, points[rows]
    try:
        given = torch.as_tensor(anchors)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SettingError(shown("anchors", anchors), "rows of frames or points", "anchors=[0, 1]") from error
    if given.dtype == torch.bool or given.is_complex():
        raise SettingError(f"anchors of dtype {given.dtype}", "rows of frames or points", "mask.nonzero()")
    if given.is_floating_point():
        if given.ndim != 2 or given.shape[1] != points.shape[1] or not len(given):
            raise ShapeError(
                f"anchors of shape {tuple(given.shape)}",
                f"(any, {points.shape[1]}) points, or rows of frames",
            )
        if not bool(torch.isfinite(given).all()):
            raise SettingError("anchors that are not finite", "finite points of the embedding")
        rows, held = None, given.to(points)
    else:
        rows = given.reshape(-1).long()
        if not len(rows) or int(rows.min()) < 0 or int(rows.max()) >= count:
            raise SettingError(
                f"anchor rows {rows.tolist()[:8]}", f"rows from 0 to {count - 1}", "anchors=[0, 1]"
            )
        held = points[rows]
    least = {"spline": 2, "line": 2, "arc": 2}.get(kind, 1)
    if len(held) < least or (kind in ("line", "arc") and len(held) != 2):
        raise SettingError(
            f"{len(held)} anchors for a {kind}", "2" if kind in ("line", "arc") else f"at least {least}"
        )
    return rows, held


def draw_between(
    context: Context,
    rows: Tensor | None,
    held: Tensor,
    kind: str,
    times: Tensor | None,
    steps: int,
    period: float | None,
) -> tuple[Tensor, Tensor]:
    """Times and points of a spline through anchors, or of a line or arc between two.

    Args:
        context: What is known about the frames.
        rows: Rows of the anchors; None for free points.
        held: Their points, shape (anchors, dim).
        kind: "spline", "line" or "arc".
        times: Times of the anchors; those of the frames if None.
        steps: Points of the curve.
        period: Time after which a spline closes.

    Returns:
        Times, shape (steps,), and points, shape (steps, dim).

    Raises:
        SettingError: For anchors of several trajectories, or two at one point.
    """
    if kind != "spline":
        draw = straight if kind == "line" else slerp
        share = torch.linspace(0.0, 1.0, steps, dtype=torch.float64)
        return share, draw(held[0], held[1], nodes=steps).points
    if times is None:
        times = context.times[rows] if rows is not None else _chord_times(held, period)
    if rows is not None and len(torch.unique(context.groups[rows])) > 1:
        raise SettingError(
            "anchors from several trajectories", "anchors of one", "points of the embedding, with times"
        )
    curve = fit_spline(times, held, period=period)
    at = curve.even_times(steps)
    return at, curve(at)


def _chord_times(points: Tensor, period: float | None) -> Tensor:
    """Times of free anchors: the length gone along their polygon, scaled to one or to the period."""
    loop = points if period is None else torch.cat([points, points[:1]])
    gone = loop.double().diff(dim=0).norm(dim=1).cumsum(0)
    if not bool((gone.diff(prepend=torch.zeros(1, dtype=gone.dtype)) > 0).all()):
        raise SettingError("two anchors at the same point", "anchors that differ")
    times = torch.cat([torch.zeros(1, dtype=torch.float64), gone]) / gone[-1] * (period or 1.0)
    return times[: len(points)]


def draw_forecast(
    points: Tensor, context: Context, rows: Tensor | None, steps: int, method: str, delays: int
) -> tuple[Tensor, Tensor]:
    """Times and points that linear dynamics say follow a frame.

    Args:
        points: The embedding, shape (count, dim).
        context: Which frames follow which.
        rows: Row of the frame, shape (1,).
        steps: Steps after it.
        method: "ar", "dmd" or "optimised".
        delays: Points of history.

    Returns:
        Times, shape (steps,), and points, shape (steps, dim).

    Raises:
        SettingError: For free points, or a frame with too little before it.
    """
    if rows is None or len(rows) != 1:
        raise SettingError("a forecast from free points", "the row of one frame", "anchors=[row]")
    dynamics = fit_dynamics(points, context, method=method, delays=delays)
    place = int(context.rank[rows[0]])
    first = int(context.bounds()[0][place])
    if place - first + 1 < delays:
        raise SettingError(
            f"frame {int(rows[0])}, the number {place - first + 1} of its run",
            f"one with {delays - 1} frames before it",
            "a later row",
        )
    history = points[context.order[place - delays + 1 : place + 1]]
    at = context.times[rows[0]] + dynamics.dt * torch.arange(1, steps + 1)
    return at, dynamics.forecast(history, steps)


def draw_shift(
    points: Tensor,
    context: Context,
    rows: Tensor | None,
    held: Tensor,
    steps: int,
    before: Tensor | float | int | None,
    after: Tensor | float | int | None,
) -> tuple[Tensor, Tensor]:
    """Shares and points of a move by the difference of two conditional means.

    Args:
        points: The embedding, shape (count, dim).
        context: Labels or variables of its frames.
        rows: Row of the anchor; None for a free point.
        held: The anchor, shape (1, dim).
        steps: Points of the curve.
        before: The label or variable that it has; that of its frame if None.
        after: The one it is given.

    Returns:
        Shares from 0 to 1, shape (steps,), and points, shape (steps, dim).

    Raises:
        SettingError: Without a goal, for several anchors, or for a value that does not occur.
    """
    if after is None:
        raise SettingError("a shift without a goal", "a label or variable", "after=1")
    if len(held) != 1:
        raise SettingError(f"a shift of {len(held)} anchors", "1", "anchors=[row]")
    if before is None:
        if rows is None:
            raise SettingError("a shift of a free point", "what it has now", "before=0")
        if context.labels is not None and (isinstance(after, int) or context.variables is None):
            before = int(context.labels[rows[0]])
        elif context.variables is not None:
            before = context.variables[rows[0]]
        else:
            raise SettingError(
                "a shift of frames without labels or variables", "frames that have them", "before=0"
            )
    means = [conditional_mean(points, context, value) for value in (before, after)]
    share = torch.linspace(0.0, 1.0, steps, dtype=torch.float64)
    return share, held[0] + share.to(held)[:, None] * (means[1] - means[0])


def interpolate_latents(
    index: NeighbourIndex, table: Latents, held: Tensor, steps: int, period: float | None
) -> tuple[Tensor, Tensor]:
    """Interpolations of the latents nearest to the anchors, spread evenly over the anchors' pieces.

    Args:
        index: The embedded frames.
        table: Their latents.
        held: The anchors, shape (anchors, dim).
        steps: Points of the curve.
        period: Whether, if a number, the last piece leads back to the first anchor.

    Returns:
        Straight and spherical interpolation, shape (steps, latent dim) each.
    """
    z = table.rows(index.find(held, 1)[1][:, 0])
    if period is not None:
        z = torch.cat([z, z[:1]])
    share = torch.linspace(0.0, len(z) - 1.0, steps, dtype=torch.float64)
    piece = share.long().clamp(max=len(z) - 2)
    inside = (share - piece).to(z)
    line = torch.lerp(z[piece], z[piece + 1], inside[:, None])
    nodes = 65
    arcs: Curve = slerp(z[:-1], z[1:], nodes=nodes)
    place = inside * (nodes - 1)
    low = place.long().clamp(max=nodes - 2)
    arc = torch.lerp(arcs.points[piece, low], arcs.points[piece, low + 1], (place - low).to(z)[:, None])
    return line, arc


def variables_along(context: Context, lifted: Lift) -> Tensor | None:
    """Variables of a curve's neighbours, averaged with their weights and kept inside the data's range.

    Args:
        context: What is known about the frames.
        lifted: The curve's lift.

    Returns:
        Shape (steps, variables); None without variables.
    """
    y = context.variables
    if y is None:
        return None
    made = (lifted.weights.to(y)[..., None] * y[lifted.neighbours]).sum(dim=1)
    return torch.minimum(torch.maximum(made, y.amin(0)), y.amax(0))
