"""Frames in time, from files: a user's own, the shipped wake, and recordings that other packages carry.

`load_frames` reads a `.npz` or `.npy` file, a folder of pictures or a video. `recordings` reads windows of
human signals, `glyphs` draws letters of the fonts at hand. All give a `FrameSet`: flat points with times,
groups and whatever else is known.

References:
    NEP 1 (the .npy format), https://numpy.org/neps/nep-0001-npy-format.html
    imageio, https://imageio.readthedocs.io
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from workbench.checks import check_count, shown
from workbench.conda.context import Context, make_context
from workbench.errors import DataError, MissingExtra, SettingError
from workbench.pictures import PICTURES, open_picture
from workbench.types import Points

VIDEOS = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".gif")
_KNOWN = ("times", "groups", "labels", "variables")  # what an array file may hold beside its frames


@dataclass(frozen=True, slots=True)
class FrameSet:
    """Frames and what is known of them.

    Attributes:
        name: What they are, in a word.
        points: Flat frames, shape (count, dim).
        shape: Shape of one frame, (channels, rows, columns), or (dim,) for windows of signals.
        times: Time of each frame in `unit`, shape (count,).
        groups: Number of the recording that each belongs to, shape (count,).
        labels: Class of each, shape (count,); None if unknown.
        classes: Names of the classes.
        variables: What else is known, shape (count, k); None if nothing.
        names: Names of the variables.
        unit: Unit of the times.
        source: Where they come from, and how values were scaled.
    """

    name: str
    points: Points
    shape: tuple[int, ...]
    times: Tensor
    groups: Tensor
    labels: Tensor | None = None
    classes: tuple[str, ...] = ()
    variables: Tensor | None = None
    names: tuple[str, ...] = ()
    unit: str = "frames"
    source: str = ""

    def __len__(self) -> int:
        return len(self.points)

    def context(self) -> Context:
        """What a contrastive map needs to know."""
        known = [part for part in (self.variables, self.labels) if part is not None]
        return make_context(len(self), *known, groups=self.groups, times=self.times)

    def at(self, rows: Tensor) -> "FrameSet":
        """Some of the frames."""
        return replace(
            self,
            points=self.points[rows],
            times=self.times[rows],
            groups=self.groups[rows],
            labels=None if self.labels is None else self.labels[rows],
            variables=None if self.variables is None else self.variables[rows],
        )


def load_frames(
    path: str | Path,
    *,
    size: tuple[int, int] | None = None,
    every: int = 1,
    limit: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> FrameSet:
    """Frames of one's own: an array file, a folder of pictures, or a video.

    An array file is a `.npy` of frames, or a `.npz` that holds "frames" (or a single array) and beside it any
    of "times", "groups", "labels" (whole numbers or text) and "variables". Frames are (count, rows, columns),
    (count, rows, columns, channels) or (count, dim); several channels are averaged to grey. Bytes are scaled
    from 0..255 to [-1, 1]; other values are kept if they lie in [-1, 1] and scaled by their own range if not.
    Pictures of a folder are taken in the order of the numbers in their names.

    Args:
        path: The file or folder.
        size: Rows and columns to average down (or interpolate up) to; None keeps them.
        every: Keep one frame of so many.
        limit: Keep at most so many.
        dtype: Floating type of the points.

    Returns:
        The frames; times of a video are in seconds, otherwise frames are counted where none are given.

    Raises:
        DataError: If nothing can be read, frames differ in size or hold NaN.
        SettingError: For a setting out of range.
        MissingExtra: For a video without imageio.
    """
    check_count("every", every)
    check_count("limit", limit, none=True)
    pair = isinstance(size, tuple | list) and len(size) == 2 and all(isinstance(n, int) for n in size)
    if size is not None and not (pair and min(size) > 0):
        raise SettingError(shown("size", size), "(rows, columns), or None", "size=(32, 32)")
    path = Path(path)
    stop = None if limit is None else every * limit
    if path.is_dir():
        arrays, extra, unit = _of_folder(path, every, stop), {}, "frames"
        times = np.arange(len(arrays)) * float(every)
    elif path.suffix.lower() in (".npz", ".npy") and path.is_file():
        stack, extra = _of_arrays(path)
        arrays, unit = stack[:stop:every], "frames"
        extra = {name: value[:stop:every] for name, value in extra.items()}
        times = extra.pop("times", np.arange(len(arrays)) * float(every))
    elif path.suffix.lower() in VIDEOS and path.is_file():
        arrays, rate = _of_video(path, every, stop)
        extra, unit = {}, "seconds" if rate else "frames"
        times = np.arange(len(arrays)) * every / (rate or 1.0)
    else:
        raise DataError(
            f"{str(path)!r}", "a .npz or .npy file, a folder of pictures, or a video", "another path"
        )
    points, shape, scaling = _as_points(arrays, size, path)
    return _framed(path.stem, points.to(dtype), shape, times, extra, unit, f"{path.name}, {scaling}")


def _of_folder(path: Path, every: int, stop: int | None) -> list[np.ndarray]:
    files = [file for file in path.iterdir() if file.suffix.lower() in PICTURES]
    files.sort(key=lambda file: [int(t) if t.isdecimal() else t for t in re.split(r"(\d+)", file.name)])
    if not files:
        raise DataError(f"no picture in {str(path)!r}", "files that end in " + ", ".join(PICTURES[:4]))
    black = Image.new("RGBA", (1, 1), (0, 0, 0, 255))
    grey = []
    for file in files[:stop:every]:
        picture = open_picture(file)
        grey.append(np.asarray(Image.alpha_composite(black.resize(picture.size), picture).convert("L")))
    sizes = {array.shape for array in grey}
    if len(sizes) > 1:
        raise DataError(f"pictures of {len(sizes)} sizes in {str(path)!r}", "one size", "resized copies")
    return grey


def _of_arrays(path: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    try:
        loaded = np.load(path, allow_pickle=False)
        found = {"frames": loaded} if isinstance(loaded, np.ndarray) else {k: loaded[k] for k in loaded.files}
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise DataError(
            f"an unreadable file {path} ({error})", "a .npz or .npy file without pickles"
        ) from error
    if "frames" not in found and len(found) == 1:
        found = {"frames": next(iter(found.values()))}
    if "frames" not in found:
        raise DataError(f"{path} with arrays {', '.join(found)}", "one that is named 'frames'")
    frames = found.pop("frames")
    if frames.ndim not in (2, 3, 4) or not len(frames):
        raise DataError(
            f"frames of shape {frames.shape} in {path}",
            "(count, rows, columns), with channels, or (count, dim)",
        )
    for name, value in found.items():
        wide = name == "variables" and value.ndim == 2
        if name in _KNOWN and (len(np.atleast_1d(value)) != len(frames) or not (value.ndim == 1 or wide)):
            raise DataError(
                f"{name} of shape {value.shape} for {len(frames)} frames in {path}",
                f"one {name} entry a frame",
            )
        if name in ("times", "variables") and value.dtype.kind not in "fiub":
            raise DataError(f"{name} of type {value.dtype} in {path}", "numbers", "them as labels")
    return frames, {k: v for k, v in found.items() if k in _KNOWN}


def _of_video(path: Path, every: int, stop: int | None) -> tuple[list[np.ndarray], float]:
    try:
        import imageio.v3 as reader
    except ImportError as error:
        raise MissingExtra.of("imageio", "conda") from error
    plugin = "pillow" if path.suffix.lower() == ".gif" else "FFMPEG"
    try:
        kept: list[np.ndarray] = []
        frames: Iterator[Any] = reader.imiter(path, plugin=plugin)
        for i, frame in enumerate(frames):
            if stop is not None and i >= stop:
                break
            if i % every == 0:
                kept.append(np.asarray(frame))
        facts = reader.immeta(path, plugin=plugin)
    except ImportError as error:
        raise MissingExtra.of("imageio-ffmpeg", "conda") from error
    except (OSError, ValueError, RuntimeError, StopIteration) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]  # the rest is ffmpeg's own report
        raise DataError(
            f"an unreadable video {path} ({reason})", "one that imageio opens", "a .gif"
        ) from error
    if not kept:
        raise DataError(f"no frame in {path}", "a video")
    rate = float(facts.get("fps") or 0.0)
    duration = facts.get("duration")  # of one frame, in milliseconds, for animations
    if not rate and isinstance(duration, int | float) and duration:
        rate = 1000.0 / float(duration)
    return kept, rate


def _as_points(
    arrays: Sequence[np.ndarray] | np.ndarray, size: tuple[int, int] | None, path: Path
) -> tuple[Tensor, tuple[int, ...], str]:
    """Grey flat frames in [-1, 1], their shape, and how they were scaled."""
    stack = np.asarray(arrays)
    if stack.ndim == 4:
        if stack.shape[-1] > 4:
            raise DataError(
                f"frames of shape {stack.shape} in {path}",
                "1 to 4 channels on the last axis, (count, rows, columns, channels)",
                "frames.transpose(0, 2, 3, 1)" if stack.shape[1] <= 4 else "another array",
            )
        channels = stack[..., :3] if stack.shape[-1] == 4 else stack
        stack = channels.mean(-1) if stack.dtype != np.uint8 else np.rint(channels.mean(-1)).astype(np.uint8)
    if stack.dtype.kind not in "fiub":
        raise DataError(f"frames of type {stack.dtype} in {path}", "numbers")
    values = torch.from_numpy(stack.astype(np.float32))
    finite = torch.isfinite(values).flatten(1).all(1)
    if not bool(finite.all()):
        bad = (~finite).nonzero().squeeze(1)
        raise DataError(
            f"{len(bad)} frames with NaN or infinity in {path}, the first is frame {int(bad[0])}",
            "finite values",
            "leaving them out",
        )
    if stack.dtype == np.uint8:
        values, scaling = values / 127.5 - 1, "bytes scaled to [-1, 1]"
    else:
        low, high = float(values.min()), float(values.max())
        if low >= -1 and high <= 1:
            scaling = "values as they are"
        else:
            values = (values - low) / max(high - low, 1e-30) * 2 - 1
            scaling = f"values {low:g} to {high:g} scaled to [-1, 1]"
    if values.ndim == 2:
        if size is not None:
            raise SettingError(f"size={size} for frames of one axis", "size=None")
        return values, (values.shape[1],), scaling
    if size is not None:
        values = F.interpolate(values[:, None], size=size, mode="bilinear", antialias=True)[:, 0]
    return values.flatten(1), (1, *values.shape[1:]), scaling


def _framed(
    name: str,
    points: Tensor,
    shape: tuple[int, ...],
    times: np.ndarray,
    extra: dict[str, np.ndarray],
    unit: str,
    source: str,
) -> FrameSet:
    """A set from arrays; labels and groups may be text."""
    codes: dict[str, tuple[Tensor, tuple[str, ...]]] = {}
    for key in ("labels", "groups"):
        if key in extra:
            names, index = np.unique(extra[key], return_inverse=True)
            codes[key] = torch.from_numpy(index.reshape(-1).astype(np.int64)), tuple(str(n) for n in names)
    variables = None
    if "variables" in extra:
        variables = torch.from_numpy(np.asarray(extra["variables"], dtype=np.float64))
        variables = variables[:, None] if variables.ndim == 1 else variables
    labels, classes = codes.get("labels", (None, ()))
    return FrameSet(
        name=name,
        points=points,
        shape=shape,
        times=torch.from_numpy(np.asarray(times, dtype=np.float64)),
        groups=codes["groups"][0] if "groups" in codes else torch.zeros(len(points), dtype=torch.long),
        labels=labels,
        classes=classes,
        variables=variables,
        names=() if variables is None else tuple(f"variable {i + 1}" for i in range(variables.shape[1])),
        unit=unit,
        source=source,
    )
