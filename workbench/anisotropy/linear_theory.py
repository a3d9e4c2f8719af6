r"""Denoising with a linear network: the case where the direction's effect is a formula.

**One noise level.** Data N(0, v v^T), score Omega x with Omega = Phi Theta, A = Phi Phi^T with eigenvalues
:math:`\lambda_1 \ge \dots \ge \lambda_D` and v the i-th eigenvector. Gradient descent of step eta on the
population loss shrinks the mean error by :math:`1 - 2\eta\rho_i` a step,

.. math::
    \rho_i = \min\big((\sigma^2 + 1)\lambda_i,\ \sigma^2 \min_{j \ne i}\lambda_j\big),

and the trace of a sample's gradient covariance at the optimum is
:math:`4 (1 + D\sigma^2)\lambda_i / (\sigma^2(\sigma^2 + 1))`: proportional to lambda_i. The plain guess
:math:`\rho_i = \sigma^2\lambda_i` is wrong.

**Many noise levels.** One matrix a level, noise as the target, trained for a number of steps from zero; the
sampler's covariance is propagated exactly, so that W2 to the data needs no sample. Here small eigenvalues
win.

References:
    On the Anisotropy of Score-Based Generative Models (Floros et al., 2025), theorem 1,
    https://arxiv.org/abs/2510.22899
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.anisotropy.distances import gaussian_distance
from workbench.errors import SettingError


def decay_rate(values: Tensor, index: int, sigma: float) -> float:
    """rho_i: the slowest decay of the mean error for data along eigenvector i, starting from zero.

    Args:
        values: Eigenvalues of Phi Phi^T, any order, shape (dim,).
        index: Place of the data's direction among them.
        sigma: Noise level.

    Returns:
        The rate; the error shrinks by 1 - 2 eta rho a step.
    """
    others = torch.cat([values[:index], values[index + 1 :]])
    return min((sigma**2 + 1.0) * float(values[index]), sigma**2 * float(others.min()))


def gradient_noise(values: Tensor, index: int, sigma: float) -> float:
    """Trace of the per-sample gradient covariance at the optimum for data along eigenvector i."""
    dim = values.shape[0]
    return 4.0 * (1.0 + dim * sigma**2) * float(values[index]) / (sigma**2 * (sigma**2 + 1.0))


@dataclass(frozen=True, slots=True)
class LinearDiffusion:
    """What a linear diffusion trained for a while generates, without sampling.

    Attributes:
        values: Eigenvalues of Phi Phi^T, ascending, shape (dim,).
        distances: Exact W2 to the data for data along each eigenvector, shape (dim,).
        spread_along: Standard deviation along the data's direction over the true one.
        off_axis: Root mean square entry off that direction.
        zero: W2 of the generator that returns zeros.
        steps: Gradient steps a noise level.
    """

    values: Tensor
    distances: Tensor
    spread_along: Tensor
    off_axis: Tensor
    zero: float
    steps: int


def linear_diffusion(
    *,
    dim: int = 8,
    condition: float = 16.0,
    steps: int = 200,
    rate: float = 0.02,
    levels: int = 16,
    sigma_max: float = 8.0,
    sigma_min: float = 0.05,
) -> LinearDiffusion:
    """Train linear denoisers by population gradient descent and propagate the sampler's covariance.

    Data are N(0, dim v v^T) with v in turn each eigenvector of Phi Phi^T (eigenvalues log-spaced, mean 1).
    The input is scaled by 1/sqrt(sigma^2 + 1) and the target is the noise. The sampler is Euler's rule in
    sigma from N(0, sigma_max^2 1) to zero.

    Args:
        dim: Dimension.
        condition: Largest over smallest eigenvalue.
        steps: Gradient steps a noise level, from zero.
        rate: Step size.
        levels: Noise levels, geometrically spaced.
        sigma_max: Largest.
        sigma_min: Smallest; the last step goes from there to zero.

    Returns:
        Distances for every direction. Deterministic; no model calls; well below a second.

    Raises:
        SettingError: If the gradient descent is unstable at this rate.
    """
    values = torch.logspace(0.0, 1.0, dim, base=condition, dtype=torch.float64)
    values = values / values.mean()
    sigmas = torch.logspace(0.0, 1.0, levels, base=sigma_min / sigma_max, dtype=torch.float64) * sigma_max
    identity = torch.eye(dim, dtype=torch.float64)
    distances, along, off = [], [], []
    for index in range(dim):
        target = torch.zeros(dim, dim, dtype=torch.float64)
        target[index, index] = float(dim)
        spread = sigmas[0] ** 2 * identity
        for sigma, after in zip(sigmas, [*sigmas[1:], torch.zeros(())], strict=True):
            scale = (sigma**2 + 1.0).rsqrt()
            seen = scale**2 * (target + sigma**2 * identity)
            if 2.0 * rate * float(values.max() * seen.diagonal().max()) > 2.0:
                raise SettingError(f"rate {rate}", "a stable gradient descent", f"rate={rate / 2}")
            net = torch.zeros_like(identity)
            for _ in range(steps):
                net = net - 2.0 * rate * values[:, None] * (net @ seen - scale * sigma * identity)
            step = identity + (after - sigma) * scale * net
            spread = step @ spread @ step.T
        zero = torch.zeros(dim, dtype=torch.float64)
        distances.append(gaussian_distance(zero, spread, zero, target))
        along.append(float((spread[index, index] / dim).sqrt()))
        off.append(float(((spread.trace() - spread[index, index]) / (dim - 1)).clamp(min=0).sqrt()))
    return LinearDiffusion(
        values=values,
        distances=torch.tensor(distances, dtype=torch.float64),
        spread_along=torch.tensor(along, dtype=torch.float64),
        off_axis=torch.tensor(off, dtype=torch.float64),
        zero=dim**0.5,
        steps=steps,
    )
