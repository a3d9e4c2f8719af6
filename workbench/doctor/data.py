"""Real data for the doctor: an image set by name, an array file, or a folder of pictures."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from workbench.data import load_images
from workbench.decoders import Autoencoder, decoder_of
from workbench.errors import DataError, SettingError
from workbench.models import Frame, ScoreModel
from workbench.pictures import PICTURES, read_image
from workbench.types import Points

SETS = ("fashion", "digits")
"""Image sets that can be named."""


def read_points(source: str | Path | Tensor, model: ScoreModel, *, limit: int = 512) -> Points:
    """Data as points of a model, encoded where its points are latents and the data are pictures.

    Args:
        source: A tensor; the name of an image set; an .npy, .npz or .safetensors file with one array whose
            first axis counts; a picture file; or a folder of pictures.
        model: The model.
        limit: Keep the first so many.

    Returns:
        Points, shape (count, dim).

    Raises:
        DataError: If the source is missing or unreadable, or holds something else.
        SettingError: If what it holds does not fit the model.
    """
    decoder = decoder_of(model)
    shown = model.frame if decoder is None else decoder.picture
    rows = read_rows(source, shown, limit=limit)
    if not bool(torch.isfinite(rows).all()):
        raise DataError("data with non-finite entries", "finite values", "another source")
    flat = rows.reshape(len(rows), -1)[:limit]
    if flat.shape[1] == model.frame.dim:
        return flat
    if isinstance(decoder, Autoencoder) and flat.shape[1] == decoder.picture.dim:
        with torch.no_grad():
            return decoder.encode(flat)
    sizes = f"{model.frame.dim} entries" if decoder is None else f"{model.frame.dim} or {shown.dim} entries"
    raise SettingError(f"data of {flat.shape[1]} entries each for {model.frame}", sizes, "data of its shape")


def read_rows(source: str | Path | Tensor, shown: Frame | None = None, *, limit: int = 512) -> Tensor:
    """Data as they are, the first axis counting; arguments as for `read_points`.

    Args:
        source: As there.
        shown: The frame that pictures are brought into; without one there are no pictures.
        limit: Keep the first so many pictures.

    Returns:
        Floating numbers.
    """
    rows = _rows(source, shown, limit)
    return rows if rows.is_floating_point() else rows.float()


def _rows(source: str | Path | Tensor, shown: Frame | None, limit: int) -> Tensor:
    if isinstance(source, Tensor):
        return source
    if str(source) in SETS:
        return load_images(str(source), limit=limit).points
    path = Path(source)
    if path.is_dir() and shown is not None:
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in PICTURES)[:limit]
        if len(files) < 2:
            raise DataError(
                f"folder {str(path)!r} with {len(files)} pictures", "two at least", "another folder"
            )
        return torch.stack([read_image(file, shown) for file in files])
    reader = _READERS.get(path.suffix.lower())
    if reader is None or not path.is_file():
        raise DataError(
            f"data {str(source)!r}",
            f"{', '.join(SETS)}, a folder of pictures, or an .npy, .npz or .safetensors file",
            "--data fashion",
        )
    return reader(path)


def _read_npy(path: Path) -> Tensor:
    try:
        loaded = np.load(path, allow_pickle=False)
        array = loaded if isinstance(loaded, np.ndarray) else loaded[_only(path, loaded.files)]
        if array.ndim < 2 or array.dtype.kind not in "fiu" or math.prod(array.shape) == 0:
            raise DataError(
                f"{path} of shape {array.shape} and {array.dtype}", "numbers, first axis counting"
            )
        return torch.from_numpy(np.ascontiguousarray(array))
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"unreadable data {path} ({error})", "an array without Python objects") from error


def _read_safetensors(path: Path) -> Tensor:
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"unreadable data {path} ({error})", "a safetensors file") from error
    return tensors[_only(path, list(tensors))]


def _only(path: Path, names: list[str]) -> str:
    """The one array of a file."""
    if len(names) != 1:
        raise DataError(f"{path} with {len(names)} arrays", "one", "a file of one array")
    return names[0]


_READERS: dict[str, Callable[[Path], Tensor]] = {
    ".npy": _read_npy,
    ".npz": _read_npy,
    ".safetensors": _read_safetensors,
}
