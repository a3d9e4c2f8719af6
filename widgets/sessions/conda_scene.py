"""Scenes of contrastive maps by name: frames, their model, latents, the map, and the way back to frames.

The settings are the parameters of the notebook `40_conda`, so that a view opened by name can write its cell.
"""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from widgets.cells import read_values
from widgets.scheduling import Progress
from widgets.sessions.conda_crossing import cross_conditions
from widgets.sessions.conda_state import CondaScene
from workbench.devices import resolve_device
from workbench.errors import Cancelled
from workbench.frames.crossing import part_conditions
from workbench.frames.models import open_frames
from workbench.frames.prepared import prepare_frames
from workbench.integrators import Cancel
from workbench.inversions import decode, encode
from workbench.lenses.conda import fit_conda
from workbench.nets import NetModel


@dataclass(frozen=True, slots=True)
class CondaRun:
    """What is embedded and how: the parameters of the notebook `40_conda`. JSON-able.

    Attributes:
        frames: Frames by name, or a path.
        simulate: Whether the flow is computed afresh.
        model: A shipped model or a folder; empty trains one on the visible frames, "auto" takes what fits.
        train_steps: Optimiser steps of a model that is trained here.
        condition: Class that is bound; empty for none, "auto" takes what fits.
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
    model: str = "auto"
    train_steps: int = 2000
    condition: str = "auto"
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


@dataclass(frozen=True, slots=True)
class Stages:
    """Progress over several computations, and the moments between them at which one may stop.

    Attributes:
        progress: Told the share of the whole and a sentence.
        shares: Of each computation; together 1.
        cancel: Says that the answer is not wanted any more.
    """

    progress: Progress | None
    shares: tuple[float, ...]
    cancel: Cancel | None = None

    def part(self, index: int) -> Progress:
        """The progress of one computation."""
        begin = sum(self.shares[:index])

        def tell(fraction: float, message: str) -> None:
            if self.progress is not None:
                self.progress(begin + fraction * self.shares[index], message)

        return tell

    def end(self, index: int, message: str) -> None:
        """One computation has ended.

        Raises:
            Cancelled: If nothing more is wanted.
        """
        if self.cancel is not None and self.cancel.is_set():
            raise Cancelled.before(message)
        self.part(index)(1.0, message)


def open_scene(
    run: CondaRun | None = None,
    *,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    **settings: Any,
) -> CondaScene:
    """Frames, latents, map and renderer by name; hidden frames stay hidden from the map.

    Args:
        run: The settings; those of the wake if None.
        progress: Called with the share of the whole and a sentence.
        cancel: Stops it within a step of what is computed.
        settings: Single settings in place of those of `run`.

    Returns:
        The scene of the visible frames, about half a minute of one core for the wake.

    Raises:
        SettingError: For an unknown name or setting.
        Cancelled: If it was cancelled.
    """
    run = read_values(CondaRun, {**dataclasses.asdict(run or CondaRun()), **settings})
    stages = Stages(progress, (0.2, 0.2, 0.6), cancel)
    every_flow = open_frames(run.frames, simulate=run.simulate, progress=stages.part(0), cancel=cancel)
    draws, device = torch.Generator().manual_seed(run.seed), resolve_device(run.device)
    with torch.enable_grad():  # a view's worker records no gradients otherwise
        ready = prepare_frames(
            every_flow,
            model=run.model,
            condition=run.condition,
            gap=run.gap,
            every=run.every,
            train_steps=run.train_steps,
            device=run.device,
            generator=draws,
            progress=stages.part(0),
            cancel=cancel,
        )
    stages.end(0, "the frames and their model were there")
    shown, bound, visible = ready.frames, ready.model, ready.visible
    x = shown.points[visible].to(device)
    levels = {"low": run.low or None, "depth": run.depth or None, "steps": run.steps}
    latent = encode(bound, x, solver=run.solver, progress=stages.part(1), cancel=cancel, **levels)
    stages.end(1, "the latents were found")
    with torch.enable_grad():
        fit = fit_conda(
            latent.joined().cpu(),
            ready.context.select(visible),
            generator=draws,
            progress=stages.part(2),
            cancel=cancel,
            positives=run.positives,
            dim=run.dim,
            iterations=run.iterations,
            restarts=run.restarts,
            batch=run.batch,
        )
    stages.end(2, "the map was drawn")

    def render(latents: Tensor, variables: Tensor | None) -> Tensor:
        """Frames of latents, with the condition held."""
        return decode(bound, latent.with_joined(latents.to(x))).points.cpu()

    cross = None
    if isinstance(bound, NetModel) and len(bound.frame.classes) > 1:
        passage = part_conditions(ready.flows)
        if passage is not None:
            cross = partial(
                cross_conditions, bound, passage, solver=run.solver, device=device, seed=run.seed, **levels
            )
    return CondaScene(
        fit,
        frames=x.cpu(),
        shape=tuple(shown.shape),
        render=render,
        name=f"{run.frames}, {ready.condition}" if ready.condition else run.frames,
        value_range=bound.frame.value_range,
        cross=cross,
    )
