"""Curves: orders of splines, refusal past their ends, frequencies of linear dynamics, conditional shifts."""

import math
import sys
from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import conda as oracle
from workbench.conda.context import make_context
from workbench.conda.trajectories import (
    conditional_mean,
    fit_dynamics,
    fit_spline,
    period_of,
    shift_points,
)
from workbench.errors import MissingExtra, SettingError, ShapeError


def _circle(count: int, *, closed: bool) -> tuple[torch.Tensor, torch.Tensor]:
    turn = 2 * math.pi
    t = torch.arange(count) * turn / count if closed else torch.linspace(0, turn, count)
    return t, torch.stack([t.cos(), t.sin()], dim=1)


def _spline_error(count: int, degree: int, closed: bool) -> float:
    t, points = _circle(count, closed=closed)
    curve = fit_spline(t, points, degree=degree, period=2 * math.pi if closed else None)
    fine = torch.linspace(0, 2 * math.pi, 5001)
    return float((curve(fine) - torch.stack([fine.cos(), fine.sin()], dim=1)).norm(dim=1).max())


@pytest.mark.parametrize(
    ("degree", "closed", "known"),
    [
        (1, True, (1.9e-2, 4.8e-3, 1.2e-3, 3.0e-4)),
        (3, True, (6.3e-5, 3.9e-6, 2.4e-7, 1.5e-8)),
    ],
)
def test_splines_of_a_circle_have_their_order(degree, closed, known):
    errors = [_spline_error(count, degree, closed) for count in (16, 32, 64, 128)]
    assert_close(torch.tensor(errors), torch.tensor(known), rtol=0.05, atol=0)


def test_an_open_cubic_is_of_fourth_order_and_worse_than_a_closed_one():
    errors = [_spline_error(count, 3, False) for count in (17, 33, 65)]
    slopes = [math.log2(a / b) for a, b in pairwise(errors)]
    assert min(slopes) > 3.5
    assert errors[0] > 5 * _spline_error(16, 3, True)


def test_a_spline_goes_through_its_points_at_their_times_in_any_order():
    times, points = torch.tensor([3.0, 0.0, 1.5, 7.0]), torch.randn(4, 20)
    curve = fit_spline(times, points)
    assert_close(curve(times), points)


@pytest.mark.parametrize("at", [-0.01, 1.01])
def test_a_spline_is_never_extrapolated(at):
    curve = fit_spline(torch.linspace(0, 1, 5), torch.randn(5, 2))
    with pytest.raises(SettingError, match="a spline says nothing past its ends") as caught:
        curve(torch.tensor([0.5, at]))
    assert "forecast" in str(caught.value)


def test_a_closed_spline_takes_any_time():
    t, points = _circle(32, closed=True)
    curve = fit_spline(t, points, period=2 * math.pi)
    assert_close(curve(t + 20 * math.pi), points)


@pytest.mark.parametrize("period", [None, 8.0])
def test_even_times_make_even_steps(period):
    points = torch.tensor([[0.0, 0.0], [1.0, 0.2], [4.0, 0.0], [4.5, 3.0], [1.0, 4.0]])
    curve = fit_spline(torch.tensor([0.0, 1.0, 2.0, 5.0, 6.0]), points, period=period)
    at = curve.even_times(400)
    steps = curve(at).diff(dim=0).norm(dim=1)
    assert float(steps.max() / steps.min()) < 1.05
    assert at[0] == 0
    assert (at[-1] == 6) == (period is None)


@pytest.mark.parametrize(("method", "delays"), [("ar", 2), ("dmd", 1), ("optimised", 1)])
def test_two_oscillations_are_found_exactly(method, delays):
    series = oracle.two_oscillations()
    scores = series @ torch.linalg.svd(series, full_matrices=False).Vh[:4].T
    found = fit_dynamics(
        scores, make_context(120, times=torch.arange(120) * 0.1), method=method, delays=delays
    )
    assert_close(found.dt, 0.1)
    moving = found.eigenvalues[(found.raw.abs() > 0.9) & (found.raw.imag.abs() > 0.01)]
    omega = sorted({round(abs(value), 3) for value in (moving.angle() / found.dt).tolist()})
    assert_close(torch.tensor(omega), torch.tensor([1.3, 2.9]), rtol=0, atol=2e-3)
    assert_close(moving.abs(), torch.ones(len(moving)), rtol=0, atol=1e-3)
    periods = torch.tensor(sorted(period_of(v, found.dt) for v in moving.tolist()))
    known = 2 * math.pi / torch.tensor([2.9, 2.9, 1.3, 1.3])
    assert_close(periods, known, rtol=2e-3, atol=0)


@pytest.mark.parametrize("method", ["ar", "dmd"])
def test_a_forecast_continues_the_oscillation(method):
    t = torch.arange(200) * 0.1
    points = torch.stack([(1.3 * t).cos(), (1.3 * t).sin(), (2.9 * t).cos()], dim=1) + 5.0
    dynamics = fit_dynamics(points[:100], method=method, delays=2)
    assert_close(dynamics.forecast(points[:100], 100), points[100:], rtol=0, atol=1e-3)


def test_unstable_dynamics_are_moved_onto_the_unit_circle():
    points = (1.05 ** torch.arange(60.0))[:, None] * torch.tensor([[1.0, 2.0]])
    stable = fit_dynamics(points, delays=1)
    assert float(stable.raw.abs().max()) > 1.01
    assert float(stable.eigenvalues.abs().max()) <= 1 + 1e-12
    assert torch.isfinite(stable.forecast(points, 10_000)).all()
    grown = fit_dynamics(points, delays=1, stable=False).forecast(points, 200)
    assert grown.abs().max() > 1e3 * points.abs().max()


def test_dynamics_do_not_cross_the_edge_of_a_run():
    t = torch.arange(50) * 0.3
    wave = torch.stack([t.cos(), t.sin()], dim=1)
    groups = torch.arange(100) // 50
    joined = fit_dynamics(torch.cat([wave, wave.flip(1)]), make_context(100, groups=groups), delays=2)
    assert_close(joined.forecast(wave[:40], 10), wave[40:], rtol=0, atol=1e-6)


def test_pydmd_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydmd", None)
    with pytest.raises(MissingExtra, match=r"\[conda\]"):
        fit_dynamics(torch.randn(20, 2), method="dmd")


def test_a_shift_moves_by_the_difference_of_conditional_means():
    labels = torch.arange(90) % 3
    points = torch.randn(90, 2) * 0.1 + torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])[labels]
    context = make_context(90, labels)
    means = [points[labels == c].mean(dim=0) for c in range(3)]
    moved = shift_points(points, points[:4], context, 0, 2)
    assert_close(moved, points[:4] + means[2] - means[0])
    y = torch.linspace(0, 1, 90)
    assert_close(
        conditional_mean(y[:, None] * 3, make_context(90, y), 0.5, k=10),
        torch.tensor([1.5]),
        rtol=0,
        atol=0.02,
    )


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: fit_spline(torch.zeros(3), torch.randn(3, 2)), SettingError, "two points at one time"),
        (lambda: fit_spline(torch.arange(3.0), torch.randn(4, 2)), ShapeError, "one time a point"),
        (lambda: fit_spline(torch.arange(3.0), torch.randn(3, 2), period=2.0), SettingError, "period=2.0"),
        (lambda: fit_spline(torch.arange(3.0), torch.randn(3, 2), degree=2), SettingError, "degree=2"),
        (lambda: fit_dynamics(torch.randn(3, 2), delays=3), SettingError, "delays=3"),
        (
            lambda: fit_dynamics(torch.randn(9, 2)).forecast(torch.randn(1, 2), 3),
            ShapeError,
            "at least 2 points",
        ),
        (
            lambda: conditional_mean(torch.randn(9, 2), make_context(9, torch.arange(9.0)), 20.0),
            SettingError,
            "where frames are",
        ),
        (
            lambda: conditional_mean(torch.randn(9, 2), make_context(9, torch.arange(9) % 2), 7),
            SettingError,
            "label 7",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(call, error, says):
    with pytest.raises(error, match=says):
        call()
