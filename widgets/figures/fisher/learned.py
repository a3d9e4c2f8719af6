"""Figures of learned potentials: their errors beside published ones, and the plateaus of their gradients."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
import torch
from torch import Tensor

from widgets.figures.fisher.numbers import listed
from widgets.figures.status import dress
from widgets.theme import SIZES, Theme, theme_of
from workbench.fields import Window
from workbench.logpartition import Published


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
    """A potential's gradient along a row of a slice: flat in a phase, steep between two.

    The row is the one with most changes of phase, the middle one without labels. A potential is known up to
    an affine function, so that the mean of its gradient means nothing and is taken off.

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
    if labels is not None:
        changes = 2 * (labels[:, 1:] != labels[:, :-1]).sum(dim=1)
        changes[row] += 1  # the middle one where others are no better
        row = int(changes.argmax())
    gradient = gradient - gradient.mean(dim=(0, 1))
    x = torch.linspace(*window.x, columns, dtype=torch.float64)
    drawing = go.Figure()
    for axis, (name, colour) in enumerate((("∂ψ/∂a", look.path), ("∂ψ/∂b", look.other))):
        drawing.add_scatter(
            x=listed(x),
            y=listed(gradient[row, :, axis]),
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
    drawing.update_yaxes(title_text="gradient of ψ, less its mean")
    return dress(
        drawing,
        title="Plateaus of the gradient",
        subtitle=f"along b = {height:.3g}; dotted: the phase changes",
        theme=look,
    )
