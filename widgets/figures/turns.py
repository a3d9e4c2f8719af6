"""Figures of a data set and its rotations: how it lies for an architecture, what it looks like turned, and
how well networks learn it so."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
from torch import Tensor

from widgets.figures.images import is_picture, pixels_of, png_uri
from widgets.figures.status import dress, sentence
from widgets.figures.trials import add_anchors, scale_distances
from widgets.theme import SIZES, Theme, theme_of
from workbench.anisotropy.alignment import Alignment
from workbench.anisotropy.comparison import median_interval
from workbench.anisotropy.trials import Trial

BASES = {"own": "as they are", "w_min": "turned by W_min", "w_max": "turned by W_max"}
"""Bases in which a data set can be shown."""


def alignment_figure(
    alignments: Mapping[str, Alignment], *, theme: str | Theme = "light", width: int | None = None
) -> go.Figure:
    """Where data sets lie between the least and the most aligned rotation: 0 predicted best, 1 worst.

    Returns:
        One bar trace "position".
    """
    look = theme_of(theme)
    drawing = go.Figure()
    drawing.add_bar(
        y=list(alignments),
        x=[a.position for a in alignments.values()],
        orientation="h",
        name="position",
        marker=dict(color=look.path),
        customdata=[[a.value, a.minimum, a.maximum] for a in alignments.values()],
        hovertemplate="alignment %{customdata[0]:.4g}<br>between %{customdata[1]:.4g} and "
        "%{customdata[2]:.4g}<extra></extra>",
    )
    drawing.update_xaxes(title_text="position between least (0) and most (1) aligned", range=[0, 1])
    return dress(
        drawing,
        title="Alignment of data with the architecture",
        subtitle="0: predicted best",
        theme=look,
        width=width,
    )


def basis_figure(
    points: Tensor,
    rotation: Tensor | None,
    *,
    shape: tuple[int, ...],
    name: str = "own",
    theme: str | Theme = "light",
    width: int | None = None,
) -> go.Figure:
    """Real samples as they are, and below them what a network would be trained on in another basis.

    Args:
        points: A few samples, shape (count, dim).
        rotation: W, (dim, dim); None shows the samples alone.
        shape: Shape of one sample.
        name: Name of the basis, one of `BASES`.
        theme: Name or theme.
        width: Pixels.

    Returns:
        Layout images "sample 0", "turned 0", and so on.
    """
    look = theme_of(theme)
    if not is_picture(shape):
        return sentence("Samples are points, not pictures: there is nothing to show.", theme=look)
    flat = points.detach().cpu().double()
    rows = [("sample", "as they are", flat)]
    if rotation is not None:
        rows.append(("turned", BASES.get(name, name), flat @ rotation.cpu().double().T))
    drawing = go.Figure()
    for height, (kind, words, samples) in enumerate(rows):
        for place, picture in enumerate(pixels_of(samples, shape)):
            drawing.add_layout_image(
                source=png_uri(picture),
                name=f"{kind} {place}",
                xref="x",
                yref="y",
                x=place,
                y=-height,
                sizex=0.92,
                sizey=0.92,
                xanchor="center",
                yanchor="top",
                sizing="contain",
            )
        drawing.add_annotation(
            x=-0.55,
            y=-height - 0.46,
            text=words,
            showarrow=False,
            xanchor="right",
            font=dict(size=SIZES.small),
        )
    drawing.update_xaxes(visible=False, range=[-2.6, len(points) - 0.5])
    drawing.update_yaxes(visible=False, range=[-len(rows), 0.02])
    return dress(
        drawing,
        title="The basis that data are learned in",
        subtitle="a network learns W x; its samples are turned back by the transpose of W",
        theme=look,
        width=width or max(SIZES.width, 72 * (len(points) + 2)),
        height=170 + 78 * len(rows),
    )


def turns_figure(
    turned: Mapping[str, Sequence[Trial]], *, theme: str | Theme = "light", width: int | None = None
) -> go.Figure:
    """Real data learnt as they are, turned by W_min and by W_max, with the trivial generators as lines.

    Args:
        turned: Trials by name of the basis, one of `BASES`, seeds within one.
        theme: Name or theme.
        width: Pixels.

    Returns:
        Traces "seeds", "all zeros", "standard normal", "real against real" and "median of seeds".
    """
    look = theme_of(theme)
    words = {name: BASES.get(name, name).removeprefix("turned by ") for name in turned}
    middle = {name: median_interval([float(t.sliced[-1]) for t in trials]) for name, trials in turned.items()}
    every = [t for trials in turned.values() for t in trials]
    drawing = go.Figure()
    drawing.add_scatter(
        x=[words[name] for name, trials in turned.items() for _ in trials],
        y=[float(t.sliced[-1]) for t in every],
        mode="markers",
        name="seeds",
        marker=dict(color=look.muted, size=SIZES.marker - 2),
    )
    add_anchors(drawing, every, tuple(words.values()), look)
    drawing.add_scatter(
        x=list(words.values()),
        y=[found.median for found in middle.values()],
        mode="markers+text",
        text=[f"{found.median:.3g}" for found in middle.values()],
        textposition="middle right",
        name="median of seeds",
        marker=dict(color=look.path, size=SIZES.marker + 2),
        error_y=dict(
            type="data",
            symmetric=False,
            array=[found.high - found.median for found in middle.values()],
            arrayminus=[found.median - found.low for found in middle.values()],
        ),
    )
    zero = max(t.baselines.zero.mean for t in every)
    worse = [words[name] for name, found in middle.items() if found.median >= zero]
    seeds = min(found.seeds for found in middle.values())
    few = "; the order is not decided" if seeds < 3 else ""
    plural = "s" if seeds > 1 else ""
    drawing.update_xaxes(
        title_text="the data are learnt as they are, or turned by", range=[-0.5, len(words) - 0.5]
    )
    scale_distances(drawing, "sliced W2 after training, data units")
    return dress(
        drawing,
        title=f"Real data after {int(every[0].steps[-1])} steps",
        subtitle=f"{'; '.join(worse) or 'none'}: worse than zeros; {seeds} seed{plural} a basis{few}",
        theme=look,
        width=width,
    )
