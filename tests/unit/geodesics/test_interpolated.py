"""A metric interpolated from its field: exact where it can be, close elsewhere, positive everywhere."""

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import fisher as oracle
from workbench.errors import SettingError
from workbench.fields import Window
from workbench.geodesics.interpolated import interpolated_metric
from workbench.lenses.fisher import find_geodesic, measure_metric_field
from workbench.metrics import Chart, MatrixMetric, half_plane, matrix

WINDOW = Window((0.0, 2.0), (0.5, 2.5))


def field_of(metric, side):
    return measure_metric_field(metric, WINDOW, columns=side, rows=side)


def test_a_constant_metric_is_itself_everywhere():
    g = torch.tensor([[2.0, 0.7], [0.7, 1.0]], dtype=torch.float64)
    metric = MatrixMetric(lambda x: g.expand(*x.shape[:-1], 2, 2), Chart("flat", 2))
    found = interpolated_metric(field_of(metric, 8))
    x = torch.rand(20, 2, dtype=torch.float64) + torch.tensor([0.3, 0.8])
    assert_close(matrix(found, x), g.expand(20, 2, 2), rtol=1e-12, atol=1e-12)


def test_it_goes_through_the_points_of_the_grid():
    field = field_of(half_plane(), 9)
    x, y = (torch.linspace(*span, 9, dtype=torch.float64) for span in (WINDOW.x, WINDOW.y))
    at = torch.cartesian_prod(y, x).flip(-1)
    assert_close(
        matrix(interpolated_metric(field), at), field.matrices.reshape(-1, 2, 2), rtol=1e-12, atol=0.0
    )


def test_its_error_falls_with_the_grid_and_its_derivative_is_continuous():
    x = torch.tensor([[0.93, 1.27], [1.31, 1.93]], dtype=torch.float64)
    gaps = [
        float(
            (matrix(interpolated_metric(field_of(half_plane(), n)), x) - matrix(half_plane(), x)).abs().max()
        )
        for n in (9, 17, 33)
    ]
    assert gaps[0] / gaps[2] > 30.0  # third order or better: 64 in two halvings
    metric = interpolated_metric(field_of(half_plane(), 9))
    edge = torch.tensor([1.0, 1.0], dtype=torch.float64)  # a corner of four cells
    sides = []
    for shift in (-1e-7, 1e-7):
        at = (edge + shift).requires_grad_()
        sides.append(torch.autograd.grad(matrix(metric, at)[0, 0], at)[0])
    assert_close(sides[0], sides[1], rtol=1e-4, atol=1e-5)


def test_geodesics_on_it_are_nearly_those_of_the_metric():
    ends = torch.tensor([[0.2, 0.8], [1.7, 0.9]], dtype=torch.float64)
    found = find_geodesic(interpolated_metric(field_of(half_plane(), 33)), *ends, starts=1)
    exact = oracle.half_plane_distance(tuple(ends[0].tolist()), tuple(ends[1].tolist()))
    assert found.distance.value == pytest.approx(exact, rel=1e-4)


def test_a_field_with_holes_is_refused():
    with pytest.raises(SettingError, match="without a metric"):
        interpolated_metric(
            measure_metric_field(half_plane(), Window((0.0, 1.0), (-1.0, 1.0)), columns=8, rows=8)
        )
