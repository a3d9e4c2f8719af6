"""Decoders and GANs: anything that makes samples from latents. No score is needed for a pullback metric.

A DCGAN's state dict says everything about its network but the strides, which its layout fixes: transposed
convolutions, the first of stride 1, the others doubling the side, batch norm and ReLU between, tanh last.

References:
    Radford, Metz, Chintala, "Unsupervised Representation Learning with Deep Convolutional Generative
        Adversarial Networks", 2016, https://arxiv.org/abs/1511.06434
"""

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workbench.adapters.files import read_tensors
from workbench.adapters.latents import Coder, Generator, generator_of
from workbench.adapters.settings import Settings, named_after
from workbench.errors import DataError, SettingError

WEIGHTS = ("netG_state_dict", "netG", "generator", "G", "G_ema", "ema", "state_dict", "model")
"""Keys under which checkpoints of GANs keep their generator, in the order in which they are tried."""


def open_generator(source: Any, settings: Settings) -> Generator | Coder:
    """Open a decoder.

    Args:
        source: A state dict's file in the layout of DCGAN, or any callable of latents in memory.
        settings: What was asked for; `shape` is that of a latent, needed for a callable.

    Returns:
        The decoder. The shape of its samples is found by one pass.

    Raises:
        SettingError: If the source is no callable, or the latent's shape is missing.
        DataError: If the weights are none of the layout.
    """
    own = isinstance(source, Path)
    module = build_dcgan(read_tensors(source, prefer=WEIGHTS), source) if own else source
    if not callable(module):
        raise SettingError(f"a decoder of type {type(source).__name__}", "a file or a callable of latents")
    latent = settings.shape or ((dcgan_latent(module),) if own else None)
    if latent is None:
        raise SettingError("a decoder without shape", "the shape of one latent", "shape=(100,)")
    network: Any = settings.ready(module, own=own) if isinstance(module, nn.Module) else module
    with torch.no_grad():
        made = network(torch.zeros(2, *latent, device=settings.device, dtype=settings.dtype))
    if not isinstance(made, Tensor) or made.shape[:1] != (2,):
        raise SettingError(
            f"a decoder that makes {getattr(made, 'shape', type(made).__name__)} of two latents",
            "one sample for each latent",
        )
    return generator_of(
        network,
        latent_shape=latent,
        shape=tuple(made.shape[1:]),
        name=settings.name or (named_after(source) if own else type(source).__name__),
        value_range=settings.value_range or ((-1.0, 1.0) if own else None),
        dtype=settings.dtype if isinstance(module, nn.Module) else None,
        batch=settings.batch,
    )


class Dcgan(nn.Module):
    """A generator of transposed convolutions; `main` is what published state dicts call it.

    Args:
        layers: The layers in order.
    """

    def __init__(self, layers: dict[str, nn.Module]) -> None:
        super().__init__()
        self.main = nn.ModuleDict(layers)

    def forward(self, z: Tensor) -> Tensor:
        """Pictures of latents (n, latents)."""
        x = z[..., None, None] if z.ndim == 2 else z
        for layer in self.main.values():
            x = layer(x)
        return torch.tanh(x)


def build_dcgan(tensors: dict[str, Tensor], path: Path | str = "weights") -> Dcgan:
    """A DCGAN's generator from its state dict.

    Args:
        tensors: Name to tensor; names end in INDEX.weight and the like, whatever stands before.
        path: For the sentence.

    Returns:
        The network, with its weights.

    Raises:
        DataError: If a layer is neither a transposed convolution nor a batch norm, or channels do not meet.
    """
    found: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        match = re.search(r"(?:^|\.)(\d+)\.(weight|bias|running_mean|running_var|num_batches_tracked)$", name)
        if match is None:
            raise _odd(path, name)
        found.setdefault(int(match[1]), {})[match[2]] = tensor
    layers: dict[str, nn.Module] = {}
    channels = None
    for number, parts in sorted(found.items()):
        weight = parts.get("weight")
        if weight is not None and weight.ndim == 4:
            first = channels is None
            if not first and weight.shape[0] != channels:
                raise _odd(path, f"layer {number}")
            kernel, stride = weight.shape[-1], 1 if first else 2
            layer: nn.Module = nn.ConvTranspose2d(
                weight.shape[0],
                weight.shape[1],
                kernel,
                stride,
                0 if first else (kernel - 2) // 2,
                bias="bias" in parts,
            )
            channels = weight.shape[1]
            layer.load_state_dict(parts)
            layers[str(number)] = layer
        elif weight is not None and "running_var" in parts and len(weight) == channels:
            layer = nn.BatchNorm2d(len(weight))
            layer.load_state_dict(parts, strict=False)
            layers[str(number)] = nn.Sequential(layer, nn.ReLU())
        else:
            raise _odd(path, f"layer {number}")
    if channels not in (1, 3):
        raise _odd(path, f"{channels} channels at the end")
    return Dcgan(layers)


def dcgan_latent(network: Any) -> int:
    """Entries of a latent of a built generator."""
    return next(iter(network.main.values())).in_channels


def _odd(path: Path | str, what: str) -> DataError:
    return DataError(
        f"{path} with {what}",
        "a DCGAN's generator: transposed convolutions with batch norms between",
        "building the network with your code and open_model(network, kind='decoder', shape=...)",
    )
