"""An architecture from a network that exists: a copy whose layers are initialised anew."""

import copy

import torch
from torch import Tensor, nn

from workbench.architectures.base import Architecture, Call, call_with_time
from workbench.errors import SettingError
from workbench.nets import NetModel


def reset_architecture(
    network: nn.Module | NetModel,
    *,
    shape: tuple[int, ...] | None = None,
    prediction: str = "eps",
    call: Call = call_with_time,
) -> Architecture:
    """The architecture of a trained network: every layer's own `reset_parameters` on a copy.

    Layers that were started at zero by hand start at their layer's default instead, so that the output is
    not zero. Parameters that belong to no layer with such a method keep their trained values.

    Args:
        network: A module, or a shipped model, whose inner network is taken with the null class.
        shape: Shape of one sample; a shipped model knows its own.
        prediction: What the output means; "edm" for a shipped model.
        call: How the module is asked.

    Returns:
        The architecture.

    Raises:
        SettingError: If a plain module comes without a shape, or has no layer that can be reset.
    """
    name = type(network).__name__
    if isinstance(network, NetModel):
        null = network.net.classes

        def with_null_class(module: nn.Module, x: Tensor, t: Tensor) -> Tensor:
            labels = torch.full(t.shape, null, device=t.device)
            return module(x.flatten(1), t, labels).reshape(x.shape)

        call = with_null_class
        shape, prediction, name = network.frame.shape, "edm", f"{network.frame.name}, reset"
        network = network.net.inner
    if shape is None:
        raise SettingError("a module without a shape", "the shape of one sample", "shape=(1, 28, 28)")
    layers = [m for m in network.modules() if callable(getattr(m, "reset_parameters", None))]
    if not layers:
        raise SettingError(f"{name}, none of whose layers can be reset", "a factory")

    def build() -> nn.Module:
        fresh = copy.deepcopy(network).requires_grad_(True)
        for layer in fresh.modules():
            reset = getattr(layer, "reset_parameters", None)
            if callable(reset):
                reset()
        return fresh

    return Architecture(name, tuple(shape), build, prediction, None, call)
