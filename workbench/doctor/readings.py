r"""Other ways to read the same network: what it would be if one thing had been declared differently.

A network that came through `wrap` is asked again with another meaning of its output, with its clock told
backwards, or, if there are data, with the data scaled. Whichever reading makes it a posterior mean names the
mistake. A backward clock mirrors the interval of the schedule; on a clock without an end, the noise level
itself, it mirrors ln sigma over the declared range.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.adapters.wrap import PREDICTIONS, WrappedModel
from workbench.decoders import LatentModel
from workbench.models import Frame, ScoreModel
from workbench.schedules import Schedule
from workbench.types import Points, Sigma


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a model.

    Attributes:
        fault: What is wrong if this is the right way: "prediction", "clock" or "scale"; "" as declared.
        words: The fault in a few words.
        remedy: What to declare instead.
        model: The model read this way.
    """

    fault: str
    words: str
    remedy: str
    model: ScoreModel


@dataclass(frozen=True, slots=True)
class Rescaled:
    """A model of data z = factor (x - shift), as a model of x.

    Attributes:
        model: The model of z.
        factor: The scale.
        shift: The shift, shape (dim,).
    """

    model: ScoreModel
    factor: float
    shift: Tensor

    @property
    def frame(self) -> Frame:
        """The frame in the units of x."""
        frame = self.model.frame
        low, high = frame.sigma_min / self.factor, frame.sigma_max / self.factor
        return replace(frame, sigma_min=low, sigma_max=high, data_std=frame.data_std / self.factor)

    def denoise(self, y: Points, sigma: Sigma) -> Points:
        """E[x0 | y], from the model of z; levels are kept in its range."""
        low, high = self.model.frame.sigma_min, self.model.frame.sigma_max
        level = (torch.as_tensor(sigma, dtype=y.dtype, device=y.device) * self.factor).clamp(low, high)
        shift = self.shift.to(y)
        return self.model.denoise(self.factor * (y - shift), level) / self.factor + shift


def inner_of(model: ScoreModel) -> ScoreModel:
    """The score model on latents of a latent model; any other model itself."""
    return model.model if isinstance(model, LatentModel) else model


def other_readings(model: ScoreModel) -> Iterator[Reading]:
    """Every other reading of a wrapped network; none for models that say themselves what they are.

    Args:
        model: The model.

    Yields:
        Readings, the likelier mistakes first.
    """
    model = inner_of(model)
    if not isinstance(model, WrappedModel):
        return
    yield from _other_predictions(model)
    yield from _other_clocks(model)


def _other_predictions(model: WrappedModel) -> Iterator[Reading]:
    declared = model.prediction
    for prediction in PREDICTIONS:
        exploding = model.schedule.name == "ve"
        if prediction == declared or prediction == ("v" if exploding else "edm"):
            continue  # v is of no use there, edm of none elsewhere
        words = f"the output is {prediction}, not {declared}"
        remedy = f"prediction={prediction!r}"
        yield Reading("prediction", words, remedy, replace(model, prediction=prediction))
        if prediction == "edm" and model.told is None:
            std = model.frame.data_std
            preset = replace(
                model,
                prediction="edm",
                told=lambda t: t.log() / 4.0,
                scaling=lambda t, std=std: (t**2 + std**2).rsqrt(),
            )
            yield Reading("prediction", words, remedy, preset)
        if declared == "edm":
            plain = replace(model, prediction=prediction, told=None, scaling=None)
            yield Reading("prediction", words, remedy, plain)
    if declared == "velocity":
        words = "the velocity has the opposite sign: data minus noise against noise minus data"
        yield Reading("prediction", words, "minus its output", _negated(model))


def _other_clocks(model: WrappedModel) -> Iterator[Reading]:
    schedule, low, high = model.schedule, model.frame.sigma_min, model.frame.sigma_max
    words = "the clock runs backwards: the network is told a clean time where there is noise"
    if math.isfinite(schedule.t_noise) and math.isfinite(schedule.t_data):
        mirrors = [lambda t: schedule.t_noise + schedule.t_data - t]
    else:
        product = max(low, 1e-3 * model.frame.data_std) * high
        mirrors = [lambda t: product / t, lambda t: model.frame.data_std**2 / t, lambda t: 1.0 / t]
    for mirror in mirrors:
        told = _composed(model.told, mirror)
        remedy = _mirrored_name(schedule)
        if model.prediction == "velocity":
            yield Reading("clock", words, remedy, replace(_negated(model), told=told))
        yield Reading("clock", words, remedy, replace(model, told=told))


def _composed(told, mirror):
    """What the network is told at the mirrored time."""
    return mirror if told is None else lambda t: told(mirror(t))


def _negated(model: WrappedModel) -> WrappedModel:
    module = model.module
    return replace(model, module=lambda x, t, condition: -module(x, t, condition))


def _mirrored_name(schedule: Schedule) -> str:
    """How a backward clock is put right."""
    opposite = {"linear": "RECTIFIED", "rectified": "LINEAR", "trigonometric": "VP_COSINE"}
    opposite["vp_cosine"] = "TRIGONOMETRIC"
    if schedule.name in opposite:
        return f"schedule={opposite[schedule.name]}, or the mirrored time in told="
    return "the mirrored time in told="


def rescaled(model: ScoreModel, factor: float, shift: Tensor) -> Reading:
    """The reading with data that still have to be shifted and scaled."""
    moved = "" if float(shift.abs().max()) == 0.0 else " after a shift"
    words = f"the data need a factor of {factor:.3g}{moved}: the model was trained on scaled ones"
    return Reading("scale", words, f"data times {factor:.3g}{moved}", Rescaled(model, factor, shift))
