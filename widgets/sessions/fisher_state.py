"""What the Fisher view looks at: the parameters of its notebook, and the space or slice they name."""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import torch

from widgets.cells import read_values
from widgets.figures.fisher import READINGS
from workbench.errors import SettingError
from workbench.geodesics.gallery import ZOOMED, Space, open_space
from workbench.phases import MEASURES, LatentSlice, open_slice


@dataclass(frozen=True, slots=True)
class FisherState:
    """What to look at: the parameters of the notebook `20_fisher`. JSON-able.

    Attributes:
        space: One of `SPACES`, the space with a known metric.
        start: First end "x,y"; the space's own if empty.
        end: Last end.
        reading: What colours the field, one of `READINGS`.
        nodes: Nodes of a geodesic on its coarsest level.
        sites: Sites of the driven chain.
        draws: Stationary states the notebook draws for its current.
        chain: Sites of the chain whose potential the notebook learns.
        size: Side of the Ising lattice.
        width: Width of the two Gaussians whose flow is looked at.
        grid: Points along each coordinate of the window in which the notebook learns its metric.
        per_cell: Lattices drawn at each.
        sweeps: Sweeps of the sampler.
        epochs: Passes of the learner.
        model: Generative model of the slice, a name or a path.
        latents: "noise" or "decoder": whose latents the slice lies in.
        measure: What a slice is measured by, one of `MEASURES`.
        corners: Three samples "0;1;2" whose latents span it; empty draws them.
        judge: Whose features measure its samples; empty for the model's own.
        resolution: Grid points along each side of the slice.
        zoom: How often the window of the slice or of the flow is halved about its middle.
        middle: Middle of a zoomed window "a,b"; empty for that of the whole.
        flow_steps: Steps of the deterministic sampler.
        device: Where to compute.
        dtype: Arithmetic of the generative model.
        seed: Keys all draws.
    """

    space: str = "tasep"
    start: str = ""
    end: str = ""
    reading: str = "largest"
    nodes: int = 33
    sites: int = 60
    draws: int = 500
    chain: int = 6
    size: int = 4
    width: float = 0.5
    grid: int = 8
    per_cell: int = 100
    sweeps: int = 60
    epochs: int = 6
    model: str = "digits"
    latents: str = "noise"
    measure: str = "features"
    corners: str = ""
    judge: str = ""
    resolution: int = 16
    zoom: int = 0
    middle: str = ""
    flow_steps: int = 8
    device: str = "cpu"
    dtype: str = "float32"
    seed: int = 0

    def but(self, **changes: Any) -> "FisherState":
        """The state with some entries changed; another space or window starts at its own ends."""
        cut = ("space", "zoom", "middle")
        if any(changes.get(name, getattr(self, name)) != getattr(self, name) for name in cut):
            changes = {"start": "", "end": "", **changes}
        return read_values(FisherState, {**dataclasses.asdict(self), **changes})


def space_of(state: FisherState) -> Space:
    """The space of a state.

    Raises:
        SettingError: If the state names no space or no reading, or its slice cannot be cut.
    """
    if state.reading not in READINGS:
        raise SettingError(f"reading {state.reading!r}", f"one of {', '.join(READINGS)}")
    if state.measure not in MEASURES:
        raise SettingError(f"measure {state.measure!r}", f"one of {', '.join(MEASURES)}")
    if state.space != "slice":
        space = open_space(state.space, sites=state.sites, size=state.size, width=state.width)
        return space.zoomed(state.middle, state.zoom) if state.space in ZOOMED else space
    plane = plane_of(state)
    space = open_space("slice", plane=plane.metric(), device=plane.corners.device)
    phases = plane.labels if plane.classify is not None else None
    return dataclasses.replace(space.zoomed(state.middle, state.zoom), phases=phases)


def plane_of(state: FisherState) -> LatentSlice:
    """The slice of a state, opened once."""
    return _open_plane(*cut_of(state))


def cut_of(state: FisherState) -> tuple[Any, ...]:
    """What decides a slice."""
    names = ("model", "judge", "corners", "latents", "flow_steps", "device", "dtype", "seed")
    return tuple(getattr(state, name) for name in names)


@functools.lru_cache(maxsize=8)
def _open_plane(
    model: str, judge: str, corners: str, latents: str, steps: int, device: str, dtype: str, seed: int
) -> LatentSlice:
    return open_slice(
        model,
        judge=judge,
        corners=corners,
        latents=latents,
        steps=steps,
        generator=torch.Generator().manual_seed(seed),
        device=device,
        dtype=dtype,
    )
