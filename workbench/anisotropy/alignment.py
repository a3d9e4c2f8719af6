r"""How well a data set lies for an architecture, and the rotation of the data that lies best.

With the data's second moment :math:`M = \mathbb E[x x^\top]` and the average geometry G,

.. math::  \alpha(W) = \mathrm{tr}(G\,W M W^\top), \qquad W \text{ orthogonal},

is smallest where large eigenvalues of G meet small ones of M, at :math:`\sum_i \lambda_i \nu_{D+1-i}`, and
largest where large meets large, at :math:`\sum_i \lambda_i\nu_i`. A lower alignment predicts better
samples. The recipe is: train on W x, sample, apply W^T. Degenerate eigenvalues leave W free inside their
blocks; the values are unique.

References:
    On the Anisotropy of Score-Based Generative Models (Floros et al., 2025), theorem 2,
    https://arxiv.org/abs/2510.22899
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.anisotropy.geometry import Geometry
from workbench.errors import ShapeError


@dataclass(frozen=True, slots=True)
class Alignment:
    """Alignment of a data set with a geometry.

    Attributes:
        value: alpha of the data as they are.
        minimum: The smallest over rotations.
        maximum: The largest.
        w_min: A rotation that reaches the minimum, (dim, dim).
        w_max: A rotation that reaches the maximum.
    """

    value: float
    minimum: float
    maximum: float
    w_min: Tensor
    w_max: Tensor

    @property
    def position(self) -> float:
        """(value - minimum) / (maximum - minimum): 0 predicted best, 1 predicted worst."""
        return (self.value - self.minimum) / (self.maximum - self.minimum)


def second_moment(points: Tensor) -> Tensor:
    """Uncentred second moment of data (n, dim), float64."""
    if points.ndim != 2:
        raise ShapeError(f"data of shape {tuple(points.shape)}", "points (n, dim)")
    flat = points.double()
    return flat.T @ flat / flat.shape[0]


def alignment_of(geometry: Geometry, moment: Tensor, rotation: Tensor | None = None) -> float:
    """alpha(W) = tr(G W M W^T) for one rotation; the identity if None."""
    moment = moment.to(geometry.core.device)
    rotation = None if rotation is None else rotation.to(moment)
    turned = moment if rotation is None else rotation @ moment @ rotation.T
    return float(geometry.apply(turned).diagonal().sum())


def align(geometry: Geometry, moment: Tensor) -> Alignment:
    """Alignment of a data set with its extremes and the rotations that reach them.

    Args:
        geometry: The geometry.
        moment: Second moment M of the data, (dim, dim), on any device, see `second_moment`.

    Returns:
        The alignment. Two eigendecompositions; no model calls.

    Raises:
        ShapeError: If the moment has another size than the geometry.
        SettingError: If the geometry is too large for a matrix.
    """
    if tuple(moment.shape) != (geometry.dim, geometry.dim):
        raise ShapeError(
            f"a second moment of shape {tuple(moment.shape)}",
            f"({geometry.dim}, {geometry.dim})",
            "second_moment",
        )
    moment = moment.to(device=geometry.core.device, dtype=torch.float64)
    easy, u = torch.linalg.eigh(geometry.matrix())
    spread, v = torch.linalg.eigh(moment)
    easy, spread = easy.clamp(min=0.0), spread.clamp(min=0.0)
    return Alignment(
        value=alignment_of(geometry, moment),
        minimum=float((easy * spread.flip(0)).sum()),
        maximum=float((easy * spread).sum()),
        w_min=u @ v.flip(1).T,
        w_max=u @ v.T,
    )
