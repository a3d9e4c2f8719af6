r"""Not-a-knot cubic splines through nodes, as small matrices.

For fixed knots the spline is linear in the nodes: slopes are :math:`m = S(t)\,\phi` and values at new
parameters :math:`W(t, u)\,\phi`, with matrices as small as the number of nodes. Resampling a string of images
in thousands of dimensions is therefore one small solve and one product.

References:
    de Boor, "A Practical Guide to Splines", 1978, chapter IV (not-a-knot end conditions)
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.types import Nodes

Kind = Literal["cubic", "linear"]

_TINY = 1e-12  # chords below this fraction of the mean chord are floored so that every knot stays distinct


def in_float64(x: Tensor) -> Tensor:
    """x in float64 where the device has it: knots and weights are small, so exactness costs nothing."""
    return x if x.device.type == "mps" else x.double()


def chords(points: Nodes) -> Float[Tensor, "*batch edges"]:
    """Distances between consecutive nodes, shape (*batch, nodes - 1)."""
    return torch.linalg.vector_norm(points[..., 1:, :] - points[..., :-1, :], dim=-1)


def arc_knots(
    points: Nodes, weights: Float[Tensor, "*batch nodes"] | None = None
) -> Float[Tensor, "*batch nodes"]:
    """Cumulative (weighted) chord length at the nodes, from 0, in float64, strictly increasing.

    Args:
        points: Nodes, shape (*batch, nodes, dim).
        weights: Positive weight a node; segments take the mean of their ends. None for plain length.

    Returns:
        Knots; coincident nodes are set apart by a hair so that splines through them stay finite.
    """
    steps = in_float64(chords(points))
    if weights is not None:
        weights = in_float64(weights)
        steps = steps * 0.5 * (weights[..., 1:] + weights[..., :-1])
    floor = _TINY * steps.mean(dim=-1, keepdim=True) + torch.finfo(steps.dtype).tiny
    steps = torch.maximum(steps, floor)
    return torch.cat([torch.zeros_like(steps[..., :1]), steps.cumsum(dim=-1)], dim=-1)


def slope_matrix(knots: Float[Tensor, "*batch nodes"]) -> Float[Tensor, "*batch nodes nodes"]:
    """The matrix S with slopes = S @ values for the not-a-knot cubic spline.

    Args:
        knots: Increasing knots, shape (*batch, nodes). Three give the parabola, two the line.

    Returns:
        S. Differentiable in the knots.
    """
    n = knots.shape[-1]
    dx = knots.diff(dim=-1)
    slope = torch.zeros(*knots.shape[:-1], n - 1, n, dtype=knots.dtype, device=knots.device)
    edge = torch.arange(n - 1, device=knots.device)
    slope[..., edge, edge], slope[..., edge, edge + 1] = -1.0 / dx, 1.0 / dx
    if n == 2:
        return slope.expand(*knots.shape[:-1], 1, 2).repeat_interleave(2, dim=-2)
    left = torch.zeros(*knots.shape, n, dtype=knots.dtype, device=knots.device)
    right = torch.zeros_like(left)
    inner = edge[1:]
    before, after = dx[..., :-1], dx[..., 1:]
    left[..., inner, inner - 1], left[..., inner, inner + 1] = after, before
    left[..., inner, inner] = 2.0 * (before + after)
    right[..., 1:-1, :] = 3.0 * (
        after[..., None] * slope[..., :-1, :] + before[..., None] * slope[..., 1:, :]
    )
    if n == 3:
        left[..., 0, 0] = left[..., 0, 1] = left[..., 2, 1] = left[..., 2, 2] = 1.0
        right[..., 0, :], right[..., 2, :] = 2.0 * slope[..., 0, :], 2.0 * slope[..., 1, :]
        return torch.linalg.solve(left, right)
    for row, near, far, first, second in ((0, 0, 1, 0, 1), (n - 1, n - 2, n - 3, n - 1, n - 2)):
        both = dx[..., near] + dx[..., far]
        left[..., row, first], left[..., row, second] = dx[..., far], both
        right[..., row, :] = (
            ((dx[..., near] + 2.0 * both) * dx[..., far])[..., None] * slope[..., near, :]
            + (dx[..., near] ** 2)[..., None] * slope[..., far, :]
        ) / both[..., None]
    return torch.linalg.solve(left, right)


def spline_weights(
    knots: Float[Tensor, "*batch nodes"],
    at: Float[Tensor, "*batch m"],
    *,
    kind: Kind = "cubic",
    derivative: bool = False,
    slopes: Float[Tensor, "*batch nodes nodes"] | None = None,
) -> Float[Tensor, "*batch m nodes"]:
    """The matrix W with value(at) = W @ values: interpolation as a product.

    Args:
        knots: Increasing knots, shape (*batch, nodes).
        at: Parameters at which to evaluate, shape (*batch, m).
        kind: "cubic" for the not-a-knot spline, "linear" for the polygon.
        derivative: Weights of the first derivative instead of the value.
        slopes: `slope_matrix(knots)` if it is at hand.

    Returns:
        W, in the knots' dtype. Differentiable.
    """
    n = knots.shape[-1]
    left = (torch.searchsorted(knots.contiguous(), at.contiguous(), right=True) - 1).clamp(0, n - 2)
    start, dx = knots.gather(-1, left), knots.diff(dim=-1).gather(-1, left)
    u = (at - start) / dx
    weights = torch.zeros(*at.shape, n, dtype=knots.dtype, device=knots.device)
    here, there = left[..., None], left[..., None] + 1
    if kind == "linear":
        low, high = (-1.0 / dx, 1.0 / dx) if derivative else (1.0 - u, u)
        return weights.scatter(-1, here, low[..., None]).scatter(-1, there, high[..., None])
    if derivative:
        value = 6.0 * u * (u - 1.0) / dx
        pair, tilt = (value, -value), ((3.0 * u - 1.0) * (u - 1.0), u * (3.0 * u - 2.0))
    else:
        rise = u * u * (3.0 - 2.0 * u)
        pair, tilt = (1.0 - rise, rise), (dx * u * (1.0 - u) ** 2, dx * u * u * (u - 1.0))
    if slopes is None:
        slopes = slope_matrix(knots)
    on_slopes = weights.scatter(-1, here, tilt[0][..., None]).scatter(-1, there, tilt[1][..., None])
    on_values = weights.scatter(-1, here, pair[0][..., None]).scatter(-1, there, pair[1][..., None])
    return on_values + on_slopes @ slopes


def tangents_at_nodes(points: Nodes, knots: Float[Tensor, "*batch nodes"]) -> Nodes:
    """Unit tangents of the spline at its nodes; zero where the spline stands still."""
    direction = slope_matrix(knots).to(points.dtype) @ points
    size = torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
    return direction / size.clamp_min(torch.finfo(points.dtype).tiny)
