"""Schedules: coefficients, rates against difference quotients, clocks that find their noise level again."""

import math

import pytest
import torch
from torch.testing import assert_close

from workbench.errors import SettingError
from workbench.schedules import (
    LINEAR,
    OU,
    SCHEDULES,
    VE,
    VP_LINEAR,
    Schedule,
    rates,
    schedule_of,
    sigma_of,
    time_of,
)

NAMES = [schedule.name for schedule in SCHEDULES]
VARIANCE_PRESERVING = ["trigonometric", "ou", "vp_linear", "vp_cosine"]
BY_HAND = {  # (a, s) at t = 0.3
    "linear": (0.3, 0.7),
    "trigonometric": (math.sin(0.15 * math.pi), math.cos(0.15 * math.pi)),
    "ou": (0.3, math.sqrt(0.91)),
    "rectified": (0.7, 0.3),
    "vp_linear": (math.exp(-0.09 * 19.9 / 4 - 0.015), math.sqrt(1 - math.exp(-0.09 * 19.9 / 2 - 0.03))),
    "vp_cosine": (math.cos(0.15 * math.pi), math.sin(0.15 * math.pi)),
    "ve": (1.0, 0.3),
}


def _inside(schedule):
    return torch.linspace(0.05, 0.95, 19)


@pytest.mark.parametrize("name", NAMES)
def test_coefficients_by_hand(name):
    a, s = schedule_of(name)(torch.tensor(0.3))
    assert (float(a), float(s)) == pytest.approx(BY_HAND[name], rel=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_rates_are_the_slopes_of_the_coefficients(name):
    schedule, t, step = schedule_of(name), _inside(name), 1e-6
    _, _, a_rate, s_rate = rates(schedule, t)
    above, below = schedule(t + step), schedule(t - step)
    assert_close(a_rate, (above[0] - below[0]) / (2 * step), rtol=1e-7, atol=1e-7)
    assert_close(s_rate, (above[1] - below[1]) / (2 * step), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_times_give_single_precision_rates(name):
    assert {value.dtype for value in rates(schedule_of(name), torch.tensor(0.3).float())} == {torch.float32}


@pytest.mark.parametrize("name", NAMES)
def test_clock_and_noise_level_are_inverse(name):
    schedule, t = schedule_of(name), _inside(name)
    assert_close(time_of(schedule, sigma_of(schedule, t)), t, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "ve"])
def test_bisection_finds_what_the_closed_form_says(name):
    known = schedule_of(name)
    unknown = Schedule("bare", known.levels, known.t_noise, known.t_data)
    sigma = torch.logspace(-2, 2, 30)
    assert_close(time_of(unknown, sigma), time_of(known, sigma), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", VARIANCE_PRESERVING)
def test_variance_is_preserved(name):
    a, s = schedule_of(name)(_inside(name))
    assert_close(a**2 + s**2, torch.ones(19), rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_noise_falls_from_the_noise_end_to_the_data_end(name):
    schedule = schedule_of(name)
    low, high = sorted((schedule.t_noise, min(schedule.t_data, 1e9)))
    t = torch.linspace(low + 1e-6, min(high, 10.0) - 1e-6, 50)
    falling = t if schedule.t_noise < schedule.t_data else t.flip(0)
    assert (sigma_of(schedule, falling).diff() < 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_levels_beyond_the_clock_give_its_ends(name):
    schedule = schedule_of(name)
    assert float(time_of(schedule, torch.tensor(0.0))) == pytest.approx(schedule.t_data, abs=1e-12)
    if math.isfinite(schedule.t_noise):
        assert float(time_of(schedule, torch.tensor(1e30))) == pytest.approx(schedule.t_noise, abs=1e-7)


@pytest.mark.parametrize("schedule", [OU, VP_LINEAR, VE], ids=lambda schedule: schedule.name)
def test_singular_clocks_name_a_regular_one(schedule):
    assert not math.isfinite(float(rates(schedule, torch.tensor(schedule.t_data))[3])) or schedule is VE
    assert math.isfinite(float(rates(schedule.regular, torch.tensor(schedule.regular.t_data))[3]))
    assert math.isfinite(schedule.regular.t_noise)


def test_unknown_schedules_are_named():
    with pytest.raises(SettingError, match="got schedule 'cosines'; expected one of linear"):
        schedule_of("cosines")
    assert schedule_of("linear") is LINEAR
