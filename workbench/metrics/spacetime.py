r"""Fisher-Rao geometry of denoising distributions on (x, lambda): noisy point and log signal-to-noise ratio.

With :math:`\alpha^2 = \mathrm{sigmoid}(\lambda)`, :math:`\varsigma^2 = \mathrm{sigmoid}(-\lambda)` and
:math:`x_t = \alpha x_0 + \varsigma\varepsilon`, the posterior :math:`p(x_0 \mid x_t) \propto p(x_0)\,
e^{\langle\eta, T\rangle}` is an exponential family with :math:`\eta = (\alpha x/\varsigma^2,\,
-\alpha^2/(2\varsigma^2))` and :math:`T = (x_0, |x_0|^2)`. Its mean parameters follow from the denoiser alone,

.. math::
    \mu = \big(\hat x_0,\ (\varsigma^2/\alpha)\, \mathrm{div}_x \hat x_0 + |\hat x_0|^2\big),

so that :math:`\langle u, v\rangle = (J_\eta u) \cdot (J_\mu v)` needs no simulation, and neighbours on a
curve are :math:`\langle\Delta\eta, \Delta\mu\rangle` apart (their Jeffreys divergence).

The metric diverges like 1/sigma^2 towards data, so curves must end at a positive noise level.

References:
    Karczewski, Heinonen, Pouplin, Hauberg, Garg, "Spacetime Geometry of Denoising in Diffusion Models", 2025,
        sections 3 and 4, https://arxiv.org/abs/2505.17517
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vjp

from workbench.forward import jvp
from workbench.metrics.base import Chart
from workbench.models import ScoreModel
from workbench.types import Matrices, Nodes, Points, Scalars, Vectors


def _levels(log_snr: Tensor) -> tuple[Tensor, Tensor]:
    return torch.sqrt(torch.sigmoid(log_snr)), torch.sqrt(torch.sigmoid(-log_snr))


def natural_coordinates(z: Points) -> Points:
    """eta of spacetime points z = (x, lambda), the same shape; differentiable, no model call."""
    x, log_snr = z[..., :-1], z[..., -1:]
    signal = torch.exp(0.5 * log_snr)  # alpha over noise
    _, noise = _levels(log_snr)
    return torch.cat((signal / noise * x, -0.5 * signal**2), dim=-1)


def mean_coordinates(model: ScoreModel, z: Points, probe: Tensor | None = None) -> Points:
    """mu = (E x0, E |x0|^2) of the denoising posterior at z = (x, lambda).

    Args:
        model: The score model of dimension dim.
        z: Spacetime points, shape (*batch, dim + 1).
        probe: A vector of signs, shape (dim,), the same for all points of a curve: the divergence is then
            estimated from one product with it. None takes the exact divergence, dim products.

    Returns:
        Shape (*batch, dim + 1). Differentiable. One model call and one (or dim) derivative products a point.
    """
    x, log_snr = z[..., :-1], z[..., -1]
    alpha, noise = _levels(log_snr)
    sigma, y = noise / alpha, x / alpha.unsqueeze(-1)

    def denoise(at: Tensor) -> Tensor:
        return model.denoise(at, sigma)

    if probe is not None:
        clean, pull = vjp(denoise, y)[:2]
        (pulled,) = pull(probe.expand_as(y))
        divergence = (pulled * probe).sum(dim=-1)
    else:
        dim = x.shape[-1]
        axes = torch.eye(dim, dtype=x.dtype, device=x.device).reshape(dim, *(1,) * (x.ndim - 1), dim)
        spread = y.expand(dim, *y.shape).contiguous()
        levels = sigma.expand(dim, *sigma.shape)
        axes = axes.expand_as(spread).contiguous()
        value, pushed = jvp(lambda at: model.denoise(at, levels), (spread,), (axes,))
        clean, divergence = value[0], (pushed * axes).sum(dim=(0, -1))
    second = sigma**2 * divergence + clean.square().sum(dim=-1)  # (s^2/a) div_x = sigma^2 div_y
    return torch.cat((clean, second.unsqueeze(-1)), dim=-1)


@dataclass(frozen=True, slots=True)
class Spacetime:
    """The Fisher-Rao metric on (x, lambda) of a model's denoising posteriors.

    Exact, and positive definite, for models whose denoiser is a true posterior mean; a trained network is one
    only roughly, and is refused where that makes the metric indefinite.

    Attributes:
        model: The score model of dimension dim; the chart has dim + 1 coordinates.
    """

    model: ScoreModel

    @property
    def name(self) -> str:
        """Kind and model."""
        return f"spacetime Fisher-Rao of {self.model.frame.name}"

    @property
    def calls(self) -> float:
        """Derivative of the posterior mean and of its divergence."""
        return 2.0 + 4.0 * self.model.frame.dim

    @property
    def chart(self) -> Chart:
        """(x, lambda)."""
        dim = self.model.frame.dim
        axes = ("x", "log SNR") if dim == 1 else ()
        return Chart("noisy point and log signal-to-noise ratio", dim + 1, axes)

    def inner(self, x: Points, u: Vectors, v: Vectors) -> Scalars:
        """(J_eta u) . (J_mu v), made symmetric."""
        eta_u, eta_v = (jvp(natural_coordinates, (x.contiguous(),), (w.contiguous(),))[1] for w in (u, v))
        mean_u, mean_v = (
            jvp(lambda z: mean_coordinates(self.model, z), (x.contiguous(),), (w.contiguous(),))[1]
            for w in (u, v)
        )
        return 0.5 * ((eta_u * mean_v).sum(dim=-1) + (eta_v * mean_u).sum(dim=-1))

    def matrix(self, x: Points) -> Matrices:
        """J_eta^T J_mu, made symmetric; dim + 1 forward derivatives in one batch."""
        dim = x.shape[-1]
        basis = torch.eye(dim, dtype=x.dtype, device=x.device).reshape(dim, *(1,) * (x.ndim - 1), dim)
        spread = x.expand(dim, *x.shape).contiguous()
        basis = basis.expand_as(spread).contiguous()
        eta = jvp(natural_coordinates, (spread,), (basis,))[1].movedim(0, -1)
        mean = jvp(lambda z: mean_coordinates(self.model, z), (spread,), (basis,))[1].movedim(0, -1)
        g = eta.mT @ mean
        return 0.5 * (g + g.mT)


def spacetime_energy(model: ScoreModel, nodes: Nodes, *, probe: Tensor | None = None) -> Scalars:
    """Energy of discretised spacetime curves without any metric: (nodes - 1) sum of <d eta, d mu>.

    Its square root estimates the length from above with an error of order 1 / nodes^2.

    Args:
        model: The score model of dimension dim.
        nodes: Curves, shape (*batch, nodes, dim + 1).
        probe: Signs for the divergence, shape (dim,); None for the exact one.

    Returns:
        One number a curve. Differentiable. One model call and one derivative product a node with a probe.
    """
    steps = natural_coordinates(nodes).diff(dim=-2) * mean_coordinates(model, nodes, probe).diff(dim=-2)
    return (nodes.shape[-2] - 1) * steps.sum(dim=(-2, -1))
