"""Exponential and logarithm undo each other; carried vectors turn as the curvature says."""

import math

import pytest
import torch
from torch.testing import assert_close

from tests.unit.geodesics.cases import SPHERE, TORUS
from workbench.curves import Curve
from workbench.errors import SettingError, ShapeError
from workbench.geodesics import exponential_map, log_map, parallel_transport
from workbench.metrics import Chart, Euclidean, families, half_plane, inner, norm


@pytest.mark.parametrize(
    ("metric", "start", "ends"),
    [
        (families.gaussian(), (0.0, 1.0), ((1.0, 1.0), (3.0, 0.5), (1.0, 2.0), (0.0, 1.0))),
        (SPHERE, (1.0, 0.5), ((1.4, 1.5), (0.5, 0.2), (1.0, 0.5))),
        (TORUS, (0.5, 0.0), ((2.5, 2.0), (0.0, 0.3))),
        (families.categorical(3), (0.2, 0.3), ((0.6, 0.3), (0.1, 0.1))),
    ],
)
def test_exponential_of_the_logarithm_is_the_target_for_a_batch(metric, start, ends):
    start, ends = torch.tensor(start), torch.tensor(ends)
    found = log_map(metric, start, ends)
    assert bool(found.converged.all())
    shot = exponential_map(metric, start.expand_as(ends), found.velocity, steps=128)
    assert_close(shot.points[:, -1], ends, rtol=0.0, atol=2e-7)
    assert_close(norm(metric, start.expand_as(ends), found.velocity), found.distance, rtol=1e-7, atol=1e-12)
    assert bool(shot.inside.all())


def test_logarithm_of_the_exponential_is_the_velocity():
    x, v = torch.tensor([[1.2, 0.3]]), torch.tensor([[0.4, -0.7]])
    shot = exponential_map(SPHERE, x, v)
    assert_close(log_map(SPHERE, x, shot.points[:, -1]).velocity, v, rtol=0.0, atol=1e-7)


def test_vertical_geodesics_of_the_half_plane_are_exponential():
    shot = exponential_map(half_plane(), torch.tensor([0.0, 1.0]), torch.tensor([0.0, -1.3]), steps=64)
    t = torch.linspace(0.0, 1.0, 65)
    assert_close(shot.points[:, 1], torch.exp(-1.3 * t), rtol=1e-7, atol=0.0)
    assert float(shot.speed_drift) < 1e-7


def test_shooting_has_order_four():
    exact = torch.exp(torch.tensor(-1.3))
    errors = [
        (
            exponential_map(
                half_plane(), torch.tensor([0.0, 1.0]), torch.tensor([0.0, -1.3]), steps=n
            ).points[-1, 1]
            - exact
        )
        for n in (8, 16, 32)
    ]
    assert float(errors[0] / errors[1]) == pytest.approx(16.0, rel=0.1)
    assert float(errors[1] / errors[2]) == pytest.approx(16.0, rel=0.1)


def test_a_shot_that_leaves_the_domain_says_so_and_stays_finite():
    shot = exponential_map(half_plane(), torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, -30.0]]), steps=8)
    assert not bool(shot.inside.any())
    assert bool(torch.isfinite(shot.points).all())


def test_a_vector_carried_round_a_circle_of_latitude_turns_by_the_solid_angle():
    t, theta = torch.linspace(0.0, 1.0, 33), 1.0
    loop = Curve.through(torch.stack((torch.full_like(t, theta), 2.0 * math.pi * t), dim=-1))
    carried = parallel_transport(SPHERE, loop, torch.tensor([1.0, 0.0]), steps=64)
    turn = 2.0 * math.pi * math.cos(theta)
    expected = torch.tensor([math.cos(turn), -math.sin(turn) / math.sin(theta)])
    assert_close(carried[-1], expected, rtol=0.0, atol=1e-5)


def test_carrying_keeps_lengths_and_angles_for_a_batch():
    t = torch.linspace(0.0, 1.0, 17)[:, None]
    curves = Curve.through(
        torch.stack([torch.cat((0.5 + t, k * t**2 + 1.0), dim=-1) for k in (0.3, 1.0, 2.0)])
    )
    u, v = torch.randn(3, 2), torch.randn(3, 2)
    end = curves.points[:, -1]
    carried_u, carried_v = (parallel_transport(half_plane(), curves, w, steps=32)[:, -1] for w in (u, v))
    start = curves.points[:, 0]
    assert_close(
        inner(half_plane(), end, carried_u, carried_v), inner(half_plane(), start, u, v), rtol=1e-6, atol=1e-8
    )
    alone = parallel_transport(half_plane(), Curve.through(curves.points[1]), u[1], steps=32)[-1]
    assert_close(carried_u[1], alone, rtol=1e-12, atol=0.0)


def test_a_geodesic_carries_its_own_velocity():
    x, v = torch.tensor([1.2, 0.3]), torch.tensor([0.4, -0.7])
    shot = exponential_map(SPHERE, x, v, steps=32)
    carried = parallel_transport(SPHERE, Curve.through(shot.points), v, steps=32)
    assert_close(carried[-1], shot.velocity, rtol=0.0, atol=1e-6)


def test_what_does_not_fit_is_refused():
    flat = Euclidean(Chart("plane", 2))
    with pytest.raises(ShapeError, match="equal shapes"):
        exponential_map(flat, torch.zeros(2), torch.zeros(3, 2))
    with pytest.raises(SettingError, match="even number"):
        exponential_map(flat, torch.zeros(2), torch.ones(2), steps=5)
    with pytest.raises(SettingError, match="at most 16"):
        exponential_map(Euclidean(Chart("many", 20)), torch.zeros(20), torch.ones(20))
    with pytest.raises(SettingError, match="outside the domain"):
        log_map(half_plane(), torch.tensor([0.0, 1.0]), torch.tensor([0.0, -1.0]))
