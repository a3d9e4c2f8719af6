"""What the canvas shows, as plain values: the same for a notebook's widget and for a page's component.

A field, curves and samples travel as binary buffers, everything else as small JSON. The functions here turn
results into those values and know no host.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor

from widgets.theme import Theme, colour_table, theme_of
from workbench.errors import ShapeError
from workbench.fields import Field, Window

GESTURES = ("start", "move", "end", "add", "remove")
"""Kinds of gesture: a point is taken, moved and let go; a via point is asked for or taken away."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """A curve, or marks, on the canvas.

    Attributes:
        name: Its entry in the legend.
        coords: Coordinates in the picture, shape (count, 2).
        colour: A colour of CSS.
        kind: "line", "dots" or "crosses".
        width: Line width, radius of a dot or half size of a cross, in pixels.
        dash: Dash pattern of SVG; solid if empty.
        nodes: Radius of the dots on a line's nodes; none if 0.
        opacity: 0 to 1.
        halo: Draw the line on a band of the paper's colour.
    """

    name: str
    coords: Tensor
    colour: str
    kind: Literal["line", "dots", "crosses"] = "line"
    width: float = 2.4
    dash: str = ""
    nodes: float = 0.0
    opacity: float = 1.0
    halo: bool = False


@dataclass(frozen=True, slots=True)
class Handle:
    """A point that can be dragged.

    Attributes:
        id: Its identity across updates.
        label: Its name on the canvas.
        x: Abscissa in the picture.
        y: Ordinate in the picture.
        kind: "start", "end" or "via".
    """

    id: str
    label: str
    x: float
    y: float
    kind: Literal["start", "end", "via"]


@dataclass(frozen=True, slots=True)
class Gesture:
    """What a user did to a point.

    Attributes:
        kind: One of `GESTURES`.
        id: The point's identity; empty for one that is asked for.
        x: Abscissa in the picture.
        y: Ordinate in the picture.
        seq: Number of the message, to be answered.
    """

    kind: Literal["start", "move", "end", "add", "remove"]
    id: str
    x: float
    y: float
    seq: int


def gesture_of(message: Mapping[str, Any]) -> Gesture | None:
    """The gesture in a message of the front end, or None if it is none.

    A message comes from outside, so that every part is checked.
    """
    kind, seq = message.get("kind"), message.get("seq")
    if kind not in GESTURES or not isinstance(seq, int) or isinstance(seq, bool):
        return None
    x, y = _coordinate(message.get("x")), _coordinate(message.get("y"))
    if x is None or y is None:
        return None
    return Gesture(kind, str(message.get("id", "")), x, y, seq)


def _coordinate(value: Any) -> float | None:
    """A finite number, or None."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if plain and math.isfinite(value) else None


def field_traits(field: Field | None, *, limits: tuple[float, float] | None = None) -> dict[str, Any]:
    """Trait values of a field; None clears it.

    Args:
        field: The field.
        limits: Values of the first and last colour; the field's own if None.

    Returns:
        The buffer (float32, lowest ordinate first), its shape, limits and title.
    """
    if field is None:
        return {"field": b"", "field_shape": [0, 0], "field_limits": [0.0, 1.0], "field_title": ""}
    low, high = limits or field.limits()
    return {
        "field": field.values.detach().cpu().float().contiguous().numpy().tobytes(),
        "field_shape": list(field.values.shape),
        "field_limits": [low, high],
        "field_title": f"{field.title}, {field.unit}" if field.unit else field.title,
    }


def window_traits(window: Window, axes: tuple[str, ...]) -> dict[str, Any]:
    """Trait values of the axes: ranges and titles."""
    return {"x_range": list(window.x), "y_range": list(window.y), "x_title": axes[0], "y_title": axes[1]}


def stroke_traits(strokes: Sequence[Stroke]) -> dict[str, Any]:
    """Trait values of curves: one float32 buffer of all vertices, and where each curve lies in it.

    Raises:
        ShapeError: If coordinates are no (count, 2) array.
    """
    curves, buffers, offset = [], [], 0
    for stroke in strokes:
        if stroke.coords.ndim != 2 or stroke.coords.shape[1] != 2:
            raise ShapeError(
                f"coordinates of {stroke.name} of shape {tuple(stroke.coords.shape)}", "(count, 2)"
            )
        count = len(stroke.coords)
        entry = {key: value for key, value in asdict_shallow(stroke).items() if key != "coords"}
        curves.append({**entry, "offset": offset, "count": count})
        buffers.append(stroke.coords.detach().cpu().float().contiguous().numpy().tobytes())
        offset += count
    return {"curves": curves, "vertices": b"".join(buffers)}


def asdict_shallow(value: Any) -> dict[str, Any]:
    """The fields of a dataclass without copying what they hold."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def handle_traits(handles: Sequence[Handle]) -> dict[str, Any]:
    """Trait values of the points that can be dragged."""
    return {"handles": [asdict(handle) for handle in handles]}


def thumb_traits(pixels: np.ndarray | None, curve: str = "") -> dict[str, Any]:
    """Trait values of the pictures shown when a curve's nodes are pointed at; None clears them.

    Args:
        pixels: uint8, shape (count, rows, columns), one a node.
        curve: Name of the curve.
    """
    if pixels is None:
        return {"thumbs": b"", "thumb_shape": [0, 0, 0], "thumb_curve": ""}
    return {
        "thumbs": np.ascontiguousarray(pixels).tobytes(),
        "thumb_shape": list(pixels.shape),
        "thumb_curve": curve,
    }


def theme_traits(theme: str | Theme) -> dict[str, Any]:
    """Trait values of a theme: its name and the colours that the canvas needs."""
    look = theme_of(theme)
    names = ("paper", "ink", "muted", "grid", "start", "end", "via", "warning")
    field = ["#{:02x}{:02x}{:02x}".format(*map(int, row)) for row in colour_table(look)]
    return {"theme": look.name, "palette": {**{name: getattr(look, name) for name in names}, "field": field}}
