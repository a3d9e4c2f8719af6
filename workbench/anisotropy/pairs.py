"""Experiments on one learner: networks along several directions, how a data set lies for it, and networks
on that data set as it is and turned.

References:
    On the Anisotropy of Score-Based Generative Models (Floros et al., 2025), sections 4 and 5,
    https://arxiv.org/abs/2510.22899
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from workbench.anisotropy.alignment import Alignment, align, second_moment
from workbench.anisotropy.denoising import DenoisingSettings
from workbench.anisotropy.geometry import average_geometry
from workbench.anisotropy.spectrum import ScoreSpectrum
from workbench.anisotropy.trials import Trial, rows_at, train_direction, train_rotated
from workbench.architectures import Architecture
from workbench.errors import SettingError
from workbench.integrators import Cancel, Progress

What = TypeVar("What")


def train_pairs(
    architecture: Architecture,
    spectrum: ScoreSpectrum,
    *,
    directions: int = 2,
    seeds: int = 1,
    data: str = "line",
    settings: DenoisingSettings | None = None,
    seed: int = 0,
    samples: int = 500,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> list[Trial]:
    """Train networks along directions spread evenly over a spectrum, from lambda_min to lambda_max.

    Args:
        architecture: The learner.
        spectrum: Its spectrum.
        directions: How many directions, both ends among them.
        seeds: Networks trained along each; the same seeds along every direction.
        data: Kind of data, one of `DATA`.
        settings: How to train and sample. It is measured after a quarter, a half and all of the steps.
        seed: The first seed.
        samples: Generated points of each measurement.
        device: Where to train and sample.
        progress: Called with a fraction and a sentence.
        cancel: An object whose `is_set()` ends it with the trials that were trained to their end.

    Returns:
        The trials by ascending index of the direction, seeds within one.

    Raises:
        SettingError: If there are fewer than two directions or no seed.

    Cost:
        directions * seeds times that of `train_direction`.
    """
    if directions < 2 or seeds < 1:
        raise SettingError(f"{directions} directions and {seeds} seeds", "at least 2 and 1")
    settings = settings or DenoisingSettings()
    places = [round(i * (spectrum.dim - 1) / (directions - 1)) for i in range(directions)]
    plan = [(index, seed + more) for index in places for more in range(seeds)]

    def train(index: int, key: int, watch: Progress | None) -> Trial:
        rows, eigenvalue = rows_at(spectrum, index, data)
        return train_direction(
            architecture,
            rows,
            settings=settings,
            samples=samples,
            seed=key,
            eigenvalue=eigenvalue,
            index=index,
            meaning=spectrum.meaning(index),
            stops=_pauses(settings),
            device=device,
            progress=watch,
            cancel=cancel,
        )

    return [trial for _, trial in _follow(plan, train, settings, progress, cancel)]


@dataclass(frozen=True, slots=True)
class Lay:
    """How a data set lies for a learner.

    Attributes:
        name: The data set.
        points: A few of its samples, shape (count, dim).
        shape: Shape of one.
        alignment: Its alignment and the rotations of least and most.
    """

    name: str
    points: Tensor
    shape: tuple[int, ...]
    alignment: Alignment


def find_lay(
    architecture: Architecture,
    points: Tensor,
    *,
    name: str = "data",
    networks: int = 200,
    seed: int = 0,
    count: int = 9,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> Lay:
    """Align a data set with the untrained networks of a learner.

    Args:
        architecture: The learner.
        points: The data, shape (n, dim).
        name: What they are called.
        networks: Untrained networks.
        seed: Keys them.
        count: Samples that are kept to be shown.
        device: Where the networks are evaluated.
        progress: Called with a fraction and a sentence.
        cancel: An object whose `is_set()` stops early with what has been summed.

    Returns:
        The lay.

    Raises:
        SettingError: If the learner takes samples of another size.

    Cost:
        One model call a network.
    """
    if architecture.dim != points.shape[1]:
        raise SettingError(
            f"{name} of {points.shape[1]} pixels for {architecture.name} of {architecture.dim}",
            "images of the learner's size",
            "a learner whose name ends in the images' side",
        )
    geometry = average_geometry(
        architecture, networks=networks, seed=seed, device=device, progress=progress, cancel=cancel
    )
    return Lay(name, points[:count], geometry.shape, align(geometry, second_moment(points)))


def train_turns(
    architecture: Architecture,
    points: Tensor,
    alignment: Alignment,
    *,
    seeds: int = 1,
    settings: DenoisingSettings | None = None,
    seed: int = 0,
    samples: int = 500,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> dict[str, list[Trial]]:
    """Train networks on a data set as it is, turned by W_min and turned by W_max.

    Args:
        architecture: The learner.
        points: The data, shape (n, dim).
        alignment: How they lie for the learner.
        seeds: Networks trained in each basis; the same seeds in every one.
        settings: How to train and sample. It is measured after a quarter, a half and all of the steps.
        seed: The first seed.
        samples: Generated points of each measurement.
        device: Where to train and sample.
        progress: Called with a fraction and a sentence.
        cancel: An object whose `is_set()` ends it with the trials that were trained to their end.

    Returns:
        The trials by basis, "own", "w_min" and "w_max", seeds within one; a trial's eigenvalue is the
        alignment tr(G W M W^T).

    Raises:
        SettingError: If there is no seed, or too few points.

    Cost:
        3 seeds times that of `train_rotated`.
    """
    if seeds < 1:
        raise SettingError(f"{seeds} seeds", "at least 1")
    settings = settings or DenoisingSettings()
    bases = {
        "own": (None, alignment.value),
        "w_min": (alignment.w_min, alignment.minimum),
        "w_max": (alignment.w_max, alignment.maximum),
    }
    plan = [(name, seed + more) for name in bases for more in range(seeds)]

    def train(name: str, key: int, watch: Progress | None) -> Trial:
        rotation, value = bases[name]
        return train_rotated(
            architecture,
            points,
            rotation=rotation,
            settings=settings,
            seed=key,
            alignment=value,
            samples=samples,
            stops=_pauses(settings),
            device=device,
            progress=watch,
            cancel=cancel,
        )

    trials: dict[str, list[Trial]] = {}
    for name, trial in _follow(plan, train, settings, progress, cancel):
        trials.setdefault(name, []).append(trial)
    return trials


def _follow(
    plan: Sequence[tuple[What, int]],
    train: Callable[[What, int, Progress | None], Trial],
    settings: DenoisingSettings,
    progress: Progress | None,
    cancel: Cancel | None,
) -> list[tuple[What, Trial]]:
    """The trials of a plan in its order; one that was cut short would look too hard and is left out."""
    done = []
    for place, (what, key) in enumerate(plan):
        if cancel is not None and cancel.is_set():
            break
        trial = train(what, key, None if progress is None else _part(progress, place, len(plan)))
        if int(trial.steps[-1]) < settings.steps:
            break
        done.append((what, trial))
    return done


def _pauses(settings: DenoisingSettings) -> list[int]:
    """A quarter and half of the steps."""
    return [s for s in (settings.steps // 4, settings.steps // 2) if s]


def _part(progress: Progress, place: int, parts: int) -> Progress:
    """The progress of one part of several."""
    return lambda share, words: progress((place + share) / parts, words)
