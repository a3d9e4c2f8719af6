"""Answers of a search for geodesics: curves with lengths and certificates, and references to compare with."""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.curves import Curve
from workbench.geodesics.affine import affine_length, dual_line, natural_line
from workbench.geodesics.engine import curve_inside, curve_length
from workbench.geodesics.levels import Refined, second_variation
from workbench.metrics import Chart, Hessian, Metric
from workbench.report import Estimate, Provenance, SolveReport

INDEX_NODES = 33
"""Nodes at most on which the second variation is taken."""
UNCERTIFIED = 0.1
"""Gap of energy and squared length from which a curve is no geodesic, whatever its relaxation says."""
_NEGATIVE = 1e-6
_INDEX_SIZE = 640


@dataclass(frozen=True, slots=True)
class Geodesic:
    """One stationary curve.

    Attributes:
        curve: Its nodes, ends bit-equal to what was asked, at constant metric speed.
        length: Extrapolated length with the change of the last extrapolation as its error.
        energy: Energy on the finest level; at least length squared.
        gap: (energy - length^2) / length^2 on the finest level: 0 certifies constant speed.
        speed_spread: Standard deviation of the speed over its mean there.
        index: Number of negative directions of the second variation: 0 a local minimum; None if not measured.
        residual: Relative residual of the relaxation.
        converged: Whether the relaxation met its tolerance.
        origin: Which start led to it, in words.
    """

    curve: Curve
    length: Estimate
    energy: float
    gap: float
    speed_spread: float
    index: int | None
    residual: float
    converged: bool
    origin: str


@dataclass(frozen=True, slots=True)
class ReferenceCurve:
    """A curve to compare with, and its length under the metric.

    Attributes:
        name: What it is, e.g. "straight in the chart", "m-geodesic".
        curve: Its nodes.
        length: Its length.
    """

    name: str
    curve: Curve
    length: Estimate


@dataclass(frozen=True, slots=True)
class GeodesicResult:
    """Geodesics between two points.

    Attributes:
        start: Where they start, shape (dim,).
        end: Where they end, shape (dim,).
        geodesics: Every distinct one found, the certified ones first, shortest first.
        references: Straight in the chart; for a Hessian metric also straight in its dual coordinates.
        kind: "levi-civita", or the name of another rule, in words.
        metric: Name of the metric.
        chart: Coordinates it is written in.
        report: Status, residual and cost; model calls count points times the metric's own calls.
        provenance: Settings, seed and versions.
        dropped: The starts, in words, that left where the metric is positive definite.
    """

    start: Tensor
    end: Tensor
    geodesics: tuple[Geodesic, ...]
    references: tuple[ReferenceCurve, ...]
    kind: str
    metric: str
    chart: Chart
    report: SolveReport
    provenance: Provenance
    dropped: tuple[str, ...] = ()

    @property
    def shortest(self) -> Geodesic:
        """The shortest one found; one without a certificate only where none has it."""
        return self.geodesics[0]

    @property
    def distance(self) -> Estimate:
        """Length of `shortest`."""
        return self.geodesics[0].length


def read_curves(
    metric: Metric, found: Refined, names: list[str], nodes: int, freeze: bool
) -> tuple[Geodesic, ...]:
    """Each relaxed curve as a geodesic on its coarsest nodes, with its index where that is affordable.

    Args:
        metric: The metric.
        found: Relaxed curves on the finest level.
        names: Where each came from, in words.
        nodes: Nodes of the coarsest level.
        freeze: Whether the metric's derivative was left out; such a curve has no index.

    Returns:
        One geodesic a curve. Cost: a second variation each, up to a limit of its size.
    """
    skip = (found.points.shape[1] - 1) // (nodes - 1)
    coarse = max(skip, (found.points.shape[1] - 1) // (INDEX_NODES - 1))
    dim = found.points.shape[2]
    measured = not freeze and ((found.points.shape[1] - 1) // coarse - 1) * dim <= _INDEX_SIZE
    read = []
    for k, name in enumerate(names):
        points = found.points[k]
        index = None
        if measured and bool(torch.isfinite(points).all()):
            values, _ = second_variation(metric, points[::coarse])
            index = int((values < -_NEGATIVE).sum())
        length = Estimate(
            float(found.length[k]), float(found.error[k]), "metric units", "Richardson over nested levels"
        )
        read.append(
            Geodesic(
                Curve.through(points[::skip].contiguous()),
                length,
                float(found.energy[k]),
                float(found.gap[k]),
                float(found.speed_spread[k]),
                index,
                float(found.residual[k]),
                bool(found.converged[k]),
                name,
            )
        )
    return tuple(read)


def distinct_curves(found: tuple[Geodesic, ...]) -> tuple[Geodesic, ...]:
    """Curves that differ: the converged ones first, of these the certified ones, then by length."""
    kept: list[Geodesic] = []
    for one in sorted(found, key=lambda g: (not g.converged, g.gap > UNCERTIFIED, g.length.value)):
        points = one.curve.points
        size = float((points - points[0]).abs().max())
        for other in kept:
            close = abs(one.length.value - other.length.value) <= 1e-4 * other.length.value
            if close and float((points - other.curve.points).abs().max()) <= 1e-2 * size:
                break
        else:
            kept.append(one)
    return tuple(kept)


def reference_curves(metric: Metric, start: Tensor, end: Tensor, nodes: int) -> tuple[ReferenceCurve, ...]:
    line = natural_line(start, end, nodes)
    fine = natural_line(start, end, 8 * (nodes - 1) + 1)
    found = []
    name = (
        "e-geodesic: straight in natural coordinates"
        if isinstance(metric, Hessian)
        else "straight in the chart"
    )
    if bool(curve_inside(metric, fine)):
        value, half = float(curve_length(metric, fine)), float(curve_length(metric, fine[::2]))
        length = Estimate(value, abs(value - half), "metric units", "half as many nodes")
        found.append(ReferenceCurve(name, Curve.through(line), length))
    if isinstance(metric, Hessian):
        value, error = affine_length(metric, start, end, dual=True, nodes=max(5, (nodes + 1) // 2))
        length = Estimate(float(value), float(error), "metric units", "Richardson over nested levels")
        curve = Curve.through(dual_line(metric, start, end, nodes))
        found.append(ReferenceCurve("m-geodesic: straight in dual coordinates", curve, length))
    return tuple(found)
