r"""A pipeline of the diffusers library, from a local folder or already in memory, as a score model.

Only the network, the scheduler's table and the autoencoder are taken; nothing of the scheduler's own step is.
So `clip_sample`, thresholding and guidance, which make a field that is no score, never touch it: what was
switched off stands in the frame's notes. The network is told the step index i (or 1000 t, ln(sigma)/4, sigma,
as its scheduler does), and its output becomes the posterior mean by

==================  ==============================================  ==================================
scheduler           noising                                         prediction
==================  ==============================================  ==================================
any with a table    sqrt(abar_i), sqrt(1 - abar_i)                  epsilon, v_prediction, sample
FlowMatch...        1 - t, t                                        velocity "noise minus data"
EDM...              1, sigma                                        the inner network, either sign
ScoreSdeVe          1, sigma                                        the score
==================  ==============================================  ==================================

Folders come in the pipeline layout (``model_index.json`` with ``unet/``, ``scheduler/``, ``vae/``) or flat
(``config.json`` and weights in the root); early revisions have other keys, and a missing prediction type
means epsilon. The library's guidance scale is 1 + the weight here.

References:
    von Platen et al., "Diffusers", 2022, https://github.com/huggingface/diffusers
    Karras, Aittala, Aila, Laine, "Elucidating the Design Space of Diffusion-Based Generative Models", 2022,
        table 1, https://arxiv.org/abs/2206.00364
    Esser et al., "Scaling Rectified Flow Transformers for High-Resolution Image Synthesis", 2024,
        https://arxiv.org/abs/2403.03206
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workbench.adapters.diffusers_parts import Parts, parts_of, read_parts
from workbench.adapters.latents import Coder, Generator, generator_of
from workbench.adapters.settings import Settings, class_index, named_after, said
from workbench.adapters.tables import dropped_steps, table_schedule
from workbench.adapters.wrap import WrappedModel, wrap
from workbench.decoders import LatentModel
from workbench.errors import SettingError
from workbench.schedules import RECTIFIED, VE, Schedule

_PREDICTIONS = {
    "epsilon": "eps",
    "v_prediction": "v",
    "sample": "x0",
    "flow_prediction": "velocity",
    "eps": "eps",
    "v": "v",
    "x0": "x0",
    "velocity": "velocity",
}
_DISTILLED = (
    "CMStochasticIterativeScheduler",
    "LCMScheduler",
    "TCDScheduler",
    "SCMScheduler",
    "FlowMatchLCMScheduler",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A diffusers network as a callable (x, t, condition) -> output without a learned variance.

    Attributes:
        network: The network.
        channels: Channels of a sample; what follows them in the output is a variance.
        time: Name of its time argument.
        label: Name of the argument for a class index; None if it has none.
        text: Name of the argument for an embedding; None if it has none.
        whole: Whether it is told whole steps only.
    """

    network: Any
    channels: int
    time: str
    label: str | None
    text: str | None
    whole: bool = False

    def __call__(self, x: Tensor, t: Tensor, condition: Any) -> Tensor:
        told = t.round().long() if self.whole else t
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # has every derivative
            made = self.network(x, **{self.time: told}, **self._keywords(condition, x), return_dict=False)
        return made[0][:, : self.channels]

    def _keywords(self, condition: Any, x: Tensor) -> dict[str, Any]:
        """The network's own arguments for a condition."""
        if condition is None:
            return {}
        if isinstance(condition, Mapping):
            return {str(key): _spread(value, x) for key, value in condition.items()}
        if isinstance(condition, int) and self.label is not None:
            return {self.label: torch.full((len(x),), condition, device=x.device)}
        if isinstance(condition, Tensor) and self.text is not None and condition.is_floating_point():
            return {self.text: _spread(condition, x)}
        if isinstance(condition, Tensor) and self.label is not None:
            return {self.label: _spread(condition, x)}
        names = [name for name in (self.label, self.text) if name]
        raise SettingError(
            f"condition {said(condition, ())!r} for {type(self.network).__name__}",
            f"what it takes as {' or '.join(names)}" if names else "None: it takes no condition",
            "a class number, a tensor of embeddings, or a mapping of the network's own arguments",
        )


def _spread(value: Any, x: Tensor) -> Any:
    """A condition's tensor for every point of the batch, on its device and in its type."""
    if isinstance(value, Mapping):
        return {str(key): _spread(inner, x) for key, inner in value.items()}
    if not isinstance(value, Tensor):
        return value
    moved = value.to(device=x.device, dtype=x.dtype if value.is_floating_point() else value.dtype)
    one = moved if moved.ndim and moved.shape[0] == 1 else moved.unsqueeze(0)
    return one.expand(len(x), *one.shape[1:])


def open_diffusers(source: Path | Any, settings: Settings) -> WrappedModel | LatentModel | Generator | Coder:
    """Open a pipeline of diffusers.

    Args:
        source: A folder, a pipeline object, or `Parts`.
        settings: What was asked for.

    Returns:
        A score model on pixels, one on latents with its autoencoder, or the autoencoder alone where a folder
        holds nothing else.

    Raises:
        MissingExtra: If diffusers is not installed.
        DataError: If the folder's files cannot be read.
        SettingError: If it holds a model that is no score model, or needs a setting that was not given.
    """
    parts = source if isinstance(source, Parts) else None
    own = isinstance(source, Path)
    if isinstance(source, Path):
        found = read_parts(source, settings)
        if isinstance(found, nn.Module):  # an autoencoder alone
            return _autoencoder(settings.ready(found), settings, settings.name or named_after(source))
        parts = found
    elif parts is None:
        parts = parts_of(source)
    name = settings.name or parts.name
    network, config = settings.ready(parts.network, own=own), dict(parts.network.config)
    schedule, prediction, told, scaling, std, notes = _noising(parts.scheduler, config, settings)
    latent = parts.autoencoder is not None
    channels = int(config["in_channels"])
    shape = settings.shape or _shape(config, channels)
    classes = settings.classes or parts.classes
    label, text, null = _conditions(network, config)
    model = wrap(
        Asked(
            network,
            channels,
            _time_name(network),
            label,
            text,
            whole=config.get("time_embedding_type") == "learned",
        ),
        prediction=prediction,
        schedule=schedule,
        shape=shape,
        sigma_range=settings.sigma_range or _range(schedule),
        name=name,
        data_std=settings.data_std or std or (1.0 if latent else 0.5),
        value_range=settings.value_range or (None if latent else (-1.0, 1.0)),
        classes=classes,
        told=told,
        scaling=scaling,
        dtype=settings.dtype,
        null=null if settings.null is None else settings.null,
        batch=settings.batch,
        notes=notes + _variance(config, channels),
    )
    condition = class_index(settings.condition, classes)
    _check_condition(model, condition, label, text, config)
    model = model.given(condition, said(condition, classes), guidance=settings.guidance)
    if parts.autoencoder is None:
        return model
    coder = _autoencoder(settings.ready(parts.autoencoder, own=own), settings, name, shape)
    frame = replace(model.frame, space="latent", notes=model.frame.notes + coder.frame.notes)
    return LatentModel(replace(model, frame=frame), coder)


Told = Callable[[Tensor], Tensor] | None


def _noising(
    scheduler: Any, config: Mapping[str, Any], settings: Settings
) -> tuple[Schedule, str, Told, Told, float | None, tuple[str, ...]]:
    """Schedule, prediction, what the network is told, further input factor, data_std and notes."""
    if scheduler is None:
        assert settings.schedule is not None  # the reader saw to it
        return settings.schedule, _prediction(settings.prediction), None, None, None, ()
    name, facts = type(scheduler).__name__, dict(scheduler.config)
    if name in _DISTILLED:
        raise SettingError(
            f"a distilled model ({name}), whose output is the end of the flow and not the posterior mean",
            "a model that was trained to denoise",
            "its teacher, or generator_of(...) to look at it as a map from noise to samples",
        )
    notes = _notes(facts)
    asked = settings.prediction or facts.get("prediction_type")
    if name.startswith("ScoreSdeVe"):
        low, high = float(facts["sigma_min"]), float(facts["sigma_max"])
        schedule = Schedule("ve", VE.levels, high, low, VE.inverse, VE.regular)
        return schedule, settings.prediction or "score", None, None, None, notes
    if name.startswith("EDM"):
        std = float(facts["sigma_data"])
        low, high = float(facts["sigma_min"]), float(facts["sigma_max"])
        schedule = Schedule("ve", VE.levels, high, low, VE.inverse, VE.regular)
        if facts.get("prediction_type") == "v_prediction":
            raise SettingError(
                "an EDM scheduler with v_prediction", "epsilon, the inner network itself", "wrap(...) with -F"
            )
        return schedule, settings.prediction or "edm", None, None, std, notes
    if name.startswith("FlowMatch") or asked == "flow_prediction":
        steps = float(facts.get("num_train_timesteps", 1000))
        return (
            settings.schedule or RECTIFIED,
            _prediction(settings.prediction or "velocity"),
            lambda t: steps * t,
            None,
            None,
            notes,
        )
    table = getattr(scheduler, "alphas_cumprod", None)
    if not isinstance(table, Tensor):
        raise SettingError(
            f"scheduler {name!r}", "one with a table of noise, a flow or EDM", "schedule=..., prediction=..."
        )
    if facts.get("rescale_betas_zero_snr"):
        # the library lifts the last entry off zero so that its own step can divide by it
        table = torch.where(table < 1e-7, torch.zeros_like(table), table)
    lost = dropped_steps(table)
    if lost:
        notes += (f"{lost} step of zero terminal SNR dropped: there the frame y = x/a does not exist",)
    told = (lambda t: _continuous(schedule, t)) if facts.get("timestep_type") == "continuous" else None
    schedule = settings.schedule or table_schedule(table, name=f"{name} table")
    return schedule, _prediction(asked), told, None, None, notes


def _continuous(schedule: Schedule, t: Tensor) -> Tensor:
    """ln(sigma)/4 at a clock reading."""
    a, s = schedule(t)
    return 0.25 * (s / a).log()


def _prediction(name: str | None) -> str:
    """The prediction in the words of `wrap`; a missing one means epsilon."""
    found = _PREDICTIONS.get(name or "epsilon")
    if found is None:
        raise SettingError(f"prediction {name!r}", f"one of {', '.join(_PREDICTIONS)}")
    return found


def _notes(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What the scheduler would have done to the posterior mean, and was not allowed to."""
    notes = []
    if facts.get("clip_sample"):
        notes.append("clip_sample of the scheduler is left out: a clipped mean is no posterior mean")
    if facts.get("thresholding"):
        notes.append("thresholding of the scheduler is left out: a thresholded mean is no posterior mean")
    return tuple(notes)


def _variance(config: Mapping[str, Any], channels: int) -> tuple[str, ...]:
    """A note where the network also predicts a variance."""
    if config.get("out_channels") == 2 * channels:
        return ("the learned variance, the second half of the output's channels, is left out",)
    return ()


def _shape(config: Mapping[str, Any], channels: int) -> tuple[int, ...]:
    """Shape of one sample from a network's configuration."""
    size = config.get("sample_size")
    if size is None:
        raise SettingError("a network without sample_size", "shape=...", f"shape=({channels}, height, width)")
    rows, columns = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    return channels, int(rows), int(columns)


def _range(schedule: Schedule) -> tuple[float, float] | None:
    """Noise levels at the ends of a table; None leaves a continuous clock to `wrap`."""
    if not schedule.name.endswith("table") and schedule.name != "ve":
        return None
    ends = torch.tensor([schedule.t_data, schedule.t_noise], dtype=torch.float64)
    a, s = schedule(ends)
    clean, noisy = (s / a).tolist()
    return clean, noisy


def _time_name(network: Any) -> str:
    """Name of a network's time argument."""
    names = inspect.signature(network.forward).parameters
    return next(name for name in ("timestep", "timesteps", "t") if name in names)


def _conditions(network: Any, config: Mapping[str, Any]) -> tuple[str | None, str | None, Any]:
    """Names of a network's arguments for a class and for an embedding, and its class for "none"."""
    names = inspect.signature(network.forward).parameters
    embeds = config.get("num_class_embeds") or config.get("class_embed_type")
    labelled = bool(embeds) or config.get("norm_type") == "ada_norm_zero"
    label = "class_labels" if "class_labels" in names and labelled else None
    text = "encoder_hidden_states" if "encoder_hidden_states" in names else None
    null = config.get("num_embeds_ada_norm") if config.get("norm_type") == "ada_norm_zero" else None
    return label, text, null


def _check_condition(
    model: WrappedModel, condition: Any, label: str | None, text: str | None, config: Mapping[str, Any]
) -> None:
    """Say at the door which condition a network cannot do without."""
    if condition is None and model.null is None and text is not None:
        width = config.get("cross_attention_dim") or config.get("joint_attention_dim")
        raise SettingError(
            f"no condition for {model.frame.name}, which reads a text's embedding",
            f"condition=tensor of the text encoder's output, shape (tokens, {width}), or a mapping",
            "that of the empty text, and null= the same for guidance",
        )
    if condition is None and model.null is None and label is not None:
        raise SettingError(
            f"no condition for {model.frame.name}, which has no class for none",
            "a class number",
            "condition=0, or null=NUMBER if it was trained with such a class",
        )
    if isinstance(condition, int) and label is not None:
        count = config.get("num_embeds_ada_norm") or config.get("num_class_embeds")
        most = (count or 0) + (1 if config.get("norm_type") == "ada_norm_zero" else 0)
        if count and not 0 <= condition < most:
            raise SettingError(
                f"condition {condition}", f"a class number from 0 to {most - 1}", "condition=0"
            )


def _autoencoder(
    coder: Any, settings: Settings, name: str, latent_shape: tuple[int, ...] | None = None
) -> Generator | Coder:
    """The autoencoder of a pipeline, in the scaled latents of its score."""
    config = dict(coder.config)
    scale, shift = config.get("scaling_factor"), config.get("shift_factor")
    if latent_shape is None:
        latent_shape = settings.shape or _latent_shape(config)
    vector = "force_not_quantize" in inspect.signature(coder.decode).parameters  # a VQ model
    notes = [f"latents are scaled by {1.0 if scale is None else scale:g}, shifted by {shift or 0.0:g}"]
    if vector:
        notes.append("decoded without quantisation, which has no derivative")

    def decode(z: Tensor) -> Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return coder.decode(z, force_not_quantize=True)[0] if vector else coder.decode(z)[0]

    def encode(x: Tensor) -> Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            found = coder.encode(x)[0]
        return found if isinstance(found, Tensor) else found.mode()

    with torch.no_grad():
        blank = torch.zeros(1, *latent_shape, device=settings.device, dtype=settings.dtype)
        shape = tuple(decode(blank).shape[1:])
    return generator_of(
        decode,
        latent_shape=latent_shape,
        shape=shape,
        name=name,
        value_range=settings.value_range or (-1.0, 1.0),
        encoding=encode,
        scale=1.0 if scale is None else float(scale),
        shift=float(shift or 0.0),
        dtype=settings.dtype,
        batch=settings.batch,
        notes=tuple(notes),
    )


def _latent_shape(config: Mapping[str, Any]) -> tuple[int, ...]:
    """Shape of an autoencoder's latent from its configuration."""
    size = config.get("sample_size", 32)
    side = (size if isinstance(size, int) else size[-1]) // 2 ** (len(config["block_out_channels"]) - 1)
    return int(config["latent_channels"]), max(1, side), max(1, side)
