"""Surfaces whose distances are known: the yardsticks that notebooks and views hold the engine against.

On the torus of radii 2 and 1 distances follow from the conserved angular momentum (Clairaut's relation). The
outer equator is the trap among them: it is a geodesic, but past the conjugate point at v = 1.814 no longer
the shortest.

The flow of two Gaussians at -1 and 1 of width s takes a unit-normal latent to the quantile of the mixture, so
that its latent plane is isometric to the plane of samples: distances are straight there, and all of the way
between the modes lies in a strip of latents of width 1 / L, L = s exp(1 / 2 s^2).

References:
    do Carmo, "Differential Geometry of Curves and Surfaces", 1976, section 4.4
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.metrics import Chart, MatrixMetric, Pullback

_PI = torch.pi


@dataclass(frozen=True, slots=True)
class KnownDistance:
    """Two points whose distance is known.

    Attributes:
        name: What is special about them.
        start: Shape (dim,), float64.
        end: Shape (dim,).
        distance: The distance, to at least nine digits.
    """

    name: str
    start: Tensor
    end: Tensor
    distance: float


def torus_map(x: Tensor) -> Tensor:
    """The torus of radii 2 and 1 in space, from angles (u, v), shape (*batch, 2) to (*batch, 3)."""
    ring = 2.0 + torch.cos(x[..., 0])
    return torch.stack(
        (ring * torch.cos(x[..., 1]), ring * torch.sin(x[..., 1]), torch.sin(x[..., 0])), dim=-1
    )


def torus() -> Pullback:
    """The metric of that torus in its angles: du^2 + (2 + cos u)^2 dv^2."""
    return Pullback(torus_map, Chart("angles", 2, ("u", "v")), name="torus")


def torus_distances() -> tuple[KnownDistance, ...]:
    """Known distances on it: plain, top to bottom, level, inner equator, and the outer equator's trap."""
    cases = (
        ("plain", (0.5, 0.0), (2.5, 2.0), 3.866239782376),
        ("top to bottom", (_PI / 2, 0.0), (1.5 * _PI, 2.0), 4.021241887274),
        ("level", (_PI / 3, 0.0), (_PI / 3, 1.5), 3.438153948256),
        ("inner equator", (_PI, 0.0), (_PI, 1.5), 1.5),
        ("past the conjugate point of the outer equator", (0.0, 0.0), (0.0, 2.5), 6.791775610664),
    )
    return tuple(
        KnownDistance(name, torch.tensor(start).double(), torch.tensor(end).double(), distance)
        for name, start, end, distance in cases
    )


def two_gaussian_samples(z: Tensor, width: float) -> Tensor:
    """Samples of latents (z1, z2) by the flow of two Gaussians in the first coordinate and one in the second.

    Args:
        z: Latents, shape (*batch, 2).
        width: s of each Gaussian; the modes lie at -1 and 1.

    Returns:
        Shape (*batch, 2). By halving, exact to rounding; differentiable once.
    """
    size = z[..., 0].abs()
    low, high = torch.zeros_like(size).detach(), (1.0 + width * size).detach()
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = _share(middle, width) < 0.5 * torch.erf(size * 0.5**0.5)
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    x = 0.5 * (low + high)
    density = _density(x, width)
    slope = torch.exp(-0.5 * size.square()) / ((2.0 * _PI) ** 0.5 * density)
    x = x + slope.detach() * (size - size.detach())
    return torch.stack((torch.sign(z[..., 0]) * x, width * z[..., 1]), dim=-1)


def _share(x: Tensor, width: float) -> Tensor:
    """Probability of the mixture between 0 and x."""
    scale = width * 2.0**0.5
    return 0.25 * (torch.erf((x - 1.0) / scale) + torch.erf((x + 1.0) / scale))


def _density(x: Tensor, width: float) -> Tensor:
    near, far = (torch.exp(-0.5 * ((x - side) / width).square()) for side in (1.0, -1.0))
    return 0.5 * (near + far) / (width * (2.0 * _PI) ** 0.5)


def two_gaussians_plane(width: float) -> MatrixMetric:
    """The metric of those samples in their latents: diag(dx/dz1 squared, s squared).

    Args:
        width: s of each Gaussian, from 0.4 to 2: below, the strip between the modes is finer than any nodes.

    Returns:
        A formula; no model is called.

    Raises:
        SettingError: If the width is out of range.
    """
    if not 0.4 <= width <= 2.0:
        raise SettingError(f"Gaussians of width {width}", "a width from 0.4 to 2", "width=0.5")

    def matrices(z: Tensor) -> Tensor:
        x = two_gaussian_samples(z, width)[..., 0]
        slope = torch.exp(-0.5 * z[..., 0].square()) / ((2.0 * _PI) ** 0.5 * _density(x, width))
        return torch.diag_embed(torch.stack((slope.square(), torch.full_like(slope, width**2)), dim=-1))

    return MatrixMetric(matrices, Chart("latents", 2, ("z", "z₂")), f"flow of two Gaussians, s = {width:g}")
