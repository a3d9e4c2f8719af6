"""The filmstrip of a path: samples at equal arc length, and under them how far apart they are."""

import plotly.graph_objects as go
import torch
from torch import Tensor

from widgets.figures.images import add_frames, is_picture, pixels_of
from widgets.figures.status import dress, sentence, status_line
from widgets.theme import SIZES, Theme, theme_of
from workbench.decoders import Decoder
from workbench.lenses.paths import PathResult
from workbench.models import Frame


def filmstrip_figure(
    result: PathResult,
    frame: Frame,
    *,
    decoder: Decoder | None = None,
    frames: int = 9,
    theme: str | Theme = "light",
    width: int | None = None,
) -> go.Figure:
    """Samples at equal arc length along a path with the steps between them as bars.

    Bars of one height say that the path is even; a bar that stands out says where the samples jump. The steps
    are chords, so that a path which bends between two samples has a step shorter than its share of the arc.

    Args:
        result: The path.
        frame: The model's frame: shape and value range of a sample.
        decoder: What turns points into pictures where they are latents; the bars stay in latent units.
        frames: Samples to show, ends included.
        theme: Name or theme.
        width: Pixels.

    Returns:
        One trace "step" and one picture a sample; a sentence where samples are no pictures.
    """
    look = theme_of(theme)
    shown = frame if decoder is None else decoder.picture
    if not is_picture(shown.shape):
        return sentence(f"Samples of {frame.name} are points, not pictures: the map shows them.", theme=look)
    points, places = at_equal_arc(result, frames)
    steps = (points[1:] - points[:-1]).norm(dim=-1)
    middles = [float(place) for place in 0.5 * (places[1:] + places[:-1])]
    gap = 1.0 / (frames - 1)
    drawing = go.Figure()
    drawing.add_bar(
        x=middles,
        y=[float(step) for step in steps],
        width=0.8 * gap,
        name="step",
        marker=dict(color=look.path),
        showlegend=False,
        hovertemplate="step %{y:.4g}<extra></extra>",
    )
    with torch.no_grad():
        pictures = points if decoder is None else decoder.decode(points)
    add_frames(
        drawing, pixels_of(pictures, shown.shape, shown.value_range), [float(place) for place in places], gap
    )
    drawing.update_xaxes(
        title_text="share of the arc length",
        range=[-0.55 * gap, 1 + 0.55 * gap],
        showgrid=False,
        zeroline=False,
    )
    drawing.update_yaxes(
        title_text=f"step |{'Δx' if decoder is None else 'Δz'}|<br>{frame.space} units",
        range=[0, 1.15 * float(steps.max()) or 1.0],
        domain=[0.0, 0.4],
        nticks=4,
    )
    return dress(
        drawing,
        title="Along the path at equal arc length",
        subtitle=f"{frames} {'samples' if decoder is None else 'decoded latents'} on the spline through "
        f"{len(result.curve.points)} nodes; bars: distance between neighbours, {frame.space} units",
        status=status_line(result.report, result.provenance),
        trusted=result.report.converged,
        theme=look,
        width=width,
        height=SIZES.strip_height + 70,
    )


def at_equal_arc(result: PathResult, frames: int) -> tuple[Tensor, Tensor]:
    """Points of the path at equal shares of its arc, both ends included.

    Args:
        result: The path; its nodes lie at equal arc.
        frames: How many points.

    Returns:
        Points (frames, dim) and their shares (frames,).
    """
    points = result.curve.points
    shares = torch.linspace(0, 1, frames, dtype=points.dtype, device=points.device)
    return result.curve(shares), shares
