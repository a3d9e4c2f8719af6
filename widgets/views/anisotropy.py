"""The view of the anisotropy lens: what two architectures prefer, and whether training agrees."""

import dataclasses
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ipywidgets
import traitlets

from widgets.cells import read_cell, read_values, write_cell
from widgets.controls import STYLE, FigureBox, StatusBar, narrow, number_slider
from widgets.figures.status import sentence, status_line
from widgets.figures.trials import linear_figure
from widgets.figures.turns import BASES
from widgets.scheduling import Outcome, Progress, Scheduler, sentence_of
from widgets.sessions.anisotropy import (
    BUSY,
    OWN,
    TRIAL_STEPS,
    UNASKED,
    AnisotropyState,
    Results,
    align_state,
    check_state,
    checks_sentence,
    find_model_harmonics,
    find_results,
    harmonics_figure,
    harmonics_sentence,
    lay_figures,
    lay_sentence,
    lies_as_asked,
    look_figures,
    measure_trials,
    opener_of,
    train_state,
    trial_figures,
    verdict,
)
from widgets.theme import theme_of
from widgets.views.solving import SolvingView
from workbench.anisotropy.comparison import Comparison
from workbench.anisotropy.linear_theory import linear_diffusion
from workbench.anisotropy.pairs import Lay
from workbench.anisotropy.selfcheck import check_anisotropy
from workbench.anisotropy.trials import DATA, Trial
from workbench.architectures import ARCHITECTURES
from workbench.errors import WorkbenchError
from workbench.lenses.anisotropy import DirectionsResult
from workbench.models import Landscape, ScoreModel

__all__ = ["AnisotropyExplorer", "AnisotropyState"]

SETTLE = 0.25
"""Seconds that a control must rest before an answer is computed."""


class AnisotropyExplorer(SolvingView):
    """Directions of two architectures, found again as the probe and the noise level are moved.

    A coarse answer from a few networks comes first, the full one when all are in. A button trains a pair of
    networks along the learner's ends and draws predicted against measured. An opened model takes part with
    its architecture, copies of its network started anew, and, as it was trained, with its harmonics.

    Args:
        architecture: A shipped architecture's name; "model" for that of the opened model.
        other: A second one beside it.
        model: The opened model: a shipped name, a file or folder, or one in memory.
        theme: "light" or "dark".
        settings: Further entries of `AnisotropyState`.

    Raises:
        SettingError: For an unknown name or setting.
    """

    state = traitlets.Instance(AnisotropyState)
    results = traitlets.Dict()
    measured = traitlets.Instance(Comparison, allow_none=True)

    def __init__(
        self,
        architecture: str = "unet16",
        other: str = "dit16-4",
        *,
        model: str | Path | ScoreModel | Landscape = "digits",
        theme: str = "light",
        **settings: Any,
    ) -> None:
        self._look = theme_of(theme)
        self._open, name = opener_of(model)
        first = {"architecture": architecture, "other": other, "model": name, **settings}
        state = read_values(AnisotropyState, first)
        check_state(state)
        self._syncing = False
        self.status = StatusBar(lambda: self.cancel(), theme=self._look)
        waiting = sentence("This appears with the first answer.", theme=self._look)
        self.spectrum, self.confidence = FigureBox(waiting), FigureBox(waiting)
        self.gallery, self.gallery_other, self.map = (
            FigureBox(waiting),
            FigureBox(waiting),
            FigureBox(waiting),
        )
        self.measurement, self.curves = FigureBox(waiting), FigureBox(waiting)
        self.theory = FigureBox(waiting)
        asked = sentence("This appears once the images are aligned.", theme=self._look)
        self.alignment, self.basis = FigureBox(asked), FigureBox(asked)
        self.harmonics = FigureBox(sentence(UNASKED, theme=self._look))
        self.lay: Lay | None = None
        self._build_controls(state)
        self._scheduler = Scheduler(
            lambda *asked: self._solve(*asked),
            deliver=self._deliver,
            progress=self.status.advance,
            idle=self.status.rest,
        )
        super().__init__(self._rows(), layout=ipywidgets.Layout(width="100%", max_width="1080px"))
        self.state = state
        self.theory.show(linear_figure(linear_diffusion(), theme=self._look, width=530))
        self.observe(self._restated, "state")
        self._submit("look")

    # -- reading and setting

    @property
    def result(self) -> DirectionsResult | None:
        """The directions of the first architecture, coarse or full."""
        return next(iter(self.results.values()), None)

    def to_parameters(self) -> str:
        """The parameters cell of the notebook `30_anisotropy` that shows what is on the screen."""
        return write_cell(self.state)

    def from_parameters(self, cell: str | Mapping[str, Any]) -> None:
        """Show what a parameters cell asks for.

        Raises:
            SettingError: If it is no parameters cell, or holds an unknown name.
        """
        state = (
            read_cell(AnisotropyState, cell) if isinstance(cell, str) else read_values(AnisotropyState, cell)
        )
        check_state(state)
        self.state = state

    def train(self) -> None:
        """Train a pair of networks along the learner's directions and measure them."""
        self._submit("train")

    def align(self) -> None:
        """Find how the images lie for the learner, and the rotations of least and most alignment."""
        self._submit("align")

    def resolve(self) -> None:
        """Find the harmonics of the opened model, as it was trained."""
        self._submit("harmonics")

    def check(self) -> None:
        """Compare closed forms and the linear theory with what this machine computes."""
        self._submit("check")

    # -- controls

    def _build_controls(self, state: AnisotropyState) -> None:
        names = [a.name for a in ARCHITECTURES]
        asked = [*zip(names, names, strict=True), ("the model's own", OWN)]
        self.controls: dict[str, Any] = {
            name: ipywidgets.Dropdown(
                options=options, value=getattr(state, name), description=words, layout=narrow(), style=STYLE
            )
            for name, options, words in (
                ("architecture", asked, "architecture"),
                ("other", asked, "beside it"),
                ("probe", ["zero", "gaussian"], "probe"),
                ("learner", names, "learner"),
                ("data", DATA, "it learns a"),
                ("images", ["digits", "fashion"], "images"),
                ("basis", [(words, key) for key, words in BASES.items()], "shown"),
            )
        }
        self.controls |= {
            "model": ipywidgets.Text(
                value=state.model,
                description="model",
                placeholder="a name or a path",
                continuous_update=False,
                layout=narrow(),
                style=STYLE,
            ),
            "probe_std": number_slider("probe std", state.probe_std, 0.1, 5.0, step=0.1),
            "level": number_slider("noise (−1: all)", state.level, -1, 999, step=1),
            "networks": number_slider("networks", state.networks, 16, 1000, step=8),
            "steps": number_slider(f"steps (0: {TRIAL_STEPS})", state.steps, 0, 1000, step=50),
            "seeds": number_slider("seeds", state.seeds, 1, 5, step=1),
        }
        for control in self.controls.values():
            control.observe(self._controlled, "value")
        self.buttons = {
            "train": _button("Train a pair", self.train),
            "align": _button("Align the images", self.align),
            "harmonics": _button("Harmonics of the model", self.resolve),
            "check": _button("Self-check", self.check),
            "copy": _button("Copy as parameters", self._copied),
        }
        hidden = ipywidgets.Layout(width="98%", height="150px", display="none")
        self.parameters = ipywidgets.Textarea(layout=hidden)
        self._show_controls(state)

    def _rows(self) -> list[ipywidgets.Widget]:
        wrap = ipywidgets.Layout(flex_flow="row wrap", align_items="flex-start")
        side = ipywidgets.VBox(
            [
                *self.controls.values(),
                ipywidgets.HBox([*self.buttons.values(), self.status.cancel], layout=wrap),
                self.parameters,
            ],
            layout=ipywidgets.Layout(width="380px"),
        )
        return [
            self.status,
            ipywidgets.HBox([self.spectrum, side], layout=wrap),
            self.gallery,
            self.gallery_other,
            self.map,
            ipywidgets.HBox([self.confidence, self.theory], layout=wrap),
            ipywidgets.HBox([self.alignment, self.basis], layout=wrap),
            ipywidgets.HBox([self.measurement, self.curves], layout=wrap),
            self.harmonics,
        ]

    def _show_controls(self, state: AnisotropyState) -> None:
        self._syncing = True
        try:
            for name, control in self.controls.items():
                if control.value != getattr(state, name):
                    control.value = getattr(state, name)
        finally:
            self._syncing = False
        self.controls["probe_std"].layout.display = None if state.probe == "gaussian" else "none"

    def _controlled(self, change: Any) -> None:
        if not self._syncing:
            name = next(n for n, control in self.controls.items() if control is change["owner"])
            self.state = self.state.but(**{name: change["new"]})

    def _copied(self) -> None:
        self.parameters.value = self.to_parameters()
        self.parameters.layout.display = None

    def _restated(self, change: Any) -> None:
        try:
            check_state(change["new"])
        except WorkbenchError as error:
            self.status.say(sentence_of(error), kind="error")
            return
        self._show_controls(change["new"])
        if any(getattr(change["new"], n) != getattr(change["old"], n) for n in ("learner", "images", "seed")):
            self.lay = None  # it belonged to another learner or other images
        if change["new"].basis != change["old"].basis:
            self._turn(change["new"].basis)
        if change["new"].model != change["old"].model:
            self.harmonics.show(sentence(UNASKED, theme=self._look))
        training = {"learner", "steps", "seeds", "directions", "data", "samples", "images", "basis"}
        if OWN not in (change["new"].architecture, change["new"].other):
            training |= {"model"}
        old, new = (dataclasses.asdict(change[side]) for side in ("old", "new"))
        if {name for name in new if new[name] != old[name]} - training:
            self._submit("look", delay=SETTLE)

    def _submit(self, task: str, *, delay: float = 0.0) -> None:
        self.status.start()
        self.status.say("computing …")
        self._request((task, self.state), "full", delay)

    # -- answers, on the worker's thread

    def _solve(
        self, asked: tuple[str, AnisotropyState], speed: str, cancel: threading.Event, progress: Progress
    ) -> Any:
        task, state = asked
        if task == "check":
            return task, check_anisotropy()
        if task == "align":
            return task, (state, align_state(state, cancel, progress))
        if task == "train":
            return task, train_state(state, cancel, progress)
        if task == "harmonics":
            return task, find_model_harmonics(state, cancel, self._open)
        return task, find_results(state, cancel, progress, self._show, self._open)

    def _deliver(self, outcome: Outcome) -> None:
        if outcome.error:
            self.status.say(outcome.error[:1].upper() + outcome.error[1:], kind="error")
            return
        task, value = outcome.value
        if task == "look":
            self._show(value)
            first = next(iter(value.values()))
            stopped = ["stopped by you: what was summed so far"] if outcome.stopped else []
            notes = [*first.report.warnings, *stopped]
            kind = "idle" if first.report.converged else "warning"
            self.status.say("<br>".join([status_line(first.report, first.provenance), *notes]), kind=kind)
        elif task == "align":
            asked, lay = value
            if not lies_as_asked(asked, self.state):
                self.status.say(f"That was {asked.images} for {asked.learner}: align again.", kind="warning")
                return
            self.lay = lay
            self._turn(self.state.basis)
            self.status.say(lay_sentence(lay))
        elif task == "harmonics":
            self.harmonics.show(harmonics_figure(value, self._look))
            self.status.say(harmonics_sentence(value))
        elif task == "check":
            text, kind = checks_sentence(value)
            self.status.say(text, kind=kind)
        else:
            self._show_trials(value, outcome.stopped)

    def _show(self, results: Results) -> None:
        for name, drawing in look_figures(results, self._look).items():
            getattr(self, name).show(drawing)
        self.results = results

    def _turn(self, basis: str) -> None:
        """Show the images in a basis: one click, no computation, once they are aligned."""
        if self.lay is None:
            if self.busy:
                self.status.say(BUSY)
            else:
                self._submit("align")
            return
        for name, drawing in lay_figures(self.lay, basis, self._look).items():
            getattr(self, name).show(drawing)

    def _show_trials(self, trials: list[Trial], stopped: bool) -> None:
        try:
            measured = measure_trials(trials)
        except WorkbenchError as error:
            self.status.say(f"Nothing to compare: {sentence_of(error)}.", kind="warning")
            return
        for name, drawing in trial_figures(measured, trials, self._look).items():
            getattr(self, name).show(drawing)
        self.status.say(verdict(measured, stopped=stopped))
        self.measured = measured

    def __repr__(self) -> str:
        return f"AnisotropyExplorer({self.state.architecture}, {self.status.text or 'idle'})"


def _button(words: str, action) -> ipywidgets.Button:
    button = ipywidgets.Button(description=words, layout=ipywidgets.Layout(width="auto"))
    button.on_click(lambda _: action())
    return button
