"""How far a learned log partition function and its metric are from known ones.

Samples tell a potential up to an affine function of its natural coordinates, which the metric ignores; that
part is removed first. Published figures of this kind have other sizes, other coordinates and another
alignment (not stated), and stand beside ours for orientation only.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.types import Matrices, Points, Scalars


@dataclass(frozen=True, slots=True)
class Published:
    """Root mean square errors of a published table.

    Attributes:
        log_partition: Of F.
        first: Of its derivative in the first parameter.
        second: In the second.
        setting: Model, size and coordinates.
    """

    log_partition: float
    first: float
    second: float
    setting: str


PUBLISHED = {
    "ising": Published(0.0883, 0.1106, 0.1237, "128 x 128 spins, temperature and field, a U-Net of 44 M"),
    "tasep": Published(0.0112, 0.1165, 0.1135, "128 sites, entry and exit rate, a U-Net of 44 M"),
}
"""arXiv:2506.10632, table 1, the method's own rows; spreads of a few units of the last digits."""


def affine_rest(points: Points, gap: Scalars) -> Scalars:
    """What is left of a function at natural points (count, dim) after its best affine fit, shape (count,)."""
    design = torch.cat((points, torch.ones_like(points[:, :1])), dim=1)
    return gap - (design @ torch.linalg.lstsq(design, gap[:, None]).solution).squeeze(1)


def potential_error(points: Points, found: Scalars, exact: Scalars, sites: int) -> float:
    """Root mean square error of F = psi / sites after the affine part of the difference is removed."""
    return float(affine_rest(points, found - exact).square().mean().sqrt()) / sites


def slope_errors(found: Points, exact: Points, sites: int) -> tuple[float, float]:
    """The same of both derivatives of F, each after removing its mean difference, (count, 2) each."""
    gap = (found - exact) / sites
    size = (gap - gap.mean(dim=0)).square().mean(dim=0).sqrt()
    return float(size[0]), float(size[1])


def metric_errors(found: Matrices, exact: Matrices, widths: Tensor) -> Scalars:
    """Relative Frobenius errors (count,) with each coordinate scaled to the width of its window, (dim,)."""
    scale = widths[:, None] * widths
    return torch.linalg.matrix_norm(scale * (found - exact)) / torch.linalg.matrix_norm(scale * exact)


def share_indefinite(matrices: Matrices) -> float:
    """Share of points where a metric is not positive definite."""
    return float((torch.linalg.eigvalsh(matrices)[..., 0] <= 0.0).double().mean())
