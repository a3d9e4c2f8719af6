"""Ground truths of contrastive embeddings and lifts: data of known factors, loss values by quadrature.

Nothing here imports the workbench.
"""

import math

import numpy as np
import torch
from scipy.integrate import quad
from torch import Tensor

STRONG_RING = 0.866
"""Lifetime over diameter of the loop of a circle in the Rips filtration: it dies at root three radii."""


def ring(*, count: int, dim: int, seed: int, period: float = 30.0) -> tuple[Tensor, Tensor]:
    """Points turning on a circle that lies in a random plane, with a little noise, and their angles."""
    generator = torch.Generator().manual_seed(seed)
    angle = 2.0 * math.pi * torch.arange(count, dtype=torch.float64) / period
    plane = torch.linalg.qr(torch.randn(dim, 2, generator=generator, dtype=torch.float64))[0]
    points = torch.stack([angle.cos(), angle.sin()], dim=1) @ plane.T
    return points + 0.01 * torch.randn(count, dim, generator=generator, dtype=torch.float64), angle


def blobs(*, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures of 16 x 16 of a blob that drifts around a circle with noise, and its angle."""
    generator = torch.Generator().manual_seed(seed)
    steps = 2.0 * math.pi / 60.0 + 0.15 * torch.randn(count, generator=generator, dtype=torch.float64)
    angle = steps.cumsum(0)
    axis = torch.arange(16, dtype=torch.float64)
    across, down = 7.5 + 4.5 * angle.cos(), 7.5 + 4.5 * angle.sin()
    apart = (axis[None, None, :] - across[:, None, None]).square()
    apart = apart + (axis[None, :, None] - down[:, None, None]).square()
    return torch.exp(-apart / (2.0 * 1.5**2)).reshape(count, -1), angle


def mixed_factors(*, axes: int, seed: int, count: int = 4000) -> tuple[Tensor, Tensor]:
    """Thirty nonlinear mixtures of uniform factors, and the factors."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    factors = torch.rand(count, axes, generator=generator, dtype=torch.float64)
    turned = 2.0 * factors - 1.0
    for _ in range(3):
        turned = torch.nn.functional.leaky_relu(turned @ torch.linalg.qr(normal(axes, axes))[0], 0.2)
    return torch.tanh(turned @ normal(axes, 30)) + 0.1 * turned @ normal(axes, 30), factors


def travelling_wave(*, count: int = 250, period: float = 26.1, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Ten principal scores of a wave with a fundamental pair and weak harmonics, and its phase."""
    generator = torch.Generator().manual_seed(seed)
    phase = 2.0 * math.pi * torch.arange(count, dtype=torch.float64) / period
    shares = (52.5, 38.7, 3.8, 3.7, 0.4, 0.4)
    turns = [(1, 0.0), (1, 0.0), (2, 0.3), (2, 0.3), (3, 1.0), (3, 1.0)]
    waves = [
        math.sqrt(2.0 * share) * (torch.cos if i % 2 == 0 else torch.sin)(n * phase + at)
        for i, (share, (n, at)) in enumerate(zip(shares, turns, strict=True))
    ]
    axes = torch.linalg.qr(torch.randn(10, 6, generator=generator, dtype=torch.float64))[0]
    noise = 0.02 * torch.randn(count, 10, generator=generator, dtype=torch.float64)
    return torch.stack(waves, dim=1) @ axes.T + noise, phase


def smooth_map(*, axes: int, seed: int = 0) -> "Cosines":
    """Two hundred cosines of random projections."""
    return Cosines(axes, seed)


class Cosines:
    """A smooth map from few dimensions to two hundred."""

    def __init__(self, axes: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.waves = 2.0 * torch.randn(axes, 200, generator=generator, dtype=torch.float64)
        self.phases = 2.0 * math.pi * torch.rand(200, generator=generator, dtype=torch.float64)

    def __call__(self, c: Tensor) -> Tensor:
        return torch.cos(c @ self.waves + self.phases)


def von_mises_loss(kappa: float, negatives: int) -> float:
    """log N minus the mutual information of von Mises pairs, the latter by quadrature of its definition."""
    normal = quad(lambda x: math.exp(kappa * math.cos(x)), -math.pi, math.pi)[0]

    def density(x):
        return math.exp(kappa * math.cos(x)) / normal

    information = quad(lambda x: density(x) * math.log(2.0 * math.pi * density(x)), -math.pi, math.pi)[0]
    return math.log(negatives) - information


def von_mises_pairs(kappa: float, count: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """Unit vectors at uniform angles, and their von Mises partners."""
    draws = np.random.default_rng(seed)
    angle = draws.uniform(-math.pi, math.pi, count)
    partner = angle + draws.vonmises(0.0, kappa, count)

    def unit(a: np.ndarray) -> Tensor:
        return torch.from_numpy(np.stack([np.cos(a), np.sin(a)], axis=1))

    return unit(angle), unit(partner)


def naive_infonce(
    reference: Tensor, positive: Tensor, negative: Tensor, similarity: str, temperature: float
) -> Tensor:
    """The loss by its definition, one pair at a time."""

    def phi(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum() / temperature if similarity == "cosine" else -((a - b) ** 2).sum() / temperature

    losses = []
    for c, partner in zip(reference, positive, strict=True):
        levels = torch.stack([phi(c, other) for other in negative])
        losses.append(levels.exp().sum().log() - phi(c, partner))
    return torch.stack(losses).mean()


def two_oscillations(*, count: int = 120, dt: float = 0.1, seed: int = 0) -> Tensor:
    """Two hundred channels that mix oscillations of 1.3 and 2.9 radians a second."""
    draws = np.random.default_rng(seed)
    t = np.arange(count) * dt
    parts = np.stack([np.cos(1.3 * t), np.sin(1.3 * t), np.cos(2.9 * t), np.sin(2.9 * t)], axis=1)
    return torch.from_numpy(parts @ draws.normal(size=(4, 200)))
