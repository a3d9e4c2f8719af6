"""The map of a chart of two coordinates: geodesics over a metric field."""

import dataclasses

import plotly.graph_objects as go
import torch
from torch import Tensor

from widgets.figures.fisher.curves import add_curves, describe
from widgets.figures.fisher.ground import READINGS, add_boundary, add_ellipses, add_field, add_veil, step_of
from widgets.figures.status import dress, sentence, status_line
from widgets.theme import SIZES, Theme, theme_of
from workbench.fields import Window, frame_window
from workbench.lenses.fisher import GeodesicResult, MetricField


def figure(result: GeodesicResult, *, theme: str | Theme = "light", **options) -> go.Figure:
    """The figure of geodesics: their map. See `map_figure` for the arguments."""
    return map_figure(result, theme=theme, **options)


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
    window = _window(source if field is None else field)
    if field is not None:
        add_field(drawing, field, reading, look)
        add_ellipses(drawing, field, ellipses, look)
        if labels is not None:
            add_boundary(drawing, field, labels, look)
        if step_of(field) < rounding:
            add_veil(drawing, field.window, look)
    if result is not None:
        add_curves(drawing, result, look)
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


def _window(source: GeodesicResult | MetricField) -> Window:
    """That of a field, or the frame around all curves."""
    if isinstance(source, MetricField):
        return source.window
    points = torch.cat(
        [g.curve.points for g in source.geodesics] + [r.curve.points for r in source.references]
    )
    return frame_window(points)
