"""Geodesics at the bench: metrics by name, the shortest curve under one of them, and its unit balls."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from workbench.bench.answers import Ellipse, Inquiry, LensAnswer, Line
from workbench.bench.hints import carried
from workbench.curves import Curve
from workbench.errors import SettingError
from workbench.geodesics import curve_length, relax, straight_start, via_start
from workbench.lenses.fisher import SOURCES, Geodesic, GeodesicResult, find_geodesic, on_section
from workbench.metrics import (
    DENSE_LIMIT,
    Chart,
    Euclidean,
    Metric,
    RankOneScore,
    density_metric,
    matrix,
    seen_metric,
)
from workbench.metrics import score_jacobian_metric as jacobian_metric
from workbench.models import ExactScore, Landscape
from workbench.report import Estimate, SolveReport, Status, provenance_of
from workbench.subjects import Subject

METHODS = {
    "score": ("GEORCE", "score metric"),
    "density": ("GEORCE", "density metric"),
    "jacobian": ("GEORCE", "score Jacobian metric"),
    "pullback": ("GEORCE", "decoder pullback"),
    "euclidean": ("GEORCE",),
}
"""Methods of each metric, as citations name them."""
SMALLEST_WEIGHT = 0.2
"""Root of the score's default weight, in units of the data's deviation, where the noise level is below it."""
MOST = 3
"""Most different geodesics that are drawn."""
WARM, COLD, CARRIED = 4, 20, 9
"""Most relaxations of a coarse geodesic: from the last one, of which so many nodes are taken over, and
where there is none."""
PREVIEW_NODES, LARGE_PREVIEW, PREVIEW_TOL = 17, 5, 1e-2
"""Its nodes, those in more than `DENSE_LIMIT` dimensions, and the residual that is small enough."""
PICTURE_NODES = 9
"""Most nodes of a geodesic between pictures on its coarsest level."""


def metric_of(name: str, subject: Subject, sigma: float, weight: float | None = None) -> Metric:
    """A metric on the subject's space by name.

    Args:
        name: One of `workbench.bench.state.METRICS`.
        subject: The subject.
        sigma: Noise level at which its score or density is taken.
        weight: Weight of the score in "score", squared data units; None for the square of the noise level,
            and of a fifth of the data's deviation at least.

    Returns:
        The metric.

    Raises:
        SettingError: If the subject lacks what the metric is made of; says what.
    """
    frame, model = subject.frame, subject.model
    chart = Chart(f"data space of {frame.name}", frame.dim)
    if name == "euclidean":
        return Euclidean(chart)
    if name == "pullback":
        if subject.decoder is None:
            raise SettingError(
                f"the metric 'pullback' for {frame}, which decodes nothing", "a decoder", "score"
            )
        if frame.dim > DENSE_LIMIT:
            raise SettingError(
                f"the metric 'pullback' of {frame.dim} latents",
                f"at most {DENSE_LIMIT}",
                "a field of it on a plane: on_section(seen_metric(model), plane)",
            )
        return seen_metric(subject.decoder)
    if isinstance(model, Landscape):
        raise SettingError(
            f"the metric {name!r} in {model.name}, {subject.lacking}",
            ", ".join(metrics_for(subject)),
            f"metric={metrics_for(subject)[0]!r}",
        )
    if name == "score":
        floor = max(sigma, SMALLEST_WEIGHT * frame.data_std)
        return RankOneScore(model, sigma, floor**2 if weight is None else weight)
    if name == "density":
        if not isinstance(model, ExactScore):
            raise SettingError(
                f"the metric 'density' for {frame}, a network without a density", "score", "metric='score'"
            )
        return density_metric(model, sigma)
    if frame.dim > DENSE_LIMIT:
        raise SettingError(
            f"the metric {name!r} in {frame.dim} dimensions", f"at most {DENSE_LIMIT}", "metric='score'"
        )
    return jacobian_metric(model, sigma, epsilon=1e-3 / frame.data_std**4)


def metrics_for(subject: Subject) -> tuple[str, ...]:
    """Names of the metrics that a subject has."""
    dense = subject.frame.dim <= DENSE_LIMIT
    seen = ("pullback",) if dense and subject.decoder is not None else ()
    if isinstance(subject.model, Landscape):
        return (*seen, "euclidean")
    exact = ("density",) if isinstance(subject.model, ExactScore) else ()
    small = ("jacobian",) if dense else ()
    return ("score", *exact, *small, *seen, "euclidean")


def ask_fisher(inquiry: Inquiry) -> LensAnswer:
    """The geodesic under the chosen metric with its length and certificate, and the metric's unit balls."""
    state, subject = inquiry.state, inquiry.place.subject
    if state.metric not in metrics_for(subject):
        return LensAnswer("fisher", inquiry.speed, sentence=_why_not(state.metric, subject))
    sigma = inquiry.level
    metric = metric_of(state.metric, subject, sigma, state.weight)
    result = geodesic_of(inquiry, metric)
    best = result.shortest
    unit = "" if state.metric != "euclidean" else "data units"
    length = replace(best.length, unit=unit, error=_number_or_none(best.length.error))
    name = "geodesic" if result.report.iterations else f"{result.kind}, not relaxed"
    lines = [Line(name, "geodesic", best.curve.points, sigma, result.report, length)]
    lines += [
        Line(f"geodesic {k + 2}", "other", other.curve.points, sigma, None, other.length)
        for k, other in enumerate(result.geodesics[1:MOST])
    ]
    facts = [(f"length, {metric.name}", length)]
    if not math.isnan(best.gap):
        facts.append(
            ("energy gap", Estimate(best.gap, how="(energy - length^2) / length^2; 0 at constant speed"))
        )
    if not math.isnan(best.speed_spread):
        facts.append(("speed spread", Estimate(best.speed_spread, how="standard deviation over mean")))
    if best.index is not None:
        facts.append(
            (
                "negative directions",
                Estimate(float(best.index), how="of the second variation; 0 at a minimum"),
            )
        )
    return LensAnswer(
        "fisher",
        inquiry.speed,
        sigma,
        tuple(lines),
        _balls(inquiry, metric),
        facts=tuple(facts),
        report=result.report,
        provenance=result.provenance,
        methods=METHODS[state.metric],
    )


def geodesic_of(inquiry: Inquiry, metric: Metric) -> GeodesicResult:
    """The geodesics between the ends, solved once for the same metric and settings."""
    state, subject = inquiry.state, inquiry.place.subject
    start, end = inquiry.ends()
    via = subject.points(state.via)
    if not inquiry.full:
        near = None if len(start) > DENSE_LIMIT else _near(inquiry, (start, end))
        return inquiry.once(
            "geodesic at first sight",
            (_named(inquiry), start, end, via if near is None else near, near is None),
            make=lambda: _preview(inquiry, metric, via, near),
        )
    exact = isinstance(subject.model, ExactScore | Landscape) and state.metric != "pullback"
    settings: dict[str, Any]
    if subject.frame.dim > DENSE_LIMIT:
        nodes = min(state.nodes, PICTURE_NODES)
        settings = {"nodes": nodes, "starts": 1, "levels": 1, "tol": 2e-2, "max_iterations": 60}
    else:
        starts = 4 if subject.frame.dim > 1 else 1
        settings = {"nodes": max(state.nodes, 17), "starts": starts, "levels": 3}
        if not exact:
            settings |= {"starts": 2, "levels": 2, "tol": 1e-3, "max_iterations": 80}
    return inquiry.once(
        "geodesic",
        (_named(inquiry), start, end, via, settings, state.seed),
        make=lambda: find_geodesic(
            metric,
            start,
            end,
            via=via,
            generator=torch.Generator().manual_seed(state.seed),
            progress=inquiry.progress,
            cancel=inquiry.cancel,
            **settings,
        ),
    )


def _near(inquiry: Inquiry, ends: tuple[Tensor, Tensor]) -> Tensor | None:
    """Inner points of the geodesic that was found last, carried along with the ends; None without one."""
    for line in (line for answer in inquiry.near if answer.lens == "fisher" for line in answer.lines):
        if line.kind == "geodesic":
            return carried(Curve.through(line.points), ends, CARRIED).points[1:-1]
    return None


def _named(inquiry: Inquiry) -> tuple:
    """What tells a metric from another one on the same model."""
    return (inquiry.state.metric, inquiry.level, inquiry.state.weight)


def _preview(inquiry: Inquiry, metric: Metric, via: Tensor | None, near: Tensor | None) -> GeodesicResult:
    """What the time between two moves of a pointer allows: a few relaxations from the last curve, without its
    certificates; in a large network the straight line, through the via points, with its length under the
    metric."""
    start, end = inquiry.ends()
    large = len(start) > DENSE_LIMIT
    nodes = LARGE_PREVIEW if large else PREVIEW_NODES
    through = via if near is None else near
    origin = "straight" if through is None else "via points"
    stations = torch.stack((start, end)) if through is None else torch.cat((start[None], through, end[None]))
    if large:
        each = -(-(nodes - 1) // (len(stations) - 1))  # steps between two stations, which all are nodes
        pieces = straight_start(stations[:-1], stations[1:], each + 1)
        points = torch.cat((pieces[:, :-1].flatten(0, 1), end[None]))
        nodes = len(points)
        value, energy, residual, gap = float(curve_length(metric, points)), math.nan, None, math.nan
        calls, iterations, converged = round((nodes - 1) * metric.calls), 0, False
        kind = "straight line" if through is None else "straight line through the via points"
        said = "not relaxed while a point moves; the geodesic comes on release"
    else:
        most, kind = COLD if near is None else WARM, "levi-civita"
        points = straight_start(start, end, nodes) if through is None else via_start(stations, nodes)
        if inquiry.progress is not None:
            inquiry.progress(0.05, "relaxing the geodesic at first sight")
        found = relax(
            metric, points[None], tol=PREVIEW_TOL, max_iterations=most, cancelled=partial(_stopped, inquiry)
        )
        points, value, energy = found.points[0], float(found.length), float(found.energy)
        residual, converged, gap = float(found.residual), bool(found.converged), energy / value**2 - 1.0
        calls, iterations = round(found.evaluations * max(metric.calls, 0.0)), found.iterations
        said = f"{iterations} relaxations while a point moves; the certified geodesic comes on release"
    length = Estimate(value, None, "metric units", "midpoint rule, while a point moves")
    curve = Geodesic(
        Curve.through(points),
        length,
        energy,
        gap,
        math.nan,
        None,
        math.nan if residual is None else residual,
        converged,
        origin,
    )
    ended = Status.CANCELLED if _stopped(inquiry) and not large else Status.MAX_ITERATIONS
    status = Status.CONVERGED if converged else ended
    report = SolveReport(status, iterations, residual, calls, message=said)
    given = provenance_of(start, model=metric.name, settings={"nodes": nodes}, sources=SOURCES)
    return GeodesicResult(start, end, (curve,), (), kind, metric.name, metric.chart, report, given)


def _stopped(inquiry: Inquiry) -> bool:
    """Whether nobody waits for the answer any more."""
    return inquiry.cancel is not None and inquiry.cancel.is_set()


def _balls(inquiry: Inquiry, metric: Metric) -> tuple[Ellipse, ...]:
    """Unit balls of the metric on the plane at both ends."""
    section = inquiry.place.section
    ends = torch.stack(inquiry.ends())
    feet = section.encode(ends)
    seen = on_section(metric, section) if inquiry.place.subject.frame.dim > 2 else metric
    g = torch.stack(  # an end that stays where it was is not measured again
        [
            inquiry.once(
                "unit ball",
                (_named(inquiry), section, foot),
                make=lambda foot=foot: matrix(seen, foot[None])[0].detach(),
            )
            for foot in feet
        ]
    )
    values, vectors = torch.linalg.eigh(0.5 * (g + g.mT))
    roots = vectors @ torch.diag_embed(values.clamp_min(torch.finfo(g.dtype).tiny).rsqrt()) @ vectors.mT
    return tuple(
        Ellipse(f"unit ball of the metric at the {name}", "metric", feet[k], roots[k])
        for k, name in enumerate(("start", "end"))
    )


def _why_not(name: str, subject: Subject) -> str:
    try:
        metric_of(name, subject, 1.0)
    except SettingError as error:
        return f"{error.got[0].upper()}{error.got[1:]}, has no geodesic here; {error.hint} has one."
    return f"{subject.frame} has no metric {name!r}."


def _number_or_none(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def lengths_of(lines: tuple[Line, ...], metric: Metric, *, nodes: int = 65) -> Tensor:
    """Lengths of curves under a metric, shape (lines,), by the midpoint rule on their splines.

    Args:
        lines: Curves.
        metric: The metric.
        nodes: Nodes at which each is resampled.

    Returns:
        Lengths; (nodes - 1) times the metric's own calls each.
    """
    fine = torch.stack([Curve.through(line.points).resample(nodes).points for line in lines])
    return curve_length(metric, fine).detach()
