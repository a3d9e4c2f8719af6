r"""The loss where its value is known: a point on the circle and a positive near it.

With :math:`\theta` uniform and :math:`\theta^+ - \theta` von Mises of concentration :math:`\kappa`, the
similarity :math:`\kappa\cos(\theta - \theta')` is the optimal critic, and the loss with N negatives is
:math:`\log N - I` with the mutual information :math:`I = \kappa I_1(\kappa)/I_0(\kappa) - \log I_0(\kappa)`.

References:
    Oord, Li, Vinyals, "Representation Learning with Contrastive Predictive Coding", 2018, section 2.3,
        https://arxiv.org/abs/1807.03748
"""

import math

import torch
from torch import Tensor

from workbench.checks import check_count
from workbench.conda.infonce import infonce, von_mises_information
from workbench.draws import draw_uniform, seeded

CELLS = tuple((kappa, negatives) for kappa in (2.0, 10.0) for negatives in (128, 512, 2048))
"""Concentrations and numbers of negatives that are compared."""


def measure_closed_form(
    cells: tuple[tuple[float, int], ...] = CELLS,
    *,
    references: int = 20_480,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Measured loss minus its closed form, cell by cell.

    Args:
        cells: Pairs (kappa, negatives).
        references: Pairs that each cell averages over, at least; the standard error is about 0.005 nats.
        generator: Source of the draws; that of seed 0 if None.

    Returns:
        Differences in nats, shape (cells,).
    """
    check_count("references", references)
    generator = seeded(generator)
    like = torch.empty(0, dtype=torch.float64, device=generator.device)
    errors = []
    for kappa, negatives in cells:
        rounds = -(-references // negatives)
        losses = []
        for _ in range(rounds):
            angle = 2 * math.pi * draw_uniform((2, negatives), like, generator)
            near = angle[0] + _von_mises(kappa, negatives, like, generator)
            here, positive, others = (
                torch.stack([a.cos(), a.sin()], dim=1) for a in (angle[0], near, angle[1])
            )
            losses.append(infonce(here, positive, others, similarity="cosine", temperature=1.0 / kappa))
        errors.append(torch.stack(losses).mean() - (math.log(negatives) - von_mises_information(kappa)))
    return torch.stack(errors)


def _von_mises(kappa: float, count: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """Angles of that concentration around zero, by inverting their distribution on a fine grid."""
    grid = torch.linspace(-math.pi, math.pi, 20_001, dtype=like.dtype, device=like.device)
    density = (kappa * (grid.cos() - 1)).exp()
    mass = torch.cat([like.new_zeros(1), ((density[1:] + density[:-1]) / 2).cumsum(0)])
    mass = mass / mass[-1].clone()
    draw = draw_uniform((count,), like, generator)
    above = torch.searchsorted(mass, draw).clamp(1, len(grid) - 1)
    share = (draw - mass[above - 1]) / (mass[above] - mass[above - 1]).clamp_min(1e-300)
    return grid[above - 1] + share * (grid[above] - grid[above - 1])
