"""Architectures whose preferences the anisotropy lens looks at, and the door for one's own."""

import torch

from workbench.architectures.base import (
    Architecture,
    Call,
    FlatNet,
    architecture_of,
    call_with_time,
    call_without_time,
    count_parameters,
)
from workbench.architectures.dit import TokenNet
from workbench.architectures.embedding import embed_grid, embed_time
from workbench.architectures.plain import LinearNet, PerceptronNet
from workbench.architectures.reset import reset_architecture
from workbench.architectures.unet import ShiftUNet
from workbench.errors import SettingError


def _spread_readout(dim: int, condition: float) -> torch.Tensor:
    """diag(sqrt(lambda)) with lambda log-spaced, of mean 1 and the condition number asked for."""
    spread = torch.logspace(0.0, 1.0, dim, base=condition, dtype=torch.float64)
    return torch.diag((spread / spread.mean()).sqrt())


def _linear8() -> LinearNet:
    return LinearNet(_spread_readout(8, 16.0).to(torch.get_default_dtype()))


def _fixed_readout32() -> PerceptronNet:
    return PerceptronNet(32, readout=_spread_readout(32, 100.0).to(torch.get_default_dtype()))


ARCHITECTURES = (
    Architecture("linear8", (8,), _linear8),
    Architecture("mlp64", (64,), lambda: PerceptronNet(64)),
    Architecture("mlp64-rectified", (64,), lambda: PerceptronNet(64, rectified=True)),
    Architecture("mlp32-readout", (32,), _fixed_readout32),
    Architecture("unet8", (1, 8, 8), lambda: ShiftUNet(1, 16, 2, 1, groups=16)),
    Architecture("unet8-time", (1, 8, 8), lambda: ShiftUNet(1, 16, 2, 1, groups=4)),
    Architecture("unet16", (1, 16, 16), lambda: ShiftUNet(1, 32, 3, 1)),
    Architecture("unet16-time", (1, 16, 16), lambda: ShiftUNet(1, 32, 3, 1, groups=8)),
    Architecture("unet16-smooth", (1, 16, 16), lambda: ShiftUNet(1, 32, 3, 1, smooth=True)),
    Architecture("unet28", (1, 28, 28), lambda: ShiftUNet(1, 32, 3, 2)),
    Architecture("unet28-time", (1, 28, 28), lambda: ShiftUNet(1, 32, 3, 2, groups=8)),
    Architecture("unet32-colour", (3, 32, 32), lambda: ShiftUNet(3, 32, 4, 2)),
    Architecture("unet56", (1, 56, 56), lambda: ShiftUNet(1, 32, 4, 2)),
    Architecture("dit8-2", (1, 8, 8), lambda: TokenNet((1, 8, 8), 2, 32, 2)),
    Architecture("dit16-2", (1, 16, 16), lambda: TokenNet((1, 16, 16), 2)),
    Architecture("dit16-4", (1, 16, 16), lambda: TokenNet((1, 16, 16), 4)),
    Architecture("dit28-4", (1, 28, 28), lambda: TokenNet((1, 28, 28), 4)),
)
"""The shipped recipes."""


def load_architecture(name: str) -> Architecture:
    """The shipped architecture of that name.

    Args:
        name: One of the names in `ARCHITECTURES`.

    Returns:
        The recipe.

    Raises:
        SettingError: If no shipped architecture has that name.
    """
    for architecture in ARCHITECTURES:
        if architecture.name == name:
            return architecture
    known = ", ".join(architecture.name for architecture in ARCHITECTURES)
    raise SettingError(f"architecture {name!r}", f"one of {known}", "architecture_of(factory, shape=...)")


__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "Call",
    "FlatNet",
    "LinearNet",
    "PerceptronNet",
    "ShiftUNet",
    "TokenNet",
    "architecture_of",
    "call_with_time",
    "call_without_time",
    "count_parameters",
    "embed_grid",
    "embed_time",
    "load_architecture",
    "reset_architecture",
]
