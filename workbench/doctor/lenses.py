"""What every lens can do with a model, and what that would cost here.

Model calls are not read off a formula: each task is run once on a stand-in of the model's own shape and noise
levels, a Gaussian whose denoiser costs nothing, and its calls are counted.
"""

import warnings
from dataclasses import dataclass

import torch

from workbench.decoders import Autoencoder, decoder_of
from workbench.doctor.diagnosis import Costs, LensRow
from workbench.doctor.readings import inner_of
from workbench.errors import ConvergenceWarning
from workbench.flows import log_likelihood
from workbench.lenses import LENSES
from workbench.lenses.anisotropy import lacking_of
from workbench.lenses.paths import find_path
from workbench.models import ExactScore, Frame, ScoreModel, expand_sigma
from workbench.types import Points, Sigma

NODES = 17
"""Images of the strings that are reckoned with."""
MOST = 200
"""Iterations of a static string."""
NETWORKS = 200
"""Untrained networks of a set of directions."""
FIELD = 16
"""Points along each side of a metric field."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """A Gaussian of the model's shape, spread and range of noise; it costs nothing to ask."""

    frame: Frame

    def denoise(self, y: Points, sigma: Sigma) -> Points:
        """Shrinkage towards zero."""
        variance = self.frame.data_std**2
        return y * variance / (variance + expand_sigma(y, sigma) ** 2)


def lens_table(model: ScoreModel, costs: Costs | None, like: torch.Tensor) -> tuple[LensRow, ...]:
    """One row for each task of a lens.

    Args:
        model: The model.
        costs: What asking it costs; None where that is unknown.
        like: A tensor of the dtype to compute in.

    Returns:
        The rows, in the order of `LENSES`, with the likelihood at the end.
    """
    rows: list[LensRow] = []
    for lens in LENSES:
        rows += _ROWS[lens.name](model, costs, like) if lens.name in _ROWS else []
    return (*rows, *_likelihood(model, costs, like))


def _took(costs: Costs | None, calls: int) -> float | None:
    return None if costs is None else 1e-3 * costs.evaluation.value * calls


def _paths(model: ScoreModel, costs: Costs | None, like: torch.Tensor) -> list[LensRow]:
    frame = model.frame
    stand_in = StandIn(frame)
    start = torch.full((frame.dim,), -0.7 * frame.data_std, dtype=like.dtype)
    end = -start
    start[0] *= 0.5
    rows = []
    for regime in ("transport", "mep", "principal", "static"):
        with warnings.catch_warnings():
            # a string over one mode has a corner there and never settles: the calls of so many are the answer
            warnings.filterwarnings("ignore", f"iteration limit reached after {MOST} ", ConvergenceWarning)
            found = find_path(
                stand_in,
                start,
                end,
                regime=regime,
                nodes=NODES,
                measure_share=False,
                max_iterations=MOST,
                generator=torch.Generator().manual_seed(0),
            )
        calls = found.report.model_calls
        task = f"{regime}, {NODES} nodes"
        rows.append(LensRow("paths", task, True, "", calls, _took(costs, calls)))
    return rows


def _fisher(model: ScoreModel, costs: Costs | None, like: torch.Tensor) -> list[LensRow]:
    dim, points = model.frame.dim, FIELD * FIELD
    derivative = costs is None or costs.forward is not None
    rows = []
    decoder = decoder_of(model)
    size = f"{FIELD}×{FIELD} field"
    if decoder is not None:
        per_point = 2.0 * (0.0 if costs is None or costs.decoding is None else costs.decoding.value)
        seconds = None if costs is None else 1e-3 * 2 * per_point * points
        rows.append(LensRow("fisher", f"decoder pullback, {size}", True, "", 0, seconds))
    lacks = "" if derivative else "forward derivatives"
    forward = None if costs is None or costs.forward is None else costs.forward
    seconds = None if forward is None else 1e-3 * forward.value * 2 * points
    calls = 2 * 2 * points
    rows.append(
        LensRow(
            "fisher", f"denoiser pullback, {size}", derivative, lacks, calls if derivative else 0, seconds
        )
    )
    steps = 12 * 4
    seconds = None if forward is None else 1e-3 * forward.value * 2 * steps * points
    judged = f"flow pullback through a judge, {size}"
    rows.append(
        LensRow("fisher", judged, derivative, lacks, 4 * steps * points if derivative else 0, seconds)
    )
    backward = costs is None or costs.backward is not None
    products = 17 * (dim if dim <= 16 else 1)
    both = None if costs is None or costs.backward is None else costs.backward.value
    seconds = None if both is None else 1e-3 * both * products * 100
    rows.append(
        LensRow(
            "fisher",
            "spacetime curve, 17 nodes, 100 steps",
            backward,
            "" if backward else "derivatives",
            100 * 3 * products if backward else 0,
            seconds,
        )
    )
    return rows


def _anisotropy(model: ScoreModel, costs: Costs | None, like: torch.Tensor) -> list[LensRow]:
    lacks = lacking_of(model)
    resettable = not lacks
    task = f"directions of {NETWORKS} untrained networks"
    single = None if costs is None else 1e-3 * costs.single.value * NETWORKS
    rows = [
        LensRow(
            "anisotropy",
            task,
            resettable,
            lacks,
            NETWORKS if resettable else 0,
            single if resettable else None,
        )
    ]
    products = costs is None or costs.forward is not None
    dim = model.frame.dim
    count = min(dim, 60)
    forward = None if costs is None or costs.forward is None else costs.forward.value
    rows.append(
        LensRow(
            "anisotropy",
            "leading directions of the Jacobian",
            products,
            "" if products else "forward derivatives",
            2 * count if products else 0,
            None if forward is None else 1e-3 * forward * count,
        )
    )
    return rows


def _conda(model: ScoreModel, costs: Costs | None, like: torch.Tensor) -> list[LensRow]:
    decoder = decoder_of(model)
    if decoder is not None and not isinstance(decoder, Autoencoder):
        return [
            LensRow("conda", "a map of latents over time", False, "an encoder for the recordings", 0, None)
        ]
    return [LensRow("conda", "a map of latents over time, from data", True, "", 0, None)]


def _likelihood(model: ScoreModel, costs: Costs | None, like: torch.Tensor) -> list[LensRow]:
    works = costs is None or costs.backward is not None or isinstance(inner_of(model), ExactScore)
    if not works:
        return [LensRow("likelihood", "one point", False, "derivatives", 0, None)]
    point = torch.zeros(1, model.frame.dim, dtype=like.dtype)
    found = log_likelihood(
        StandIn(model.frame),
        point,
        steps=20,
        probes=2,
        solver="heun",
        generator=torch.Generator().manual_seed(0),
    )
    calls = found.report.model_calls
    return [
        LensRow("likelihood", "one point, 20 steps, with its error", True, "", calls, _took(costs, calls))
    ]


_ROWS = {"paths": _paths, "fisher": _fisher, "anisotropy": _anisotropy, "conda": _conda}
