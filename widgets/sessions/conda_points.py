"""Control points of a curve in an embedding: read from text, written as text, moved in the picture's plane.

A point that is dragged moves in the plane and keeps what lies off it.
"""

import torch
from torch import Tensor

from widgets.canvas.scene import Gesture
from workbench.conda.context import Context
from workbench.conda.picking import nearest_leg
from workbench.embeddings import Identity, Pca
from workbench.errors import SettingError


def first_anchors(context: Context) -> str:
    """A few frames of the longest run, a quarter of it apart but at most four steps."""
    first, last = context.bounds()
    longest = int((last - first).argmax())
    rows = context.order[int(first[longest]) : int(last[longest]) + 1]
    step = max(1, min(4, (len(rows) - 1) // 4))
    return " ".join(str(int(row)) for row in rows[: 4 * step + 1 : step])


def read_points(anchors: str, points: Tensor) -> Tensor:
    """Control points from text.

    Args:
        anchors: Rows of frames "0 8 16", or points of the embedding "c1,c2;c1,c2".
        points: The embedded frames, shape (count, dim).

    Returns:
        Shape (anchors, dim).

    Raises:
        SettingError: If the text is neither, or names fewer than two.
    """
    try:
        if "," in anchors or ";" in anchors:
            made = torch.tensor(
                [[float(part) for part in point.split(",")] for point in anchors.split(";")],
                dtype=points.dtype,
            )
        else:
            rows = torch.tensor([int(part) for part in anchors.split()], dtype=torch.long)
            if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= len(points)):
                raise ValueError(anchors)
            made = points[rows]
    except ValueError:
        made = points[:0]
    if made.ndim != 2 or len(made) < 2 or made.shape[1] != points.shape[1]:
        raise SettingError(
            f"control points {anchors!r}",
            f"two or more rows of frames below {len(points)}, or points of {points.shape[1]} numbers",
            "anchors='0 4 8'",
        )
    return made


def write_points(points: Tensor) -> str:
    """Control points as text."""
    return ";".join(",".join(f"{value:.6g}" for value in point) for point in points.tolist())


def follow_gesture(controls: Tensor, gesture: Gesture, plane: Identity | Pca) -> Tensor:
    """Control points after one was moved, made or taken away.

    Args:
        controls: Shape (points, dim).
        gesture: "move", "end", "add" or "remove".
        plane: The picture's plane.

    Returns:
        The new points.

    Raises:
        LookupError: For a point that is not there.
        SettingError: If fewer than two would be left.
    """
    place = torch.tensor([gesture.x, gesture.y], dtype=controls.dtype)
    if gesture.kind == "add":
        leg, share = nearest_leg(plane.encode(controls), place)
        base = torch.lerp(controls[leg], controls[leg + 1], share)
        made = base + _off_plane(plane, place - plane.encode(base))
        return torch.cat([controls[: leg + 1], made[None], controls[leg + 1 :]])
    number = gesture.id.removeprefix("c")
    if not number.isdigit() or int(number) >= len(controls):
        raise LookupError(f"no control point {gesture.id!r}")
    row = int(number)
    if gesture.kind == "remove":
        if len(controls) <= 2:
            raise SettingError("two control points", "at least two", "moving one")
        return torch.cat([controls[:row], controls[row + 1 :]])
    moved = controls.clone()
    moved[row] += _off_plane(plane, place - plane.encode(controls[row]))
    return moved


def _off_plane(plane: Identity | Pca, step: Tensor) -> Tensor:
    """A step of the picture as a step of the embedding."""
    return plane.decode(step) - plane.decode(torch.zeros_like(step))
