r"""The last layer: found, checked, and averaged over exactly.

If the output is a fixed rearrangement of :math:`M(h)\,w + b` with independent zero-mean entries of w
(variance :math:`s_w^2`) and b (:math:`s_b^2`), independent of the features h, then

.. math::  \mathbb E[y y^\top \mid h] = s_w^2 M M^\top + \Sigma_b .

A convolution's filters give the same spatial matrix in every output channel, a token readout the same token
matrix in every feature: the second moment is (core) x (identity), and only the core needs to be kept.

A layer is recognised by what it does, not by its name: a hook replaces its output by distinct numbers, and
the network's output must hold exactly those numbers, once each.

References:
    On the Anisotropy of Score-Based Generative Models (Floros et al., 2025), propositions 2 and 3,
    https://arxiv.org/abs/2510.22899
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.anisotropy.initial import InitialLaws
from workbench.architectures import FlatNet
from workbench.errors import SettingError


@dataclass(frozen=True)
class Head:
    """A network's last layer.

    Attributes:
        kind: "convolution", "token" (a linear map of every token), "linear" (of one vector) or "other".
        name: Dotted name of the layer inside a `FlatNet`; empty for "other".
        variance: Variance s_w^2 of a weight.
        bias_variance: Variance s_b^2 of a bias.
        core: Rows of the core matrix.
        copies: How often the core is repeated.
        layout: Flat output index of core row r, copy c at place r * copies + c; shape (dim,).
        window: Kernel size, padding and dilation of a convolution.
    """

    kind: str
    name: str
    variance: float
    bias_variance: float
    core: int
    copies: int
    layout: Tensor
    window: dict[str, Any] | None = None

    def rows(self, features: Tensor) -> Tensor:
        """Factor U with E[y y^T | h] = (U^T U) x identity, for what enters the layer.

        The bias of a convolution is one number a channel, that of a readout one number a feature: shared by
            all rows of the core, it adds s_b^2 1 1^T.

        Args:
            features: (n, ...).

        Returns:
            (n, factors, core), float64.
        """
        features = features.double()
        if self.window is not None:
            inner = F.unfold(features, **self.window)
        else:
            inner = features.reshape(features.shape[0], self.core, -1).transpose(1, 2)
        if self.bias_variance == 0.0:
            return inner * self.variance**0.5
        shared = inner.new_full((inner.shape[0], 1, self.core), self.bias_variance**0.5)
        return torch.cat([inner * self.variance**0.5, shared], dim=1)


def find_head(net: FlatNet, laws: InitialLaws, *, name: str | None = None) -> Head:
    """Find the last linear layer of a network whose output it is.

    Args:
        net: One fresh network, in evaluation mode.
        laws: The laws of its parameters.
        name: Dotted name inside the user's module, if it is known.

    Returns:
        The head; of kind "other" where no layer fits, with a dense core.

    Raises:
        SettingError: If a layer was named that is not the network's last linear layer.

    Cost:
        Two model calls a candidate.
    """
    layers = {k: m for k, m in net.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)}
    if name is not None:
        layers = {k: m for k, m in layers.items() if k == f"net.{name}"}
    for layer_name in reversed(layers):
        found = _try_layer(net, layer_name, layers[layer_name], laws)
        if found is not None:
            return found
    if name is not None:
        raise SettingError(
            f"head {name!r}, whose outputs are not the network's entries",
            "the last linear or convolutional layer",
            "head=None",
        )
    dim = _points(net)[0].shape[1]
    return Head("other", "", float("nan"), float("nan"), dim, 1, torch.arange(dim))


def capture(net: nn.Module, name: str) -> tuple[list[Tensor], torch.utils.hooks.RemovableHandle]:
    """Remember what enters a layer; the list is filled by the next call."""
    seen: list[Tensor] = []
    handle = net.get_submodule(name).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    return seen, handle


def _points(net: FlatNet) -> tuple[Tensor, Tensor]:
    example = next(net.parameters())
    dim = int(torch.tensor(net.shape).prod())
    x = torch.linspace(-1.0, 1.0, dim, dtype=example.dtype, device=example.device).expand(1, dim)
    return x, torch.full((1,), 0.5, dtype=example.dtype, device=example.device)


def _try_layer(net: FlatNet, name: str, layer: nn.Module, laws: InitialLaws) -> Head | None:
    law = laws.laws.get(f"{name}.weight")
    bias = laws.laws.get(f"{name}.bias")
    shared = sum(1 for p in net.parameters() if p is layer.weight) != 1
    if law is None or shared or not _centred(law.mean, law.variance) or law.variance == 0.0:
        return None
    if bias is not None and not _centred(bias.mean, bias.variance):
        return None
    if isinstance(layer, nn.Conv2d) and (
        layer.groups != 1
        or set(layer.stride) != {1}
        or layer.padding_mode != "zeros"
        or isinstance(layer.padding, str)
    ):
        return None
    x, t = _points(net)
    codes: list[Tensor] = []

    def encode(_, __, output):
        count = output.numel()  # both signs, so that a rectified output is told from a linear one
        code = torch.arange(count, dtype=output.dtype, device=output.device) - (count - 0.5) / 2
        code = code.reshape(output.shape)
        codes.append(code)
        return code

    handle = layer.register_forward_hook(encode)
    try:
        with torch.no_grad():
            out = net(x, t).flatten()
    finally:
        handle.remove()
    if len(codes) != 1 or out.numel() != codes[0].numel():
        return None
    order = torch.argsort(out)
    if not torch.equal(out[order], codes[0].flatten()):
        return None
    shape = codes[0].shape[1:]
    spread = 0.0 if bias is None else bias.variance
    if isinstance(layer, nn.Conv2d):
        channels, places = shape[0], shape[1] * shape[2]
        layout = order.reshape(channels, places).T.flatten()
        window = {"kernel_size": layer.kernel_size, "padding": layer.padding, "dilation": layer.dilation}
        return Head("convolution", name, law.variance, spread, places, channels, layout, window)
    copies = shape[-1]
    core = out.numel() // copies
    kind = "linear" if core == 1 else "token"
    return Head(kind, name, law.variance, spread, core, copies, order)


def _centred(mean: float, variance: float) -> bool:
    return abs(mean) <= 1e-6 * variance**0.5 if variance > 0 else mean == 0.0
