"""All lenses of the bench on one map, and the badge that says whether to trust it."""

import html
import math
from collections.abc import Sequence

import plotly.graph_objects as go
import torch
from torch import Tensor

from widgets.figures.images import add_picture
from widgets.figures.status import dress
from widgets.theme import SIZES, Theme, theme_of
from workbench.bench.answers import Ellipse, Line
from workbench.bench.outlines import distortion_outlines
from workbench.bench.results import BenchResult
from workbench.bench.trust import Trust, trust_of

DASHES = {"straight": "dash", "slerp": "dot", "other": "dashdot"}
"""Dash of a curve by its kind; solid for the rest."""
ELLIPSE_SHARE = 0.07
"""Half of the larger axis of the larger metric ball, as a share of the picture's width."""


def line_colours(lines: Sequence[Line], look: Theme) -> dict[str, str]:
    """A colour for each curve: by its kind, and further paths in the theme's series."""
    fixed = {
        "straight": look.straight,
        "slerp": look.slerp,
        "exact": look.exact,
        "geodesic": look.other,
        "other": look.other,
        "trajectory": look.via,
    }
    rest = iter([look.path, look.series[1], look.series[3], look.series[5]])
    return {line.name: fixed[line.kind] if line.kind in fixed else next(rest, look.path) for line in lines}


def ellipse_coords(ellipse: Ellipse, *, scale: float = 1.0, corners: int = 73) -> Tensor:
    """The ellipse as a closed polyline on the plane, shape (corners, 2)."""
    angle = torch.linspace(0.0, 2.0 * math.pi, corners, dtype=ellipse.root.dtype)
    circle = torch.stack([angle.cos(), angle.sin()], dim=-1)
    return ellipse.centre.cpu() + scale * circle @ ellipse.root.cpu().mT


def ellipse_scale(ellipses: Sequence[Ellipse], width: float) -> float:
    """The common factor at which unit balls of a metric are drawn, so that the larger one fits its share."""
    sizes = [float(torch.linalg.matrix_norm(one.root, 2)) for one in ellipses if one.kind == "metric"]
    return ELLIPSE_SHARE * width / max(sizes) if sizes and max(sizes) > 0 else 1.0


def map_figure(
    result: BenchResult,
    *,
    theme: str | Theme = "light",
    ellipses: bool = True,
    distortion: bool = False,
    width: int | None = None,
) -> go.Figure:
    """All lenses on the plane: the field, every curve, ellipses at the ends.

    Args:
        result: The answers.
        theme: Name or theme.
        ellipses: Whether unit balls and posteriors are drawn.
        distortion: Whether ellipses of the projection's distortion are drawn along the curves.
        width: Pixels.

    Returns:
        One trace a curve, by its name; then "start", "end", and one trace an ellipse.
    """
    look, place = theme_of(theme), result.place
    drawing = go.Figure()
    window = place.window
    if result.background is not None:
        add_picture(drawing, result.background, window, look, limits=field_limits(result))
    lines = result.lines
    colours = line_colours(lines, look)
    for line in lines:
        coords = place.section.encode(line.points)
        drawing.add_scatter(
            x=coords[:, 0].tolist(),
            y=coords[:, 1].tolist(),
            mode="lines",
            name=line.name,
            line=dict(
                color=colours[line.name],
                width=1.7 if line.kind in DASHES else SIZES.line,
                dash=DASHES.get(line.kind, "solid"),
                shape="linear",
            ),
        )
    ends = place.section.encode(torch.stack(place.subject.ends(result.state.start, result.state.end)))
    for name, row, colour, symbol in (("start", 0, look.start, "circle"), ("end", 1, look.end, "square")):
        drawing.add_scatter(
            x=[float(ends[row, 0])],
            y=[float(ends[row, 1])],
            mode="markers",
            name=name,
            marker=dict(
                color=colour, size=SIZES.marker + 4, symbol=symbol, line=dict(color=look.paper, width=1.5)
            ),
        )
    if ellipses:
        _add_ellipses(drawing, result, look)
    if distortion:
        for k, coords in enumerate(distortion_outlines(result)):
            drawing.add_scatter(
                x=coords[:, 0].tolist(),
                y=coords[:, 1].tolist(),
                mode="lines",
                name="distortion",
                legendgroup="distortion",
                showlegend=k == 0,
                line=dict(color=look.muted, width=1),
                hoverinfo="skip",
            )
    drawing.update_xaxes(title_text=place.section.axes[0], range=list(window.x), constrain="domain")
    drawing.update_yaxes(title_text=place.section.axes[1], range=list(window.y), constrain="domain")
    drawing.update_yaxes(scaleanchor="x", scaleratio=1)
    drawing.update_layout(legend=dict(orientation="v", x=1.02, y=1))
    points = torch.cat([line.points for line in lines]) if lines else torch.stack(place.subject.ends())
    ground = result.background
    field = (
        "" if ground is None else f"; field: {ground.title}" + (f" ({ground.unit})" if ground.unit else "")
    )
    trust = trust_of(result.answers, result.state, place.subject.frame)
    return dress(
        drawing,
        title=f"{place.subject.frame}: {len(lines)} curves between the same two points",
        subtitle=f"projection: {place.says(points[:400])}{field}",
        status=f"{' · '.join(trust.parts()[:3])}<br>{' · '.join(trust.parts()[3:])}",
        trusted=trust.converged is not False,
        theme=look,
        width=width or SIZES.width + 140,
        height=SIZES.map_height,
    )


def field_limits(result: BenchResult) -> tuple[float, float] | None:
    """Values of the first and last colour: densities hide their deep tails, everything else its extremes.

    Densities run from high to low, so that a probable place is as dark here as under a path, whose field is
    an energy.
    """
    field = result.background
    if field is None:
        return None
    finite = field.values[torch.isfinite(field.values)].double().cpu()
    if not len(finite):
        return None
    lowest, highest = (0.4, 1.0) if result.state.background == "density" else (0.0, 0.99)
    if result.state.background == "phase":
        lowest, highest = 0.0, 1.0
    low, high = (
        float(torch.quantile(finite[:100_000], lowest)),
        float(torch.quantile(finite[:100_000], highest)),
    )
    high = high if high > low else low + 1.0
    return (high, low) if result.state.background == "density" else (low, high)


def _add_ellipses(drawing: go.Figure, result: BenchResult, look: Theme) -> None:
    window = result.place.window
    every = [one for answer in result.answers for one in answer.ellipses]
    scale = ellipse_scale(every, window.x[1] - window.x[0])
    for one in every:
        metric = one.kind == "metric"
        coords = ellipse_coords(one, scale=scale if metric else 1.0)
        drawing.add_scatter(
            x=coords[:, 0].tolist(),
            y=coords[:, 1].tolist(),
            mode="lines",
            name=one.name,
            legendgroup=one.kind,
            showlegend="start" in one.name,
            line=dict(
                color=look.other if metric else look.start, width=1.4, dash="solid" if metric else "dot"
            ),
            hovertemplate=f"{one.name}<extra></extra>",
        )


def badge_html(trust: Trust, look: Theme) -> str:
    """The trust badge as HTML: one rounded box whose colour says whether all converged."""
    colour = look.muted if trust.converged is None else look.good if trust.converged else look.warning
    first, *rest = trust.parts()
    body = " · ".join(html.escape(part) for part in rest)
    return (
        f'<div class="wb-badge" role="status" aria-label="trust" style="display:inline-block;'
        f"padding:3px 10px;"
        f'border:1px solid {colour};border-radius:12px;font-size:12px;line-height:1.4">'
        f'<b style="color:{colour}">{html.escape(first)}</b> · {body}</div>'
    )
