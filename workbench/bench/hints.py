"""Hints: what a path can say within the time that a pointer takes to move on.

While a point is dragged the last path is nearly right. In a world the hint is that path, carried along with
the point and relaxed a few times at its own level; nothing of the way through the noise is repeated. A
network's hint is carried through a few noise levels without relaxation, which costs as many calls again. The
full answer, on release, depends on nothing that was there before.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from workbench.curves import Curve
from workbench.models import ExactScore, Landscape
from workbench.subjects import Subject

NODES = 13
"""Images of a hint."""
PICTURE_NODES = 5
"""The same for samples that are pictures, whose models cost more. A Fashion-MNIST curve through five images
is as near to the transported one as a curve through nine; what parts the two are the steps."""
STEPS = 2
"""Steps of a hint that is carried through the noise levels."""
TOL = 5e-3
"""Accuracy at which a relaxed hint is good enough."""
WARM, COLD = 6, 30
"""Most relaxations of a hint: from the last path, and where there is none."""
PICTURE_WARM, PICTURE_COLD = 4, 8
"""The same for pictures."""


def hint_settings(
    subject: Subject,
    ends: tuple[Tensor, Tensor],
    settings: Mapping[str, Any],
    near: Curve | None = None,
) -> dict[str, Any]:
    """Settings of `find_path` for a hint of what it would answer in full.

    Args:
        subject: The subject.
        ends: Both ends, each of shape (dim,).
        settings: Those of the full answer.
        near: The path between ends close by; None if there is none.

    Returns:
        The settings that are to be used. In a world the hint of every relaxed path is a static string, as a
        path of least energy is once the noise has gone; in a network it is carried without relaxation.
    """
    nodes = min(settings["nodes"], PICTURE_NODES if subject.pictures else NODES)
    kept = {"sigma": settings["sigma"], "nodes": nodes, "polish": False, "refine_energies": False}
    known = isinstance(subject.model, ExactScore | Landscape)
    if settings["regime"] == "static" or (settings["regime"] != "transport" and known):
        warm, cold = (PICTURE_WARM, PICTURE_COLD) if subject.pictures else (WARM, COLD)
        kept |= {"regime": "static", "tol": TOL, "max_iterations": cold if near is None else warm}
        return kept if near is None else kept | {"starts": [carried(near, ends, nodes)]}
    steps = settings["steps"]
    return kept | {
        "regime": "transport",
        "steps": min(STEPS if steps is None else steps, STEPS),
        "solver": "heun",
    }


def carried(curve: Curve, ends: tuple[Tensor, Tensor], nodes: int) -> Curve:
    """A curve whose ends are moved elsewhere; the points between follow the nearer end the more.

    Args:
        curve: One curve, points (nodes, dim).
        ends: Where its ends go, each of shape (dim,).
        nodes: Nodes of the new curve.

    Returns:
        The curve, points (nodes, dim). No model calls.
    """
    points = curve.points if curve.nodes == nodes else curve.resample(nodes).points
    share = torch.linspace(0.0, 1.0, nodes, dtype=points.dtype, device=points.device)[:, None]
    moves = torch.lerp((ends[0] - points[0])[None], (ends[1] - points[-1])[None], share)
    return Curve.through(points + moves)
