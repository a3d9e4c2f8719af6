"""What is taken from a pipeline of diffusers: network, scheduler and autoencoder, from a folder or in memory.

Nothing that comes with a folder is run: classes are those of the installed library, weights are read as
tensors. Early revisions have other keys and class names.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from workbench.adapters.files import TORCH_SUFFIXES, read_json, read_plain
from workbench.adapters.settings import Settings, import_extra, named_after
from workbench.errors import DataError, SettingError

NETWORKS = ("unet", "transformer", "prior")
"""Folders of a pipeline that can hold its network."""

AUTOENCODERS = ("vae", "vqvae", "movq")
"""Folders of a pipeline that can hold its autoencoder."""

_OLD_CLASSES = {"GaussianDDPMScheduler": "DDPMScheduler", "GlideDDIMScheduler": "DDIMScheduler"}
_OLD_KEYS = {"timesteps": "num_train_timesteps", "clip_predicted_image": "clip_sample"}
_WEIGHTS = "diffusion_pytorch_model"


@dataclass(frozen=True, slots=True)
class Parts:
    """What is taken from a pipeline.

    Attributes:
        network: The denoising network.
        scheduler: The scheduler object.
        autoencoder: What latents are decoded by; None in pixel space.
        name: Name of the folder.
        classes: Names of the classes, in the order of their indices.
    """

    network: Any
    scheduler: Any
    autoencoder: Any
    name: str
    classes: tuple[str, ...] = ()


def read_parts(folder: Path, settings: Settings) -> Parts | nn.Module:
    """Load the parts of a folder, from its files only.

    Args:
        folder: The pipeline's folder, or a flat one.
        settings: What was asked for.

    Returns:
        The parts, or an autoencoder where the folder holds nothing else.

    Raises:
        DataError: If files are missing or unreadable, or would run code.
        SettingError: For a class that the library does not have.
    """
    index = folder / "model_index.json"
    if not index.is_file():
        own = read_json(folder / "config.json")
        network = _load(folder, own, folder.name)
        if _is_autoencoder(network):
            return network
        scheduler = _scheduler(folder / "scheduler_config.json", settings)
        return Parts(network, scheduler, None, named_after(folder))
    facts = read_json(index)
    inside = [name for name in NETWORKS if (folder / name / "config.json").is_file()]
    if not inside:
        raise DataError(
            f"{folder} without any of {', '.join(f'{name}/config.json' for name in NETWORKS)}",
            "a pipeline with its network",
            "downloading the whole folder",
        )
    network = _load(folder / inside[0], read_json(folder / inside[0] / "config.json"), inside[0])
    coders = [name for name in AUTOENCODERS if (folder / name / "config.json").is_file()]
    coder = (
        _load(folder / coders[0], read_json(folder / coders[0] / "config.json"), coders[0])
        if coders
        else None
    )
    scheduler = _scheduler(folder / "scheduler" / "scheduler_config.json", settings)
    return Parts(network, scheduler, coder, named_after(folder), _class_names(facts))


def parts_of(pipeline: Any) -> Parts:
    """The parts of a pipeline object.

    Raises:
        SettingError: If it lacks a network or a scheduler.
    """
    components = dict(pipeline.components)
    network = next((components[name] for name in NETWORKS if components.get(name) is not None), None)
    if network is None or components.get("scheduler") is None:
        raise SettingError(
            f"a {type(pipeline).__name__} without a network or a scheduler", "a pipeline that has both"
        )
    coder = next((components[name] for name in AUTOENCODERS if components.get(name) is not None), None)
    return Parts(
        network, components["scheduler"], coder, type(pipeline).__name__, _class_names(dict(pipeline.config))
    )


def _class_names(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the classes in a pipeline's index, in the order of their indices."""
    names = facts.get("id2label")
    if not isinstance(names, Mapping):
        return ()
    return tuple(str(names[key]).split(",")[0] for key in sorted(names, key=int))


def _load(folder: Path, config: Mapping[str, Any], part: str) -> Any:
    """A model of the library from a local folder; no code of the folder's own is ever run."""
    diffusers = import_extra("diffusers")
    name = str(config.get("_class_name", "UNet2DModel"))
    made: Any = getattr(diffusers, name, None)
    if not (isinstance(made, type) and issubclass(made, nn.Module)):
        raise SettingError(
            f"{part} of class {name!r}",
            "a network of the installed diffusers; code that comes with a folder is never run",
            "importing your class yourself and wrap(network, prediction=..., schedule=..., shape=...)",
        )
    safe = any(folder.glob("*.safetensors"))
    if not safe:
        pickled = [path for path in sorted(folder.glob("*")) if path.suffix in TORCH_SUFFIXES]
        if not pickled:
            raise DataError(
                f"{folder} without weights", f"{_WEIGHTS}.safetensors", "downloading the whole folder"
            )
        for path in pickled:
            read_plain(path)  # refuses what would run code, before the library looks at it
    try:
        return made.from_pretrained(  # pyright: ignore[reportAttributeAccessIssue]  # of the library's mixin
            str(folder), local_files_only=True, use_safetensors=safe, low_cpu_mem_usage=False
        )
    except (OSError, ValueError, RuntimeError, TypeError, KeyError) as error:
        first = str(error).partition("\n")[0][:200]
        raise DataError(f"an unreadable {part} in {folder} ({first})", f"weights of a {name}") from error


def _scheduler(path: Path, settings: Settings) -> Any:
    """The scheduler of a folder, early spellings included."""
    diffusers = import_extra("diffusers")
    if not path.is_file():
        if settings.schedule is not None and settings.prediction is not None:
            return None
        raise DataError(
            f"no {path}", "the scheduler that the network was trained with", "schedule=..., prediction=..."
        )
    facts = {_OLD_KEYS.get(key, key): value for key, value in read_json(path).items()}
    name = _OLD_CLASSES.get(str(facts.get("_class_name")), str(facts.get("_class_name")))
    made = getattr(diffusers, name, None)
    if not (isinstance(made, type) and issubclass(made, diffusers.SchedulerMixin)):
        raise SettingError(
            f"scheduler {name!r}", "one of the installed diffusers", "schedule=..., prediction=..."
        )
    facts["_class_name"] = name
    known = set(inspect.signature(made.__init__).parameters)
    return made.from_config({key: value for key, value in facts.items() if key in known})


def _is_autoencoder(network: Any) -> bool:
    """Whether a network decodes latents."""
    return callable(getattr(network, "decode", None))
