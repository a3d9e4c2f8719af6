"""Samples before and after they went through the flow to the noise and back."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import torch
from PIL import Image
from plotly.subplots import make_subplots
from torch import Tensor

from widgets.figures.images import is_picture, pixels_of, png_uri
from widgets.figures.status import dress, status_line
from widgets.theme import SIZES, Theme, theme_of
from workbench.decoders import Decoder
from workbench.flows import InversionResult
from workbench.models import Frame


def samples_figure(
    samples: Mapping[str, Tensor],
    frame: Frame,
    loop: InversionResult | None = None,
    *,
    decoder: Decoder | None = None,
    originals: Mapping[str, Path] | None = None,
    theme: str | Theme = "light",
) -> go.Figure:
    """Samples as a model sees them, and as its flow returns them.

    Args:
        samples: Label to point, shape (dim,).
        frame: The model's frame; samples of other shapes than pictures are written as coordinates.
        loop: Their inversion, in the same order, with the points after the round trip.
        decoder: What turns samples into pictures where they are latents.
        originals: Label to the picture file that a sample was read from, shown before it was fitted.
        theme: Name or theme.

    Returns:
        One panel a sample, one for its return with the relative error, and one for its original.
    """
    look = theme_of(theme)
    panels: list[tuple[str, Tensor | Path]] = []
    for k, (label, point) in enumerate(samples.items()):
        if originals and label in originals:
            panels.append((f"{label},<br>as given", originals[label]))
        fitted = ",<br>fitted" if originals and label in originals else ""
        panels.append((f"{label}{fitted}", point))
        if loop is not None:
            panels.append((f"{label}, returned<br>error {float(loop.round_trip[k]):.1e}", loop.returned[k]))
    title = f"The ends in the frame of {frame}"
    status = "" if loop is None else status_line(loop.report, loop.provenance)
    shown = frame if decoder is None else decoder.picture
    if not is_picture(shown.shape):
        return _coordinates(panels, title, status, look)
    drawing = make_subplots(
        1, len(panels), subplot_titles=[label for label, _ in panels], horizontal_spacing=0.04
    )
    for k, (_, point) in enumerate(panels, start=1):
        pixels = _thumbnail(point) if isinstance(point, Path) else _pixels(point, shown, decoder)
        rows, columns = pixels.shape[:2]
        drawing.add_layout_image(
            source=png_uri(pixels), x=0, y=rows, sizex=columns, sizey=rows, sizing="stretch", layer="below",
            xref=f"x{k if k > 1 else ''}", yref=f"y{k if k > 1 else ''}",
        )  # fmt: skip
        drawing.add_scatter(
            x=[0, columns], y=[0, rows], mode="markers", opacity=0, showlegend=False, row=1, col=k
        )
        drawing.update_xaxes(visible=False, range=[0, columns], constrain="domain", row=1, col=k)
        drawing.update_yaxes(
            visible=False,
            range=[0, rows],
            scaleanchor=f"x{k if k > 1 else ''}",
            constrain="domain",
            row=1,
            col=k,
        )
    drawing.update_annotations(font_size=SIZES.small)
    return dress(drawing, title=title, status=status, theme=look, height=SIZES.strip_height + 40)


def _pixels(point: Tensor, shown: Frame, decoder: Decoder | None) -> np.ndarray:
    with torch.no_grad():
        pictures = point[None] if decoder is None else decoder.decode(point[None])
    return pixels_of(pictures, shown.shape, shown.value_range)[0]


def _thumbnail(path: Path) -> np.ndarray:
    with Image.open(path) as opened:
        opened.thumbnail((256, 256))
        return np.asarray(opened.convert("RGB"))


def _coordinates(panels: list[tuple[str, Tensor | Path]], title: str, status: str, look: Theme) -> go.Figure:
    points = [point for _, point in panels if isinstance(point, Tensor)]
    texts = [", ".join(f"{value:.6g}" for value in point.tolist()[:8]) for point in points]
    labels = [label.replace(",<br>", ", ").replace("<br>", ", ") for label, _ in panels]
    drawing = go.Figure(
        go.Table(
            header=dict(values=["point", "coordinates"], align="left"),
            cells=dict(values=[labels, texts], align="left"),
        )
    )
    return dress(drawing, title=title, status=status, theme=look, height=240 + 34 * len(panels))
