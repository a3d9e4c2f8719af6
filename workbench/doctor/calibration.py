r"""Whether a denoiser is the posterior mean that it claims to be, level by level.

Four numbers at each noise level, all per entry, for clean points x0 with spread v and y = x0 + sigma eps:

- the **error** :math:`E|D(y) - x_0|^2/d`, which nothing beats but the posterior mean;
- the **bound** :math:`\sigma^2 v^2/(\sigma^2 + v^2)`, the error of the best shrinkage of y towards the mean,
  so that no posterior mean is above it;
- the **claim** :math:`\sigma^2\,\mathrm{tr}\,J_D/d`: by Tweedie's second formula the covariance of x0 given y
  is :math:`\sigma^2 J_D`, so that a posterior mean states its own error;
- the **push** :math:`E|D(y) - y|^2/(d\sigma^2)`, the size of the noise that it sees, at most 1 on average.

A wrong conversion breaks at least one of them at some level, whatever the data are.

References:
    Efron, "Tweedie's Formula and Selection Bias", 2011, https://doi.org/10.1198/jasa.2011.tm11181
    Stein, "Estimation of the Mean of a Multivariate Normal Distribution", 1981
    Hutchinson, "A Stochastic Estimator of the Trace of the Influence Matrix", 1989
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.draws import draw_normal, draw_signs
from workbench.metrics.pullback import vector_jacobian
from workbench.models import Frame, ScoreModel
from workbench.types import Points

LEVELS = 7
"""Noise levels at which a denoiser is looked at."""
_SPAN = (0.03, 30.0)  # in units of the data's spread
_CLAIMED = 10.0  # the same: above, the claim is a small number that training does not care for
_FLOOR = 0.02  # of the bound, below which error and claim count as equal
_CHUNK = 64


@dataclass(frozen=True, slots=True)
class Calibration:
    """The numbers of the module docstring.

    Attributes:
        sigmas: Noise levels, shape (levels,), rising.
        error: Denoising error per entry, shape (levels,).
        bound: What no posterior mean exceeds.
        claim: What the denoiser's own Jacobian says; NaN where it was not asked.
        push: Size of the noise that it sees.
        spread: Standard deviation of one entry of the clean points.
        errors: Denoising error of every clean point, shape (levels, count).
    """

    sigmas: Tensor
    error: Tensor
    bound: Tensor
    claim: Tensor
    push: Tensor
    spread: float
    errors: Tensor

    @property
    def excess(self) -> float:
        """Largest error over its bound; above 1 by more than chance: no posterior mean. Infinite if odd."""
        return _worst(self.error / self.bound)

    @property
    def disagreement(self) -> float:
        """Largest factor between error and claim, either way; 1 is perfect, infinite for a negative claim."""
        small = _FLOOR * self.bound
        ratio = (self.error + small) / (self.claim.clamp(min=0.0) + small)
        low = self.sigmas <= max(_CLAIMED * self.spread, float(self.sigmas[0]))
        return _worst(torch.maximum(ratio, 1.0 / ratio)[low])

    @property
    def overshoot(self) -> float:
        """Largest push; above 1 by more than chance: it removes more noise than there is."""
        return _worst(self.push)

    @property
    def badness(self) -> float:
        """How far from a posterior mean, in logarithms: 0 is perfect."""
        values = (self.disagreement, max(self.excess, 1.0), max(self.overshoot, 1.0))
        return sum(map(math.log, values)) if all(map(math.isfinite, values)) else math.inf

    @property
    def loss(self) -> float:
        """Mean logarithm of the error over its bound; of several readings the right one has the least."""
        ratio = torch.nan_to_num(self.error / self.bound, nan=1e9, posinf=1e9)
        return float(ratio.clamp(min=1e-9).log().mean())

    def beats(self, other: "Calibration") -> float:
        """By what factor it has the smaller error on the same points and noise, at the level where most so.

        Only differences of more than four standard errors count; 1 if there is none, or if the other one is
        better by a tenth at any level.
        """
        gap = other.errors - self.errors
        error = gap.std(dim=1) / math.sqrt(gap.shape[1])
        sure = gap.mean(dim=1).abs() > 4.0 * error
        ratio = torch.where(sure, other.error / self.error, torch.ones_like(self.error))
        ratio = torch.nan_to_num(ratio, nan=math.inf)
        return 1.0 if float(ratio.min()) < 0.9 else float(ratio.max())


def _worst(values: Tensor) -> float:
    """The largest entry; infinite if any is not finite."""
    return float(values.max()) if bool(torch.isfinite(values).all()) else math.inf


def levels_for(frame: Frame, spread: float) -> Tensor:
    """Noise levels to look at: from a small part of the data's spread to many times it, inside the range."""
    low = max(frame.sigma_min, _SPAN[0] * spread)
    high = min(frame.sigma_max, _SPAN[1] * spread)
    if not low < high:  # a model whose levels do not meet the data's spread at all: its own range
        low, high = frame.sigma_min or 1e-3 * frame.sigma_max, frame.sigma_max
    return torch.logspace(math.log10(low * 1.0001), math.log10(high * 0.9999), LEVELS, dtype=torch.float64)


def calibrate(
    model: ScoreModel,
    clean: Points,
    *,
    sigmas: Tensor | None = None,
    claims: bool = True,
    generator: torch.Generator,
) -> Calibration:
    """Measure a denoiser on clean points.

    Args:
        model: The model.
        clean: Clean points, shape (count, dim): data, or samples of the model itself.
        sigmas: Noise levels; `levels_for` the points if None.
        claims: Whether to ask for the claims, which need derivatives.
        generator: Source of the noise and the probes.

    Returns:
        The calibration. Cost: 7 model calls a point, and 7 backward passes with the claims.
    """
    count = len(clean)
    variance = float((clean - clean.mean(dim=0)).square().mean()) * count / max(count - 1, 1)
    spread = math.sqrt(variance) or 1e-12
    levels = levels_for(model.frame, spread) if sigmas is None else sigmas
    noise = draw_normal(clean.shape, clean, generator)
    probe = draw_signs(clean.shape, clean, generator)
    rows = []
    for sigma in levels.tolist():
        parts = [
            _at_level(model, x, eps, v, sigma, claims)
            for x, eps, v in zip(clean.split(_CHUNK), noise.split(_CHUNK), probe.split(_CHUNK), strict=True)
        ]
        rows.append(torch.cat(parts).double())
    every = torch.stack(rows).cpu()  # read once, at the end
    table = every.mean(dim=1)
    squares = levels**2
    return Calibration(
        sigmas=levels,
        error=table[:, 0],
        bound=squares * variance / (squares + variance),
        claim=table[:, 1],
        push=table[:, 2],
        spread=spread,
        errors=every[:, :, 0],
    )


def _at_level(model: ScoreModel, x: Tensor, eps: Tensor, probe: Tensor, sigma: float, claims: bool) -> Tensor:
    """Error, claim and push of every point, shape (n, 3)."""
    y = x + sigma * eps
    claim = torch.full_like(y[:, 0], math.nan)
    if claims:
        kept: list[Tensor] = []

        def denoise(points: Tensor) -> Tensor:
            kept.append(model.denoise(points, sigma))
            return kept[-1]

        pulled = vector_jacobian(denoise, y, probe)
        found = kept[-1].detach()
        claim = sigma**2 * (pulled.detach() * probe).mean(dim=-1)
    else:
        with torch.no_grad():
            found = model.denoise(y, sigma)
    error = (found - x).square().mean(dim=-1)
    push = ((found - y) / sigma).square().mean(dim=-1)
    return torch.stack((error, claim, push), dim=-1)
