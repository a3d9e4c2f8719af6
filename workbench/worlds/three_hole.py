"""The three-hole surface: two deep minima joined by two channels, one of them over a third, shallow minimum.

V = 3 exp(-x^2 - (y - 1/3)^2) - 3 exp(-x^2 - (y - 5/3)^2) - 5 exp(-(x - 1)^2 - y^2) - 5 exp(-(x + 1)^2 - y^2)
    + 0.2 x^4 + 0.2 (y - 1/3)^4.

A straight start falls into the lower channel, which has the higher barrier: the surface tells solvers that
stop at the nearest path from those that look for others. The paths enter the deep minima with limited
smoothness, so lengths converge slowly with the number of images; judge by the barrier.

References:
    Metzner, Schütte, Vanden-Eijnden, "Illustration of transition path theory on a collection of simple
        examples", 2006, section 3, https://doi.org/10.1063/1.2335447
"""

from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from workbench.types import Matrices, Nodes, Points, Scalars, Vectors
from workbench.worlds.facts import Facts, Route
from workbench.worlds.reference import follow_route, polish_stationary, route_of

_HEIGHT = torch.tensor([3.0, -3.0, -5.0, -5.0], dtype=torch.float64)
_CENTRES = torch.tensor([[0.0, 1.0 / 3.0], [0.0, 5.0 / 3.0], [1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
_LIFT = torch.tensor([0.0, 1.0 / 3.0], dtype=torch.float64)  # centre of the confining quartic
_LOWER_LENGTH = 2.220365718
_UPPER_LENGTH = 4.044346364


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ThreeHole:
    """The surface as a landscape, from the left deep minimum to the right one by default."""

    name: str = "three_hole"
    unit: str = "energy units"
    dim: int = 2
    facts: Facts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        minima = torch.tensor(
            [[-1.048054993, -0.042093666], [0.0, 1.537082004], [1.048054993, -0.042093666]],
            dtype=torch.float64,
        )
        saddles = torch.tensor(
            [[0.0, -0.315826551], [-0.617272308, 1.102734518], [0.617272308, 1.102734518]],
            dtype=torch.float64,
        )
        minima = polish_stationary(self.force, lambda x: -self.hessian(x), minima)
        saddles = polish_stationary(self.force, lambda x: -self.hessian(x), saddles)
        heights = (self.energy(saddles) - self.energy(minima[0])).tolist()
        lower = Route("lower", minima[[0, 2]], saddles[:1], heights[0], _LOWER_LENGTH)
        upper = Route("upper", minima, saddles[1:], max(heights[1:]), _UPPER_LENGTH)
        facts = Facts(minima, saddles, minima[0], minima[2], (lower, upper), (-2.0, 2.0, -1.5, 2.5))
        object.__setattr__(self, "facts", facts)

    def _terms(self, x: Points) -> tuple[Tensor, Tensor, Tensor]:
        """Gaussian terms (*batch, 4), offsets from their centres and from the quartic's centre."""
        offset = x.unsqueeze(-2) - _CENTRES.to(x)
        return _HEIGHT.to(x) * torch.exp(-offset.square().sum(-1)), offset, x - _LIFT.to(x)

    def energy(self, x: Points) -> Scalars:
        """V(x)."""
        terms, _, lifted = self._terms(x)
        return terms.sum(-1) + 0.2 * lifted.pow(4).sum(-1)

    def force(self, x: Points) -> Vectors:
        """-grad V(x), in closed form."""
        terms, offset, lifted = self._terms(x)
        return 2.0 * (terms.unsqueeze(-1) * offset).sum(-2) - 0.8 * lifted.pow(3)

    def hessian(self, x: Points) -> Matrices:
        """Second derivatives of V, in closed form."""
        terms, offset, lifted = self._terms(x)
        eye = torch.eye(2, dtype=x.dtype, device=x.device)
        outer = 4.0 * offset.unsqueeze(-1) * offset.unsqueeze(-2) - 2.0 * eye
        return (terms[..., None, None] * outer).sum(-3) + torch.diag_embed(2.4 * lifted.square())

    def reference_path(self, route: str | None = None, *, nodes: int = 2001) -> Nodes:
        """A minimum-energy path between the deep minima as a polyline of equal steps; computed once.

        Args:
            route: "lower" or "upper"; None for the lower channel, into which a straight start falls.
            nodes: Number of points.

        Returns:
            Points of shape (nodes, 2).
        """
        return _reference_path(self, route, nodes)


@cache
def _reference_path(world: ThreeHole, route: str | None, nodes: int) -> Nodes:
    return follow_route(world.force, world.hessian, route_of(world.facts, route), nodes=nodes)[0]
