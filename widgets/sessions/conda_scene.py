"""Scenes of contrastive maps by name: frames, their model, latents, the map, and the way back to frames.

The settings are the parameters of the notebook `40_conda`, so that a view opened by name can write its cell.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from widgets.cells import read_values
from widgets.scheduling import Progress
from widgets.sessions.conda import CondaScene
from workbench.conda.gaps import hide_gaps
from workbench.devices import resolve_device
from workbench.errors import SettingError
from workbench.frames.models import fit_frame_model, open_frames
from workbench.frames.rendering import bind
from workbench.inversions import decode, encode
from workbench.lenses.conda import fit_conda
from workbench.zoo import load_model


@dataclass(frozen=True, slots=True)
class CondaRun:
    """What is embedded and how: the parameters of the notebook `40_conda`. JSON-able.

    Attributes:
        frames: Frames by name, or a path.
        simulate: Whether the flow is computed afresh.
        model: A shipped model or a folder; empty trains one on the visible frames.
        train_steps: Optimiser steps of a model that is trained here.
        condition: Class that is bound; empty for none.
        solver: How latents are found.
        low: Noise level below which details do not count; 0 for the model's own.
        depth: Noise level of the latents; 0 for the model's largest.
        steps: Steps of the solver.
        positives: Which frames belong together.
        dim: Dimensions of the map.
        iterations: Steps of its training.
        restarts: Copies that start side by side.
        batch: Pairs a step.
        gap: Hidden frames of a gap.
        every: Frames from one gap to the next.
        device: Where to compute.
        seed: Of every draw.
    """

    frames: str = "wake"
    simulate: bool = False
    model: str = "wake"
    train_steps: int = 2000
    condition: str = "Re 100"
    solver: str = "belm"
    low: float = 0.3
    depth: float = 2.0
    steps: int = 30
    positives: str = "time"
    dim: int = 3
    iterations: int = 1000
    restarts: int = 3
    batch: int = 214
    gap: int = 6
    every: int = 41
    device: str = "cpu"
    seed: int = 0


def run_names() -> frozenset[str]:
    """Names of the parameters."""
    return frozenset(field.name for field in dataclasses.fields(CondaRun))


def open_scene(
    run: CondaRun | None = None, *, progress: Progress | None = None, **settings: Any
) -> CondaScene:
    """Frames, latents, map and renderer by name; hidden frames stay hidden from the map.

    Args:
        run: The settings; those of the wake if None.
        progress: Called with a fraction and a sentence.
        settings: Single settings in place of those of `run`.

    Returns:
        The scene of the visible frames, about half a minute of one core for the wake.

    Raises:
        SettingError: For an unknown name or setting.
    """
    run = read_values(CondaRun, {**dataclasses.asdict(run or CondaRun()), **settings})
    every_flow = open_frames(run.frames, simulate=run.simulate, progress=progress)
    if run.frames == "wake":
        if run.condition not in every_flow.classes:
            raise SettingError(f"condition={run.condition!r}", f"one of {', '.join(every_flow.classes)}")
        group = every_flow.classes.index(run.condition)
    else:
        group = int(every_flow.groups[0])
    shown = every_flow.at((every_flow.groups == group).nonzero()[:, 0])
    known = shown.context()
    visible = (~hide_gaps(known, length=run.gap, every=run.every)).nonzero()[:, 0]
    draws, device = torch.Generator().manual_seed(run.seed), resolve_device(run.device)
    if run.model:
        net = load_model(run.model, device=device)
    else:
        net = fit_frame_model(shown, rows=visible, steps=run.train_steps, generator=draws, progress=progress)
    bound = bind(net, run.condition or None)
    x = shown.points[visible].to(device)
    levels = {"low": run.low or None, "depth": run.depth or None, "steps": run.steps}
    latent = encode(bound, x, solver=run.solver, progress=progress, **levels)
    fit = fit_conda(
        latent.joined().cpu(),
        known.select(visible),
        generator=draws,
        progress=progress,
        positives=run.positives,
        dim=run.dim,
        iterations=run.iterations,
        restarts=run.restarts,
        batch=run.batch,
    )

    def render(latents: Tensor, variables: Tensor | None) -> Tensor:
        """Frames of latents, with the condition held."""
        return decode(bound, latent.with_joined(latents.to(x))).points.cpu()

    return CondaScene(
        fit,
        frames=x.cpu(),
        shape=tuple(shown.shape),
        render=render,
        name=f"{run.frames}, {run.condition}" if run.condition else run.frames,
        value_range=net.frame.value_range,
    )
