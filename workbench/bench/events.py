r"""Levels of noise at which something changes its kind.

*Modes merge* where the number of maxima of :math:`p_\sigma` falls as the noise grows; *a saddle appears or
vanishes* where the number of its saddles changes. In a mixture, whose score and Hessian are known, both are
found by Newton's method from many starts at each level, and bisection between two levels. For two equal round
components of deviation s at distance d the modes merge at :math:`\sigma^2 + s^2 = d^2/4`. *Leading
eigenvalues cross* where the widest direction of the posterior at a point gives its place to another one.

References:
    Carreira-Perpinan, "Mode-Finding for Mixtures of Gaussian Distributions", 2000,
        https://doi.org/10.1109/34.888716
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from workbench.linalg import dense_jacobian
from workbench.models import ScoreModel
from workbench.worlds import GaussianMixture

BISECTIONS = 20
"""Halvings between two levels; the last bracket is one in 10^6 of theirs."""
SAME = 3e-3
"""Distance in widths below which two stationary points count as one; where modes merge, Newton's method
cannot tell them closer apart."""
NEWTON = 40
"""Newton steps towards a stationary point."""
Change = Literal["modes merge", "modes split", "saddle vanishes", "saddle appears", "eigenvalues cross"]


_CHANGES: dict[str, tuple[Change, Change]] = {
    "modes": ("modes merge", "modes split"),
    "saddles": ("saddle vanishes", "saddle appears"),
}


@dataclass(frozen=True, slots=True)
class LevelEvent:
    """A level at which something changes its kind.

    Attributes:
        sigma: The level.
        error: Half the last bracket.
        kind: What happens as the noise grows.
        before: Count below the level, or index of the direction that led.
        after: Count above it.
        where: What it was seen at, in words.
    """

    sigma: float
    error: float
    kind: Change
    before: int
    after: int
    where: str

    def __str__(self) -> str:
        return f"σ = {self.sigma:.4g}: {self.kind} ({self.before} → {self.after}), {self.where}"


# -- stationary points


def find_stationary(mixture: GaussianMixture, sigma: float, *, tol: float = 1e-11) -> tuple[int, int]:
    """Number of modes and of saddles of index 1 of a mixture at a noise level.

    Newton's method on the gradient from the means, from points between each two of them and from a grid over
    their spread; a step is bounded by half the smallest width, so that no start leaps over its neighbours.

    Args:
        mixture: The mixture; a grid covers two dimensions, more are covered by the points between means.
        sigma: Noise level.
        tol: Size of a score that counts as none, in inverse data units.

    Returns:
        (modes, saddles).
    """
    means = mixture.means
    pairs = torch.cartesian_prod(torch.arange(len(means)), torch.arange(len(means)))
    shares = torch.linspace(0.1, 0.9, 9, dtype=means.dtype)[:, None, None]
    between = (1 - shares) * means[pairs[:, 0]] + shares * means[pairs[:, 1]]
    starts = [means, between.reshape(-1, means.shape[1])]
    known = mixture.known
    if known is not None:
        starts += [known.minima.to(means), known.saddles.to(means)]
    if mixture.dim == 2:
        low, high = means.min(0).values, means.max(0).values
        reach = (high - low).max() * 0.25 + mixture.frame.data_std * 0.5
        sides = [
            torch.linspace(float(low[k] - reach), float(high[k] + reach), 11).to(means) for k in range(2)
        ]
        starts.append(torch.cartesian_prod(*sides))
    width = math.sqrt(float(torch.linalg.eigvalsh(mixture.covariances).min()) + sigma**2)
    x = _settle(mixture, torch.cat(starts), sigma, width, tol)
    if len(x):  # stationary points about to merge lie closer together than the starts
        _, vectors = torch.linalg.eigh(mixture.hessian(x, sigma))
        reach = width * torch.logspace(-3, 0, 7, dtype=x.dtype)
        around = x[:, None, None] + reach[:, None, None] * vectors.mT[:, None]
        back = x[:, None, None] - reach[:, None, None] * vectors.mT[:, None]
        more = torch.cat([x, around.reshape(-1, mixture.dim), back.reshape(-1, mixture.dim)])
        x = _settle(mixture, more, sigma, width, tol)
    if len(x) == 0:
        return 0, 0
    unstable = (torch.linalg.eigvalsh(mixture.hessian(x, sigma)) > 0).sum(-1)
    return int((unstable == 0).sum()), int((unstable == 1).sum())


def _settle(mixture: GaussianMixture, x: Tensor, sigma: float, width: float, tol: float) -> Tensor:
    """The different stationary points that Newton's method reaches from starts, shape (count, dim)."""
    for _ in range(NEWTON):
        pull, bend = mixture.score(x, sigma), mixture.hessian(x, sigma)
        values, vectors = torch.linalg.eigh(bend)
        safe = torch.where(values.abs() < 1e-12, torch.full_like(values, 1e-12), values)
        step = -(vectors @ ((vectors.mT @ pull[..., None]) / safe[..., None]))[..., 0]
        size = step.norm(dim=-1, keepdim=True)
        x = x + step * (0.5 * width / size.clamp_min(1e-300)).clamp_max(1.0)
    x = x[mixture.score(x, sigma).norm(dim=-1) < tol * max(1.0, 1.0 / width)]
    same = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist") < SAME * width
    return x[~same.tril(-1).any(dim=1)]


def find_mode_events(mixture: GaussianMixture, levels: tuple[float, ...]) -> list[LevelEvent]:
    """Levels at which the number of modes or of saddles of a mixture changes, by bisection of their ratio.

    Args:
        mixture: The mixture.
        levels: Levels above 0, ascending; changes that undo each other between two of them are not seen.

    Returns:
        Every change, with half its bracket as the error.
    """
    known: dict[float, tuple[int, int]] = {}

    def count(sigma: float) -> tuple[int, int]:
        if sigma not in known:
            known[sigma] = find_stationary(mixture, sigma)
        return known[sigma]

    events = []
    for below, above in itertools.pairwise(levels):
        for kind, name in enumerate(("modes", "saddles")):
            start = below
            while count(start)[kind] != count(above)[kind]:
                before = count(start)[kind]
                low, high = _bracket(lambda s, k=kind, b=before: count(s)[k] == b, start, above)
                after = count(high)[kind]
                change = _CHANGES[name][after > before]
                half = 0.5 * (high - low)
                events.append(
                    LevelEvent(low + half, half, change, before, after, f"{name} of {mixture.name}")
                )
                start = high
    return events


def _bracket(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """The last level at which something holds and the first at which it does not."""
    for _ in range(BISECTIONS):
        middle = math.sqrt(low * high)
        if holds(middle):
            low = middle
        else:
            high = middle
    return low, high


# -- leading directions


def find_crossings(
    model: ScoreModel, point: Tensor, levels: tuple[float, ...], *, where: str = "posterior"
) -> list[LevelEvent]:
    """Levels at which the two largest eigenvalues of the denoiser's Jacobian at a point cross.

    Args:
        model: The denoiser, differentiable, in few dimensions.
        point: Shape (dim,).
        levels: Levels above 0, ascending.
        where: What the point is, in words.

    Returns:
        One event a crossing: the direction that leads below gives its place to one nearly orthogonal to it.
        An avoided crossing turns the leading direction gradually and is none.
    """
    if point.shape[0] < 2:
        return []
    lead = [_leading(model, point, sigma) for sigma in levels]
    events = []
    for k in range(len(levels) - 1):
        if float((lead[k] @ lead[k + 1]).abs()) > 0.7:
            continue
        low, high = _bracket(
            lambda s, v=lead[k]: float((v @ _leading(model, point, s)).abs()) > 0.7, levels[k], levels[k + 1]
        )
        sharp = float((_leading(model, point, low) @ _leading(model, point, high)).abs())
        if sharp < 0.3:
            sigma = 0.5 * (low + high)
            events.append(LevelEvent(sigma, 0.5 * (high - low), "eigenvalues cross", 0, 1, where))
    return events


def _leading(model: ScoreModel, point: Tensor, sigma: float) -> Tensor:
    jacobian = dense_jacobian(lambda y: model.denoise(y, sigma), point[None])[0]
    return torch.linalg.eigh(0.5 * (jacobian + jacobian.mT))[1][:, -1]
