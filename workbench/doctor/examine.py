"""The examination: everything that can be said about a model before a lens is pointed at it."""

import math
import time
from pathlib import Path

import torch
from torch import Tensor

from workbench.adapters.normalizing_flow import FlowDensity
from workbench.checks import check_count, check_model, check_run
from workbench.decoders import Decoder, LatentModel, Latents
from workbench.devices import resolve_device
from workbench.doctor.costs import measure_costs
from workbench.doctor.data import read_points, read_rows
from workbench.doctor.diagnosis import Costs, Diagnosis, Finding, LensRow
from workbench.doctor.lenses import lens_table
from workbench.doctor.others import examine_decoder, examine_landscape
from workbench.doctor.structure import check_answers, check_clean_end, check_derivatives
from workbench.doctor.verdict import judge_readings
from workbench.draws import draw_normal, seeded
from workbench.errors import SettingError
from workbench.integrators import Progress
from workbench.models import Landscape, ScoreModel
from workbench.report import provenance_of

BATCH = 16
"""Points that are timed together."""
_PATIENCE = 20.0  # seconds that drawing and calibrating as declared may take, by which their number is chosen
_FEWEST, _MOST = 24, 192
_LEAST = 8  # points below which a mean says nothing
_CALLS = 45  # evaluations a point that the declared reading costs, derivatives included

SOURCES = (
    "Tweedie's Formula and Selection Bias (Efron, 2011)",
    "Elucidating the Design Space of Diffusion-Based Generative Models (Karras et al., 2022)",
)


def examine(
    model: ScoreModel | Decoder | Landscape,
    *,
    data: str | Path | Tensor | None = None,
    count: int | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Examine a model: is it what it is declared to be, which lenses can use it, and what will they cost?

    Args:
        model: A score model, a latent model, a decoder alone, or an energy; already on the device.
        data: Real data, as for `read_points`; without them a missing scale factor cannot be seen.
        count: Samples and data points to look at; None for as many as take some 20 seconds.
        device: Where to ask it.
        dtype: Type of the points.
        generator: Source of all draws, on the device; one of seed 0 if None.
        progress: Called with the fraction done and a sentence.

    Returns:
        The diagnosis. Not differentiable. A wrong conversion costs some ten times as much as a right one.

    Raises:
        SettingError: If it is no score model, the data do not fit it, or there are fewer than two
            points to look at.
        DataError: If the data cannot be read.

    Example:
        >>> from workbench.worlds import load_world
        >>> examine(load_world("v_mixture"), dtype=torch.float64).sound
        True
    """
    if isinstance(model, Latents):
        model = model.decoder
    if not isinstance(model, Decoder):
        check_model(model, landscapes=True)
    check_count("count", count, least=2, none=True)
    check_run(generator, progress, None)
    began, place = time.monotonic(), resolve_device(device)
    tell = progress or (lambda fraction, message: None)
    generator = seeded(generator, place)
    like = torch.empty(0, dtype=dtype, device=place)
    if isinstance(model, ScoreModel):
        clean = None if data is None else read_points(data, model).to(like)
        parts = _score_model(model, clean, like, count, generator, tell)
    elif isinstance(model, Decoder):
        parts = examine_decoder(model, like, generator=generator, batch=BATCH)
    else:
        drawn = data
        if data is None and isinstance(model, FlowDensity):
            drawn = model.sample(BATCH, generator=generator)
        if drawn is None:
            raise SettingError(f"the energy {model.name} without points", "data to ask it at", "--data PATH")
        points = read_rows(drawn)[:BATCH]
        parts = examine_landscape(model, points.flatten(1).to(like), generator=generator)
    findings, costs, lenses = parts
    findings = [*findings, *_noted(model)]
    tell(1.0, "done")
    name = _name(model)
    settings = {"data": None if data is None else _named(data), "count": count}
    return Diagnosis(
        model=name,
        kind=_kind(model),
        findings=tuple(findings),
        costs=costs,
        lenses=lenses,
        seconds=time.monotonic() - began,
        provenance=provenance_of(like, model=name, settings=settings, generator=generator, sources=SOURCES),
    )


def _score_model(
    model: ScoreModel,
    clean: Tensor | None,
    like: Tensor,
    count: int | None,
    generator: torch.Generator,
    tell: Progress,
) -> tuple[list[Finding], Costs | None, tuple[LensRow, ...]]:
    """Findings, costs and lenses of a score model."""
    sigma = _middle(model)
    tell(0.05, "asking the model")
    first = draw_normal((BATCH, model.frame.dim), like, generator) * math.hypot(model.frame.data_std, sigma)
    findings = list(check_answers(model, first, sigma))
    if findings[0].verdict == "fault" or "cannot be asked" in findings[-1].sentence:
        return findings, None, ()
    tell(0.1, "measuring time and memory")
    costs = measure_costs(model, first, sigma)
    tell(0.2, "drawing samples, calibrating the denoiser")
    number = count or _affordable(costs)
    verdict = judge_readings(model, clean, count=number, like=like, generator=generator)
    findings += verdict.findings
    known = first if verdict.clean is None else verdict.clean
    tell(0.7, "looking at the clean end and the derivatives")
    findings.append(check_clean_end(model, known[:number], generator=generator))
    noisy = known[:BATCH] + sigma * draw_normal(known[:BATCH].shape, like, generator)
    findings += check_derivatives(model, noisy, sigma, generator=generator)
    findings += _cautions(model, like.dtype)
    tell(0.8, "counting the calls of every lens")
    return findings, costs, lens_table(model, costs, like)


def _middle(model: ScoreModel) -> float:
    """A noise level in the middle of the range, near the data's spread."""
    frame = model.frame
    return min(max(0.5 * frame.data_std, frame.sigma_min * 1.001), frame.sigma_max * 0.999)


def _affordable(costs: Costs) -> int:
    """Points that can be looked at in the time that a person waits."""
    seconds = 1e-3 * costs.evaluation.value * _CALLS
    return int(min(_MOST, max(_FEWEST, _PATIENCE / max(seconds, 1e-9))))


def _cautions(model: ScoreModel, dtype: torch.dtype) -> list[Finding]:
    """What is no fault but should be known."""
    frame, said = model.frame, []
    low = 0.02 * frame.data_std / 0.5
    told = any("the score divides rounding" in note for note in frame.notes)  # by the door, and shown
    if dtype is torch.float32 and frame.sigma_min < low and not told:
        sentence = f"scores lose digits below sigma {low:.2g} in float32: their error grows like 1/sigma"
        said.append(Finding("precision", "note", sentence, "float64 there"))
    if frame.guidance != 0.0:
        sentence = (
            f"guidance {frame.guidance:g}: the field is no score; likelihoods and metrics are not defined"
        )
        said.append(Finding("guidance", "note", sentence, "guidance=0"))
    return said


def _noted(model: ScoreModel | Decoder | Landscape) -> list[Finding]:
    """What opening the model left out, switched off or advises."""
    frame = model.frame if isinstance(model, ScoreModel) else None
    frame = model.picture if isinstance(model, Decoder) else frame
    return [] if frame is None else [Finding("as opened", "note", note) for note in frame.notes]


def _name(model: ScoreModel | Decoder | Landscape) -> str:
    if isinstance(model, ScoreModel):
        return str(model.frame)
    return model.picture.name if isinstance(model, Decoder) else model.name


def _kind(model: ScoreModel | Decoder | Landscape) -> str:
    if isinstance(model, ScoreModel):
        frame = model.frame
        space = "latents" if frame.space == "latent" else "data"
        levels = f"sigma {frame.sigma_min:.3g} to {frame.sigma_max:.3g}"
        words = f"score model on {space} of shape {_shape(frame.shape)}, {levels}"
        return words + (
            f", decoded to {_shape(model.decoder.picture.shape)}" if isinstance(model, LatentModel) else ""
        )
    if isinstance(model, Decoder):
        return f"decoder from {_shape(model.latent_shape)} to {_shape(model.picture.shape)}, without a score"
    return f"energy in {model.unit}, without noise levels"


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def _named(data: str | Path | Tensor) -> str:
    return f"tensor of shape {tuple(data.shape)}" if isinstance(data, Tensor) else str(data)
