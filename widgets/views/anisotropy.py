"""The view of the anisotropy lens: what two architectures prefer, and whether training agrees."""

import dataclasses
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ipywidgets
import torch
import traitlets

from widgets.cells import read_cell, read_values, write_cell
from widgets.controls import STYLE, FigureBox, StatusBar, narrow, number_slider
from widgets.figures.anisotropy import confidence_figure, figure, gallery_figure, rayleigh_figure
from widgets.figures.status import sentence, status_line
from widgets.figures.trials import comparison_figure, curves_figure, linear_figure
from widgets.scheduling import Outcome, Progress, Scheduler, sentence_of
from widgets.theme import theme_of
from workbench.anisotropy.comparison import Comparison, compare_trials
from workbench.anisotropy.denoising import DenoisingSettings
from workbench.anisotropy.levels import ddpm_levels
from workbench.anisotropy.linear_theory import linear_diffusion
from workbench.anisotropy.probes import ZERO, gaussian_probe
from workbench.anisotropy.selfcheck import check_anisotropy
from workbench.anisotropy.trials import Trial, train_direction
from workbench.architectures import ARCHITECTURES, load_architecture
from workbench.errors import SettingError, WorkbenchError
from workbench.lenses.anisotropy import DirectionsResult, find_directions

COARSE = 16
"""Networks of the first, coarse answer."""
SETTLE = 0.25
"""Seconds that a control must rest before an answer is computed."""
TRIAL_STEPS = 300
"""Optimiser steps of the test by training where the state asks for none."""


@dataclass(frozen=True, slots=True)
class AnisotropyState:
    """What to look at: the parameters of the notebook `30_anisotropy`. JSON-able.

    Attributes:
        architecture: Whose directions are shown.
        other: The architecture beside it; the same name for none.
        probe: "zero" or "gaussian".
        probe_std: Standard deviation of a Gaussian probe.
        level: One noise level of the thousand; -1 averages over all.
        networks: Untrained networks of each.
        reference: Networks of the notebook's reference.
        learner: Which architecture learns along its own directions.
        steps: Optimiser steps of the test by training.
        seeds: Networks trained along each direction.
        directions: Directions learnt.
        images: Real images of the notebook.
        image_steps: Steps on them in the notebook.
        device: Where to compute.
        seed: Keys all draws.
    """

    architecture: str = "unet16"
    other: str = "dit16-4"
    probe: str = "zero"
    probe_std: float = 1.0
    level: int = -1
    networks: int = 120
    reference: int = 200
    learner: str = "unet8-time"
    steps: int = 0
    seeds: int = 1
    directions: int = 2
    images: str = "digits"
    image_steps: int = 0
    device: str = "cpu"
    seed: int = 0

    def but(self, **changes: Any) -> "AnisotropyState":
        """The state with some entries changed."""
        return read_values(AnisotropyState, {**dataclasses.asdict(self), **changes})


class AnisotropyExplorer(ipywidgets.VBox):
    """Directions of two architectures, found again as the probe and the noise level are moved.

    A coarse answer from a few networks comes first, the full one when all are in. A button trains a pair of
    networks along the learner's ends and draws predicted against measured.

    Args:
        architecture: A shipped architecture's name.
        other: A second one beside it.
        theme: "light" or "dark".
        settings: Further entries of `AnisotropyState`.

    Raises:
        SettingError: For an unknown name or setting.
    """

    state = traitlets.Instance(AnisotropyState)
    results = traitlets.Dict()
    measured = traitlets.Instance(Comparison, allow_none=True)
    _scheduler: Scheduler = None  # type: ignore[assignment]  # a view whose settings are refused has none

    def __init__(
        self, architecture: str = "unet16", other: str = "dit16-4", *, theme: str = "light", **settings: Any
    ) -> None:
        self._look = theme_of(theme)
        state = read_values(AnisotropyState, {"architecture": architecture, "other": other, **settings})
        _check(state)
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
        return self.results.get(self.state.architecture)

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
        _check(state)
        self.state = state

    def train(self) -> None:
        """Train a pair of networks along the learner's directions and measure them."""
        self._submit("train")

    def check(self) -> None:
        """Compare closed forms and the linear theory with what this machine computes."""
        self._submit("check")

    def wait(self, timeout: float = 120.0) -> bool:
        """Block until the answer to the last request is on the screen; False if that took longer."""
        return self._scheduler.wait(timeout)

    def cancel(self) -> None:
        """Stop computing and keep what has been summed."""
        self._scheduler.cancel()

    def close(self) -> None:
        """Stop computing and remove the view."""
        if self._scheduler is not None:
            self._scheduler.close()
        super().close()

    # -- controls

    def _build_controls(self, state: AnisotropyState) -> None:
        names = [a.name for a in ARCHITECTURES]
        self.controls: dict[str, Any] = {
            name: ipywidgets.Dropdown(
                options=options, value=getattr(state, name), description=words, layout=narrow(), style=STYLE
            )
            for name, options, words in (
                ("architecture", names, "architecture"),
                ("other", names, "beside it"),
                ("probe", ["zero", "gaussian"], "probe"),
                ("learner", names, "learner"),
            )
        }
        self.controls |= {
            "probe_std": number_slider("probe std", state.probe_std, 0.1, 5.0, step=0.1),
            "level": number_slider("noise (−1: all)", state.level, -1, 999, step=1),
            "networks": number_slider("networks", state.networks, 16, 1000, step=8),
            "steps": number_slider("training steps", state.steps, 0, 1000, step=50),
            "seeds": number_slider("seeds", state.seeds, 1, 5, step=1),
        }
        for control in self.controls.values():
            control.observe(self._controlled, "value")
        self.buttons = {
            "train": _button("Train a pair", self.train),
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
            ipywidgets.HBox([self.measurement, self.curves], layout=wrap),
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
            _check(change["new"])
        except WorkbenchError as error:
            self.status.say(sentence_of(error), kind="error")
            return
        self._show_controls(change["new"])
        training = {"learner", "steps", "seeds", "directions"}
        old, new = (dataclasses.asdict(change[side]) for side in ("old", "new"))
        if {name for name in new if new[name] != old[name]} - training:
            self._submit("look", delay=SETTLE)

    def _submit(self, task: str, *, delay: float = 0.0) -> None:
        self.status.start()
        self.status.say("computing …")
        self._scheduler.submit((task, self.state), "full", delay=delay)

    # -- answers, on the worker's thread

    def _solve(
        self, asked: tuple[str, AnisotropyState], speed: str, cancel: threading.Event, progress: Progress
    ) -> Any:
        task, state = asked
        if task == "check":
            return task, check_anisotropy()
        if task == "train":
            return task, self._train(state, cancel, progress)
        names = dict.fromkeys((state.architecture, state.other))
        for networks in (COARSE, state.networks):
            results = {}
            for name in names:
                results[name] = find_directions(
                    name, networks=networks, progress=progress, cancel=cancel, **_settings(state)
                )
            if networks == COARSE < state.networks and not cancel.is_set():
                self._show(results)
            if cancel.is_set():
                break
        return task, results

    def _train(self, state: AnisotropyState, cancel: threading.Event, progress: Progress) -> list[Trial]:
        architecture = load_architecture(state.learner)
        spectrum = find_directions(
            architecture, networks=max(200, state.networks), seed=state.seed, device=state.device, tol=1.0
        ).spectrum
        steps = state.steps or TRIAL_STEPS
        ends = [round(i * (spectrum.dim - 1) / (state.directions - 1)) for i in range(state.directions)]
        plan = [(index, seed) for index in ends for seed in range(state.seeds)]
        trials = []
        for place, (index, seed) in enumerate(plan):
            if cancel.is_set():
                break
            trials.append(
                train_direction(
                    architecture,
                    spectrum.direction(index)[None],
                    settings=DenoisingSettings(steps=steps),
                    seed=state.seed + seed,
                    eigenvalue=spectrum.eigenvalue(index),
                    stops=[s for s in (steps // 4, steps // 2) if s],
                    device=state.device,
                    progress=lambda share, words, place=place: progress((place + share) / len(plan), words),
                    cancel=cancel,
                )
            )
        return trials

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
        elif task == "check":
            failed = [check for check in value if not check.passed]
            text = "<br>".join(f"{c.name}: {c.got:.6g} for {c.expected:.6g}" for c in failed)
            self.status.say(text or f"All {len(value)} checks pass.", kind="warning" if failed else "idle")
        else:
            self._show_trials(value)

    def _show(self, results: dict[str, DirectionsResult]) -> None:
        look, names = self._look, list(results)
        first, last = results[names[0]], results[names[-1]]
        self.spectrum.show(figure(results if len(results) > 1 else first, theme=look))
        self.confidence.show(confidence_figure(first, theme=look, width=530))
        self.gallery.show(gallery_figure(first, theme=look))
        self.gallery_other.show(gallery_figure(last, theme=look))
        self.map.show(rayleigh_figure(first.geometry, theme=look))
        self.results = results

    def _show_trials(self, trials: list[Trial]) -> None:
        if len({t.eigenvalue for t in trials}) < 2:
            why = "The learner prefers no direction" if len(trials) > 1 else "Stopped before two directions"
            self.status.say(f"{why}: nothing to compare.", kind="warning")
            return
        measured = compare_trials(trials)
        self.measurement.show(comparison_figure(measured, trials, theme=self._look, width=530))
        last = next(t for t in trials if t.eigenvalue == trials[-1].eigenvalue)  # of the first seed
        ends = {"λ_min": trials[0], "λ_max": last}
        self.curves.show(curves_figure(ends, theme=self._look, width=530))
        agrees = "as conjectured" if measured.rank_correlation > 0 else "against the conjecture"
        self.status.say(f"Rank correlation {measured.rank_correlation:+.2f}: {agrees}.")
        self.measured = measured

    def __repr__(self) -> str:
        return f"AnisotropyExplorer({self.state.architecture}, {self.status.text or 'idle'})"


def _settings(state: AnisotropyState) -> dict[str, Any]:
    levels = ddpm_levels()
    return {
        "probe": gaussian_probe(state.probe_std) if state.probe == "gaussian" else ZERO,
        "levels": levels if state.level < 0 else levels.only(state.level),
        "seed": state.seed,
        "device": state.device,
        "dtype": torch.float32,
    }


def _check(state: AnisotropyState) -> None:
    for name in (state.architecture, state.other, state.learner):
        load_architecture(name)
    if state.probe not in ("zero", "gaussian"):
        raise SettingError(f"probe {state.probe!r}", "zero or gaussian")
    if state.directions < 2 or state.seeds < 1 or state.networks < 2:
        raise SettingError(
            f"{state.directions} directions, {state.seeds} seeds, {state.networks} networks",
            "at least 2, 1 and 2",
        )
    _settings(state)


def _button(words: str, action) -> ipywidgets.Button:
    button = ipywidgets.Button(description=words, layout=ipywidgets.Layout(width="auto"))
    button.on_click(lambda _: action())
    return button
