r"""Hessian metrics: the Fisher metric of an exponential family in its natural coordinates.

For a convex potential psi, :math:`g = \nabla^2 \psi(t)`; the dual coordinates are :math:`\eta =
\nabla\psi(t)` and the divergence :math:`D(t, t') = \psi(t) - \psi(t') - \langle \nabla\psi(t'), t - t'
\rangle`. Three kinds of straightness live here: in t (e-geodesic), in eta (m-geodesic), and shortest
(Levi-Civita).

The Hessian of psi is the Fisher metric only in natural coordinates. To use others, fit psi in natural ones
and pull the metric back through the change of coordinates (`in_coordinates`); the Hessian of psi taken in the
new coordinates is another tensor.

References:
    Amari, Nagaoka, "Methods of Information Geometry", 2000, chapter 3
    Lobashev, Guskov, Larchenko, Tamm, "Hessian Geometry of Latent Space in Generative Models", 2025, section
    3,
        https://arxiv.org/abs/2506.10632
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import grad

from workbench.errors import NotConverged, SettingError
from workbench.forward import jvp
from workbench.metrics.base import Chart, Metric, inside
from workbench.metrics.pullback import Pullback
from workbench.types import Matrices, Points, Scalars, Vectors

_FLAT_LAYERS = (
    nn.ReLU,
    nn.ReLU6,
    nn.LeakyReLU,
    nn.PReLU,
    nn.RReLU,
    nn.Hardtanh,
    nn.Hardsigmoid,
    nn.Threshold,
)


@dataclass(frozen=True, slots=True)
class Hessian:
    """g = Hessian of a potential in natural coordinates.

    Attributes:
        potential: psi, from points (*batch, dim) to one number each; convex and twice differentiable.
        chart: The natural coordinates.
        name: Its name.
        calls: Model calls of one evaluation of psi, times about 5 for one product.
        domain: True inside the domain; None for everywhere.
        closed: The matrix in closed form, where it is known; None for automatic differentiation.
    """

    potential: Callable[[Tensor], Tensor]
    chart: Chart
    name: str = "Hessian"
    calls: float = 0.0
    domain: Callable[[Tensor], Tensor] | None = None
    closed: Callable[[Tensor], Tensor] | None = None

    def dual(self, x: Points) -> Points:
        """eta = grad psi: the mean statistic at natural point x; differentiable."""
        return grad(lambda y: self.potential(y).sum())(x)

    def divergence(self, x: Points, y: Points) -> Scalars:
        """Bregman divergence psi(x) - psi(y) - grad psi(y) . (x - y) = KL(p_y || p_x)."""
        return self.potential(x) - self.potential(y) - (self.dual(y) * (x - y)).sum(dim=-1)

    def inner(self, x: Points, u: Vectors, v: Vectors) -> Scalars:
        """u . (Hessian v), by a forward derivative of the gradient."""
        if self.closed is not None:
            return torch.einsum("...i,...ij,...j->...", u, self.closed(x), v)
        return (u * jvp(self.dual, (x.contiguous(),), (v.contiguous(),))[1]).sum(dim=-1)

    def matrix(self, x: Points) -> Matrices:
        """The Hessian, by dim forward derivatives of the gradient in one batch."""
        if self.closed is not None:
            return self.closed(x)
        dim = x.shape[-1]
        basis = torch.eye(dim, dtype=x.dtype, device=x.device).reshape(dim, *(1,) * (x.ndim - 1), dim)
        spread = x.expand(dim, *x.shape).contiguous()
        columns = jvp(self.dual, (spread,), (basis.expand_as(spread).contiguous(),))[1].movedim(0, -1)
        return 0.5 * (columns + columns.mT)

    def inside(self, x: Points) -> Tensor:
        """Inside the domain, if there is one."""
        if self.domain is None:
            return torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)
        return self.domain(x)


def natural_of(
    metric: Hessian, eta: Points, guess: Points, *, tol: float = 1e-12, max_iterations: int = 100
) -> Points:
    """Natural coordinates of dual ones: solves grad psi(t) = eta by damped Newton steps.

    Args:
        metric: The Hessian metric.
        eta: Dual coordinates, shape (*batch, dim).
        guess: Where to start, inside the domain, the same shape.
        tol: Relative size of grad psi - eta at which to stop.
        max_iterations: Newton steps at most.

    Returns:
        t of eta's shape.

    Raises:
        NotConverged: If some eta is no gradient of psi within reach of the guess.
    """
    t, scale = guess.clone(), eta.abs().amax(dim=-1).clamp_min(1.0)

    def objective(at: Tensor) -> Tensor:
        value = metric.potential(at) - (eta * at).sum(dim=-1)
        return torch.where(
            inside(metric, at) & torch.isfinite(value), value, torch.full_like(value, torch.inf)
        )

    for _ in range(max_iterations):
        gap = eta - metric.dual(t)
        if bool((gap.abs().amax(dim=-1) <= tol * scale).all()):
            return t
        step = torch.linalg.solve(metric.matrix(t), gap)
        before, size = objective(t), torch.ones_like(scale)
        slack = 1e-13 * before.abs().clamp_min(1.0)
        for _ in range(40):
            worse = objective(t + size.unsqueeze(-1) * step) > before + slack
            if not bool(worse.any()):
                break
            size = torch.where(worse, 0.5 * size, size)
        t = t + size.unsqueeze(-1) * step
    gap = (eta - metric.dual(t)).abs().amax(dim=-1) / scale
    if bool((gap > 1e3 * tol).any()):
        raise NotConverged(f"natural coordinates not found, relative gap {float(gap.max()):.2e}")
    return t


def in_coordinates(
    metric: Metric,
    to_natural: Callable[[Tensor], Tensor],
    chart: Chart,
    *,
    domain: Callable[[Tensor], Tensor] | None = None,
) -> Pullback:
    """The same metric in other coordinates: J^T g J with J the Jacobian of the change.

    Args:
        metric: A metric, e.g. a Hessian one in natural coordinates.
        to_natural: From the new coordinates to the metric's own, row by row.
        chart: The new coordinates.
        domain: True where the change is defined; None for everywhere.

    Returns:
        The pullback; in general no longer the Hessian of anything in the new chart.
    """
    return Pullback(to_natural, chart, metric, metric.name, domain)


def check_smooth(network: nn.Module) -> None:
    """Refuse a potential whose second derivative vanishes almost everywhere.

    Args:
        network: The network of psi.

    Raises:
        SettingError: If it holds a piecewise linear activation; its Hessian, and so the metric, would be zero
            or wrong although psi and its gradient fit well.
    """
    for name, layer in network.named_modules():
        if isinstance(layer, _FLAT_LAYERS):
            raise SettingError(
                f"a potential with the piecewise linear {type(layer).__name__} at {name or 'its top'!r}",
                "activations with a second derivative",
                "nn.Softplus() or nn.SiLU() in its place",
            )


def burg() -> Hessian:
    """psi = -ln t1 - ln t2 on positive t: the metric of two independent exponentials; flat in ln t."""
    return Hessian(
        lambda t: -torch.log(t).sum(dim=-1),
        Chart("natural", 2, ("t1", "t2")),
        "Burg",
        domain=lambda t: (t > 0.0).all(dim=-1),
        closed=lambda t: torch.diag_embed(t**-2),
    )


def log_cosh() -> Hessian:
    """psi = ln(2 cosh t), one spin: distance |gd t - gd t'| with gd t = 2 atan tanh(t/2)."""
    return Hessian(
        lambda t: (t.abs() + torch.log1p(torch.exp(-2.0 * t.abs()))).squeeze(-1),
        Chart("natural", 1, ("t",)),
        "one spin",
        closed=lambda t: (torch.cosh(t) ** -2).unsqueeze(-1),
    )


def gaussian_natural() -> Hessian:
    """N(mu, s^2) in t = (mu / s^2, -1 / (2 s^2)), t2 < 0: psi = -t1^2 / (4 t2) - ln(-2 t2) / 2."""
    return Hessian(
        lambda t: -(t[..., 0] ** 2) / (4.0 * t[..., 1]) - 0.5 * torch.log(-2.0 * t[..., 1]),
        Chart("natural", 2, ("mu/s²", "-1/(2s²)")),
        "Fisher of a Gaussian",
        domain=lambda t: t[..., 1] < 0.0,
    )


def categorical_natural(count: int) -> Hessian:
    """A categorical in its count - 1 log odds against the last outcome: psi = ln(1 + sum exp t)."""
    return Hessian(
        lambda t: torch.logsumexp(torch.cat((t, torch.zeros_like(t[..., :1])), dim=-1), dim=-1),
        Chart("natural", count - 1),
        "Fisher of a categorical",
    )
