"""The tab of the contrastive lens: curves through the frames of a flow, rendered on the way."""

import dataclasses
import io
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

import panel as pn
import torch

from widgets.app.host import FigurePane, Host
from widgets.app.inputs import SIDE, Slider
from widgets.app.link import differences
from widgets.app.offer import bearable
from widgets.canvas.panel import PageCanvas
from widgets.canvas.scene import Gesture
from widgets.cells import read_values, write_cell
from widgets.facts import facts_table
from widgets.figures.conda import colours_of, loss_figure, support_figure
from widgets.scheduling import Outcome, Progress, Speed
from widgets.sessions.conda import CondaSession
from widgets.sessions.conda_pictures import crossing_film, curve_film, selection_film
from widgets.sessions.conda_scene import open_scene
from widgets.sessions.conda_state import CondaAnswer, CondaCrossing, CondaScene, CondaState
from workbench.bench.bench import Gate
from workbench.conda.lifts import WEIGHTS
from workbench.errors import Cancelled, SettingError, WorkbenchError

_opening = threading.Lock()
_opened: list[CondaScene] = []


def wake_scene(gate: Gate, progress: Progress, cancel: threading.Event) -> CondaScene:
    """The scene of the shipped wake, which all visitors share: made once, about half a minute.

    Args:
        gate: Gives the turn in which it is made; whoever waits for another's map holds none.
        progress: Called with a share and a sentence.
        cancel: Asked now and then.

    Raises:
        Cancelled: If the visitor cancels; another who waits for the same scene makes it then.
    """
    while not _opening.acquire(timeout=0.2):
        progress(0.0, "waiting for the map, which another visitor has asked for")
        if cancel.is_set():
            raise Cancelled.before("the map was there")
    try:
        if not _opened:
            with gate(cancel):
                _opened.append(open_scene(progress=progress, cancel=cancel))
        return _opened[0]
    finally:
        _opening.release()


class CondaTab:
    """Curves in a contrastive map.

    Args:
        host: The page's services.
        values: Entries of the state, from outside; None for a first look.
    """

    name, title = "conda", "ConDA"

    def __init__(self, host: Host, values: dict[str, Any] | None) -> None:
        self.host = host
        self.state = read_values(CondaState, bearable(values or {}))
        self.session: CondaSession | None = None
        self.answer: CondaAnswer | None = None
        self._selected = torch.zeros(0, dtype=torch.long)
        self.canvas = PageCanvas(theme=host.look.name, sizing_mode="stretch_width", max_width=680)
        self.canvas.on_gesture(self._gestured)
        self.canvas.param.watch(self._lassoed, "lasso")
        self.film, self.support, self.chosen = FigurePane(), FigurePane(), FigurePane()
        self.losses, self.crossing = FigurePane(), FigurePane()
        self.facts, self.picked = (pn.pane.HTML("", sizing_mode="stretch_width") for _ in range(2))
        self.controls: dict[str, Any] = {
            "kind": pn.widgets.Select(label="curve", options=["spline", "line", "arc"], width=SIDE),
            "colour": pn.widgets.Select(label="colour by", options=[""], width=SIDE),
            "weights": pn.widgets.Select(label="weights of the lift", options=list(WEIGHTS), width=SIDE),
            "k": Slider(host.look, "neighbours k", value=8, start=1, end=64, step=1),
            "steps": Slider(host.look, "points", value=33, start=5, end=121, step=4),
        }
        self.compare = pn.widgets.Button(label="What the condition does", visible=False)
        self.compare.on_click(self._compared)
        self.cancel = pn.widgets.Button(label="Cancel")
        self.copy = pn.widgets.Button(label="Copy as parameters")
        self.parameters = pn.pane.Str("", visible=False, styles={"overflow-x": "auto", "max-width": "100%"})
        self._syncing = False
        self._scheduler = host.scheduler(self._solve, self._deliver, lambda: self._rest(), gated=False)
        for control in self.controls.values():
            control.param.watch(self._controlled, "value")
        self.cancel.on_click(lambda _: self._scheduler.cancel())
        self.copy.on_click(self._copied)
        self.side = [
            *self.controls.values(), self.compare, pn.FlexBox(*self.exports(), gap="0px"),
            pn.Row(self.cancel, self.copy), self.parameters, self.facts,
        ]  # fmt: skip
        self.main = pn.Column(
            self.canvas, self.picked, self.film, self.crossing, self.support, self.losses, self.chosen,
            sizing_mode="stretch_width", margin=0,
        )  # fmt: skip
        self._show_state()
        self._submit("full")

    def exports(self) -> list[Any]:
        """Buttons that write the curve and its films."""
        return [
            pn.widgets.FileDownload(
                callback=partial(self._written, ending), filename=f"curve{ending}", label=ending[1:].upper(),
                width=78,
            )
            for ending in (".gif", ".mp4", ".npz")
        ]  # fmt: skip

    def _written(self, ending: str) -> io.BytesIO | None:
        """A file of the last answer; None, and a sentence in the status line, if nothing can be written."""
        if self.session is None or self.answer is None:
            self.host.fail("there is no curve yet; wait for the map")
            return None
        with tempfile.TemporaryDirectory() as folder:
            try:
                path = self.session.export(self.answer, str(Path(folder) / f"curve{ending}"))
            except (WorkbenchError, OSError) as error:
                self.host.fail(error)
                return None
            return io.BytesIO(Path(path).read_bytes())

    def values(self) -> dict[str, Any]:
        """What a reload needs."""
        return differences(self.state)

    def _show_state(self) -> None:
        self._syncing = True
        try:
            if self.session is not None:
                self.controls["colour"].options = list(colours_of(self.session.scene.fit))
            for name, control in self.controls.items():
                if name != "colour" or self.session is not None:
                    control.value = getattr(self.state, name)
        finally:
            self._syncing = False
        self.host.remember(self.name, self.values())

    def _controlled(self, event: Any) -> None:
        if self._syncing or self.session is None:
            return
        name = next(name for name, control in self.controls.items() if control is event.obj)
        value = int(event.new) if name in ("k", "steps") else event.new
        try:
            state = self.state.but(**{name: value})
            bearable(dataclasses.asdict(state))
            self.session.take(state)
        except WorkbenchError as error:
            self.host.fail(error)
            return
        self.state = self.session.state
        if name == "colour":
            self.canvas.show(**self.session.ground(self.host.look))
        self._show_state()
        self._submit("full")

    def _gestured(self, gesture: Gesture) -> None:
        if self.session is None:
            return
        try:
            speed = self.session.after(gesture)
        except (WorkbenchError, LookupError) as error:
            self.host.fail(error)
            return
        if speed is None:
            return
        self.state = self.session.state
        if speed == "full":
            self.canvas.show(**self.session.handles())
            self._show_state()
        self._submit(speed)

    def _lassoed(self, event: Any) -> None:
        session = self.session
        if session is None:
            return
        self._selected = rows = session.enclosed(event.new)
        self.canvas.show(**session.curve_traits(self.answer, self.host.look, rows))
        self.picked.object = facts_table([("selection", session.selection_text(rows))], self.host.look)
        film = selection_film(session, rows, self.host.look, 900)
        if film is not None:
            self.chosen.show(film)

    def _copied(self, _: Any) -> None:
        self.parameters.object = self.canvas.clip = write_cell(self.state)
        self.parameters.visible = True

    def _submit(self, speed: Speed) -> None:
        self.canvas.show(busy=True, note="")
        if speed == "full":
            self.host.busy()
        self._scheduler.submit(self.state, speed)

    def _solve(
        self, state: CondaState | None, speed: Speed, cancel: threading.Event, progress: Progress
    ) -> Any:
        first = None
        if self.session is None and state is not None:
            first = CondaSession(wake_scene(self.host.gate, progress, cancel), state)
        with self.host.gate(cancel):
            if state is None:
                return self._cross(cancel, progress)
            session = self.session or first
            assert session is not None  # one of the two is there
            return session, session.solve(session.filled(state), speed, cancel, progress)

    def _cross(self, cancel: threading.Event, progress: Progress) -> CondaCrossing:
        cross = None if self.session is None else self.session.scene.cross
        if cross is None:
            raise SettingError("frames without conditions on a scale", "flows such as the wake")
        return cross(progress, cancel)

    def _compared(self, _: Any) -> None:
        """Render the curve between conditions, which no state asks for."""
        self.host.busy()
        self._scheduler.submit(None, "full")

    def _deliver(self, outcome: Outcome) -> None:
        if outcome.error:
            first = self.session is None and not outcome.stopped
            if first and self.state != CondaState():  # an address that cannot be shown
                self.state = CondaState()
                self._submit("full")
            self.host.fail(outcome.error)
            return
        if isinstance(outcome.value, CondaCrossing):
            assert self.session is not None  # it was asked
            self.crossing.show(crossing_film(self.session.scene, outcome.value, self.host.look, 900))
            self.host.say(outcome.value.words)
            return
        session, self.answer = outcome.value
        answer, look = outcome.value[1], self.host.look
        if self.session is None:
            self.session, self.state = session, session.state
            self.canvas.show(**session.ground(look), **session.handles())
            self.losses.show(loss_figure(session.scene.fit, theme=look))
            self.compare.visible = session.scene.cross is not None
            self._show_state()
        self.canvas.show(**session.curve_traits(answer, look, self._selected))
        self.canvas.note = answer.path.lifted.warning
        self.facts.object = facts_table(session.facts(answer), look)
        if answer.speed == "coarse":
            return
        self.support.show(support_figure(answer.path, theme=look))
        scene = session.scene
        film = curve_film(scene, answer, look, 900)
        if film is not None:
            self.film.show(film)
        report, notes = scene.fit.report, answer.path.report.warnings
        said = dataclasses.replace(report, warnings=(*report.warnings, *notes))
        self.host.conclude(said, scene.fit.provenance, stopped=outcome.stopped)

    def _rest(self) -> None:
        self.canvas.busy = False
