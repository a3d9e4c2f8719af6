"""What `open_model` was asked for, as every family of foreign models reads it."""

import re
from copy import deepcopy
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from workbench.errors import MissingExtra, SettingError

EXTRA = "models"
"""The optional extra that brings the libraries of foreign models."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The arguments of `open_model`; None stands for what the source itself says.

    Attributes:
        kind: Family; a key of `workbench.adapters.open.FAMILIES`.
        prediction: What the network's output means.
        schedule: The noising that it was trained on: a `Schedule`, or an object of the source's library.
        shape: Shape of one point.
        data_std: Standard deviation of one entry of the data.
        value_range: Lowest and highest value of a sample's entries.
        sigma_range: Smallest and largest noise level at which it may be asked.
        classes: Names of the classes that it can be conditioned on.
        condition: Class index or name, an embedding, or keyword arguments of the network.
        null: The condition that stands for none.
        guidance: Weight of classifier-free guidance.
        name: Its name, as figures print it.
        device: Where it computes.
        dtype: In which type.
        batch: Most points to a network call.
        trust: Whether code that comes with the file may run.
        arguments: Constructor arguments of the network, where the file does not hold them.
    """

    kind: str | None = None
    prediction: str | None = None
    schedule: Any = None
    shape: tuple[int, ...] | None = None
    data_std: float | None = None
    value_range: tuple[float, float] | None = None
    sigma_range: tuple[float, float] | None = None
    classes: tuple[str, ...] = ()
    condition: Any = None
    null: Any = None
    guidance: float = 0.0
    name: str | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32
    batch: int | None = None
    trust: bool = False
    arguments: dict[str, Any] | None = None

    def ready(self, module: Any, *, own: bool = True) -> Any:
        """A network frozen, in evaluation mode, on the device and in the dtype that were asked for.

        Args:
            module: The network.
            own: Whether it was made here; one that belongs to the user is copied and stays as it is.
        """
        still = (module if own else deepcopy(module)).eval().requires_grad_(False)
        for part in still.modules():
            if isinstance(part, nn.GroupNorm):
                part.register_forward_pre_hook(_in_order)
        return nn.Module.to(still, device=self.device, dtype=self.dtype)  # libraries' own `to` may talk


def _in_order(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Copies of inputs in memory order, tangents too: the norm's forward derivative takes no other order."""
    return tuple(x.clone(memory_format=torch.contiguous_format) for x in inputs)


def import_extra(package: str, *, bring: str = "") -> ModuleType:
    """An optional package, or the sentence that names the extra which brings it.

    Args:
        package: Import name, possibly dotted.
        bring: What brings it, where no extra does.

    Returns:
        The module.

    Raises:
        MissingExtra: If it is not installed.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != package.split(".")[0]:
            raise
        name = package.split(".")[0]
        if bring:
            raise MissingExtra(
                f"no installed package {name!r}", "the library of this model", bring
            ) from error
        raise MissingExtra.of(name, EXTRA) from error


def class_index(condition: Any, classes: tuple[str, ...]) -> Any:
    """The index of a class that was given by name or as text; anything else is left as it is.

    Raises:
        SettingError: For a name that no class has.
    """
    if not isinstance(condition, str):
        return condition
    if condition in classes:
        return classes.index(condition)
    if re.fullmatch(r"\d+", condition):
        return int(condition)
    known = ", ".join(classes[:12]) + (", ..." if len(classes) > 12 else "")
    raise SettingError(f"condition {condition!r}", f"one of {known}" if classes else "the number of a class")


def said(condition: Any, classes: tuple[str, ...]) -> str | None:
    """A condition in words: a class by its name, tensors by their shapes."""
    if condition is None:
        return None
    if isinstance(condition, int) and not isinstance(condition, bool):
        return classes[condition] if 0 <= condition < len(classes) else f"class {condition}"
    if isinstance(condition, torch.Tensor):
        return f"an embedding of shape {tuple(condition.shape)}"
    if isinstance(condition, dict):
        return ", ".join(f"{key} ({said(value, ())})" for key, value in condition.items())
    return str(condition)


def named_after(path: Path) -> str:
    """A model's name from where it lies."""
    return path.stem if path.is_file() else path.resolve().name
