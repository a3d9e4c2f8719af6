"""The noise scrubber as a figure: barriers over the noise level, and marks where something changes."""

import math

import plotly.graph_objects as go

from widgets.figures.bench import line_colours
from widgets.figures.status import dress, sentence
from widgets.theme import SIZES, Theme, theme_of
from workbench.bench.scrub import Scrub

SHORT = {
    "eigenvalues cross": "λ₁ × λ₂",
    "modes merge": "modes merge",
    "modes split": "modes split",
    "saddle appears": "saddle +",
    "saddle vanishes": "saddle −",
}
"""Words of an event at its mark."""


def scrubber_figure(scrub: Scrub, *, current: float | None = None, theme: str | Theme = "light") -> go.Figure:
    """Barriers over the noise level, with a mark where something changes its kind.

    Args:
        scrub: The precomputed levels.
        current: Level of the slider; drawn as a line if given.
        theme: Name or theme.

    Returns:
        One trace a path, by its name, and "events".
    """
    look = theme_of(theme)
    if not scrub.results:
        return sentence("No noise level has been computed yet.", theme=look)
    drawing = go.Figure()
    levels = list(scrub.levels[: len(scrub.results)])
    names: dict[str, list[float | None]] = {}
    for k, result in enumerate(scrub.results):
        for row in result.table.rows:
            if row.kind in ("straight", "path", "geodesic"):
                names.setdefault(row.line, [None] * len(levels))[k] = row.barrier.value
    colours = line_colours(scrub.results[0].lines, look)
    for name, heights in names.items():
        drawing.add_scatter(
            x=levels,
            y=heights,
            mode="lines+markers",
            name=name,
            line=dict(color=colours.get(name, look.path), width=1.8),
            marker=dict(size=4),
        )
    top = max((h for heights in names.values() for h in heights if h is not None), default=1.0)
    groups: dict[float, list] = {}
    for event in scrub.events:
        near = next((s for s in groups if abs(math.log(s / event.sigma)) < 0.02), event.sigma)
        groups.setdefault(near, []).append(event)
    for sigma in groups:
        drawing.add_vline(x=sigma, line=dict(color=look.muted, width=1, dash="dot"))
    drawing.add_scatter(
        x=list(groups),
        y=[1.08 * top + 0.05 * top * (k % 2) for k in range(len(groups))],
        mode="markers+text",
        name="events",
        text=[", ".join(dict.fromkeys(SHORT[event.kind] for event in events)) for events in groups.values()],
        textposition="top center",
        textfont=dict(size=SIZES.small, color=look.ink),
        marker=dict(symbol="triangle-down", size=9, color=look.warning),
        hovertext=["<br>".join(map(str, events)) for events in groups.values()],
        hoverinfo="text",
    )
    if current is not None and current > 0:
        drawing.add_vline(x=current, line=dict(color=look.start, width=2))
    unit = scrub.results[0].table.unit
    drawing.update_xaxes(type="log", title_text="noise level σ (data units)")
    drawing.update_yaxes(title_text=f"highest barrier ({unit})", range=[0, 1.3 * top or 1.0])
    return dress(
        drawing,
        title=f"{len(levels)} noise levels, {len(scrub.events)} changes of kind",
        subtitle="barrier of each curve at its level; marks: where something changes its kind",
        theme=look,
        height=SIZES.height,
    )
