"""Geodesics on three nested discretisations: a length with an error, and a certificate.

The midpoint energy has an expansion in even powers of the step, so lengths on n, 2n and 4n steps extrapolate
to order six (Richardson); the distance between the last two extrapolations is the error that is reported.
What certifies a curve is independent of how it was found: energy against squared length (equal only at
constant speed), the spread of the speed, and the number of negative directions of the second variation (zero
for a local minimum; each conjugate point between the ends adds one).

References:
    Richardson, "The deferred approach to the limit", 1927
    Milnor, "Morse Theory", 1963, section 15 (the index theorem)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from workbench.curves import Curve
from workbench.geodesics.engine import NoCurveLeft, Relaxed, curve_inside, relax, segment_lengths
from workbench.metrics.base import DENSE_LIMIT, Metric, Solvable, lower, matrix
from workbench.report import Status
from workbench.types import Nodes, Vectors


@dataclass(frozen=True, slots=True)
class Refined:
    """Curves relaxed on nested levels.

    Attributes:
        points: Nodes on the finest level, shape (curves, fine nodes, dim).
        length: Extrapolated length, shape (curves,).
        error: Difference of the last two extrapolations, shape (curves,).
        levels: Length on each level, shape (levels, curves).
        energy: Energy on the finest level, shape (curves,).
        gap: (energy - length^2) / length^2 there: 0 at constant speed, shape (curves,).
        speed_spread: Standard deviation of the speed over its mean there, shape (curves,).
        velocity: Extrapolated velocity at the start for a curve run in unit time, shape (curves, dim).
        residual: Relative residual on the finest level, shape (curves,).
        converged: Whether every level met the tolerance, shape (curves,).
        status: How the worst curve ended.
        iterations: Iterations on all levels.
        evaluations: Evaluations of the metric, in points.
        history: Largest residual at each iteration.
        kept: Which starting curves these are, shape (curves,): all of them, unless some were dropped.
    """

    points: Tensor
    length: Tensor
    error: Tensor
    levels: Tensor
    energy: Tensor
    gap: Tensor
    speed_spread: Tensor
    velocity: Tensor
    residual: Tensor
    converged: Tensor
    status: Status
    iterations: int
    evaluations: int
    history: tuple[float, ...]
    kept: Tensor


def extrapolate(values: Tensor) -> tuple[Tensor, Tensor]:
    """Richardson limit of values on doubling levels (first axis) whose error has even powers, and its error.

    Args:
        values: Shape (levels, *rest), coarsest first, two levels or more.

    Returns:
        (limit, error) of shape rest; the error is the change made by the last extrapolation.
    """
    row, factor = values, 4.0
    before = row[-1]
    while row.shape[0] > 1:
        before = row[-1]
        row = row[1:] + (row[1:] - row[:-1]) / (factor - 1.0)
        factor *= 4.0
    return row[0], (row[0] - before).abs()


def refine(metric: Metric, points: Tensor) -> Tensor:
    """The same curves with twice the steps, by their cubic splines where those stay inside the domain."""
    curve = Curve.through(points)
    at = torch.linspace(0.0, 1.0, 2 * points.shape[1] - 1, dtype=points.dtype, device=points.device)
    smooth = curve(at)
    smooth[:, ::2] = points
    straight = torch.empty_like(smooth)
    straight[:, ::2], straight[:, 1::2] = points, 0.5 * (points[:, 1:] + points[:, :-1])
    return torch.where(curve_inside(metric, smooth)[:, None, None], smooth, straight)


def relax_levels(
    metric: Metric,
    points: Nodes,
    *,
    levels: int = 3,
    tol: float = 1e-7,
    max_iterations: int = 500,
    freeze: bool = False,
    drop: bool = False,
    cancelled: Callable[[], bool] | None = None,
) -> Refined:
    """Relax curves on nested levels and extrapolate their lengths.

    Args:
        metric: The metric.
        points: Starting curves on the coarsest level, shape (curves, nodes, dim).
        levels: Number of levels, each with twice the steps of the one before.
        tol: Relative residual at which a level stops.
        max_iterations: Iterations at most on a level.
        freeze: The frozen-metric variant; see `relax`.
        drop: Go on without the curves that leave where the metric holds, at the start or on a finer level.
        cancelled: Asked once an iteration.

    Returns:
        Curves on the finest level with lengths, errors and certificates.

    Raises:
        NoCurveLeft: As `relax` does, on any level.
    """
    lengths: list[Tensor] = []
    velocities: list[Tensor] = []
    history: list[float] = []
    iterations = evaluations = 0
    good = torch.ones(points.shape[0], dtype=torch.bool, device=points.device)
    kept = torch.arange(points.shape[0], device=points.device)
    for level in range(levels):
        try:
            now = relax(
                metric,
                points,
                tol=tol,
                max_iterations=max_iterations,
                freeze=freeze,
                drop=drop,
                cancelled=cancelled,
            )
        except NoCurveLeft as left:
            left.evaluations += evaluations
            raise
        kept, good = kept[now.kept], good[now.kept] & now.converged
        lengths, velocities = ([rows[now.kept] for rows in found] for found in (lengths, velocities))
        iterations, evaluations = iterations + now.iterations, evaluations + now.evaluations
        history.extend(now.history)
        lengths.append(now.length)
        velocities.append(start_velocity(metric, now.points))
        if level + 1 < levels:
            points = refine(metric, now.points)
    length, error = (
        extrapolate(torch.stack(lengths))
        if levels > 1
        else (lengths[0], torch.full_like(lengths[0], torch.nan))
    )
    velocity = extrapolate(torch.stack(velocities))[0] if levels > 1 else velocities[0]
    gap, spread = certificate(metric, now)
    if cancelled is not None and cancelled():
        status = Status.CANCELLED
    elif not bool(torch.isfinite(length).all()):
        status = Status.DIVERGED
    else:
        status = Status.CONVERGED if bool(good.all()) else Status.MAX_ITERATIONS
    return Refined(
        now.points,
        length,
        error,
        torch.stack(lengths),
        now.energy,
        gap,
        spread,
        velocity,
        now.residual,
        good,
        status,
        iterations,
        evaluations,
        tuple(history),
        kept,
    )


def certificate(metric: Metric, relaxed: Relaxed) -> tuple[Tensor, Tensor]:
    """Relative gap of energy and squared length, and spread of the speed, of each curve."""
    speed = segment_lengths(metric, relaxed.points).detach()
    square = relaxed.length.square()
    gap = (relaxed.energy - square).clamp_min(0.0) / square
    return gap, speed.std(dim=1, correction=0) / speed.mean(dim=1)


def start_velocity(metric: Metric, points: Nodes) -> Vectors:
    """Velocity at the start of discretised geodesics run in unit time, from the discrete momentum there.

    Args:
        metric: The metric, at most 16 dimensions or one that knows its inverse.
        points: Relaxed curves, shape (curves, nodes, dim).

    Returns:
        Shape (curves, dim), of order 1 / nodes^2 with an even expansion.
    """
    count = points.shape[1] - 1
    start, step = points[:, 0].detach(), (points[:, 1] - points[:, 0]).detach()
    middle = (start + 0.5 * step).requires_grad_()
    with torch.enable_grad():
        density = metric.inner(middle, step, step)
        slope = (
            torch.autograd.grad(density.sum(), middle)[0] if density.requires_grad else torch.zeros_like(step)
        )
    momentum = count * (lower(metric, middle.detach(), step).detach() - 0.25 * slope)
    if points.shape[-1] <= DENSE_LIMIT:
        return torch.linalg.solve(matrix(metric, start), momentum).detach()
    return cast(Solvable, metric).raise_index(start, momentum).detach()


def second_variation(metric: Metric, points: Nodes, step: float = 1e-4) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of the second variation of the energy of one curve with fixed ends.

    Args:
        metric: The metric.
        points: One relaxed curve, shape (nodes, dim), few nodes.
        step: Size of the differences, relative to the curve's extent.

    Returns:
        (values, shape (n,), ascending; modes, shape (n, nodes, dim)) with n = (nodes - 2) dim, relative to
        the size of the largest value. By central differences of the energy's gradient, 2n curves in one
        batch.
    """
    nodes, dim = points.shape
    size = step * float((points - points.mean(dim=0)).abs().max())
    count = (nodes - 2) * dim
    bumps = torch.zeros(count, nodes, dim, dtype=points.dtype, device=points.device)
    bumps[:, 1:-1] = torch.eye(count, dtype=points.dtype, device=points.device).reshape(count, nodes - 2, dim)
    both = torch.cat((points + size * bumps, points - size * bumps)).requires_grad_()
    with torch.enable_grad():
        steps = both.diff(dim=1)
        middle = 0.5 * (both[:, 1:] + both[:, :-1])
        energy = (nodes - 1) * metric.inner(middle, steps, steps).sum()
        (slope,) = torch.autograd.grad(energy, both)
    slope = slope[:, 1:-1].reshape(2, count, count)
    hessian = (slope[0] - slope[1]) / (2.0 * size)
    values, vectors = torch.linalg.eigh(0.5 * (hessian + hessian.mT))
    modes = torch.zeros(count, nodes, dim, dtype=points.dtype, device=points.device)
    modes[:, 1:-1] = vectors.mT.reshape(count, nodes - 2, dim)
    return values / values.abs().max(), modes
