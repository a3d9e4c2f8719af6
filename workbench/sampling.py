"""Samples of a model: Heun's method on the probability-flow ODE, from noise to data.

The ODE dy/dsigma = (y - D(y, sigma)) / sigma is integrated over the levels of Karras et al. (2022),

    sigma_i = (sigma_max^(1/rho) + i/(steps - 1) (sigma_min^(1/rho) - sigma_max^(1/rho)))^rho,
    sigma_steps = 0,

with a last Euler step to zero, where Heun's corrector does not exist.

References:
    Elucidating the design space of diffusion-based generative models (Karras, Aittala, Aila, Laine, 2022),
    algorithm 1 and equation 5, https://arxiv.org/abs/2206.00364
"""

import math
from itertools import pairwise
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from workbench.draws import draw_normal
from workbench.errors import SettingError
from workbench.integrators import Cancel, Progress
from workbench.models import Frame, ScoreModel, check_finite, noise
from workbench.types import Points


def karras_levels(
    steps: int, sigma_min: float, sigma_max: float, *, rho: float = 7.0, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Noise levels from sigma_max down to sigma_min, dense near the data, with a final zero.

    Args:
        steps: Number of levels above zero, at least two.
        sigma_min: Last level above zero, in the data's unit.
        sigma_max: First level.
        rho: How strongly they crowd towards the data; 1 for equal distances.
        dtype: Floating type.

    Returns:
        Levels, shape (steps + 1,).

    Raises:
        SettingError: For fewer than two steps, or levels that do not fall.
    """
    _check_whole("steps", steps, 2, "steps=18")
    if not 0 < sigma_min < sigma_max < math.inf:
        raise SettingError(
            f"levels from sigma {sigma_max:g} to {sigma_min:g}",
            "0 < sigma_min < sigma_max, both finite",
            "sigma_min=0.002, sigma_max=80.0 in units of the data's standard deviation",
        )
    ramp = torch.linspace(0, 1, steps, dtype=dtype)
    levels = (sigma_max ** (1 / rho) + ramp * (sigma_min ** (1 / rho) - sigma_max ** (1 / rho))) ** rho
    return torch.cat([levels, levels.new_zeros(1)])


def default_range(frame: Frame) -> tuple[float, float]:
    """The levels to sample between: the model's own, cut where a model of closed form knows no end.

    Args:
        frame: What the model declares.

    Returns:
        Smallest and largest level. A smallest level of zero gives way to 0.004 times `data_std`, and none is
        larger than 160 times `data_std`: the range of Karras et al. (2022) in the data's unit.
    """
    return frame.sigma_min or 0.004 * frame.data_std, min(frame.sigma_max, 160.0 * frame.data_std)


def _check_whole(name: str, value: Any, least: int, hint: str) -> None:
    """Refuse what is no whole number from `least` on."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise SettingError(f"{name}={value!r}", f"a whole number, at least {least}", hint)


@torch.no_grad()
def sample(
    model: ScoreModel,
    count: int,
    *,
    steps: int = 18,
    generator: torch.Generator,
    sigma_min: float | None = None,
    sigma_max: float | None = None,
    dtype: torch.dtype = torch.float32,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> Points:
    """Draw samples of a model.

    Args:
        model: The model, with its condition bound.
        count: Number of samples.
        steps: Noise levels above zero.
        generator: Source of the starting noise; the samples live on its device.
        sigma_min: Last level above zero; None for that of `default_range`.
        sigma_max: First level; None for that of `default_range`.
        dtype: Floating type of the samples.
        progress: Called after every level with the fraction done and a sentence.
        cancel: Asked before every level; then the denoised points of the level reached are returned.

    Returns:
        Points of shape (count, dim). Detached from any graph. Cost: 2 steps - 1 model calls a sample.

    Raises:
        SettingError: For a count below 0, no generator, fewer than two steps or levels that do not fall.
        ModelOutputError: If the model returns something not finite; says at which image and noise level.
            Looked at once, at the end, as long as nothing is wrong.

    References:
        Karras et al. 2022, algorithm 1.
    """
    _check_whole("count", count, 0, "count=16")
    if not isinstance(generator, torch.Generator):
        raise SettingError(
            f"generator={generator!r}", "a torch.Generator", "generator=torch.Generator().manual_seed(0)"
        )
    lowest, highest = default_range(model.frame)
    levels = karras_levels(
        steps, lowest if sigma_min is None else sigma_min, highest if sigma_max is None else sigma_max
    ).tolist()
    like = torch.empty(0, dtype=dtype, device=generator.device)
    y = levels[0] * draw_normal((count, model.frame.dim), like, generator)
    failed = torch.full((count,), -1, device=y.device)  # first level at which a sample was not finite
    for step, (now, then) in enumerate(pairwise(levels)):
        if cancel is not None and cancel.is_set():
            y = model.denoise(y, now)
            break
        slope = noise(model, y, now)
        ahead = y + (then - now) * slope
        if then > 0:
            slope = (slope + noise(model, ahead, then)) / 2
            ahead = y + (then - now) * slope
        y = ahead
        failed = torch.where((failed < 0) & ~torch.isfinite(y).all(-1), step, failed)
        if progress is not None:
            progress((step + 1) / steps, f"sampling: level {step + 1} of {steps}")
    if bool((failed >= 0).any()):
        first = int(failed[failed >= 0].min())
        wrong = torch.where((failed == first).unsqueeze(-1), torch.nan, torch.zeros_like(y))
        check_finite(wrong, model=str(model.frame), sigma=levels[first], what="sample")
    return y
