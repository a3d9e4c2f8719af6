"""The filmstrip at equal steps of a metric, with the Euclidean steps as bars under it."""

import itertools

import plotly.graph_objects as go

from widgets.figures.images import add_frames, is_picture, pixels_of
from widgets.figures.status import dress, sentence
from widgets.theme import SIZES, Theme, theme_of
from workbench.bench.export import Filmstrip
from workbench.subjects import Subject


def strip_figure(
    strip: Filmstrip, subject: Subject, *, theme: str | Theme = "light", width: int | None = None
) -> go.Figure:
    """Samples at equal steps of a metric, with their Euclidean steps as bars: jumps and boundaries show.

    Args:
        strip: The frames.
        subject: Whose points they are.
        theme: Name or theme.
        width: Pixels.

    Returns:
        One trace "step" and one picture a frame; a sentence where samples are no pictures.
    """
    look = theme_of(theme)
    shown = subject.shown
    if not is_picture(shown.shape):
        return sentence(
            f"Samples of {subject.frame.name} are points, not pictures: the map shows them.", theme=look
        )
    frames = len(strip.points)
    gap = 1.0 / (frames - 1)
    places = [k * gap for k in range(frames)]
    plain = strip.plain.double().tolist()
    steps = strip.steps.double().tolist()
    drawing = go.Figure(
        go.Bar(
            x=[0.5 * (a + b) for a, b in itertools.pairwise(places)],
            y=plain,
            width=0.8 * gap,
            name="step",
            marker=dict(color=look.path),
            showlegend=False,
            customdata=steps,
            hovertemplate="|Δx| %{y:.4g} data units, metric step %{customdata:.4g}<extra></extra>",
        )
    )
    add_frames(drawing, pixels_of(subject.show(strip.points), shown.shape, shown.value_range), places, gap)
    mean = sum(plain) / len(plain)
    drawing.add_hline(y=mean, line=dict(color=look.muted, width=1, dash="dot"))
    drawing.update_xaxes(
        title_text="share of the length under the metric",
        range=[-0.55 * gap, 1 + 0.55 * gap],
        showgrid=False,
        zeroline=False,
    )
    drawing.update_yaxes(
        title_text="step |Δx|<br>data units", range=[0, 1.15 * max(plain) or 1.0], domain=[0.0, 0.4], nticks=4
    )
    return dress(
        drawing,
        title=f"Along the {strip.line} at equal metric steps",
        subtitle=f"{strip.metric}; steps even to {100 * (strip.evenness - 1):.1f} %; bars: Euclidean steps",
        theme=look,
        width=width or SIZES.width,
        height=SIZES.strip_height + 40,
    )
