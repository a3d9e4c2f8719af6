"""One look for every figure and widget: colours, sizes and a plotly template, for light and dark paper.

Line colours are those of Okabe and Ito, which people with the common kinds of colour blindness can tell
apart. A field under a path is drawn in one hue with falling lightness and in bands, so that it reads as a
contour map, also in grey, and leaves the strong colours to the paths.

References:
    Okabe, Ito, "Color Universal Design", 2008, https://jfly.uni-koeln.de/color/
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import plotly.graph_objects as go

FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', 'Noto Sans', sans-serif"
BANDS = 16
"""Steps of a field's colour scale."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes in pixels that the figures share."""

    width: int = 660
    height: int = 380
    map_height: int = 520
    strip_height: int = 250
    line: float = 2.4
    marker: int = 7
    font: int = 13
    small: int = 11
    left: int = 64
    top: int = 88
    letter: float = 5.6  # mean width of a small letter
    leading: int = 14  # of small text


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours for one kind of paper.

    Attributes:
        name: "light" or "dark".
        paper: Background.
        ink: Text and axes.
        muted: Secondary text.
        grid: Grid lines.
        path: The path under study.
        other: The path of a second regime or start.
        exact: A reference path that is known.
        straight: The straight line.
        slerp: The spherical interpolation.
        start: The first end.
        end: The second end.
        via: A point that the path is led through.
        walkers: Walkers around a path.
        saddle: Saddles.
        warning: A result not to be trusted as it is.
        good: A result that met its own rule.
        series: Colours of further series, in order.
        field: Colours of a field, lowest value first.
    """

    name: Literal["light", "dark"]
    paper: str
    ink: str
    muted: str
    grid: str
    path: str
    other: str
    exact: str
    straight: str
    slerp: str
    start: str
    end: str
    via: str
    walkers: str
    saddle: str
    warning: str
    good: str
    series: tuple[str, ...]
    field: tuple[str, ...]


LIGHT = Theme(
    name="light",
    paper="#ffffff",
    ink="#1b1f24",
    muted="#59636e",
    grid="#e4e8ec",
    path="#d55e00",
    other="#009e73",
    exact="#1b1f24",
    straight="#6e7781",
    slerp="#b0558f",
    start="#0072b2",
    end="#d55e00",
    via="#e69f00",
    walkers="#e69f00",
    saddle="#1b1f24",
    warning="#a6431b",
    good="#00755a",
    series=("#d55e00", "#0072b2", "#009e73", "#b0558f", "#e69f00", "#56b4e9"),
    field=("#5f86ad", "#9db8d2", "#cfdde9", "#edf2f6", "#fafbfc"),
)
DARK = Theme(
    name="dark",
    paper="#14181d",
    ink="#e8ebee",
    muted="#a3adb8",
    grid="#2c333b",
    path="#ff9448",
    other="#34d1a4",
    exact="#f5f7f9",
    straight="#9aa5b1",
    slerp="#e29ac6",
    start="#6fc3f2",
    end="#ff9448",
    via="#ffd166",
    walkers="#ffd166",
    saddle="#f5f7f9",
    warning="#ffad8a",
    good="#5fdcb5",
    series=("#ff9448", "#6fc3f2", "#34d1a4", "#e29ac6", "#ffd166", "#9fb8ff"),
    field=("#5d83ab", "#40607f", "#2b4158", "#1d2a38", "#151b22"),
)
THEMES = {"light": LIGHT, "dark": DARK}
SIZES = Sizes()


def theme_of(theme: str | Theme) -> Theme:
    """The theme of that name; a theme passes through.

    Raises:
        ValueError: If there is none of that name.
    """
    if isinstance(theme, Theme):
        return theme
    if theme not in THEMES:
        raise ValueError(f"got theme {theme!r}; expected one of {', '.join(THEMES)}")
    return THEMES[theme]


def template(theme: str | Theme = "light") -> go.layout.Template:
    """The plotly template of a theme: every figure of the project uses it and nothing else.

    Args:
        theme: Name or theme.

    Returns:
        A template with fonts, axes, colours and legend.
    """
    look = theme_of(theme)
    axis = dict(
        showline=True,
        linecolor=look.muted,
        ticks="outside",
        tickcolor=look.muted,
        ticklen=4,
        gridcolor=look.grid,
        zeroline=False,
        title=dict(standoff=8, font=dict(size=SIZES.font)),
        automargin=True,
    )
    return go.layout.Template(
        layout=dict(
            font=dict(family=FONT, size=SIZES.font, color=look.ink),
            title=dict(
                x=0.0, xref="paper", xanchor="left", y=0.975, yanchor="top", font=dict(size=SIZES.font + 2)
            ),
            title_subtitle=dict(font=dict(size=SIZES.small, color=look.muted)),
            paper_bgcolor=look.paper,
            plot_bgcolor=look.paper,
            colorway=list(look.series),
            xaxis=axis,
            yaxis=axis,
            margin=dict(l=SIZES.left, r=24, t=SIZES.top, b=104),
            legend=dict(
                bgcolor="rgba(0,0,0,0)", font=dict(size=SIZES.small), itemsizing="trace", tracegroupgap=4
            ),
            hoverlabel=dict(bgcolor=look.paper, bordercolor=look.muted, font=dict(color=look.ink)),
        )
    )


def colour_table(theme: str | Theme = "light", *, bands: int = BANDS) -> np.ndarray:
    """The colours of a field's bands.

    Args:
        theme: Name or theme.
        bands: Number of steps.

    Returns:
        Shape (bands, 3), uint8, lowest value first.
    """
    stops = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in theme_of(theme).field], dtype=float)
    places = np.linspace(0, len(stops) - 1, bands)
    table = np.stack([np.interp(places, np.arange(len(stops)), stops[:, k]) for k in range(3)], axis=1)
    return table.round().astype(np.uint8)
