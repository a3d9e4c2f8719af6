r"""The Fisher lens: how far apart points of a chart really are, and the shortest way between them.

`find_geodesic` takes any metric and returns every local geodesic that its starts led to, each with an
extrapolated length, its error, and a certificate that does not depend on how it was found: energy against
squared length, the spread of the speed, and the number of negative directions of the second variation (0 for
a local minimum). A stationary curve that is no minimum is pushed off along its most negative direction and
relaxed again.

`measure_metric_field` evaluates a metric over a plane in one batch: matrices, volumes, eigenvalues, and how
far the metric is from being a Hessian in its chart.

References:
    Rygaard, Hauberg, "GEORCE: A Fast New Control Algorithm for Computing Geodesics", 2025,
        https://arxiv.org/abs/2505.05961
    Lobashev, Guskov, Larchenko, Tamm, "Hessian Geometry of Latent Space in Generative Models", 2025,
        https://arxiv.org/abs/2506.10632
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.curves import Curve
from workbench.embeddings import Section
from workbench.errors import SettingError
from workbench.fields import Window
from workbench.geodesics import (
    Refined,
    affine_length,
    bent_starts,
    curve_length,
    dual_line,
    fit_inside,
    natural_line,
    relax_levels,
    resample_start,
    second_variation,
    straight_start,
    via_start,
)
from workbench.geodesics.engine import curve_inside
from workbench.integrators import Cancel, Progress
from workbench.metrics import (
    DENSE_LIMIT,
    Chart,
    Hessian,
    Metric,
    Pullback,
    check_positive,
    hessian_residual,
    inside,
    matrix,
)
from workbench.metrics.base import anisotropy_of
from workbench.models import check_points
from workbench.report import Estimate, Provenance, SolveReport, Status, provenance_of

SOURCES = (
    "GEORCE: A Fast New Control Algorithm for Computing Geodesics (Rygaard, Hauberg, 2025)",
    "Hessian Geometry of Latent Space in Generative Models (Lobashev, Guskov, Larchenko, Tamm, 2025)",
)
_INDEX_NODES = 33
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
        geodesics: Every distinct one found, shortest first.
        references: Straight in the chart; for a Hessian metric also straight in its dual coordinates.
        kind: "levi-civita", or the name of another rule, in words.
        metric: Name of the metric.
        chart: Coordinates it is written in.
        report: Status, residual and cost; model calls count points times the metric's own calls.
        provenance: Settings, seed and versions.
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

    @property
    def shortest(self) -> Geodesic:
        """The shortest one found."""
        return self.geodesics[0]

    @property
    def distance(self) -> Estimate:
        """Length of the shortest one found."""
        return self.geodesics[0].length


def find_geodesic(
    metric: Metric,
    start: Tensor,
    end: Tensor,
    *,
    nodes: int = 33,
    starts: int = 4,
    bend: float = 0.3,
    init: Sequence[Curve] = (),
    via: Tensor | None = None,
    tol: float = 1e-7,
    max_iterations: int = 500,
    levels: int = 3,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> GeodesicResult:
    """Find the geodesics of a metric between two points.

    The metric's own derivative is part of the energy's gradient. All starts run in one batch on three nested
    levels.

    Args:
        metric: The metric; at most 16 dimensions, or one that knows its inverse.
        start: Shape (dim,), inside the metric's domain, in its chart.
        end: Shape (dim,).
        nodes: Nodes on the coarsest level; lengths come from nodes - 1, then twice and four times as many
            steps.
        starts: Starting curves: the straight one (or the one through `via`) and starts - 1 random bends of
            it.
        bend: Size of the bends relative to the distance of the ends in the chart.
        init: Further starting curves with these ends.
        via: Points that the first start goes through, shape (count, dim); needed where the straight line
            leaves the domain.
        tol: Relative residual: metric size of a full step over that of the curve.
        max_iterations: Iterations at most on a level.
        levels: Nested levels, one or more; one gives no error.
        generator: Source of the bends; one seeded with 0 if None.
        progress: Called with the share done and a sentence.
        cancel: Asked at every iteration.

    Returns:
        All distinct geodesics, shortest first, with references. Detached. Model calls: `report.model_calls`.

    Raises:
        ShapeError: If an end is no finite point of the chart.
        SettingError: If an end lies outside the domain, the ends coincide, the metric is not positive
            definite at an end or along a start, or the dimension is too large for it.

    Example:
        >>> from workbench.metrics import half_plane
        >>> a, b = torch.tensor([0.0, 1.0]).double(), torch.tensor([0.0, 2.0]).double()
        >>> round(find_geodesic(half_plane(), a, b).distance.value, 6)
        0.693147
    """
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    settings = {
        "nodes": nodes,
        "starts": starts,
        "bend": bend,
        "tol": tol,
        "levels": levels,
        "init": len(init),
    }
    return _solve(
        metric, start, end, settings, via, init, max_iterations, generator, progress, cancel, freeze=False
    )


def find_frozen_metric_curve(
    metric: Metric,
    start: Tensor,
    end: Tensor,
    *,
    nodes: int = 33,
    tol: float = 1e-7,
    max_iterations: int = 500,
    levels: int = 3,
    cancel: Cancel | None = None,
) -> GeodesicResult:
    """The curve that descent with a frozen metric converges to. It is not a geodesic.

    Published code leaves the derivative of the metric out of the gradient. Its stationary curves satisfy
    (g c')' = 0; for a Hessian metric they are straight in the dual coordinates, and longer than the geodesic.

    Args:
        metric: The metric.
        start: Shape (dim,).
        end: Shape (dim,).
        nodes: Nodes on the coarsest level.
        tol: Relative residual.
        max_iterations: Iterations at most on a level.
        levels: Nested levels.
        cancel: Asked at every iteration.

    Returns:
        One curve; its certificate (gap, speed) shows that it is no geodesic.
    """
    settings = {"nodes": nodes, "starts": 1, "bend": 0.0, "tol": tol, "levels": levels, "init": 0}
    return _solve(metric, start, end, settings, None, (), max_iterations, None, None, cancel, freeze=True)


def _solve(metric, start, end, settings, via, init, max_iterations, generator, progress, cancel, *, freeze):
    nodes, levels = settings["nodes"], settings["levels"]
    _check(metric, start, end, nodes, settings["starts"], levels)
    start, end = start.detach(), end.detach()
    names, curves = _starting_curves(metric, start, end, settings, via, init, generator)

    def cancelled() -> bool:
        return cancel is not None and cancel.is_set()

    options = {
        "levels": levels,
        "tol": settings["tol"],
        "max_iterations": max_iterations,
        "freeze": freeze,
        "cancelled": cancelled,
    }
    if progress is not None:
        progress(0.05, f"relaxing {len(curves)} curves")
    found = relax_levels(metric, curves, **options)
    geodesics = _distinct(_read(metric, found, names, nodes, freeze))
    evaluations, iterations, status = found.evaluations, found.iterations, found.status
    saddles = [g for g in geodesics if g.index]
    if saddles and not cancelled():
        if progress is not None:
            progress(0.6, f"leaving {len(saddles)} saddle curves")
        again_names, pushed = _push_off(metric, saddles, nodes)
        more = relax_levels(metric, pushed, **options)
        geodesics = _distinct((*geodesics, *_read(metric, more, again_names, nodes, freeze)))
        evaluations, iterations = evaluations + more.evaluations, iterations + more.iterations
        status = status if more.status is Status.CONVERGED else more.status
    warnings = _warnings(geodesics, freeze)
    best = geodesics[0]
    if status is Status.MAX_ITERATIONS and best.converged:
        status, warnings = (
            Status.CONVERGED,
            (*warnings, "a start that did not converge was left out of account"),
        )
    report = SolveReport(
        status,
        iterations,
        best.residual,
        round(evaluations * max(metric.calls, 0.0)),
        found.history,
        warnings,
        f"{len(geodesics)} curves, shortest {best.length}",
    )
    report.warn_if_failed()
    if progress is not None:
        progress(1.0, report.message)
    return GeodesicResult(
        start,
        end,
        geodesics,
        _references(metric, start, end, nodes),
        "frozen metric, not a geodesic" if freeze else "levi-civita",
        metric.name,
        metric.chart,
        report,
        provenance_of(start, model=metric.name, settings=settings, generator=generator, sources=SOURCES),
    )


def _check(metric: Metric, start: Tensor, end: Tensor, nodes: int, starts: int, levels: int) -> None:
    for name, point in (("start", start), ("end", end)):
        check_points(point, metric.chart.dim, name=name)
        if point.ndim != 1:
            raise SettingError(f"{name} of shape {tuple(point.shape)}", "one point, shape (dim,)", "log_map")
    if torch.equal(start, end):
        raise SettingError("equal ends", "two different points")
    if nodes < 3 or starts < 1 or levels < 1:
        raise SettingError(f"nodes={nodes}, starts={starts}, levels={levels}", "at least 3, 1 and 1")
    if metric.chart.dim <= DENSE_LIMIT:
        check_positive(metric, torch.stack((start, end)))


def _starting_curves(metric, start, end, settings, via, init, generator) -> tuple[list[str], Tensor]:
    nodes, names = settings["nodes"], []
    if via is None:
        base, names = straight_start(start, end, nodes), ["straight"]
    else:
        check_points(via, metric.chart.dim, name="via")
        base = via_start(
            torch.cat((start[None], via.reshape(-1, start.shape[0]).to(start), end[None])), nodes
        )
        names = ["via points"]
    if not bool(curve_inside(metric, base)):
        middle = base[~inside(metric, base)]
        where = (
            "between its nodes" if not len(middle) else f"at {[round(float(v), 4) for v in middle[0][:4]]}"
        )
        raise SettingError(
            f"a {names[0]} start that leaves the domain of {metric.name} {where}",
            "a start inside it",
            "via=...",
        )
    curves = [base[None]]
    if settings["starts"] > 1:
        curves.append(
            bent_starts(metric, base, settings["starts"] - 1, bend=settings["bend"], generator=generator)
        )
        names += [f"bend {k + 1}" for k in range(settings["starts"] - 1)]
    for k, curve in enumerate(init):
        points = resample_start(curve.points.to(start), nodes).clone()
        points[0], points[-1] = start, end
        curves.append(points[None])
        names.append(f"given {k + 1}")
    return names, torch.cat(curves)


def _read(metric: Metric, found: Refined, names: list[str], nodes: int, freeze: bool) -> tuple[Geodesic, ...]:
    """Each relaxed curve as a geodesic on the coarsest nodes, with its index where that is affordable."""
    skip = (found.points.shape[1] - 1) // (nodes - 1)
    coarse = max(skip, (found.points.shape[1] - 1) // (_INDEX_NODES - 1))
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


def _distinct(found: tuple[Geodesic, ...]) -> tuple[Geodesic, ...]:
    """Curves that differ, the converged ones first and then by length."""
    kept: list[Geodesic] = []
    for one in sorted(found, key=lambda g: (not g.converged, g.length.value)):
        points = one.curve.points
        size = float((points - points[0]).abs().max())
        for other in kept:
            close = abs(one.length.value - other.length.value) <= 1e-4 * other.length.value
            if close and float((points - other.curve.points).abs().max()) <= 1e-2 * size:
                break
        else:
            kept.append(one)
    return tuple(kept)


def _push_off(metric: Metric, saddles: list[Geodesic], nodes: int) -> tuple[list[str], Tensor]:
    """Both sides of each saddle curve along its most negative direction, as starting curves."""
    names, pushed = [], []
    for saddle in saddles:
        points = saddle.curve.points
        skip = max(1, (nodes - 1) // (_INDEX_NODES - 1))
        coarse = points[::skip] if (nodes - 1) % skip == 0 else points
        _, modes = second_variation(metric, coarse)
        bump = resample_start(modes[0], nodes)
        size = 0.1 * torch.linalg.vector_norm(points.diff(dim=0), dim=1).sum() / bump.abs().max()
        for sign in (1.0, -1.0):
            pushed.append(fit_inside(metric, points, (sign * size * bump)[None]))
            names.append(f"off the saddle of {saddle.origin}")
    return names, torch.cat(pushed)


def _warnings(geodesics: tuple[Geodesic, ...], freeze: bool) -> tuple[str, ...]:
    said = []
    best = geodesics[0]
    if freeze:
        said.append("the metric's derivative was left out: this curve is not a geodesic")
    if best.index:
        said.append(
            f"the shortest curve found is a saddle with {best.index} negative directions, not a minimum"
        )
    if best.length.error is not None and best.length.error > 1e-3 * best.length.value:
        said.append("the length is uncertain by more than a thousandth: more nodes are needed")
    if len(geodesics) > 1:
        said.append(f"{len(geodesics)} different stationary curves join these ends")
    return tuple(said)


def _references(metric: Metric, start: Tensor, end: Tensor, nodes: int) -> tuple[ReferenceCurve, ...]:
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


@dataclass(frozen=True, slots=True)
class MetricField:
    """A metric on a grid over a plane; row 0 at the lowest ordinate.

    Attributes:
        matrices: Shape (rows, columns, 2, 2).
        window: Where the grid lies.
        log_magnification: Half the log determinant, NaN where it is negative, shape (rows, columns).
        largest: Largest eigenvalue.
        smallest: Smallest eigenvalue; negative where the metric is indefinite.
        anisotropy: Fractional anisotropy, 0 to 1.
        residual: Distance from a Hessian metric in this chart, 0 to 1; None if not measured.
        indefinite: True where the metric is not positive definite, or the point lies outside the domain.
        metric: Name of the metric.
        chart: Its coordinates.
        calls: Model calls that the field took.
    """

    matrices: Tensor
    window: Window
    log_magnification: Tensor
    largest: Tensor
    smallest: Tensor
    anisotropy: Tensor
    residual: Tensor | None
    indefinite: Tensor
    metric: str
    chart: Chart
    calls: int

    @property
    def condition(self) -> Tensor:
        """Largest over smallest eigenvalue."""
        return self.largest / self.smallest

    @property
    def share_indefinite(self) -> float:
        """Share of grid points where the metric is no metric."""
        return float(self.indefinite.double().mean())


def on_section(metric: Metric, section: Section, *, axes: tuple[str, str] = ("a", "b")) -> Pullback:
    """A metric of a large space seen on a plane through it, without any of its matrices.

    Args:
        metric: The metric of the large space.
        section: The plane.
        axes: Names of its coordinates.

    Returns:
        The induced metric in the plane's two coordinates; three inner products a point for its matrix.
    """
    return Pullback(section.decode, Chart(f"plane through {metric.chart.name}", 2, axes), metric, metric.name)


def measure_metric_field(
    metric: Metric,
    window: Window,
    *,
    columns: int = 64,
    rows: int = 64,
    residual: bool = False,
    chunk: int = 65536,
    like: Tensor | None = None,
) -> MetricField:
    """Evaluate a metric of two coordinates on a grid, in one batch.

    Args:
        metric: A metric of a two-dimensional chart; `on_section` makes one of a larger space.
        window: The rectangle of the chart.
        columns: Grid points along the first coordinate.
        rows: Grid points along the second.
        residual: Also measure how far it is from a Hessian metric; costs its first derivatives.
        chunk: Points to a batch.
        like: A tensor whose dtype and device the grid takes; float64 on the CPU if None.

    Returns:
        The field. An indefinite metric is marked, not refused: the field is where one looks for it.

    Raises:
        SettingError: If the chart has not two coordinates.
    """
    if metric.chart.dim != 2 or min(columns, rows) < 2:
        raise SettingError(
            f"a chart of {metric.chart.dim} coordinates and {rows} x {columns} points",
            "two coordinates and 2 x 2 points or more",
            "on_section(metric, section)",
        )
    like = torch.empty(0, dtype=torch.float64) if like is None else like
    x = torch.linspace(*window.x, columns, dtype=like.dtype, device=like.device)
    y = torch.linspace(*window.y, rows, dtype=like.dtype, device=like.device)
    grid = torch.cartesian_prod(y, x).flip(-1)
    here = inside(metric, grid)
    g = torch.full((len(grid), 2, 2), torch.nan, dtype=grid.dtype, device=grid.device)
    rest = torch.full((len(grid),), torch.nan, dtype=grid.dtype, device=grid.device)
    for part in here.nonzero().squeeze(1).split(chunk):
        g[part] = matrix(metric, grid[part]).detach()
        if residual:
            rest[part] = hessian_residual(metric, grid[part]).detach()
    finite = torch.isfinite(g).flatten(1).all(dim=1)
    values = torch.full((len(grid), 2), torch.nan, dtype=grid.dtype, device=grid.device)
    values[finite] = torch.linalg.eigvalsh(g[finite])
    bad = ~(values[:, 0] > 0.0)
    volume = 0.5 * torch.log(values.prod(dim=1).clamp_min(0.0))
    volume = torch.where(finite & (values.prod(dim=1) >= 0.0), volume, torch.full_like(volume, torch.nan))
    shape = (rows, columns)
    return MetricField(
        g.reshape(*shape, 2, 2),
        window,
        volume.reshape(shape),
        values[:, 1].reshape(shape),
        values[:, 0].reshape(shape),
        anisotropy_of(values).reshape(shape),
        rest.reshape(shape) if residual else None,
        bad.reshape(shape),
        metric.name,
        metric.chart,
        round(int(here.sum()) * metric.calls),
    )
