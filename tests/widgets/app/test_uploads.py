"""Uploads are small pictures or small texts, known by what they hold."""

import io

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("panel")

from widgets.app.uploads import PICTURE_BYTES, PREFIX, Uploads, check_picture, view_text
from workbench.errors import DataError


def picture(kind="PNG", size=(20, 30), value=90):
    buffer = io.BytesIO()
    Image.new("L", size, value).save(buffer, format=kind)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_picture_is_kept_under_a_digest_of_its_content(kind):
    uploads = Uploads()
    name = uploads.add(picture(kind))
    assert name.startswith(PREFIX)
    assert uploads.find(name) == picture(kind)
    assert uploads.add(picture(kind)) == name
    assert uploads.add(picture(kind, value=91)) != name


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "BMP"])
def test_other_kinds_are_refused_by_content_not_by_name(kind):
    with pytest.raises(DataError, match="PNG or JPEG"):
        check_picture(picture(kind))


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n", b"<svg/>", picture()[:20], b"%PDF-1.4"])
def test_what_is_no_picture_is_refused(data):
    with pytest.raises(DataError, match="another file"):
        check_picture(data)


def test_large_files_and_large_pictures_are_refused():
    noise = np.random.default_rng(0).integers(0, 255, (1600, 1600), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, format="PNG")
    assert len(buffer.getvalue()) > PICTURE_BYTES
    with pytest.raises(DataError, match="bytes"):
        check_picture(buffer.getvalue())
    with pytest.raises(DataError, match="5000×5000 pixels"):
        check_picture(picture(size=(5000, 5000)))


def test_the_oldest_pictures_are_forgotten_when_the_room_is_full():
    first, second = picture(value=1), picture(value=2)
    uploads = Uploads(room=5 * len(first) // 2)
    names = [uploads.add(first), uploads.add(second)]
    uploads.find(names[0])
    third = uploads.add(picture(value=3))
    assert uploads.find(names[1]) is None
    assert uploads.find(names[0]) is not None
    assert uploads.find(third) is not None


def test_a_view_is_a_small_text():
    assert view_text("view: 1  # σ".encode()) == "view: 1  # σ"
    with pytest.raises(DataError, match="bytes"):
        view_text(b"x" * 65_000)
    with pytest.raises(DataError, match="no text"):
        view_text(b"\xff\xfe\x00")
