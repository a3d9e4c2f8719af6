"""An architecture: how to build one freshly initialised network, and how to ask it.

A lens on untrained networks needs a recipe, not a network: a factory that returns a new module, the shape
of one sample, and what the output means. Any module takes part through `architecture_of`; nothing has to be
inherited.

**The features hook.** Where the last layer is linear with independent zero-mean weights, averages over that
layer are exact and need only what enters it: the features of a convolution, the tokens of a readout. The
layer is found by itself (a forward hook replaces its output by a code and looks whether the network's
output is a permutation of it). `head` names the layer where a module hides it, e.g.
``head="final.linear"``; everything between that layer and the output must be a fixed rearrangement of its
entries.

References:
    On the Anisotropy of Score-Based Generative Models (Floros, Moosavi-Dezfooli, Dragotti, 2025),
    https://arxiv.org/abs/2510.22899
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from workbench.errors import SettingError, ShapeError

Call = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""(module, x of (n, *shape), times of (n,)) -> output of (n, *shape)."""


def call_with_time(module: nn.Module, x: Tensor, t: Tensor) -> Tensor:
    """module(x, t)."""
    return module(x, t)


def call_without_time(module: nn.Module, x: Tensor, t: Tensor) -> Tensor:
    """module(x), for a network that is not told the noise level."""
    return module(x)


@dataclass(frozen=True, slots=True)
class Architecture:
    """A recipe for networks of one kind.

    Attributes:
        name: Its name, as figures print it.
        shape: Shape of one sample, (channels, rows, columns) or (dim,).
        build: Returns a new module in its own random initialisation.
        prediction: What the output means: "eps", "x0", "v" or "edm".
        head: Dotted name of the last linear layer; None lets it be found.
        call: How the module is asked.
    """

    name: str
    shape: tuple[int, ...]
    build: Callable[[], nn.Module]
    prediction: str = "eps"
    head: str | None = None
    call: Call = call_with_time

    @property
    def dim(self) -> int:
        """Number of entries of one sample."""
        return math.prod(self.shape)


class FlatNet(nn.Module):
    """A network of an architecture seen from flat points; the module itself is the attribute `net`.

    Args:
        architecture: The recipe.
        net: The network; None builds a fresh one.
    """

    def __init__(self, architecture: Architecture, net: nn.Module | None = None) -> None:
        super().__init__()
        self.net = architecture.build() if net is None else net
        self.shape, self.prediction, self.call = (
            architecture.shape,
            architecture.prediction,
            architecture.call,
        )

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Output (n, dim) at points (n, dim) and times (n,)."""
        return self.call(self.net, x.reshape(x.shape[0], *self.shape), t).reshape(x.shape[0], -1)


def architecture_of(
    factory: Callable[[], nn.Module],
    *,
    shape: tuple[int, ...],
    name: str = "",
    prediction: str = "eps",
    head: str | None = None,
    call: Call = call_with_time,
) -> Architecture:
    """Make any module factory an architecture, after trying it once.

    Args:
        factory: Called without arguments; returns a new module each time.
        shape: Shape of one sample.
        name: Name for figures; the module's class if empty.
        prediction: What the output means: "eps", "x0", "v" or "edm".
        head: Dotted name of the last linear layer, see the module docstring.
        call: How the module is asked; `call_without_time` for one that takes no time.

    Returns:
        The architecture.

    Raises:
        SettingError: If the factory returns no module, or the same one twice, or `head` names no layer.
        ShapeError: If the output has another shape than the input, or the factory returns different shapes.

    Cost:
        Two constructions and two model calls.
    """
    first, second = factory(), factory()
    if not isinstance(first, nn.Module):
        raise SettingError(
            f"a factory that returns {type(first).__name__}", "a torch.nn.Module", "lambda: MyNet()"
        )
    if first is second:
        raise SettingError(
            "a factory that returns the same network twice",
            "a new one each time",
            "lambda: MyNet() in place of a net",
        )
    shapes = [{k: tuple(v.shape) for k, v in net.state_dict().items()} for net in (first, second)]
    if shapes[0] != shapes[1]:
        differing = next(k for k in shapes[0] | shapes[1] if shapes[0].get(k) != shapes[1].get(k))
        raise ShapeError(
            f"a factory whose networks differ in the shape of {differing!r}", "the same shapes each time"
        )
    if head is not None and head not in dict(first.named_modules()):
        raise SettingError(f"head {head!r}", "the dotted name of a layer", "head=None, which looks for it")
    made = Architecture(name or type(first).__name__, tuple(shape), factory, prediction, head, call)
    example = next((p for p in first.parameters() if p.is_floating_point()), torch.zeros(()))
    x = torch.zeros(2, *made.shape, dtype=example.dtype, device=example.device)
    with torch.no_grad():
        out = call(first.eval(), x, torch.ones(2, dtype=x.dtype, device=x.device))
    if tuple(out.shape) != tuple(x.shape):
        raise ShapeError(
            f"an output of shape {tuple(out.shape)}",
            f"the input's {tuple(x.shape)}",
            "call=... that picks the output",
        )
    return made


def count_parameters(architecture: Architecture) -> int:
    """Number of trainable parameters of one network."""
    return sum(p.numel() for p in architecture.build().parameters())
