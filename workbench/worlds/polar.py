"""The polar double well, whose minimum-energy path is exactly the unit semicircle.

V = (stiffness/2) (r - 1)^2 + height sin^2(theta): minima at (-1, 0) and (1, 0), saddles at (0, -1) and
(0, 1), barrier equal to height, length pi. The radial force vanishes on the unit circle and the angular one
is tangent to it, so the circle is invariant under the descent.

References:
    E, Ren, Vanden-Eijnden, "Simplified and improved string method for computing the minimum energy paths in
        barrier-crossing events", 2007, https://doi.org/10.1063/1.2720838 (the method it tests)
"""

import math
from dataclasses import dataclass, field

import torch

from workbench.types import Matrices, Nodes, Points, Scalars, Vectors
from workbench.worlds.facts import Facts, Route
from workbench.worlds.reference import route_of


@dataclass(frozen=True, slots=True, eq=False)
class PolarDoubleWell:
    """The surface as a landscape; singular at the origin, where the angle is undefined.

    Attributes:
        stiffness: Radial spring constant k.
        height: Barrier h.
    """

    stiffness: float = 20.0
    height: float = 1.5
    name: str = "polar_double_well"
    unit: str = "energy units"
    dim: int = 2
    facts: Facts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        left, right, top, bottom = torch.tensor(
            [[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=torch.float64
        )
        minima, saddles = torch.stack([left, right]), torch.stack([top, bottom])
        routes = tuple(
            Route(name, minima, saddle[None], self.height, math.pi)
            for name, saddle in (("over the top", top), ("under the bottom", bottom))
        )
        object.__setattr__(self, "facts", Facts(minima, saddles, left, right, routes, (-1.6, 1.6, -1.6, 1.6)))

    def energy(self, x: Points) -> Scalars:
        """V(x)."""
        squared = x.square().sum(-1)
        return 0.5 * self.stiffness * (squared.sqrt() - 1.0) ** 2 + self.height * x[..., 1] ** 2 / squared

    def force(self, x: Points) -> Vectors:
        """-grad V(x), in closed form."""
        squared = x.square().sum(-1)
        radial = self.stiffness * (squared.rsqrt() - 1.0)  # times x: the radial force
        swirl = torch.stack([x[..., 0] * x[..., 1] ** 2, -x[..., 1] * x[..., 0] ** 2], dim=-1)
        return radial.unsqueeze(-1) * x + (2.0 * self.height / squared**2).unsqueeze(-1) * swirl

    def hessian(self, x: Points) -> Matrices:
        """Second derivatives of V, in the polar frame turned back.

        With V_r = k (r - 1) and V_theta = h sin 2 theta: V_rr = k, the angular entry is
        V_theta_theta / r^2 + V_r / r, the mixed one V_r_theta / r - V_theta / r^2.
        """
        r = x.square().sum(-1).sqrt()
        out = x / r.unsqueeze(-1)
        round_ = torch.stack([-out[..., 1], out[..., 0]], dim=-1)
        sine, cosine = out[..., 1], out[..., 0]
        angular = 2.0 * self.height * (cosine**2 - sine**2) / r**2 + self.stiffness * (r - 1.0) / r
        mixed = -2.0 * self.height * sine * cosine / r**2
        cross = out.unsqueeze(-1) * round_.unsqueeze(-2)
        return (
            self.stiffness * out.unsqueeze(-1) * out.unsqueeze(-2)
            + angular[..., None, None] * round_.unsqueeze(-1) * round_.unsqueeze(-2)
            + mixed[..., None, None] * (cross + cross.mT)
        )

    def reference_path(self, route: str | None = None, *, nodes: int = 2001) -> Nodes:
        """The exact semicircle from (-1, 0) to (1, 0).

        Args:
            route: "over the top" or "under the bottom"; None for the top.
            nodes: Number of points, equally spaced.

        Returns:
            Points of shape (nodes, 2).
        """
        side = float(route_of(self.facts, route).saddles[0, 1])
        angle = math.pi * torch.linspace(1.0, 0.0, nodes, dtype=torch.float64)
        path = torch.stack([angle.cos(), side * angle.sin()], dim=-1)
        path[0], path[-1] = self.facts.start, self.facts.end
        return path
