"""Save a result and load it back: one .npz of arrays with a readable JSON header, no pickle.

A result is a frozen dataclass of tensors, numbers, text, tuples, mappings and further such dataclasses. The
header holds that tree with every tensor replaced by the name of an array in the same file. Loading builds
only the class that the caller names and the dataclasses that its own annotations mention, so a file can
never choose code to run.

References:
    NEP 1 (the .npy format), https://numpy.org/neps/nep-0001-npy-format.html
"""

import dataclasses
import json
import os
import tempfile
import types
import typing
import zipfile
import zlib
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from workbench.devices import resolve_device
from workbench.errors import DataError, SettingError

_HEADER = "header"
_FORMAT = 1
_DAMAGE = (  # what numpy, zip and JSON raise on files that are something else, or parts of themselves
    ValueError,
    KeyError,
    TypeError,
    OSError,
    EOFError,
    NotImplementedError,
    RecursionError,
    zipfile.BadZipFile,
    zlib.error,
)
Result = TypeVar("Result")


def save_result(result: Any, path: str | Path) -> Path:
    """Write a result to one .npz file, whole or not at all.

    Args:
        result: A dataclass instance of tensors, numbers, text, tuples, mappings and further dataclasses.
        path: Where to; ".npz" is appended if it is missing. An existing file is refused.

    Returns:
        The path written.

    Raises:
        SettingError: If the result holds something that cannot be written, or the file exists.
    """
    if not (dataclasses.is_dataclass(result) and not isinstance(result, type)):
        raise SettingError(
            f"a result of type {type(result).__name__}", "a dataclass", "save_result(result, path)"
        )
    path = Path(path)
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    if os.path.exists(path):  # unlike Path.exists, no error for a name that no file can have
        raise SettingError(f"the existing file {path}", "a new file", "another name")
    arrays: dict[str, Any] = {}
    header = json.dumps(
        {"format": _FORMAT, "result": _encode(result, arrays, type(result).__name__)}, indent=1
    )
    arrays[_HEADER] = np.frombuffer(header.encode(), dtype=np.uint8)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".saving.")
    except OSError as error:
        raise SettingError(
            f"{path}, which cannot be written ({error.strerror})", "a folder to write in"
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, **arrays)
        os.link(name, path)  # unlike a rename, refuses a file that appeared meanwhile
    except FileExistsError as error:
        raise SettingError(f"the existing file {path}", "a new file", "another name") from error
    except OSError as error:
        raise SettingError(f"{path}, which cannot be written ({error.strerror})", "room to write") from error
    finally:
        os.unlink(name)
    return path


def read_header(path: str | Path) -> dict[str, Any]:
    """The JSON header of a saved result, without building anything.

    Args:
        path: A file that `save_result` wrote.

    Returns:
        The tree, arrays as {"array": name, "dtype": ..., "shape": ...}.

    Raises:
        DataError: If the file is missing or not such a file.
    """
    return _open(Path(path))[0]


def load_result(path: str | Path, kind: type[Result], *, device: str | torch.device = "cpu") -> Result:
    """Read a result back.

    Args:
        path: A file that `save_result` wrote.
        kind: The class of the result, e.g. ``PathResult``.
        device: Where its tensors go.

    Returns:
        An instance equal to the one saved: tensors bit for bit.

    Raises:
        DataError: If the file is missing, damaged, or holds another class of result.
    """
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise SettingError(f"kind {kind!r}", "the class of a result", "load_result(path, PathResult)")
    place = resolve_device(device)
    header, arrays = _open(Path(path))
    known = _dataclasses_of(kind)
    tree = header["result"]
    found = tree.get("class") if isinstance(tree, dict) else type(tree).__name__
    if found != kind.__name__:
        raise DataError(
            f"a saved {found} in {path}", f"a saved {kind.__name__}", f"load_result(path, {found})"
        )
    try:
        return _decode(tree, arrays, known, place)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DataError(
            f"a damaged or older file {path} ({error})",
            f"the fields of {kind.__name__} as this version has them",
            "saving the result again",
        ) from error


def _open(path: Path) -> tuple[dict[str, Any], Mapping[str, np.ndarray]]:
    if not path.is_file():
        raise DataError(f"no file {path}", "a saved result", "the path that save_result returned")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop(_HEADER).tobytes().decode())
        _, found = header["result"], header["format"]
    except _DAMAGE as error:
        raise DataError(f"{path}, which holds no readable header", "a file that save_result wrote") from error
    if found != _FORMAT:
        raise DataError(f"{path} of format {found!r}", f"format {_FORMAT}", "the version that wrote it")
    return header, arrays


def _encode(value: Any, arrays: dict[str, np.ndarray], where: str) -> Any:
    if isinstance(value, Tensor):
        name = f"a{len(arrays)}"
        try:
            arrays[name] = value.detach().cpu().numpy()
        except TypeError as error:  # bfloat16 and the 8-bit floats have no numpy form
            raise SettingError(
                f"{where} of dtype {value.dtype}", "a dtype that numpy has", ".float()"
            ) from error
        return {"array": name, "dtype": str(value.dtype), "shape": list(value.shape)}
    if isinstance(value, Enum):
        return {"enum": type(value).__name__, "value": value.value}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: _encode(getattr(value, field.name), arrays, f"{where}.{field.name}")
            for field in dataclasses.fields(value)
        }
        return {"class": type(value).__name__, "fields": fields}
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_encode(item, arrays, f"{where}[{i}]") for i, item in enumerate(value)]}
    if isinstance(value, Mapping):
        return {
            "mapping": [
                [_encode(k, arrays, where), _encode(v, arrays, f"{where}[{k!r}]")] for k, v in value.items()
            ]
        }
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise SettingError(
        f"{where} of type {type(value).__name__}", "tensors, numbers, text and dataclasses of them"
    )


def _decode(
    tree: Any, arrays: Mapping[str, np.ndarray], known: Mapping[str, type], device: torch.device
) -> Any:
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return torch.from_numpy(arrays[tree["array"]].copy()).to(device)
    if "enum" in tree:
        return known[tree["enum"]](tree["value"])
    if "class" in tree:
        fields = {name: _decode(value, arrays, known, device) for name, value in tree["fields"].items()}
        return known[tree["class"]](**fields)
    if "tuple" in tree:
        return tuple(_decode(item, arrays, known, device) for item in tree["tuple"])
    if "list" in tree:
        return [_decode(item, arrays, known, device) for item in tree["list"]]
    if "mapping" in tree:
        return {
            _decode(k, arrays, known, device): _decode(v, arrays, known, device) for k, v in tree["mapping"]
        }
    return float(tree["float"])


def _dataclasses_of(kind: Any, found: dict[str, type] | None = None) -> dict[str, type]:
    """The dataclasses and enums that a result's annotations mention, itself included, by name."""
    found = {} if found is None else found
    if isinstance(kind, type) and kind.__name__ not in found:
        if issubclass(kind, Enum):
            found[kind.__name__] = kind
        elif dataclasses.is_dataclass(kind):
            found[kind.__name__] = kind
            for hint in typing.get_type_hints(kind).values():
                _dataclasses_of(hint, found)
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is not None:
        for argument in typing.get_args(kind):
            _dataclasses_of(argument, found)
    return found
