"""One door for every model that a researcher has on disk or in memory.

`open_model` finds out what it was given, hands it to the family's adapter, and returns what lenses can use: a
score model, a score model in a latent space with its decoder, or a decoder alone. Nothing is fetched, and
nothing that came with a file is run unless that is explicitly trusted.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from workbench.adapters.budget import with_memory
from workbench.adapters.effects import with_autocast, with_compile
from workbench.adapters.files import TORCH_SUFFIXES, local_path, read_json, read_manifest, read_tensors
from workbench.adapters.generators import WEIGHTS
from workbench.adapters.settings import Settings
from workbench.adapters.wrap import PREDICTIONS, WrappedModel
from workbench.cards import MODELS, find_card
from workbench.checks import check_choice, check_count, check_number, check_switch, shown
from workbench.decoders import Decoder, LatentModel
from workbench.devices import resolve_device
from workbench.errors import SettingError
from workbench.models import Landscape, ScoreModel
from workbench.schedules import Schedule, schedule_of
from workbench.zoo import load_model

FAMILIES: dict[str, tuple[str, str]] = {
    "module": ("workbench.adapters.callables", "open_callable"),
    "diffusers": ("workbench.adapters.diffusers_folder", "open_diffusers"),
    "azula": ("workbench.adapters.azula_denoiser", "open_azula"),
    "flow_matching": ("workbench.adapters.vector_fields", "open_field"),
    "torchcfm": ("workbench.adapters.vector_fields", "open_field"),
    "zuko": ("workbench.adapters.normalizing_flow", "open_zuko"),
    "edm": ("workbench.adapters.edm", "open_edm"),
    "dit": ("workbench.adapters.dit", "open_dit"),
    "sit": ("workbench.adapters.dit", "open_sit"),
    "decoder": ("workbench.adapters.generators", "open_generator"),
    "onnx": ("workbench.adapters.onnx_graph", "open_onnx"),
}
"""Families of foreign models: module and opener of each. The opener takes a source and `Settings`."""

SMALLEST_IN_FLOAT32 = 0.02
"""Noise level below which a score in single precision loses too many digits."""

KINDS = ("workbench", *FAMILIES)
"""What `kind` can say: a shipped model or one of the same make, or a family; "module" is any callable."""


def open_model(
    source: str | Path | nn.Module | Callable[..., Any] | Any,
    *,
    kind: str | None = None,
    prediction: str | None = None,
    schedule: Schedule | str | Any = None,
    shape: tuple[int, ...] | list[int] | None = None,
    data_std: float | None = None,
    value_range: tuple[float, float] | list[float] | None = None,
    sigma_range: tuple[float, float] | list[float] | None = None,
    classes: tuple[str, ...] | list[str] = (),
    condition: Any = None,
    null: Any = None,
    guidance: float = 0.0,
    name: str | None = None,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = torch.float32,
    batch: int | None = None,
    trust: bool = False,
    arguments: dict[str, Any] | None = None,
    decoder: str | Path | Decoder | None = None,
    memory: int | None = None,
    autocast: str | torch.dtype | None = None,
    compile: bool | str = False,
) -> ScoreModel | Decoder | Landscape:
    """Open any diffusion model, flow or decoder.

    Settings that are left out are what the source itself says; a file may have them beside it, in NAME.json
    (in ``workbench.json`` for a folder), with the names of the arguments here.

    Args:
        source: Name of a shipped model, a local file or folder, a network, a pipeline, or any callable.
        kind: What it is, one of `KINDS`; found out by default.
        prediction: What the network's output means, as in `wrap`.
        schedule: The noising that it was trained on, the name of a shipped one, or the schedule, path or
            matcher object of the source's own library.
        shape: Shape of one point: of a sample, or of a latent where there is a decoder.
        data_std: Standard deviation of one entry of the data.
        value_range: Lowest and highest value of a sample's entries.
        sigma_range: Smallest and largest noise level at which it may be asked, in the data's unit.
        classes: Names of the classes that it can be conditioned on.
        condition: A class by number or name, an embedding, or a mapping of the network's own arguments.
        null: The condition that stands for none.
        guidance: Weight w of classifier-free guidance, D + w (D - D_null); with any but 0 the field is no
            score, and every figure says so. A guidance scale s of other libraries is w = s - 1.
        name: Its name, as figures print it.
        device: As for `resolve_device`.
        dtype: Type to compute in, or its name; float64 for scores at noise below about 0.02.
        batch: Most points to a network call; None for all at once.
        trust: Whether code that comes with the source may run.
        arguments: Constructor arguments of the network, for weights that do not say them.
        decoder: What decodes the latents of a score model that came without: a decoder, or where one lies.
        memory: Bytes that a call of a score model with its derivative may take; the batch that fits is found
            by trial.
        autocast: Lower type that the network computes in, "bfloat16" or "float16"; what it does to the
            numbers is measured and stands in the frame's notes.
        compile: Whether torch compiles the network, or the backend by name; measured in the same way.

    Returns:
        A `ScoreModel` on pixels or points, a `LatentModel` where there is an autoencoder, a `Decoder`, or a
        `Landscape` where only a density is known.

    Raises:
        SettingError: For a source that is not there or not known, or a setting that is missing or has no use.
        DataError: If files cannot be read, or would run code on loading.
        MissingExtra: If the family's library is not installed.

    Example:
        >>> open_model("ring").frame.shape
        (2,)
    """
    given = {
        "kind": kind,
        "prediction": prediction,
        "schedule": schedule,
        "shape": shape,
        "data_std": data_std,
        "value_range": value_range,
        "sigma_range": sigma_range,
        "classes": tuple(classes) or None,
        "condition": condition,
        "null": null,
        "name": name,
        "arguments": arguments,
        "decoder": decoder,
        "autocast": autocast,
        "compile": compile or None,
    }
    given = {key: value for key, value in given.items() if value is not None}
    check_number("guidance", guidance)
    check_count("batch", batch, none=True)
    check_switch("trust", trust)
    place, precision = resolve_device(device), dtype_of(dtype)
    if _is_shipped(source):
        return _shipped(source, condition, guidance, place, precision)
    path = _weights_of(local_path(source)) if isinstance(source, str | Path) else None
    if path is not None:
        given = _manifest(path) | given
    coder = given.pop("decoder", None)
    autocast, compile = given.pop("autocast", None), given.pop("compile", False)
    settings = _settings(given, guidance, place, precision, batch, trust)
    found = settings.kind or (kind_of_path(path) if path is not None else kind_of_object(source))
    check_choice("kind", found, KINDS)
    if found == "workbench":
        return _shipped(source, condition, guidance, place, precision)
    module, opener = FAMILIES[found]
    model = getattr(import_module(module), opener)(source if path is None else path, settings)
    if coder is not None:
        model = with_decoder(model, _decoder(coder, path, place, precision))
    model = _advised(model)
    if autocast is not None:
        model, _ = with_autocast(model, dtype_of(autocast), device=place)
    if compile is not False:
        backend = compile if isinstance(compile, str) else "inductor"
        model, _ = with_compile(model, backend=backend, device=place)
    if memory is None or not isinstance(model, WrappedModel | LatentModel):
        return model
    return with_memory(model, memory, device=place)


def _advised(model: Any) -> Any:
    """The same model with a note where its score will want more precision than it has."""
    inner = model.model if isinstance(model, LatentModel) else model
    if not isinstance(inner, WrappedModel):
        return model
    single = inner.dtype is not None and torch.finfo(inner.dtype).eps > 1e-10
    if not single or inner.frame.sigma_min >= SMALLEST_IN_FLOAT32:
        return model
    note = (
        f"below sigma {SMALLEST_IN_FLOAT32:g} the score divides rounding by sigma squared: "
        "dtype='float64' there"
    )
    inner = replace(inner, frame=replace(inner.frame, notes=(*inner.frame.notes, note)))
    return replace(model, model=inner) if isinstance(model, LatentModel) else inner


def with_decoder(model: Any, decoder: Any) -> LatentModel:
    """A score model on latents together with what decodes them.

    Args:
        model: The score model.
        decoder: The decoder of its latents.

    Returns:
        Both as one.

    Raises:
        SettingError: If either plays another role, or their latents differ in shape.
    """
    if not isinstance(model, WrappedModel) or not isinstance(decoder, Decoder):
        raise SettingError(
            f"a {type(model).__name__} with decoder {type(decoder).__name__}", "a score model and a decoder"
        )
    if tuple(decoder.latent_shape) != model.frame.shape:
        raise SettingError(
            f"a decoder of latents of shape {tuple(decoder.latent_shape)}",
            f"shape {model.frame.shape}, that of {model.frame.name}",
            "the autoencoder that the model was trained with",
        )
    frame = replace(model.frame, space="latent", value_range=None)
    return LatentModel(replace(model, frame=frame), decoder)


def _decoder(coder: Any, beside: Path | None, device: torch.device, dtype: torch.dtype) -> Any:
    """The decoder itself, or opened from where it lies; a relative path in a JSON counts from that file."""
    if not isinstance(coder, str | Path):
        return coder
    near = None if beside is None else (beside if beside.is_dir() else beside.parent) / coder
    return open_model(near if near is not None and near.exists() else coder, device=device, dtype=dtype)


def kind_of_path(path: Path) -> str:
    """The family of a file or folder, from its name and layout; nothing is loaded.

    Args:
        path: A file or folder that is there.

    Returns:
        One of `KINDS`.

    Raises:
        SettingError: If it is none that is known; the sentence says what would be.
    """
    if path.is_dir():
        if (path / "model_index.json").is_file():
            return "diffusers"
        if (path / "config.json").is_file():
            return "diffusers"
        if any(card.with_suffix(".safetensors").exists() for card in path.glob("*.json")):
            return "workbench"
        raise SettingError(
            f"folder {str(path)!r} with {', '.join(sorted(p.name for p in path.iterdir())[:6]) or 'nothing'}",
            "model_index.json or config.json of diffusers, or NAME.json with NAME.safetensors",
            "kind=...",
        )
    if path.suffix == ".onnx":
        return "onnx"
    if path.suffix in (".pkl", ".pickle"):
        return "edm"
    if path.suffix in (".safetensors", *TORCH_SUFFIXES):
        return _kind_of_weights(path)
    raise SettingError(
        f"file {str(path)!r}",
        "safetensors, a torch file of tensors, or ONNX",
        f"kind= one of {', '.join(KINDS)}",
    )


def _kind_of_weights(path: Path) -> str:
    """The family of a weights file, from the names of its tensors."""
    names = set(read_tensors(path, prefer=WEIGHTS))
    if any("x_embedder.proj.weight" in name for name in names):
        for kind in ("sit", "dit"):
            if kind in path.stem.lower():
                return kind
        raise SettingError(
            f"{path}, a transformer that may be DiT or SiT", "which of them it is", "kind='dit' or kind='sit'"
        )
    if any("map_layer0.weight" in name or "emb_fourier.freqs" in name for name in names):
        return "edm"
    if any(name.endswith(("main.0.weight", "running_var")) for name in names):
        return "decoder"
    raise SettingError(
        f"{path} with tensors {', '.join(sorted(names)[:3])} and others",
        "weights of DiT, SiT, EDM, EDM2 or DCGAN, or a JSON beside the file with its kind",
        "building the network with your code and open_model(network, ...)",
    )


def kind_of_object(source: Any) -> str:
    """The family of a network or a pipeline in memory, from the library that its class comes from.

    Args:
        source: Any object.

    Returns:
        One of `KINDS`.
    """
    homes = [made.__module__.split(".")[0] for made in type(source).__mro__]
    return next((home for home in homes if home in FAMILIES), "module")


def dtype_of(name: str | torch.dtype) -> torch.dtype:
    """A floating type by its name.

    Raises:
        SettingError: If it is none.
    """
    found = getattr(torch, name, None) if isinstance(name, str) else name
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise SettingError(f"dtype={name!r}", "a floating type", "dtype='float64'")
    return found


def _is_shipped(source: Any) -> bool:
    """Whether a source is the name of a shipped model."""
    return isinstance(source, str) and source in MODELS


def _shipped(
    source: Any, condition: Any, guidance: float, device: torch.device, dtype: torch.dtype
) -> ScoreModel:
    """A shipped model, or one of the same make from a folder."""
    return load_model(find_card(source), condition=condition, guidance=guidance, device=device, dtype=dtype)


def _weights_of(path: Path) -> Path:
    """Weights that a JSON with a kind lies beside, from its path or a folder with one; else the path."""
    cards = [path] if path.suffix == ".json" else sorted(path.glob("*.json")) if path.is_dir() else []
    if (path / "model_index.json").is_file() or (path / "config.json").is_file():
        return path
    found = [
        weights
        for card in cards
        if card.is_file() and "kind" in read_json(card)
        for suffix in (".safetensors", ".onnx", *TORCH_SUFFIXES)
        if (weights := card.with_suffix(suffix)).is_file()
    ]
    return found[0] if len(found) == 1 else path


def _manifest(path: Path) -> dict[str, Any]:
    """Settings that lie beside a source, under the names of `open_model`."""
    known = {"kind", "prediction", "schedule", "shape", "data_std", "value_range", "sigma_range", "classes"}
    known |= {"condition", "null", "name", "arguments", "decoder", "autocast", "compile"}
    facts = read_manifest(path)
    ours = path.is_dir() or "kind" in facts  # NAME.json beside a file may be of anything
    return {key: value for key, value in facts.items() if key in known} if ours else {}


def _settings(
    given: dict[str, Any],
    guidance: float,
    device: torch.device,
    dtype: torch.dtype,
    batch: int | None,
    trust: bool,
) -> Settings:
    """Settings checked, with lists made tuples and names made what they stand for."""
    made = dict(given)
    check_choice("kind", made.get("kind"), KINDS, none=True)
    if "prediction" in made:
        check_choice("prediction", made["prediction"], PREDICTIONS)
    if isinstance(made.get("schedule"), str):
        made["schedule"] = schedule_of(made["schedule"])
    check_number("data_std", made.get("data_std"), above=0.0, none=True)
    for key in ("shape", "value_range", "sigma_range", "classes"):
        if key in made:
            if not isinstance(made[key], tuple | list):
                raise SettingError(shown(key, made[key]), "a tuple or a list", f"{key}=({made[key]!r},)")
            made[key] = tuple(made[key])
    return Settings(**made, guidance=float(guidance), device=device, dtype=dtype, batch=batch, trust=trust)
