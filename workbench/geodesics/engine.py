r"""The engine: discretised geodesics of any metric, many curves at once.

A curve with nodes :math:`x_0 = a, \dots, x_n = b`, steps :math:`u_k = x_{k+1} - x_k` and midpoints
:math:`m_k` has the energy :math:`E = n \sum_k u_k^\top g(m_k)\, u_k`, exact up to order :math:`1/n^2` with an
expansion in even powers. With :math:`\nu_k = \nabla_m\, u_k^\top g(m_k) u_k` the stationary steps satisfy,
for one multiplier :math:`\mu` that holds the ends,

.. math::
    2 g_k u_k + \tau_k + \mu = 0, \qquad \tau_k = \tfrac12 \nu_k + \sum_{s>k} \nu_s .

Each iteration freezes g and tau, solves this linear system in closed form, and backtracks along the
difference d, which is a descent direction of slope :math:`-2\sum_k d_k^\top g_k d_k`, until the energy falls
and the curve lies inside the metric's domain. On ill-conditioned metrics this converges linearly, so the same
linear solve serves as the starting inverse of a limited-memory quasi-Newton direction. The derivative of the
metric is part of the gradient; leaving out tau is another method with another answer (`freeze=True`: the
stationary curves of :math:`(g \dot c)^{\boldsymbol\cdot} = 0`, for a Hessian metric the straight lines of its
dual coordinates).

Dense matrices up to 16 dimensions; beyond, any metric that knows its own inverse, with conjugate gradients
for mu.

References:
    Nocedal, "Updating quasi-Newton matrices with limited storage", 1980
    Rygaard, Hauberg, "GEORCE: A Fast New Control Algorithm for Computing Geodesics", 2025,
        https://arxiv.org/abs/2505.05961 (there with g at the left node; here at the midpoint, for its even
        expansion)
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.metrics.base import DENSE_LIMIT, Metric, Solvable, inside, lower, matrix, point_in_words
from workbench.types import Nodes, Scalars

_SUFFICIENT = 1e-3  # share of the predicted fall that a step must achieve
_HALVINGS = 40
_MEMORY = 10
_ROUNDING = 1e-6  # a residual at which the energy left to gain is lost in float64 sums
_ROWS = ("points", "steps", "middle", "slope", "density", "good", "energy", "g", "factor")  # one a curve


class NoCurveLeft(SettingError):
    """A starting curve that leaves where the metric holds, and no other one to go on with.

    Attributes:
        evaluations: Evaluations of the metric until then, in points.
    """

    evaluations: int = 0


@dataclass(frozen=True, slots=True)
class Relaxed:
    """Curves after relaxation.

    Attributes:
        points: Nodes, shape (curves, nodes, dim).
        energy: E of each, shape (curves,).
        length: Sum of the lengths of its steps, shape (curves,).
        residual: Metric size of the last full step over that of the curve, shape (curves,).
        converged: Whether the residual reached the tolerance, or no step lowers the energy beyond rounding.
        iterations: Iterations of the slowest curve.
        evaluations: Evaluations of the metric, in points.
        history: Largest residual at each iteration.
        kept: Which starting curves these are, shape (curves,): all of them, unless some were dropped.
    """

    points: Tensor
    energy: Tensor
    length: Tensor
    residual: Tensor
    converged: Tensor
    iterations: int
    evaluations: int
    history: tuple[float, ...]
    kept: Tensor


def segment_lengths(metric: Metric, points: Nodes) -> Tensor:
    """Metric length of each step of discretised curves, g taken at midpoints; shape (*batch, nodes - 1)."""
    steps = points.diff(dim=-2)
    middle = 0.5 * (points[..., 1:, :] + points[..., :-1, :])
    return torch.sqrt(metric.inner(middle, steps, steps))


def curve_length(metric: Metric, points: Nodes) -> Scalars:
    """Length of discretised curves by the midpoint rule, of order 1 / nodes^2. Differentiable."""
    return segment_lengths(metric, points).sum(dim=-1)


def curve_energy(metric: Metric, points: Nodes) -> Scalars:
    """Energy of discretised curves by the midpoint rule; at least the squared length. Differentiable."""
    return (points.shape[-2] - 1) * segment_lengths(metric, points).square().sum(dim=-1)


def curve_inside(metric: Metric, points: Nodes) -> Tensor:
    """True for curves whose nodes and midpoints all lie in the metric's domain, shape (*batch)."""
    middle = 0.5 * (points[..., 1:, :] + points[..., :-1, :])
    return inside(metric, points).all(dim=-1) & inside(metric, middle).all(dim=-1)


def curve_usable(metric: Metric, points: Tensor) -> Tensor:
    """True for curves inside the domain along which the metric is finite and positive, shape (curves,)."""
    safe = curve_inside(metric, points)
    found = safe.clone()
    if bool(safe.any()):
        found[safe.clone()] = _Local(metric, points[safe].detach()).good
    return found


class _Local:
    """Metric and its derivative at the midpoints of curves that lie inside the domain."""

    def __init__(self, metric: Metric, points: Tensor) -> None:
        self.points, self.metric = points, metric
        self.steps = points.diff(dim=1)
        self.middle = (points[:, :-1] + 0.5 * self.steps).detach()
        self.dense = points.shape[-1] <= DENSE_LIMIT
        with torch.enable_grad():
            middle = self.middle.clone().requires_grad_()
            if self.dense:
                g = matrix(metric, middle)
                density = torch.einsum("cki,ckij,ckj->ck", self.steps, g, self.steps)
            else:
                density = metric.inner(middle, self.steps, self.steps)
            if density.requires_grad:
                (self.slope,) = torch.autograd.grad(density.sum(), middle)
            else:
                self.slope = torch.zeros_like(middle)
        self.density = density.detach()
        good = torch.isfinite(self.density) & torch.isfinite(self.slope).all(dim=2) & (self.density >= 0.0)
        if self.dense:
            self.g = g.detach().contiguous()
            clean = torch.where(torch.isfinite(self.g), self.g, torch.zeros_like(self.g))
            self.factor, info = torch.linalg.cholesky_ex(clean)
            good &= info == 0
        self.sound, self.good = good, good.all(dim=1)
        self.energy = torch.where(self.good, self.steps.shape[1] * self.density.sum(dim=1), torch.inf)

    def keep(self, chosen: Tensor) -> None:
        """Go on with the chosen curves alone."""
        for name in _ROWS:
            if name in vars(self):
                setattr(self, name, getattr(self, name)[chosen])

    def solve(self, w: Tensor) -> Tensor:
        """g^-1 w at every midpoint, shape (curves, steps, dim)."""
        if self.dense:
            return torch.cholesky_solve(w.unsqueeze(-1), self.factor).squeeze(-1)
        return cast(Solvable, self.metric).raise_index(self.middle, w).detach()

    def square(self, d: Tensor) -> Tensor:
        """Sum over the steps of d^T g d, shape (curves,)."""
        if self.dense:
            return torch.einsum("cki,ckij,ckj->c", d, self.g, d)
        return self.metric.inner(self.middle, d, d).sum(dim=1).detach()

    def gradient(self, freeze: bool) -> Tensor:
        """Derivative of the energy over n in the steps, up to one constant a curve: 2 g u + tau."""
        if self.dense:
            pulled = 2.0 * torch.einsum("ckij,ckj->cki", self.g, self.steps)
        else:
            pulled = 2.0 * lower(self.metric, self.middle, self.steps).detach()
        if freeze:
            return pulled
        return pulled + self.slope.flip(1).cumsum(1).flip(1) - 0.5 * self.slope

    def precondition(self, w: Tensor) -> Tensor:
        """Half of g^-1 (w + mu) with the mu that makes the steps add up to nothing: ends stay."""
        pulled = self.solve(w)
        mu = self.multiplier(-pulled.sum(dim=1))
        return 0.5 * (pulled + self.solve(mu.unsqueeze(1).expand_as(w)))

    def multiplier(self, target: Tensor) -> Tensor:
        """mu with (sum_k g_k^-1) mu = target, shape (curves, dim)."""
        if self.dense:
            return torch.linalg.solve(torch.cholesky_inverse(self.factor).sum(dim=1), target)
        steps = self.steps.shape[1]

        def apply(w: Tensor) -> Tensor:
            return self.solve(w.unsqueeze(1).expand(-1, steps, -1)).sum(dim=1)

        mu = torch.zeros_like(target)
        rest = target.clone()
        way, size = rest.clone(), rest.square().sum(dim=1)
        goal = 1e-24 * size
        for _ in range(200):
            if bool((size <= goal).all()):
                break
            image = apply(way)
            step = size / (way * image).sum(dim=1).clamp_min(torch.finfo(size.dtype).tiny)
            mu = mu + step[:, None] * way
            rest = rest - step[:, None] * image
            fresh = rest.square().sum(dim=1)
            way = rest + (fresh / size.clamp_min(torch.finfo(size.dtype).tiny))[:, None] * way
            size = fresh
        return mu


def relax(
    metric: Metric,
    points: Nodes,
    *,
    tol: float = 1e-7,
    max_iterations: int = 500,
    freeze: bool = False,
    drop: bool = False,
    cancelled: Callable[[], bool] | None = None,
) -> Relaxed:
    """Relax curves with fixed ends to geodesics.

    Args:
        metric: The metric; at most 16 dimensions, or one that knows its inverse.
        points: Starting curves where the metric holds, shape (curves, nodes, dim).
        tol: Metric size of a full step over that of the curve, at which to stop; lengths are then exact for
            their discretisation to about tol squared.
        max_iterations: Iterations at most.
        freeze: Leave out the derivative of the metric: the published frozen-metric curve, not a geodesic.
        drop: Go on without the starting curves along which the metric does not hold, while one is left.
        cancelled: Asked once an iteration; True ends with what there is.

    Returns:
        The relaxed curves, ends unchanged. Detached from the graph. Each iteration evaluates the metric and
        its derivative at every midpoint of every curve, once or (backtracking) a few times.

    Raises:
        SettingError: If the dimension is too large for the metric.
        NoCurveLeft: If a starting curve leaves the domain or meets a metric that is not positive definite;
            with `drop`, if every one does.
    """
    dim = points.shape[2]
    if dim > DENSE_LIMIT and not isinstance(metric, Solvable):
        raise SettingError(
            f"geodesics of {metric.name} in {dim} dimensions",
            f"at most {DENSE_LIMIT}, or a metric with raise_index (conformal, rank-one score)",
            "a slice of few axes through the latent space",
        )
    here, kept, evaluations = _begin(metric, points, drop)
    curves = len(kept)
    residual = torch.full((curves,), torch.inf, dtype=points.dtype, device=points.device)
    active = torch.ones(curves, dtype=torch.bool, device=points.device)
    memory: deque[tuple[Tensor, Tensor]] = deque(maxlen=0 if freeze else _MEMORY)
    history: list[float] = []
    slope = here.gradient(freeze)
    for _ in range(max_iterations):
        plain = -here.precondition(slope)
        fall = here.square(plain)
        residual = torch.where(active, torch.sqrt(fall / here.density.sum(dim=1)), residual)
        history.append(float(residual.max()))
        active = active & (residual > tol)
        if not bool(active.any()) or (cancelled is not None and cancelled()):
            break
        way = _quasi_newton(here, slope, memory) if memory else plain
        descent = (way * slope).sum(dim=(1, 2))
        poor = descent > -1e-2 * fall
        way = torch.where(poor[:, None, None], plain, way)
        descent = torch.where(poor, -2.0 * fall, descent)
        before, slope_before = here.steps.clone(), slope
        evaluations += _advance(metric, here, way, descent, active, freeze)
        slope = here.gradient(freeze)
        memory.append((here.steps - before, slope - slope_before))
    length = torch.sqrt(here.density.clamp_min(0.0)).sum(dim=1)
    done = (residual <= tol) | (~active & (residual <= _ROUNDING))
    return Relaxed(
        here.points, here.energy, length, residual, done, len(history), evaluations, tuple(history), kept
    )


def _begin(metric: Metric, points: Tensor, drop: bool) -> tuple[_Local, Tensor, int]:
    """The metric along the starting curves where it holds, which these are, and its evaluations in points."""
    curves = points.shape[0]
    kept = torch.arange(curves, device=points.device)
    within = curve_inside(metric, points)
    if not bool(within.any() if drop else within.all()):
        k = int((~within).nonzero()[0])
        both = torch.cat((points[k], 0.5 * (points[k, 1:] + points[k, :-1])))
        raise NoCurveLeft(
            f"starting curve {k} of {curves}, which leaves the domain of {metric.name} at "
            + point_in_words(both[~inside(metric, both)][0]),
            "curves inside it",
            "via points, or another chart",
        )
    kept = kept[within]
    here = _Local(metric, points[kept].detach().clone())
    evaluations = len(kept) * (points.shape[1] - 1)
    if not bool(here.good.any() if drop else here.good.all()):
        k = int((~here.good).nonzero()[0])
        left = NoCurveLeft(
            f"a metric {metric.name} that is indefinite, singular or not finite along starting curve "
            f"{int(kept[k])}, at {point_in_words(here.middle[k][~here.sound[k]][0])}",
            "a positive definite metric",
            "Sum(metric, Scaled(Euclidean(chart), eps)), or another start",
        )
        left.evaluations = evaluations
        raise left
    kept = kept[here.good]
    here.keep(here.good)
    return here, kept, evaluations


def _quasi_newton(here: _Local, slope: Tensor, memory: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """The limited-memory direction of every curve; pairs without positive curvature count as absent."""
    rest, stack = slope, []
    for moved, turned in reversed(tuple(memory)):
        product = (moved * turned).sum(dim=(1, 2))
        size = (moved.square().sum(dim=(1, 2)) * turned.square().sum(dim=(1, 2))).sqrt()
        rate = torch.where(product > 1e-10 * size, 1.0 / product, torch.zeros_like(product))
        share = rate * (moved * rest).sum(dim=(1, 2))
        rest = rest - share[:, None, None] * turned
        stack.append((moved, turned, rate, share))
    way = here.precondition(rest)
    for moved, turned, rate, share in reversed(stack):
        way = way + (share - rate * (turned * way).sum(dim=(1, 2)))[:, None, None] * moved
    return -way


def _advance(metric: Metric, here: _Local, way: Tensor, descent: Tensor, active: Tensor, freeze: bool) -> int:
    """Step each active curve as far as its energy falls and its domain reaches; stuck ones retire."""
    evaluations = 0
    moves = torch.cat((torch.zeros_like(way[:, :1]), way.cumsum(dim=1)), dim=1)
    moves[:, -1] = 0.0  # the ends never move, not even by rounding
    size = torch.ones_like(descent)
    waiting = active.clone()
    steps = way.shape[1]
    for _ in range(_HALVINGS):
        trial = here.points + (size * waiting)[:, None, None] * moves
        safe = curve_inside(metric, trial)
        trial = torch.where(safe[:, None, None], trial, here.points)
        index = waiting.nonzero().squeeze(1)
        there = _Local(metric, trial[index])
        evaluations += index.numel() * steps
        energy, good = here.energy.clone(), safe.clone()
        energy[index], good[index] = there.energy, good[index] & there.good
        target = here.energy + _SUFFICIENT * steps * size * descent + 4e-15 * here.energy
        accepted = waiting & good & ((energy <= target) | freeze)
        if bool(accepted.any()):
            _place(here, there, index, accepted)
        waiting = waiting & ~accepted
        if not bool(waiting.any()):
            return evaluations
        size = torch.where(waiting, 0.5 * size, size)
    active &= ~waiting
    return evaluations


def _place(here: _Local, there: _Local, index: Tensor, accepted: Tensor) -> None:
    chosen = accepted[index]
    for name in _ROWS:
        if name in vars(there):
            getattr(here, name)[index[chosen]] = getattr(there, name)[chosen]
