"""Cards: what stands beside the weights of a model, found, read, checked and told.

A card is JSON: what the model was trained on, under which licence, by which command, and how good it was
measured to be.
"""

import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

from workbench.errors import DataError, SettingError

MODELS = ("ring", "moons", "digits", "fashion", "fashion_latent", "wake")
"""Names of the shipped models."""

JUDGES = ("digits", "fashion")
"""Names of the image sets for which a judge is shipped."""


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
