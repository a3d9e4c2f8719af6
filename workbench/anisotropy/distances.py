r"""Distances between sample sets, never without the trivial generators beside them.

Sliced distances of order two average (or take the largest of) exact one-dimensional ones over random
directions. In many dimensions they say little by themselves: for rank-one data of unit variance per entry
the generator that returns zeros scores 1 and white noise about 0.63. A number above those is worse than no
training at all.

References:
    Sliced and Radon Wasserstein barycenters of measures (Bonneel et al., 2015),
    https://doi.org/10.1007/s10851-014-0506-3
    Computational optimal transport (Peyre, Cuturi, 2019), remark 2.31 (Gaussians),
    https://arxiv.org/abs/1803.00567
"""

from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from workbench.draws import draw_normal
from workbench.errors import SettingError, ShapeError

_BLOCK = 512  # directions at once; fixed, because torch draws blocks of other sizes differently


@dataclass(frozen=True, slots=True)
class SlicedDistance:
    """Sliced W2.

    Attributes:
        mean: Root mean square over the directions.
        largest: Largest over the same directions (not optimised).
        projections: Number of directions.
    """

    mean: float
    largest: float
    projections: int


@dataclass(frozen=True, slots=True)
class Baselines:
    """Sliced distances of the reference from trivial generators.

    Attributes:
        zero: From all zeros.
        normal: From the standard normal.
        real: From another sample of the same data: the floor of this sample size.
    """

    zero: SlicedDistance
    normal: SlicedDistance
    real: SlicedDistance


def sliced_distance(
    first: Tensor, second: Tensor, *, projections: int = 1024, generator: torch.Generator
) -> SlicedDistance:
    """Sliced and max-sliced W2 of two sample sets of equal size.

    Args:
        first: Points (n, dim).
        second: Points (n, dim).
        projections: Random directions, uniform on the sphere.
        generator: Draws them.

    Returns:
        The distance, in the data's unit.

    Raises:
        ShapeError: If the sets differ in size or dimension.

    Cost:
        projections * (n dim + n log n); no model calls.
    """
    if first.shape != second.shape or first.ndim != 2:
        raise ShapeError(
            f"samples of shapes {tuple(first.shape)} and {tuple(second.shape)}",
            "equal shapes",
        )
    squares = []
    for start in range(0, projections, _BLOCK):
        count = min(_BLOCK, projections - start)
        lines = draw_normal((count, first.shape[1]), first, generator)
        lines = (lines / lines.norm(dim=1, keepdim=True)).T
        gap = (first @ lines).sort(dim=0).values - (second @ lines).sort(dim=0).values
        squares.append(gap.square().mean(0))
    every = torch.cat(squares)
    return SlicedDistance(float(every.mean().sqrt()), float(every.max().sqrt()), projections)


def baselines(
    reference: Tensor, fresh: Tensor, *, projections: int = 1024, generator: torch.Generator
) -> Baselines:
    """What trivial generators score against the reference.

    Args:
        reference: Real points (n, dim).
        fresh: Other real points (n, dim).
        projections: As in `sliced_distance`.
        generator: Draws directions and noise.

    Returns:
        The three distances.
    """
    noise = draw_normal(reference.shape, reference, generator)
    zero, normal, real = (
        sliced_distance(reference, other, projections=projections, generator=generator)
        for other in (torch.zeros_like(reference), noise, fresh)
    )
    return Baselines(zero, normal, real)


def axis_distance(samples: Tensor, axis: Tensor, coordinates: Tensor) -> float:
    """Exact W2 between the samples' coordinate along a unit axis and the true one's, equally many of each."""
    if samples.shape[0] != coordinates.shape[0]:
        raise ShapeError(f"{samples.shape[0]} samples and {coordinates.shape[0]} coordinates", "equally many")
    gap = (samples @ axis).sort().values - coordinates.sort().values
    return float(gap.square().mean().sqrt())


def off_axis_spread(samples: Tensor, axes: Tensor) -> float:
    """Root mean square of an entry orthogonal to the span of orthonormal axes (k, dim)."""
    left = samples - samples @ axes.T @ axes
    return float((left.square().sum(1).mean() / (samples.shape[1] - axes.shape[0])).sqrt())


def exact_distance(first: Tensor, second: Tensor) -> float:
    """Exact W2 of two equally large sample sets: an optimal assignment, at most 2000 points.

    With equal weights the transport plan of the linear programme is a permutation, so that scipy's assignment
    gives what a general transport solver would, without a further package.

    Cost:
        O(n^3); about a second for 1000 points.
    """
    if first.shape != second.shape:
        raise ShapeError(f"samples of shapes {tuple(first.shape)} and {tuple(second.shape)}", "equal shapes")
    if first.shape[0] > 2000:
        raise SettingError(f"{first.shape[0]} points", "at most 2000", "sliced_distance")
    cost = torch.cdist(first.double(), second.double()).square().cpu().numpy()
    rows, columns = linear_sum_assignment(cost)
    return float(cost[rows, columns].mean() ** 0.5)


def gaussian_distance(mean_1: Tensor, cov_1: Tensor, mean_2: Tensor, cov_2: Tensor) -> float:
    """W2 between two Gaussians, also singular ones (eigenvalues are clamped at zero)."""
    values, vectors = torch.linalg.eigh(cov_1.double())
    root = vectors * values.clamp(min=0.0).sqrt() @ vectors.T
    cross = torch.linalg.eigvalsh(root @ cov_2.double() @ root).clamp(min=0.0).sqrt().sum()
    square = (mean_1 - mean_2).double().square().sum() + cov_1.trace() + cov_2.trace() - 2.0 * cross
    return float(square.clamp(min=0.0).sqrt())
