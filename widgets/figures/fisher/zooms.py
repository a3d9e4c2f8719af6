"""Figures of a boundary looked at closely: sensitivity, steepness, and what the arithmetic resolves."""

import math
from collections.abc import Sequence

import plotly.graph_objects as go
import torch

from widgets.figures.fisher.numbers import listed
from widgets.figures.status import dress
from widgets.theme import SIZES, Theme, theme_of
from workbench.fields import Window
from workbench.phases import Sensitivity, exact_slope


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
                x=listed(found.steps[mask]),
                y=listed(found.values[mask]),
                mode="lines+markers",
                name=name,
                opacity=opacity,
                line=dict(color=colour, width=SIZES.line),
            )
    if found.control is not None:
        drawing.add_scatter(
            x=listed(found.steps),
            y=listed(found.control),
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
    decades = float(torch.log10(found.values.max() / found.values.min().clamp_min(1e-300)))
    drawing.update_yaxes(
        title_text="change of the output per step",
        type="log",
        exponentformat="power",
        dtick=1 if decades > 1.0 else "D2",
    )
    slope = "unknown" if math.isnan(found.slope) else f"{found.slope:+.2f}"
    return dress(
        drawing,
        title=f"Slope of log S against log h: {slope}",
        subtitle=f"0: smooth · −1: a jump · computed in {found.dtype}, rounding below h = {found.limit:.1e}",
        theme=look,
    )


def slopes_figure(
    deviations: Sequence[float],
    measured: Sequence[float],
    *,
    span: tuple[float, float] | None = None,
    theme: str | Theme = "light",
) -> go.Figure:
    """Steepness of the flow of two Gaussians: the formula and what the integrated flow says.

    Args:
        deviations: s of the Gaussians, in units of half their distance.
        measured: Slope at the boundary for each, by a forward derivative through the flow.
        span: Widths between which the formula is drawn; those of the Gaussians if None.
        theme: Name or theme.

    Returns:
        Traces "s exp(1 / 2s²)" and "integrated flow".
    """
    look = theme_of(theme)
    low, high = (min(deviations), max(deviations)) if span is None else span
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
