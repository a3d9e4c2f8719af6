r"""Which mistake, if any: the declared reading of a network beside the others.

The declared reading is calibrated on data, or on its own samples where there are none. If error, bound, claim
and push fit together, the model is a posterior mean and nothing else is tried. If not, every other reading is
calibrated in the same way, and the one that fits names the mistake: a wrong prediction, a clock told
backwards, data that still have to be scaled. Where none fits, the fault is left without a name.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.adapters.wrap import WrappedModel
from workbench.doctor.calibration import Calibration, calibrate
from workbench.doctor.diagnosis import Finding
from workbench.doctor.readings import Reading, inner_of, other_readings, rescaled
from workbench.doctor.structure import ASKING
from workbench.errors import ModelOutputError
from workbench.models import ScoreModel
from workbench.sampling import sample
from workbench.types import Points

EXCESS, DISAGREEMENT, OVERSHOOT = 1.4, 2.5, 1.3
"""Above any of these a calibration is suspicious: error over bound, error against claim, push."""
GROSS = 3.0
"""Times the above: a fault even where no other reading explains it."""
BETTER = 1.1
"""Factor in the error on data by which another reading must beat the declared one to be the right one."""
SAME_SCALE = 1.3
"""Largest factor between the spreads of data and samples that is no matter of scale."""
SPREAD = 2.0
"""Factor between the spread of samples and the declared one above which other readings are tried, too."""
_FEW = 32  # points on which factors are compared
_NEARBY = (0.7, 0.78, 0.88, 1.0, 1.13, 1.28, 1.43)
STEPS = 10
"""Levels of the sampler."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Findings on prediction, clock, scale and samples.

    Attributes:
        findings: In that order.
        clean: Points to go on with: the data, else samples; None where there are no finite ones.
    """

    findings: tuple[Finding, ...]
    clean: Points | None


def misfit(found: Calibration | None) -> float:
    """How far a calibration is from a posterior mean's: 1 and below is unsuspicious; infinite for none."""
    if found is None:
        return math.inf
    return max(found.excess / EXCESS, found.disagreement / DISAGREEMENT, found.overshoot / OVERSHOOT)


def judge_readings(
    model: ScoreModel, data: Points | None, *, count: int, like: Tensor, generator: torch.Generator
) -> Verdict:
    """Find out whether a model is a posterior mean as declared, and if not, what it is.

    Args:
        model: The model.
        data: Clean data points; None for its own samples.
        count: Samples to draw, and data points to use at most.
        like: A tensor of the dtype and device to compute in.
        generator: Source of all randomness.

    Returns:
        The findings. Cost: about 19 calls a sample and 14 a point as declared, and the same for each of some
        ten readings if the declared one does not fit.
    """
    seed = int(torch.randint(2**31, (), generator=generator))
    drawn = _samples(model, count, like, seed)
    clean = drawn if data is None else data[:count]
    declared = _calibrated(model, clean, seed)
    guided = inner_of(model).frame.guidance != 0.0
    best = None if guided else _best(model, data, drawn, declared, count, like, seed)
    if best is not None:
        findings = _named(best, declared)
    elif misfit(declared) > 1.0 and not guided:
        findings = _unnamed(declared, data)
    else:
        findings = (*_fitting(model, declared, data, guided), *_scales(data, drawn))
    return Verdict((*findings, _sampled(model, drawn)), clean)


def _strangeness(model: ScoreModel, found: Calibration | None) -> float:
    """Factor between the spread of a model's samples and what it declares, either way."""
    if found is None:
        return math.inf
    ratio = found.spread / inner_of(model).frame.data_std
    return max(ratio, 1.0 / ratio)


def _samples(model: ScoreModel, count: int, like: Tensor, seed: int) -> Points | None:
    """Samples of a model; None where they are not finite or it cannot be asked."""
    try:
        generator = torch.Generator(like.device).manual_seed(seed)
        return sample(model, count, steps=STEPS, generator=generator, dtype=like.dtype)
    except (*ASKING, ModelOutputError):
        return None


def _calibrated(model: ScoreModel, clean: Points | None, seed: int) -> Calibration | None:
    if clean is None:
        return None
    try:
        generator = torch.Generator(clean.device).manual_seed(seed + 1)
        return calibrate(model, clean, generator=generator)
    except ASKING:
        return None


def _best(
    model: ScoreModel,
    data: Points | None,
    drawn: Tensor | None,
    declared: Calibration | None,
    count: int,
    like: Tensor,
    seed: int,
) -> Reading | None:
    """The reading that is right where the declared one is not; None if that one is, or none is."""
    odd = misfit(declared) > 1.0
    if data is None and not odd and _strangeness(model, declared) <= SPREAD:
        return None
    best, least = None, math.inf
    for reading in [*_scalings(model, data, drawn, odd=odd), *other_readings(model)]:
        clean = data[:count] if data is not None else _samples(reading.model, count, like, seed)
        found = _calibrated(reading.model, clean, seed)
        if found is None or misfit(found) > 1.0:
            continue
        better = declared is None or found.badness < (0.6 if odd else 1.0) * declared.badness + 0.1
        if data is not None:
            accepted = (odd and better) or (declared is not None and found.beats(declared) > BETTER)
            rank = found.loss
        else:
            strange = _strangeness(model, found)
            accepted = better and strange < 0.9 * SPREAD
            rank = found.badness + math.log(strange)
        if accepted and rank < least:
            best, least = reading, rank
    return best


def _scalings(model: ScoreModel, data: Points | None, drawn: Tensor | None, *, odd: bool) -> list[Reading]:
    """The reading with the data scaled, and shifted, to the spread and mean of the model's samples."""
    if data is None or drawn is None:
        return []
    apart = _moments(drawn)[1] / _moments(data)[1]
    if not odd and max(apart, 1.0 / apart) <= SAME_SCALE:
        return []
    (mean, spread), (own_mean, own_spread) = _moments(data), _moments(drawn)
    readings = []
    for nearby in _NEARBY:  # a short sampler gets the spread only roughly right
        factor = nearby * own_spread / spread
        shift = mean - own_mean / factor
        for moved in (torch.zeros_like(shift), shift):
            if max(factor, 1.0 / factor) > SAME_SCALE or float(moved.abs().max()) > 0.5 * spread:
                readings.append(rescaled(inner_of(model), factor, moved))
    generator = torch.Generator(data.device)
    losses = [
        calibrate(one.model, data[:_FEW], claims=False, generator=generator.manual_seed(0)).loss
        for one in readings
    ]
    return [readings[losses.index(min(losses))]] if readings else []


def _moments(points: Points) -> tuple[Tensor, float]:
    mean = points.mean(dim=0)
    return mean, float((points - mean).square().mean().sqrt()) or 1e-12


def _numbers(found: Calibration | None) -> str:
    if found is None:
        return "its samples are not finite"
    return (
        f"error over bound {found.excess:.2g}, error against its own claim {found.disagreement:.2g}, "
        f"push {found.overshoot:.2g}"
    )


def _twin(model: ScoreModel) -> str:
    """What else its prediction could be that only real data tell from it; empty for most."""
    inner = inner_of(model)
    if not isinstance(inner, WrappedModel) or inner.schedule.name not in ("vp_cosine", "trigonometric"):
        return ""
    other = {"v": "velocity", "velocity": "v"}.get(inner.prediction, "")
    apart = "a factor of pi/2 apart on this schedule, is told from it by real data only"
    return f"; {other}, {apart}" if other else ""


def _fitting(
    model: ScoreModel, declared: Calibration | None, data: Points | None, guided: bool
) -> tuple[Finding, ...]:
    on, rest = ("samples", _twin(model)) if data is None else ("data", "")
    if guided:
        sentence = "not judged: with guidance the field is no score of any density"
        return (Finding("prediction", "not checked", sentence), Finding("clock", "not checked", sentence))
    return (
        Finding("prediction", "ok", f"a posterior mean on its {on}: {_numbers(declared)}{rest}"),
        Finding("clock", "ok", "as declared"),
    )


def _scales(data: Points | None, drawn: Tensor | None) -> tuple[Finding, ...]:
    if data is None:
        return (Finding("scale", "not checked", "seen only beside real data", "data=... (--data PATH)"),)
    if drawn is None:
        return (Finding("scale", "not checked", "there are no finite samples to compare the data with"),)
    spread, own = _moments(data)[1], _moments(drawn)[1]
    return (Finding("scale", "ok", f"spread of data {spread:.3g}, of samples {own:.3g}"),)


def _named(best: Reading, declared: Calibration | None) -> tuple[Finding, ...]:
    """Findings where another reading is the right one."""
    sentence = f"{best.words} (as declared: {_numbers(declared)})"
    fault = Finding(best.fault, "fault", sentence, best.remedy)
    others = (name for name in ("prediction", "clock", "scale") if name != best.fault)
    return fault, *(Finding(name, "not checked", f"with the wrong {best.fault}") for name in others)


def _unnamed(declared: Calibration | None, data: Points | None) -> tuple[Finding, ...]:
    """Findings where the declared reading does not fit and no other one does."""
    gross = misfit(declared) > GROSS
    sentence = (
        f"{'no posterior mean' if gross else 'a rough posterior mean'} as declared: {_numbers(declared)}"
    )
    remedy = "prediction, schedule and told as it was trained, or data as it was trained on" if gross else ""
    first = Finding("prediction", "fault" if gross else "note", sentence, remedy)
    clock = Finding("clock", "not checked", "no other reading explains it")
    return first, clock, *(_scales(data, None) if data is None else ())


def _sampled(model: ScoreModel, drawn: Tensor | None) -> Finding:
    """Whether samples are finite, and how they lie to what the frame declares."""
    frame = inner_of(model).frame
    if drawn is None:
        return Finding("samples", "fault", f"not finite after {STEPS} levels", "the findings above")
    spread, count = _moments(drawn)[1], len(drawn)
    sentence = f"{count} finite ones, spread {spread:.3g} (declared {frame.data_std:.3g})"
    if frame.value_range is not None:
        low, high = frame.value_range
        margin = 0.1 * (high - low)
        outside = float(((drawn < low - margin) | (drawn > high + margin)).float().mean())
        sentence += f", {outside:.1%} of their entries outside {low:g} to {high:g}"
        if outside > 0.1:
            return Finding("samples", "note", sentence, "more steps")
    if not 0.2 < spread / frame.data_std < 5.0:
        return Finding("samples", "note", sentence, f"data_std={spread:.3g}")
    return Finding("samples", "ok", sentence)
