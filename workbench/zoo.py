"""The shipped models by name, and any folder that holds one of the same make.

A model is two files side by side: NAME.safetensors with the averaged weights in half precision, and
NAME.json, its card: what it was trained on, under which licence, by which command, and how good it was
measured to be. Nothing is unpickled.
"""

import json
import math
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from workbench.autoencoders import Vae, VaeModel
from workbench.decoders import LatentModel
from workbench.devices import resolve_device
from workbench.errors import DataError, SettingError
from workbench.judges import Judge
from workbench.models import Frame
from workbench.nets import Denoiser, Mlp, NetModel, UNet, given
from workbench.principal import PrincipalMlp

MODELS = ("ring", "moons", "digits", "fashion", "fashion_latent", "wake")
"""Names of the shipped models."""

JUDGES = ("digits", "fashion")
"""Names of the image sets for which a judge is shipped."""

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


def write_card(facts: dict[str, Any], path: Path) -> None:
    """Write a card as readable JSON."""
    path.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_card(path: Path) -> dict[str, Any]:
    """The facts of a card.

    Args:
        path: The JSON file.

    Returns:
        Its content.

    Raises:
        DataError: If it is no card.
    """
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # ValueError: no JSON, or no UTF-8
        raise DataError(f"an unreadable card {path} ({error})", "a JSON file", "another path") from error
    if not isinstance(facts, dict) or not {"name", "network"} <= facts.keys():
        raise DataError(f"{path} without a name or a network", "the card of a model", "another path")
    _fits(path, "name", facts["name"], isinstance(facts["name"], str), "a text")
    _fits(path, "network", facts["network"], isinstance(facts["network"], dict), "a mapping of settings")
    return facts


def check_facts(facts: dict[str, Any], path: Path) -> None:
    """Check what a denoiser's card says about the model.

    Args:
        facts: The card, as `read_card` returns it.
        path: Where it was read, for the sentence.

    Raises:
        DataError: If an entry is missing, of a wrong kind, or out of its range.
    """
    wanted = ("shape", "classes", "value_range", "sigma_min", "sigma_max", "data_std")
    missing = [key for key in wanted if key not in facts]
    if missing:
        raise DataError(f"{path} without {', '.join(missing)}", "the card of a model", "another path")
    shape, classes, bounds = facts["shape"], facts["classes"], facts["value_range"]
    lengths = isinstance(shape, list) and shape and all(_is_whole(n, 1) for n in shape)
    _fits(path, "shape", shape, lengths, "a list of positive whole numbers")
    named = isinstance(classes, list) and all(isinstance(name, str) for name in classes)
    _fits(path, "classes", classes, named, "a list of names")
    ordered = bounds is None or (
        isinstance(bounds, list)
        and len(bounds) == 2
        and all(map(_is_number, bounds))
        and bounds[0] < bounds[1]
    )
    _fits(path, "value_range", bounds, ordered, "null or [lowest, highest]")
    for key in ("sigma_min", "sigma_max", "data_std"):
        _fits(path, key, facts[key], _is_number(facts[key]) and facts[key] > 0, "a finite number above 0")
    low, high = facts["sigma_min"], facts["sigma_max"]
    _fits(path, "sigma_min", low, low < high, f"a level below sigma_max, {high:g}")
    if "autoencoder" in facts:
        _check_autoencoder(facts["autoencoder"], math.prod(shape), path)
    for key, value in facts["network"].items():
        if key == "data_std":
            _fits(path, "network.data_std", value, _is_number(value) and value > 0, "a number above 0")
        elif key != "kind":
            least = 0 if key in ("classes", "depth") else 1
            _fits(path, f"network.{key}", value, _is_whole(value, least), f"a whole number, at least {least}")


def _check_autoencoder(described: Any, dim: int, path: Path) -> None:
    """Check what a card says about an autoencoder whose latents have `dim` entries."""
    _fits(path, "autoencoder", described, isinstance(described, dict), "a mapping of settings")
    named = isinstance(described.get("data"), str)
    _fits(path, "autoencoder.data", described.get("data"), named, "the name of its pictures")
    shape, widths, bounds = (described.get(key) for key in ("shape", "widths", "value_range"))
    lengths = isinstance(shape, list) and shape and all(_is_whole(n, 1) for n in shape)
    _fits(path, "autoencoder.shape", shape, lengths, "a list of positive whole numbers")
    layers = isinstance(widths, list) and all(_is_whole(n, 1) for n in widths)
    _fits(path, "autoencoder.widths", widths, layers, "a list of positive whole numbers")
    pair = isinstance(bounds, list) and len(bounds) == 2 and all(map(_is_number, bounds))
    _fits(path, "autoencoder.value_range", bounds, pair and bounds[0] < bounds[1], "[lowest, highest]")
    pixels, latents = described.get("pixels"), described.get("latents")
    _fits(path, "autoencoder.pixels", pixels, pixels == math.prod(shape), f"{math.prod(shape)}, as its shape")
    _fits(path, "autoencoder.latents", latents, latents == dim, f"{dim}, as the shape of a latent")


def _fits(path: Path, key: str, value: Any, fits: Any, expected: str) -> None:
    """Refuse an entry of a card by its name."""
    if not fits:
        text = repr(value)
        short = text if len(text) <= 60 else f"{text[:60]}..."
        raise DataError(f"{path} with {key} {short}", expected, "the card that was written with the weights")


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**31


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def _check_dtype(dtype: Any) -> None:
    """Refuse what is no floating type of torch."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise SettingError(f"dtype={dtype!r}", "a floating torch.dtype", "dtype=torch.float64")


def find_card(name: str | Path) -> Path:
    """The card of a shipped model, of a folder, or the given card itself.

    Args:
        name: A name in `MODELS`, "judge_" with a name in `JUDGES`, a folder with exactly one card, or the
            path of a card.

    Returns:
        Path of the JSON file.

    Raises:
        SettingError: If there is no such model.
        DataError: If a folder does not hold exactly one card.
    """
    if not isinstance(name, str | Path):
        raise SettingError(
            f"model {name!r}", f"{', '.join(MODELS)}, or an existing folder", "load_model('fashion')"
        )
    if str(name) in (*MODELS, *(f"judge_{data}" for data in JUDGES)):
        return _shipped_folder() / f"{name}.json"
    path = Path(name)
    if path.is_dir():
        cards = [card for card in sorted(path.glob("*.json")) if card.with_suffix(".safetensors").exists()]
        if len(cards) != 1:
            raise DataError(
                f"folder {str(path)!r} with {len(cards)} cards beside their weights",
                "exactly one NAME.json with NAME.safetensors",
                "the path of the card itself",
            )
        return cards[0]
    if path.suffix == ".json" and path.is_file():
        return path
    raise SettingError(
        f"model {str(name)!r}", f"{', '.join(MODELS)}, or an existing folder", "load_model('fashion')"
    )


def card(name: str | Path) -> str:
    """A model's card as text for people.

    Args:
        name: As in `find_card`.

    Returns:
        Lines of text: data, licence, training command, and every measured figure with its error.
    """
    path = find_card(name)
    facts = read_card(path)
    figures = facts.get("figures", {})
    _fits(path, "figures", figures, isinstance(figures, dict), "a mapping of names to figures")
    lines = [f"{facts['name']}: {facts.get('title', '')}"]
    for key in ("data", "licence", "command", "measured_by", "training"):
        if key in facts:
            lines.append(f"  {key}: {_in_words(facts[key])}")
    lines.append(f"  network: {_in_words(facts['network'])}")
    for figure_name, figure in figures.items():
        measured = isinstance(figure, dict) and _is_number(figure.get("value")) and "how" in figure
        bounded = measured and (figure.get("error") is None or _is_number(figure["error"]))
        _fits(path, f"figures.{figure_name}", figure, bounded, "a mapping with value, error and how")
        bar = "" if figure.get("error") is None else f" ± {figure['error']:.2g}"
        unit = f" {figure['unit']}" if figure.get("unit") else ""
        lines.append(f"  {figure_name}: {figure['value']:.4g}{bar}{unit} ({figure['how']})")
    return "\n".join(lines)


def _in_words(value: Any) -> str:
    """A card's entry on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_in_words(item)}" for key, item in value.items())
    return str(value)


def _shipped_folder() -> Path:
    """The folder of the shipped weights; the package is always installed as files."""
    return Path(str(resources.files("workbench") / "weights"))


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Tensors of a safetensors file."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"unreadable weights {path} ({error})", "a safetensors file", "the card's command"
        ) from error
