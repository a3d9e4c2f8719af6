"""Uploads: pictures as ends of a path, and saved views; limited in size and type, kept in memory only.

A picture is known by a digest of its content, so that a page that is loaded again finds its pictures for as
long as the server lives.
"""

import hashlib
import io
import threading
import warnings
from collections import OrderedDict

from PIL import Image, UnidentifiedImageError

from workbench.errors import DataError

PICTURE_TYPES = ("PNG", "JPEG")
PICTURE_BYTES = 2_000_000
"""Largest file of a picture."""
PICTURE_PIXELS = 16_000_000
"""Most pixels of a picture, before anything of it is decoded."""
VIEW_BYTES = 64_000
"""Largest saved view."""
PREFIX = "picture-"


class Uploads:
    """Pictures that visitors have sent, the least recently used forgotten first.

    Args:
        room: Bytes to keep.
    """

    def __init__(self, room: int = 64_000_000) -> None:
        self._room = room
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, data: bytes) -> str:
        """Keep a picture.

        Args:
            data: The file's content.

        Returns:
            Its name, to be used as an end.

        Raises:
            DataError: If it is too large or no PNG or JPEG picture.
        """
        check_picture(data)
        name = PREFIX + hashlib.sha256(data).hexdigest()[:24]
        with self._lock:
            self._kept[name] = data
            self._kept.move_to_end(name)
            while sum(map(len, self._kept.values())) > self._room:
                self._kept.popitem(last=False)
        return name

    def find(self, name: str) -> bytes | None:
        """The picture of that name; None if it is not known any more."""
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
            return self._kept.get(name)


def check_picture(data: bytes) -> None:
    """Refuse what is no reasonable picture, by looking at its head only.

    Raises:
        DataError: If it is too large or no PNG or JPEG picture.
    """
    limit_bytes(data, PICTURE_BYTES, "a picture")
    kinds = " or ".join(PICTURE_TYPES)
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(data), formats=PICTURE_TYPES) as picture:
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            width, height = picture.size
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError("a file that is no such picture", f"a {kinds} picture", "another file") from error
    if width * height > PICTURE_PIXELS:
        raise DataError(
            f"a picture of {width}×{height} pixels", f"{PICTURE_PIXELS:,} at most", "a smaller one"
        )


def limit_bytes(data: bytes, most: int, what: str) -> None:
    """Refuse a file that is too large.

    Raises:
        DataError: If it is.
    """
    if len(data) > most:
        raise DataError(f"{what} of {len(data):,} bytes", f"{most:,} at most", "a smaller one")


def view_text(data: bytes) -> str:
    """The text of an uploaded view.

    Raises:
        DataError: If it is too large or no text.
    """
    limit_bytes(data, VIEW_BYTES, "a view")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError("a view that is no text", "what `Save view` wrote", "another file") from error
