"""Points and models by text: what is accepted, what is refused and in which words."""

import pytest
import torch
from PIL import Image

from workbench.errors import DataError, SettingError
from workbench.subjects import open_subject


def test_a_world_brings_its_own_ends_and_answers():
    subject = open_subject(world="v_mixture")
    start, end = subject.ends()
    torch.testing.assert_close(start, torch.tensor([-3.0, 0.0]))
    torch.testing.assert_close(end, torch.tensor([3.0, 0.0]))
    assert subject.regimes[0] == "mep"
    assert subject.field().values.shape[1] == 128
    assert subject.reference_path(torch.stack([start, end])).shape[-1] == 2


def test_a_landscape_has_only_the_static_regime():
    assert open_subject(world="muller_brown").regimes == ("static",)


def test_numbers_name_real_images_and_keep_the_networks_dtype():
    subject = open_subject(model="digits")
    point = subject.point("3")
    assert torch.equal(point, subject.choices[3])
    assert point.dtype == torch.float32


def test_a_picture_file_is_brought_into_the_frame(tmp_path):
    Image.new("RGB", (40, 20), (255, 255, 255)).save(tmp_path / "a.png")
    point = open_subject(model="digits").point(str(tmp_path / "a.png"))
    assert point.shape == (64,)
    assert point.max() == 1.0
    assert point.min() == -1.0  # padded with black to the frame's proportions


def test_several_points_are_separated_by_semicolons():
    subject = open_subject(world="ring")
    assert subject.points("") is None
    assert torch.equal(subject.points("0,1; 2,3"), torch.tensor([[0.0, 1.0], [2.0, 3.0]]))


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("900", SettingError, "sample 900; expected a number from 0 to 296"),
        ("1,2", SettingError, "64 finite numbers"),
        ("nan,1", SettingError, "64 finite numbers"),
        ("-1", SettingError, "the number of a real sample, 0 to 296"),
        ("nowhere.png", DataError, "no file 'nowhere.png'"),
    ],
)
def test_bad_points_are_one_sentence(text, error, words):
    with pytest.raises(error) as caught:
        open_subject(model="digits").point(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_whole_numbers_name_real_samples_too():
    subject = open_subject(model="digits")
    start, end = subject.ends(9, 0)
    assert torch.equal(start, subject.choices[9])
    assert torch.equal(end, subject.choices[0])


@pytest.mark.parametrize("text", ["²", "~nobody/a.png", "a\0b", ""])
def test_odd_texts_are_refused_in_words(text):
    with pytest.raises((SettingError, DataError), match="got"):
        open_subject(model="digits").point(text)


def test_picture_files_among_texts_are_found(tmp_path):
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    subject = open_subject(model="digits")
    assert subject.files(start=str(tmp_path / "a.png"), end="3") == {"start": tmp_path / "a.png"}


@pytest.mark.parametrize("sigma", [-1.0, float("nan"), float("inf")])
def test_a_field_needs_a_noise_level(sigma):
    with pytest.raises(SettingError, match="sigma"):
        open_subject(world="v_mixture").field(sigma)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(world="nirvana"), "world 'nirvana'"),
        (dict(model="nirvana"), "model 'nirvana'"),
        (dict(model="digits", dtype="float8"), "dtype 'float8'"),
        (dict(model="digits", device="cuda:99"), "device 'cuda:99'"),
        (dict(model="digits", device="warp"), "device 'warp'"),
    ],
)
def test_bad_names_are_one_sentence(arguments, words):
    with pytest.raises(SettingError) as caught:
        open_subject(**arguments)
    assert words in str(caught.value)
