"""The view of contrastive maps: drag the control points of a curve, see it lifted and rendered."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets
import torch
import traitlets
from torch import Tensor

from widgets.canvas.canvas import Canvas
from widgets.canvas.scene import Gesture
from widgets.cells import read_cell, read_values, write_cell
from widgets.controls import FigureBox, StatusBar
from widgets.facts import facts_table
from widgets.figures.conda import loss_figure, support_figure
from widgets.figures.status import sentence, status_line
from widgets.scheduling import Outcome, Progress, Scheduler, Speed, sentence_of
from widgets.sessions.conda import CondaSession
from widgets.sessions.conda_pictures import crossing_film, curve_film, selection_film
from widgets.sessions.conda_scene import CondaRun, open_scene, run_names
from widgets.sessions.conda_state import CondaAnswer, CondaCrossing, CondaScene, CondaState, Render
from widgets.theme import theme_of
from widgets.views.conda_controls import CONTROLS, build_buttons, build_controls, show_controls
from widgets.views.solving import SolvingView
from workbench.errors import SettingError, WorkbenchError
from workbench.lenses.conda import CondaFit, TraceResult

__all__ = ["ConDAExplorer", "CondaScene", "CondaState"]

SETTLE = 0.25
"""Seconds that a control must rest before an answer is computed."""
_CROSS = "cross"
"""What is asked of the worker for a curve between conditions; a state or a run otherwise."""


class ConDAExplorer(SolvingView):
    """Curves in an embedding, lifted and rendered as their control points are dragged.

    While a point is dragged the curve and its support light follow; on release the frames are rendered.
    `state`, `selection`, `result` and `films` can be read from code, the first two also set.

    Args:
        fit: The embedding, a scene with its frames, or the name or path of frames ("wake" takes half a
            minute): model, latents and map are then made with the parameters of the notebook `40_conda`, in
            the background with a bar; `wait()` waits for them, and there is no `session` before.
        render: Latents (n, latent dim) and the variables that follow them, or None -> frames (n, dim).
        frames: The frames, shape (count, dim), for pictures under the pointer.
        shape: Shape of one frame.
        value_range: Values of black and white.
        name: Of the data, in words.
        theme: "light" or "dark".
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
        **settings: Any,
    ) -> None:
        self._look = theme_of(theme)
        self.run: CondaRun | None = None
        self._session: CondaSession | None = None
        if isinstance(fit, str):
            asked = {key: settings.pop(key) for key in run_names() & set(settings)}
            self.run = read_values(CondaRun, {"frames": fit, **asked})
        wanted = read_values(CondaState, settings)
        if not isinstance(fit, str):
            given = isinstance(fit, CondaScene)
            scene = fit if given else CondaScene(fit, frames, shape, render, name, value_range)
            self._session = CondaSession(scene, wanted)
        self._opening = self.run
        self._syncing = False
        self.status = StatusBar(lambda: self.cancel(), theme=self._look)
        self.canvas = Canvas(theme=self._look.name, layout=ipywidgets.Layout(width="100%"))
        self.canvas.on_gesture(self._gestured)
        self.canvas.observe(self._lassoed, "lasso")
        waiting = sentence("This appears with the first answer.", theme=self._look)
        self.film, self.support, self.losses = FigureBox(waiting), FigureBox(waiting), FigureBox(waiting)
        self.crossing = FigureBox(waiting)
        self.chosen = FigureBox(sentence("Shift and drag on the map to select frames.", theme=self._look))
        self.facts, self.picked = ipywidgets.HTML(), ipywidgets.HTML()
        self._build_buttons()
        self._scheduler = Scheduler(
            lambda *asked: self._solve(*asked),
            deliver=self._deliver,
            progress=self._advance,
            idle=self._rest,
        )
        super().__init__([], layout=ipywidgets.Layout(width="100%", max_width="1080px"))
        self.state = wanted
        self.observe(self._restated, "state")
        self.observe(self._reselected, "selection")
        if self._session is None:
            self.reopen()
        else:
            self._adopt(self._session)

    # -- reading and setting

    @property
    def session(self) -> CondaSession:
        """Frames, map and control points.

        Raises:
            SettingError: While they are still being opened, or if that was cancelled.
        """
        if self._session is None:
            raise SettingError("a view whose frames are not there yet", "an opened one", "view.wait()")
        return self._session

    def reopen(self) -> None:
        """Open the frames by name in the background, also once more after an attempt that was cancelled."""
        if self.run is not None:
            self._ask_for(self.run)

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
        if run != self.run:
            self._ask_for(run)

    def export(self, path: str) -> str:
        """Write the curve and its films: .npz, .gif or .mp4.

        Raises:
            SettingError: For another ending, or before the first answer.
        """
        if self.answer is None:
            self.wait()
        answer: CondaAnswer | None = self.answer  # type: ignore[assignment] - a trait
        if answer is None:
            raise SettingError("no curve yet", "an answer", "view.wait()")
        return self.session.export(answer, path)

    def cross(self) -> None:
        """Render a curve from one condition to another, the condition following and held."""
        if self._still_opening():
            return
        self.canvas.busy = True
        self._begin("a map of several conditions …")
        if self._scheduler is not None:
            self._scheduler.submit(_CROSS, "full")

    # -- opening

    def _ask_for(self, run: CondaRun) -> None:
        """Open frames by name in the background."""
        self._opening = run
        self.again.layout.display = "none"
        if self._session is None:
            self.children = [self.status, ipywidgets.HBox([self.status.cancel, self.again])]
        self._begin(f"opening {run.frames} …")
        if self._scheduler is not None:
            self._scheduler.submit(run, "full")

    def _adopt(self, session: CondaSession) -> None:
        """Show a scene: its controls, its frames, and the first curve."""
        self._session = session
        self.run, self._opening = self._opening, None
        self.answer = None
        self.selection = ()
        self.controls = build_controls(session)
        for name in CONTROLS:
            self.controls[name].observe(self._controlled, "value")
        self.children = self._rows()
        self.state = session.state
        self._first_look()

    # -- controls

    def _build_buttons(self) -> None:
        self.controls: dict[str, Any] = {}
        self.target, self.save, self.copy, self.again, self.compare, self.parameters = build_buttons()
        self.save.on_click(self._saved)
        self.copy.on_click(self._copied)
        self.again.on_click(lambda _: self.reopen())
        self.compare.on_click(lambda _: self.cross())

    def _rows(self) -> list[ipywidgets.Widget]:
        wrap = ipywidgets.Layout(flex_flow="row wrap", align_items="flex-start")
        sliders = [self.controls[name] for name in ("kind", "colour", "weights", "k", "rank", "steps")]
        side = ipywidgets.VBox(
            [
                *sliders,
                ipywidgets.HBox([self.controls["closed"], self.controls["renorm"]]),
                ipywidgets.HBox([self.target, self.save]),
                ipywidgets.HBox([self.copy, self.status.cancel]),
                *([self.compare] if self.session.scene.cross is not None else []),
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
            self.crossing,
            ipywidgets.HBox([self.support, self.losses], layout=wrap),
            self.picked,
            self.chosen,
        ]

    def _first_look(self) -> None:
        """Show the frames and ask for the first answer."""
        self.canvas.show(**self.session.ground(self._look), **self.session.handles(), **self._drawn())
        self.losses.show(loss_figure(self.session.scene.fit, theme=self._look, width=530))
        self._show_controls(self.session.state)
        self._submit("full")

    def _show_controls(self, state: CondaState) -> None:
        self._syncing = True
        try:
            show_controls(self.controls, state)
        finally:
            self._syncing = False

    def _controlled(self, change: Any) -> None:
        if not self._syncing:
            name = next(n for n in CONTROLS if self.controls[n] is change["owner"])
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
        film = selection_film(self.session, rows, self._look, 1000)
        if film is not None:
            self.chosen.show(film)

    def _restated(self, change: Any) -> None:
        state: CondaState = change["new"]
        if self._session is None or state is self._session.state:
            return  # while frames are being opened a state waits for them
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
        if self._still_opening():
            return
        self.canvas.busy = True
        self.canvas.note = ""
        if speed == "full":
            self._begin("rendering …")
        if self._scheduler is not None:
            self._scheduler.submit(self.session.state, speed, delay=delay)

    def _still_opening(self) -> bool:
        """Whether other frames are on their way; a question about the shown ones would end their opening."""
        if self._opening is None:
            return False
        self.status.say(f"opening {self._opening.frames}: it ends first, or by its Cancel")
        return True

    def _begin(self, words: str) -> None:
        self.status.start()
        self.status.say(words)

    # -- answers, from the worker's thread

    def _solve(self, asked: Any, speed: Speed, cancel: threading.Event, progress: Progress) -> Any:
        if isinstance(asked, CondaRun):
            scene = open_scene(asked, progress=progress, cancel=cancel)
            state: CondaState = self.state  # type: ignore[assignment] - a trait
            return CondaSession(scene, state if self._session is None else state.but(anchors="", colour=""))
        if isinstance(asked, CondaState):
            return self.session.solve(asked, speed, cancel, progress)
        if self.session.scene.cross is None:
            raise SettingError("frames without conditions on a scale", "flows such as the wake", "'wake'")
        return self.session.scene.cross(progress, cancel)

    def _advance(self, share: float, words: str = "") -> None:
        self.status.advance(share, words)
        if self._opening is not None and words:
            self.status.say(f"opening {self._opening.frames}: {words}")

    def _drawn(self) -> dict[str, Any]:
        rows: Sequence[int] = self.selection  # type: ignore[assignment] - a trait
        answer: CondaAnswer | None = self.answer  # type: ignore[assignment] - a trait
        return self.session.curve_traits(answer, self._look, torch.tensor(tuple(rows), dtype=torch.long))

    def _deliver(self, outcome: Outcome) -> None:
        if outcome.error:
            self._fail(outcome.error)
            if self._opening is not None and self._session is None:
                self.again.layout.display = None
            self._opening = None
            return
        if isinstance(outcome.value, CondaSession):
            self._adopt(outcome.value)
            return
        if isinstance(outcome.value, CondaCrossing):
            self._show_crossing(outcome.value)
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
        film = curve_film(scene, answer, self._look, 1000)
        if film is not None:
            self.film.show(film)
        report = scene.fit.report
        notes = [*report.warnings, *path.report.warnings]
        kind = "idle" if report.converged and not notes else "warning"
        self.status.say("<br>".join([status_line(report, scene.fit.provenance), *notes]), kind=kind)

    def _show_crossing(self, made: CondaCrossing) -> None:
        self.crossing.show(crossing_film(self.session.scene, made, self._look, 1000))
        self.status.say(made.words)

    def _fail(self, text: str) -> None:
        self.status.say(text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."), kind="error")
        self.canvas.busy = False

    def _rest(self) -> None:
        self.canvas.busy = False
        self.status.rest()

    def __repr__(self) -> str:
        doing = self.status.text.split("<br>")[0] or "idle"
        name = "no frames yet" if self._session is None else self._session.scene.name
        return f"ConDAExplorer({name}, {self.state.kind}, {doing})"
