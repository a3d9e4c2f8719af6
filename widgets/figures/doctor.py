"""The doctor's diagnosis as tables: what was looked at, and what every lens can do at what cost."""

import plotly.graph_objects as go

from widgets.figures.status import dress, sentence
from widgets.theme import SIZES, Theme, theme_of
from workbench.doctor.diagnosis import Diagnosis, cost_rows, lens_rows

SIGNS = {"ok": "●", "note": "◆", "fault": "▲", "not checked": "○"}
"""Sign of each verdict."""
_ROW = 24
_LETTERS = 96  # that fit on a line of the widest column


def findings_figure(diagnosis: Diagnosis, *, theme: str | Theme = "light") -> go.Figure:
    """What the doctor looked at, with its verdicts; faults in the colour of a warning.

    Args:
        diagnosis: The diagnosis.
        theme: Name or theme.

    Returns:
        One table trace named "findings".
    """
    look = theme_of(theme)
    found = diagnosis.findings
    colours = [look.warning if one.verdict == "fault" else look.ink for one in found]
    said = [str(one) for one in found]
    table = _table(
        "findings",
        ("", "looked at", "found"),
        [[SIGNS[one.verdict] for one in found], [one.name for one in found], said],
        (28, 130, 640),
        look,
        colours,
    )
    verdict = "sound" if diagnosis.sound else "not sound: " + ", ".join(one.name for one in diagnosis.faults)
    rows = sum(1 + len(text) // _LETTERS for text in said)
    return _dressed(table, f"{diagnosis.model} is {verdict}", diagnosis.kind, rows, look)


def lenses_figure(diagnosis: Diagnosis, *, theme: str | Theme = "light") -> go.Figure:
    """What every lens can do with the model: works, or lacks what; model calls and time on this device.

    Args:
        diagnosis: The diagnosis.
        theme: Name or theme.

    Returns:
        One table trace named "lenses".
    """
    look = theme_of(theme)
    _, *rows = lens_rows(diagnosis.lenses)
    colours = [look.ink if row.works else look.muted for row in diagnosis.lenses]
    heads = ("lens", "task", "model calls", "time here", "")
    columns = [[row[k] for row in rows] for k in range(len(heads))]
    table = _table("lenses", heads, columns, (80, 280, 90, 80, 270), look, colours)
    device = f"{diagnosis.provenance.dtype} on {diagnosis.provenance.device}"
    cost = "" if diagnosis.costs is None else f"{diagnosis.costs.evaluation} a point, "
    return _dressed(
        table, "What each lens can do with it, and what that costs", cost + device, len(rows), look
    )


def lacking_figure(diagnosis: Diagnosis, lens: str, *, theme: str | Theme = "light") -> go.Figure:
    """In the place of a lens's picture, the sentence on what the model lacks for it.

    Args:
        diagnosis: The diagnosis.
        lens: Name of the lens.
        theme: Name or theme.

    Returns:
        A figure with one sentence.
    """
    lacks = dict.fromkeys(row.lacks for row in diagnosis.lenses if row.lens == lens and row.lacks)
    said = " and ".join(lacks) or "nothing that the doctor looked at"
    return sentence(f"{lens} of {diagnosis.model}: lacks {said}.", theme=theme)


def costs_figure(diagnosis: Diagnosis, *, theme: str | Theme = "light") -> go.Figure:
    """Time and memory of one evaluation and of one derivative product.

    Args:
        diagnosis: The diagnosis.
        theme: Name or theme.

    Returns:
        One table trace named "costs".
    """
    look = theme_of(theme)
    rows = [] if diagnosis.costs is None else cost_rows(diagnosis.costs)
    columns = [[name for name, _ in rows], [value for _, value in rows]]
    table = _table("costs", ("what", "cost"), columns, (300, 300), look, [look.ink] * len(rows))
    return _dressed(table, f"What asking {diagnosis.model} costs", "medians on this device", len(rows), look)


def _table(
    name: str,
    heads: tuple[str, ...],
    columns: list[list[str]],
    widths: tuple[int, ...],
    look: Theme,
    colours: list[str],
) -> go.Table:
    return go.Table(
        name=name,
        columnwidth=list(widths),
        header=dict(
            values=list(heads),
            align="left",
            fill_color=look.grid,
            line_color=look.grid,
            font=dict(color=look.ink, size=SIZES.small),
        ),
        cells=dict(
            values=columns,
            align="left",
            fill_color=look.paper,
            line_color=look.grid,
            font=dict(color=[colours] * len(columns), size=SIZES.small),
            height=_ROW,
        ),
    )


def _dressed(table: go.Table, title: str, subtitle: str, rows: int, look: Theme) -> go.Figure:
    drawing = dress(
        go.Figure(table),
        title=title,
        subtitle=subtitle,
        theme=look,
        width=SIZES.width + 260,
        height=130 + _ROW * (rows + 1),
    )
    drawing.update_layout(margin=dict(l=8, r=8, t=64, b=8))
    return drawing
