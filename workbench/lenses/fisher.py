r"""The Fisher lens: how far apart points of a chart really are, and the shortest way between them.

`find_geodesic` takes any metric and returns every local geodesic that its starts led to, each with an
extrapolated length, its error, and a certificate that does not depend on how it was found: energy against
squared length, the spread of the speed, and the number of negative directions of the second variation (0 for
a local minimum). A stationary curve that is no minimum is pushed off along its most negative direction and
relaxed again. A start that leaves where the metric is positive definite is dropped, counted and named.

`measure_metric_field` evaluates a metric over a plane in one batch: matrices, volumes, eigenvalues, and how
far the metric is from being a Hessian in its chart.

References:
    Rygaard, Hauberg, "GEORCE: A Fast New Control Algorithm for Computing Geodesics", 2025,
        https://arxiv.org/abs/2505.05961
    Lobashev, Guskov, Larchenko, Tamm, "Hessian Geometry of Latent Space in Generative Models", 2025,
        https://arxiv.org/abs/2506.10632
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from workbench.curves import Curve
from workbench.draws import seeded
from workbench.errors import SettingError
from workbench.geodesics import (
    NoCurveLeft,
    Refined,
    bent_starts,
    fit_inside,
    relax_levels,
    resample_start,
    second_variation,
    straight_start,
    via_start,
)
from workbench.geodesics.engine import curve_inside
from workbench.geodesics.metric_fields import MetricField, measure_metric_field, on_section
from workbench.geodesics.results import (
    INDEX_NODES,
    UNCERTIFIED,
    Geodesic,
    GeodesicResult,
    ReferenceCurve,
    distinct_curves,
    read_curves,
    reference_curves,
)
from workbench.integrators import Cancel, Progress
from workbench.metrics import DENSE_LIMIT, Metric, check_positive, inside
from workbench.models import check_points
from workbench.report import SolveReport, Status, provenance_of

__all__ = [
    "SOURCES",
    "Geodesic",
    "GeodesicResult",
    "MetricField",
    "ReferenceCurve",
    "find_frozen_metric_curve",
    "find_geodesic",
    "measure_metric_field",
    "on_section",
]

SOURCES = (
    "GEORCE: A Fast New Control Algorithm for Computing Geodesics (Rygaard, Hauberg, 2025)",
    "Hessian Geometry of Latent Space in Generative Models (Lobashev, Guskov, Larchenko, Tamm, 2025)",
)


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
        All distinct geodesics with references, as `GeodesicResult` orders them. Detached. Model calls:
        `report.model_calls`.

    Raises:
        ShapeError: If an end is no finite point of the chart.
        SettingError: If an end lies outside the domain, the ends coincide, the metric is not positive
            definite at an end or along every start, or the dimension is too large for it.

    Example:
        >>> from workbench.metrics import half_plane
        >>> a, b = torch.tensor([0.0, 1.0]).double(), torch.tensor([0.0, 2.0]).double()
        >>> round(find_geodesic(half_plane(), a, b).distance.value, 6)
        0.693147
    """
    generator = seeded(generator)
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
        "drop": True,
        "levels": levels,
        "tol": settings["tol"],
        "max_iterations": max_iterations,
        "freeze": freeze,
        "cancelled": cancelled,
    }
    if progress is not None:
        progress(0.05, f"relaxing {len(curves)} curves")
    found = relax_levels(metric, curves, **options)
    kept = found.kept.tolist()
    dropped = tuple(name for k, name in enumerate(names) if k not in kept)
    geodesics = distinct_curves(read_curves(metric, found, [names[k] for k in kept], nodes, freeze))
    evaluations, iterations, status = found.evaluations, found.iterations, found.status
    saddles = [g for g in geodesics if g.index]
    if saddles and not cancelled():
        if progress is not None:
            progress(0.6, f"leaving {len(saddles)} saddle curves")
        again, more = _leave(metric, saddles, nodes, options)
        geodesics, evaluations = distinct_curves((*geodesics, *again)), evaluations + more.evaluations
        if isinstance(more, Refined):
            iterations += more.iterations
            status = status if more.status is Status.CONVERGED else more.status
    warnings = _warnings(geodesics, freeze)
    if dropped:
        one = "was" if len(dropped) == 1 else "were"
        said = (
            f"{len(dropped)} of {len(names)} starts left where {metric.name} is positive definite, and {one} "
        )
        warnings = (*warnings, f"{said}dropped: {', '.join(dropped)}")
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
        f"{len(geodesics)} curves, the first of length {best.length}",
    )
    report.warn_if_failed()
    if progress is not None:
        progress(1.0, report.message)
    return GeodesicResult(
        start,
        end,
        geodesics,
        reference_curves(metric, start, end, nodes),
        "frozen metric, not a geodesic" if freeze else "levi-civita",
        metric.name,
        metric.chart,
        report,
        provenance_of(start, model=metric.name, settings=settings, generator=generator, sources=SOURCES),
        dropped,
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
    if not bool(curve_inside(metric, torch.cat(curves)).any()):
        middle = base[~inside(metric, base)]
        where = (
            "between its nodes" if not len(middle) else f"at {[round(float(v), 4) for v in middle[0][:4]]}"
        )
        raise SettingError(
            f"a {names[0]} start that leaves the domain of {metric.name} {where}",
            "a start inside it",
            "via=...",
        )
    return names, torch.cat(curves)


def _leave(metric, saddles, nodes, options) -> tuple[tuple[Geodesic, ...], Refined | NoCurveLeft]:
    """What the saddle curves relax to once they are pushed off to both sides; no curve where all leave."""
    names, pushed = _push_off(metric, saddles, nodes)
    try:
        found = relax_levels(metric, pushed, **options)
    except NoCurveLeft as left:
        return (), left
    return read_curves(
        metric, found, [names[k] for k in found.kept.tolist()], nodes, options["freeze"]
    ), found


def _push_off(metric: Metric, saddles: list[Geodesic], nodes: int) -> tuple[list[str], Tensor]:
    """Both sides of each saddle curve along its most negative direction, as starting curves."""
    names, pushed = [], []
    for saddle in saddles:
        points = saddle.curve.points
        skip = max(1, (nodes - 1) // (INDEX_NODES - 1))
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
    elif best.gap > UNCERTIFIED:
        said.append(f"the energy exceeds the squared length by {best.gap:.0%}: this curve is not certified")
    if best.index:
        said.append(f"the first curve is a saddle with {best.index} negative directions, not a minimum")
    if best.length.error is not None and best.length.error > 1e-3 * best.length.value:
        said.append("the length is uncertain by more than a thousandth: more nodes are needed")
    if len(geodesics) > 1:
        said.append(f"{len(geodesics)} different stationary curves join these ends")
    return tuple(said)
