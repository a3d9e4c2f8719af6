"""Pixels for figures: fields and samples as PNG, because arrays of two axes would travel as JSON text."""

import base64
import io
from collections.abc import Iterable, Sequence

import numpy as np
import plotly.graph_objects as go
import torch
from PIL import Image
from torch import Tensor

from widgets.theme import BANDS, Theme, colour_table
from workbench.errors import ShapeError
from workbench.fields import Field, Window


def png_uri(pixels: np.ndarray) -> str:
    """A picture as a data URI that any browser shows without a request.

    Args:
        pixels: uint8, shape (rows, columns), (rows, columns, 3) or (rows, columns, 4); row 0 on top.

    Returns:
        "data:image/png;base64,...".
    """
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG", optimize=False, compress_level=6)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def field_uri(
    field: Field, theme: str | Theme = "light", *, limits: tuple[float, float] | None = None
) -> str:
    """A field as a banded picture; non-finite values are left transparent.

    Args:
        field: The field.
        theme: Name or theme.
        limits: Values of the first and last colour; the field's own if None.

    Returns:
        A data URI, highest ordinate on top.
    """
    low, high = field.limits() if limits is None else limits
    values = field.values.detach().cpu().double().numpy()[::-1]
    known = np.isfinite(values)
    place = np.where(known, (np.where(known, values, low) - low) / (high - low), 0.0)
    colours = colour_table(theme)[np.clip((place * BANDS).astype(int), 0, BANDS - 1)]
    alpha = np.where(known, 255, 0).astype(np.uint8)
    return png_uri(np.concatenate([colours, alpha[..., None]], axis=-1))


def add_picture(
    drawing: go.Figure,
    field: Field,
    window: Window,
    theme: str | Theme,
    *,
    limits: tuple[float, float] | None = None,
) -> None:
    """Lay a field under a figure.

    Args:
        drawing: The figure; changed in place.
        field: The field.
        window: Where it lies, in the units of the axes.
        theme: Name or theme.
        limits: Values of the first and last colour; the field's own if None.
    """
    drawing.add_layout_image(
        source=field_uri(field, theme, limits=limits),
        name=field.title,
        xref="x",
        yref="y",
        x=window.x[0],
        y=window.y[1],
        sizex=window.x[1] - window.x[0],
        sizey=window.y[1] - window.y[0],
        sizing="stretch",
        layer="below",
    )


def add_frames(drawing: go.Figure, frames: Iterable[np.ndarray], places: Sequence[float], gap: float) -> None:
    """Hang pictures from the upper edge of a figure, over its bars.

    Args:
        drawing: The figure; changed in place.
        frames: The pictures, uint8, as `pixels_of` gives them.
        places: Where the middle of each lies on the x axis.
        gap: Distance of neighbours there; a picture takes most of it.
    """
    for k, (picture, place) in enumerate(zip(frames, places, strict=True)):
        drawing.add_layout_image(
            source=png_uri(picture),
            name=f"frame {k}",
            xref="x",
            yref="paper",
            x=place,
            y=1.0,
            sizex=0.94 * gap,
            sizey=0.54,
            xanchor="center",
            yanchor="top",
            sizing="contain",
            layer="above",
        )


def pixels_of(
    points: Tensor, shape: tuple[int, ...], value_range: tuple[float, float] | None = None
) -> np.ndarray:
    """Samples as pictures.

    Args:
        points: Flat samples, shape (count, dim).
        shape: Shape of one sample: (rows, columns), (1, rows, columns) or (3, rows, columns).
        value_range: Values of black and white; the points' own extremes if None.

    Returns:
        uint8, shape (count, rows, columns) or (count, rows, columns, 3).

    Raises:
        ShapeError: If the samples are no pictures.
    """
    if not is_picture(shape):
        raise ShapeError(
            f"samples of shape {shape}", "pictures of one or three channels", "the map of the path"
        )
    points = points.detach().cpu().double()
    low, high = value_range or (float(points.min()), float(points.max()))
    scaled = ((points - low) / ((high - low) or 1.0)).clamp(0, 1).mul(255).round().to(torch.uint8)
    stack = scaled.reshape(len(points), *((1, *shape) if len(shape) == 2 else shape))
    pixels = stack.permute(0, 2, 3, 1).numpy()
    return pixels[..., 0] if pixels.shape[-1] == 1 else np.ascontiguousarray(pixels)


def is_picture(shape: tuple[int, ...]) -> bool:
    """Whether samples of that shape can be shown as pictures."""
    return (len(shape) == 2 and min(shape) > 1) or (
        len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) > 1
    )
