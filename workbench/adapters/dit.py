r"""State dicts of DiT and SiT: the shape of the network is read off the weights, nothing is unpickled.

DiT predicts noise (and a variance, left out) on the linear table of 1,000 steps. SiT predicts the velocity of
an interpolant with the noise at t = 0 and the data at t = 1: linear by default, `TRIGONOMETRIC` for its GVP
models, by `schedule`; its score and noise variants by `prediction`. Both run on latents of a separate
autoencoder, given as `decoder`. No real checkpoint of either was at hand: the network is held against another
implementation of the same architecture, and the conversion against an exact mixture.

References:
    Peebles, Xie, "Scalable Diffusion Models with Transformers", 2023, https://arxiv.org/abs/2212.09748
    Ma et al., "SiT: Exploring Flow and Diffusion-based Generative Models with Scalable Interpolant
        Transformers", 2024, https://arxiv.org/abs/2401.08740
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from workbench.adapters.dit_nets import Classed, Transformer, sizes_of
from workbench.adapters.files import read_tensors
from workbench.adapters.settings import Settings, class_index, named_after, said
from workbench.adapters.tables import table_schedule
from workbench.adapters.wrap import WrappedModel, wrap
from workbench.errors import DataError, SettingError
from workbench.schedules import LINEAR, Schedule

STEPS = 1000
"""Steps of DiT's noise table."""


def dit_schedule() -> Schedule:
    """The linear table of 1,000 steps from 0.0001 to 0.02."""
    betas = torch.linspace(1e-4, 0.02, STEPS, dtype=torch.float64)
    return table_schedule((1 - betas).cumprod(0), name="linear table")


def open_dit(source: Any, settings: Settings) -> WrappedModel:
    """Open a state dict of DiT: noise on a table of steps."""
    return _opened(source, settings, "eps", settings.schedule or dit_schedule())


def open_sit(source: Any, settings: Settings) -> WrappedModel:
    """Open a state dict of SiT: the velocity of an interpolant with the data at t = 1."""
    return _opened(source, settings, "velocity", settings.schedule or LINEAR)


def _opened(source: Any, settings: Settings, prediction: str, schedule: Schedule) -> WrappedModel:
    """A transformer as a score model on latents.

    Args:
        source: A weights file, a state dict, or the network itself.
        settings: What was asked for; ``arguments`` may hold num_heads.
        prediction: What it predicts by default.
        schedule: The noising.

    Returns:
        The model.

    Raises:
        SettingError: For an unknown argument or class.
        DataError: If the weights are none of this architecture.
    """
    own = not isinstance(source, Transformer)
    arguments = dict(settings.arguments or {})
    heads = arguments.pop("num_heads", None)
    if arguments:
        raise SettingError(f"arguments {', '.join(arguments)}", "num_heads only: the weights say the rest")
    network = settings.ready(build(source, heads) if own else source, own=own)
    sizes = network.sizes
    null = sizes.classes - 1 if settings.null is None else settings.null
    condition = class_index(settings.condition, settings.classes)
    if isinstance(condition, int) and not 0 <= condition < sizes.classes:
        raise SettingError(f"condition {condition}", f"a class number below {sizes.classes}", "condition=0")
    learned = ("the learned variance, the second half of the output's channels, is left out",)
    table = schedule.name.endswith("table")
    model = wrap(
        Classed(network),
        prediction=settings.prediction or prediction,
        schedule=schedule,
        shape=(sizes.channels, sizes.side, sizes.side),
        sigma_range=settings.sigma_range or (_ends(schedule) if table else None),
        name=settings.name or (named_after(source) if isinstance(source, Path) else type(network).__name__),
        data_std=settings.data_std or 1.0,
        value_range=settings.value_range,
        classes=settings.classes,
        dtype=settings.dtype,
        null=null,
        batch=settings.batch,
        notes=learned if sizes.channels_out == 2 * sizes.channels else (),
    )
    return model.given(condition, said(condition, settings.classes), guidance=settings.guidance)


def build(source: Path | dict[str, Tensor], heads: int | None = None) -> Transformer:
    """The transformer of a weights file or a state dict.

    Raises:
        DataError: If the weights are none of this architecture.
    """
    tensors = read_tensors(source) if isinstance(source, Path) else source
    tensors = {name.removeprefix("module."): one for name, one in tensors.items()}
    network = Transformer(sizes_of(tensors, heads))
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        first = " ".join(str(error).split())[:200]
        raise DataError(f"weights of another architecture ({first})", "a state dict of DiT or SiT") from error
    return network


def _ends(schedule: Schedule) -> tuple[float, float]:
    """Noise levels at the ends of a table."""
    a, s = schedule(torch.tensor([schedule.t_data, schedule.t_noise], dtype=torch.float64))
    clean, noisy = (s / a).tolist()
    return clean, noisy
