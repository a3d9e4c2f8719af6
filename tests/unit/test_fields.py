"""Fields: the grid lies where it says, rows run upwards, and colours ignore walls."""

import pytest
import torch
from torch.testing import assert_close

from workbench.embeddings import Identity, Slice
from workbench.errors import SettingError
from workbench.fields import Field, Window, frame_window, measure_field

WINDOW = Window((-1.0, 3.0), (0.0, 2.0))


def test_field_of_a_linear_function_has_its_values_at_the_grid():
    field = measure_field(lambda x: x[:, 0] + 10 * x[:, 1], Identity(), WINDOW, columns=5, rows=3, title="f")
    expected = torch.tensor([0.0, 10.0, 20.0])[:, None] + torch.tensor([-1.0, 0.0, 1.0, 2.0, 3.0])
    assert_close(field.values, expected)


def test_field_on_a_slice_evaluates_points_of_the_space():
    plane = Slice(torch.tensor([0.0, 0.0, 5.0]), torch.eye(3)[:2])
    field = measure_field(lambda x: x[:, 2], plane, WINDOW, columns=4, rows=4, title="f")
    assert_close(field.values, torch.full((4, 4), 5.0))


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_field_does_not_depend_on_the_chunk(chunk):
    field = measure_field(
        lambda x: x.square().sum(-1), Identity(), WINDOW, columns=6, rows=5, title="f", chunk=chunk
    )
    whole = measure_field(lambda x: x.square().sum(-1), Identity(), WINDOW, columns=6, rows=5, title="f")
    assert_close(field.values, whole.values)


def test_field_takes_the_dtype_it_is_given():
    like = torch.zeros(1, dtype=torch.float32)
    field = measure_field(lambda x: x[:, 0], Identity(), WINDOW, columns=2, rows=2, title="f", like=like)
    assert field.values.dtype == torch.float32


def test_field_refuses_a_grid_of_one_row():
    with pytest.raises(SettingError, match="1 x 4"):
        measure_field(lambda x: x[:, 0], Identity(), WINDOW, columns=4, rows=1, title="f")


def test_limits_ignore_walls_and_holes():
    values = torch.tensor([[0.0, 1.0], [2.0, 1e9], [float("nan"), float("inf")]])
    assert Field(values, WINDOW, "V").limits() == pytest.approx((0.0, 1.8))


def test_limits_of_a_constant_are_a_range():
    assert Field(torch.full((2, 2), 3.0), WINDOW, "V").limits() == (3.0, 4.0)


def test_window_holds_the_points_with_a_margin_and_an_aspect():
    window = frame_window(torch.tensor([[0.0, 0.0], [4.0, 1.0]]), margin=0.25, aspect=1.0)
    assert window == Window((-1.0, 5.0), (-2.5, 3.5))
    assert window.holds(0.0, 0.0)
    assert not window.holds(6.0, 0.0)


def test_window_of_one_point_is_a_square():
    assert frame_window(torch.zeros(1, 2)) == Window((-0.125, 0.125), (-0.125, 0.125))
