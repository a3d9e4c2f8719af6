r"""A plane through the latents of a generative model, seen by a judge.

Three latents span the plane; a point (a, b) of it is :math:`z_0 + a (z_1 - z_0) + b (z_2 - z_0)`. A
deterministic sampler maps it to a sample and a judge to features, and the pullback of the features is the
metric of the plane, exact up to the sampler's steps: two forward derivatives a point. It is the reference
that a learned metric is compared with.

The plane is affine: no division by the latent's norm, which would make (a, b) curvilinear.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.draws import draw_normal, seeded
from workbench.errors import ShapeError
from workbench.metrics import Chart, Pullback
from workbench.models import ScoreModel
from workbench.phases.lipschitz import FlowMap
from workbench.types import Coords, Points


@dataclass(frozen=True, slots=True)
class LatentSlice:
    """A plane through three latents with the maps that read it.

    Attributes:
        flow: From unit-normal latents to samples.
        features: A judge's features of flat samples.
        corners: z0, z1, z2, shape (3, dim); about unit normal.
        name: Model and judge in words.
    """

    flow: FlowMap
    features: Callable[[Tensor], Tensor]
    corners: Tensor
    name: str = "latent slice"

    def decode(self, coords: Coords) -> Points:
        """Latents at coordinates (a, b), shape (*batch, 2) to (*batch, dim)."""
        base = self.corners[1:] - self.corners[0]
        return self.corners[0] + coords @ base

    def samples(self, coords: Coords) -> Points:
        """What the sampler makes of them, shape (*batch, dim); four model calls a step and point."""
        return self.flow(self.decode(coords))

    def read(self, coords: Tensor) -> Tensor:
        """Features of the samples at coordinates (count, 2), shape (count, features)."""
        return self.features(self.samples(coords))

    def metric(self) -> Pullback:
        """The pullback of the features to (a, b): two forward derivatives through both maps a point."""
        return Pullback(
            self.read, Chart("latent plane", 2, ("a", "b")), None, f"feature pullback of {self.name}"
        )


def latent_slice(
    model: ScoreModel,
    features: Callable[[Tensor], Tensor],
    *,
    corners: Tensor | None = None,
    steps: int = 12,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> LatentSlice:
    """A plane through three latents of a model.

    Args:
        model: The score model; its sigma_max and the spread of its data set the flow's grid.
        features: A judge's features of flat samples (count, dim).
        corners: Three latents, shape (3, dim); drawn from a unit normal if None.
        steps: Runge-Kutta steps of the sampler.
        generator: Source of the corners; None for one of seed 0.
        dtype: Arithmetic of the model.
        device: Where the model lives.

    Returns:
        The slice.

    Raises:
        ShapeError: If the corners are not three latents of the model.
    """
    frame = model.frame
    if corners is None:
        like = torch.empty(0, dtype=dtype, device=device)
        corners = draw_normal((3, frame.dim), like, seeded(generator))
    if corners.shape != (3, frame.dim):
        raise ShapeError(f"corners of shape {tuple(corners.shape)}", f"(3, {frame.dim})")
    flow = FlowMap(model, sigma_max=frame.sigma_max, softness=0.2 * frame.data_std, steps=steps)
    return LatentSlice(flow, features, corners.to(device, dtype), str(frame))
