"""From frames to a model of them: sets by name or path, and a small diffusion model of one's own.

`open_frames` is the one door for frames: the shipped wake, recordings of people, glyphs of the fonts at hand,
or a path. `fit_frame_model` trains a network for few principal directions on them, in a minute or two, so
that a map of its latents can be drawn where no model exists yet.
"""

import math
from pathlib import Path

import torch
from torch import Tensor

from workbench.checks import check_count
from workbench.draws import seeded
from workbench.errors import SettingError
from workbench.frames.files import FrameSet, load_frames
from workbench.frames.glyphs import render_glyphs
from workbench.frames.recordings import RECORDINGS, load_recording
from workbench.frames.wake_set import (
    EVERY,
    REYNOLDS,
    WAKE_CLASSES,
    WAKE_SHAPE,
    WakeFrames,
    load_wake,
    simulate_frames,
)
from workbench.integrators import Cancel, Progress
from workbench.models import Frame
from workbench.nets import Denoiser, NetModel
from workbench.principal import PrincipalMlp
from workbench.training import TrainSettings, fit_denoiser

NAMED = ("wake", *RECORDINGS, "glyphs")
"""Frames that have a name; everything else is a path."""

_AXES = 32  # principal directions that a model of one's own sees at most; one for ten frames


def open_frames(
    name: str | Path,
    *,
    simulate: bool = False,
    size: tuple[int, int] | None = None,
    every: int = 1,
    limit: int | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> FrameSet:
    """Frames by name or path.

    Args:
        name: One of `NAMED`, a recording with its path ("emg:PATH"), or a path for `load_frames`.
        simulate: For "wake": compute the flow at Reynolds number 100 afresh, about 5 s of one core, instead
            of reading the shipped frames.
        size: For a path: rows and columns.
        every: For a path: keep one frame of so many.
        limit: For a path: keep at most so many.
        progress: Called with the fraction done and a sentence.
        cancel: Stops a simulation.

    Returns:
        The frames. Those of the wake are grouped by flow, with the Reynolds number as variable.

    Raises:
        DataError: If they cannot be read.
    """
    if name == "wake":
        frames = simulate_frames((100.0,), progress=progress, cancel=cancel) if simulate else load_wake()
        return wake_as_frames(frames)
    if name == "glyphs":
        return render_glyphs()
    kind, _, place = str(name).partition(":")
    if kind in RECORDINGS:
        return load_recording(kind, path=place or None)
    return load_frames(name, size=size, every=every, limit=limit)


def wake_as_frames(frames: WakeFrames) -> FrameSet:
    """Frames of the wake with times in steps of the set, flows as groups and labels."""
    return FrameSet(
        name="wake",
        points=frames.points,
        shape=WAKE_SHAPE,
        times=(frames.steps / EVERY).double(),
        groups=frames.labels,
        labels=frames.labels,
        classes=WAKE_CLASSES,
        variables=torch.tensor(REYNOLDS, dtype=torch.float64)[frames.labels][:, None],
        names=("Reynolds number",),
        unit=f"{EVERY} time steps",
        source="lattice Boltzmann flow past a cylinder",
    )


def fit_frame_model(
    frames: FrameSet,
    *,
    rows: Tensor | None = None,
    steps: int = 2000,
    width: int = 128,
    batch: int = 256,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> NetModel:
    """A small diffusion model of frames, conditional on their labels where these differ.

    The prior of the noise level spans the deviations of the principal directions.

    Args:
        frames: What to learn.
        rows: Which of them; all if None. Leave out what is to be judged.
        steps: Optimiser steps; about 10 ms each on one core for width 128.
        width: Width of the perceptron.
        batch: Frames a step.
        generator: Source of all randomness; that of seed 0 if None.
        progress: Called with the fraction done and a sentence.
        cancel: Stops the training.

    Returns:
        The model in single precision.

    Raises:
        SettingError: If there are fewer than 16 frames, all are the same, or a setting is out of range.
    """
    for name, value in (("steps", steps), ("width", width), ("batch", batch)):
        check_count(name, value)
    kept = torch.arange(len(frames)) if rows is None else rows
    if len(kept) < 16:
        raise SettingError(f"{len(kept)} frames to learn from", "at least 16")
    data = frames.points[kept].float()
    told = frames.labels is not None and len(frames.labels[kept].unique()) > 1
    classes = frames.classes if told else ()
    generator = seeded(generator)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(generator.initial_seed())
        axes = min(_AXES, data.shape[1], max(4, len(data) // 10))
        inner = PrincipalMlp(data.shape[1], axes, width, 3, len(classes)).float()
    std = float((data - data.mean(0)).square().mean().sqrt()) or 1.0
    inner.fit_axes(data, std)
    top = float(inner.spreads[0])
    if not top > 0.0:
        raise SettingError("frames that are all the same", "frames that vary")
    end = max(float(inner.spreads[-1]), float(inner.rest), 0.02 * top)
    middle, spread = 0.5 * math.log(top * end), 0.25 * math.log(top / end) + 0.5
    settings = TrainSettings(
        steps=steps,
        batch=batch,
        rate=2e-3,
        decay=0.7,
        sigma_mean=middle,
        sigma_std=spread,
        null_share=0.3 if classes else 1.0,
    )
    net = Denoiser(inner, classes=len(classes), data_std=std)
    labels = frames.labels[kept] if frames.labels is not None and told else None
    result = fit_denoiser(
        net, data, labels, settings=settings, generator=generator, progress=progress, cancel=cancel
    )
    frame = Frame(
        name=f"{frames.name}, {result.step} steps",
        shape=frames.shape,
        sigma_min=max(0.1 * float(inner.rest), 1e-3 * top),
        sigma_max=20.0 * top,
        value_range=(-1.0, 1.0) if len(frames.shape) == 3 else None,
        data_std=std,
        classes=classes,
    )
    return NetModel(result.net.requires_grad_(False), frame, len(classes))
