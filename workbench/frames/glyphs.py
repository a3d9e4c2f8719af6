"""Letters of the fonts at hand: pictures with two known factors, the letter and the style.

Any scalable font file that Pillow opens will do, also the web formats. Glyphs are drawn white on
black at one size, each in the middle of its square.

Fonts differ between machines. With the package travel the small letters of the free DejaVu fonts in 22 styles
as pictures of 16 x 16 pixels, so that numbers can be compared.

References:
    Pillow, https://pillow.readthedocs.io/en/stable/reference/ImageFont.html
    DejaVu fonts, https://dejavu-fonts.github.io
"""

import string
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import cast

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from workbench.checks import check_count
from workbench.errors import DataError, SettingError
from workbench.frames.files import FrameSet

FONT_FOLDERS = (
    "/usr/share/fonts",
    "~/.local/share/fonts",
    "~/.fonts",
    "/System/Library/Fonts",
    "C:/Windows/Fonts",
)
"""Where systems keep their fonts."""

FONT_FILES = (".ttf", ".otf", ".woff", ".woff2", ".t1", ".pfb")
LETTERS = string.ascii_letters + string.digits
_NO_LETTER = "\U0010ffff"  # never assigned, so that no font holds it
_DRAWN = 64  # pixels at which a glyph is drawn before it is reduced


def find_fonts(folder: str | Path | None = None) -> list[Path]:
    """Font files of a folder, or of the system's folders, in the order of their names.

    Args:
        folder: Where to look, with all folders in it; None for the system's.

    Returns:
        Paths.

    Raises:
        DataError: If there is none.
    """
    roots = [Path(root).expanduser() for root in FONT_FOLDERS] if folder is None else [Path(folder)]
    found = {
        file.resolve()
        for root in roots
        if root.is_dir()
        for file in root.rglob("*")
        if file.suffix.lower() in FONT_FILES
    }
    if not found:
        raise DataError(
            f"no font in {', '.join(str(root) for root in roots)}",
            "files that end in " + ", ".join(FONT_FILES),
            "apt install fonts-dejavu-core, or folder=...",
        )
    return sorted(found, key=lambda file: (file.name, file))


def render_glyphs(
    letters: str = LETTERS,
    *,
    fonts: Sequence[str | Path] | None = None,
    folder: str | Path | None = None,
    side: int = 24,
) -> FrameSet:
    """Draw every letter in every font.

    Args:
        letters: Characters to draw.
        fonts: Font files; None for all that `find_fonts` finds.
        folder: Where to look for them.
        side: Pixels along a side.

    Returns:
        The glyphs, style after style: labels are letters, groups and the one variable are styles. A style
        that has no picture of a letter leaves it out, and a font that draws all of them like an earlier one
        is left out: the same style under two names would give the hidden letters away.

    Raises:
        SettingError: For no letter or a side below 8.
        DataError: If there is no font, or a file is none.
    """
    check_count("side", side, least=8)
    if not isinstance(letters, str) or not letters:
        raise SettingError(f"letters={letters!r}", "a text", "letters='abc'")
    files = find_fonts(folder) if fonts is None else [Path(font) for font in fonts]
    pictures, codes, styles = [], [], []
    known: dict[bytes, Path] = {}
    for file in files:
        try:
            font = ImageFont.truetype(str(file), _DRAWN)
        except (OSError, ValueError) as error:
            raise DataError(
                f"{str(file)!r}, which is no readable font ({error})", "a scalable font"
            ) from error
        blank = _mask(font, _NO_LETTER)  # what it draws for a letter that it lacks
        drawn = {
            code: picture
            for code, letter in enumerate(letters)
            if _mask(font, letter) != blank and (picture := _drawn(font, letter, side)) is not None
        }
        whole = b"".join(code.to_bytes(4, "big") + picture.tobytes() for code, picture in drawn.items())
        if not drawn or known.setdefault(whole, file) is not file:
            continue
        pictures += drawn.values()
        codes += drawn
        styles += [len(known) - 1] * len(drawn)
    if not pictures:
        raise DataError(f"{len(files)} fonts without any of {letters!r}", "fonts that hold the letters")
    return _as_frames(
        torch.from_numpy(np.stack(pictures)),
        torch.tensor(codes),
        torch.tensor(styles),
        letters,
        _named(list(known.values()), len(files)),
    )


def _named(kept: list[Path], given: int) -> str:
    """The fonts in words, with how many drew what another had drawn."""
    same = f", {given - len(kept)} that draw nothing or the same left out" if given > len(kept) else ""
    return f"{len(kept)} fonts{same}: " + ", ".join(file.stem for file in kept[:3])


def load_glyphs() -> FrameSet:
    """The letters that travel with the package: a to z in 22 styles of DejaVu, the same on every machine.

    Returns:
        The glyphs as `render_glyphs` gives them.
    """
    path = resources.files("workbench") / "images" / "glyphs-sample.npz"
    with resources.as_file(path) as file, np.load(file, allow_pickle=False) as archive:
        pictures, codes, styles = (
            torch.from_numpy(archive[name]) for name in ("pictures", "letters", "styles")
        )
    letters = string.ascii_lowercase
    return _as_frames(pictures.float(), codes.long(), styles.long(), letters, "22 styles of DejaVu")


def write_sample(frames: FrameSet, path: str | Path) -> None:
    """Write glyphs as bytes, for `load_glyphs`."""
    pictures = ((frames.points + 1) * 127.5).round().reshape(-1, *frames.shape[1:])
    codes = frames.groups if frames.labels is None else frames.labels
    np.savez_compressed(
        path,
        pictures=pictures.numpy().astype(np.uint8),
        letters=codes.numpy().astype(np.uint8),
        styles=frames.groups.numpy().astype(np.uint8),
    )


def _as_frames(pictures: Tensor, codes: Tensor, styles: Tensor, letters: str, source: str) -> FrameSet:
    """Pictures with values 0 to 255, shape (count, side, side), as frames."""
    return FrameSet(
        name="glyphs",
        points=pictures.flatten(1) / 127.5 - 1,
        shape=(1, *pictures.shape[1:]),
        times=torch.arange(len(pictures), dtype=torch.float64),
        groups=styles,
        labels=codes,
        classes=tuple(letters),
        variables=styles.double()[:, None],
        names=("style",),
        source=source,
    )


def _mask(font: ImageFont.FreeTypeFont, letter: str) -> bytes:
    """The pixels that a font draws for a letter."""
    return bytes(cast(Iterable[int], font.getmask(letter)))


def _drawn(font: ImageFont.FreeTypeFont, letter: str, side: int) -> np.ndarray | None:
    """One glyph, centred and reduced; None if the font draws nothing for it."""
    left, top, right, bottom = (round(edge) for edge in font.getbbox(letter))
    if right <= left or bottom <= top:
        return None
    canvas = Image.new("L", (2 * _DRAWN, 2 * _DRAWN))
    place = (_DRAWN - (left + right) / 2, _DRAWN - (top + bottom) / 2)
    ImageDraw.Draw(canvas).text(place, letter, fill=255, font=font)
    margin = _DRAWN - round(0.62 * _DRAWN)
    box = (margin, margin, 2 * _DRAWN - margin, 2 * _DRAWN - margin)
    return np.asarray(canvas.crop(box).resize((side, side), Image.Resampling.BOX), dtype=np.float32)
