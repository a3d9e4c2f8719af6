"""What the canvas shows, as plain values: the same for a notebook's widget and for a page's component.

A field, curves and samples travel as binary buffers, everything else as small JSON. The functions here turn
results into those values and know no host.

A scatter of up to a thousand points is a `Stroke` of dots. Larger ones, up to some millions, are a `Cloud`:
`canvas.show(**cloud_traits([Cloud("latents", coords, ("#d55e00", "#0072b2"), labels)]))` sorts the points by
the cells of a grid, so that the front end skips what is out of sight and, while the picture is zoomed or
moved, draws a sample of fixed size that keeps the densities.
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
class Cloud:
    """Very many points on the canvas, each in one of a few colours.

    Attributes:
        name: Its entry in the legend.
        coords: Coordinates in the picture, shape (count, 2); those that are not finite are left out.
        colours: Colours as "#rrggbb"; one for all points, or one a label.
        labels: Row of `colours` for every point, whole numbers of shape (count,); 0 if None.
        radius: Radius of a point in pixels; above a quarter of a million points in sight each is one pixel.
        opacity: Of a single point, 0 to 1; points on top of each other add up.
    """

    name: str
    coords: Tensor
    colours: tuple[str, ...]
    labels: Tensor | None = None
    radius: float = 2.0
    opacity: float = 0.5


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


def drag_hint(*, samples: bool = False, vias: bool = True) -> str:
    """What the canvas says while nobody points at it.

    Args:
        samples: Whether a point that is let go becomes the nearest real sample.
        vias: Whether points can be added between the ends.
    """
    parts = ["drag the ends, or move them with the arrow keys"]
    if samples:
        parts[0] += ": each becomes the nearest real image"
    if vias:
        parts.append("double-click for a via point, Delete takes it away")
    return "; ".join(parts)


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


CELLS = 64
"""Cells of a cloud's grid along each side."""


def cloud_traits(clouds: Sequence[Cloud]) -> dict[str, Any]:
    """Trait values of clouds of points; an empty sequence clears them.

    The points of a cloud are sorted by the cells of a grid over their bounding box, row by row from the
    lowest, and stand in random order inside a cell: the first part of every cell is a fair sample of the
    cloud.

    Args:
        clouds: Clouds, the lowest first.

    Returns:
        One float32 buffer of coordinates, one uint8 buffer of labels, one uint32 buffer of where each cell
        begins (CELLS² + 1 numbers a cloud), and a small description of each cloud.

    Raises:
        ShapeError: If coordinates are no (count, 2) array, or labels no row of the colours.
    """
    entries, places, labels, cells, offset = [], [], [], [], 0
    for cloud in clouds:
        if cloud.coords.ndim != 2 or cloud.coords.shape[1] != 2:
            raise ShapeError(
                f"coordinates of {cloud.name} of shape {tuple(cloud.coords.shape)}", "(count, 2)"
            )
        points = cloud.coords.detach().cpu().float().numpy()
        rows = _label_rows(cloud)
        finite = np.isfinite(points).all(axis=1)
        points, rows = points[finite], rows[finite]
        box = [[0.0, 1.0], [0.0, 1.0]]
        if len(points):
            box = [[float(points[:, k].min()), float(points[:, k].max())] for k in (0, 1)]
        order, starts = _by_cell(points, box)
        places.append(np.ascontiguousarray(points[order]).tobytes())
        labels.append(rows[order].tobytes())
        entries.append(
            {
                "name": cloud.name,
                "colours": list(cloud.colours),
                "radius": cloud.radius,
                "opacity": cloud.opacity,
                "count": len(points),
                "side": CELLS,
                "box": box,
                "cell": len(cells) * (CELLS * CELLS + 1),
            }
        )
        cells.append((starts + offset).astype(np.uint32).tobytes())
        offset += len(points)
    return {
        "clouds": entries,
        "cloud_points": b"".join(places),
        "cloud_labels": b"".join(labels),
        "cloud_cells": b"".join(cells),
    }


def _label_rows(cloud: Cloud) -> np.ndarray:
    """The labels of a cloud as bytes."""
    count, colours = len(cloud.coords), len(cloud.colours)
    if cloud.labels is None:
        return np.zeros(count, np.uint8)
    rows = cloud.labels.detach().cpu().numpy()
    outside = count and (rows.min() < 0 or rows.max() >= min(colours, 256))
    if rows.shape != (count,) or outside:
        raise ShapeError(
            f"labels of {cloud.name} of shape {rows.shape}", f"{count} whole numbers from 0 to {colours - 1}"
        )
    return rows.astype(np.uint8)


def _by_cell(points: np.ndarray, box: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    """An order of points by cell, random inside each, and where each cell begins."""
    shuffled = np.random.default_rng(0).permutation(len(points))
    index = np.zeros(len(points), np.uint16)
    for axis, weight in ((0, 1), (1, CELLS)):
        low, high = box[axis]
        place = (points[shuffled, axis].astype(np.float64) - low) / ((high - low) or 1.0) * CELLS
        index += weight * np.clip(place.astype(np.int64), 0, CELLS - 1).astype(np.uint16)
    sizes = np.bincount(index, minlength=CELLS * CELLS)
    return shuffled[np.argsort(index, kind="stable")], np.concatenate([[0], np.cumsum(sizes)])


def asdict_shallow(value: Any) -> dict[str, Any]:
    """The fields of a dataclass without copying what they hold."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def handle_traits(handles: Sequence[Handle]) -> dict[str, Any]:
    """Trait values of the points that can be dragged."""
    return {"handles": [asdict(handle) for handle in handles]}


def thumb_traits(pixels: np.ndarray | None, curve: str = "", names: Sequence[str] = ()) -> dict[str, Any]:
    """Trait values of the pictures shown when a curve's nodes are pointed at; None clears them.

    Args:
        pixels: uint8, shape (count, rows, columns), one a node.
        curve: Name of the curve.
        names: What each picture is; a node's number where there is none.
    """
    if pixels is None:
        return {"thumbs": b"", "thumb_shape": [0, 0, 0], "thumb_curve": "", "thumb_names": []}
    return {
        "thumbs": np.ascontiguousarray(pixels).tobytes(),
        "thumb_shape": list(pixels.shape),
        "thumb_curve": curve,
        "thumb_names": list(names),
    }


def theme_traits(theme: str | Theme) -> dict[str, Any]:
    """Trait values of a theme: its name and the colours that the canvas needs."""
    look = theme_of(theme)
    names = ("paper", "ink", "muted", "grid", "start", "end", "via", "warning")
    field = ["#{:02x}{:02x}{:02x}".format(*map(int, row)) for row in colour_table(look)]
    return {"theme": look.name, "palette": {**{name: getattr(look, name) for name in names}, "field": field}}
