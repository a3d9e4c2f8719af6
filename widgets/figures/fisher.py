"""Figures of the Fisher lens: geodesics over a metric field with ellipses, lengths with certificates, zooms,
slopes.

Ellipses are the steps of equal metric length: long where the metric is small. Points where the metric is no
metric are left blank, never clipped. Distances in a chart mislead; what counts is printed: metric lengths.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
import torch
from torch import Tensor

from widgets.figures.images import field_uri
from widgets.figures.status import dress, sentence, status_line
from widgets.theme import SIZES, Theme, theme_of
from workbench.fields import Field, Window, frame_window
from workbench.lenses.fisher import Geodesic, GeodesicResult, MetricField
from workbench.logpartition import Published
from workbench.phases import Sensitivity, exact_slope, find_boundary

READINGS = {
    "log_magnification": "log volume element ½ ln det g",
    "largest": "log₁₀ of the largest eigenvalue",
    "anisotropy": "fractional anisotropy",
    "residual": "distance from a Hessian metric",
}
"""What a metric field can be coloured by."""
_TABLE_WIDTH = 900
_LETTER = 6.6  # pixels of a letter in a table, on average
_TITLE = 36  # letters of a metric's name that leave room for its length on the same line


def figure(result: GeodesicResult, *, theme: str | Theme = "light", **options) -> go.Figure:
    """The figure of geodesics: their map. See `map_figure` for the arguments."""
    return map_figure(result, theme=theme, **options)


def reading_of(field: MetricField, reading: str) -> Field:
    """A metric field as a scalar field that can be drawn.

    Args:
        field: The metric field.
        reading: One of `READINGS`.

    Returns:
        The scalar, NaN where the metric is no metric.

    Raises:
        ValueError: If the reading is unknown or was not measured.
    """
    if reading not in READINGS:
        raise ValueError(f"got reading {reading!r}; expected one of {', '.join(READINGS)}")
    values = getattr(field, reading)
    if values is None:
        raise ValueError("got a field without its Hessian residual; expected one; try residual=True")
    if reading == "largest":
        values = torch.log10(values.clamp_min(1e-300))
    values = torch.where(field.indefinite, torch.full_like(values, torch.nan), values)
    return Field(values, field.window, READINGS[reading])


def map_figure(
    result: GeodesicResult | None = None,
    *,
    field: MetricField | None = None,
    reading: str = "log_magnification",
    ellipses: int = 9,
    labels: Tensor | None = None,
    rounding: float = 0.0,
    theme: str | Theme = "light",
    width: int | None = None,
    height: int | None = None,
) -> go.Figure:
    """Geodesics in a chart of two coordinates, over a metric field if there is one.

    Args:
        result: Geodesics of a two-dimensional chart; None draws the field alone.
        field: A metric field, drawn as a picture with ellipses.
        reading: What colours the field, one of `READINGS`.
        ellipses: Ellipses along the longer side; 0 for none.
        labels: Phase labels on the field's grid, whose boundary is drawn as a line of marks.
        rounding: Step of the chart below which arithmetic makes the difference; a finer grid is greyed.
        theme: Name or theme.
        width: Pixels.
        height: Pixels.

    Returns:
        Traces, where present: "equal steps", "phase boundary", the references by name, "geodesic", "other
        geodesic", "saddle curve", "start", "end".
    """
    look = theme_of(theme)
    source = field if result is None else result
    if source is None:
        return sentence("no geodesic and no field to draw", theme=look)
    chart = source.chart
    if chart.dim != 2:
        return sentence(f"a map needs two coordinates; this chart has {chart.dim}", theme=look)
    drawing = go.Figure()
    field = None if field is None else _on_cpu(field)
    window = field.window if field is not None else _window(source)  # type: ignore[arg-type]
    if field is not None:
        _add_field(drawing, field, reading, look)
        _add_ellipses(drawing, field, ellipses, look)
        if labels is not None:
            _add_boundary(drawing, field, labels, look)
        if step_of(field) < rounding:
            _add_veil(drawing, field.window, look)
    if result is not None:
        _add_curves(drawing, result, look)
    names = chart.axes or ("first coordinate", "second coordinate")
    drawing.update_xaxes(title_text=names[0], range=list(window.x), showgrid=field is None)
    drawing.update_yaxes(title_text=names[1], range=list(window.y), showgrid=field is None)
    drawing.update_layout(legend=dict(orientation="v", x=1.02, y=1))
    ground = "" if field is None else f" · colour: {READINGS[reading]}"
    blank = (
        ""
        if field is None or not field.share_indefinite
        else f" · blank: no metric ({field.share_indefinite:.0%})"
    )
    return dress(
        drawing,
        title=source.metric if result is None else describe(result),
        subtitle=f"chart: {chart.name}{ground}{blank}",
        status="" if result is None else status_line(result.report, result.provenance),
        trusted=result is None or result.report.converged,
        theme=look,
        width=width,
        height=height or SIZES.map_height,
    )


def _on_cpu(field: MetricField) -> MetricField:
    """The same field where pictures are made."""
    values = {part.name: getattr(field, part.name) for part in dataclasses.fields(field)}
    moved = {name: value.detach().cpu() for name, value in values.items() if isinstance(value, Tensor)}
    return dataclasses.replace(field, **moved)


def step_of(field: MetricField) -> float:
    """The smaller distance of two neighbouring grid points of a field, along either axis."""
    rows, columns = field.indefinite.shape
    across = (field.window.x[1] - field.window.x[0]) / (columns - 1)
    return min(across, (field.window.y[1] - field.window.y[0]) / (rows - 1))


def _add_veil(drawing: go.Figure, window: Window, look: Theme) -> None:
    drawing.add_shape(
        type="rect",
        x0=window.x[0],
        x1=window.x[1],
        y0=window.y[0],
        y1=window.y[1],
        fillcolor=look.muted,
        opacity=0.55,
        line_width=0,
        layer="below",
        name="below rounding",
    )
    drawing.add_annotation(
        x=0.5,
        y=0.98,
        xref="x domain",
        yref="y domain",
        yanchor="top",
        showarrow=False,
        bgcolor=look.paper,
        text="finer than rounding: no statement about the model",
    )


def describe(result: GeodesicResult) -> str:
    """Metric and length of the shortest curve, in one line."""
    name = "curve of the frozen metric" if result.kind.startswith("frozen") else "distance"
    gap = "<br>" if len(result.metric) > _TITLE else " "
    return f"{result.metric}:{gap}{name} {result.distance}"


def _window(result: GeodesicResult) -> Window:
    points = torch.cat(
        [g.curve.points for g in result.geodesics] + [r.curve.points for r in result.references]
    )
    return frame_window(points)


def _add_field(drawing: go.Figure, field: MetricField, reading: str, look: Theme) -> None:
    window, scalar = field.window, reading_of(field, reading)
    finite = scalar.values[torch.isfinite(scalar.values)].double()
    limits = None
    if finite.numel() > 1:
        low, high = (float(torch.quantile(finite, q)) for q in (0.01, 0.99))
        limits = (low, high) if high > low else None
    drawing.add_layout_image(
        source=field_uri(scalar, look, limits=limits),
        name=scalar.title,
        xref="x",
        yref="y",
        x=window.x[0],
        y=window.y[1],
        sizex=window.x[1] - window.x[0],
        sizey=window.y[1] - window.y[0],
        sizing="stretch",
        layer="below",
    )


def _add_ellipses(drawing: go.Figure, field: MetricField, count: int, look: Theme) -> None:
    """Unit balls of the metric on a sparse grid, scaled together so that the middle one fits its cell."""
    if count < 1:
        return
    rows, columns = field.indefinite.shape
    step = max(1, max(rows, columns) // count)
    y, x = torch.meshgrid(
        torch.arange(step // 2, rows, step), torch.arange(step // 2, columns, step), indexing="ij"
    )
    keep = ~field.indefinite[y, x]
    y, x = y[keep], x[keep]
    if not len(x):
        return
    g = field.matrices[y, x]
    inverse_root = torch.linalg.cholesky(torch.linalg.inv(g))
    width, height = field.window.x[1] - field.window.x[0], field.window.y[1] - field.window.y[0]
    cell = torch.tensor([width * step / columns, height * step / rows], dtype=g.dtype)
    reach = (torch.linalg.vector_norm(inverse_root, dim=2) / cell).amax(dim=1)
    scale = 0.42 / reach.median()
    size = torch.clamp(0.48 / reach, max=scale)  # the largest are cut to their cells
    angle = torch.linspace(0.0, 2.0 * math.pi, 33, dtype=g.dtype)
    ring = torch.stack((torch.cos(angle), torch.sin(angle)))
    shape = size[:, None, None] * (inverse_root @ ring)
    centre = torch.stack(
        (
            field.window.x[0] + width * x.to(g.dtype) / (columns - 1),
            field.window.y[0] + height * y.to(g.dtype) / (rows - 1),
        ),
        dim=1,
    )
    lines = centre[:, :, None] + shape
    gap = torch.full((len(lines), 2, 1), torch.nan, dtype=g.dtype)
    flat = torch.cat((lines, gap), dim=2).transpose(0, 1).reshape(2, -1)
    drawing.add_scatter(
        x=_listed(flat[0]),
        y=_listed(flat[1]),
        mode="lines",
        name="equal steps",
        line=dict(color=look.muted, width=1),
        hoverinfo="skip",
    )


def _add_boundary(drawing: go.Figure, field: MetricField, labels: Tensor, look: Theme) -> None:
    rows, columns = labels.shape
    y, x = find_boundary(labels.cpu()).nonzero(as_tuple=True)
    window = field.window
    drawing.add_scatter(
        x=_listed(window.x[0] + (window.x[1] - window.x[0]) * (x.double() + 0.5) / (columns - 1)),
        y=_listed(window.y[0] + (window.y[1] - window.y[0]) * (y.double() + 0.5) / (rows - 1)),
        mode="markers",
        name="phase boundary",
        marker=dict(color=look.saddle, size=3),
        hoverinfo="skip",
    )


def _add_curves(drawing: go.Figure, result: GeodesicResult, look: Theme) -> None:
    styles = (
        dict(color=look.straight, dash="dash", width=1.6),
        dict(color=look.slerp, dash="dot", width=1.8),
    )
    for reference, style in zip(result.references, styles, strict=False):
        _add_line(drawing, reference.curve.points, reference.name, f"length {reference.length}", style)
    rest = [g for g in result.geodesics[1:] if not g.index]
    saddles = [g for g in result.geodesics if g.index]
    for geodesic in rest:
        style = dict(color=look.other, width=SIZES.line - 0.4)
        _add_line(drawing, geodesic.curve.points, "other geodesic", certificate_line(geodesic), style)
    for geodesic in saddles:
        style = dict(color=look.warning, width=SIZES.line - 0.4, dash="dashdot")
        _add_line(drawing, geodesic.curve.points, "saddle curve", certificate_line(geodesic), style)
    best = result.geodesics[0]
    if not best.index:
        name = "frozen-metric curve" if result.kind.startswith("frozen") else "geodesic"
        style = dict(color=look.path, width=SIZES.line)
        _add_line(drawing, best.curve.points, name, certificate_line(best), style, markers=True)
    for name, point, colour, symbol in (
        ("start", result.start, look.start, "circle"),
        ("end", result.end, look.end, "square"),
    ):
        drawing.add_scatter(
            x=[float(point[0])],
            y=[float(point[1])],
            mode="markers",
            name=name,
            marker=dict(color=colour, size=SIZES.marker + 4, symbol=symbol),
            hovertemplate=f"{name} (%{{x:.4g}}, %{{y:.4g}})<extra></extra>",
        )


def certificate_line(geodesic: Geodesic) -> str:
    """Length, gap, spread of the speed and index of a curve, in one line."""
    index = "not measured" if geodesic.index is None else str(geodesic.index)
    return (
        f"length {geodesic.length} · energy/length² − 1 = {geodesic.gap:.1e} · "
        f"speed spread {geodesic.speed_spread:.1e} · negative directions {index}"
    )


def lengths_figure(results: Mapping[str, GeodesicResult], *, theme: str | Theme = "light") -> go.Figure:
    """A table of lengths and certificates under several metrics.

    Args:
        results: Label to result.
        theme: Name or theme.

    Returns:
        One table; a row for each geodesic and each reference.
    """
    look = theme_of(theme)
    rows: list[tuple[str, str, str, str, str, str]] = []
    for label, result in results.items():
        for geodesic in result.geodesics:
            kind = result.kind if not geodesic.index else f"saddle, index {geodesic.index}"
            rows.append(
                (
                    label,
                    kind,
                    str(geodesic.length),
                    f"{geodesic.gap:.1e}",
                    f"{geodesic.speed_spread:.1e}",
                    str(result.report.status) if geodesic.converged else "not converged",
                )
            )
        rows.extend((label, r.name, str(r.length), "", "", "") for r in result.references)
    if not rows:
        return sentence("no curves to list", theme=look)
    heads = ("metric", "curve", "length", "energy/length² − 1", "speed spread", "status")
    shares = (2.4, 3.0, 2.0, 1.4, 1.2, 1.2)
    letters = [_TABLE_WIDTH * share / sum(shares) / _LETTER for share in shares]  # that fit a line of a cell
    lines = [
        max(math.ceil(len(text) / room) for text, room in zip(row, letters, strict=True)) for row in rows
    ]
    drawing = go.Figure(
        go.Table(
            header=dict(values=list(heads), align="left", fill_color=look.grid, font=dict(color=look.ink)),
            cells=dict(
                values=[list(column) for column in zip(*rows, strict=True)],
                align="left",
                fill_color=look.paper,
                font=dict(color=look.ink),
                height=26,
            ),
            columnwidth=list(shares),
        )
    )
    height = 130 + sum(9 + 18 * max(1, count) for count in lines)
    drawing = dress(drawing, title="Lengths and certificates", theme=look, width=_TABLE_WIDTH, height=height)
    drawing.update_layout(margin=dict(l=8, r=8, t=56, b=8))
    return drawing


def _row_height(texts: Sequence[str], widths: Sequence[int]) -> int:
    """Pixels that a row of a table needs: plotly breaks long texts into lines and cuts what does not fit."""
    per_line = [max(1, int(width / (0.56 * SIZES.small)) - 3) for width in widths]
    lines = max(-(-len(text) // fit) for text, fit in zip(texts, per_line, strict=True))
    return 10 + 16 * max(1, lines)


def sensitivity_figure(found: Sensitivity, *, theme: str | Theme = "light") -> go.Figure:
    """Sensitivity against step, with the region below the rounding limit greyed.

    Args:
        found: The measurement.
        theme: Name or theme.

    Returns:
        Traces "sensitivity", "below rounding" and, with a control, "float64 control".
    """
    look = theme_of(theme)
    drawing = go.Figure()
    for name, mask, colour, opacity in (
        ("sensitivity", found.trusted, look.path, 1.0),
        ("below rounding", ~found.trusted, look.muted, 0.5),
    ):
        if bool(mask.any()):
            drawing.add_scatter(
                x=_listed(found.steps[mask]),
                y=_listed(found.values[mask]),
                mode="lines+markers",
                name=name,
                opacity=opacity,
                line=dict(color=colour, width=SIZES.line),
            )
    if found.control is not None:
        drawing.add_scatter(
            x=_listed(found.steps),
            y=_listed(found.control),
            mode="lines",
            name="float64 control",
            line=dict(color=look.exact, dash="dash", width=1.6),
        )
    smallest = float(found.steps[-1])
    if found.limit > smallest:
        drawing.add_vrect(
            x0=smallest, x1=found.limit, fillcolor=look.muted, opacity=0.15, line_width=0, name="rounding"
        )
    drawing.update_xaxes(title_text="step h in the slice", type="log", exponentformat="power")
    drawing.update_yaxes(title_text="change of the output per step", type="log", exponentformat="power")
    slope = "unknown" if math.isnan(found.slope) else f"{found.slope:+.2f}"
    return dress(
        drawing,
        title=f"Slope of log S against log h: {slope}",
        subtitle=f"0: smooth · −1: a jump · computed in {found.dtype}, rounding below h = {found.limit:.1e}",
        theme=look,
    )


def slopes_figure(
    deviations: Sequence[float], measured: Sequence[float], *, theme: str | Theme = "light"
) -> go.Figure:
    """Steepness of the flow of two Gaussians: the formula and what the integrated flow says.

    Args:
        deviations: s of the Gaussians, in units of half their distance.
        measured: Slope at the boundary for each, by a forward derivative through the flow.
        theme: Name or theme.

    Returns:
        Traces "s exp(1 / 2s²)" and "integrated flow".
    """
    look = theme_of(theme)
    low, high = min(deviations), max(deviations)
    fine = [low * (high / low) ** (k / 100) for k in range(101)] if high > low else [low]
    drawing = go.Figure()
    drawing.add_scatter(
        x=fine,
        y=[exact_slope(s) for s in fine],
        mode="lines",
        name="s exp(1 / 2s²)",
        line=dict(color=look.exact, width=1.6),
    )
    drawing.add_scatter(
        x=list(deviations),
        y=list(measured),
        mode="markers",
        name="integrated flow",
        marker=dict(color=look.path, size=SIZES.marker + 2),
    )
    worst = max(abs(m / exact_slope(s) - 1.0) for s, m in zip(deviations, measured, strict=True))
    drawing.update_xaxes(title_text="width s of each Gaussian", type="log")
    drawing.update_yaxes(title_text="steepness dx/dz at the boundary", type="log", exponentformat="power")
    return dress(
        drawing,
        title="Huge but finite: the steepness of a boundary between two modes",
        subtitle=f"largest relative gap {worst:.1e}; below a step of 1 / L the map is smooth",
        theme=look,
    )


def _add_line(
    drawing: go.Figure, points: Tensor, name: str, note: str, line: dict, *, markers: bool = False
) -> None:
    drawing.add_scatter(
        x=_listed(points[:, 0]),
        y=_listed(points[:, 1]),
        mode="lines+markers" if markers else "lines",
        name=name,
        line=line,
        marker=dict(color=line["color"], size=SIZES.marker - 3),
        hovertemplate=f"{name}: {note}<extra></extra>",
    )


def _listed(values: Tensor) -> list[float | None]:
    """Plain numbers for plotly; gaps as None."""
    return [None if math.isnan(v) else v for v in values.detach().double().cpu().tolist()]


def published_figure(
    ours: Mapping[str, Sequence[float]], published: Published, *, theme: str | Theme = "light"
) -> go.Figure:
    """Errors of a learned F and its derivatives beside published ones of another setting.

    Args:
        ours: Setting to the three errors: of F, of its first and of its second derivative.
        published: The published row.
        theme: Name or theme.

    Returns:
        One bar trace a setting, and "published".
    """
    look = theme_of(theme)
    names = ["F", "∂F/∂ first", "∂F/∂ second"]
    drawing = go.Figure()
    for place, (label, values) in enumerate(ours.items()):
        drawing.add_bar(
            x=names, y=list(values), name=label, marker_color=look.series[place % len(look.series)]
        )
    theirs = [published.log_partition, published.first, published.second]
    drawing.add_bar(x=names, y=theirs, name="published", marker_color=look.muted)
    drawing.update_yaxes(title_text="root mean square error", rangemode="tozero")
    return dress(
        drawing,
        title="The learned potential and its derivatives",
        subtitle=f"published: {published.setting}; ours in natural coordinates, after the affine part",
        theme=look,
    )


def staircase_figure(
    gradient: Tensor, window: Window, *, labels: Tensor | None = None, theme: str | Theme = "light"
) -> go.Figure:
    """A potential's gradient along the middle row of a slice: flat in a phase, steep between two.

    Args:
        gradient: grad psi on a grid, shape (rows, columns, 2).
        window: Where the grid lies.
        labels: Phases on the grid; where they change along the row a line is drawn.
        theme: Name or theme.

    Returns:
        Traces "∂ψ/∂a" and "∂ψ/∂b", and a line "phase boundary" a change.
    """
    look = theme_of(theme)
    rows, columns = gradient.shape[:2]
    row = rows // 2
    x = torch.linspace(*window.x, columns, dtype=torch.float64)
    drawing = go.Figure()
    for axis, (name, colour) in enumerate((("∂ψ/∂a", look.path), ("∂ψ/∂b", look.other))):
        drawing.add_scatter(
            x=_listed(x),
            y=_listed(gradient[row, :, axis]),
            mode="lines+markers",
            name=name,
            line=dict(color=colour, width=SIZES.line),
        )
    if labels is not None:
        for k in (labels[row, 1:] != labels[row, :-1]).nonzero().flatten().tolist():
            at = float(0.5 * (x[k] + x[k + 1]))
            drawing.add_vline(x=at, line=dict(color=look.saddle, dash="dot", width=1), name="phase boundary")
    height = window.y[0] + (window.y[1] - window.y[0]) * row / (rows - 1)
    drawing.update_xaxes(title_text="a")
    drawing.update_yaxes(title_text="gradient of the learned potential")
    return dress(
        drawing,
        title="Plateaus of the gradient",
        subtitle=f"along b = {height:.3g}; dotted: the phase changes",
        theme=look,
    )


def resolution_figure(
    window: Window, columns: int, rounding: float, *, dtype: str = "float32", theme: str | Theme = "light"
) -> go.Figure:
    """The resolution bar of a zoom: the sizes it shows on a logarithmic axis, what is rounding greyed.

    Args:
        window: What is looked at.
        columns: Grid points along it.
        rounding: Step below which arithmetic makes the difference.
        dtype: That arithmetic, in words.
        theme: Name or theme.

    Returns:
        Traces "window to grid step" and the marks of both; the greyed band is the shape "rounding".
    """
    look = theme_of(theme)
    wide = window.x[1] - window.x[0]
    step = wide / (columns - 1)
    low = min(step, rounding) / 30.0
    drawing = go.Figure()
    drawing.add_vrect(x0=low, x1=rounding, fillcolor=look.muted, opacity=0.35, line_width=0, name="rounding")
    drawing.add_scatter(
        x=[step, wide],
        y=[0, 0],
        mode="lines+markers+text",
        name="window to grid step",
        text=[f"grid step {step:.1e}", f"window {wide:.1e}"],
        textposition="top center",
        line=dict(color=look.path if step >= rounding else look.warning, width=8),
        marker=dict(size=SIZES.marker + 4, symbol="line-ns-open"),
        showlegend=False,
    )
    drawing.update_xaxes(
        type="log",
        range=[math.log10(low), math.log10(max(3.0, 3.0 * wide))],
        exponentformat="power",
        title_text=f"step in the slice; grey: below rounding in {dtype}, {rounding:.1e}",
    )
    drawing.update_yaxes(visible=False, range=[-1, 1.6])
    verdict = "resolved by the arithmetic" if step >= rounding else "finer than rounding"
    drawing = dress(drawing, title=f"Resolution: {verdict}", theme=look, height=200)
    drawing.update_layout(margin=dict(t=64, b=56))
    return drawing
