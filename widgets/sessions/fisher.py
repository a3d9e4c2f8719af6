"""The session behind a Fisher view: its state, its space, the geodesics it finds, and what is drawn of them.

It knows no host. A notebook's view and a page's both hold one, so that they compute and draw the same.
"""

import dataclasses
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
    drag_hint,
    field_traits,
    handle_traits,
    stroke_traits,
    window_traits,
)
from widgets.figures.fisher import (
    certificate_line,
    lengths_figure,
    map_figure,
    reading_of,
    resolution_figure,
    slopes_figure,
    step_of,
)
from widgets.scheduling import Progress, Speed
from widgets.sessions.fisher_state import FisherState, cut_of, plane_of, space_of
from widgets.theme import Theme
from workbench.errors import Cancelled
from workbench.fields import Window
from workbench.geodesics import curve_length
from workbench.geodesics.gallery import Space
from workbench.geodesics.interpolated import interpolated_metric
from workbench.lenses.fisher import GeodesicResult, MetricField, find_geodesic, measure_metric_field
from workbench.metrics import Metric
from workbench.phases import (
    LatentSlice,
    LocalDimension,
    exact_slope,
    measure_dimension,
    measure_slope,
    slice_metric,
)

_GRID = {"coarse": 24, "full": 64}
_SLICE_GRID = 12
"""Grid points along a side of a slice while a point is dragged."""
SLOPE_STEPS = 60
"""Steps of the flow of two Gaussians; its steepness is then right to four digits."""
LEARNED_GRID = 20
"""Most grid points along a side that a potential is fitted to while somebody waits."""


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
        dimensions: Intrinsic dimension of the data at both ends of a slice; empty elsewhere, and while
            dragging.
        labels: Known phases on the field's grid, shape (rows, columns); None if there are none, and until the
            window was measured in full.
        slope: Steepness of the boundary of two Gaussians, through their integrated flow; None elsewhere, and
            until the window was measured in full.
    """

    state: FisherState
    speed: str
    space: Space
    field: MetricField
    result: GeodesicResult
    own_length: float | None = None
    dimensions: tuple[LocalDimension, ...] = ()
    labels: torch.Tensor | None = None
    slope: float | None = None


@dataclass(frozen=True, slots=True)
class _Ground:
    """What lies under the curves: the metric on the window's grid and off it, and the phases there."""

    field: MetricField
    metric: Metric
    labels: torch.Tensor | None
    slope: float | None


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
        self._grounds: dict[tuple, _Ground] = {}
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
        ground = self._ground(space, state, speed, cancel, progress)
        field, metric, labels = ground.field, ground.metric, ground.labels
        sliced = state.space == "slice"
        ends = (space.point(state.start, space.start), space.point(state.end, space.end))
        result = find_geodesic(
            interpolated_metric(field) if sliced else metric,
            *ends,
            generator=torch.Generator().manual_seed(state.seed),
            progress=progress,
            cancel=cancel,
            **_effort(state, speed),
        )
        if not sliced or speed != "full" or cancel.is_set():
            return FisherAnswer(state, speed, space, field, result, labels=labels, slope=ground.slope)
        own = float(curve_length(metric, result.shortest.curve.points))
        plane = self._plane(state)
        with torch.no_grad():
            samples = plane.samples(torch.stack(ends))
        found = tuple(measure_dimension(plane.model, x) for x in samples) if plane.model else ()
        return FisherAnswer(state, speed, space, field, result, own, found, labels)

    def _space(self, state: FisherState) -> Space:
        return space_of(dataclasses.replace(state, model=self._path_of(state.model)))

    def _plane(self, state: FisherState) -> LatentSlice:
        return plane_of(dataclasses.replace(state, model=self._path_of(state.model)))

    def _ground(
        self, space: Space, state: FisherState, speed: Speed, cancel: threading.Event, progress: Progress
    ) -> _Ground:
        """The metric on the window and off the grid, measured once a space; the finest there is.

        A measurement that is cancelled part-way leaves the coarse field, if there is one.
        """
        plane = self._plane(state) if state.space == "slice" else None
        sides = _GRID if plane is None else {"coarse": _SLICE_GRID, "full": state.resolution}
        cut = None if plane is None else (*cut_of(state), state.measure)
        what = (space.name, state.sites, state.size, state.width, space.x, space.y, cut)
        keys = [(*what, sides[kind]) for kind in ("full", speed)]
        for key in keys:
            if key in self._grounds:
                return self._grounds[key]

        def tell(share: float, words: str) -> None:
            if cancel.is_set():
                raise Cancelled("the measurement of the field was cancelled")
            progress(share, words)

        side, window = keys[-1][-1], Window(space.x, space.y)
        watched = None if plane is None else plane.watched(tell)

        def cut_by(plane: LatentSlice) -> Metric:
            seeded, most = torch.Generator().manual_seed(state.seed), min(side, LEARNED_GRID)
            return slice_metric(plane, state.measure, window, side=most, generator=seeded, progress=tell)

        try:
            metric = space.metric if watched is None else cut_by(watched)
            field = measure_metric_field(
                metric, window, columns=side, rows=side, like=space.start, progress=tell
            )
            steep = space.name == "two_gaussians" and speed == "full"
            slope = measure_slope(state.width, steps=SLOPE_STEPS, progress=tell) if steep else None
            labels = None
            if space.phases is not None and speed == "full":
                x, y = (torch.linspace(*span, side).to(space.start) for span in (space.x, space.y))
                grid = torch.cartesian_prod(y, x).flip(-1)
                phases = space.phases(grid) if watched is None else watched.labels(grid)
                labels = phases.reshape(side, side)
        except Cancelled:
            coarse = (*what, sides["coarse"])
            if coarse not in self._grounds:
                raise
            return self._grounds[coarse]
        if plane is not None and state.measure != "learned":
            metric = cut_by(plane)  # the watched one would tell of this request for ever
        with self._lock:
            if len(self._grounds) > 16:
                self._grounds.clear()
            self._grounds[keys[-1]] = ground = _Ground(field, metric, labels, slope)
        return ground

    # -- showing

    def frame(self) -> dict[str, Any]:
        """Trait values of the canvas's axes and points for the state's space."""
        space = self.space
        ends = (space.point(self.state.start, space.start), space.point(self.state.end, space.end))
        handles = [
            Handle(name, name, float(point[0]), float(point[1]), name)  # type: ignore[arg-type] - both are points
            for name, point in zip(("start", "end"), ends, strict=True)
        ]
        axes = space.metric.chart.axes or ("x", "y")
        return {
            **window_traits(Window(space.x, space.y), axes),
            **handle_traits(handles),
            "caption": f"{space.name}, chart {space.metric.chart.name}, with movable ends",
            "hint": drag_hint(vias=False),
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
        return map_figure(
            answer.result,
            field=answer.field,
            reading=answer.state.reading,
            labels=answer.labels,
            rounding=self.rounding(answer.state),
            theme=look,
        )

    def rounding(self, state: FisherState) -> float:
        """Step below which a slice's arithmetic makes the difference; 0 for spaces that are formulas."""
        return self._plane(state).rounding if state.space == "slice" else 0.0

    def resolution_figure(self, answer: FisherAnswer, look: Theme) -> go.Figure | None:
        """A boundary looked at closely: resolution of a slice, steepness between two Gaussians."""
        if answer.slope is not None:
            return slopes_figure([answer.state.width], [answer.slope], span=(0.25, 2.0), theme=look)
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
        for where, found in zip(("start", "end"), answer.dimensions, strict=False):
            value, error = found.flipd.value, found.flipd.error or 0.0
            words = f"{value:.1f} ± {error:.2g} of {found.ambient}"
            if not 0.0 <= value <= found.ambient + 3.0 * error:
                words += ": not on the data"
            rows.append((f"FLIPD at {where}, σ = {found.sigma:.3g}", words))
            if found.normal is not None:
                words = f"{found.normal.dimension} of {found.ambient}, gap {found.normal.gap:.2g}"
                rows.append((f"normal bundle at {where}", words))
        if answer.slope is not None:
            exact = exact_slope(answer.state.width)
            rows.append(("steepness of the boundary, s exp(1 / 2s²)", f"{exact:.5g}"))
            rows.append(("through the integrated flow", f"{answer.slope:.5g}"))
            rows.append(("largest on the grid", f"{float(answer.field.largest.max()) ** 0.5:.5g}"))
            rows.append(("smooth below a step of", f"{1.0 / exact:.2g}"))
            rows.append(("grid step", f"{step_of(answer.field):.2g}"))
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


def _effort(state: FisherState, speed: Speed) -> dict[str, Any]:
    """How hard the solver works: less while dragging."""
    if speed == "coarse":
        return {"nodes": 17, "starts": 1, "levels": 1, "tol": 1e-4}
    if state.space == "slice":  # a table has no third derivative, and a grid no finer structure
        return {"nodes": state.nodes, "starts": 2, "levels": 2, "tol": 1e-5}
    return {"nodes": state.nodes, "starts": 4, "levels": 3, "tol": 1e-7}
