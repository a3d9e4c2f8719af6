"""Films as pixels: values to grey by a stated range, side by side, and back from a file."""

import numpy as np
import pytest
import torch
from PIL import Image

from workbench.conda.films import film_pixels, save_film
from workbench.errors import SettingError, ShapeError


@pytest.fixture
def ramp() -> torch.Tensor:
    """Three frames of 2 x 4 pixels, from 0 to 23."""
    return torch.arange(24.0).reshape(3, 8)


def test_pixels_are_the_values_between_black_and_white(ramp):
    found = film_pixels({"one": ramp, "two": ramp + 23.0}, (2, 4))
    assert found.shape == (3, 2, 4 + 2 + 4, 3)
    grey = np.rint(ramp.numpy() / 23.0 * 255.0).reshape(3, 2, 4)
    np.testing.assert_array_equal(found[:, :, :4], np.repeat(grey[..., None], 3, axis=-1))
    assert (found[:, :, 4:] == 255).all()  # paper, then all that is brighter than the first film's white
    darker = film_pixels({"one": ramp}, (1, 2, 4), value_range=(0.0, 46.0))
    np.testing.assert_array_equal(darker[..., 0], np.rint(ramp.numpy() / 46.0 * 255.0).reshape(3, 2, 4))


def test_colours_keep_their_channels():
    frame = torch.stack([torch.zeros(4), torch.ones(4), 0.5 * torch.ones(4)]).reshape(1, 12)
    found = film_pixels({"one": frame}, (3, 2, 2), value_range=(0.0, 1.0))
    assert found[0, 0, 0].tolist() == [0, 255, 128]


def test_an_animation_and_an_array_file_read_back(tmp_path, ramp):
    path = save_film(tmp_path / "walk.gif", {"one": ramp}, (2, 4), magnify=3, rate=10.0)
    with Image.open(path) as film:
        assert film.n_frames == 3
        assert film.size == (12, 6)
        assert film.info["duration"] == 100
    path = save_film(tmp_path / "walk.npz", {"one": ramp}, (2, 4), arrays={"times": torch.arange(3)})
    with np.load(path) as held:
        np.testing.assert_array_equal(held["film one"], ramp.numpy())
        assert held["times"].tolist() == [0, 1, 2]
        assert held["shape"].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("films", "shape", "says"),
    [
        ({"one": torch.zeros(3, 10)}, (2, 4), r"a film of shape \(3, 10\); expected \(steps, 8\)"),
        ({"one": torch.zeros(3, 8), "two": torch.zeros(2, 8)}, (2, 4), r"films of \[2, 3\] frames"),
        ({"one": torch.zeros(3, 8)}, (8,), "pictures of one or three channels"),
    ],
)
def test_films_that_are_no_pictures_are_refused(films, shape, says):
    with pytest.raises(ShapeError, match=says):
        film_pixels(films, shape)


def test_a_path_that_cannot_be_written_is_one_sentence(tmp_path, ramp):
    with pytest.raises(
        SettingError, match=r"^got the file 'walk.avi'; expected an ending of .gif, .mp4, .npz"
    ):
        save_film(tmp_path / "walk.avi", {"one": ramp}, (2, 4))
    with pytest.raises(SettingError, match="which cannot be written"):
        save_film(tmp_path / "nowhere" / "walk.npz", {"one": ramp}, (2, 4))
