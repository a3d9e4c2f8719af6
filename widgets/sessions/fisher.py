"""The session behind a Fisher view: its state, its space, the geodesics it finds, and what is drawn of them.

It knows no host. A notebook's view and a page's both hold one, so that they compute and draw the same.
"""

import dataclasses
import threading
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
import torch

from widgets.canvas.scene import (
    Gesture,
    Handle,
    Stroke,
    field_traits,
    handle_traits,
    stroke_traits,
    window_traits,
)
from widgets.cells import read_values
from widgets.figures.fisher import READINGS, certificate_line, lengths_figure, map_figure, reading_of
from widgets.scheduling import Progress, Speed
from widgets.theme import Theme
from workbench.errors import SettingError
from workbench.fields import Window
from workbench.geodesics.gallery import Space, open_space
from workbench.lenses.fisher import GeodesicResult, MetricField, find_geodesic, measure_metric_field

_GRID = {"coarse": 24, "full": 64}


@dataclass(frozen=True, slots=True)
class FisherState:
    """What to look at: the parameters of the notebook `20_fisher`. JSON-able.

    Attributes:
        space: One of `SPACES`, the space with a known metric.
        start: First end "x,y"; the space's own if empty.
        end: Last end.
        reading: What colours the field, one of `READINGS`.
        nodes: Nodes of a geodesic on its coarsest level.
        sites: Sites of the driven chain.
        draws: Stationary states the notebook draws for its current.
        size: Side of the Ising lattice.
        grid: Points along each coordinate of the window in which the notebook learns its metric.
        per_cell: Lattices drawn at each.
        sweeps: Sweeps of the sampler.
        epochs: Passes of the learner.
        model: Generative model of the notebook's slice.
        judge: Whose features measure its samples.
        resolution: Grid points along each side of the slice.
        flow_steps: Steps of the deterministic sampler.
        seed: Keys all draws.
    """

    space: str = "tasep"
    start: str = ""
    end: str = ""
    reading: str = "largest"
    nodes: int = 33
    sites: int = 60
    draws: int = 500
    size: int = 4
    grid: int = 8
    per_cell: int = 100
    sweeps: int = 60
    epochs: int = 6
    model: str = "digits"
    judge: str = "digits"
    resolution: int = 16
    flow_steps: int = 8
    seed: int = 0

    def but(self, **changes: Any) -> "FisherState":
        """The state with some entries changed; another space starts at its own ends."""
        if changes.get("space", self.space) != self.space:
            changes = {"start": "", "end": "", **changes}
        return read_values(FisherState, {**dataclasses.asdict(self), **changes})


@dataclass(frozen=True, slots=True)
class FisherAnswer:
    """An answer of the view.

    Attributes:
        state: What was asked.
        speed: "coarse" or "full".
        space: The space.
        field: Its metric on the window.
        result: The geodesics.
    """

    state: FisherState
    speed: str
    space: Space
    field: MetricField
    result: GeodesicResult


class FisherSession:
    """One user's look at geodesics.

    Args:
        state: What to look at.

    Raises:
        SettingError: For an unknown space or reading.
    """

    def __init__(self, state: FisherState) -> None:
        self.state = state
        self.space = space_of(state)
        self._fields: dict[tuple, MetricField] = {}
        self._lock = threading.Lock()

    def take(self, state: FisherState) -> None:
        """Make a state the session's own.

        Raises:
            SettingError: If it names no space or no point; the session is then left as it was.
        """
        space = space_of(state)
        for text in (state.start, state.end):
            space.point(text, space.start)
        self.state, self.space = state, space

    def after(self, gesture: Gesture) -> tuple[FisherState, Speed] | None:
        """What a gesture asks for: a state and a speed, or None if it asks for nothing."""
        if gesture.kind not in ("move", "end") or gesture.id not in ("start", "end"):
            return None
        moved = self.state.but(**{gesture.id: f"{gesture.x:.6g},{gesture.y:.6g}"})
        if gesture.kind == "move" and moved == self.state:
            return None
        return moved, "coarse" if gesture.kind == "move" else "full"

    def solve(
        self, state: FisherState, speed: Speed, cancel: threading.Event, progress: Progress
    ) -> FisherAnswer:
        """Find the geodesics that a state asks for."""
        space = space_of(state)
        field = self._field(space, state, speed)
        full = speed == "full"
        result = find_geodesic(
            space.metric,
            space.point(state.start, space.start),
            space.point(state.end, space.end),
            nodes=state.nodes if full else 17,
            starts=4 if full else 1,
            levels=3 if full else 1,
            tol=1e-7 if full else 1e-4,
            generator=torch.Generator().manual_seed(state.seed),
            progress=progress,
            cancel=cancel,
        )
        return FisherAnswer(state, speed, space, field, result)

    def _field(self, space: Space, state: FisherState, speed: Speed) -> MetricField:
        """The metric on the window, measured once a space; the finest there is."""
        keys = [(space.name, state.sites, state.size, _GRID[kind]) for kind in ("full", speed)]
        for key in keys:
            if key in self._fields:
                return self._fields[key]
        side = keys[-1][-1]
        field = measure_metric_field(space.metric, Window(space.x, space.y), columns=side, rows=side)
        with self._lock:
            if len(self._fields) > 16:
                self._fields.clear()
            self._fields[keys[-1]] = field
        return field

    # -- showing

    def frame(self) -> dict[str, Any]:
        """Trait values of the canvas's axes and points for the state's space."""
        space = self.space
        ends = (space.point(self.state.start, space.start), space.point(self.state.end, space.end))
        handles = [
            Handle(name, name, float(point[0]), float(point[1]), name)  # type: ignore[arg-type]
            for name, point in zip(("start", "end"), ends, strict=True)
        ]
        axes = space.metric.chart.axes or ("x", "y")
        return {
            **window_traits(Window(space.x, space.y), axes),
            **handle_traits(handles),
            "caption": f"{space.name}, chart {space.metric.chart.name}, with movable ends",
            "hint": "drag the ends, or move them with the arrow keys",
        }

    def scene(self, answer: FisherAnswer, look: Theme) -> dict[str, Any]:
        """Trait values of the canvas for an answer; the points stay where the user has them."""
        scalar = reading_of(answer.field, answer.state.reading)
        return {
            **field_traits(scalar, limits=scalar.limits(0.99)),
            **stroke_traits(_strokes(answer.result, look)),
        }

    def map_figure(self, answer: FisherAnswer, look: Theme) -> go.Figure:
        """The map with ellipses and, where the space has phases, their boundary."""
        labels, space = None, answer.space
        if space.phases is not None:
            side = len(answer.field.indefinite)
            x, y = (torch.linspace(*span, side, dtype=torch.float64) for span in (space.x, space.y))
            labels = space.phases(torch.cartesian_prod(y, x).flip(-1)).reshape(side, side)
        return map_figure(
            answer.result, field=answer.field, reading=answer.state.reading, labels=labels, theme=look
        )

    def lengths_figure(self, answer: FisherAnswer, look: Theme) -> go.Figure:
        """The table of lengths and certificates."""
        return lengths_figure({answer.result.metric: answer.result}, theme=look)

    def facts(self, answer: FisherAnswer) -> list[tuple[str, str]]:
        """What a view says about an answer beside its figures: name and value, ready to print."""
        parts = certificate_line(answer.result.shortest).split(" · ")
        rows = [("length", parts[0].removeprefix("length "))]
        rows += [("energy/length² − 1", parts[1].split(" = ")[1]), ("speed spread", parts[2].split(" ")[-1])]
        rows.append(("negative directions", parts[3].removeprefix("negative directions ")))
        rows += [(reference.name, str(reference.length)) for reference in answer.result.references]
        return [*rows, ("answer", answer.speed)]


def _strokes(result: GeodesicResult, look: Theme) -> list[Stroke]:
    styles = ((look.straight, "6 5"), (look.slerp, "2 4"))
    strokes = [
        Stroke(reference.name, reference.curve.points, colour, width=1.6, dash=dash)
        for reference, (colour, dash) in zip(result.references, styles, strict=False)
    ]
    for geodesic in result.geodesics[1:]:
        name, colour, dash = (
            ("saddle curve", look.warning, "8 4 2 4")
            if geodesic.index
            else ("other geodesic", look.other, "")
        )
        strokes.append(Stroke(name, geodesic.curve.points, colour, width=2.0, dash=dash))
    strokes.append(Stroke("geodesic", result.shortest.curve.points, look.path, nodes=2.6, halo=True))
    return strokes


def space_of(state: FisherState) -> Space:
    """The space of a state.

    Raises:
        SettingError: If the state names no space or no reading.
    """
    if state.reading not in READINGS:
        raise SettingError(f"reading {state.reading!r}", f"one of {', '.join(READINGS)}")
    return open_space(state.space, sites=state.sites, size=state.size)
