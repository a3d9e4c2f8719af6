r"""Denoisers of the azula library: their convention is the one here up to names.

A denoiser maps (x_t, t) with :math:`x_t = \alpha_t x + \sigma_t z` to a posterior whose mean is E[x | x_t];
its schedule is a function t -> (alpha, sigma) with the noise at t = 1.

References:
    Rozet, "azula", 2024, https://github.com/probabilists/azula
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workbench.adapters.settings import Settings, class_index, import_extra, said
from workbench.adapters.wrap import WrappedModel, wrap
from workbench.errors import SettingError
from workbench.schedules import Schedule


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a denoiser's posterior as a callable (x, t, condition).

    Attributes:
        network: The denoiser.
    """

    network: Any

    def __call__(self, x: Tensor, t: Tensor, condition: Any) -> Tensor:
        if isinstance(condition, Mapping):
            return self.network(x, t, **condition).mean
        return self.network(x, t, **({} if condition is None else {"label": condition})).mean


def open_azula(source: Any, settings: Settings) -> WrappedModel:
    """Open a denoiser of azula.

    Args:
        source: An `azula.denoise.Denoiser` in memory.
        settings: What was asked for; the shape has no default, the schedule is the denoiser's own.

    Returns:
        The model.

    Raises:
        MissingExtra: If azula is not installed.
        SettingError: If the source is no denoiser, or the shape is missing.
    """
    denoise = import_extra(
        "azula.denoise",
        bring="pip install azula; beside a torch for the CPU with --no-deps, and einops, because its "
        "torchvision must match the build of torch",
    )
    if not isinstance(source, denoise.Denoiser):
        raise SettingError(
            f"a {type(source).__name__} as a denoiser of azula",
            "an azula.denoise.Denoiser in memory",
            "building it with your code and open_model(denoiser, shape=...)",
        )
    if settings.shape is None:
        raise SettingError("an azula denoiser without shape", "the shape of one sample", "shape=(3, 64, 64)")
    network = settings.ready(source, own=False)
    condition = class_index(settings.condition, settings.classes)

    return wrap(
        Mean(network),
        prediction="x0",
        schedule=azula_schedule(source.schedule),
        shape=settings.shape,
        sigma_range=settings.sigma_range,
        name=settings.name or type(source).__name__,
        data_std=settings.data_std or 1.0,
        value_range=settings.value_range,
        classes=settings.classes,
        dtype=settings.dtype,
        null=settings.null,
        batch=settings.batch,
    ).given(condition, said(condition, settings.classes), guidance=settings.guidance)


def azula_schedule(schedule: Any) -> Schedule:
    """A schedule of azula as one of the workbench; the noise is at t = 1.

    Args:
        schedule: A callable t -> (alpha, sigma).

    Returns:
        The schedule, on the clock from 1 (noise) to 0 (data).
    """

    def levels(t: Tensor) -> tuple[Tensor, Tensor]:
        a, s = schedule(t)
        return torch.as_tensor(a).to(t), torch.as_tensor(s).to(t)

    return Schedule(f"azula {type(schedule).__name__}", levels, 1.0, 0.0)
