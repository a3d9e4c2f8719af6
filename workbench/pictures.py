"""Picture files of one's own: brought into a model's frame, and compared with the images it has seen."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from workbench.errors import DataError, SettingError
from workbench.models import Frame
from workbench.types import Points

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
"""Endings of picture files."""

INVERT = "invert:"
"""What stands before a file's name where its negative is meant."""

_ENOUGH = 512  # pixels along a side that decoding keeps at least: many times any frame's
_CLEARLY = 0.3  # of full brightness, by which the negative must be closer; real images stay below -0.4


def read_image(path: str | Path, frame: Frame, *, invert: bool = False) -> Points:
    """Bring a picture file into a model's frame.

    The picture is turned upright, laid on black where it is transparent, greyed, padded with black to the
    frame's proportions, resized with an antialiasing filter and scaled to the frame's range of values.
    Pictures of 16 bit a pixel count as black at 0 and as white at 65535, pictures of floats at 0 and 1.

    Args:
        path: Any file that Pillow opens, e.g. PNG or JPEG.
        frame: The frame of a grey image model, shape (1, rows, columns).
        invert: Swap dark and light before padding, for a drawing on a light background; what is transparent
            then counts as light.

    Returns:
        A flat point, shape (dim,), float32, black at the lower end of the range.

    Raises:
        DataError: If the file is missing, no picture, too large, or has values outside these ranges.
        SettingError: If the frame is none of grey images with a range of values.
    """
    if len(frame.shape) != 3 or frame.shape[0] != 1 or frame.value_range is None:
        raise SettingError(
            f"model {frame} with samples of shape {frame.shape}",
            "a model of grey images, shape (1, rows, columns), with a range of values",
            "coordinates instead of a file",
        )
    grey = _grey(path, invert)
    rows, columns = frame.shape[1:]
    grey = ImageOps.pad(grey, (columns, rows), method=Image.Resampling.BILINEAR)
    low, high = frame.value_range
    values = torch.from_numpy(np.asarray(grey, dtype=np.float32).copy()).flatten() / 255
    return low + (high - low) * values


def ground_remarks(
    files: Mapping[str, Path], texts: Mapping[str, str], images: Points | None, frame: Frame
) -> tuple[str, ...]:
    """One sentence for each picture file on another background than that of a model's images.

    Args:
        files: Picture files by what they are, e.g. "start".
        texts: What the user wrote for them.
        images: Real images of the model, shape (count, dim); None where none are at hand: nothing is said.
        frame: Their frame.

    Returns:
        The sentences, with what helps; a file that was inverted says so.
    """
    if images is None:
        return ()
    said = []
    for label, path in files.items():
        ground = light_ground(path, images, frame)
        if ground and texts[label].startswith(INVERT):
            said.append(f"{label} {path.name} is shown inverted: it has a {ground}")
        elif ground:
            said.append(f"{label} {path.name} has a {ground}: {INVERT + texts[label]!r} swaps dark and light")
    return tuple(said)


def light_ground(path: str | Path, images: Points, frame: Frame) -> str:
    """What is to be said of a picture on a light background where a model's own images lie on a dark one.

    The brightness along the border of the picture is compared with the median of that of the images. A
    picture whose negative would be much closer is named; the other way round likewise.

    Args:
        path: A picture file.
        images: Real images of the model, shape (count, dim).
        frame: Their frame.

    Returns:
        A sentence's beginning, "background 1.00 where the model's images have 0.04 (0 dark, 1 light)"; empty
        where the two agree.

    Raises:
        DataError: If the file is no picture.
    """
    assert frame.value_range is not None  # images without a range are not read from files
    (low, high), (rows, columns) = frame.value_range, frame.shape[-2:]
    own = ((images.reshape(-1, rows, columns) - low) / (high - low)).double()
    usual = float(_border(own).median())
    grey = ImageOps.contain(_grey(path, False), (columns, rows), method=Image.Resampling.BILINEAR)
    here = float(_border(torch.from_numpy(np.asarray(grey, dtype=np.float64).copy())[None] / 255))
    if abs(here - usual) - abs(1.0 - here - usual) <= _CLEARLY:
        return ""
    return f"background {here:.2f} where the model's images have {usual:.2f} (0 dark, 1 light)"


def _border(images: Tensor) -> Tensor:
    """Mean along the outermost pixels of each image, shape (count,)."""
    rim = torch.ones(images.shape[-2:], dtype=torch.bool, device=images.device)
    rim[1:-1, 1:-1] = False
    return images[:, rim].mean(-1)


def _grey(path: str | Path, invert: bool) -> Image.Image:
    """A picture without colour or transparency, its negative if asked for."""
    picture = open_picture(path)
    ground = Image.new("RGBA", picture.size, (255, 255, 255, 255) if invert else (0, 0, 0, 255))
    grey = Image.alpha_composite(ground, picture).convert("L")
    return ImageOps.invert(grey) if invert else grey


def open_picture(path: str | Path) -> Image.Image:
    """The picture in a file, upright, with 8 bit a channel and transparency.

    Args:
        path: Any file that Pillow opens.

    Returns:
        The picture, mode RGBA.

    Raises:
        DataError: If the file is missing, no picture, or too large.
    """
    try:
        if not Path(path).is_file():
            raise DataError(f"no file {str(path)!r}", "a picture file", "another path")
        with warnings.catch_warnings(), Image.open(path) as opened:
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened.draft(None, (_ENOUGH, _ENOUGH))  # a large JPEG is decoded at a fraction of its size
            return _eight_bits(ImageOps.exif_transpose(opened), path).convert("RGBA")
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(
            f"{str(path)!r}, which is too large a picture",
            f"at most {Image.MAX_IMAGE_PIXELS:,} pixels",
            "a smaller copy",
        ) from error
    except (UnidentifiedImageError, OSError, SyntaxError, EOFError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{str(path)!r}, which is no readable picture", "PNG or JPEG") from error


def _eight_bits(picture: Image.Image, path: str | Path) -> Image.Image:
    """A grey picture of whole numbers up to 65535, or of floats from 0 to 1, in 8 bit; others as they are."""
    if not picture.mode.startswith("I") and picture.mode != "F":
        return picture
    values = np.asarray(picture, dtype=np.float64)
    top = 1.0 if picture.mode == "F" else 65535.0
    if not np.isfinite(values).all() or values.min() < 0 or values.max() > top:
        raise DataError(
            f"{str(path)!r} with values from {values.min():g} to {values.max():g}",
            f"a picture of mode {picture.mode!r} with values from 0 to {top:g}",
            "a copy in 8 bit",
        )
    return Image.fromarray(np.rint(values * (255.0 / top)).astype(np.uint8))
