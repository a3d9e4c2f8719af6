r"""Networks of EDM and EDM2, from an export of their weights with the constructor's arguments beside it.

Published checkpoints of both are pickles that carry their own source and run it on loading; they are refused.
What opens is a safetensors file of the averaged network's state dict with a JSON of its arguments:

.. code-block:: json

    {"kind": "edm", "arguments": {"class": "EDMPrecond", "model_type": "SongUNet", "img_resolution": 32}}

which ``python -m workbench.adapters.convert_edm`` writes where the pickle is trusted. The classes are

=============  =======================  ======================  ==================================
class          the network is told      input                   D
=============  =======================  ======================  ==================================
EDMPrecond     ln(sigma)/4              y / sqrt(sigma^2+sd^2)  the inner network's, see `wrap`
VPPrecond      999 t(sigma)             y / sqrt(sigma^2+1)     y - sigma F
VEPrecond      ln(sigma/2)              y                       y + sigma F
iDDPMPrecond   its table's step         y / sqrt(sigma^2+1)     y - sigma F of the first channels
Precond        ln(sigma)/4 (EDM2)       y / sqrt(sigma^2+sd^2)  the inner network's
=============  =======================  ======================  ==================================

References:
    Karras, Aittala, Aila, Laine, "Elucidating the Design Space of Diffusion-Based Generative Models", 2022,
        table 1 and appendix C, https://arxiv.org/abs/2206.00364
    Karras et al., "Analyzing and Improving the Training Dynamics of Diffusion Models", 2024,
        https://arxiv.org/abs/2312.02696
"""

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workbench.adapters.convert_edm import PRECONDITIONINGS, convert_pickle
from workbench.adapters.edm2_net import UNet2
from workbench.adapters.edm_nets import DhariwalUNet, SongUNet
from workbench.adapters.files import read_manifest, read_tensors
from workbench.adapters.settings import Settings, class_index, named_after, said
from workbench.adapters.tables import table_schedule
from workbench.adapters.wrap import WrappedModel, wrap
from workbench.errors import DataError, SettingError
from workbench.schedules import VE, Schedule

_NETWORKS: dict[str, type[nn.Module]] = {"SongUNet": SongUNet, "DhariwalUNet": DhariwalUNet}
_UNREAD = ("use_fp16", "dropout", "label_dropout", "C_1", "C_2", "M", "beta_d", "beta_min", "epsilon_t")
_UNREAD += ("sigma_min", "sigma_max", "sigma_data", "logvar_channels", "class", "model_type", "img_channels")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A network of (x, noise, one-hot labels) as a callable (x, t, class).

    Attributes:
        network: The inner network.
        label_dim: Number of classes; 0 for none.
        channels: Channels of a picture; what follows them in the output is a variance.
        sign: 1, or -1 where the output is added instead of taken off.
    """

    network: nn.Module
    label_dim: int
    channels: int
    sign: float = 1.0

    def __call__(self, x: Tensor, t: Tensor, condition: Any) -> Tensor:
        labels = None
        if self.label_dim:
            labels = torch.zeros(len(x), self.label_dim, dtype=x.dtype, device=x.device)
            if isinstance(condition, int):
                labels[:, condition] = 1.0
            elif condition is not None:
                labels = torch.as_tensor(condition).to(labels).expand_as(labels)
        return self.sign * self.network(x, t, labels)[:, : self.channels]


def open_edm(source: Any, settings: Settings) -> WrappedModel:
    """Open a network of EDM or EDM2.

    Args:
        source: A safetensors file, or an inner network F(x, noise, labels) in memory.
        settings: What was asked for; `arguments` are the constructor's.

    Returns:
        The model, on pixels, or on the latents that it was trained on.

    Raises:
        SettingError: If the arguments are missing or unknown, or a class is.
        DataError: If the file is a pickle, or the weights do not fit the arguments.
    """
    if isinstance(source, Path) and source.suffix in (".pkl", ".pickle"):
        return _unpickled(source, settings)
    if settings.arguments is None:
        raise SettingError(
            f"{source if isinstance(source, Path) else type(source).__name__} without its arguments",
            f'"class" (one of {", ".join(PRECONDITIONINGS)}), img_resolution, img_channels and the rest',
            "the JSON that convert_edm writes, or arguments={...}",
        )
    arguments = dict(settings.arguments)
    kind = arguments.get("class", "EDMPrecond")
    if kind not in PRECONDITIONINGS:
        raise SettingError(f"class {kind!r}", f"one of {', '.join(PRECONDITIONINGS)}")
    missing = [
        name for name in ("img_resolution", "img_channels") if not isinstance(arguments.get(name), int)
    ]
    if missing:
        raise SettingError(
            f"arguments without {', '.join(missing)}", "whole numbers", "those of the training"
        )
    side, channels = arguments["img_resolution"], arguments["img_channels"]
    label_dim = int(arguments.get("label_dim", 0))
    own = isinstance(source, Path)
    network = settings.ready(load_network(source, arguments) if own else source, own=own)
    std = float(arguments.get("sigma_data", 0.5)) if kind in ("EDMPrecond", "Precond") else 0.5
    schedule, told, prediction = _told(kind, arguments)
    condition = class_index(settings.condition, settings.classes)
    dropped = arguments.get("label_dropout", 0) > 0
    _check_class(condition, settings.null, label_dim, dropped)
    latent = kind == "Precond" and channels == 4
    model = wrap(
        Labelled(network, label_dim, channels, -1.0 if kind == "VEPrecond" else 1.0),
        prediction=prediction,
        schedule=schedule,
        shape=(channels, side, side),
        sigma_range=settings.sigma_range or _range(kind, schedule),
        name=settings.name or (named_after(source) if own else type(source).__name__),
        data_std=settings.data_std or std,
        value_range=settings.value_range or (None if latent else (-1.0, 1.0)),
        classes=settings.classes,
        told=told,
        dtype=settings.dtype,
        null=settings.null,
        batch=settings.batch,
    )
    return model.given(condition, said(condition, settings.classes), guidance=settings.guidance)


def _unpickled(path: Path, settings: Settings) -> WrappedModel:
    """A pickle, refused with the way to convert it; where it is trusted, converted on the way."""
    if not settings.trust:
        raise DataError(
            f"{path}, a pickle that would run code on loading",
            "a safetensors file with its arguments beside it",
            "'python -m workbench.adapters.convert_edm PICKLE FOLDER --code REPOSITORY --trust', which runs "
            "that code, if you trust the file",
        )
    with tempfile.TemporaryDirectory() as folder:
        weights = convert_pickle(path, Path(folder), trust=True)
        arguments = read_manifest(weights)["arguments"]
        named = settings.name or path.stem
        return open_edm(weights, replace(settings, arguments=arguments, name=named))


def build_network(arguments: dict[str, Any]) -> nn.Module:
    """The inner network of a preconditioning with random weights.

    Args:
        arguments: "class", and what its constructor was given.

    Returns:
        The network.

    Raises:
        SettingError: If an argument is unknown or does not fit.
    """
    kind, channels = arguments.get("class", "EDMPrecond"), arguments["img_channels"]
    inner = {key: value for key, value in arguments.items() if key not in _UNREAD}
    default = "DhariwalUNet" if kind in ("EDMPrecond", "iDDPMPrecond") else "SongUNet"
    name = arguments.get("model_type", default)
    if kind != "Precond" and name not in _NETWORKS:
        raise SettingError(f"model_type {name!r}", f"one of {', '.join(_NETWORKS)}")
    try:
        if kind == "Precond":
            return UNet2(img_channels=channels, **{"label_dim": 0, **inner})
        wide = 2 * channels if kind == "iDDPMPrecond" else channels
        return _NETWORKS[name](in_channels=channels, out_channels=wide, **inner)
    except (TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        first = str(error).partition("\n")[0]
        raise SettingError(f"arguments {inner} for {name} ({first})", "those of the training") from error


def load_network(path: Path, arguments: dict[str, Any]) -> nn.Module:
    """The inner network with the weights of an export.

    Raises:
        DataError: If the weights do not fit.
    """
    prefix = "unet." if arguments.get("class") == "Precond" else "model."
    tensors = read_tensors(path)
    if any(name.startswith(prefix) for name in tensors):
        tensors = {name.removeprefix(prefix): one for name, one in tensors.items() if name.startswith(prefix)}
    network = build_network(arguments)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        first = " ".join(str(error).split())[:200]
        raise DataError(
            f"weights {path} that do not fit their arguments ({first})", "the network they were exported from"
        ) from error
    return network


Told = Callable[[Tensor], Tensor] | None


def _told(kind: str, arguments: dict[str, Any]) -> tuple[Schedule, Told, str]:
    """Schedule, what the network is told, and what it predicts."""
    if kind == "VEPrecond":
        return VE, lambda t: (0.5 * t).log(), "eps"
    if kind == "VPPrecond":
        wide, low = float(arguments.get("beta_d", 19.9)), float(arguments.get("beta_min", 0.1))
        steps = float(arguments.get("M", 1000))
        return _vp(wide, low), lambda t: (steps - 1.0) * t, "eps"
    if kind == "iDDPMPrecond":
        return iddpm_schedule(arguments), lambda t: t.round(), "eps"
    return VE, None, "edm"


def _vp(wide: float, low: float) -> Schedule:
    """The VP-SDE with beta from `low` to `low + wide`."""

    def levels(t: Tensor) -> tuple[Tensor, Tensor]:
        exponent = -0.25 * t**2 * wide - 0.5 * low * t
        return torch.exp(exponent), torch.sqrt(-torch.expm1(2.0 * exponent))

    def inverse(sigma: Tensor) -> Tensor:
        term = torch.log1p(sigma**2)
        return 2.0 * term / (low + torch.sqrt(low**2 + 2.0 * wide * term))

    return Schedule("vp", levels, 1.0, 0.0, inverse)


def iddpm_schedule(arguments: dict[str, Any]) -> Schedule:
    """The table of iDDPM's cosine noise with its clipped steps, its clock counting up from the cleanest."""
    steps = int(arguments.get("M", 1000))
    least, offset = float(arguments.get("C_1", 0.001)), float(arguments.get("C_2", 0.008))

    def share(j: int) -> float:
        return math.sin(0.5 * math.pi * j / steps / (offset + 1)) ** 2

    levels, sigma = [], 0.0
    for j in range(steps, 0, -1):
        sigma = math.sqrt((sigma**2 + 1) / max(share(j - 1) / share(j), least) - 1)
        levels.append(sigma)
    return table_schedule(1 / (1 + torch.tensor(levels, dtype=torch.float64) ** 2), name="iddpm table")


def _range(kind: str, schedule: Schedule) -> tuple[float, float] | None:
    """Noise levels that a class was trained on."""
    if kind == "VEPrecond":
        return 0.02, 100.0
    if kind != "iDDPMPrecond":
        return 0.002, 80.0
    a, s = schedule(torch.tensor([schedule.t_data, schedule.t_noise], dtype=torch.float64))
    clean, noisy = (s / a).tolist()
    return clean, noisy


def _check_class(condition: Any, null: Any, label_dim: int, dropped: bool) -> None:
    """Say at the door which class a network cannot do without."""
    if isinstance(condition, int) and not 0 <= condition < label_dim:
        raise SettingError(f"condition {condition}", f"a class number below {label_dim}", "condition=None")
    if label_dim and condition is None and null is None and not dropped:
        raise SettingError(
            f"no condition for a network of {label_dim} classes that was trained without dropping them",
            "a class number",
            "condition=0",
        )
