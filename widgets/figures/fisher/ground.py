"""What lies below geodesics: a metric field as a picture, its ellipses, phase boundaries, a grey veil."""

import math

import plotly.graph_objects as go
import torch
from torch import Tensor

from widgets.figures.fisher.numbers import listed
from widgets.figures.images import add_picture
from widgets.theme import Theme
from workbench.fields import Field, Window
from workbench.lenses.fisher import MetricField
from workbench.phases import find_boundary

READINGS = {
    "log_magnification": "log volume element ½ ln det g",
    "largest": "log₁₀ of the largest eigenvalue",
    "anisotropy": "fractional anisotropy",
    "residual": "distance from a Hessian metric",
}
"""What a metric field can be coloured by."""


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


def step_of(field: MetricField) -> float:
    """The smaller distance of two neighbouring grid points of a field, along either axis."""
    rows, columns = field.indefinite.shape
    across = (field.window.x[1] - field.window.x[0]) / (columns - 1)
    return min(across, (field.window.y[1] - field.window.y[0]) / (rows - 1))


def add_veil(drawing: go.Figure, window: Window, look: Theme) -> None:
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


def add_field(drawing: go.Figure, field: MetricField, reading: str, look: Theme) -> None:
    window, scalar = field.window, reading_of(field, reading)
    finite = scalar.values[torch.isfinite(scalar.values)].double()
    limits = None
    if finite.numel() > 1:
        low, high = (float(torch.quantile(finite, q)) for q in (0.01, 0.99))
        limits = (low, high) if high > low else None
    add_picture(drawing, scalar, window, look, limits=limits)


def add_ellipses(drawing: go.Figure, field: MetricField, count: int, look: Theme) -> None:
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
        x=listed(flat[0]),
        y=listed(flat[1]),
        mode="lines",
        name="equal steps",
        line=dict(color=look.muted, width=1),
        hoverinfo="skip",
    )


def add_boundary(drawing: go.Figure, field: MetricField, labels: Tensor, look: Theme) -> None:
    rows, columns = labels.shape
    y, x = find_boundary(labels.cpu()).nonzero(as_tuple=True)
    window = field.window
    drawing.add_scatter(
        x=listed(window.x[0] + (window.x[1] - window.x[0]) * (x.double() + 0.5) / (columns - 1)),
        y=listed(window.y[0] + (window.y[1] - window.y[0]) * (y.double() + 0.5) / (rows - 1)),
        mode="markers",
        name="phase boundary",
        marker=dict(color=look.saddle, size=3),
        hoverinfo="skip",
    )
