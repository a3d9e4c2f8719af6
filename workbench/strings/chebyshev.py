"""Runge-Kutta-Chebyshev steps: second order, with a stable reach that grows with the square of the stages.

Every step also measures the curvature that it met, so that a caller can tell a step beyond its limit, which
is finite and smooth and wrong, from a sound one.

References:
    Sommeijer, Shampine, Verwer, "RKC: an explicit solver for parabolic PDEs", 1998,
        https://doi.org/10.1016/S0377-0427(97)00219-7
"""

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor


@cache
def _chebyshev(stages: int) -> tuple[tuple[float, ...], ...]:
    """Coefficients (mu, nu, mu~, gamma~) of the damped second-order method, one row a stage from the
    second."""
    w0 = 1.0 + 2.0 / 13.0 / stages**2
    t, d, dd = [1.0, w0], [0.0, 1.0], [0.0, 0.0]
    for _ in range(2, stages + 1):
        t, d, dd = (
            [*t, 2 * w0 * t[-1] - t[-2]],
            [*d, 2 * t[-1] + 2 * w0 * d[-1] - d[-2]],
            [*dd, 4 * d[-1] + 2 * w0 * dd[-1] - dd[-2]],
        )
    w1 = d[stages] / dd[stages]
    b = [dd[j] / d[j] ** 2 if j >= 2 else dd[2] / d[2] ** 2 for j in range(stages + 1)]
    rows: list[tuple[float, ...]] = [(b[1] * w1,)]
    for j in range(2, stages + 1):
        mu = 2 * b[j] * w1 / b[j - 1]
        rows.append((2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2], mu, -(1 - b[j - 1] * t[j - 1]) * mu))
    return tuple(rows)


def stable_reach(stages: int) -> float:
    """Largest product of step and curvature that the Chebyshev method of so many stages damps."""
    w0 = 1.0 + 2.0 / 13.0 / stages**2
    angle = math.acosh(w0)
    th, sh = math.cosh(stages * angle), math.sinh(stages * angle)
    first = stages * sh / math.sinh(angle)
    second = (stages**2 * th - w0 * first) / (w0**2 - 1.0)
    return (w0 + 1.0) * second / first


def stages_for(product: float) -> int:
    """Fewest stages, two or more, whose stable reach covers a product of step and curvature."""
    stages = 2
    while stable_reach(stages) < product:
        stages += 1
    return stages


def curvature_along(x: Tensor, before: Tensor, after: Tensor, move: Tensor) -> Tensor:
    """Curvature of the energy along a move from x, from the forces at its ends.

    0 where the energy falls ever faster, and where the move is so small that rounding decides.
    """
    size = torch.linalg.vector_norm(move, dim=-1)
    least = 100.0 * torch.finfo(x.dtype).eps ** 0.75 * (1.0 + torch.linalg.vector_norm(x, dim=-1))
    rise = ((before - after) * move).sum(-1) / size.square().clamp_min(torch.finfo(x.dtype).tiny)
    return torch.where(size > least, rise.clamp_min(0.0), 0.0)


def chebyshev_step(
    force: Callable[[Tensor], Tensor],
    x: Tensor,
    step: float | Tensor,
    stages: int,
    first: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One second-order step of dx/dt = force(x), stable up to curvature `stable_reach(stages) / step`.

    Args:
        force: Right-hand side.
        x: State, shape (*batch, dim).
        step: Step, a number or of a shape that broadcasts against x.
        stages: Number of stages, at least 2.
        first: force(x), if it is known.

    Returns:
        (state after the step, curvature met in the first stage, shape (*batch)). `stages` evaluations.
    """
    rows = _chebyshev(stages)
    f0 = force(x) if first is None else first
    before, now = x, x + rows[0][0] * step * f0
    curvature = torch.zeros_like(x[..., 0])
    for j, (mu, nu, mu_f, gamma_f) in enumerate(rows[1:]):
        f = force(now)
        if j == 0:
            curvature = curvature_along(x, f0, f, now - x)
        before, now = now, (1 - mu - nu) * x + mu * now + nu * before + step * (mu_f * f + gamma_f * f0)
    return now, curvature
