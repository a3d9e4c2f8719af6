"""Outlines that show what a plane does to lengths: small balls of the space, as the plane shows them."""

import math

import torch
from torch import Tensor

from workbench.bench.results import BenchResult
from workbench.embeddings import jacobian_of


def distortion_outlines(result: BenchResult, *, share: float = 0.03, count: int = 9) -> list[Tensor]:
    """How the plane shows small balls of the space: closed polylines around points of its curves.

    A ball of the plane's own directions shows as a circle. Where curves leave the plane, their tangent shows
    shorter than it is: the ellipse is squeezed along it by that factor.

    Args:
        result: The answers whose curves are shown.
        share: Radius as a share of the picture's width.
        count: Points along each curve.

    Returns:
        One polyline a point, shape (49, 2).
    """
    place = result.place
    radius = share * (place.window.x[1] - place.window.x[0])
    angle = torch.linspace(0.0, 2.0 * math.pi, 49, dtype=torch.float64)
    circle = torch.stack([angle.cos(), angle.sin()], dim=-1)
    drawn = []
    for line in result.lines:
        if line.kind in ("straight", "exact", "other"):
            continue
        picked = torch.linspace(0, len(line.points) - 1, min(count, len(line.points))).round().long()
        points = line.points[picked]
        tangents = torch.gradient(line.points, dim=0)[0][picked]
        seen = (jacobian_of(place.section, points) @ tangents[..., None])[..., 0].double().cpu()
        true = tangents.norm(dim=-1).double().cpu().clamp_min(1e-300)
        shown = seen.norm(dim=-1)
        along = seen / shown.clamp_min(1e-300)[:, None]
        centres = place.section.encode(points).double().cpu()
        for centre, axis, factor in zip(centres, along, shown / true, strict=True):
            squeezed = circle + ((factor - 1.0) * (circle @ axis))[:, None] * axis
            drawn.append(centre + radius * squeezed)
    return drawn
