"""Frames and curves picked by hand in a plane: what a lasso encloses, where one more control point goes.

References:
    Shimrat, "Algorithm 112: position of point relative to polygon", 1962,
        https://doi.org/10.1145/368637.368653
"""

import torch
from torch import Tensor

from workbench.errors import ShapeError


def enclosed_rows(points: Tensor, polygon: Tensor) -> Tensor:
    """Rows of the points inside a polygon, by the even-odd rule.

    Args:
        points: Shape (count, 2).
        polygon: Its corners in turn, shape (corners, 2).

    Returns:
        Rows in order; none for fewer than three corners or corners that are not finite.

    Raises:
        ShapeError: If either is not of the plane.
    """
    for name, given in (("points", points), ("corners", polygon)):
        if given.ndim != 2 or given.shape[1] != 2:
            raise ShapeError(f"{name} of shape {tuple(given.shape)}", "(any, 2)")
    if len(polygon) < 3 or not bool(torch.isfinite(polygon).all()):
        return torch.zeros(0, dtype=torch.long)
    corners = polygon.to(points)
    low, high = corners.amin(0), corners.amax(0)
    near = ((points >= low) & (points <= high)).all(1).nonzero()[:, 0]
    x, y = points[near].unbind(1)
    odd = torch.zeros(len(near), dtype=torch.bool)
    for (ax, ay), (bx, by) in zip(corners.tolist(), corners.roll(-1, 0).tolist(), strict=True):
        if ay != by:
            crosses = (ay > y) != (by > y)
            odd ^= crosses & (x < (bx - ax) * (y - ay) / (by - ay) + ax)
    return near[odd]


def nearest_leg(corners: Tensor, place: Tensor) -> tuple[int, float]:
    """Where an open polygon is nearest to a place.

    Args:
        corners: Its corners in turn, at least two, shape (corners, dim).
        place: Shape (dim,).

    Returns:
        The leg, counted from the first corner's, and the share of it at which it is nearest.

    Raises:
        ShapeError: For fewer than two corners, or a place of another dimension.
    """
    if corners.ndim != 2 or len(corners) < 2 or place.shape != corners.shape[1:]:
        raise ShapeError(
            f"corners of shape {tuple(corners.shape)} and a place of shape {tuple(place.shape)}",
            "(at least 2, dim) and (dim,)",
        )
    start = corners[:-1]
    legs = corners.diff(dim=0)
    tiny = torch.finfo(corners.dtype).tiny
    share = (((place - start) * legs).sum(-1) / legs.square().sum(-1).clamp_min(tiny)).clamp(0, 1)
    leg = int((start + share[:, None] * legs - place).norm(dim=1).argmin())
    return leg, float(share[leg])
