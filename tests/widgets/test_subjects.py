"""Subjects: what a text means as a point, what a place means as a text, and the ground under the picture."""

import pytest
import torch
from torch.testing import assert_close

from widgets.state import PathState
from widgets.subjects import open_subject, subject_of
from workbench.errors import SettingError
from workbench.models import Frame
from workbench.worlds import WORLDS, load_world


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_has_ends_inside_its_window(name):
    subject = open_subject(PathState(world=name))
    for text in (subject.start, subject.end):
        assert subject.window.holds(*subject.coords(text))
    assert_close(subject.point(subject.start), load_world(name).facts.start, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_has_a_ground(name):
    field = open_subject(PathState(world=name)).ground()
    assert torch.isfinite(field.values).float().mean() > 0.99
    assert field.title in ("V", "−log p")


def test_landscapes_have_the_regimes_that_need_no_noise():
    assert open_subject(PathState(world="muller_brown")).regimes == ("static", "principal")
    assert "mep" in open_subject(PathState(world="ring")).regimes


def test_a_place_and_its_text_are_the_same_point():
    subject = open_subject(PathState(world="v_mixture"))
    assert subject.text_at(-1.25, 3.0) == "-1.25,3"
    assert subject.coords("-1.25,3") == (-1.25, 3.0)


@pytest.mark.parametrize("text", ["", "abc", "1", "1,2,3", "nan,1", "1,inf"])
def test_a_text_that_is_no_point_is_one_sentence(text):
    with pytest.raises(SettingError, match="2 finite numbers"):
        open_subject(PathState(world="ring")).point(text)


class Blob:
    """A standard Gaussian as somebody's own model."""

    def __init__(self, shape):
        self.frame = Frame("blob", shape, 0.0, 80.0)

    def denoise(self, y, sigma):
        return y / (1 + torch.as_tensor(sigma) ** 2)


def test_a_model_of_ones_own_in_the_plane_needs_no_ends():
    subject = subject_of(Blob((2,)))
    assert subject.window.holds(*subject.coords(subject.start))
    assert subject.ground() is None


def test_a_model_in_many_dimensions_needs_ends_or_samples():
    with pytest.raises(SettingError, match="no ends for blob"):
        subject_of(Blob((64,)))


def test_given_ends_are_points_of_a_slice(generator):
    start, end = torch.randn(2, 64, generator=generator)
    subject = subject_of(Blob((64,)), start=start, end=end)
    assert_close(subject.point("start"), start)
    x, y = subject.coords("end")
    assert (x, y) == pytest.approx((float((end - start).norm()), 0.0), abs=1e-9)


def test_samples_can_be_the_ends(generator):
    choices = torch.randn(20, 64, generator=generator)
    subject = subject_of(Blob((1, 8, 8)), choices=choices)
    assert_close(subject.point("7"), choices[7])
    assert subject.text_at(*subject.coords("7")) == "7"
    with pytest.raises(SettingError, match="an index from 0 to 19"):
        subject.point("20")
