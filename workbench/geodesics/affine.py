"""The two flat kinds of straightness of a Hessian metric: straight in natural, and straight in dual
coordinates.

Neither is shortest; their lengths under the metric say by how much. The m-geodesic is what descent with a
frozen metric converges to, so it is also the yardstick that unmasks such a solver.

References:
    Amari, Nagaoka, "Methods of Information Geometry", 2000, section 3.3
"""

import torch
from torch import Tensor

from workbench.geodesics.engine import curve_length
from workbench.geodesics.levels import extrapolate
from workbench.geodesics.starts import straight_start
from workbench.metrics.hessian import Hessian, natural_of
from workbench.types import Nodes, Points


def natural_line(start: Points, end: Points, nodes: int) -> Nodes:
    """The e-geodesic: straight in natural coordinates, shape (*batch, nodes, dim)."""
    return straight_start(start, end, nodes)


def dual_line(metric: Hessian, start: Points, end: Points, nodes: int) -> Nodes:
    """The m-geodesic: straight in the dual coordinates grad psi, given in natural ones.

    Args:
        metric: The Hessian metric.
        start: Natural coordinates of the start, shape (dim,).
        end: Natural coordinates of the end.
        nodes: Nodes of the curve.

    Returns:
        Shape (nodes, dim); each node solves grad psi(t) = eta from its neighbour.

    Raises:
        NotConverged: If the dual line leaves what the potential can reach.
    """
    eta = straight_start(metric.dual(start), metric.dual(end), nodes)
    found = [start]
    for k in range(1, nodes - 1):
        found.append(natural_of(metric, eta[k], found[-1]))
    return torch.stack([*found, end])


def affine_length(
    metric: Hessian, start: Points, end: Points, *, dual: bool, nodes: int = 65
) -> tuple[Tensor, Tensor]:
    """Length of an e- or m-geodesic under the metric, by Richardson extrapolation.

    Args:
        metric: The Hessian metric.
        start: Natural coordinates, shape (dim,).
        end: Natural coordinates.
        dual: True for the m-geodesic.
        nodes: Nodes on the coarsest of three levels; nodes - 1 steps, then twice and four times as many.

    Returns:
        (length, error).
    """
    fine = 4 * (nodes - 1) + 1
    curve = dual_line(metric, start, end, fine) if dual else natural_line(start, end, fine)
    return extrapolate(torch.stack([curve_length(metric, curve[::skip]) for skip in (4, 2, 1)]))
