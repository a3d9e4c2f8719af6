"""Starting curves for geodesics: straight, bent at random, and away from a saddle."""

import math

import torch
from torch import Tensor

from workbench.curves import Curve
from workbench.draws import draw_normal, seeded
from workbench.errors import SettingError
from workbench.geodesics.engine import curve_usable
from workbench.metrics.base import Metric
from workbench.types import Nodes, Points

_HARMONICS = 3


def straight_start(start: Points, end: Points, nodes: int) -> Nodes:
    """Straight curves of the chart, shape (*batch, nodes, dim), ends bit-equal to what was given."""
    t = torch.linspace(0.0, 1.0, nodes, dtype=start.dtype, device=start.device).unsqueeze(-1)
    points = start.unsqueeze(-2) + t * (end - start).unsqueeze(-2)
    points[..., -1, :] = end
    return points


def via_start(stations: Tensor, nodes: int) -> Tensor:
    """One polygon through stations, (stations, dim), with equally spaced nodes, (nodes, dim)."""
    gaps = torch.linalg.vector_norm(stations.diff(dim=0), dim=-1)
    if bool((gaps == 0.0).any()):
        raise SettingError("a via point equal to its neighbour", "distinct stations", "leaving it out")
    at = torch.cat((torch.zeros_like(gaps[:1]), gaps.cumsum(0))) / gaps.sum()
    t = torch.linspace(0.0, 1.0, nodes, dtype=stations.dtype, device=stations.device)
    right = torch.searchsorted(at, t, right=True).clamp(1, len(at) - 1)
    share = ((t - at[right - 1]) / (at[right] - at[right - 1])).unsqueeze(-1)
    points = (1.0 - share) * stations[right - 1] + share * stations[right]
    points[0], points[-1] = stations[0], stations[-1]
    return points


def bent_starts(
    metric: Metric, base: Tensor, count: int, *, bend: float, generator: torch.Generator | None
) -> Tensor:
    """Copies of a curve, bent by random sines; bends that leave the domain are halved until they fit.

    Args:
        metric: The metric whose domain counts.
        base: One curve inside the domain, shape (nodes, dim).
        count: How many.
        bend: Typical size of a bend relative to the distance of the ends in the chart.
        generator: Source of the bends; None for one of seed 0.

    Returns:
        Shape (count, nodes, dim); ends unchanged.
    """
    nodes, dim = base.shape
    t = torch.linspace(0.0, 1.0, nodes, dtype=base.dtype, device=base.device)
    waves = torch.stack([torch.sin(k * math.pi * t) / k for k in range(1, _HARMONICS + 1)])  # (k, nodes)
    size = bend * torch.linalg.vector_norm(base[-1] - base[0]) / math.sqrt(dim)
    shape = (count, _HARMONICS, dim)
    weights = draw_normal(shape, base, seeded(generator))
    bends = size * torch.einsum("ckd,kn->cnd", weights, waves)
    bends[:, 0] = bends[:, -1] = 0.0
    return fit_inside(metric, base, bends)


def fit_inside(metric: Metric, base: Tensor, bends: Tensor) -> Tensor:
    """base + bends, each bend halved until the metric holds along the curve; at last base itself."""
    share = torch.ones(bends.shape[0], 1, 1, dtype=base.dtype, device=base.device)
    for _ in range(12):
        out = ~curve_usable(metric, base + share * bends)
        if not bool(out.any()):
            return base + share * bends
        share = torch.where(out[:, None, None], 0.5 * share, share)
    share = torch.where(out[:, None, None], torch.zeros_like(share), share)
    return base + share * bends


def resample_start(points: Tensor, nodes: int) -> Tensor:
    """One curve given by its nodes, shape (m, dim), on another number of nodes at uniform parameters."""
    if points.shape[0] == nodes:
        return points
    at = torch.linspace(0.0, 1.0, nodes, dtype=points.dtype, device=points.device)
    found = Curve.through(points)(at)
    found[0], found[-1] = points[0], points[-1]
    return found
