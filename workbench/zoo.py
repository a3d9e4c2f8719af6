"""The shipped models by name, and any folder that holds one of the same make.

A model is two files side by side: NAME.safetensors with the averaged weights in half precision, and
NAME.json, its card: what it was trained on, under which licence, by which command, and how good it was
measured to be. Nothing is unpickled.
"""

from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from workbench.autoencoders import Vae, VaeModel
from workbench.cards import JUDGES, check_facts, find_card, read_card, write_card
from workbench.decoders import LatentModel
from workbench.devices import resolve_device
from workbench.errors import DataError, SettingError
from workbench.judges import Judge
from workbench.models import Frame
from workbench.nets import Denoiser, Mlp, NetModel, UNet, given
from workbench.principal import PrincipalMlp

INNER_NETWORKS: dict[str, type[nn.Module]] = {"mlp": Mlp, "unet": UNet, "principal": PrincipalMlp}
"""Inner networks that a card may name."""


def load_model(
    name: str | Path,
    *,
    condition: int | str | None = None,
    guidance: float = 0.0,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> NetModel | LatentModel:
    """Load a shipped model, or one of the same make from a folder.

    Args:
        name: A name in `MODELS`, a folder with exactly one card, or the path of a card.
        condition: Class index or name to bind; None for the null class.
        guidance: Weight of classifier-free guidance; with any but 0 the field is no score.
        device: Device to compute on.
        dtype: Floating type to compute in; float64 for the score at noise below about 0.02.

    Returns:
        The model, frozen and ready; with its decoder where the card names an autoencoder, and then its points
        are latents.

    Raises:
        SettingError: For an unknown name, class, device or dtype.
        DataError: If the card or the weights are missing or damaged, or do not fit each other.

    Example:
        >>> load_model("ring").frame.shape
        (2,)
    """
    _check_dtype(dtype)
    path = find_card(name)
    facts = read_card(path)
    check_facts(facts, path)
    weights = path.with_suffix(".safetensors")
    tensors = _read_weights(weights)
    place = resolve_device(device)
    net = _filled(build_net(facts["network"]), _without(tensors), weights).to(device=place, dtype=dtype)
    frame = Frame(
        name=facts["name"],
        shape=tuple(facts["shape"]),
        sigma_min=facts["sigma_min"],
        sigma_max=facts["sigma_max"],
        value_range=None if facts["value_range"] is None else tuple(facts["value_range"]),
        data_std=facts["data_std"],
        classes=tuple(facts["classes"]),
        space="latent" if "autoencoder" in facts else "data",
    )
    model = given(NetModel(net, frame, net.classes), condition, guidance=guidance)
    if "autoencoder" not in facts:
        return model
    described = facts["autoencoder"]
    vae = _filled(build_vae(described), _under(tensors), weights).to(device=place, dtype=dtype)
    limits = tuple(described["value_range"])
    picture = Frame(described["data"], tuple(described["shape"]), 0.0, 0.0, limits)
    return LatentModel(model, VaeModel(vae, picture))


def build_vae(described: dict[str, Any]) -> Vae:
    """A fresh autoencoder from the description in a card: "pixels", "latents", "widths"."""
    return Vae(described["pixels"], described["latents"], described["widths"])


def save_vae(vae: Vae, path: Path) -> None:
    """Write an autoencoder in half precision."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.half().contiguous() for name, tensor in vae.state_dict().items()}, path)


def load_vae(described: dict[str, Any], path: Path) -> Vae:
    """Read an autoencoder that `save_vae` wrote, frozen and in evaluation mode."""
    return _filled(build_vae(described), _read_weights(path), path)


_VAE = "autoencoder."


def _under(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors of the autoencoder, by their names in it."""
    return {name.removeprefix(_VAE): tensor for name, tensor in tensors.items() if name.startswith(_VAE)}


def _without(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors of the denoiser."""
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(_VAE)}


Net = TypeVar("Net", bound=nn.Module)


def _filled(net: Net, tensors: dict[str, torch.Tensor], path: Path) -> Net:
    """The network with weights from a file, frozen and in evaluation mode."""
    try:
        net.load_state_dict(tensors)
    except RuntimeError as error:
        raise DataError(
            f"weights {path} that do not fit their card",
            f"the network {type(net).__name__} that it describes",
            "training again with the card's command",
        ) from error
    return net.eval().requires_grad_(False)


def load_judge(name: str, *, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32) -> Judge:
    """Load the shipped judge of an image set.

    Args:
        name: A name in `JUDGES`.
        device: Device to compute on.
        dtype: Floating type to compute in.

    Returns:
        The classifier, frozen and in evaluation mode.

    Raises:
        SettingError: For an unknown name or device.
        DataError: If the weights are damaged.
    """
    if name not in JUDGES:
        raise SettingError(f"judge {name!r}", f"one of {', '.join(JUDGES)}", "load_judge('fashion')")
    _check_dtype(dtype)
    path = find_card(f"judge_{name}")
    judge = Judge(**read_card(path)["network"])
    judge.load_state_dict(_read_weights(path.with_suffix(".safetensors")))
    return judge.eval().requires_grad_(False).to(device=resolve_device(device), dtype=dtype)


def build_net(network: dict[str, Any]) -> Denoiser:
    """A fresh denoiser from the description in a card.

    Args:
        network: "kind" (a key of `INNER_NETWORKS`), "data_std", and the arguments of the inner network.

    Returns:
        The network with random weights from torch's global generator.

    Raises:
        DataError: If the description names no known network.
    """
    arguments = dict(network)
    kind, data_std = arguments.pop("kind", None), arguments.pop("data_std", 0.5)
    if not isinstance(kind, str) or kind not in INNER_NETWORKS:
        raise DataError(f"a card with network {kind!r}", f"one of {', '.join(INNER_NETWORKS)}")
    try:
        inner = INNER_NETWORKS[kind](**arguments)
    except (TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        first = str(error).partition("\n")[0]
        raise DataError(f"a card whose network {kind!r} has settings {arguments}", first) from error
    return Denoiser(inner, classes=arguments.get("classes", 0), data_std=data_std)


def save_model(net: nn.Module, facts: dict[str, Any], folder: str | Path, *, vae: Vae | None = None) -> Path:
    """Write weights in half precision and their card.

    Args:
        net: The network.
        facts: The card; its "name" names the files.
        folder: Folder to write into; made if missing.
        vae: The autoencoder in whose latents it works, which goes into the same file.

    Returns:
        The card's path.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    card_path = folder / f"{facts['name']}.json"
    state = dict(net.state_dict())
    if vae is not None:
        state |= {f"{_VAE}{name}": tensor for name, tensor in vae.state_dict().items()}
    tensors = {name: tensor.detach().cpu().half().contiguous() for name, tensor in state.items()}
    save_file(tensors, card_path.with_suffix(".safetensors"), metadata={"card": card_path.name})
    write_card(facts, card_path)
    return card_path


def _check_dtype(dtype: Any) -> None:
    """Refuse what is no floating type of torch."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise SettingError(f"dtype={dtype!r}", "a floating torch.dtype", "dtype=torch.float64")


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Tensors of a safetensors file."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"unreadable weights {path} ({error})", "a safetensors file", "the card's command"
        ) from error
