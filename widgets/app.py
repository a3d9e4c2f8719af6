"""The workbench as a page for people without notebooks: the same canvas, figures and state, served by Panel.

Each visitor has a session of their own. The page is served on the loopback interface and asks no other host
for anything.
"""

import argparse
import html
import sys
from typing import Any

import panel as pn
import plotly.graph_objects as go

from widgets.canvas.panel import PageCanvas
from widgets.canvas.scene import Gesture
from widgets.figures.filmstrip import filmstrip_figure
from widgets.figures.paths import profile_figure
from widgets.figures.status import sentence, status_line
from widgets.scheduling import Outcome, Scheduler, Speed, sentence_of
from widgets.session import PathSession
from widgets.state import PathState, cell_of
from widgets.theme import SIZES, theme_of
from workbench.errors import WorkbenchError
from workbench.worlds import WORLDS

MODELS = ("fashion", "fashion_latent", "digits")
"""Shipped image models that the page offers beside the worlds."""


class PathPage:
    """The path lens on a page: controls in a sidebar, the map and the profile beside them.

    Args:
        state: What to show first.
        theme: "light" or "dark".
    """

    def __init__(self, state: PathState | None = None, *, theme: str = "light") -> None:
        self._look = theme_of(theme)
        self.session = PathSession(state or PathState(world="v_mixture", regime="static"))
        self.canvas = PageCanvas(theme=self._look.name, sizing_mode="stretch_width", max_width=680)
        self.canvas.on_gesture(self._gestured)
        self.profile = pn.pane.Plotly(
            sentence("The profile appears with the first answer.", theme=self._look)
        )
        self.filmstrip: pn.pane.Plotly | None = None
        self.figures = pn.Column(self.profile)
        self.status = pn.pane.HTML("", sizing_mode="stretch_width")
        self.facts = pn.pane.HTML("", sizing_mode="stretch_width")
        self.subject = pn.widgets.Select(label="world or model", options=[*WORLDS, *MODELS])
        self.start = pn.widgets.TextInput(label="start")
        self.end = pn.widgets.TextInput(label="end")
        self.regime = pn.widgets.Select(label="regime")
        self.gamma = pn.widgets.FloatSlider(label="effort γ", start=0.0, end=15.0, step=0.5)
        self.nodes = pn.widgets.IntSlider(label="nodes", start=5, end=161, step=2)
        self.cancel = pn.widgets.Button(label="Cancel")
        self.copy = pn.widgets.Button(label="Copy as parameters")
        self.parameters = pn.pane.Str("", visible=False)
        self._syncing = False
        self._document: Any = None
        self._scheduler = Scheduler(
            lambda *arguments: self.session.solve(*arguments),
            deliver=lambda outcome: self._later(self._deliver, outcome),
            idle=lambda: self._later(self._rest),
        )
        self.cancel.on_click(lambda _: self._scheduler.cancel())
        self.copy.on_click(self._copied)
        self._show_state()
        for control in (self.subject, self.start, self.end, self.regime):
            control.param.watch(self._controlled, "value")
        for control in (self.gamma, self.nodes):
            control.param.watch(self._controlled, "value_throttled")
        self.canvas.show(**self.session.empty_scene(self._look))
        self._submit("full")

    def layout(self) -> pn.viewable.Viewable:
        """The page."""
        controls = [self.subject, self.start, self.end, self.regime, self.gamma, self.nodes]
        side = pn.Column(
            "## Paths", *controls, pn.Row(self.cancel, self.copy), self.parameters, self.facts, width=330
        )
        narrow = {"max-width": "100%"}
        main = pn.Column(self.status, self.canvas, self.figures, width=SIZES.width + 20, styles=narrow)
        return pn.FlexBox(side, main, flex_wrap="wrap", align_items="flex-start", gap="16px")

    def wait(self, timeout: float = 60.0) -> bool:
        """Block until nothing is being computed."""
        return self._scheduler.wait(timeout)

    def close(self) -> None:
        """Stop computing."""
        self._scheduler.close()

    def _later(self, function: Any, *arguments: Any) -> None:
        """Run in the page's own turn: widgets of a page may be touched by its thread only."""
        if self._document is None:
            function(*arguments)
        else:
            self._document.add_next_tick_callback(lambda: function(*arguments))

    def _show_state(self) -> None:
        state = self.session.state
        self._syncing = True
        try:
            self.subject.value = state.world or state.model
            self.start.value, self.end.value = state.start, state.end
            self.regime.options = list(self.session.subject.regimes)
            self.regime.value = state.regime
            self.gamma.value, self.nodes.value = state.gamma, state.nodes
            self.gamma.visible = state.regime in ("mep", "principal")
        finally:
            self._syncing = False

    def _controlled(self, event: Any) -> None:
        if self._syncing:
            return
        names = {id(getattr(self, name)): name for name in ("start", "end", "regime", "gamma", "nodes")}
        try:
            if event.obj is self.subject:
                key = "world" if event.new in WORLDS else "model"
                self.session = PathSession(PathState(**{key: event.new}))
                self.canvas.show(**self.session.empty_scene(self._look))
                self._show_state()
                self._submit("full")
                return
            name = names[id(event.obj)]
            if name in ("start", "end"):
                self.session.subject.point(event.new)
            self._take(self.session.state.but(**{name: event.new}), "full")
        except (WorkbenchError, OSError) as error:
            self._fail(sentence_of(error))

    def _copied(self, _: Any) -> None:
        self.parameters.object = cell_of(self.session.state)
        self.parameters.visible = True
        self.canvas.clip = self.parameters.object

    def _gestured(self, gesture: Gesture) -> None:
        try:
            asked = self.session.after(gesture)
        except (WorkbenchError, LookupError, ValueError) as error:
            self._fail(sentence_of(error))
            return
        if asked is not None:
            self._take(*asked)

    def _take(self, state: PathState, speed: Speed) -> None:
        self.session.state = state
        self._show_state()
        if speed == "full":
            self.canvas.show(**self.session.handles())
        self._submit(speed)

    def _submit(self, speed: Speed) -> None:
        if self._document is None:
            self._document = pn.state.curdoc
        self.canvas.show(busy=True, note="")
        self._scheduler.submit(self.session.state, speed)

    def _deliver(self, outcome: Outcome) -> None:
        if outcome.error:
            self._fail(outcome.error)
            return
        answer, pictures = outcome.value, self.session.subject.pictures
        self.canvas.show(**self.session.scene(answer, self._look))
        exact = None if answer.exact is None else answer.exact.barrier
        self.profile.object = profile_figure(answer.result, theme=self._look, exact=exact, width=SIZES.width)
        style = f"text-align:left;font-weight:400;padding-right:10px;color:{self._look.muted}"
        rows = "".join(
            f'<tr><th scope="row" style="{style}">{html.escape(name)}</th><td>{html.escape(value)}</td></tr>'
            for name, value in self.session.facts(answer)
        )
        self.facts.object = f'<table class="wb-facts">{rows}</table>'
        line = status_line(answer.result.report, answer.result.provenance)
        self._say(line, self._look.muted if answer.result.report.converged else self._look.warning)
        if pictures and answer.speed == "full":
            subject = self.session.subject
            strip = filmstrip_figure(
                answer.result, subject.frame, decoder=subject.decoder, theme=self._look, width=SIZES.width
            )
            self._show_filmstrip(strip)
        elif not pictures and self.filmstrip is not None:
            self.filmstrip, self.figures[:] = None, [self.profile]

    def _show_filmstrip(self, figure: go.Figure) -> None:
        """The filmstrip has a pane only while there are pictures: a hidden one cannot be measured."""
        if self.filmstrip is None:
            self.filmstrip = pn.pane.Plotly(figure)
            self.figures.append(self.filmstrip)
        else:
            self.filmstrip.object = figure

    def _say(self, text: str, colour: str) -> None:
        lines = "<br>".join(html.escape(line) for line in text.split("<br>"))
        self.status.object = f'<div role="status" style="color:{colour}">{lines}</div>'

    def _fail(self, text: str) -> None:
        self._say(text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."), self._look.warning)

    def _rest(self) -> None:
        self.canvas.busy = False


def page(theme: str = "light") -> pn.viewable.Viewable:
    """One visitor's page."""
    pn.extension("plotly", theme="dark" if theme == "dark" else "default")
    made = PathPage(theme=theme)
    if pn.state.curdoc is not None:
        pn.state.on_session_destroyed(lambda _: made.close())
    return made.layout()


def serve(*, port: int = 5006, theme: str = "light", show: bool = True) -> None:
    """Serve the page on the loopback interface until it is interrupted.

    Args:
        port: Port.
        theme: "light" or "dark".
        show: Open a browser.
    """
    pn.serve(
        {"workbench": lambda: page(theme)},
        address="127.0.0.1",
        port=port,
        websocket_origin=[f"127.0.0.1:{port}", f"localhost:{port}"],
        show=show,
        title="Latent-geometry workbench",
    )


def main(arguments: list[str] | None = None) -> int:
    """`python -m widgets.app`: serve the page until it is interrupted.

    Args:
        arguments: Words of the command line; those of the process if None.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(prog="python -m widgets.app", description="The workbench as a page.")
    parser.add_argument("--port", type=int, default=5006)
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    asked = parser.parse_args(arguments)
    serve(port=asked.port, theme=asked.theme, show=not asked.no_browser)
    return 0


if __name__ == "__main__":
    sys.exit(main())
