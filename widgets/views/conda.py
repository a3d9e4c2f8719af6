"""The view of contrastive maps: drag the control points of a curve, see it lifted and rendered."""

from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets
import torch
import traitlets
from torch import Tensor

from widgets.canvas.canvas import Canvas
from widgets.canvas.scene import Gesture
from widgets.cells import read_cell, read_values, write_cell
from widgets.controls import STYLE, FigureBox, StatusBar, narrow, number_slider
from widgets.facts import facts_table
from widgets.figures.conda import along_of, colours_of, films_figure, loss_figure, support_figure
from widgets.figures.status import sentence, status_line
from widgets.scheduling import Outcome, Progress, Scheduler, Speed, sentence_of
from widgets.sessions.conda import CondaAnswer, CondaScene, CondaSession, CondaState, Render
from widgets.sessions.conda_scene import CondaRun, open_scene, run_names
from widgets.theme import theme_of
from widgets.views.solving import SolvingView
from workbench.conda.lifts import WEIGHTS
from workbench.errors import WorkbenchError
from workbench.integrators import Cancel
from workbench.lenses.conda import CondaFit, TraceResult

__all__ = ["ConDAExplorer", "CondaScene", "CondaState"]

SETTLE = 0.25
"""Seconds that a control must rest before an answer is computed."""
_CONTROLS = ("kind", "colour", "weights", "k", "rank", "steps", "closed", "renorm")


class ConDAExplorer(SolvingView):
    """Curves in an embedding, lifted and rendered as their control points are dragged.

    While a point is dragged the curve and its support light follow; on release the frames are rendered.
    `state`, `selection`, `result` and `films` can be read from code, the first two also set.

    Args:
        fit: The embedding, a scene with its frames, or the name or path of frames ("wake" takes half a
            minute): model, latents and map are then made with the parameters of the notebook `40_conda`.
        render: Latents (n, latent dim) and the variables that follow them, or None -> frames (n, dim).
        frames: The frames, shape (count, dim), for pictures under the pointer.
        shape: Shape of one frame.
        value_range: Values of black and white.
        name: Of the data, in words.
        theme: "light" or "dark".
        progress: For frames by name: told the share of the whole and a sentence while they are opened.
        cancel: For frames by name: stops the opening; a `Stopped` is raised then.
        settings: Entries of `CondaState`, e.g. k=5, weights="tapered", and of `CondaRun` for frames by name.

    Raises:
        SettingError: For an unknown name or setting.
        ShapeError: If frames and embedding differ in number.
    """

    state = traitlets.Instance(CondaState)
    answer = traitlets.Instance(CondaAnswer, allow_none=True)
    selection = traitlets.Tuple()

    def __init__(
        self,
        fit: CondaFit | CondaScene | str = "wake",
        *,
        render: Render | None = None,
        frames: Tensor | None = None,
        shape: tuple[int, ...] = (),
        value_range: tuple[float, float] | None = None,
        name: str = "frames",
        theme: str = "light",
        progress: Progress | None = None,
        cancel: Cancel | None = None,
        **settings: Any,
    ) -> None:
        self._look = theme_of(theme)
        self.run: CondaRun | None = None
        if isinstance(fit, str):
            asked = {key: settings.pop(key) for key in run_names() & set(settings)}
            self.run = read_values(CondaRun, {"frames": fit, **asked})
            scene = open_scene(self.run, progress=progress, cancel=cancel)
        elif isinstance(fit, CondaScene):
            scene = fit
        else:
            scene = CondaScene(fit, frames, shape, render, name, value_range)
        self.session = CondaSession(scene, read_values(CondaState, settings))
        self._syncing = False
        self.status = StatusBar(lambda: self.cancel(), theme=self._look)
        self.canvas = Canvas(theme=self._look.name, layout=ipywidgets.Layout(width="100%"))
        self.canvas.on_gesture(self._gestured)
        self.canvas.observe(self._lassoed, "lasso")
        waiting = sentence("This appears with the first answer.", theme=self._look)
        self.film, self.support, self.losses = FigureBox(waiting), FigureBox(waiting), FigureBox(waiting)
        self.chosen = FigureBox(sentence("Shift and drag on the map to select frames.", theme=self._look))
        self.facts, self.picked = ipywidgets.HTML(), ipywidgets.HTML()
        self._build_controls()
        self._scheduler = Scheduler(
            lambda *asked: self.session.solve(*asked),
            deliver=self._deliver,
            progress=self.status.advance,
            idle=self._rest,
        )
        super().__init__(self._rows(), layout=ipywidgets.Layout(width="100%", max_width="1080px"))
        self.state = self.session.state
        self.observe(self._restated, "state")
        self.observe(self._reselected, "selection")
        self._first_look()

    # -- reading and setting

    @property
    def result(self) -> TraceResult | None:
        """The last curve, coarse or full."""
        answer: CondaAnswer | None = self.answer  # type: ignore[assignment] - a trait
        return None if answer is None else answer.path

    @property
    def films(self) -> dict[str, Tensor]:
        """Frames of the last full answer, by name."""
        answer: CondaAnswer | None = self.answer  # type: ignore[assignment] - a trait
        return {} if answer is None else answer.films

    def to_parameters(self) -> str:
        """The parameters cell of the notebook `40_conda`, for frames by name; else that of the state."""
        return write_cell(self.state if self.run is None else self.run)

    def from_parameters(self, cell: str | Mapping[str, Any]) -> None:
        """Show what a parameters cell asks for: another scene for one of `40_conda`, else another state.

        Raises:
            SettingError: If it is no parameters cell, or holds an unknown name.
        """
        if self.run is None:
            text = isinstance(cell, str)
            self.state = read_cell(CondaState, cell) if text else read_values(CondaState, cell)
            return
        run = read_cell(CondaRun, cell) if isinstance(cell, str) else read_values(CondaRun, cell)
        if run == self.run:
            return
        self.session = CondaSession(open_scene(run), self.state.but(anchors="", colour=""))
        self.run = run
        self.selection = ()
        self._build_controls()
        self.children = self._rows()
        self.state = self.session.state
        self._first_look()

    def export(self, path: str) -> str:
        """Write the curve and its films: .npz, .gif or .mp4.

        Raises:
            SettingError: For another ending, or before the first answer.
        """
        answer: CondaAnswer | None = self.answer  # type: ignore[assignment] - a trait
        if answer is None:
            self.wait()
            answer = self.answer  # type: ignore[assignment] - a trait
        return self.session.export(answer, path)  # type: ignore[arg-type]

    # -- controls

    def _build_controls(self) -> None:
        state, count = self.session.state, len(self.session.coords)
        choices = {
            "kind": (["spline", "line", "arc"], "curve"),
            "colour": (list(colours_of(self.session.scene.fit)), "colour by"),
            "weights": (list(WEIGHTS), "weights"),
        }
        self.controls: dict[str, Any] = {
            name: ipywidgets.Dropdown(
                options=options, value=getattr(state, name), description=words, layout=narrow(), style=STYLE
            )
            for name, (options, words) in choices.items()
        }
        dim = self.session.scene.fit.points.shape[1]
        self.controls |= {
            "k": number_slider("neighbours k", state.k, 1, min(64, count - 1), step=1),
            "rank": number_slider("axes (0: auto)", state.rank, 0, dim, step=1),
            "steps": number_slider("points", state.steps, 5, 121, step=4),
            "closed": ipywidgets.Checkbox(value=state.closed, description="closed", indent=False),
            "renorm": ipywidgets.Checkbox(value=state.renorm, description="keep length", indent=False),
        }
        for name in ("closed", "renorm"):
            self.controls[name].layout.width = "140px"
        self.target = ipywidgets.Text(value="curve.gif", layout=ipywidgets.Layout(width="150px"))
        self.save = ipywidgets.Button(
            description="Save", icon="download", tooltip="the curve and its films: .gif, .mp4 or .npz",
            layout=ipywidgets.Layout(width="90px"),
        )  # fmt: skip
        self.copy = ipywidgets.Button(
            description="Copy as parameters", icon="copy", layout=ipywidgets.Layout(width="170px")
        )
        self.save.on_click(self._saved)
        self.copy.on_click(self._copied)
        self.parameters = ipywidgets.Textarea(
            layout=ipywidgets.Layout(width="98%", height="150px", display="none")
        )
        for name in _CONTROLS:
            self.controls[name].observe(self._controlled, "value")

    def _rows(self) -> list[ipywidgets.Widget]:
        wrap = ipywidgets.Layout(flex_flow="row wrap", align_items="flex-start")
        sliders = [self.controls[name] for name in ("kind", "colour", "weights", "k", "rank", "steps")]
        side = ipywidgets.VBox(
            [
                *sliders,
                ipywidgets.HBox([self.controls["closed"], self.controls["renorm"]]),
                ipywidgets.HBox([self.target, self.save]),
                ipywidgets.HBox([self.copy, self.status.cancel]),
                self.parameters,
                self.facts,
            ],
            layout=ipywidgets.Layout(width="330px"),
        )
        canvas = ipywidgets.Box([self.canvas], layout=ipywidgets.Layout(width="640px", max_width="100%"))
        return [
            self.status,
            ipywidgets.HBox([canvas, side], layout=wrap),
            self.film,
            ipywidgets.HBox([self.support, self.losses], layout=wrap),
            self.picked,
            self.chosen,
        ]

    def _first_look(self) -> None:
        """Show the frames and ask for the first answer."""
        self.answer = None
        self.canvas.show(**self.session.ground(self._look), **self.session.handles(), **self._drawn())
        self.losses.show(loss_figure(self.session.scene.fit, theme=self._look, width=530))
        self._show_controls(self.session.state)
        self._submit("full")

    def _show_controls(self, state: CondaState) -> None:
        self._syncing = True
        try:
            for name in _CONTROLS:
                if self.controls[name].value != getattr(state, name):
                    self.controls[name].value = getattr(state, name)
        finally:
            self._syncing = False
        for name, meant in (
            ("rank", state.weights in ("linear", "barycentric")),
            ("k", state.weights != "nearest"),
            ("closed", state.kind == "spline"),
        ):
            self.controls[name].layout.display = None if meant else "none"

    def _controlled(self, change: Any) -> None:
        if not self._syncing:
            name = next(n for n in _CONTROLS if self.controls[n] is change["owner"])
            self.state = self.state.but(**{name: change["new"]})

    def _copied(self, _: Any) -> None:
        self.parameters.value = self.to_parameters()
        self.parameters.layout.display = None
        self.canvas.clip = self.parameters.value

    def _saved(self, _: Any) -> None:
        try:
            self.status.say(f"Written to {self.export(self.target.value)}.")
        except (WorkbenchError, OSError) as error:
            self._fail(sentence_of(error))

    # -- gestures and requests

    def _gestured(self, gesture: Gesture) -> None:
        try:
            speed = self.session.after(gesture)
        except (WorkbenchError, LookupError) as error:
            self._fail(sentence_of(error))
            return
        if speed is None:
            return
        self.state = self.session.state
        if speed == "full":
            self.canvas.show(**self.session.handles())
        self._submit(speed)

    def _lassoed(self, change: Any) -> None:
        self.selection = tuple(self.session.enclosed(change["new"]).tolist())

    def _reselected(self, change: Any) -> None:
        rows = torch.tensor(change["new"], dtype=torch.long)
        self.canvas.show(**self._drawn())
        self.picked.value = facts_table([("selection", self.session.selection_text(rows))], self._look)
        scene = self.session.scene
        if not len(rows) or scene.frames is None or not scene.pictures:
            return
        near = self.session.nearest_to(rows)
        self.chosen.show(
            films_figure(
                {"selected": scene.frames[near]},
                scene.shape,
                times=scene.fit.context.times[near],
                value_range=scene.value_range,
                title="Frames of the selection, nearest to its middle first",
                theme=self._look,
                width=1000,
            )
        )

    def _restated(self, change: Any) -> None:
        state: CondaState = change["new"]
        if state is self.session.state:
            return
        before = self.session.state
        try:
            self.session.take(state)
        except WorkbenchError as error:
            self._fail(sentence_of(error))
            return
        self.state = self.session.state
        self._show_controls(self.session.state)
        if self.session.state.colour != before.colour:
            self.canvas.show(**self.session.ground(self._look))
        self.canvas.show(**self.session.handles())
        self._submit("full", delay=SETTLE)

    def _submit(self, speed: Speed, *, delay: float = 0.0) -> None:
        self.canvas.busy = True
        self.canvas.note = ""
        if speed == "full":
            self.status.start()
            self.status.say("rendering …")
        if self._scheduler is not None:
            self._scheduler.submit(self.session.state, speed, delay=delay)

    # -- answers, from the worker's thread

    def _drawn(self) -> dict[str, Any]:
        rows: Sequence[int] = self.selection  # type: ignore[assignment] - a trait
        answer: CondaAnswer | None = self.answer  # type: ignore[assignment] - a trait
        return self.session.curve_traits(answer, self._look, torch.tensor(tuple(rows), dtype=torch.long))

    def _deliver(self, outcome: Outcome) -> None:
        if outcome.error:
            self._fail(outcome.error)
            return
        answer: CondaAnswer = outcome.value
        self.answer = answer
        path, scene = answer.path, self.session.scene
        self.canvas.show(**self._drawn())
        self.canvas.note = path.lifted.warning
        self.facts.value = facts_table(self.session.facts(answer), self._look)
        if answer.speed == "coarse":
            return
        self.support.show(support_figure(path, theme=self._look, width=530))
        if answer.films:
            self.film.show(
                films_figure(
                    answer.films, scene.shape, times=path.times, along=along_of(path),
                    off_support=path.lifted.off_support,
                    value_range=scene.value_range, theme=self._look, width=1000,
                )
            )  # fmt: skip
        report = scene.fit.report
        notes = [*report.warnings, *path.report.warnings]
        kind = "idle" if report.converged and not notes else "warning"
        self.status.say("<br>".join([status_line(report, scene.fit.provenance), *notes]), kind=kind)

    def _fail(self, text: str) -> None:
        self.status.say(text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."), kind="error")
        self.canvas.busy = False

    def _rest(self) -> None:
        self.canvas.busy = False
        self.status.rest()

    def __repr__(self) -> str:
        doing = self.status.text.split("<br>")[0] or "idle"
        return f"ConDAExplorer({self.session.scene.name}, {self.state.kind}, {doing})"
