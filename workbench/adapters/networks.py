"""The torch network behind an adapter's callable, and the same callable around another network.

An adapter asks a network in its own way: it orders arguments, binds a condition, drops a learned variance. A
lens on untrained networks needs the network by itself, to start copies of it anew, and the adapter's way of
asking each. So a callable that holds a network keeps it in a dataclass field `network`, and whatever wraps a
callable (autocast, a compiler) keeps it as `plain`; a plain function holds none.
"""

from collections.abc import Callable
from dataclasses import is_dataclass, replace
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from workbench.errors import SettingError

Asking = Callable[[Tensor, Tensor, Any], Tensor]
"""Callable (x, t, condition) -> F."""


@runtime_checkable
class Holder(Protocol):
    """A frozen dataclass that asks the network in its field of that name."""

    @property
    def network(self) -> Any:
        """The network."""
        ...

    def __call__(self, x: Tensor, t: Tensor, condition: Any) -> Tensor:
        """F at x and t."""
        ...


@runtime_checkable
class Around(Protocol):
    """A callable that changes how another one is computed, not what it is."""

    @property
    def plain(self) -> Asking:
        """The callable without that change."""
        ...


def network_of(module: Asking) -> nn.Module | None:
    """The torch network that a callable asks.

    Args:
        module: The callable of a wrapped model.

    Returns:
        The network itself, not a copy; None where the callable holds none that is known.
    """
    if isinstance(module, nn.Module):
        return module
    if not is_dataclass(module):  # somebody's own callable: nothing is known of how it asks what it holds
        return None
    if isinstance(module, Around):
        return network_of(module.plain)
    held = module.network if isinstance(module, Holder) else None
    return held if isinstance(held, nn.Module) else None


def asking(module: Asking, network: Any, *, bare: bool = True) -> Asking:
    """A callable that asks another network in the same way.

    Args:
        module: A callable of which `network_of` knows the network.
        network: The network to ask, of the same make, or a compiled one.
        bare: Whether what was changed around it, a lower precision or a compiler, is left off.

    Returns:
        The callable.

    Raises:
        SettingError: If `network_of` knows no network of the callable.
    """
    if network_of(module) is None:
        raise SettingError(
            f"{type(module).__name__}, a callable of which no network is known",
            "a torch network, or an adapter's callable around one",
            "the network itself",
        )
    if isinstance(module, nn.Module):
        return network
    if isinstance(module, Around):
        inner = asking(module.plain, network, bare=bare)
        return inner if bare else _with(module, plain=inner)
    return _with(module, network=network)


def _with(made: Any, **fields: Any) -> Asking:
    """A frozen dataclass with other fields."""
    return replace(made, **fields)
