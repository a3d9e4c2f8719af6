"""Surfaces whose distances are known: the yardsticks that notebooks and views hold the engine against.

On the torus of radii 2 and 1 distances follow from the conserved angular momentum (Clairaut's relation). The
outer equator is the trap among them: it is a geodesic, but past the conjugate point at v = 1.814 no longer
the shortest.

References:
    do Carmo, "Differential Geometry of Curves and Surfaces", 1976, section 4.4
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.metrics import Chart, Pullback

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
