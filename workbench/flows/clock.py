"""Where a flow steps: a schedule's clock, its regular substitute, and the noise that a model declares."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.integrators import Solution
from workbench.models import ExactScore, ScoreModel
from workbench.report import Status
from workbench.schedules import Schedule, sigma_of, time_of


def noise_range(model: ScoreModel) -> tuple[float, float]:
    """Noise levels between which a flow may ask a model.

    Args:
        model: The model.

    Returns:
        What its frame declares; a model without an exact score is not asked below 1e-4 of its data's
        deviation.
    """
    frame = model.frame
    low = frame.sigma_min if isinstance(model, ExactScore) else max(frame.sigma_min, 1e-4 * frame.data_std)
    return low, frame.sigma_max


def clock_ends(model: ScoreModel, schedule: Schedule) -> tuple[float, float]:
    """Clock readings of a schedule at noise and at data.

    Args:
        model: The model; its largest noise level ends a clock that would run to infinity.
        schedule: The noising.

    Returns:
        (t_noise, t_data).
    """
    if math.isfinite(schedule.t_noise):
        return schedule.t_noise, schedule.t_data
    far = torch.tensor(noise_range(model)[1], dtype=torch.float64)
    return float(time_of(schedule, far)), schedule.t_data


@dataclass(frozen=True, slots=True)
class Reading:
    """A clock reading as the solver sees it: where it steps, and the factor of its points."""

    t: float
    factor: float


def enter(model: ScoreModel, schedule: Schedule, t: float) -> Reading:
    """Into the regular clock and the model's range of noise."""
    time = torch.tensor(t, dtype=torch.float64)
    stepped = schedule.regular or schedule
    a, s = schedule(time)
    sigma = torch.where(a > 0, s / a, math.inf)
    low, high = noise_range(model)
    inner = time_of(stepped, sigma.clamp(low, high))
    inner_a, inner_s = stepped(inner)
    if float(sigma) > high:  # the noise in the point is kept
        factor = inner_s / s
    elif float(sigma) < low:  # its clean part is kept
        factor = inner_a / a
    else:
        factor = torch.hypot(inner_a, inner_s) / torch.hypot(a, s)
    return Reading(float(inner), float(factor))


def clock_grid(start: float, end: float, steps: int, like: Tensor) -> Tensor:
    return torch.linspace(start, end, steps + 1, dtype=like.dtype, device=like.device)


def failure_sentences(
    solution: Solution, times: Tensor, schedule: Schedule, model: ScoreModel
) -> tuple[str, ...]:
    """Which point stopped being finite, and at which noise level."""
    if solution.status is not Status.DIVERGED:
        return ()
    image = int((solution.failed_at.reshape(-1) >= 0).nonzero()[0])
    step = int(solution.failed_at.reshape(-1)[image])
    level = float(sigma_of(schedule, times[step].double()))
    return (
        f"got a non-finite field from {model.frame} at image {image}, near sigma {level:.4g}; "
        "expected finite values; try float64, more steps or a larger smallest noise level",
    )
