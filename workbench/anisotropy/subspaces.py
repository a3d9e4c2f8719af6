"""Comparing subspaces: directions are defined up to sign, degenerate groups up to rotation.

References:
    Numerical methods for computing angles between linear subspaces (Bjorck, Golub, 1973),
    https://doi.org/10.1090/S0025-5718-1973-0348991-3
"""

import torch
from torch import Tensor

from workbench.errors import ShapeError


def principal_angles(first: Tensor, second: Tensor) -> Tensor:
    """Angles between two subspaces, smallest first, in radians.

    Small angles come from sines, large ones from cosines, so that both are accurate to rounding.

    Args:
        first: Orthonormal rows (k, dim).
        second: Orthonormal rows (l, dim).

    Returns:
        min(k, l) angles.

    Raises:
        ShapeError: If the rows have different lengths.
    """
    _check(first, second)
    if first.shape[0] > second.shape[0]:
        first, second = second, first
    inner = first @ second.T
    cosines = torch.linalg.svdvals(inner).clamp(max=1.0)
    sines = torch.linalg.svdvals(first - inner @ second).clamp(max=1.0).flip(0)
    return torch.where(cosines**2 > 0.5, sines.asin(), cosines.acos())


def overlap(first: Tensor, second: Tensor) -> float:
    """||P Q||_F^2 / min(k, l) for two subspaces given by orthonormal rows: 1 if nested, 0 if orthogonal."""
    _check(first, second)
    return float((first @ second.T).square().sum() / min(first.shape[0], second.shape[0]))


def index_overlaps(first: Tensor, second: Tensor, *, band: int = 0) -> Tensor:
    """How much of row i of one basis lies in rows i - band .. i + band of another.

    Args:
        first: Orthonormal rows (k, dim), in the order of their eigenvalues.
        second: The same number of rows.
        band: Half width; 0 compares single vectors.

    Returns:
        Norm of the projection for each row, 0 to 1; |<u_i, v_i>| for band 0.
    """
    squares = (first @ second.T).square()
    near = torch.arange(squares.shape[0])
    mask = (near[:, None] - near[None]).abs() <= band
    return (squares * mask).sum(1).sqrt()


def _check(first: Tensor, second: Tensor) -> None:
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise ShapeError(
            f"subspaces of shapes {tuple(first.shape)} and {tuple(second.shape)}", "rows of one length"
        )
