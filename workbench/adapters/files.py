"""Foreign files read without running anything that they contain, and without any network.

A pickle is a program. Tensors are read from safetensors, or from torch files by torch's restricted unpickler,
which knows tensors and plain containers only; whatever needs more is refused with the way to convert it.
"""

import json
import pickle
import re
import warnings
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from workbench.errors import DataError, SettingError

SHIPPED_FOLDERS = ("digits_pipeline",)
"""Foreign models that are shipped: the worked examples, opened by name as a user's own folder is."""

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".tar")
"""Files that torch's restricted unpickler is tried on."""

_CONVERT = (
    "safetensors.torch.save_file(network.state_dict(), 'NAME.safetensors') in an environment that trusts it"
)


def local_path(source: str | Path) -> Path:
    """A file or folder that is there.

    Args:
        source: Its path.

    Returns:
        The path, with the home folder filled in.

    Raises:
        SettingError: If nothing is there; for a hub's name the sentence says how to download it first.
    """
    text = str(source)
    if text in SHIPPED_FOLDERS:
        return Path(str(resources.files("workbench") / "weights" / text))
    try:
        path = Path(text).expanduser()
        found = path.exists()
    except (RuntimeError, ValueError, OSError):
        path, found = Path(), False
    if found:
        return path
    address = re.sub(r"^(https?://)?(www\.)?(huggingface\.co|hf\.co)/", "", text)
    if re.fullmatch(r"[\w.-]+/[\w.-]+", address) and not text.startswith((".", "~", "/")):
        folder = address.split("/")[1]
        raise SettingError(
            f"{text!r}, which is no folder here and looks like a name on a hub",
            "a local file or folder: nothing is fetched",
            f"'hf download {address} --local-dir {folder}' where there is a network, then "
            f"open_model({folder!r})",
        )
    if re.match(r"[a-z]+://", text):
        raise SettingError(
            f"the address {text!r}", "a local file or folder: nothing is fetched", "its download"
        )
    raise SettingError(
        f"model {text!r}, which is no file or folder",
        "a shipped model's name, a local file or a folder",
        "open_model('fashion')",
    )


def read_json(path: Path) -> dict[str, Any]:
    """A mapping from a JSON file.

    Raises:
        DataError: If it cannot be read or holds something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"unreadable {path} ({error})", "a JSON file") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} with a {type(found).__name__}", "a JSON mapping")
    return found


def read_tensors(
    path: Path, *, prefer: tuple[str, ...] = ("ema", "model_ema", "state_dict", "model")
) -> dict[str, Tensor]:
    """The tensors of a weights file, by name; nothing in the file is run.

    Args:
        path: A safetensors file, or a torch file that holds tensors only.
        prefer: Where a file holds several sets of weights, the keys that are tried, in order.

    Returns:
        Name to tensor, on the CPU.

    Raises:
        DataError: If the file would run code on loading, is damaged, or holds no tensors.
    """
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (OSError, SafetensorError) as error:
            raise DataError(f"unreadable weights {path} ({error})", "a safetensors file") from error
    return named_tensors(read_plain(path), path, prefer)


def read_plain(path: Path) -> Any:
    """Content of a torch file by the restricted unpickler.

    Raises:
        DataError: If the file would run code on loading, or is damaged.
    """
    if _is_script(path):
        raise DataError(
            f"{path}, a TorchScript archive, which is code",
            "tensors only",
            "torch.onnx.export of it, or wrap(torch.jit.load(...), ...) where you trust it",
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # on other pickle protocols, which it reads or refuses
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise refused(path) from error
    except (
        OSError,
        EOFError,
        RuntimeError,
        ValueError,
        KeyError,
        AttributeError,
        IndexError,
        TypeError,
    ) as error:
        first = str(error).partition("\n")[0][:120]
        raise DataError(
            f"unreadable weights {path} ({first})", "a safetensors or torch file of tensors"
        ) from error


def refused(path: Path) -> DataError:
    """The sentence for a file that would run code on loading."""
    return DataError(f"{path}, a pickle that would run code on loading", "tensors only", _CONVERT)


def named_tensors(content: Any, path: Path, prefer: tuple[str, ...]) -> dict[str, Tensor]:
    """The mapping of names to tensors inside what a torch file held."""
    for key in prefer:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if isinstance(content, dict):
        tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
        if tensors:
            return tensors
    raise DataError(
        f"{path} without a set of named tensors", f"a state dict, bare or under one of {', '.join(prefer)}"
    )


def _is_script(path: Path) -> bool:
    """Whether a file is a TorchScript archive."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name or name.endswith("constants.pkl") for name in archive.namelist())


def read_manifest(path: Path) -> dict[str, Any]:
    """The settings beside weights: NAME.json for a file NAME.*, workbench.json in a folder; {} if none."""
    beside = path / "workbench.json" if path.is_dir() else path.with_suffix(".json")
    return read_json(beside) if beside.is_file() else {}
