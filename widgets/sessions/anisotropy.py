"""The session behind an anisotropy view: its state, what it finds and trains, and what is drawn of it.

It knows no host. A notebook's view and a page's both hold one, so that they compute and draw the same.
"""

import dataclasses
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
import torch

from widgets.cells import read_values
from widgets.figures.anisotropy import confidence_figure, figure, gallery_figure, rayleigh_figure
from widgets.figures.trials import (
    BASES,
    alignment_figure,
    basis_figure,
    comparison_figure,
    curves_figure,
)
from widgets.scheduling import Progress
from widgets.theme import Theme
from workbench.anisotropy.comparison import Comparison, compare_trials, undecided
from workbench.anisotropy.denoising import DenoisingSettings
from workbench.anisotropy.levels import ddpm_levels
from workbench.anisotropy.pairs import Lay, find_lay, train_pairs
from workbench.anisotropy.probes import ZERO, gaussian_probe
from workbench.anisotropy.selfcheck import Check
from workbench.anisotropy.trials import DATA, Trial
from workbench.architectures import load_architecture
from workbench.data import load_images
from workbench.errors import SettingError
from workbench.lenses.anisotropy import DirectionsResult, find_directions

COARSE = 16
"""Networks of the first, coarse answer."""
TRIAL_STEPS = 300
"""Optimiser steps of the test by training where the state asks for none."""

Results = dict[str, DirectionsResult]


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
        data: What is learnt along them: "line" or "sphere".
        samples: Generated points of each measurement.
        directions: Directions learnt.
        images: Real images whose alignment is shown.
        image_steps: Steps on them in the notebook.
        model: The trained model of the notebook, by name or path.
        basis: Basis in which they are shown: "own", "w_min" or "w_max".
        follow: Steps over which the notebook follows networks in training.
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
    data: str = "line"
    samples: int = 500
    directions: int = 2
    images: str = "digits"
    image_steps: int = 0
    model: str = "digits"
    basis: str = "own"
    follow: int = 12
    device: str = "cpu"
    seed: int = 0

    def but(self, **changes: Any) -> "AnisotropyState":
        """The state with some entries changed."""
        return read_values(AnisotropyState, {**dataclasses.asdict(self), **changes})


def find_results(
    state: AnisotropyState,
    cancel: threading.Event,
    progress: Progress,
    shown: Callable[[Results], None] = lambda results: None,
) -> Results:
    """Directions of both architectures of a state.

    Args:
        state: What is asked.
        cancel: Stops with what was summed so far.
        progress: Told how far it is.
        shown: Given a coarse answer from a few networks before the full one is computed.
    """
    names = dict.fromkeys((state.architecture, state.other))
    for networks in (COARSE, state.networks):
        results = {}
        for name in names:
            results[name] = find_directions(
                name, networks=networks, progress=progress, cancel=cancel, **_settings(state)
            )
        if networks == COARSE < state.networks and not cancel.is_set():
            shown(results)
        if cancel.is_set():
            break
    return results


def train_state(state: AnisotropyState, cancel: threading.Event, progress: Progress) -> list[Trial]:
    """Train networks along the directions of a state's learner."""
    architecture = load_architecture(state.learner)
    networks = max(200, state.networks)
    found = find_directions(architecture, networks=networks, seed=state.seed, device=state.device, tol=1.0)
    return train_pairs(
        architecture,
        found.spectrum,
        directions=state.directions,
        seeds=state.seeds,
        data=state.data,
        settings=DenoisingSettings(steps=state.steps or TRIAL_STEPS),
        seed=state.seed,
        samples=state.samples,
        device=state.device,
        progress=progress,
        cancel=cancel,
    )


def align_state(state: AnisotropyState, cancel: threading.Event, progress: Progress) -> Lay:
    """Align a state's images with its learner.

    Raises:
        SettingError: If the learner takes samples of another size.
    """
    return find_lay(
        load_architecture(state.learner),
        load_images(state.images, split="sample").points,
        name=state.images,
        networks=max(200, state.networks),
        seed=state.seed,
        device=state.device,
        progress=progress,
        cancel=cancel,
    )


def lay_sentence(lay: Lay) -> str:
    """Where a data set lies, in one sentence."""
    return f"{lay.name} at {lay.alignment.position:.2f} of the way from W_min to W_max."


def checks_sentence(checks: tuple[Check, ...]) -> tuple[str, str]:
    """What a self-check found, and its kind: "idle" or "warning"."""
    failed = [check for check in checks if not check.passed]
    text = "<br>".join(f"{c.name}: {c.got:.6g} for {c.expected:.6g}" for c in failed)
    return text or f"All {len(checks)} checks pass.", "warning" if failed else "idle"


def lay_figures(lay: Lay, basis: str, look: Theme) -> dict[str, go.Figure]:
    """The figures of a data set's lay by name: alignment, basis."""
    turn = {"own": None, "w_min": lay.alignment.w_min, "w_max": lay.alignment.w_max}[basis]
    return {
        "alignment": alignment_figure({lay.name: lay.alignment}, theme=look, width=530),
        "basis": basis_figure(lay.points, turn, shape=lay.shape, name=basis, theme=look, width=530),
    }


def look_figures(results: Results, look: Theme) -> dict[str, go.Figure]:
    """The figures of an answer by name: spectrum, confidence, gallery, gallery_other, map."""
    names = list(results)
    first, last = results[names[0]], results[names[-1]]
    return {
        "spectrum": figure(results if len(results) > 1 else first, theme=look),
        "confidence": confidence_figure(first, theme=look, width=530),
        "gallery": gallery_figure(first, theme=look),
        "gallery_other": gallery_figure(last, theme=look),
        "map": rayleigh_figure(first.geometry, theme=look),
    }


def measure_trials(trials: list[Trial]) -> Comparison:
    """What trials say together.

    Raises:
        SettingError: If they cover no two directions that differ.
    """
    if len({t.eigenvalue for t in trials}) < 2:
        blind = len(trials) > 1
        why = "a learner that prefers no direction" if blind else "a stop before two directions"
        raise SettingError(why, "two directions that differ", "another learner" if blind else "again")
    return compare_trials(trials)


def trial_figures(measured: Comparison, trials: list[Trial], look: Theme) -> dict[str, go.Figure]:
    """The figures of a test by training by name: measurement, curves."""
    last = next(t for t in trials if t.eigenvalue == trials[-1].eigenvalue)  # of the first seed
    return {
        "measurement": comparison_figure(measured, trials, theme=look, width=530),
        "curves": curves_figure({"λ_min": trials[0], "λ_max": last}, theme=look, width=530),
    }


def verdict(measured: Comparison) -> str:
    """One sentence on whether training agrees."""
    agrees = "as conjectured" if measured.rank_correlation > 0 else "against the conjecture"
    doubt = undecided(measured)
    return f"Rank correlation {measured.rank_correlation:+.2f}: {agrees}{'; ' + doubt if doubt else ''}."


def check_state(state: AnisotropyState) -> None:
    """Refuse a state that cannot be answered.

    Raises:
        SettingError: For an unknown name or a count that is too small.
    """
    for name in (state.architecture, state.other, state.learner):
        load_architecture(name)
    if state.probe not in ("zero", "gaussian"):
        raise SettingError(f"probe {state.probe!r}", "zero or gaussian")
    if state.directions < 2 or state.seeds < 1 or state.networks < 2:
        raise SettingError(
            f"{state.directions} directions, {state.seeds} seeds, {state.networks} networks",
            "at least 2, 1 and 2",
        )
    if state.basis not in BASES or state.data not in DATA or state.samples < 2:
        raise SettingError(
            f"basis {state.basis!r}, data {state.data!r}, {state.samples} samples",
            f"{', '.join(BASES)}; {', '.join(DATA)}; 2 or more",
        )
    _settings(state)


def _settings(state: AnisotropyState) -> dict[str, Any]:
    levels = ddpm_levels()
    return {
        "probe": gaussian_probe(state.probe_std) if state.probe == "gaussian" else ZERO,
        "levels": levels if state.level < 0 else levels.only(state.level),
        "seed": state.seed,
        "device": state.device,
        "dtype": torch.float32,
    }
