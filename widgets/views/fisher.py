"""The view of the Fisher lens: drag two points, see the geodesics between them and what certifies them."""

from collections.abc import Mapping
from typing import Any

import ipywidgets
import traitlets

from widgets.canvas.canvas import Canvas
from widgets.canvas.scene import Gesture
from widgets.cells import read_cell, read_values, write_cell
from widgets.controls import STYLE, FigureBox, StatusBar, narrow, number_slider
from widgets.facts import facts_table
from widgets.figures.fisher import READINGS
from widgets.figures.status import sentence, status_line
from widgets.scheduling import Outcome, Scheduler, Speed, sentence_of
from widgets.sessions.fisher import FisherAnswer, FisherSession
from widgets.sessions.fisher_state import FisherState, space_of
from widgets.theme import theme_of
from widgets.views.solving import SolvingView
from workbench.errors import WorkbenchError
from workbench.geodesics.gallery import SPACES, ZOOMED
from workbench.lenses.fisher import GeodesicResult
from workbench.phases import LATENTS, MEASURES

__all__ = ["FisherExplorer", "FisherState"]

SETTLE = 0.25
"""Seconds that a control must rest before the full answer is computed."""


class FisherExplorer(SolvingView):
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

    def __init__(self, space: str = "tasep", *, theme: str = "light", **settings: Any) -> None:
        self._look = theme_of(theme)
        state = read_values(FisherState, {"space": space, **settings})
        self.session = FisherSession(state)
        self._syncing = False
        self.status = StatusBar(lambda: self.cancel(), theme=self._look)
        self.canvas = Canvas(theme=self._look.name, layout=ipywidgets.Layout(width="100%"))
        self.canvas.on_gesture(self._gestured)
        waiting = sentence("This appears with the first answer.", theme=self._look)
        self.map, self.lengths, self.bar = FigureBox(waiting), FigureBox(waiting), FigureBox(waiting)
        self._build_controls(state)
        self._scheduler = Scheduler(
            lambda *asked: self.session.solve(*asked),
            deliver=self._deliver,
            progress=self.status.advance,
            idle=self._rest,
        )
        super().__init__(self._rows(), layout=ipywidgets.Layout(width="100%", max_width="1080px"))
        self.state = state
        self.canvas.show(**self.session.frame())
        self.observe(self._restated, "state")
        self._submit("full")

    @property
    def result(self) -> GeodesicResult | None:
        """The last geodesics found, coarse or full."""
        answer: FisherAnswer | None = self.answer  # type: ignore[assignment] - a trait
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
        space_of(state)
        self.state = state

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
        self.controls["width"] = number_slider("width s", state.width, 0.4, 2.0, step=0.05)
        self._cut: dict[str, Any] = {
            name: ipywidgets.Text(
                value=getattr(state, name),
                description=words,
                placeholder=hint,
                continuous_update=False,
                layout=narrow(),
                style=STYLE,
            )
            for name, words, hint in (
                ("model", "model", "a name or a path"),
                ("corners", "spanned by", "drawn; or three samples 0;1;2"),
                ("middle", "zoom about", "the middle; or a,b"),
            )
        }
        for name, options, words in (
            ("latents", LATENTS, "latents of"),
            ("measure", MEASURES, "measured by"),
        ):
            self._cut[name] = ipywidgets.Dropdown(
                options=options, value=getattr(state, name), description=words, layout=narrow(), style=STYLE
            )
        self._cut["zoom"] = number_slider("zoom, halvings", state.zoom, 0, 40, step=1)
        self._cut["resolution"] = number_slider("resolution", state.resolution, 8, 256, step=8)
        self.controls |= self._cut
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
        self._show_cut(state)

    def _rows(self) -> list[ipywidgets.Widget]:
        wrap = ipywidgets.Layout(flex_flow="row wrap", align_items="flex-start")
        buttons = ipywidgets.HBox([self.copy, self.status.cancel])
        side = ipywidgets.VBox(
            [*self.controls.values(), buttons, self.parameters, self.facts],
            layout=ipywidgets.Layout(width="380px"),
        )
        picture = ipywidgets.Box([self.canvas], layout=ipywidgets.Layout(width="540px", max_width="100%"))
        rest = [self.bar, self.map, self.lengths]
        return [self.status, ipywidgets.HBox([picture, side], layout=wrap), *rest]

    def _controlled(self, change: Any) -> None:
        if not self._syncing:
            name = next(n for n, control in self.controls.items() if control is change["owner"])
            self.state = self.state.but(**{name: change["new"]})

    def _show_cut(self, state: FisherState) -> None:
        """The controls of a slice, of a width and of a zoom only where there is one."""
        self.controls["width"].layout.display = None if state.space == "two_gaussians" else "none"
        for name, control in self._cut.items():
            shown = state.space == "slice" or (name in ("middle", "zoom") and state.space in ZOOMED)
            control.layout.display = None if shown else "none"

    def _copied(self, _: Any) -> None:
        self.parameters.value = self.to_parameters()
        self.parameters.layout.display = None
        self.canvas.clip = self.parameters.value

    def _restated(self, change: Any) -> None:
        try:
            self.session.take(change["new"])
        except WorkbenchError as error:
            self._fail(sentence_of(error))
            return
        self._syncing = True
        try:
            for name, control in self.controls.items():
                if control.value != getattr(change["new"], name):
                    control.value = getattr(change["new"], name)
        finally:
            self._syncing = False
        self._show_cut(change["new"])
        if self._speed_of_next == "full":
            self.canvas.show(**self.session.frame())
        self._submit(self._speed_of_next, delay=SETTLE if self._speed_of_next == "full" else 0.0)

    _speed_of_next: Speed = "full"

    def _gestured(self, gesture: Gesture) -> None:
        asked = self.session.after(gesture)
        if asked is None:
            return
        moved, self._speed_of_next = asked
        try:
            if moved != self.state:
                self.state = moved
            else:
                self._submit("full")
        finally:
            self._speed_of_next = "full"

    def _submit(self, speed: Speed, *, delay: float = 0.0) -> None:
        self.canvas.busy = True
        self.canvas.note = ""
        if speed == "full":
            self.status.start()
            self.status.say("computing …")
        self._request(self.state, speed, delay)

    # -- answers, on the worker's thread

    def _deliver(self, outcome: Outcome) -> None:
        if outcome.error:
            self._fail(outcome.error)
            return
        answer: FisherAnswer = outcome.value
        result, look = answer.result, self._look
        self.canvas.show(**self.session.scene(answer, look))
        self.facts.value = facts_table(self.session.facts(answer), look)
        if answer.speed == "full":
            self.map.show(self.session.map_figure(answer, look))
            self.lengths.show(self.session.lengths_figure(answer, look))
            bar = self.session.resolution_figure(answer, look)
            self.bar.layout.display = "none" if bar is None else None
            if bar is not None:
                self.bar.show(bar)
        if answer.speed == "full" or not result.report.converged:
            stopped = ["stopped by you, best so far"] if outcome.stopped else []
            line = status_line(result.report, result.provenance)
            kind = "idle" if result.report.converged and not outcome.stopped else "warning"
            self.status.say("<br>".join([line, *result.report.warnings, *stopped]), kind=kind)
        self.answer = answer

    def _fail(self, text: str) -> None:
        self.status.say(text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."), kind="error")
        self.canvas.note = self.status.text

    def _rest(self) -> None:
        self.canvas.busy = False
        self.status.rest()

    def __repr__(self) -> str:
        return f"FisherExplorer({self.state.space}, {self.status.text or 'idle'})"
