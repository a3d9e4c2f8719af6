"""The table of barriers and lengths beside the figures of paths."""

from collections.abc import Mapping

import plotly.graph_objects as go

from widgets.figures.status import dress, length_unit, spaced
from widgets.theme import SIZES, Theme, theme_of
from workbench.lenses.paths import PathResult

COLUMNS = ("path", "barrier", "length", "barriers", "spacing", "round trip", "calls", "status")


def table_rows(results: Mapping[str, PathResult]) -> list[dict[str, str]]:
    """One row a path: what the table shows, as text.

    Args:
        results: Label to path.

    Returns:
        Rows with the keys of `COLUMNS`.
    """
    return [
        {
            "path": label,
            "barrier": str(result.barrier),
            "length": str(result.length),
            "barriers": ", ".join(f"{float(barrier.height):.5g}" for barrier in result.barriers) or "none",
            "spacing": f"{float(result.spacing_ratio):.4f}",
            "round trip": f"{float(max(result.round_trip)):.1e}",
            "calls": spaced(result.report.model_calls),
            "status": str(result.report.status),
        }
        for label, result in results.items()
    ]


def table_figure(results: Mapping[str, PathResult], *, theme: str | Theme = "light") -> go.Figure:
    """Barriers, lengths and trust of several paths as a table.

    Args:
        results: Label to path.
        theme: Name or theme.

    Returns:
        One table trace named "barriers and lengths".
    """
    look = theme_of(theme)
    rows = table_rows(results)
    heads = {
        "path": "path",
        "barrier": "highest barrier",
        "length": "length",
        "barriers": "all barriers",
        "spacing": "spacing max/min",
        "round trip": "round trip (relative)",
        "calls": "model calls",
        "status": "status",
    }
    drawing = go.Figure(
        go.Table(
            name="barriers and lengths",
            columnwidth=[90, 170, 150, 130, 80, 90, 80, 110],
            header=dict(
                values=[heads[key] for key in COLUMNS],
                align="left",
                fill_color=look.grid,
                line_color=look.grid,
                font=dict(color=look.ink, size=SIZES.small),
            ),
            cells=dict(
                values=[[row[key] for row in rows] for key in COLUMNS],
                align="left",
                fill_color=look.paper,
                line_color=look.grid,
                font=dict(color=look.ink, size=SIZES.small),
                height=26,
            ),
        )
    )
    units = " and ".join(sorted({result.energy_unit for result in results.values()})) or "no unit"
    lengths = " and ".join(sorted({length_unit(result.provenance) for result in results.values()}))
    dress(
        drawing,
        title="Barriers and lengths",
        subtitle=f"energies in {units}, lengths in {lengths}, ± numerical error",
        theme=look,
        width=SIZES.width + 260,
        height=130 + 26 * (len(rows) + 1),
    )
    drawing.update_layout(margin=dict(l=8, r=8, t=64, b=8))
    return drawing
