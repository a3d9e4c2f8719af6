"""The tab of the path lens: the map with movable ends, the profile, and a filmstrip of pictures."""

import time
from typing import Any

import panel as pn

from widgets.app.host import FigurePane, Host
from widgets.app.inputs import SIDE, Slider
from widgets.app.link import differences
from widgets.app.offer import Offer, bearable
from widgets.app.pictures import PictureFields, pictured
from widgets.canvas.panel import PageCanvas
from widgets.canvas.scene import Gesture, thumb_traits
from widgets.facts import facts_table
from widgets.figures.filmstrip import filmstrip_figure
from widgets.figures.paths import profile_figure
from widgets.scheduling import Outcome, Speed
from widgets.sessions.paths import Answer, PathSession
from widgets.state import PathState, cell_of, state_from
from widgets.theme import SIZES
from workbench.errors import WorkbenchError

FIGURE_PAUSE = 1.5
"""Seconds between two figures while a point is dragged: drawing one holds the curves up."""
SETTINGS = ("start", "end", "regime", "gamma", "temperature", "nodes")


class PathsTab:
    """Paths between two points.

    Args:
        host: The page's services.
        values: Entries of the state, from outside; None for a first look.
    """

    name, title = "paths", "Paths"

    def __init__(self, host: Host, values: dict[str, Any] | None) -> None:
        self.host = host
        first, self._aside = _first_look(host.offer)
        state = state_from(first if values is None else bearable(values))
        self.session = PathSession(state, host.offer.stage(state))
        self.canvas = PageCanvas(theme=host.look.name, sizing_mode="stretch_width", max_width=680)
        self.canvas.on_gesture(self._gestured)
        self.profile, self.filmstrip = FigurePane(), FigurePane()
        self.facts = pn.pane.HTML("", sizing_mode="stretch_width")
        self._controls()
        self._syncing, self._drawn = False, 0.0
        self._scheduler = host.scheduler(
            lambda *asked: self.session.solve(*asked), self._deliver, lambda: self._rest()
        )
        self._show_state()
        self.canvas.show(**self.session.empty_scene(host.look))
        self.main = pn.Column(
            self.canvas, self.profile, self.filmstrip, sizing_mode="stretch_width", margin=0
        )
        self._submit("full")

    def _controls(self) -> None:
        offer, session = self.host.offer, self.session
        self.subject = pn.widgets.Select(label="world or model", options=list(offer.subjects), width=SIDE)
        self.start = pn.widgets.TextInput(label="start", width=SIDE)
        self.end = pn.widgets.TextInput(label="end", width=SIDE)
        self.regime = pn.widgets.Select(label="regime", options=list(session.subject.regimes), width=SIDE)
        look = self.host.look
        self.sigma = Slider(look, "noise σ")
        self.gamma = Slider(look, "effort γ", start=0.0, end=15.0, step=0.5)
        self.temperature = Slider(look, "temperature T", start=0.0, end=1.0, step=0.05)
        self.nodes = Slider(look, "nodes", value=33, start=5, end=161, step=2)
        self.pictures = PictureFields(self.host, self._uploaded)
        self.cancel = pn.widgets.Button(label="Cancel")
        self.copy = pn.widgets.Button(label="Copy as parameters")
        self.parameters = pn.pane.Str("", visible=False, styles={"overflow-x": "auto", "max-width": "100%"})
        self.cancel.on_click(lambda _: self._scheduler.cancel())
        self.copy.on_click(self._copied)
        for name in ("subject", "sigma", *SETTINGS):
            getattr(self, name).param.watch(self._controlled, "value")
        self.side = [
            self.subject, self.start, self.end, self.regime, self.sigma, self.gamma, self.temperature,
            self.nodes, self.pictures, pn.Row(self.cancel, self.copy), self.parameters, self.facts,
        ]  # fmt: skip

    def values(self) -> dict[str, Any]:
        """What a reload needs."""
        return differences(self.session.state)

    def _show_state(self) -> None:
        """Make the controls say what the state is, and hide those that mean nothing in its regime."""
        state, subject = self.session.state, self.session.subject
        self._syncing = True
        try:
            self.subject.value = state.world or state.model
            self.regime.options = list(subject.regimes)
            self.sigma.param.update(stops=_levels(subject, state.sigma), value=state.sigma or 0.0)
            for name in SETTINGS:
                getattr(self, name).value = getattr(state, name)
        finally:
            self._syncing = False
        self.gamma.visible = state.regime in ("mep", "principal")
        self.temperature.visible = state.regime == "principal"
        self.sigma.visible = state.regime == "static" and subject.flows
        self.pictures.show(pictured(subject, self.host.offer), state.start, state.end)
        self.host.remember(self.name, self.values())

    def open(self, name: str) -> None:
        """Look at another subject.

        Raises:
            WorkbenchError: If it is not offered or cannot be opened.
        """
        state = state_from(self.host.offer.entries(name))
        self.session = PathSession(state, self.host.offer.stage(state))
        self.canvas.show(**self.session.empty_scene(self.host.look), **thumb_traits(None))
        self.filmstrip.hide()
        self._show_state()
        self._submit("full")

    def _controlled(self, event: Any) -> None:
        if self._syncing:
            return
        names = {id(getattr(self, name)): name for name in (*SETTINGS, "sigma")}
        try:
            if event.obj is self.subject:
                self.open(event.new)
                return
            name = names[id(event.obj)]
            value = int(event.new) if name == "nodes" else event.new
            value = value or None if name == "sigma" else value
            self._take(self.session.state.but(**{name: value}), "full")
        except (WorkbenchError, OSError) as error:
            self.host.fail(error)

    def _uploaded(self, end: str, name: str) -> None:
        if not self.session.subject.pictures:
            self.open(self.host.offer.pictured)
        name = self.host.offer.facing(name, self.session.subject)
        self._take(self.session.state.but(**{end: name}), "full")

    def _copied(self, _: Any) -> None:
        state = self.session.state
        self.parameters.object = cell_of(self.host.offer.portable(state, self.session.subject))
        self.parameters.visible = True
        self.canvas.clip = self.parameters.object

    def _gestured(self, gesture: Gesture) -> None:
        try:
            asked = self.session.after(gesture)
            if asked is not None:
                self._take(*asked)
        except (WorkbenchError, LookupError, ValueError, OSError) as error:
            self.host.fail(error)

    def _take(self, state: PathState, speed: Speed) -> None:
        """Make a state the session's own and ask for its answer.

        Raises:
            WorkbenchError: If the state names no valid points.
        """
        session = self.session
        bearable(state.as_dict())
        if speed == "full":
            self.host.offer.check_points(session.subject, state)
            state = session.filled(state)
            session.subject.ends(state.start, state.end)
            self.canvas.show(**session.handles(state))
        session.state = state
        if speed == "full":
            self._show_state()
        self._submit(speed)

    def _submit(self, speed: Speed) -> None:
        self.canvas.show(busy=True, note="")
        if speed == "full":
            self.host.busy()
        self._scheduler.submit(self.session.state, speed)

    def _deliver(self, outcome: Outcome) -> None:
        if outcome.error:
            self.host.fail(outcome.error)
            return
        answer = outcome.value
        if (answer.state.world, answer.state.model) != (self.session.state.world, self.session.state.model):
            return  # the visitor has gone on to another subject
        self.canvas.show(**self.session.scene(answer, self.host.look))
        self.host.later(self._explain, answer, outcome.stopped)  # once the curves are on their way

    def _explain(self, answer: Answer, stopped: bool) -> None:
        """The numbers and figures of an answer; while a point is dragged a figure now and then."""
        look, subject, now = self.host.look, self.session.subject, time.monotonic()
        if (answer.state.world, answer.state.model) != (self.session.state.world, self.session.state.model):
            return
        exact = None if answer.exact is None else answer.exact.barrier
        if answer.speed == "full" or (now > self._drawn + FIGURE_PAUSE and not self.host.turns.waiting):
            self._drawn = now
            drawn = profile_figure(
                answer.result, theme=look, exact=exact, width=SIZES.width, preview=answer.preview
            )
            self.profile.show(drawn)
        self.facts.object = facts_table(self.session.facts(answer), look)
        report = answer.result.report
        if answer.speed == "full" or not report.converged:
            self.host.conclude(report, answer.result.provenance, stopped=stopped)
            if self._aside:
                self.host.say(f"{self._aside}<br>{self.host.text}", "warning")
                self._aside = ""
        if answer.speed == "full" and subject.pictures:
            strip = filmstrip_figure(
                answer.result, subject.frame, decoder=subject.decoder, theme=look, width=SIZES.width
            )
            self.filmstrip.show(strip)

    def _rest(self) -> None:
        self.canvas.busy = False


def _first_look(offer: Offer) -> tuple[dict[str, Any], str]:
    """Entries of the first state, a known world where one's own model has no path, and what to say of it."""
    known = {"world": "v_mixture", "regime": "static"}
    if not offer.first:
        return known, ""
    own = {"model": offer.first}
    subject = offer.stage(state_from(own)).subject
    if subject.regimes:
        return own, ""
    return known, (
        f"{subject.frame} is {subject.lacking} and has no path, so a known world is shown here; "
        "its geodesics are on the Fisher tab."
    )


def _levels(subject: Any, sigma: float | None) -> list[tuple[str, float]]:
    """Noise levels at equal ratios with the data themselves first; the present one is among them."""
    if not subject.flows:
        return [("the data", 0.0)]
    known = subject.world.facts.levels if subject.world is not None else None
    low, high = known or (max(subject.frame.sigma_min, 1e-3), subject.frame.sigma_max)
    ratio = (high / low) ** (1.0 / 40)
    stops = {low * ratio**k for k in range(41)} | ({sigma} if sigma else set())
    return [("the data", 0.0), *((f"{level:.3g}", level) for level in sorted(stops))]
