"""The tab of the bench: all lenses on the same two points, with the table that compares them."""

import io
import threading
from collections.abc import Callable
from typing import Any

import panel as pn
import torch

from widgets.app.host import FigurePane, Host
from widgets.app.inputs import SIDE, FileField, Slider
from widgets.app.link import differences
from widgets.app.offer import Offer, bearable
from widgets.app.pictures import PictureFields, pictured
from widgets.app.second import SecondPanel
from widgets.app.uploads import VIEW_BYTES, view_text
from widgets.canvas.panel import PageCanvas
from widgets.canvas.scene import Gesture
from widgets.figures.scrubber import scrubber_figure
from widgets.figures.strips import strip_figure
from widgets.scheduling import Outcome, Progress
from widgets.sessions.bench import BenchSession
from widgets.theme import SIZES
from workbench.bench.bench import Bench
from workbench.bench.export import strip_of
from workbench.bench.geodesics import metrics_for
from workbench.bench.opening import suited
from workbench.bench.results import BenchEvent
from workbench.bench.scrub import Scrub, level_grid, scrub_levels
from workbench.bench.state import BACKGROUNDS, LENS_NAMES, REGIMES, BenchState, state_of, view_parameters
from workbench.bench.state import view_text as view_of
from workbench.errors import SettingError, WorkbenchError

DISTORTION = "distortion ellipses of the projection"
OWN = -1.0
"""What the noise slider holds where each lens takes its own level."""
_WIDE = {"overflow-x": "auto", "max-width": "100%"}


class BenchTab:
    """All lenses on the same two points.

    Args:
        host: The page's services.
        values: Entries of the state, from outside; None for a first look.
    """

    name, title = "bench", "All lenses"

    def __init__(self, host: Host, values: dict[str, Any] | None) -> None:
        self.host = host
        self.bench = Bench(
            _first_look(host.offer) if values is None else state_of(bearable(values)),
            cache=host.offer.cache,
            open_subject=host.offer.open_subject,
            gate=host.gate,
        )
        self.session = BenchSession(self.bench, host.look)
        self.bench.place.subject.ends(self.bench.state.start, self.bench.state.end)
        self.canvas = PageCanvas(theme=host.look.name, sizing_mode="stretch_width", max_width=680)
        self.canvas.on_gesture(self._gestured)
        self.canvas.takes_files = True
        self.canvas.param.watch(self._dropped, "dropped")
        self.badge, self.words = (pn.pane.HTML("", sizing_mode="stretch_width") for _ in range(2))
        self.table = pn.pane.HTML("", sizing_mode="stretch_width", styles=_WIDE)
        self.strip, self.marks = FigurePane(), FigurePane()
        self._syncing = False
        self._controls()
        self._levels = host.scheduler(self._scrub, self._scrubbed, lambda: None)
        host.keep(self.bench)
        self.second = SecondPanel(host, self.bench, self._redraw_table)
        self.side[-2:-2] = self.second.side
        self.main = pn.Column(
            self.badge, self.canvas, self.table, self.second, self.strip, self.marks, self.words,
            sizing_mode="stretch_width", margin=0,
        )  # fmt: skip
        self._show_state()
        self.canvas.show(**self.session.frame())
        self.bench.subscribe(self._heard)
        self.host.busy()
        self.bench.refresh()

    def values(self) -> dict[str, Any]:
        """What a reload needs."""
        return differences(self.bench.state)

    # -- controls

    def _controls(self) -> None:
        offer, look = self.host.offer, self.host.look
        self.controls: dict[str, Any] = {
            "subject": pn.widgets.Select(label="world or model", options=list(offer.subjects), width=SIDE),
            "start": pn.widgets.TextInput(label="start", placeholder="the subject's own", width=SIDE),
            "end": pn.widgets.TextInput(label="end", placeholder="the subject's own", width=SIDE),
            "sigma": Slider(look, "noise σ", value=OWN, stops=[("each lens's own", OWN)]),
            "metric": pn.widgets.Select(label="metric", options=["score"], width=SIDE),
            "background": pn.widgets.Select(label="background", options=list(BACKGROUNDS), width=SIDE),
            "regimes": pn.widgets.CheckBoxGroup(options=list(REGIMES), inline=True, width=SIDE),
            "lenses": pn.widgets.CheckBoxGroup(options=list(LENS_NAMES), inline=True, width=SIDE),
            "nodes": Slider(look, "nodes", value=17, start=5, end=101, step=2),
        }
        for control in self.controls.values():
            control.param.watch(self._controlled, "value")
        self.pictures = PictureFields(self.host, self._uploaded)
        self.view = FileField(look, "reopen a saved view (YAML)", accept=".yaml,.yml", most=VIEW_BYTES)
        self.view.param.watch(self._reopened, "file")
        self.distortion = pn.widgets.CheckBoxGroup(options=[DISTORTION], width=SIDE)
        self.distortion.param.watch(self._distorted, "value")
        self.text = pn.pane.Str("", visible=False, styles=_WIDE)
        self.save = pn.widgets.FileDownload(
            callback=lambda: io.StringIO(view_of(self._own_state())), filename="view.yaml", label="Save view",
            width=SIDE,
        )  # fmt: skip
        self.buttons = {
            "Cancel": self._cancel,
            "Precompute noise levels": lambda: self._levels.submit(self.bench.state, "full"),
            "Copy as parameters": lambda: self._tell(self._own_state().as_cell()),
            "Cite this view": lambda: self._tell(self.session.citations()),
        }
        made = [pn.widgets.Button(label=name) for name in self.buttons]
        for button, action in zip(made, self.buttons.values(), strict=True):
            button.on_click(lambda _, action=action: action())
        asked = {name: self.controls[name] for name in ("lenses", "regimes")}
        self.side = [
            *(control for name, control in self.controls.items() if name not in asked),
            *(
                part
                for name, control in asked.items()
                for part in (pn.pane.HTML(f'<span id="{name}">{name}</span>', margin=(4, 10, 0, 10)), control)
            ),
            self.distortion, self.pictures, self.view, pn.FlexBox(*made, gap="0px"), self.save, self.text,
        ]  # fmt: skip

    def _own_state(self) -> BenchState:
        """The state for a run outside the page, where a model is known by its path."""
        return self.host.offer.portable(self.bench.state, self.bench.place.subject)

    def _show_state(self) -> None:
        """Make the controls say what the state is."""
        state, subject = self.bench.state, self.bench.place.subject
        levels = [] if not subject.flows else [(f"{level:.3g}", level) for level in level_grid(subject)]
        if state.sigma is not None and state.sigma not in [level for _, level in levels]:
            levels = sorted([*levels, (f"{state.sigma:.3g}", state.sigma)], key=lambda stop: stop[1])
        self._syncing = True
        try:
            controls = self.controls
            controls["subject"].value = state.world or state.model
            controls["start"].value, controls["end"].value = state.start, state.end
            controls["sigma"].param.update(
                stops=[("each lens's own", OWN), *levels], value=OWN if state.sigma is None else state.sigma
            )
            metrics = list(dict.fromkeys((*metrics_for(subject), state.metric)))
            controls["metric"].param.update(options=metrics, value=state.metric)
            controls["background"].value, controls["nodes"].value = state.background, state.nodes
            controls["regimes"].options = [name for name in REGIMES if name in subject.regimes]
            controls["regimes"].value = [name for name in state.regime_names if name in subject.regimes]
            controls["lenses"].value = list(state.lens_names)
        finally:
            self._syncing = False
        self.pictures.show(pictured(subject, self.host.offer), state.start, state.end)
        self.host.remember(self.name, self.values())

    def _controlled(self, event: Any) -> None:
        if self._syncing:
            return
        name = next(name for name, control in self.controls.items() if control is event.obj)
        if name == "subject":
            self._take(lambda: self.bench.with_subject(**self.host.offer.entries(event.new)))
            return
        value = event.new
        if name in ("regimes", "lenses"):
            value = ",".join(value)
        elif name == "nodes":
            value = int(value)
        elif name == "sigma":
            value = None if value == OWN else value
        self._take(lambda: self.bench.state.but(**{name: value}))

    def _uploaded(self, end: str, name: str) -> None:
        state, offer = self.bench.state, self.host.offer
        if not self.bench.place.subject.pictures:
            state = self.bench.with_subject(**offer.entries(offer.pictured))
        name = offer.facing(name, offer.open_subject(state))
        self._take(lambda: state.but(**{end: name}))

    def _reopened(self, _: Any) -> None:
        self._open(lambda: self.view.content())

    def _dropped(self, event: Any) -> None:
        self._open(lambda: str(event.new.get("text", "")).encode())

    def _open(self, content: Callable[[], bytes]) -> None:
        """Look at a saved view that came from the browser."""

        def read() -> BenchState:
            values = view_parameters(view_text(content()), source="the uploaded view")
            return state_of(bearable(values))

        self._take(read)

    def _gestured(self, gesture: Gesture) -> None:
        try:
            asked = self.session.after(gesture)
        except (WorkbenchError, LookupError, ValueError, OSError) as error:
            self.host.fail(error)
            return
        if asked is not None:
            self._take(lambda: asked[0], speed=asked[1])

    def _take(self, make: Callable[[], BenchState], *, speed: Any = "full") -> None:
        """Look at a state; what is wrong with it is one sentence, and the old one stays."""
        try:
            state = make()
            bearable(state.as_dict())
            subject = self.host.offer.open_subject(state)
            subject.ends(state.start, state.end)
            if speed == "full":
                self.host.busy()
            self.bench.look_at(state, speed=speed)
        except (WorkbenchError, LookupError, ValueError, OSError) as error:
            self.host.fail(error)

    def _distorted(self, event: Any) -> None:
        self.session.distortion = DISTORTION in event.new
        self.canvas.show(**self.session.scene())

    def _redraw_table(self) -> None:
        """The second panel has other numbers now: mark what differs."""
        self.table.object = self.session.table(changed=self.second.changed())

    def _cancel(self) -> None:
        self._levels.cancel()
        self.bench.cancel()

    def _tell(self, text: str) -> None:
        self.text.object = self.canvas.clip = text
        self.text.visible = True

    # -- what the bench says, from its worker's thread; pictures are made there and shown in the page's turn

    def _heard(self, event: BenchEvent) -> None:
        later = self.host.later
        if event.what == "state":
            later(self._new_state, event)
        elif event.what == "progress":
            self.host.advance(event.share)
        elif self.session.draws(event):
            later(self._show, {"scene": self.session.scene(), "badge": self.session.badge()})
        elif event.what == "table":
            later(self._show, self._drawn(full=event.speed == "full"))
        elif event.what == "error":
            later(self.host.fail, event.words)
        elif event.what == "done":
            later(self._done, event)
        elif event.what == "idle":
            later(self._rest)

    def _drawn(self, *, full: bool) -> dict[str, Any]:
        """Everything that is shown of an answer, made in the worker's thread."""
        session = self.session
        table = session.table(changed=self.second.changed())
        made = {"scene": session.scene(), "badge": session.badge(), "table": table}
        result = session.result()
        if not full or result is None:
            return made
        made |= {"words": session.words(), "thumbs": session.thumbs()}
        if result.place.subject.pictures and result.lines:
            with torch.no_grad():
                strip = strip_of(result)
            made["strip"] = strip_figure(strip, result.place.subject, theme=self.host.look, width=SIZES.width)
        return made

    def _new_state(self, event: BenchEvent) -> None:
        if event.state != self.bench.state:
            return
        if not self.bench.answers:  # another subject: nothing that is still shown was said of it
            self.words.object = self.table.object = self.badge.object = ""
            self.strip.hide()
            self.marks.hide()
        if event.speed == "full":
            self._show_state()
            self.canvas.show(**self.session.frame())
        self.canvas.show(busy=True, note="")

    def _show(self, made: dict[str, Any]) -> None:
        self.canvas.show(**made["scene"], **made.get("thumbs", {}))
        self.badge.object = made["badge"]
        for name in ("table", "words"):
            if name in made:
                getattr(self, name).object = made[name]
        if "strip" in made:
            self.strip.show(made["strip"])
        elif not self.bench.place.subject.pictures:
            self.strip.hide()

    def _done(self, event: BenchEvent) -> None:
        if event.speed != "full":
            return
        answers = self.bench.answers.values()
        bad = [said.lens for said in answers if said.report is not None and not said.report.converged]
        mute = [said.lens for said in answers if not said.says_something]
        if len(mute) == len(answers):
            text = "no lens has an answer; below it says why"
        elif bad:
            text = f"not converged: {', '.join(bad)}"
        else:
            text = (
                f"nothing to say: {', '.join(mute)}; the others converged" if mute else "all lenses converged"
            )
        doubtful = bool(bad) or len(mute) == len(answers)
        words = "<br>".join(filter(None, (f"{'▲' if doubtful else '●'} {text}", event.words)))
        self.host.say(words, "warning" if doubtful else "idle")

    def _rest(self) -> None:
        self.canvas.busy = False

    # -- the noise scrubber

    def _scrub(self, state: BenchState, speed: str, cancel: threading.Event, progress: Progress) -> Scrub:
        if not self.bench.place.subject.flows:
            raise SettingError(
                "noise levels of an energy", "a world or a model with noise", "another subject"
            )
        return scrub_levels(self.bench, state=state, progress=progress, cancel=cancel)

    def _scrubbed(self, outcome: Outcome) -> None:
        if outcome.error:
            self.host.fail(outcome.error)
            return
        self.session.scrub = outcome.value
        current = self.bench.state.sigma
        self.marks.show(scrubber_figure(outcome.value, current=current, theme=self.host.look))
        levels = len(outcome.value.results)
        self.host.say(f"● {levels} noise levels are at hand: move the slider.")


def _first_look(offer: Offer) -> BenchState:
    """The state of a first look: one's own model in a metric and regimes that it has, or a known world."""
    if not offer.first:
        return state_of({"world": "v_mixture"})
    state = state_of({"model": offer.first})
    return suited(state, offer.open_subject(state))
