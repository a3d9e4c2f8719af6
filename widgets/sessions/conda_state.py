"""What a view of contrastive maps looks at and what it answers: values that both hosts hold."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from widgets.cells import read_values
from widgets.figures.images import is_picture
from widgets.scheduling import Progress, Speed
from workbench.errors import ShapeError
from workbench.integrators import Cancel
from workbench.lenses.conda import CondaFit, TraceResult

Render = Callable[[Tensor, Tensor | None], Tensor]
"""Latents, shape (n, latent dim), and the variables that follow them, or None -> frames, shape (n, dim)."""


@dataclass(frozen=True, slots=True)
class CondaCrossing:
    """A curve from one condition to another, rendered twice.

    Attributes:
        films: "condition follows" and "condition held" to frames, shape (steps, dim).
        labels: The condition at each point of the curve, as it is printed.
        along: What the conditions are.
        words: One sentence on how far both films are off the true frames.
    """

    films: dict[str, Tensor]
    labels: list[str]
    along: str
    words: str


@dataclass(frozen=True, slots=True)
class CondaScene:
    """An embedding with what its frames look like.

    Attributes:
        fit: The embedding.
        frames: Its frames, shape (count, dim); None if there are none to show.
        shape: Shape of one frame.
        render: What turns latents into frames; None shows the nearest frames instead.
        name: Of the data, in words.
        value_range: Values of black and white.
        cross: Renders a curve from one condition to another, the condition following and held; None where
            frames have no conditions on a scale.
    """

    fit: CondaFit
    frames: Tensor | None = None
    shape: tuple[int, ...] = ()
    render: Render | None = None
    name: str = "frames"
    value_range: tuple[float, float] | None = None
    cross: Callable[[Progress, Cancel], "CondaCrossing"] | None = None

    def __post_init__(self) -> None:
        if self.frames is not None and len(self.frames) != len(self.fit.points):
            raise ShapeError(f"{len(self.frames)} frames", f"{len(self.fit.points)}, one an embedded point")

    @property
    def pictures(self) -> bool:
        """Whether frames can be shown."""
        return is_picture(self.shape) and (self.render is not None or self.frames is not None)


@dataclass(frozen=True, slots=True)
class CondaState:
    """What to look at and how. JSON-able.

    Attributes:
        anchors: Control points: rows of frames "0 8 16", or points of the embedding "c1,c2;c1,c2".
        kind: "spline" through the control points, "line" or "arc" from the first to the last.
        closed: Whether the spline comes back to its first point.
        colour: What colours the frames; their last known variable if empty.
        steps: Points of the curve.
        k: Neighbours of the lift.
        weights: Its weights.
        rank: Its local axes; 0 finds them.
        renorm: Whether lifted latents are scaled to their neighbours' length.
    """

    anchors: str = ""
    kind: str = "spline"
    closed: bool = False
    colour: str = ""
    steps: int = 33
    k: int = 8
    weights: str = "linear"
    rank: int = 0
    renorm: bool = False

    def but(self, **changes: Any) -> "CondaState":
        """The state with some entries changed."""
        return read_values(CondaState, {**dataclasses.asdict(self), **changes})


@dataclass(frozen=True, slots=True)
class CondaAnswer:
    """A curve and its films.

    Attributes:
        state: What was asked.
        speed: "coarse" or "full".
        path: The curve.
        films: Name to frames, shape (steps, dim); empty while dragging and where frames are no pictures.
    """

    state: CondaState
    speed: Speed
    path: TraceResult
    films: dict[str, Tensor]
