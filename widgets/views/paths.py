"""The view of the path lens: drag the ends, see the path, its barrier and whether to trust it."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets
import torch
import traitlets
from torch import Tensor

from widgets.canvas.canvas import Canvas
from widgets.canvas.scene import Gesture
from widgets.controls import (
    STYLE,
    FigureBox,
    StatusBar,
    end_picker,
    host_colour,
    narrow,
    noise_slider,
    number_slider,
)
from widgets.figures.filmstrip import filmstrip_figure
from widgets.figures.paths import profile_figure
from widgets.figures.status import sentence, status_line
from widgets.scheduling import Outcome, Scheduler, Speed, sentence_of
from widgets.sessions.paths import Answer, PathSession
from widgets.stage import Stage, stage_of, subject_of
from widgets.state import PathState, cell_of, state_from, state_of_cell
from widgets.theme import SIZES, Theme, theme_of
from widgets.views.solving import SolvingView
from workbench.errors import WorkbenchError
from workbench.lenses.paths import PathResult
from workbench.models import Landscape, ScoreModel
from workbench.subjects import Subject
from workbench.types import Points
from workbench.worlds import WORLDS

SETTLE = 0.25
"""Seconds that a control must rest before the full answer is computed."""

Place = str | int | Sequence[float] | Tensor


class PathExplorer(SolvingView):
    """Paths between two points, found again as the points are dragged.

    A coarse answer follows the pointer, the full one comes on release. Everything that is shown can be read
    and set from code: `state` (a frozen value), `result` (the last full path), `canvas`, `profile`,
    `filmstrip`.

    Args:
        subject: A world's or a shipped model's name, a folder with a model, or any score model or landscape.
        start: First end: coordinates, an index into the real images, a picture file, or a point; the
            subject's own if None.
        end: Last end.
        images: Samples that ends can be, shape (count, dim), for a model of one's own.
        theme: "light" or "dark".
        settings: Entries of `PathState`, e.g. regime="static", nodes=41.

    Raises:
        SettingError: For an unknown subject or setting.
    """

    state = traitlets.Instance(PathState)
    answer = traitlets.Instance(Answer, allow_none=True)

    def __init__(
        self,
        subject: str | ScoreModel | Landscape = "v_mixture",
        start: Place | None = None,
        end: Place | None = None,
        *,
        images: Points | None = None,
        theme: str = "light",
        **settings: Any,
    ) -> None:
        self._look = theme_of(theme)
        made, values = _subject_and_values(subject, start, end, images)
        self.session = PathSession(state_from({**values, **settings}), made)
        self._syncing = False
        self.status = StatusBar(lambda: self.cancel(), theme=self._look)
        self.canvas = Canvas(theme=self._look.name, layout=ipywidgets.Layout(width="100%"))
        self.canvas.on_gesture(self._gestured)
        self.profile = FigureBox(sentence("The profile appears with the first answer.", theme=self._look))
        self.filmstrip = FigureBox(sentence("The filmstrip appears with the first answer.", theme=self._look))
        self.facts = ipywidgets.HTML()
        self._build_controls()
        self._scheduler = Scheduler(
            lambda *asked: self.session.solve(*asked),
            deliver=self._deliver,
            progress=self.status.advance,
            idle=self._rest,
        )
        super().__init__(self._rows(), layout=ipywidgets.Layout(width="100%", max_width="1080px"))
        self.state = self.session.state
        self.canvas.show(**self.session.empty_scene(self._look))
        self.observe(self._restated, "state")
        self._submit("full")

    # -- reading and setting

    @property
    def result(self) -> PathResult | None:
        """The last path found, coarse or full."""
        answer: Answer | None = self.answer  # type: ignore[assignment] - a trait
        return None if answer is None else answer.result

    def to_parameters(self) -> str:
        """The parameters cell of the notebook `10_paths` that finds the path on the screen."""
        return cell_of(self.state)

    def from_parameters(self, cell: str | Mapping[str, Any]) -> None:
        """Show what a parameters cell asks for.

        Args:
            cell: The text of a parameters cell, or name to value.

        Raises:
            SettingError: If it is no parameters cell, or asks for another model than this view holds.
        """
        state = state_of_cell(cell) if isinstance(cell, str) else state_from(cell)
        if (state.world, state.model) != (self.state.world, self.state.model):
            self.session = PathSession(state)
            self._build_controls()
            self.children = self._rows()
            self.canvas.show(**self.session.empty_scene(self._look))
            self.state = self.session.state
            self._submit("full")
        else:
            self.state = state

    # -- controls

    def _build_controls(self) -> None:
        state, subject = self.session.state, self.session.subject
        images = None if subject.choices is None else len(subject.choices)
        self.start = end_picker("start", state.start, images=images)
        self.end = end_picker("end", state.end, images=images)
        self.regime = ipywidgets.Dropdown(
            options=subject.regimes, value=state.regime, description="regime", layout=narrow(), style=STYLE
        )
        self.sigma = _sigma_control(subject, state)
        self.gamma = number_slider("effort γ", state.gamma or 0.0, 0.0, 15.0, step=0.5)
        self.temperature = number_slider("temperature T", state.temperature, 0.0, 1.0, step=0.05)
        self.nodes = number_slider("nodes", state.nodes, 5, 161, step=2)
        self.copy = ipywidgets.Button(
            description="Copy as parameters",
            icon="copy",
            tooltip="the parameters cell of the notebook 10_paths",
            layout=ipywidgets.Layout(width="190px"),
        )
        self.copy.on_click(self._copied)
        self.parameters = ipywidgets.Textarea(
            layout=ipywidgets.Layout(width="98%", height="150px", display="none"), disabled=False
        )
        for name in ("start", "end", "regime", "gamma", "temperature", "nodes"):
            getattr(self, name).observe(self._controlled, "value")
        if self.sigma is not None:
            self.sigma.observe(self._controlled, "value")
        self._show_controls(state)

    def _rows(self) -> list[ipywidgets.Widget]:
        controls = [self.start, self.end, self.regime, self.gamma, self.temperature, self.nodes]
        if self.sigma is not None:
            controls.insert(3, self.sigma)
        buttons = ipywidgets.HBox([self.copy, self.status.cancel])
        side = ipywidgets.VBox(
            [*controls, buttons, self.parameters, self.facts], layout=ipywidgets.Layout(width="320px")
        )
        top = ipywidgets.HBox(
            [ipywidgets.Box([self.canvas], layout=ipywidgets.Layout(width="540px", max_width="100%")), side],
            layout=ipywidgets.Layout(flex_flow="row wrap", align_items="flex-start"),
        )
        figures = [self.profile, self.filmstrip] if self.session.subject.pictures else [self.profile]
        below = ipywidgets.HBox(figures, layout=ipywidgets.Layout(flex_flow="row wrap"))
        return [self.status, top, below]

    def _show_controls(self, state: PathState) -> None:
        """Make the controls say what the state is, and hide those that mean nothing in its regime."""
        self._syncing = True
        try:
            for name in ("start", "end", "regime", "gamma", "temperature", "nodes"):
                control, value = getattr(self, name), getattr(state, name)
                if control.value != value:
                    control.value = value
            level = state.sigma or 0.0
            if self.sigma is not None and self.sigma.value != level:
                stops = dict(self.sigma.options) | {f"{level:.3g}" if level else "the data": level}
                self.sigma.options = sorted(stops.items(), key=lambda stop: stop[1])
                self.sigma.value = level
        finally:
            self._syncing = False
        for control, regimes in (
            (self.gamma, ("mep", "principal")),
            (self.temperature, ("principal",)),
            (self.sigma, ("static",)),
        ):
            if control is not None:
                control.layout.display = None if state.regime in regimes else "none"

    def _controlled(self, change: Any) -> None:
        """A control was moved."""
        if self._syncing:
            return
        name = next(name for name in ("start", "end", "regime", "gamma", "temperature", "nodes", "sigma")
                    if getattr(self, name) is change["owner"])  # fmt: skip
        value = change["new"] if name != "sigma" else change["new"] or None
        if name in ("start", "end"):
            try:
                self.session.subject.point(str(value))
            except (WorkbenchError, OSError) as error:
                self._fail(sentence_of(error))
                return
        self.state = self.state.but(**{name: value})

    def _copied(self, _: Any) -> None:
        self.parameters.value = self.to_parameters()
        self.parameters.layout.display = None
        self.canvas.clip = self.parameters.value

    # -- gestures and requests

    def _gestured(self, gesture: Gesture) -> None:
        try:
            asked = self.session.after(gesture)
        except (WorkbenchError, LookupError, ValueError) as error:
            self._fail(sentence_of(error))
            return
        if asked is not None:
            self._take(*asked)

    def _restated(self, change: Any) -> None:
        if change["new"] is not self.session.state:
            self._take(change["new"], "full", delay=SETTLE)

    def _take(self, state: PathState, speed: Speed, *, delay: float = 0.0) -> None:
        """Make a state the view's own and ask for its answer."""
        try:
            state = self.session.filled(state)
            self.session.subject.ends(state.start, state.end)
            handles = self.session.handles(state)
        except (WorkbenchError, OSError) as error:
            self._fail(sentence_of(error))
            return
        self.session.state = state
        self.state = state
        self._show_controls(state)
        if speed == "full":
            self.canvas.show(**handles)
        self._submit(speed, delay=delay)

    def _submit(self, speed: Speed, *, delay: float = 0.0) -> None:
        self.canvas.busy = True
        self.canvas.note = ""
        if speed == "full":
            self.status.start()
            self.status.say("computing …")
        self._request(self.session.state, speed, delay)

    # -- answers, from the worker's thread

    def _deliver(self, outcome: Outcome) -> None:
        if outcome.error:
            self._fail(outcome.error)
            return
        answer: Answer = outcome.value
        self.canvas.show(**self.session.scene(answer, self._look))
        exact = None if answer.exact is None else answer.exact.barrier
        width = self._figure_width
        drawn = profile_figure(
            answer.result, theme=self._look, exact=exact, width=width, preview=answer.preview
        )
        self.profile.show(drawn)
        self.facts.value = facts_table(self.session.facts(answer), self._look)
        if answer.speed == "full" or not answer.result.report.converged:
            line = status_line(answer.result.report, answer.result.provenance)
            state, subject = answer.state, self.session.subject
            notes = [
                *subject.remarks(start=state.start, end=state.end),
                *answer.result.report.warnings,
                *(["stopped by you, best so far"] if outcome.stopped else []),
            ]
            kind = "idle" if answer.result.report.converged and not outcome.stopped else "warning"
            self.status.say("<br>".join([line, *notes]), kind=kind)
        if answer.speed == "full" and self.session.subject.pictures:
            subject, look = self.session.subject, self._look
            strip = filmstrip_figure(
                answer.result, subject.frame, decoder=subject.decoder, theme=look, width=width
            )
            self.filmstrip.show(strip)
        self.answer = answer

    @property
    def _figure_width(self) -> int:
        return SIZES.width if not self.session.subject.pictures else 530

    def _fail(self, text: str) -> None:
        self.status.say(text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."), kind="error")

    def _rest(self) -> None:
        self.canvas.busy = False
        self.status.rest()

    def __repr__(self) -> str:
        name, doing = self.session.subject.frame.name, self.status.text or "idle"
        return f"PathExplorer({name}, {self.state.regime}, {doing})"


def facts_table(rows: Sequence[tuple[str, str]], look: Theme) -> str:
    """Names and values as a small HTML table in the colours of the host."""
    name_style = f"text-align:left;font-weight:400;color:{host_colour('muted', look)};padding:1px 10px 1px 0"
    cells = "".join(
        f'<tr><th scope="row" style="{name_style}">{html.escape(name)}</th>'
        f'<td style="font-variant-numeric:tabular-nums">{html.escape(value)}</td></tr>'
        for name, value in rows
    )
    return (
        f'<table class="wb-facts" style="line-height:1.35;color:{host_colour("ink", look)}">{cells}</table>'
    )


def _sigma_control(subject: Subject, state: PathState) -> ipywidgets.SelectionSlider | None:
    """A noise slider where the subject has noise levels."""
    if not subject.flows:
        return None
    levels = subject.world.facts.levels if subject.world is not None else None
    low, high = levels or (max(subject.frame.sigma_min, 1e-3), subject.frame.sigma_max)
    return noise_slider(low, high, state.sigma)


def _subject_and_values(
    subject: str | ScoreModel | Landscape, start: Place | None, end: Place | None, images: Points | None
) -> tuple[Stage | None, dict[str, Any]]:
    """The subject of an object, or the state's entry that names one, with the ends as text."""
    ends = {name: place for name, place in (("start", start), ("end", end)) if place is not None}
    if isinstance(subject, str):
        texts = {name: _place_text(place) for name, place in ends.items()}
        return None, {("world" if subject in WORLDS else "model"): subject, **texts}
    points = {
        name: torch.as_tensor(place) for name, place in ends.items() if not isinstance(place, (str, int))
    }
    made = subject_of(subject, choices=images, **points)
    texts = {name: _place_text(place) for name, place in ends.items() if name not in points}
    return stage_of(made), {"model": made.frame.name, **texts}


def _place_text(place: Place) -> str:
    if isinstance(place, (str, int)):
        return str(place)
    return ",".join(f"{float(value):.9g}" for value in place)
