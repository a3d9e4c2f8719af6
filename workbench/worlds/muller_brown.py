"""The Mueller-Brown surface: three minima, two saddles, a bent path; the classical test of path finders.

V(x, y) = sum_k A_k exp(a_k (x - x_k)^2 + b_k (x - x_k)(y - y_k) + c_k (y - y_k)^2).

References:
    Müller, Brown, "Location of saddle points and minimum energy paths by a constrained simplex optimization
        procedure", 1979, https://doi.org/10.1007/BF00547608
"""

from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from workbench.types import Matrices, Nodes, Points, Scalars, Vectors
from workbench.worlds.facts import Facts, Route
from workbench.worlds.reference import follow_route, polish_stationary, route_of

_HEIGHT = torch.tensor([-200.0, -100.0, -170.0, 15.0], dtype=torch.float64)
_FORMS = torch.tensor(  # symmetric matrices of the exponents, (4, 2, 2)
    [
        [[-1.0, 0.0], [0.0, -10.0]],
        [[-1.0, 0.0], [0.0, -10.0]],
        [[-6.5, 5.5], [5.5, -6.5]],
        [[0.7, 0.3], [0.3, 0.7]],
    ],
    dtype=torch.float64,
)
_CENTRES = torch.tensor([[1.0, 0.0], [0.0, 0.5], [-0.5, 1.5], [-1.0, 1.0]], dtype=torch.float64)
_LENGTH = 2.698827525


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class MullerBrown:
    """The surface as a landscape, from minimum A (top left) to minimum C (bottom right) by default."""

    name: str = "muller_brown"
    unit: str = "energy units"
    dim: int = 2
    facts: Facts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        minima = torch.tensor(
            [[-0.558223635, 1.441725842], [-0.050010823, 0.466694105], [0.623499405, 0.028037759]],
            dtype=torch.float64,
        )
        saddles = torch.tensor([[-0.822001559, 0.624312803], [0.212486582, 0.292988325]], dtype=torch.float64)
        minima = polish_stationary(self.force, lambda x: -self.hessian(x), minima)
        saddles = polish_stationary(self.force, lambda x: -self.hessian(x), saddles)
        barrier = float(self.energy(saddles).max() - self.energy(minima[0]))
        route = Route("over B", minima, saddles, barrier, _LENGTH)
        facts = Facts(minima, saddles, minima[0], minima[2], (route,), (-1.5, 1.2, -0.3, 2.0))
        object.__setattr__(self, "facts", facts)

    def _terms(self, x: Points) -> tuple[Tensor, Tensor]:
        """The four terms, (*batch, 4), and half the gradients of their exponents, (*batch, 4, 2)."""
        offset = x.unsqueeze(-2) - _CENTRES.to(x)
        half = torch.einsum("kij,...kj->...ki", _FORMS.to(x), offset)
        return _HEIGHT.to(x) * torch.exp((offset * half).sum(-1)), half

    def energy(self, x: Points) -> Scalars:
        """V(x), in the surface's own unit; a minimum depth of -146.7."""
        return self._terms(x)[0].sum(-1)

    def force(self, x: Points) -> Vectors:
        """-grad V(x), in closed form."""
        terms, half = self._terms(x)
        return -2.0 * (terms.unsqueeze(-1) * half).sum(-2)

    def hessian(self, x: Points) -> Matrices:
        """Second derivatives of V, in closed form."""
        terms, half = self._terms(x)
        return (
            terms[..., None, None] * (4.0 * half.unsqueeze(-1) * half.unsqueeze(-2) + 2.0 * _FORMS.to(x))
        ).sum(-3)

    def reference_path(self, route: str | None = None, *, nodes: int = 2001) -> Nodes:
        """The minimum-energy path A, saddle, B, saddle, C as a polyline of equal steps; computed once.

        Args:
            route: Name of a known route; None for the reference one.
            nodes: Number of points.

        Returns:
            Points of shape (nodes, 2).
        """
        return _reference_path(self, route, nodes)


@cache
def _reference_path(world: MullerBrown, route: str | None, nodes: int) -> Nodes:
    return follow_route(world.force, world.hessian, route_of(world.facts, route), nodes=nodes)[0]
