"""Picture files come into a frame as they are, and those on the wrong background are named."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from workbench.bench import Bench
from workbench.errors import DataError, SettingError
from workbench.models import Frame
from workbench.pictures import light_ground, open_picture, read_image
from workbench.subjects import open_subject, real_samples

FRAME = Frame("grey", (1, 28, 28), 0.002, 80.0, (-1.0, 1.0))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P"])
def test_picture_of_the_frames_size_keeps_its_values(tmp_path: Path, mode: str):
    values = np.random.default_rng(2).integers(0, 256, (28, 28)).astype(np.uint8)
    Image.fromarray(values).convert(mode).save(tmp_path / "a.png")
    point = read_image(tmp_path / "a.png", FRAME)
    expected = torch.as_tensor(values.reshape(-1) / 127.5 - 1, dtype=torch.float32)
    torch.testing.assert_close(point, expected, rtol=0, atol=1e-6)


def test_picture_is_resized_greyed_and_padded_with_black(tmp_path: Path):
    Image.new("RGB", (200, 100), (255, 0, 0)).save(tmp_path / "wide.png")
    picture = read_image(tmp_path / "wide.png", FRAME).reshape(28, 28)
    torch.testing.assert_close(picture[:7], torch.full((7, 28), -1.0, dtype=torch.float32))
    grey = 76 / 127.5 - 1  # luma of pure red: 0.299 * 255
    torch.testing.assert_close(picture[7:21], torch.full((14, 28), grey, dtype=torch.float32))


def test_transparent_picture_lies_on_black(tmp_path: Path):
    Image.new("RGBA", (28, 28), (255, 255, 255, 0)).save(tmp_path / "clear.png")
    torch.testing.assert_close(
        read_image(tmp_path / "clear.png", FRAME), torch.full((784,), -1.0, dtype=torch.float32)
    )


def test_other_range_of_values(tmp_path: Path):
    Image.new("L", (28, 28), 255).save(tmp_path / "white.png")
    frame = Frame("unit", (1, 4, 4), 0.002, 80.0, (0.0, 1.0))
    torch.testing.assert_close(read_image(tmp_path / "white.png", frame), torch.ones(16, dtype=torch.float32))


def test_unreadable_picture_is_one_sentence(tmp_path: Path):
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(DataError, match="which is no readable picture; expected PNG or JPEG"):
        read_image(tmp_path / "text.png", FRAME)
    with pytest.raises(DataError, match="got no file"):
        read_image(tmp_path / "nowhere.png", FRAME)
    with pytest.raises(SettingError, match="expected a model of grey images"):
        read_image(tmp_path / "text.png", Frame("plane", (2,), 0.002, 80.0))


@pytest.fixture
def drawings(tmp_path: Path) -> tuple[str, str]:
    """The same shape, white on black and black on white, wider than high."""
    dark = Image.new("L", (90, 60), 0)
    ImageDraw.Draw(dark).ellipse((30, 10, 60, 50), fill=255)
    dark.save(tmp_path / "dark.png")
    dark.point(lambda value: 255 - value).save(tmp_path / "light.png")
    return str(tmp_path / "dark.png"), str(tmp_path / "light.png")


def test_the_negative_of_a_light_drawing_is_the_dark_one_padding_included(drawings):
    dark, light = drawings
    torch.testing.assert_close(read_image(light, FRAME, invert=True), read_image(dark, FRAME))
    subject = open_subject(model="fashion")
    torch.testing.assert_close(subject.point(f"invert:{light}"), subject.point(dark))
    assert subject.point(light).mean() > subject.point(dark).mean()


def test_what_is_transparent_under_a_dark_drawing_counts_as_light_when_inverted(tmp_path):
    clear = Image.new("RGBA", (28, 28), (0, 0, 0, 0))
    ImageDraw.Draw(clear).rectangle((10, 10, 17, 17), fill=(0, 0, 0, 255))
    clear.save(tmp_path / "clear.png")
    point = read_image(tmp_path / "clear.png", FRAME, invert=True).reshape(28, 28)
    assert point[0, 0] == -1.0
    assert point[14, 14] == 1.0


def test_a_light_background_is_named_with_what_helps(drawings):
    dark, light = drawings
    subject = open_subject(model="fashion")
    (said,) = subject.remarks(start=dark, end=light)
    assert said.startswith("end light.png has a background 1.00 where the model's images have 0.0")
    assert said.endswith(f"'invert:{light}' swaps dark and light")
    (said,) = subject.remarks(start=f"invert:{light}", end="3")
    assert said.startswith("start light.png is shown inverted")
    assert open_subject(world="ring").remarks(start=light, end="0,1") == ()


@pytest.mark.parametrize("name", ["fashion", "digits"])
def test_no_real_image_is_taken_for_a_negative(tmp_path, name):
    frame = open_subject(model=name).frame
    images = real_samples(frame)
    rim = images.reshape(-1, *frame.shape[1:])[:, 0].mean(-1)
    for k in (int(rim.argmax()), int(rim.argmin())):
        grey = ((images[k].reshape(frame.shape[1:]) + 1) * 127.5).byte().numpy()
        Image.fromarray(grey).save(tmp_path / "real.png")
        assert light_ground(tmp_path / "real.png", images, frame) == ""
        Image.fromarray(255 - grey).save(tmp_path / "negative.png")
        assert light_ground(tmp_path / "negative.png", images, frame)


def test_the_bench_says_it_with_its_answers(drawings):
    dark, light = drawings
    asked = {"lenses": "paths", "regimes": "transport", "nodes": 5, "steps": 2, "background": "none"}
    bench = Bench(model="digits", start=dark, end=light, **asked)
    assert any(note.endswith("swaps dark and light") for note in bench.ask().notes)
    assert bench.ask(resolution="coarse").notes == ()


RAMP = np.linspace(0, 255, 784).round().astype(np.uint8).reshape(28, 28)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (RAMP.astype(np.uint16) * 257, "deep.png"),
        (RAMP.astype(np.uint16) * 257, "deep.tiff"),
        (RAMP.astype(np.int32) * 257, "whole.tiff"),
        (RAMP.astype(np.float32) / 255, "floats.tiff"),
    ],
    ids=["png", "I;16", "I", "F"],
)
def test_deep_picture_is_the_same_as_in_8_bit(tmp_path: Path, values: np.ndarray, name: str):
    Image.fromarray(RAMP).save(tmp_path / "flat.png")
    Image.fromarray(values).save(tmp_path / name)
    torch.testing.assert_close(read_image(tmp_path / name, FRAME), read_image(tmp_path / "flat.png", FRAME))


@pytest.mark.parametrize("value", [-1.0, 300.0, math.nan])
def test_floats_outside_their_range_are_one_sentence(tmp_path: Path, value: float):
    Image.fromarray(np.full((4, 4), value, dtype=np.float32)).save(tmp_path / "wild.tiff")
    with pytest.raises(DataError, match=r"wild.tiff.* with values .*; expected .* from 0 to 1; try a"):
        read_image(tmp_path / "wild.tiff", FRAME)


@pytest.mark.parametrize("limit", [10, 60])
def test_bomb_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int):
    Image.new("L", (10, 10)).save(tmp_path / "large.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)  # an error from twice as many, a warning before
    with pytest.raises(DataError, match=r"too large a picture; expected at most .* pixels; try a smaller"):
        read_image(tmp_path / "large.png", FRAME)


def test_large_jpeg_is_decoded_at_a_fraction_of_its_size(tmp_path: Path):
    Image.fromarray(RAMP).resize((4000, 4000)).save(tmp_path / "large.jpg")
    assert open_picture(tmp_path / "large.jpg").size == (1000, 1000)
    torch.testing.assert_close(
        read_image(tmp_path / "large.jpg", FRAME),
        torch.as_tensor(RAMP.reshape(-1) / 127.5 - 1, dtype=torch.float32),
        rtol=0,
        atol=0.1,
    )


@pytest.mark.parametrize("path", [".", "/dev/zero", "a\0b"])
def test_a_path_that_is_no_file_is_one_sentence(path: str):
    with pytest.raises(DataError, match=r"^got no file .*; expected a picture file"):
        read_image(path, FRAME)
