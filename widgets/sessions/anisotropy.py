"""The session behind an anisotropy view: its state, what it finds and trains, and what is drawn of it.

It knows no host. A notebook's view and a page's both hold one, so that they compute and draw the same.
"""

import dataclasses
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import plotly.graph_objects as go
import torch

from widgets.cells import read_values
from widgets.figures.anisotropy import confidence_figure, figure, gallery_figure, rayleigh_figure
from widgets.figures.trials import comparison_figure, curves_figure
from widgets.figures.turns import BASES, alignment_figure, basis_figure
from widgets.scheduling import Progress
from widgets.theme import Theme
from workbench.adapters.wrap import WrappedModel
from workbench.anisotropy.comparison import Comparison, compare_trials, undecided
from workbench.anisotropy.denoising import DenoisingSettings
from workbench.anisotropy.neighbours import NeighbourDirections, harmonics_of
from workbench.anisotropy.pairs import Lay, find_lay, train_pairs
from workbench.anisotropy.probes import ZERO, gaussian_probe
from workbench.anisotropy.selfcheck import Check
from workbench.anisotropy.trials import DATA, Trial
from workbench.architectures import load_architecture
from workbench.data import load_images
from workbench.decoders import LatentModel
from workbench.errors import SettingError
from workbench.lenses.anisotropy import DirectionsResult, find_directions, lacking_of, levels_of
from workbench.models import Frame, Landscape, ScoreModel
from workbench.nets import NetModel
from workbench.subjects import Subject, model_samples, open_subject

COARSE = 16
"""Networks of the first, coarse answer."""
TRIAL_STEPS = 300
"""Optimiser steps of the test by training where the state asks for none."""

OWN = "model"
"""In an architecture's place: copies of the opened model's network, started anew."""

UNASKED = "The opened model's harmonics appear here once they are asked for."
"""In the harmonics' place before that."""

Results = dict[str, DirectionsResult]
Opener = Callable[["AnisotropyState"], Subject]
"""What opens the model of a state."""


@dataclass(frozen=True, slots=True)
class AnisotropyState:
    """What to look at: the parameters of the notebook `30_anisotropy`. JSON-able.

    Attributes:
        architecture: Whose directions are shown; `OWN` for copies of the model's network.
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
        model: The opened model, by name or path.
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


def open_model_of(state: AnisotropyState) -> Subject:
    """The model of a state, with its points."""
    return open_subject(model=state.model, device=state.device)


def opener_of(model: str | Path | ScoreModel | Landscape) -> tuple[Opener, str]:
    """What opens the models of a view's states, and the name of its first one.

    Args:
        model: A name, a file or folder, or a model in memory, which is found again by its name.
    """
    if isinstance(model, str | Path):
        return open_model_of, str(model)
    if isinstance(model, Landscape):
        own = Subject(model, Frame(model.name, (0,), 0.0, 0.0), "", "")
    else:
        real = model_samples(model)
        dtype = torch.float64 if real is None else real.dtype
        own = Subject(model, model.frame, "0", "1", real, dtype=dtype)
    return lambda state: own if state.model == own.frame.name else open_model_of(state), own.frame.name


@dataclass(frozen=True, slots=True)
class Harmonics:
    """Directions of a trained model at one noisy sample.

    Attributes:
        name: The model.
        directions: The harmonics.
        shape: Shape of a sample.
        sigma: The noise level.
    """

    name: str
    directions: NeighbourDirections
    shape: tuple[int, ...]
    sigma: float


def find_results(
    state: AnisotropyState,
    cancel: threading.Event,
    progress: Progress,
    shown: Callable[[Results], None] = lambda results: None,
    opened: Opener = open_model_of,
) -> Results:
    """Directions of both architectures of a state.

    Args:
        state: What is asked.
        cancel: Stops with what was summed so far.
        progress: Told how far it is.
        shown: Given a coarse answer from a few networks before the full one is computed.
        opened: Opens the model, where an architecture is that of a model.

    Raises:
        SettingError: If no network of the model is known that could start anew.
    """
    names = dict.fromkeys((state.architecture, state.other))
    asked = {name: _started_anew(opened(state)) if name == OWN else load_architecture(name) for name in names}
    for networks in (COARSE, state.networks):
        results = {}
        for name, given in asked.items():
            found = find_directions(
                given,
                networks=networks,
                levels=levels_of(given, state.level),
                progress=progress,
                cancel=cancel,
                **_settings(state),
            )
            results[found.geometry.architecture if name == OWN else name] = found
        if networks == COARSE < state.networks and not cancel.is_set():
            shown(results)
        if cancel.is_set():
            break
    return results


def _started_anew(subject: Subject) -> NetModel | WrappedModel | LatentModel:
    lacks = lacking_of(subject.model)
    if lacks:
        raise SettingError(
            f"{subject.frame.name}, a model without {lacks}", "a model with one", "a shipped architecture"
        )
    return cast(NetModel | WrappedModel | LatentModel, subject.model)


def find_model_harmonics(
    state: AnisotropyState, cancel: threading.Event, opened: Opener = open_model_of
) -> Harmonics:
    """What the trained model of a state keeps at one noisy sample of its data.

    Raises:
        Cancelled: If it was cancelled.
        SettingError: If it is no denoiser.
    """
    subject = opened(state)
    found = harmonics_of(subject, seed=state.seed, cancel=cancel)
    return Harmonics(state.model, found, subject.frame.shape, subject.frame.data_std)


def harmonics_sentence(found: Harmonics) -> str:
    """Where harmonics were found and how symmetric the Jacobian is, in one sentence."""
    return (
        f"Harmonics of {found.name} at its first sample, blurred by σ = {found.sigma:.3g}; "
        f"asymmetry of the Jacobian {found.directions.asymmetry:.2f}."
    )


def harmonics_figure(found: Harmonics, look: Theme) -> go.Figure:
    """The harmonics as pictures."""
    count = len(found.directions.values)
    drawing = gallery_figure(found.directions, indices=range(count), shape=found.shape, theme=look)
    layout: Any = drawing.layout
    if layout.images:
        drawing.update_layout(
            title_text=f"Geometry-adaptive harmonics of {found.name} at σ = {found.sigma:.3g}"
        )
    return drawing


def train_state(state: AnisotropyState, cancel: threading.Event, progress: Progress) -> list[Trial]:
    """Train networks along the directions of a state's learner."""
    architecture = load_architecture(state.learner)
    networks = max(200, state.networks)
    found = find_directions(
        architecture,
        networks=networks,
        seed=state.seed,
        device=state.device,
        tol=1.0,
        progress=progress,
        cancel=cancel,
    )
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


def lies_as_asked(asked: AnisotropyState, state: AnisotropyState) -> bool:
    """Whether a lay that was asked for in one state is that of another too."""
    return (asked.learner, asked.images, asked.seed) == (state.learner, state.images, state.seed)


BUSY = "The images are shown in that basis once they are aligned: press “Align the images” after this."
"""What a chosen basis says while something else is computed, which it does not end."""


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
    last = next(t for t in trials if t.index == trials[-1].index)  # of the first seed
    return {
        "measurement": comparison_figure(measured, trials, theme=look, width=530),
        "curves": curves_figure({"λ_min": trials[0], "λ_max": last}, theme=look, width=530),
    }


def verdict(measured: Comparison, *, stopped: bool = False) -> str:
    """One sentence on whether training agrees, and whether it was stopped before the plan was done."""
    agrees = "as conjectured" if measured.rank_correlation > 0 else "against the conjecture"
    doubts = [undecided(measured), "stopped by you: only what was trained to its end" if stopped else ""]
    return (
        "; ".join([f"Rank correlation {measured.rank_correlation:+.2f}: {agrees}", *filter(None, doubts)])
        + "."
    )


def check_state(state: AnisotropyState) -> None:
    """Refuse a state that cannot be answered.

    Raises:
        SettingError: For an unknown name or a count that is too small.
    """
    for name in {state.architecture, state.other} - {OWN} | {state.learner}:
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
    levels_of(state.learner, state.level)
    _settings(state)


def _settings(state: AnisotropyState) -> dict[str, Any]:
    return {
        "probe": gaussian_probe(state.probe_std) if state.probe == "gaussian" else ZERO,
        "seed": state.seed,
        "device": state.device,
        "dtype": torch.float32,
    }
