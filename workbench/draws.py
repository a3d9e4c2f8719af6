"""Random draws that follow a generator: made on its device, then moved to where they are used.

A generator belongs to a device, the points may be on another; drawing at the generator keeps a seed's numbers
the same wherever the points are. Samplers, whose draws are their answer, need a generator. Where draws only
begin or probe a computation, no generator stands for one of seed 0, so that nothing ever depends on torch's
global state.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def seeded(generator: torch.Generator | None, device: torch.device | str = "cpu") -> torch.Generator:
    """The generator itself, or a new one of seed 0 where there is none."""
    return torch.Generator(device=device).manual_seed(0) if generator is None else generator


def draw_normal(shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal numbers.

    Args:
        shape: Shape of the result.
        like: A tensor of the result's dtype and device.
        generator: Source of randomness, on any device.

    Returns:
        Numbers in the dtype and on the device of `like`.
    """
    return torch.randn(tuple(shape), generator=generator, dtype=like.dtype, device=generator.device).to(
        like.device
    )


def draw_uniform(shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    """Numbers from 0 to 1, without 1; arguments as for `draw_normal`."""
    return torch.rand(tuple(shape), generator=generator, dtype=like.dtype, device=generator.device).to(
        like.device
    )


def draw_signs(shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    """Plus or minus one with equal odds; arguments as for `draw_normal`."""
    return (2 * draw_integers(2, shape, like, generator) - 1).to(like.dtype)


def draw_integers(below: int, shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    """Whole numbers from 0 to `below`, without it, on the device of `like`; int64."""
    return torch.randint(below, tuple(shape), generator=generator, device=generator.device).to(like.device)
