"""The table of the bench: every curve between the same ends in one row, as a figure and as HTML."""

import html

import plotly.graph_objects as go

from widgets.figures.status import dress, sentence, spaced
from widgets.theme import SIZES, Theme, theme_of
from workbench.bench.compare import Comparison, Row
from workbench.report import with_error


def comparison_columns(table: Comparison) -> dict[str, str]:
    """Columns of the table: key to heading."""
    unit = f" ({table.unit})" if table.unit else ""
    names = list(table.rows[0].lengths) if table.rows else []
    columns = {"line": "curve"}
    if table.metric in names:
        columns[f"length {table.metric}"] = f"length, {table.metric} (chosen)"
    columns["barrier"] = f"highest barrier{unit}"
    if any(row.lowest is not None for row in table.rows):
        columns["lowest"] = "lowest log density"
    if any(row.errors for row in table.rows):
        columns["errors"] = "error against the exact answer"
    columns |= {"apart": "off the straight line", "calls": "model calls", "residual": "residual"}
    columns |= {f"length {name}": f"length, {name}" for name in names if name != table.metric}
    return columns


def comparison_rows(table: Comparison) -> list[dict[str, str]]:
    """One row a curve, as text, with the keys of `comparison_columns`."""
    straight = next((k for k, row in enumerate(table.rows) if row.kind == "straight"), None)
    return [
        {
            "line": row.line,
            **{f"length {name}": _number(length.value, length.error) for name, length in row.lengths.items()},
            "barrier": _number(row.barrier.value, row.barrier.error),
            "lowest": "" if row.lowest is None else f"{row.lowest.value:.5g}",
            "apart": "" if straight is None else f"{float(table.distances[k, straight]):.4g}",
            "calls": spaced(row.calls) if row.calls else "–",
            "residual": _residual(row),
            "errors": ", ".join(f"{name} {error:+.1e}" for name, error in row.errors.items()) or "not known",
        }
        for k, row in enumerate(table.rows)
    ]


def _number(value: float, error: float | None) -> str:
    return with_error(value, error) if error else f"{value:.5g}"


def _residual(row: Row) -> str:
    if row.converged is None:
        return "–"
    sign = "●" if row.converged else "▲"
    return f"{sign} {'none' if row.residual is None else f'{row.residual:.1e}'}"


def comparison_figure(table: Comparison, *, theme: str | Theme = "light") -> go.Figure:
    """The table as a figure: one row a curve.

    Args:
        table: The comparison.
        theme: Name or theme.

    Returns:
        One table trace named "comparison"; a sentence if there is no curve.
    """
    look = theme_of(theme)
    if not table.rows:
        return sentence("No lens has drawn a curve yet.", theme=look)
    columns, rows = comparison_columns(table), comparison_rows(table)
    widths = {"line": 130, "errors": 270, "barrier": 120, "residual": 84, "calls": 70}
    drawing = go.Figure(
        go.Table(
            name="comparison",
            columnwidth=[widths.get(key, 110) for key in columns],
            header=dict(
                values=list(columns.values()),
                align="left",
                fill_color=look.grid,
                line_color=look.grid,
                font=dict(color=look.ink, size=SIZES.small),
            ),
            cells=dict(
                values=[[row[key] for row in rows] for key in columns],
                align="left",
                fill_color=look.paper,
                line_color=look.grid,
                font=dict(color=look.ink, size=SIZES.small),
                height=26,
            ),
        )
    )
    dress(
        drawing,
        title="The same ends under every lens",
        subtitle=f"energies and metrics at σ = {table.sigma:.3g}; ± numerical error; ● converged, ▲ not",
        theme=look,
        width=SIZES.width + 520,
        height=150 + 40 * (len(rows) + 1),
    )
    drawing.update_layout(margin=dict(l=8, r=8, t=64, b=8))
    return drawing


def comparison_html(table: Comparison, look: Theme, *, changed: frozenset[str] = frozenset()) -> str:
    """The table as HTML for a host's own paper.

    Args:
        table: The comparison.
        look: Colours.
        changed: Curves whose numbers differ from those of another panel; they are marked.
    """
    if not table.rows:
        return '<p role="status">No lens has drawn a curve yet.</p>'
    columns, rows = comparison_columns(table), comparison_rows(table)
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in columns.values())
    body = []
    for row in rows:
        mark = ' class="wb-differs"' if row["line"] in changed else ""
        cells = "".join(
            f"<td{' class=wb-words' if key == 'errors' else ''}>{html.escape(row[key])}</td>"
            for key in list(columns)[1:]
        )
        body.append(f'<tr{mark}><th scope="row">{html.escape(row["line"])}</th>{cells}</tr>')
    style = (
        ".wb-bench-table{border-collapse:collapse;font-size:12px;line-height:1.35;"
        f"font-variant-numeric:tabular-nums}}.wb-bench-table th,.wb-bench-table td{{padding:3px 8px;"
        f"text-align:left;border-bottom:1px solid {look.grid};white-space:nowrap}}"
        ".wb-bench-table thead th{white-space:normal;vertical-align:bottom}"
        ".wb-bench-table td.wb-words{white-space:normal;min-width:230px}"
        f".wb-bench-table tr.wb-differs{{background:{look.via}33}}"
    )
    caption = f"Energies and metrics at σ = {table.sigma:.3g}; ± numerical error; ● converged, ▲ not."
    return (
        f'<style>{style}</style><div style="overflow-x:auto"><table class="wb-bench-table">'
        f'<caption style="text-align:left;padding:2px 0">{html.escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )
