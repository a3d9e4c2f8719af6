"""Geodesics as lines, and their lengths and certificates as words and as a table."""

import math
from collections.abc import Mapping

import plotly.graph_objects as go
from torch import Tensor

from widgets.figures.fisher.numbers import listed
from widgets.figures.status import dress, sentence
from widgets.theme import SIZES, Theme, theme_of
from workbench.lenses.fisher import Geodesic, GeodesicResult

_TABLE_WIDTH = 900


_LETTER = 6.6  # pixels of a letter in a table, on average


_TITLE = 36  # letters of a metric's name that leave room for its length on the same line


def describe(result: GeodesicResult) -> str:
    """Metric and length of the shortest curve, in one line."""
    name = "curve of the frozen metric" if result.kind.startswith("frozen") else "distance"
    gap = "<br>" if len(result.metric) > _TITLE else " "
    return f"{result.metric}:{gap}{name} {result.distance}"


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


def add_curves(drawing: go.Figure, result: GeodesicResult, look: Theme) -> None:
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


def _add_line(
    drawing: go.Figure, points: Tensor, name: str, note: str, line: dict, *, markers: bool = False
) -> None:
    drawing.add_scatter(
        x=listed(points[:, 0]),
        y=listed(points[:, 1]),
        mode="lines+markers" if markers else "lines",
        name=name,
        line=line,
        marker=dict(color=line["color"], size=SIZES.marker - 3),
        hovertemplate=f"{name}: {note}<extra></extra>",
    )
