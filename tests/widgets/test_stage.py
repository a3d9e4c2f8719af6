"""Stages: what a place of the picture means as a text and back, and the ground under the picture."""

import pytest
import torch
from torch.testing import assert_close

from widgets.sessions.paths import PathSession
from widgets.stage import open_stage, stage_of, subject_of
from widgets.state import PathState
from workbench import open_model
from workbench.decoders import Latents
from workbench.errors import SettingError
from workbench.models import Frame
from workbench.subjects import Subject
from workbench.worlds import WORLDS, load_world


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_has_ends_inside_its_window(name):
    stage = open_stage(PathState(world=name))
    for text in stage.first_ends():
        assert stage.window.holds(*stage.coords(text))
    start = stage.subject.point(stage.first_ends()[0])
    assert_close(start, load_world(name).facts.start, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_has_a_ground(name):
    field = open_stage(PathState(world=name)).ground()
    assert torch.isfinite(field.values).double().mean() > 0.99
    assert field.title in ("V", "−log p")


def test_a_place_and_its_text_are_the_same_point():
    stage = open_stage(PathState(world="v_mixture"))
    assert stage.text_at(-1.25, 3.0) == "-1.25,3"
    assert stage.coords("-1.25,3") == (-1.25, 3.0)


class Blob:
    """A standard Gaussian as somebody's own model."""

    def __init__(self, shape):
        self.frame = Frame("blob", shape, 0.0, 80.0)

    def denoise(self, y, sigma):
        return y / (1 + torch.as_tensor(sigma) ** 2)


def test_a_model_of_ones_own_in_the_plane_needs_no_ends():
    stage = stage_of(subject_of(Blob((2,))))
    assert stage.window.holds(*stage.coords(stage.first_ends()[0]))
    assert stage.ground() is None


def test_a_model_in_many_dimensions_needs_ends_or_samples():
    with pytest.raises(SettingError, match="no start in blob"):
        subject_of(Blob((64,)))


def test_given_ends_are_points_of_a_slice(generator):
    start, end = torch.randn(2, 64, generator=generator)
    stage = stage_of(subject_of(Blob((64,)), start=start, end=end))
    assert_close(stage.subject.point("start"), start)
    assert stage.coords("end") == pytest.approx((float((end - start).norm()), 0.0), abs=1e-9)


def test_samples_can_be_the_ends(generator):
    choices = torch.randn(20, 64, generator=generator)
    stage = stage_of(subject_of(Blob((1, 8, 8)), choices=choices))
    assert_close(stage.subject.point("7"), choices[7])
    assert stage.text_at(*stage.coords("7")) == "7"


def test_a_world_in_more_dimensions_is_seen_through_its_ends(generator):
    world = load_world("v_mixture").rotated(16, generator=generator)
    stage = stage_of(subject_of(world))
    assert stage.coords("start") == pytest.approx((0.0, 0.0), abs=1e-9)
    assert stage.coords("end") == pytest.approx((6.0, 0.0), abs=1e-9)


def test_a_decoder_without_a_score_has_a_stage_and_no_path():
    decoder = open_model(torch.nn.Linear(4, 9), kind="decoder", shape=(4,), name="toy")
    latents = Latents(decoder)
    stage = stage_of(Subject(latents, latents.frame, "0", "1"))
    assert stage.section.encode(stage.subject.point("0")[None]).shape == (1, 2)
    with pytest.raises(SettingError, match="a decoder without a score"):
        PathSession(PathState(), stage)
