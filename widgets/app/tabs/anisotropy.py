"""The tab of the anisotropy lens: what two architectures prefer before they are trained."""

import dataclasses
import threading
from typing import Any

import panel as pn

from widgets.app.host import FigurePane, Host
from widgets.app.inputs import SIDE, Slider
from widgets.app.link import differences
from widgets.app.offer import bearable
from widgets.cells import read_values, write_cell
from widgets.figures.status import status_line
from widgets.figures.turns import BASES
from widgets.scheduling import Outcome, Progress, sentence_of
from widgets.sessions.anisotropy import (
    BUSY,
    OWN,
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
    train_state,
    trial_figures,
    verdict,
)
from workbench.anisotropy.pairs import Lay
from workbench.anisotropy.selfcheck import check_anisotropy
from workbench.anisotropy.trials import DATA, Trial
from workbench.architectures import ARCHITECTURES
from workbench.errors import WorkbenchError

_SHOWN = {words.removeprefix("turned by "): key for key, words in BASES.items()}
_ASKED = {"learner", "images", "basis", "steps", "seeds", "data"}
"""Settings that count once a button asks for what they belong to."""
_WHOLE = {"level", "networks", "steps", "seeds"}
TRIAL_STEPS = 100
"""Optimiser steps of the test by training where the state asks for none: one machine serves all visitors."""
_FIRST = {"architecture": "unet8-time", "other": "dit8-2", "networks": 48}
"""Small architectures: a visitor sees something within seconds."""


class AnisotropyTab:
    """Directions of two architectures.

    Args:
        host: The page's services.
        values: Entries of the state, from outside; None for a first look.
    """

    name, title = "anisotropy", "Anisotropy"

    def __init__(self, host: Host, values: dict[str, Any] | None) -> None:
        self.host = host
        self.state = read_values(AnisotropyState, _FIRST if values is None else bearable(values))
        check_state(self.state)
        names = [architecture.name for architecture in ARCHITECTURES]
        asked = dict(zip(names, names, strict=True)) | {"the model's own": OWN}
        self.figures = {
            name: FigurePane()
            for name in (
                "spectrum", "gallery", "gallery_other", "map", "confidence", "alignment", "basis",
                "measurement", "curves", "harmonics",
            )
        }  # fmt: skip
        self.lay: Lay | None = None
        self.controls: dict[str, Any] = {
            "architecture": pn.widgets.Select(label="architecture", options=asked, width=SIDE),
            "other": pn.widgets.Select(label="beside it", options=asked, width=SIDE),
            "model": pn.widgets.Select(label="opened model", options=list(host.offer.models), width=SIDE),
            "probe": pn.widgets.Select(label="probe", options=["zero", "gaussian"], width=SIDE),
            "probe_std": Slider(
                host.look, "standard deviation of the probe", value=1, start=0.1, end=5.0, step=0.1
            ),
            "level": Slider(host.look, "noise level (−1: all)", start=-1, end=999, step=1),
            "networks": Slider(host.look, "networks", value=48, start=16, end=400, step=8),
            "learner": pn.widgets.Select(label="learner", options=names, width=SIDE),
            "data": pn.widgets.Select(label="it learns a", options=list(DATA), width=SIDE),
            "steps": Slider(host.look, f"steps (0: {TRIAL_STEPS})", value=0, start=0, end=200, step=10),
            "seeds": Slider(host.look, "seeds", value=1, start=1, end=5, step=1),
            "images": pn.widgets.Select(label="images", options=["digits", "fashion"], width=SIDE),
            "basis": pn.widgets.RadioButtonGroup(label="images shown", options=_SHOWN, width=SIDE),
        }
        self.align = pn.widgets.Button(label="Align the images")
        self.train = pn.widgets.Button(label="Train a pair")
        self.resolve = pn.widgets.Button(label="Harmonics of the model")
        self.check = pn.widgets.Button(label="Self-check")
        self.cancel = pn.widgets.Button(label="Cancel")
        self.copy = pn.widgets.Button(label="Copy as parameters")
        self.parameters = pn.pane.Str("", visible=False, styles={"overflow-x": "auto", "max-width": "100%"})
        self._syncing = False
        self._scheduler = host.scheduler(self._solve, self._deliver, lambda: None)
        self._show_state()
        for control in self.controls.values():
            control.param.watch(self._controlled, "value")
        self.cancel.on_click(lambda _: self._scheduler.cancel())
        self.copy.on_click(self._copied)
        self.align.on_click(lambda _: self._submit("align"))
        self.train.on_click(lambda _: self._submit("train"))
        self.resolve.on_click(lambda _: self._submit("harmonics"))
        self.check.on_click(lambda _: self._submit("check"))
        self.side = [
            *self.controls.values(),
            pn.Row(self.train, self.align),
            pn.Row(self.resolve, self.check),
            pn.Row(self.cancel, self.copy),
            self.parameters,
        ]
        self.main = pn.Column(*self.figures.values(), sizing_mode="stretch_width", margin=0)
        self._submit()

    def values(self) -> dict[str, Any]:
        """What a reload needs."""
        return differences(self.state)

    def _show_state(self) -> None:
        self._syncing = True
        try:
            for name, control in self.controls.items():
                control.value = getattr(self.state, name)
        finally:
            self._syncing = False
        self.controls["probe_std"].visible = self.state.probe == "gaussian"
        self.host.remember(self.name, self.values())

    def _controlled(self, event: Any) -> None:
        if self._syncing:
            return
        name = next(name for name, control in self.controls.items() if control is event.obj)
        try:
            value = (
                int(event.new)
                if isinstance(self.controls[name], Slider) and name != "probe_std"
                else event.new
            )
            state = self.state.but(**{name: value})
            bearable(dataclasses.asdict(state))
            check_state(state)
        except WorkbenchError as error:
            self.host.fail(error)
            return
        old, self.state = self.state, state
        self._show_state()
        if name == "basis":
            self._turn()
        elif name in ("learner", "images") and getattr(old, name) != value:
            self.lay = None  # it belonged to another learner or other images
        if name == "model":
            self.figures["harmonics"].hide()
        if name not in _ASKED and not (name == "model" and OWN not in (state.architecture, state.other)):
            self._submit()

    def _copied(self, _: Any) -> None:
        own = self.state.but(model=self.host.offer.named(self.state.model))
        self.parameters.object = write_cell(own)
        self.parameters.visible = True

    def _submit(self, task: str = "look") -> None:
        self.host.busy()
        self._scheduler.submit((task, self.state), "full")

    def _solve(
        self, asked: tuple[str, AnisotropyState], speed: str, cancel: threading.Event, progress: Progress
    ) -> tuple[str, Any]:
        task, state = asked
        if task == "check":
            return task, check_anisotropy()
        if task == "align":
            return task, (state, align_state(state, cancel, progress))
        if task == "train":
            return task, train_state(state.but(steps=state.steps or TRIAL_STEPS), cancel, progress)
        if task == "harmonics":
            return task, find_model_harmonics(state, cancel, self.host.offer.open_model)

        def shown(results: Results) -> None:
            if not cancel.is_set():
                self.host.later(self._show, results)

        return task, find_results(state, cancel, progress, shown, self.host.offer.open_model)

    def _deliver(self, outcome: Outcome) -> None:
        if outcome.error:
            self.host.fail(outcome.error)
            return
        task, value = outcome.value
        if task == "check":
            self.host.say(*checks_sentence(value))
            return
        if task == "align":
            asked, lay = value
            if not lies_as_asked(asked, self.state):
                self.host.say(f"That was {asked.images} for {asked.learner}: align again.", "warning")
                return
            self.lay = lay
            self._turn()
            self.host.say(lay_sentence(lay))
            return
        if task == "harmonics":
            self.figures["harmonics"].show(harmonics_figure(value, self.host.look))
            self.host.say(harmonics_sentence(value))
            return
        if task == "train":
            self._show_trials(value, outcome.stopped)
            return
        self._show(value)
        first = next(iter(value.values()))
        notes = [
            *first.report.warnings,
            *(["stopped by you: what was summed so far"] if outcome.stopped else []),
        ]
        kind = "idle" if first.report.converged else "warning"
        self.host.say("<br>".join([status_line(first.report, first.provenance), *notes]), kind)

    def _turn(self) -> None:
        """Show the images in the basis that is chosen: one click, no computation, once they are aligned."""
        if self.lay is None:
            if self._scheduler.busy:
                self.host.say(BUSY)
            else:
                self._submit("align")
            return
        for name, drawing in lay_figures(self.lay, self.state.basis, self.host.look).items():
            self.figures[name].show(drawing)

    def _show_trials(self, trials: list[Trial], stopped: bool) -> None:
        try:
            measured = measure_trials(trials)
        except WorkbenchError as error:
            self.host.say(f"Nothing to compare: {sentence_of(error)}.", "warning")
            return
        for name, drawing in trial_figures(measured, trials, self.host.look).items():
            self.figures[name].show(drawing)
        self.host.say(verdict(measured, stopped=stopped))

    def _show(self, results: Results) -> None:
        for name, drawing in look_figures(results, self.host.look).items():
            self.figures[name].show(drawing)
