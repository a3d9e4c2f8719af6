"""The filmstrip as data: one picture a sample, bars that are the distances between them, or one sentence."""

import dataclasses

import pytest
import torch

from widgets.figures.filmstrip import at_equal_arc, filmstrip_figure
from workbench.curves import Curve
from workbench.models import Frame

FRAME = Frame("tiny", (1, 2, 2), 0.002, 80.0, value_range=(-8.0, 8.0))


@pytest.fixture
def strip(valley):
    """The valley's path, turned into pictures of two by two."""
    frame = torch.linalg.qr(torch.randn(4, 2, generator=torch.Generator().manual_seed(1))).Q
    return dataclasses.replace(valley, curve=Curve.through(valley.curve.points @ frame.T))


@pytest.mark.parametrize("frames", [2, 5, 9])
def test_the_strip_has_one_picture_a_sample_and_no_array(strip, frames):
    drawing = filmstrip_figure(strip, FRAME, frames=frames)
    assert len(drawing.layout.images) == frames
    assert all(image.source.startswith("data:image/png;base64,") for image in drawing.layout.images)
    assert [trace.type for trace in drawing.data] == ["bar"]
    assert [image.x for image in drawing.layout.images] == pytest.approx(
        torch.linspace(0, 1, frames).tolist()
    )


def test_the_bars_are_the_distances_between_neighbours(strip):
    drawing = filmstrip_figure(strip, FRAME, frames=9)
    points, _ = at_equal_arc(strip, 9)
    assert list(drawing.data[0].y) == pytest.approx((points[1:] - points[:-1]).norm(dim=-1).tolist())
    assert drawing.layout.yaxis.title.text == "step |Δx|<br>data units"
    assert drawing.layout.xaxis.title.text == "share of the arc length"


def test_the_strip_starts_and_ends_at_the_ends(strip):
    points, shares = at_equal_arc(strip, 7)
    assert torch.allclose(points[0], strip.curve.points[0], atol=1e-9)
    assert torch.allclose(points[-1], strip.curve.points[-1], atol=1e-9)
    assert shares.tolist() == pytest.approx([k / 6 for k in range(7)])


def test_steps_on_a_straight_path_are_equal(strip):
    start, end = strip.curve.points[0], strip.curve.points[-1]
    line = Curve.through(start + torch.linspace(0, 1, 11)[:, None] * (end - start))
    steps = filmstrip_figure(dataclasses.replace(strip, curve=line), FRAME).data[0].y
    assert max(steps) == pytest.approx(min(steps))


def test_points_that_are_no_pictures_get_one_sentence(valley):
    drawing = filmstrip_figure(valley, Frame("plane", (2,), 0.0, 1.0))
    assert len(drawing.data) == 0
    assert (
        drawing.layout.annotations[0].text == "Samples of plane are points, not pictures: the map shows them."
    )
