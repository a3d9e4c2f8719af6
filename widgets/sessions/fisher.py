"""The session behind a Fisher view: its state, its space, the geodesics it finds, and what is drawn of them.

It knows no host. A notebook's view and a page's both hold one, so that they compute and draw the same.
"""

import dataclasses
import functools
import threading
from collections.abc import Callable
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
from widgets.figures.fisher import (
    READINGS,
    certificate_line,
    lengths_figure,
    map_figure,
    reading_of,
    resolution_figure,
    step_of,
)
from widgets.scheduling import Progress, Speed
from widgets.theme import Theme
from workbench.errors import SettingError
from workbench.fields import Window
from workbench.geodesics import curve_length
from workbench.geodesics.gallery import Space, open_space
from workbench.geodesics.interpolated import interpolated_metric
from workbench.lenses.fisher import GeodesicResult, MetricField, find_geodesic, measure_metric_field
from workbench.phases import LatentSlice, open_slice

_GRID = {"coarse": 24, "full": 64}
_SLICE_GRID = 12
"""Grid points along a side of a slice while a point is dragged."""


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
        chain: Sites of the chain whose potential the notebook learns.
        size: Side of the Ising lattice.
        grid: Points along each coordinate of the window in which the notebook learns its metric.
        per_cell: Lattices drawn at each.
        sweeps: Sweeps of the sampler.
        epochs: Passes of the learner.
        model: Generative model of the slice, a name or a path.
        latents: "noise" or "decoder": whose latents the slice lies in.
        corners: Three samples "0;1;2" whose latents span it; empty draws them.
        judge: Whose features measure its samples; empty for the model's own.
        resolution: Grid points along each side of the slice.
        zoom: How often the slice's window is halved about its middle.
        middle: Middle of a zoomed window "a,b"; empty for that of the slice.
        flow_steps: Steps of the deterministic sampler.
        device: Where to compute.
        dtype: Arithmetic of the generative model.
        seed: Keys all draws.
    """

    space: str = "tasep"
    start: str = ""
    end: str = ""
    reading: str = "largest"
    nodes: int = 33
    sites: int = 60
    draws: int = 500
    chain: int = 6
    size: int = 4
    grid: int = 8
    per_cell: int = 100
    sweeps: int = 60
    epochs: int = 6
    model: str = "digits"
    latents: str = "noise"
    corners: str = ""
    judge: str = ""
    resolution: int = 16
    zoom: int = 0
    middle: str = ""
    flow_steps: int = 8
    device: str = "cpu"
    dtype: str = "float32"
    seed: int = 0

    def but(self, **changes: Any) -> "FisherState":
        """The state with some entries changed; another space or window starts at its own ends."""
        cut = ("space", "zoom", "middle")
        if any(changes.get(name, getattr(self, name)) != getattr(self, name) for name in cut):
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
        result: The geodesics; on a slice those of its interpolated field.
        own_length: Length of the shortest in the model's own metric; None where the two are one, and while
            dragging.
    """

    state: FisherState
    speed: str
    space: Space
    field: MetricField
    result: GeodesicResult
    own_length: float | None = None


class FisherSession:
    """One user's look at geodesics.

    Args:
        state: What to look at.
        path_of: Where the model of that name lies.

    Raises:
        SettingError: For an unknown space or reading.
    """

    def __init__(self, state: FisherState, path_of: Callable[[str], str] = str) -> None:
        self._path_of = path_of
        self.state = state
        self.space = self._space(state)
        self._fields: dict[tuple, MetricField] = {}
        self._lock = threading.Lock()

    def take(self, state: FisherState) -> None:
        """Make a state the session's own.

        Raises:
            SettingError: If it names no space or no point; the session is then left as it was.
        """
        space = self._space(state)
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
        space = self._space(state)
        field = self._field(space, state, speed)
        sliced = state.space == "slice"
        metric = interpolated_metric(field) if sliced else space.metric
        result = find_geodesic(
            metric,
            space.point(state.start, space.start),
            space.point(state.end, space.end),
            generator=torch.Generator().manual_seed(state.seed),
            progress=progress,
            cancel=cancel,
            **_effort(state, speed),
        )
        own = None
        if sliced and speed == "full" and not cancel.is_set():
            own = float(curve_length(space.metric, result.shortest.curve.points))
        return FisherAnswer(state, speed, space, field, result, own)

    def _space(self, state: FisherState) -> Space:
        return space_of(dataclasses.replace(state, model=self._path_of(state.model)))

    def _plane(self, state: FisherState) -> LatentSlice:
        return plane_of(dataclasses.replace(state, model=self._path_of(state.model)))

    def _field(self, space: Space, state: FisherState, speed: Speed) -> MetricField:
        """The metric on the window, measured once a space; the finest there is."""
        plane = self._plane(state) if state.space == "slice" else None
        sides = _GRID if plane is None else {"coarse": _SLICE_GRID, "full": state.resolution}
        what = (space.name, state.sites, state.size, space.x, space.y, None if plane is None else _cut(state))
        keys = [(*what, sides[kind]) for kind in ("full", speed)]
        for key in keys:
            if key in self._fields:
                return self._fields[key]
        side = keys[-1][-1]
        metric = space.metric if plane is None else plane.metric()
        field = measure_metric_field(
            metric, Window(space.x, space.y), columns=side, rows=side, like=space.start, chunk=4096
        )
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
            x, y = (torch.linspace(*span, side).to(space.start) for span in (space.x, space.y))
            labels = space.phases(torch.cartesian_prod(y, x).flip(-1)).reshape(side, side)
        return map_figure(
            answer.result,
            field=answer.field,
            reading=answer.state.reading,
            labels=labels,
            rounding=self.rounding(answer.state),
            theme=look,
        )

    def rounding(self, state: FisherState) -> float:
        """Step below which a slice's arithmetic makes the difference; 0 for spaces that are formulas."""
        return self._plane(state).rounding if state.space == "slice" else 0.0

    def resolution_figure(self, answer: FisherAnswer, look: Theme) -> go.Figure | None:
        """The resolution bar of a slice: its window and grid step against rounding; None elsewhere."""
        if answer.state.space != "slice":
            return None
        rounding = self.rounding(answer.state)
        return resolution_figure(
            answer.field.window, len(answer.field.indefinite), rounding, theme=look, dtype=answer.state.dtype
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
        if answer.own_length is not None:
            rows.insert(1, ("in the model's own metric", f"{answer.own_length:.5g}"))
        rounding = self.rounding(answer.state)
        if rounding:
            step = step_of(answer.field)
            rows.append(("grid step", f"{step:.1e}" + (" (below rounding)" if step < rounding else "")))
            rows.append(("rounding below", f"{rounding:.1e}"))
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
        SettingError: If the state names no space or no reading, or its slice cannot be cut.
    """
    if state.reading not in READINGS:
        raise SettingError(f"reading {state.reading!r}", f"one of {', '.join(READINGS)}")
    if state.space != "slice":
        return open_space(state.space, sites=state.sites, size=state.size)
    plane = plane_of(state)
    space = open_space("slice", plane=plane.metric(), device=plane.corners.device)
    centre = space.point(state.middle, torch.full_like(space.start, 0.5)).tolist()
    window = Window(space.x, space.y).zoomed(centre[0], centre[1], max(0, state.zoom))
    low = space.start.new_tensor([window.x[0], window.y[0]])
    size = space.start.new_tensor([window.x[1] - window.x[0], window.y[1] - window.y[0]])
    ends = {"start": low + size * space.start, "end": low + size * space.end}
    phases = plane.labels if plane.classify is not None else None
    return dataclasses.replace(space, x=window.x, y=window.y, phases=phases, **ends)


def plane_of(state: FisherState) -> LatentSlice:
    """The slice of a state, opened once."""
    return _open_plane(*_cut(state))


def _cut(state: FisherState) -> tuple[Any, ...]:
    """What decides a slice."""
    names = ("model", "judge", "corners", "latents", "flow_steps", "device", "dtype", "seed")
    return tuple(getattr(state, name) for name in names)


@functools.lru_cache(maxsize=8)
def _open_plane(
    model: str, judge: str, corners: str, latents: str, steps: int, device: str, dtype: str, seed: int
) -> LatentSlice:
    return open_slice(
        model,
        judge=judge,
        corners=corners,
        latents=latents,
        steps=steps,
        generator=torch.Generator().manual_seed(seed),
        device=device,
        dtype=dtype,
    )


def _effort(state: FisherState, speed: Speed) -> dict[str, Any]:
    """How hard the solver works: less while dragging."""
    if speed == "coarse":
        return {"nodes": 17, "starts": 1, "levels": 1, "tol": 1e-4}
    if state.space == "slice":  # a table has no third derivative, and a grid no finer structure
        return {"nodes": state.nodes, "starts": 2, "levels": 2, "tol": 1e-5}
    return {"nodes": state.nodes, "starts": 4, "levels": 3, "tol": 1e-7}
