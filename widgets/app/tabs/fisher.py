"""The tab of the Fisher lens: geodesics in spaces with known metrics and on slices of models."""

import dataclasses
from typing import Any

import panel as pn

from widgets.app.host import FigurePane, Host
from widgets.app.inputs import SIDE, Slider
from widgets.app.link import differences
from widgets.app.offer import LARGEST, Offer, bearable
from widgets.canvas.panel import PageCanvas
from widgets.canvas.scene import Gesture
from widgets.cells import read_values, write_cell
from widgets.facts import facts_table
from widgets.figures.fisher import READINGS
from widgets.scheduling import Outcome, Speed
from widgets.sessions.fisher import FisherSession
from widgets.sessions.fisher_state import FisherState
from workbench.errors import WorkbenchError
from workbench.geodesics.gallery import SPACES, ZOOMED
from workbench.phases import LATENTS, MEASURES

CUT = ("model", "latents", "measure", "corners", "middle", "zoom", "resolution")
"""Settings that only a slice has."""


def first_look(offer: Offer) -> dict[str, Any]:
    """What is looked at first: a slice in the latents of one's own decoder, or a space without a model."""
    if not offer.first:
        return {}
    own = {"model": offer.first}
    coded = offer.open_model(FisherState(**own)).decoder is not None
    return own | {"space": "slice", "latents": "decoder"} if coded else own


class FisherTab:
    """Geodesics between two points.

    Args:
        host: The page's services.
        values: Entries of the state, from outside; None for a first look.
    """

    name, title = "fisher", "Fisher"

    def __init__(self, host: Host, values: dict[str, Any] | None) -> None:
        self.host = host
        state = read_values(FisherState, first_look(host.offer) if values is None else bearable(values))
        host.offer.check_slice(state)
        self.session = FisherSession(state, host.offer.path_of)
        self.session.take(state)
        self.canvas = PageCanvas(theme=host.look.name, sizing_mode="stretch_width", max_width=680)
        self.canvas.on_gesture(self._gestured)
        self.map, self.lengths, self.bar = FigurePane(), FigurePane(), FigurePane()
        self.facts = pn.pane.HTML("", sizing_mode="stretch_width")
        readings = {words: key for key, words in READINGS.items() if key != "residual"}
        self.controls: dict[str, Any] = {
            "space": pn.widgets.Select(label="space", options=list(SPACES), width=SIDE),
            "reading": pn.widgets.Select(label="colour", options=readings, width=SIDE),
            "start": pn.widgets.TextInput(label="start", placeholder="the space's own", width=SIDE),
            "end": pn.widgets.TextInput(label="end", placeholder="the space's own", width=SIDE),
            "nodes": Slider(host.look, "nodes", value=33, start=9, end=129, step=8),
            "width": Slider(host.look, "width s", value=0.5, start=0.4, end=2.0, step=0.05),
            **self._cut(),
        }
        self.cancel = pn.widgets.Button(label="Cancel")
        self.copy = pn.widgets.Button(label="Copy as parameters")
        self.parameters = pn.pane.Str("", visible=False, styles={"overflow-x": "auto", "max-width": "100%"})
        self._syncing = False
        self._scheduler = host.scheduler(
            lambda *asked: self.session.solve(*asked), self._deliver, lambda: self._rest()
        )
        self._show_state()
        self.canvas.show(**self.session.frame())
        for control in self.controls.values():
            control.param.watch(self._controlled, "value")
        self.cancel.on_click(lambda _: self._scheduler.cancel())
        self.copy.on_click(self._copied)
        buttons = pn.Row(self.cancel, self.copy)
        self.side = [*self.controls.values(), buttons, self.parameters, self.facts]
        shown = (self.canvas, self.bar, self.map, self.lengths)
        self.main = pn.Column(*shown, sizing_mode="stretch_width", margin=0)
        self._submit("full")

    def _cut(self) -> dict[str, Any]:
        """The controls of a slice."""
        look, models = self.host.look, list(self.host.offer.models)
        most = LARGEST["resolution"]
        return {
            "model": pn.widgets.Select(label="model", options=models, width=SIDE),
            "latents": pn.widgets.Select(label="latents of", options=list(LATENTS), width=SIDE),
            "measure": pn.widgets.Select(label="measured by", options=list(MEASURES), width=SIDE),
            "corners": pn.widgets.TextInput(
                label="spanned by", placeholder="drawn; or three samples 0;1;2", width=SIDE
            ),
            "middle": pn.widgets.TextInput(label="zoom about", placeholder="the middle; or a,b", width=SIDE),
            "zoom": Slider(look, "zoom, halvings", value=0, start=0, end=40, step=1),
            "resolution": Slider(look, "resolution", value=16, start=8, end=most, step=8),
        }

    def values(self) -> dict[str, Any]:
        """What a reload needs."""
        return differences(self.session.state)

    def _show_state(self) -> None:
        self._syncing = True
        try:
            for name, control in self.controls.items():
                control.value = getattr(self.session.state, name)
        finally:
            self._syncing = False
        space = self.session.state.space
        self.controls["width"].visible = space == "two_gaussians"
        for name in CUT:
            zooms = name in ("middle", "zoom") and space in ZOOMED
            self.controls[name].visible = space == "slice" or zooms
        self.host.remember(self.name, self.values())

    def _controlled(self, event: Any) -> None:
        if not self._syncing:
            name = next(name for name, control in self.controls.items() if control is event.obj)
            value = int(event.new) if name in ("nodes", "zoom", "resolution") else event.new
            self._take(lambda: self.session.state.but(**{name: value}), "full")

    def _gestured(self, gesture: Gesture) -> None:
        asked = self.session.after(gesture)
        if asked is not None:
            self._take(lambda: asked[0], asked[1])

    def _take(self, make: Any, speed: Speed) -> None:
        """Make a state the session's own and ask for its answer."""
        try:
            state = make()
            bearable(dataclasses.asdict(state))
            self.host.offer.check_slice(state)
            self.session.take(state)
        except WorkbenchError as error:
            self.host.fail(error)
            return
        if speed == "full":
            self._show_state()
            self.canvas.show(**self.session.frame())
        self._submit(speed)

    def _copied(self, _: Any) -> None:
        state = self.session.state
        own = state.but(model=self.host.offer.named(state.model))
        self.parameters.object = self.canvas.clip = write_cell(own)
        self.parameters.visible = True

    def _submit(self, speed: Speed) -> None:
        self.canvas.show(busy=True, note="")
        if speed == "full":
            self.host.busy()
        self._scheduler.submit(self.session.state, speed)

    def _deliver(self, outcome: Outcome) -> None:
        if outcome.error:
            self.host.fail(outcome.error)
            self.canvas.note = self.host.text
            return
        answer, look = outcome.value, self.host.look
        if answer.state.space != self.session.state.space:
            return  # the visitor has gone on to another space
        result = answer.result
        self.canvas.show(**self.session.scene(answer, look))
        self.facts.object = facts_table(self.session.facts(answer), look)
        if answer.speed == "full":
            self.map.show(self.session.map_figure(answer, look))
            self.lengths.show(self.session.lengths_figure(answer, look))
            bar = self.session.resolution_figure(answer, look)
            self.bar.hide() if bar is None else self.bar.show(bar)
        if answer.speed == "full" or not result.report.converged:
            self.host.conclude(result.report, result.provenance, stopped=outcome.stopped)

    def _rest(self) -> None:
        self.canvas.busy = False
