"""Curves in an embedding as a reader checks them: support, the frames along them, errors on hidden frames."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
import torch
from torch import Tensor

from widgets.figures.images import is_picture, pixels_of, png_uri
from widgets.figures.status import dress, sentence
from widgets.theme import SIZES, Theme, theme_of
from workbench.conda.gaps import GapScore
from workbench.conda.lifts import OFF_SUPPORT
from workbench.lenses.conda import TraceResult

FILM = 12
"""Frames of a film."""


def support_figure(path: TraceResult, *, theme: str | Theme = "light", width: int | None = None) -> go.Figure:
    """How far each point of a curve lies from data, and how long its latent is beside its neighbours'.

    Args:
        path: The curve.
        theme: Name or theme.
        width: Pixels.

    Returns:
        Traces "distance to data" and "norm ratio", and the line above which the light is off.
    """
    look = theme_of(theme)
    lifted, times = path.lifted, path.times.numpy()
    distance = lifted.distance.double().clamp(min=1e-3, max=1e6).numpy()
    lit = [look.warning if off else look.good for off in lifted.off_support.tolist()]
    drawing = go.Figure(
        go.Scatter(
            x=times,
            y=distance,
            mode="lines+markers",
            name="distance to data",
            line=dict(color=look.muted, width=1.2),
            marker=dict(color=lit, size=SIZES.marker),
            hovertemplate="%{x:.4g}: %{y:.3g} spacings<extra></extra>",
        )
    )
    drawing.add_scatter(
        x=times,
        y=lifted.norm_ratio.double().numpy(),
        mode="lines",
        name="norm ratio",
        yaxis="y2",
        line=dict(color=look.slerp, width=SIZES.line, dash="dash"),
        hovertemplate="%{x:.4g}: %{y:.3f} of the neighbours' length<extra></extra>",
    )
    drawing.add_hline(y=OFF_SUPPORT, line=dict(color=look.warning, width=1.2, dash="dot"))
    drawing.update_xaxes(title_text=along_of(path))
    top = max(1.1, 1.05 * float(lifted.norm_ratio.max()))
    drawing.update_layout(
        yaxis=dict(title_text="distance / usual spacing", type="log"),
        yaxis2=dict(
            title_text="norm ratio", overlaying="y", side="right", range=[0, top], showgrid=False, dtick=0.25
        ),
        margin=dict(r=64),
        legend=dict(orientation="h", y=1.0, yanchor="bottom", x=1.0, xanchor="right"),
    )
    off = int(lifted.off_support.sum())
    light = f"▲ {off} of {len(lit)} points off support" if off else f"● all {len(lit)} points near frames"
    return dress(
        drawing,
        title="Support of the curve",
        subtitle=f"{light}; above {OFF_SUPPORT:g} (dotted) a lift is not to be believed",
        theme=look,
        width=width,
        height=SIZES.height - 60,
        trusted=not off,
    )


def films_figure(
    films: Mapping[str, Tensor],
    shape: tuple[int, ...],
    *,
    times: Tensor | None = None,
    along: str = "time",
    off_support: Tensor | None = None,
    value_range: tuple[float, float] | None = None,
    frames: int = FILM,
    labels: Sequence[str] | None = None,
    title: str = "Along the curve, and without a map",
    theme: str | Theme = "light",
    width: int | None = None,
) -> go.Figure:
    """Rows of frames one above the other: the lifted curve, and the interpolations of latents beside it.

    Args:
        films: Name to frames, shape (steps, dim), all of one length.
        shape: Shape of one frame.
        times: Times of the frames, shape (steps,).
        along: What those are, see `along_of`, or the labels.
        off_support: Whether a frame of the first film is to be doubted, shape (steps,).
        value_range: Values of black and white; the extremes of the first film if None.
        frames: Frames of each film that are shown.
        labels: Words below the frames in place of times, one a frame.
        title: Of the figure.
        theme: Name or theme.
        width: Pixels.

    Returns:
        One layout image a frame and one label a film; a sentence where frames are no pictures.
    """
    look = theme_of(theme)
    if not is_picture(shape):
        return sentence(
            "Frames of this data are no pictures: the support of the curve says more.", theme=look
        )
    first = next(iter(films.values()))
    places = torch.linspace(0, len(first) - 1, min(frames, len(first))).round().long().unique()
    limits = value_range or (float(first.min()), float(first.max()))
    rows, columns = len(films), len(places)
    drawing = go.Figure(
        go.Scatter(x=[0, columns], y=[0, rows], mode="markers", marker=dict(opacity=0), showlegend=False,
                   hoverinfo="skip", name="grid")
    )  # fmt: skip
    for row, (name, film) in enumerate(films.items()):
        for column, pixels in enumerate(pixels_of(film[places], shape, limits)):
            drawing.add_layout_image(
                source=png_uri(pixels), name=f"{name} {column}", xref="x", yref="y",
                x=column + 0.5, y=rows - row - 0.5, sizex=0.94, sizey=0.92,
                xanchor="center", yanchor="middle", sizing="contain", layer="above",
            )  # fmt: skip
        if row == 0 and off_support is not None:
            for column in off_support[places].nonzero()[:, 0].tolist():
                drawing.add_shape(
                    type="rect", x0=column + 0.02, x1=column + 0.98, y0=rows - 0.99, y1=rows - 0.01,
                    line=dict(color=look.warning, width=2), name="off support",
                )  # fmt: skip
    if labels is not None:
        below = [labels[int(k)] for k in places]
    elif times is not None:
        digits = ".5g" if along == "time" else ".2f"
        below = [f"{float(times[k]):{digits}}" for k in places]
    else:
        below = [str(int(k)) for k in places]
    drawing.update_xaxes(
        range=[0, columns], tickvals=[k + 0.5 for k in range(columns)], ticktext=below, showgrid=False,
        title_text="point of the curve" if times is None and labels is None else along,
    )  # fmt: skip
    drawing.update_yaxes(
        range=[0, rows], tickvals=[rows - k - 0.5 for k in range(rows)], ticktext=list(films), showgrid=False
    )
    wide = width or SIZES.width
    tall = shape[-2] / shape[-1] * (wide - 170) / columns
    doubted = 0 if off_support is None else int(off_support.sum())
    note = f"{doubted} of {len(first)} points off support, framed" if doubted else "all points near frames"
    return dress(
        drawing,
        title=title,
        subtitle=f"{columns} of {len(first)} points" + ("" if off_support is None else f"; {note}"),
        theme=look,
        width=wide,
        height=round(192 + rows * max(tall, 24.0)),
    )


def gaps_figure(score: GapScore, *, theme: str | Theme = "light", width: int | None = None) -> go.Figure:
    """Errors on hidden frames, method by method, with every gap as a dot.

    Args:
        score: The score.
        theme: Name or theme.
        width: Pixels.

    Returns:
        Traces "all gaps" and "one gap".
    """
    look = theme_of(theme)
    names = {
        "lerp_z": "straight in z", "slerp_z": "spherical in z", "spline_z": "spline in z",
        "lerp_c": "straight in c, lifted", "spline_c": "spline in c, lifted",
    }  # fmt: skip
    shown = [names.get(name, name) for name in score.errors]
    ours = [look.path if name.endswith("_c") else look.straight for name in score.errors]
    drawing = go.Figure(
        go.Bar(x=shown, y=list(score.errors.values()), name="all gaps", marker=dict(color=ours),
               hovertemplate="%{x}: %{y:.4f}<extra></extra>")
    )  # fmt: skip
    drawing.add_scatter(
        x=[label for label, errors in zip(shown, score.per_gap.values(), strict=True) for _ in errors],
        y=torch.cat(list(score.per_gap.values())).tolist(),
        mode="markers",
        name="one gap",
        marker=dict(color=look.ink, size=4, opacity=0.6),
        hovertemplate="one gap: %{y:.4f}<extra></extra>",
    )
    drawing.update_yaxes(title_text="error / spread of the frames", rangemode="tozero")
    return dress(
        drawing,
        title="Frames that nothing has seen",
        subtitle=f"{len(score.rows)} hidden frames in {int(score.gaps.max()) + 1} gaps of at least "
        f"{score.span} steps; a quarter cycle is {score.quarter:.1f}",
        theme=look,
        width=width,
    )


def along_of(path: TraceResult) -> str:
    """What the times of a curve are: those of frames, or shares of a curve through free points."""
    timed = path.kind == "forecast" or (path.kind == "spline" and path.provenance.settings["rows"])
    return "time" if timed else "share of the curve"
