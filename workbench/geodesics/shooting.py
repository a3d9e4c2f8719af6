r"""Geodesics from a point and a velocity, and vectors carried along curves.

With the momentum :math:`p = g(x) v` a geodesic is :math:`\dot x = g^{-1} p`,
:math:`\dot p = \tfrac12 \nabla_x\, v^\top g(x) v` at fixed v: only first derivatives of the metric enter. A
vector w carried along a curve of velocity v keeps :math:`g\dot w = -\tfrac12 (\partial_v g\, w + \partial_w
g\, v - \nabla_x\, v^\top g w)`. Both are integrated by the classical Runge-Kutta rule of order four; half as
many steps give the error.

References:
    do Carmo, "Riemannian Geometry", 1992, chapters 2 and 3
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.curves import Curve
from workbench.errors import SettingError, ShapeError
from workbench.geodesics.levels import relax_levels
from workbench.geodesics.starts import straight_start
from workbench.metrics.base import DENSE_LIMIT, Metric, check_positive, inside, matrix
from workbench.report import Status
from workbench.types import Nodes, Points, Scalars, Vectors


@dataclass(frozen=True, slots=True)
class Shot:
    """Geodesics shot from points.

    Attributes:
        points: Nodes, shape (*batch, steps + 1, dim); a curve that left the domain stays where it left.
        velocity: Velocity at the end, shape (*batch, dim).
        error: Distance in the chart of the ends with all and with half the steps, shape (*batch).
        inside: Whether the whole curve lies in the domain, shape (*batch).
        speed_drift: Relative change of the squared speed, zero for the exact geodesic, shape (*batch).
    """

    points: Tensor
    velocity: Tensor
    error: Tensor
    inside: Tensor
    speed_drift: Tensor


@dataclass(frozen=True, slots=True)
class Logarithm:
    """Initial velocities of geodesics that reach given points in unit time.

    Attributes:
        velocity: Shape (*batch, dim).
        distance: Length of the geodesic found, shape (*batch).
        error: Error of the length, shape (*batch).
        converged: Whether the relaxation converged, shape (*batch).
        status: How the worst of them ended.
    """

    velocity: Tensor
    distance: Tensor
    error: Tensor
    converged: Tensor
    status: Status


def _dense(metric: Metric) -> None:
    if metric.chart.dim > DENSE_LIMIT:
        raise SettingError(
            f"{metric.name} in {metric.chart.dim} dimensions", f"at most {DENSE_LIMIT}", "a slice of few axes"
        )


def exponential_map(metric: Metric, x: Points, v: Tensor, *, steps: int = 128) -> Shot:
    """Follow geodesics from x with velocity v for unit time.

    Args:
        metric: The metric, at most 16 dimensions.
        x: Starting points inside the domain, shape (*batch, dim).
        v: Velocities there, the same shape.
        steps: Even number of Runge-Kutta steps.

    Returns:
        The curves with error and drift. Detached. Four evaluations of the metric and its derivative a step.

    Raises:
        ShapeError: If x and v differ in shape.
        SettingError: If a point lies outside the domain, the metric is not positive there, or steps is odd.
    """
    _dense(metric)
    if x.shape != v.shape:
        raise ShapeError(f"points {tuple(x.shape)} and velocities {tuple(v.shape)}", "equal shapes")
    if steps < 2 or steps % 2:
        raise SettingError(f"steps={steps}", "an even number of 2 or more")
    check_positive(metric, x)
    start, velocity = x.detach().reshape(-1, x.shape[-1]), v.detach().reshape(-1, v.shape[-1])
    momentum = (matrix(metric, start) @ velocity.unsqueeze(-1)).squeeze(-1).detach()
    points, last, stays = _shoot(metric, start, momentum, steps)
    coarse, _, _ = _shoot(metric, start, momentum, steps // 2)
    end_velocity = _raise(metric, points[:, -1], last)
    before = (velocity * momentum).sum(dim=-1)
    after = (end_velocity * last).sum(dim=-1)
    drift = torch.where(before > 0.0, (after / before - 1.0).abs(), torch.zeros_like(before))
    shape = x.shape[:-1]
    return Shot(
        points.reshape(*shape, steps + 1, -1),
        end_velocity.reshape(x.shape),
        torch.linalg.vector_norm(points[:, -1] - coarse[:, -1], dim=-1).reshape(shape),
        stays.reshape(shape),
        drift.reshape(shape),
    )


def _raise(metric: Metric, x: Tensor, p: Tensor) -> Tensor:
    return torch.linalg.solve(matrix(metric, x), p).detach()


def _shoot(metric: Metric, x: Tensor, p: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    h = 1.0 / steps
    stays = torch.ones(x.shape[0], dtype=torch.bool, device=x.device)
    nodes = [x]
    for _ in range(steps):
        rates: list[tuple[Tensor, Tensor]] = []
        fine = stays.clone()
        for share in (0.0, 0.5, 0.5, 1.0):
            at, momentum = x, p
            if rates:
                at, momentum = x + share * h * rates[-1][0], p + share * h * rates[-1][1]
            fine = fine & inside(metric, at) & torch.isfinite(at).all(dim=-1)
            at = torch.where(fine.unsqueeze(-1), at, x)
            rates.append(_hamilton(metric, at, momentum))
        moves = [(a + 2.0 * b + 2.0 * c + d) * (h / 6.0) for a, b, c, d in zip(*rates, strict=True)]
        fine = fine & inside(metric, torch.where(fine.unsqueeze(-1), x + moves[0], x))
        x = torch.where(fine.unsqueeze(-1), x + moves[0], x)
        p = torch.where(fine.unsqueeze(-1), p + moves[1], p)
        stays = stays & fine
        nodes.append(x)
    return torch.stack(nodes, dim=1), p, stays


def _hamilton(metric: Metric, x: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        at = x.detach().requires_grad_()
        g = matrix(metric, at)
        v = torch.linalg.solve(g.detach(), p)
        energy = 0.5 * torch.einsum("ni,nij,nj->", v, g, v)
        force = torch.autograd.grad(energy, at)[0] if energy.requires_grad else torch.zeros_like(p)
    return v, force


def log_map(
    metric: Metric,
    start: Points,
    end: Tensor,
    *,
    nodes: int = 33,
    tol: float = 1e-9,
    max_iterations: int = 500,
) -> Logarithm:
    """Velocities at start of the geodesics that reach end in unit time, for batches.

    Each pair starts from its straight line, so that the geodesic found is the one nearest to it; several
    targets of one point are a batch with that point repeated (broadcasting does it).

    Args:
        metric: The metric.
        start: Points, shape (*batch, dim).
        end: Points that broadcast against start.
        nodes: Nodes on the coarsest of three levels.
        tol: Relative residual.
        max_iterations: Iterations at most on a level.

    Returns:
        Velocities with distances and errors; zero where start equals end. All pairs in one batch.

    Raises:
        SettingError: If an end lies outside the domain or the metric is not positive there.
    """
    start, end = torch.broadcast_tensors(start, end)
    shape = start.shape
    for points in (start, end):
        if shape[-1] <= DENSE_LIMIT:
            check_positive(metric, points)
    a, b = start.reshape(-1, shape[-1]), end.reshape(-1, shape[-1])
    apart = (a != b).any(dim=-1)
    velocity, distance, error = torch.zeros_like(a), torch.zeros_like(a[:, 0]), torch.zeros_like(a[:, 0])
    converged, status = torch.ones_like(apart), Status.CONVERGED
    if bool(apart.any()):
        found = relax_levels(
            metric, straight_start(a[apart], b[apart], nodes), tol=tol, max_iterations=max_iterations
        )
        velocity[apart], distance[apart], error[apart] = found.velocity, found.length, found.error
        converged[apart], status = found.converged, found.status
    batch = shape[:-1]
    return Logarithm(
        velocity.reshape(shape),
        distance.reshape(batch),
        error.reshape(batch),
        converged.reshape(batch),
        status,
    )


def parallel_transport(metric: Metric, curve: Curve, w: Vectors, *, steps: int = 128) -> Nodes:
    """Carry vectors along curves so that the metric sees them unchanged.

    Args:
        metric: The metric, at most 16 dimensions.
        curve: Curves inside the domain, points of shape (*batch, nodes, dim).
        w: Vectors at their starts, shape (*batch, dim).
        steps: Runge-Kutta steps.

    Returns:
        The vector at each step, shape (*batch, steps + 1, dim). Lengths and angles are kept to order
        steps^-4. Detached.
    """
    _dense(metric)
    at = torch.linspace(0.0, 1.0, 2 * steps + 1, dtype=w.dtype, device=w.device)
    points, speeds = curve(at).detach(), curve.velocity(at).detach()
    h = 1.0 / steps
    carried = [w.detach()]
    for k in range(steps):
        now = carried[-1]
        first = _connection(metric, points[..., 2 * k, :], speeds[..., 2 * k, :], now)
        middle, speed = points[..., 2 * k + 1, :], speeds[..., 2 * k + 1, :]
        second = _connection(metric, middle, speed, now + 0.5 * h * first)
        third = _connection(metric, middle, speed, now + 0.5 * h * second)
        last = _connection(metric, points[..., 2 * k + 2, :], speeds[..., 2 * k + 2, :], now + h * third)
        carried.append(now + (first + 2.0 * second + 2.0 * third + last) * (h / 6.0))
    return torch.stack(carried, dim=-2)


def _connection(metric: Metric, x: Tensor, v: Tensor, w: Tensor) -> Tensor:
    """dw/ds of a carried vector: minus the Christoffel symbols applied to v and w."""
    turn_w, turn_v = _derivative_of_lowering(metric, x, w), _derivative_of_lowering(metric, x, v)
    force = torch.einsum("i...k,...k->...i", turn_w, v) + torch.einsum("i...k,...k->...i", turn_v, w)
    force = force - torch.einsum("i...k,...i->...k", turn_w, v)
    return -0.5 * torch.linalg.solve(matrix(metric, x), force).detach()


def _derivative_of_lowering(metric: Metric, x: Tensor, w: Tensor) -> Tensor:
    """d (g w)_i / d x_k at fixed w, shape (dim, *batch, dim), i first: one reverse derivative."""
    dim = x.shape[-1]
    basis = torch.eye(dim, dtype=x.dtype, device=x.device).reshape(dim, *(1,) * (x.ndim - 1), dim)
    with torch.enable_grad():
        at = x.detach().expand(dim, *x.shape).contiguous().requires_grad_()
        lowered = metric.inner(at, basis.expand_as(at), w.detach().expand_as(at)).sum()
        return torch.autograd.grad(lowered, at)[0] if lowered.requires_grad else torch.zeros_like(at)


def geodesic_residual(metric: Metric, x: Points, v: Vectors, acceleration: Vectors) -> Scalars:
    """Metric size of the covariant acceleration of a curve at given points, over its squared speed."""
    rest = acceleration - _connection(metric, x, v, v)
    return torch.sqrt(metric.inner(x, rest, rest)) / metric.inner(x, v, v)
