"""What an inversion returns: the points at their depth with all that the way back needs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.errors import ShapeError
from workbench.inversions.solvers import solver_of
from workbench.inversions.steps import Solver
from workbench.report import Provenance, SolveReport
from workbench.types import Points


@dataclass(frozen=True, slots=True)
class Latent:
    """Samples at a noise level, in the state of the solver that brought them there.

    Attributes:
        points: y at the depth, shape (*batch, dim), in the data's unit; divided by sigma about standard
            normal at large depth.
        partner: The solver's second tensor, same shape; equal to the points where it needs none.
        levels: The grid that was climbed, from the data to the depth, shape (levels,).
        solver: Name of the solver.
        settings: Its settings.
        report: How it went; the residual is the largest separation of the copies for "edict", else none.
        provenance: Where it came from.
    """

    points: Points
    partner: Points
    levels: Float[Tensor, " levels"]
    solver: str
    settings: Mapping[str, Any]
    report: SolveReport
    provenance: Provenance

    @property
    def sigma(self) -> float:
        """The depth: noise level of the points."""
        return float(self.levels[-1])

    @property
    def dim(self) -> int:
        """Entries of a sample."""
        return self.points.shape[-1]

    @property
    def method(self) -> Solver:
        """The solver with its settings."""
        return solver_of(self.solver, **self.settings)

    def joined(self) -> Tensor:
        """All of the state in one tensor, for a lift or a memory map: points, then the partner if needed.

        Returns:
            Shape (*batch, dim), or (*batch, 2 dim) where the solver keeps a partner.
        """
        return torch.cat([self.points, self.partner], dim=-1) if self.method.partner else self.points

    def with_joined(self, state: Tensor) -> "Latent":
        """Other samples in the same place: the state as `joined` gives it, split again.

        Args:
            state: Shape (*batch, dim) or (*batch, 2 dim).

        Returns:
            A latent with the same grid and solver.

        Raises:
            ShapeError: If the last axis does not fit.
        """
        wanted = 2 * self.dim if self.method.partner else self.dim
        if state.shape[-1] != wanted:
            raise ShapeError(f"a state of shape {tuple(state.shape)}", f"a last axis of {wanted}")
        points, partner = state.split(self.dim, dim=-1) if self.method.partner else (state, state)
        return replace(self, points=points, partner=partner)

    def __getitem__(self, rows: Any) -> "Latent":
        """Some of the samples; `rows` indexes the batch axes."""
        return replace(self, points=self.points[rows], partner=self.partner[rows])

    def __len__(self) -> int:
        return len(self.points)
