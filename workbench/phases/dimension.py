r"""Intrinsic dimension at a point, read off a score.

FLIPD: at small noise, :math:`D + \sigma^2 (\mathrm{tr}\,\nabla s + |s|^2)` tends to the dimension of the data
at x, D the ambient dimension; with exact scores of a d-dimensional subspace it is d up to the order of
sigma^2.

Normal bundle: scores at points scattered around x by sigma point along the normals, so that their matrix has
D - d large singular values; the largest gap of the spectrum counts them.

References:
    Kamkari, Ross, Hosseinzadeh, Cresswell, Loaiza-Ganem, "A Geometric View of Data Complexity", 2024,
        https://arxiv.org/abs/2406.03537
    Stanczuk, Batzolis, Deveney, Schonlieb, "Your diffusion model secretly knows the dimension of the data
        manifold", 2023, https://arxiv.org/abs/2212.12611
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.checks import check_count, check_number
from workbench.draws import draw_normal, draw_signs, seeded
from workbench.errors import SettingError, ShapeError
from workbench.forward import jvp
from workbench.models import ScoreModel, check_points, score
from workbench.report import Estimate

_TOGETHER = 256  # derivatives taken in one batch


def measure_flipd(
    model: ScoreModel,
    x: Tensor,
    sigma: float,
    *,
    probes: int | None = None,
    generator: torch.Generator | None = None,
) -> Estimate:
    """Local intrinsic dimension at one point by the divergence of the score.

    Args:
        model: The score model.
        x: One point on or near the data, shape (dim,), in the data's unit.
        sigma: A small noise level; the answer is a function of it, so compare several.
        probes: Random signs for the trace; None takes all dim axes, exactly.
        generator: Source of the probes; None for one of seed 0.

    Returns:
        The dimension with the standard error over probes (none for the exact trace). Two model calls a probe.

    Raises:
        ShapeError: If x is not one finite point of the model.
        SettingError: For a noise level that is not positive, or one probe.
    """
    dim = _check_one(model, x, sigma)
    check_count("probes", probes, least=2, none=True)
    signs = None if probes is None else draw_signs((probes, dim), x, seeded(generator))
    parts, value = [], x
    for part in torch.arange(dim if probes is None else probes, device=x.device).split(_TOGETHER):
        rows = torch.nn.functional.one_hot(part, dim).to(x.dtype) if signs is None else signs[part]
        at = x.expand_as(rows).contiguous()
        value, turned = jvp(lambda y: score(model, y, sigma), (at,), (rows.contiguous(),))
        parts.append((turned * rows).sum(dim=1))
    every = torch.cat(parts)
    trace = every.sum() if probes is None else every.mean()
    error = None if probes is None else sigma**2 * float(every.std()) / math.sqrt(len(every))
    how = "exact trace" if probes is None else f"spread over {probes} probes"
    return Estimate(float(dim + sigma**2 * (trace + value[0].square().sum())), error, "dimensions", how)


@dataclass(frozen=True, slots=True)
class NormalBundle:
    """Singular values of scores around a point.

    Attributes:
        dimension: Ambient dimension minus the number of normal directions.
        values: Singular values, descending.
        gap: Ratio of the singular values on both sides of the largest gap.
    """

    dimension: int
    values: Tensor
    gap: float


def measure_normal_bundle(
    model: ScoreModel,
    x: Tensor,
    sigma: float,
    *,
    count: int | None = None,
    generator: torch.Generator | None = None,
) -> NormalBundle:
    """Local intrinsic dimension at one point by the rank of the scores around it.

    Args:
        model: The score model.
        x: One point on the data, shape (dim,).
        sigma: A small noise level.
        count: Scattered points; 4 dim if None.
        generator: Source of the scatter; None for one of seed 0.

    Returns:
        The dimension and the spectrum; a gap near 1 means that no dimension stands out, and that all are the
        data's cannot be seen. count model calls.

    Raises:
        ShapeError: If x is not one finite point of the model.
        SettingError: For a noise level that is not positive, fewer points than dimensions, or a line.
    """
    dim = _check_one(model, x, sigma)
    if dim < 2:
        raise SettingError(
            "a model on a line, whose spectrum has no gap", "dimension 2 or more", "measure_flipd"
        )
    count = 4 * dim if count is None else count
    check_count("count", count, least=dim, hint=f"count={4 * dim}", why=", the dimension")
    noise = draw_normal((count, dim), x, seeded(generator))
    with torch.no_grad():
        rows = score(model, x + sigma * noise, sigma)
    values = torch.linalg.svdvals(rows)
    ratios = values[:-1] / values[1:].clamp_min(torch.finfo(x.dtype).tiny)
    normal = int(ratios.argmax()) + 1
    return NormalBundle(dim - normal, values, float(ratios.max()))


@dataclass(frozen=True, slots=True)
class LocalDimension:
    """Both readings at one point.

    Attributes:
        sigma: Their noise level, in the data's unit.
        ambient: Dimension of the space.
        flipd: By the divergence of the score.
        normal: By the rank of the scores around the point; None on a line.
    """

    sigma: float
    ambient: int
    flipd: Estimate
    normal: NormalBundle | None


def measure_dimension(
    model: ScoreModel,
    x: Tensor,
    *,
    sigma: float | None = None,
    probes: int = 32,
    generator: torch.Generator | None = None,
) -> LocalDimension:
    """Local intrinsic dimension at one point in both ways, at a cost that one waits for.

    Args:
        model: The score model.
        x: One point on the data, shape (dim,).
        sigma: A small noise level; None for a tenth of the data's deviation, or the model's smallest level.
        probes: Random signs for the divergence.
        generator: Source of signs and scatter; None for one of seed 0.

    Returns:
        Both readings. Twice the probes and up to 4 dim model calls; dim where that is more than a thousand.
    """
    sigma = max(0.1 * model.frame.data_std, model.frame.sigma_min) if sigma is None else sigma
    dim, generator = model.frame.dim, seeded(generator, x.device)
    flipd = measure_flipd(model, x, sigma, probes=probes, generator=generator)
    normal = None
    if dim > 1:
        count = max(dim, min(4 * dim, 1024))
        normal = measure_normal_bundle(model, x, sigma, count=count, generator=generator)
    return LocalDimension(sigma, dim, flipd, normal)


def _check_one(model: ScoreModel, x: Tensor, sigma: float) -> int:
    """Entries of the one point that is asked about, after a look at it and the noise level."""
    check_points(x, model.frame.dim, name="x")
    check_number("sigma", sigma, above=0.0)
    if x.ndim != 1:
        raise ShapeError(f"x of shape {tuple(x.shape)}", f"one point of shape ({model.frame.dim},)", "x[0]")
    return x.shape[0]
