"""Real and synthetic data by name, as flat points in [-1, 1], through one door.

`load_images` reads the 8x8 digits that scikit-learn holds and Fashion-MNIST from IDX files: its first 500
test images travel with the package (split "sample"), the complete set is read from a folder. Image i of
"sample" is image i of "test". `draw_toy` draws the two-dimensional sets that the small networks learn;
files of one's own are read by `workbench.pictures`.

An IDX file is a four-byte magic number (two zeros, a type code, the number of axes), one big-endian 32-bit
length an axis, and the values; it may be compressed with gzip.

References:
    Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms (Xiao, Rasul, Vollgraf,
    2017), https://arxiv.org/abs/1708.07747
    Optical recognition of handwritten digits (Alpaydin, Kaynak, 1998), https://doi.org/10.24432/C50P49
"""

import gzip
import math
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from workbench.errors import DataError, SettingError
from workbench.frames.wake_set import WAKE_CLASSES, WAKE_SHAPE, load_wake
from workbench.types import Points

FASHION_FOLDER = "/usr/share/datasets/fashion-mnist"
"""Where Debian's package dataset-fashion-mnist puts its files."""

FOLDER_VARIABLE = "WORKBENCH_DATA"
"""Environment variable that names a folder with the IDX files instead."""

FASHION_CLASSES = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
DIGIT_CLASSES = tuple("0123456789")
DIGITS_HELD_OUT = 297
"""The last 297 of scikit-learn's 1,797 digits are the test split; no shipped model has seen them."""


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Images with their labels.

    Attributes:
        name: Name of the set.
        split: "train", "test" or "sample".
        points: The images as flat points, shape (count, dim), values in [-1, 1].
        labels: Class indices, shape (count,).
        classes: Names of the classes.
        shape: Shape of one image, (channels, rows, columns).
        source: Where they were read from and their licence, in words.
    """

    name: str
    split: str
    points: Points
    labels: Int[Tensor, "*batch"]
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    source: str

    def __len__(self) -> int:
        return len(self.labels)


def load_images(
    name: str,
    *,
    split: str = "sample",
    folder: str | Path | None = None,
    limit: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> ImageSet:
    """Load a set of real images as flat points in [-1, 1].

    Args:
        name: "fashion" (28x28), "digits" (8x8) or "wake" (30x50, frames of a flow, see
            `workbench.frames.wake_set`).
        split: "train", "test", or "sample": images that are always there (the first 500 test images of
            "fashion", the whole test split of "digits"; of "wake" frames of which the gaps are held out).
        folder: Folder with the IDX files of "fashion"; else the environment variable WORKBENCH_DATA, else the
            folder of Debian's package. Not needed for "sample".
        limit: Keep the first so many.
        dtype: Floating type of the points.

    Returns:
        The images, labels and names of the classes.

    Raises:
        SettingError: For an unknown name or split, or a negative limit.
        DataError: If the folder or a file in it is missing or damaged.

    Example:
        >>> load_images("digits", split="test").points.shape
        torch.Size([297, 64])
    """
    if split not in ("train", "test", "sample"):
        raise SettingError(f"split {split!r}", "'train', 'test' or 'sample'", "split='sample'")
    if name not in _LOADERS:
        raise SettingError(f"image set {name!r}", f"one of {', '.join(_LOADERS)}", "load_images('fashion')")
    if limit is not None and limit < 0:
        raise SettingError(f"limit={limit}", "a count of at least 0, or None for all", "limit=100")
    found = _LOADERS[name](split, folder)
    kept = slice(None) if limit is None else slice(limit)
    return replace(found, points=found.points[kept].to(dtype), labels=found.labels[kept])


def _load_fashion(split: str, folder: str | Path | None) -> ImageSet:
    """Fashion-MNIST, from the package's sample or from IDX files."""
    if split == "sample":
        with resources.as_file(resources.files("workbench") / "images" / "fashion-sample.npz") as path:
            archive = np.load(path, allow_pickle=False)
            images, labels = archive["images"], archive["labels"]
        source = "first 500 test images, shipped with the workbench"
    else:
        root = fashion_folder(folder)
        prefix = "train" if split == "train" else "t10k"
        images = read_idx(_find_idx(root, f"{prefix}-images-idx3-ubyte"))
        labels = read_idx(_find_idx(root, f"{prefix}-labels-idx1-ubyte"))
        source = f"IDX files in {root}"
    if images.ndim != 3 or len(images) != len(labels):
        raise DataError(
            f"images of shape {images.shape} with {labels.shape} labels",
            "one label an image of rows and columns",
            "downloading the files again",
        )
    return ImageSet(
        name="fashion",
        split=split,
        points=_scaled(images, 255.0),
        labels=torch.from_numpy(labels.astype(np.int64)),
        classes=FASHION_CLASSES,
        shape=(1, *images.shape[1:]),
        source=f"Fashion-MNIST (Zalando SE, MIT licence), {source}",
    )


def _load_digits(split: str, folder: str | Path | None) -> ImageSet:
    """The 8x8 digits of scikit-learn; the last 297 are held out."""
    from sklearn.datasets import load_digits  # takes a second to import

    bunch: Any = load_digits()
    rows = slice(0, -DIGITS_HELD_OUT) if split == "train" else slice(-DIGITS_HELD_OUT, None)
    return ImageSet(
        name="digits",
        split=split,
        points=_scaled(bunch.images[rows], 16.0),
        labels=torch.from_numpy(bunch.target[rows].astype(np.int64)),
        classes=DIGIT_CLASSES,
        shape=(1, 8, 8),
        source="Optical Recognition of Handwritten Digits (UCI, CC BY 4.0), read from scikit-learn",
    )


def _load_wake(split: str, folder: str | Path | None) -> ImageSet:
    """Frames of the cylinder wake, shipped or computed."""
    frames = load_wake(split)
    return ImageSet(
        name="wake",
        split=split,
        points=frames.points,
        labels=frames.labels,
        classes=WAKE_CLASSES,
        shape=WAKE_SHAPE,
        source="computed by workbench.frames.wake_set",
    )


_LOADERS: dict[str, Callable[[str, str | Path | None], ImageSet]] = {
    "fashion": _load_fashion,
    "digits": _load_digits,
    "wake": _load_wake,
}


def _scaled(images: np.ndarray, top: float) -> Points:
    """Images with values 0 to top as flat float32 points in [-1, 1]."""
    flat = torch.from_numpy(images.reshape(len(images), -1).astype(np.float32))
    return flat / (top / 2) - 1


def fashion_folder(folder: str | Path | None = None) -> Path:
    """The folder that holds the IDX files of Fashion-MNIST.

    Args:
        folder: A folder; None for WORKBENCH_DATA or Debian's.

    Returns:
        The folder, which exists.

    Raises:
        DataError: If there is none.
    """
    root = Path(folder or os.environ.get(FOLDER_VARIABLE) or FASHION_FOLDER)
    if not root.is_dir():
        raise DataError(
            f"no folder {str(root)!r}",
            "a folder with the IDX files of Fashion-MNIST",
            f"split='sample', apt install dataset-fashion-mnist, or {FOLDER_VARIABLE}=FOLDER",
        )
    return root


def _find_idx(root: Path, stem: str) -> Path:
    """The file `stem` or `stem.gz` in a folder."""
    for path in (root / stem, root / f"{stem}.gz"):
        if path.is_file():
            return path
    raise DataError(f"no file {stem} or {stem}.gz in {root}", "the four IDX files", "another folder")


def read_idx(path: str | Path) -> np.ndarray:
    """Read an IDX file of bytes, plain or compressed with gzip.

    Args:
        path: The file.

    Returns:
        An array of uint8 with the axes that the file declares.

    Raises:
        DataError: If it cannot be opened, is no IDX file of bytes, or is cut short.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"an unreadable file {path} ({error})", "an IDX file", "downloading it again"
        ) from error
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08":
        raise DataError(f"{path} starting with bytes {raw[:4].hex()}", "an IDX file of bytes (000008..)")
    header = 4 + 4 * raw[3]
    lengths = raw[4:header].ljust(4 * raw[3], b"\0")  # a header that is cut short declares no values
    shape = tuple(int(n) for n in np.frombuffer(lengths, dtype=">u4"))
    if len(raw) != header + math.prod(shape):
        raise DataError(
            f"{path} of {len(raw)} bytes",
            f"{header + math.prod(shape)} for the declared shape {shape}",
            "downloading it again",
        )
    return np.frombuffer(raw, dtype=np.uint8, offset=header).reshape(shape)


TOYS = ("ring", "moons")
RING_MODES, RING_RADIUS, RING_STD = 8, 0.8, 0.06


def draw_toy(
    name: str, count: int, *, generator: torch.Generator, dtype: torch.dtype = torch.float32
) -> tuple[Points, Int[Tensor, "*batch"]]:
    """Draw a two-dimensional set and the class of each point.

    "ring" is an equal mixture of 8 isotropic normals of standard deviation 0.06 whose means lie on a circle
    of radius 0.8, the first on the positive first axis; its class is the mode. "moons" are two interleaved
    half circles of radius 0.6 with normal noise of standard deviation 0.05; its class is the moon.

    Args:
        name: "ring" or "moons".
        count: Number of points.
        generator: Source of randomness.
        dtype: Floating type of the points.

    Returns:
        Points of shape (count, 2) and labels of shape (count,).

    Raises:
        SettingError: For an unknown name.
    """
    if name == "ring":
        labels = torch.randint(RING_MODES, (count,), generator=generator)
        angle = labels.to(dtype) * (2 * math.pi / RING_MODES)
        mean = RING_RADIUS * torch.stack([angle.cos(), angle.sin()], dim=-1)
        return mean + RING_STD * torch.randn(count, 2, generator=generator, dtype=dtype), labels
    if name == "moons":
        labels = torch.randint(2, (count,), generator=generator)
        angle = math.pi * torch.rand(count, generator=generator, dtype=dtype)
        side = 1 - 2 * labels.to(dtype)  # +1 upper, -1 lower
        mean = torch.stack([side * (0.6 * angle.cos() - 0.3), side * (0.6 * angle.sin() - 0.15)], dim=-1)
        return mean + 0.05 * torch.randn(count, 2, generator=generator, dtype=dtype), labels
    raise SettingError(f"toy set {name!r}", f"one of {', '.join(TOYS)}", "draw_toy('ring', ...)")
