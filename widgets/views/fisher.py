"""The view of the Fisher lens: drag two points, see the geodesics between them and what certifies them."""

import dataclasses
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ipywidgets
import torch
import traitlets

from widgets.canvas.canvas import Canvas
from widgets.canvas.scene import (
    Gesture,
    Handle,
    Stroke,
    field_traits,
    handle_traits,
    stroke_traits,
    window_traits,
)
from widgets.cells import read_cell, read_values, write_cell
from widgets.controls import STYLE, FigureBox, StatusBar, narrow, number_slider
from widgets.figures.fisher import READINGS, certificate_line, lengths_figure, map_figure, reading_of
from widgets.figures.status import sentence, status_line
from widgets.scheduling import Outcome, Progress, Scheduler, sentence_of
from widgets.theme import theme_of
from workbench.errors import SettingError, WorkbenchError
from workbench.fields import Window
from workbench.geodesics.gallery import SPACES, Space, open_space
from workbench.lenses.fisher import GeodesicResult, MetricField, find_geodesic, measure_metric_field

SETTLE = 0.25
"""Seconds that a control must rest before the full answer is computed."""
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
        """The state with some entries changed."""
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


class FisherExplorer(ipywidgets.VBox):
    """Geodesics of a metric between two points, found again as the points are dragged.

    A coarse field and one start while dragging; all starts, three levels and certificates on release.

    Args:
        space: One of `SPACES`.
        theme: "light" or "dark".
        settings: Further entries of `FisherState`.

    Raises:
        SettingError: For an unknown space or setting.
    """

    state = traitlets.Instance(FisherState)
    answer = traitlets.Instance(FisherAnswer, allow_none=True)
    _scheduler: Scheduler = None  # type: ignore[assignment]  # a view whose settings are refused has none

    def __init__(self, space: str = "tasep", *, theme: str = "light", **settings: Any) -> None:
        self._look = theme_of(theme)
        state = read_values(FisherState, {"space": space, **settings})
        self._space = _space_of(state)
        self._fields: dict[tuple, MetricField] = {}
        self._syncing = False
        self.status = StatusBar(lambda: self.cancel(), theme=self._look)
        self.canvas = Canvas(theme=self._look.name, layout=ipywidgets.Layout(width="100%"))
        self.canvas.on_gesture(self._gestured)
        waiting = sentence("This appears with the first answer.", theme=self._look)
        self.map, self.lengths = FigureBox(waiting), FigureBox(waiting)
        self._build_controls(state)
        self._scheduler = Scheduler(
            lambda *asked: self._solve(*asked),
            deliver=self._deliver,
            progress=self.status.advance,
            idle=self._rest,
        )
        super().__init__(self._rows(), layout=ipywidgets.Layout(width="100%", max_width="1080px"))
        self.state = state
        self.canvas.show(**self._frame())
        self.observe(self._restated, "state")
        self._submit("full")

    @property
    def result(self) -> GeodesicResult | None:
        """The last geodesics found, coarse or full."""
        answer: FisherAnswer | None = self.answer  # type: ignore[assignment]
        return None if answer is None else answer.result

    def to_parameters(self) -> str:
        """The parameters cell of the notebook `20_fisher` that shows what is on the screen."""
        return write_cell(self.state)

    def from_parameters(self, cell: str | Mapping[str, Any]) -> None:
        """Show what a parameters cell asks for.

        Raises:
            SettingError: If it is no parameters cell, or holds an unknown name or space.
        """
        state = read_cell(FisherState, cell) if isinstance(cell, str) else read_values(FisherState, cell)
        _space_of(state)
        self.state = state

    def wait(self, timeout: float = 120.0) -> bool:
        """Block until the answer to the last request is on the screen; False if that took longer."""
        return self._scheduler.wait(timeout)

    def cancel(self) -> None:
        """Stop computing and keep the best so far."""
        self._scheduler.cancel()

    def close(self) -> None:
        """Stop computing and remove the view."""
        if self._scheduler is not None:
            self._scheduler.close()
        super().close()

    # -- controls

    def _build_controls(self, state: FisherState) -> None:
        self.controls: dict[str, Any] = {
            name: ipywidgets.Dropdown(
                options=options, value=getattr(state, name), description=words, layout=narrow(), style=STYLE
            )
            for name, options, words in (
                ("space", SPACES, "space"),
                ("reading", [(words, key) for key, words in READINGS.items() if key != "residual"], "colour"),
            )
        }
        self.controls["nodes"] = number_slider("nodes", state.nodes, 9, 129, step=8)
        for control in self.controls.values():
            control.observe(self._controlled, "value")
        self.copy = ipywidgets.Button(
            description="Copy as parameters", icon="copy", layout=ipywidgets.Layout(width="190px")
        )
        self.copy.on_click(self._copied)
        self.parameters = ipywidgets.Textarea(
            layout=ipywidgets.Layout(width="98%", height="150px", display="none")
        )
        self.facts = ipywidgets.HTML()

    def _rows(self) -> list[ipywidgets.Widget]:
        wrap = ipywidgets.Layout(flex_flow="row wrap", align_items="flex-start")
        buttons = ipywidgets.HBox([self.copy, self.status.cancel])
        side = ipywidgets.VBox(
            [*self.controls.values(), buttons, self.parameters, self.facts],
            layout=ipywidgets.Layout(width="380px"),
        )
        picture = ipywidgets.Box([self.canvas], layout=ipywidgets.Layout(width="540px", max_width="100%"))
        return [self.status, ipywidgets.HBox([picture, side], layout=wrap), self.map, self.lengths]

    def _controlled(self, change: Any) -> None:
        if not self._syncing:
            name = next(n for n, control in self.controls.items() if control is change["owner"])
            ends = {"start": "", "end": ""} if name == "space" else {}
            self.state = self.state.but(**{name: change["new"], **ends})

    def _copied(self, _: Any) -> None:
        self.parameters.value = self.to_parameters()
        self.parameters.layout.display = None
        self.canvas.clip = self.parameters.value

    def _restated(self, change: Any) -> None:
        try:
            space = _space_of(change["new"])
            for text in (change["new"].start, change["new"].end):
                space.point(text, space.start)
        except WorkbenchError as error:
            self._fail(sentence_of(error))
            return
        self._space = space
        self._syncing = True
        try:
            for name, control in self.controls.items():
                if control.value != getattr(change["new"], name):
                    control.value = getattr(change["new"], name)
        finally:
            self._syncing = False
        if self._speed_of_next == "full":
            self.canvas.show(**self._frame())
        self._submit(self._speed_of_next, delay=SETTLE if self._speed_of_next == "full" else 0.0)

    _speed_of_next = "full"

    def _gestured(self, gesture: Gesture) -> None:
        if gesture.kind not in ("move", "end") or gesture.id not in ("start", "end"):
            return
        self._speed_of_next = "coarse" if gesture.kind == "move" else "full"
        moved = self.state.but(**{gesture.id: f"{gesture.x:.6g},{gesture.y:.6g}"})
        try:
            if moved != self.state:
                self.state = moved
            elif gesture.kind == "end":
                self._submit("full")
        finally:
            self._speed_of_next = "full"

    def _submit(self, speed: str, *, delay: float = 0.0) -> None:
        self.canvas.busy = True
        self.canvas.note = ""
        if speed == "full":
            self.status.start()
            self.status.say("computing …")
        self._scheduler.submit(self.state, speed, delay=delay)  # type: ignore[arg-type]

    # -- answers, on the worker's thread

    def _solve(
        self, state: FisherState, speed: str, cancel: threading.Event, progress: Progress
    ) -> FisherAnswer:
        space = _space_of(state)
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

    def _field(self, space: Space, state: FisherState, speed: str) -> MetricField:
        """The metric on the window, measured once a space; the finest there is."""
        keys = [(space.name, state.sites, state.size, _GRID[kind]) for kind in ("full", speed)]
        for key in keys:
            if key in self._fields:
                return self._fields[key]
        side = keys[-1][-1]
        field = measure_metric_field(space.metric, Window(space.x, space.y), columns=side, rows=side)
        self._fields[keys[-1]] = field
        return field

    def _deliver(self, outcome: Outcome) -> None:
        if outcome.error:
            self._fail(outcome.error)
            return
        answer: FisherAnswer = outcome.value
        result, look = answer.result, self._look
        scalar = reading_of(answer.field, answer.state.reading)
        self.canvas.show(
            **field_traits(scalar, limits=scalar.limits(0.99)), **stroke_traits(self._strokes(result))
        )
        best = result.shortest
        self.facts.value = "<br>".join(certificate_line(best).split(" · "))
        if answer.speed == "full" or not result.report.converged:
            labels = None
            if answer.space.phases is not None:
                side = len(answer.field.indefinite)
                x, y = (
                    torch.linspace(*span, side, dtype=torch.float64)
                    for span in (answer.space.x, answer.space.y)
                )
                labels = answer.space.phases(torch.cartesian_prod(y, x).flip(-1)).reshape(side, side)
            self.map.show(
                map_figure(
                    result, field=answer.field, reading=answer.state.reading, labels=labels, theme=look
                )
            )
            self.lengths.show(lengths_figure({result.metric: result}, theme=look))
            stopped = ["stopped by you, best so far"] if outcome.stopped else []
            line = status_line(result.report, result.provenance)
            kind = "idle" if result.report.converged and not outcome.stopped else "warning"
            self.status.say("<br>".join([line, *result.report.warnings, *stopped]), kind=kind)
        self.answer = answer

    def _strokes(self, result: GeodesicResult) -> list[Stroke]:
        look = self._look
        strokes = [
            Stroke(r.name, r.curve.points, colour, width=1.6, dash=dash)
            for r, colour, dash in zip(
                result.references, (look.straight, look.slerp), ("6 5", "2 4"), strict=False
            )
        ]
        for geodesic in result.geodesics[1:]:
            kind = (
                ("saddle curve", look.warning, "8 4 2 4")
                if geodesic.index
                else ("other geodesic", look.other, "")
            )
            strokes.append(Stroke(kind[0], geodesic.curve.points, kind[1], width=2.0, dash=kind[2]))
        strokes.append(Stroke("geodesic", result.shortest.curve.points, look.path, nodes=2.6, halo=True))
        return strokes

    def _frame(self) -> dict[str, Any]:
        """Axes and points of the canvas for the state's space."""
        space = self._space
        ends = (space.point(self.state.start, space.start), space.point(self.state.end, space.end))
        handles = [
            Handle(name, name, float(point[0]), float(point[1]), name)  # type: ignore[arg-type]
            for name, point in zip(("start", "end"), ends, strict=True)
        ]
        axes = space.metric.chart.axes or ("x", "y")
        return {**window_traits(Window(space.x, space.y), axes), **handle_traits(handles)}

    def _fail(self, text: str) -> None:
        self.status.say(text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."), kind="error")
        self.canvas.note = self.status.text

    def _rest(self) -> None:
        self.canvas.busy = False
        self.status.rest()

    def __repr__(self) -> str:
        return f"FisherExplorer({self.state.space}, {self.status.text or 'idle'})"


def _space_of(state: FisherState) -> Space:
    if state.reading not in READINGS:
        raise SettingError(f"reading {state.reading!r}", f"one of {', '.join(READINGS)}")
    return open_space(state.space, sites=state.sites, size=state.size)
