"""Films of curves: frames of several paths side by side as GIF or MP4, and everything as arrays.

Movies are written by imageio; an array file needs nothing but numpy.

References:
    imageio, https://imageio.readthedocs.io
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workbench.checks import check_count, check_number
from workbench.errors import MissingExtra, SettingError, ShapeError

FORMATS = (".gif", ".mp4", ".npz")
"""Endings of what can be written."""

_GAP = 2  # pixels of paper between two films


def film_pixels(
    films: Mapping[str, Tensor], shape: tuple[int, ...], *, value_range: tuple[float, float] | None = None
) -> np.ndarray:
    """Films side by side.

    Args:
        films: Name to frames, shape (steps, dim), all of one length.
        shape: Shape of one frame: (rows, columns), (1, rows, columns) or (3, rows, columns).
        value_range: Values of black and white; the extremes of the first film if None.

    Returns:
        uint8, shape (steps, rows, all columns, 3).

    Raises:
        ShapeError: If films differ in length, or frames are no pictures.
    """
    lengths = {len(film) for film in films.values()}
    if len(lengths) != 1:
        raise ShapeError(f"films of {sorted(lengths)} frames", "films of one length")
    layout = (1, *shape) if len(shape) == 2 else shape
    if len(layout) != 3 or layout[0] not in (1, 3) or min(layout[1:]) < 2:
        raise ShapeError(f"frames of shape {shape}", "pictures of one or three channels", "a .npz file")
    size = int(np.prod(layout))
    odd = [tuple(film.shape) for film in films.values() if film.ndim != 2 or film.shape[1] != size]
    if odd:
        raise ShapeError(f"a film of shape {odd[0]}", f"(steps, {size}), frames of shape {shape}")
    first = next(iter(films.values()))
    low, high = value_range or (float(first.min()), float(first.max()))
    parts: list[np.ndarray] = []
    for film in films.values():
        scaled = ((film.detach().cpu().double() - low) / ((high - low) or 1.0)).clamp(0, 1)
        stack = (
            scaled.mul(255).round().to(torch.uint8).reshape(len(film), *layout).permute(0, 2, 3, 1).numpy()
        )
        if parts:
            parts.append(np.full((len(film), layout[1], _GAP, 3), 255, dtype=np.uint8))
        parts.append(np.broadcast_to(stack, (*stack.shape[:3], 3)))
    return np.concatenate(parts, axis=2)


def save_film(
    path: str | Path,
    films: Mapping[str, Tensor],
    shape: tuple[int, ...],
    *,
    arrays: Mapping[str, Tensor] | None = None,
    value_range: tuple[float, float] | None = None,
    rate: float = 12.0,
    magnify: int = 4,
) -> Path:
    """Write films of a curve.

    Args:
        path: A file ending in .gif, .mp4 or .npz; an existing one is replaced.
        films: Name to frames, shape (steps, dim).
        shape: Shape of one frame.
        arrays: For .npz: what else is written, e.g. the curve's times, points and latents.
        value_range: Values of black and white.
        rate: Frames a second.
        magnify: Pixels a pixel.

    Returns:
        The path.

    Raises:
        SettingError: For another ending, or a path that cannot be written.
        ShapeError: If frames are no pictures, for a movie.
        MissingExtra: Without imageio, for a movie.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise SettingError(f"the file {path.name!r}", f"an ending of {', '.join(FORMATS)}", "film.gif")
    check_number("rate", rate, above=0.0)
    check_count("magnify", magnify)
    try:
        if kind == ".npz":
            np.savez_compressed(path, **_arrays(films, shape, arrays or {}))
        else:
            pixels = film_pixels(films, shape, value_range=value_range)
            _write(path, pixels.repeat(magnify, axis=1).repeat(magnify, axis=2), rate)
    except OSError as error:
        raise SettingError(
            f"{path}, which cannot be written ({error.strerror or error})", "a folder to write in"
        ) from error
    return path


def _arrays(
    films: Mapping[str, Tensor], shape: tuple[int, ...], arrays: Mapping[str, Tensor]
) -> dict[str, Any]:
    made = {f"film {name}": film for name, film in films.items()} | dict(arrays)
    return {name: value.detach().cpu().numpy() for name, value in made.items()} | {"shape": np.array(shape)}


def _write(path: Path, pixels: np.ndarray, rate: float) -> None:
    try:
        import imageio.v3 as imageio
    except ImportError as error:
        raise MissingExtra.of("imageio", "conda") from error
    if path.suffix.lower() == ".gif":
        imageio.imwrite(path, pixels, plugin="pillow", duration=round(1000 / rate), loop=0)
        return
    try:
        import imageio_ffmpeg  # noqa: F401 - imageio finds it by itself, but says less if it is missing
    except ImportError as error:
        raise MissingExtra.of("imageio-ffmpeg", "conda") from error
    rows, columns = pixels.shape[1:3]  # the codec wants even sides
    pixels = np.pad(pixels, ((0, 0), (0, rows % 2), (0, columns % 2), (0, 0)), mode="edge")
    imageio.imwrite(path, pixels, plugin="FFMPEG", fps=rate, codec="libx264", macro_block_size=2)
