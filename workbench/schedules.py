r"""Schedules: how much data and how much noise a state carries at a time.

Every noising used in the literature is :math:`x_t = a(t)\,x_0 + s(t)\,\varepsilon` with its own clock t.
A `Schedule` is that pair of functions with the interval of its clock. All of them are one family in the
variance-exploding frame :math:`y = x/a = x_0 + \sigma\varepsilon`, :math:`\sigma = s/a`; above the adapters
only :math:`\sigma` is spoken, and a schedule serves adapters and the grids of solvers.

The order of the interval says which way the clock runs: from `t_noise`, pure noise, to `t_data`, the data.

References:
    Karras, Aittala, Aila, Laine, "Elucidating the Design Space of Diffusion-Based Generative Models", 2022,
        table 1 and appendix C, https://arxiv.org/abs/2206.00364
    Albergo, Boffi, Vanden-Eijnden, "Stochastic Interpolants", 2023, section 2,
        https://arxiv.org/abs/2303.08797
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vjp

from workbench.errors import SettingError


@dataclass(frozen=True, slots=True)
class Schedule:
    """A noising x_t = a(t) x0 + s(t) eps.

    Attributes:
        name: Its name, as figures print it.
        levels: t -> (a, s), elementwise and differentiable by torch; t is a tensor.
        t_noise: Clock reading at the noise end.
        t_data: Clock reading at the data end.
        inverse: sigma -> t in closed form; None lets `time_of` bisect.
        regular: A schedule in whose clock the same flow has finite rates on a finite interval; solvers step
            there. None if the schedule's own clock is such.
    """

    name: str
    levels: Callable[[Tensor], tuple[Tensor, Tensor]]
    t_noise: float
    t_data: float
    inverse: Callable[[Tensor], Tensor] | None = None
    regular: "Schedule | None" = None

    def __call__(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Data and noise coefficient (a, s) at clock times t, each of t's shape."""
        return self.levels(t)


def rates(schedule: Schedule, t: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Coefficients and their time derivatives.

    Args:
        schedule: The noising.
        t: Clock times, any shape.

    Returns:
        (a, s, da/dt, ds/dt), each of t's shape. Differentiable. No model calls.
    """
    # Reverse mode: its state belongs to the thread. One pull each: zero times an infinite rate would be nan.
    a, pull_a = vjp(lambda t: schedule.levels(t)[0], t)[:2]
    s, pull_s = vjp(lambda t: schedule.levels(t)[1], t)[:2]
    return a, s, pull_a(torch.ones_like(a))[0].to(t.dtype), pull_s(torch.ones_like(s))[0].to(t.dtype)


def sigma_of(schedule: Schedule, t: Tensor) -> Tensor:
    """Noise level sigma = s/a in the data's unit at clock times t; infinite where a = 0."""
    a, s = schedule(t)
    return s / a


def time_of(schedule: Schedule, sigma: Tensor) -> Tensor:
    """Clock time at which the schedule has noise level sigma.

    Args:
        schedule: The noising; sigma must be monotone along its clock.
        sigma: Noise levels, any shape, in the data's unit.

    Returns:
        Times of sigma's shape, inside the clock's interval; levels beyond its ends give the ends.
        Without a closed form, bisection (not differentiable then), in double precision where the device has
        it: schedules that reach s through 1 - a^2 lose their small levels in single.
    """
    if schedule.inverse is not None:
        low, high = sorted((schedule.t_noise, schedule.t_data))
        return schedule.inverse(sigma).clamp(low, high)
    fine = sigma if sigma.device.type == "mps" else sigma.double()
    noisy, clean = torch.full_like(fine, schedule.t_noise), torch.full_like(fine, schedule.t_data)
    for _ in range(80):
        middle = 0.5 * (noisy + clean)
        a, s = schedule(middle)
        above = s > fine * a
        noisy, clean = torch.where(above, middle, noisy), torch.where(above, clean, middle)
    return (0.5 * (noisy + clean)).to(sigma)


def _linear_betas(t: Tensor) -> tuple[Tensor, Tensor]:
    exponent = -0.25 * t**2 * 19.9 - 0.05 * t
    return torch.exp(exponent), torch.sqrt(-torch.expm1(2.0 * exponent))


def _cosine(t: Tensor) -> tuple[Tensor, Tensor]:
    return torch.cos(0.5 * math.pi * t), torch.sin(0.5 * math.pi * t)


def _cosine_time(sigma: Tensor) -> Tensor:
    return torch.atan(sigma) * (2.0 / math.pi)


def _vp_linear_time(sigma: Tensor) -> Tensor:
    log_term = torch.log1p(sigma**2)
    return 2.0 * log_term / (0.1 + torch.sqrt(0.01 + 4.0 * 9.95 * log_term))


LINEAR = Schedule("linear", lambda t: (t, 1.0 - t), 0.0, 1.0, lambda sigma: 1.0 / (1.0 + sigma))
"""a = t, s = 1 - t: flow matching with noise at t = 0."""

TRIGONOMETRIC = Schedule(
    "trigonometric",
    lambda t: (torch.sin(0.5 * math.pi * t), torch.cos(0.5 * math.pi * t)),
    0.0,
    1.0,
    lambda sigma: 1.0 - _cosine_time(sigma),
)
"""a = sin(pi t/2), s = cos(pi t/2): variance preserving, constant speed on the circle."""

OU = Schedule(
    "ou",
    lambda t: (t, torch.sqrt(1.0 - t**2)),
    0.0,
    1.0,
    lambda sigma: torch.rsqrt(1.0 + sigma**2),
    TRIGONOMETRIC,
)
"""a = t, s = sqrt(1 - t^2): the Ornstein-Uhlenbeck process in its own clock; ds/dt is infinite at t = 1."""

RECTIFIED = Schedule("rectified", lambda t: (1.0 - t, t), 1.0, 0.0, lambda sigma: sigma / (1.0 + sigma))
"""a = 1 - t, s = t: rectified flow with data at t = 0."""

VP_COSINE = Schedule("vp_cosine", _cosine, 1.0, 0.0, _cosine_time)
"""a = cos(pi t/2), s = sin(pi t/2), data at t = 0."""

VP_LINEAR = Schedule("vp_linear", _linear_betas, 1.0, 0.0, _vp_linear_time, VP_COSINE)
"""The VP-SDE with beta from 0.1 to 20 on t in [0, 1], data at t = 0, where ds/dt is infinite."""

VE = Schedule("ve", lambda t: (torch.ones_like(t), t), math.inf, 0.0, lambda sigma: sigma, TRIGONOMETRIC)
"""a = 1, s = sigma: the clock is the noise level itself (VE and EDM)."""

SCHEDULES = (LINEAR, TRIGONOMETRIC, OU, RECTIFIED, VP_LINEAR, VP_COSINE, VE)


def schedule_of(name: str) -> Schedule:
    """The shipped schedule of that name.

    Args:
        name: One of the names in `SCHEDULES`.

    Returns:
        The schedule.

    Raises:
        SettingError: If no shipped schedule has that name.
    """
    for schedule in SCHEDULES:
        if schedule.name == name:
            return schedule
    known = ", ".join(schedule.name for schedule in SCHEDULES)
    raise SettingError(f"schedule {name!r}", f"one of {known}", "a Schedule(...) of your own")
