"""The evolution's own clock: which noise levels a string passes, and how much it relaxes at each."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from workbench.checks import check_number
from workbench.errors import SettingError
from workbench.flows import noise_range
from workbench.models import ScoreModel
from workbench.schedules import Schedule, sigma_of, time_of

Gamma = float | Callable[[float], float]

_FARTHEST = 1e3  # noise end of the evolution, in standard deviations of the data


@dataclass(frozen=True, slots=True)
class Clock:
    """The evolution's own time: a regular clock, run from noise to data, with the caller's clock for the
    effort."""

    schedule: Schedule
    stepped: Schedule
    times: Tensor  # (steps + 1,) readings of the regular clock, float64 on the host
    shares: tuple[float, ...]  # the caller's clock at the same moments, 0 at noise and 1 at data

    @classmethod
    def between(cls, schedule: Schedule, noisy: float, clean: float, steps: int) -> "Clock":
        """Readings from one noise level to another, evenly spaced on the regular clock."""
        if not math.isfinite(schedule.t_noise):
            raise SettingError(
                f"schedule {schedule.name!r} with an endless clock",
                "a clock of finite length",
                "LINEAR or OU",
            )
        stepped = schedule.regular or schedule
        levels = torch.tensor([noisy, clean], dtype=torch.float64)
        begin, finish = time_of(stepped, levels).tolist()
        times = torch.linspace(begin, finish, steps + 1, dtype=torch.float64)
        own = time_of(schedule, sigma_of(stepped, times))
        shares = (own - schedule.t_noise) / (schedule.t_data - schedule.t_noise)
        return cls(schedule, stepped, times, tuple(shares.tolist()))

    def levels(self, step: int) -> tuple[float, float]:
        """(a, s) at a reading."""
        a, s = self.stepped(self.times[step])
        return float(a), float(s)


def evolution_levels(model: ScoreModel, sigma: float | None) -> tuple[float, float]:
    """Noise levels at which an evolution starts and ends.

    Args:
        model: The model.
        sigma: Level of the ends asked for; None for the cleanest that the model offers.

    Returns:
        (noisy, clean) in the data's unit.

    Raises:
        SettingError: If sigma lies outside the model's range.
    """
    low, high = noise_range(model)
    noisy = min(high, _FARTHEST * model.frame.data_std)
    if sigma is not None and not low * (1 - 1e-9) <= sigma < noisy:
        raise SettingError(f"sigma={sigma}", f"a level from {low:g} to {noisy:g}", "sigma=None")
    return noisy, low if sigma is None else sigma


def efforts_of(clock: Clock, gamma: Gamma, window: tuple[float, float], quench: float) -> list[float]:
    """Relaxation effort of every outer step, 0 outside the window."""
    span = abs(clock.schedule.t_data - clock.schedule.t_noise)
    efforts = []
    for before, share in pairwise(clock.shares):
        if not window[0] <= share <= window[1] + 1e-9:
            efforts.append(0.0)
            continue
        strength = gamma(share) if callable(gamma) else gamma
        if callable(gamma):
            check_number(f"gamma({share:.4g})", strength, least=0.0, hint="a gamma that is finite everywhere")
        strength = float(strength)
        strength *= min(1.0, (1.0 - share) / (1.0 - quench)) if quench < 1.0 else 1.0
        efforts.append(strength**2 * abs(share - before) * span if strength < 1e100 else math.inf)
    return efforts
