"""Predicted against measured: medians over seeds with intervals, and the rank correlation.

References:
    An introduction to the bootstrap (Efron, Tibshirani, 1993), chapter 13
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.stats import rankdata
from torch import Tensor

from workbench.anisotropy.spectrum import RESOLVED
from workbench.anisotropy.trials import Trial
from workbench.errors import SettingError


@dataclass(frozen=True, slots=True)
class Interval:
    """A median over seeds with its bootstrap interval.

    Attributes:
        median: The median.
        low: 2.5 % quantile of resampled medians.
        high: 97.5 % quantile.
        seeds: How many seeds.
    """

    median: float
    low: float
    high: float
    seeds: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Predicted against measured over several directions.

    Attributes:
        eigenvalues: Predicted difficulty of each direction, shape (directions,).
        distances: Sliced W2 after the last step, one interval a direction.
        rank_correlation: Spearman's, of the eigenvalue with the median distance; positive where the
            conjecture holds.
        beats_zero: Whether each direction's median is below the generator that returns zeros.
    """

    eigenvalues: Tensor
    distances: tuple[Interval, ...]
    rank_correlation: float
    beats_zero: tuple[bool, ...]


def median_interval(values: Sequence[float], *, resamples: int = 2000, seed: int = 0) -> Interval:
    """Median with a bootstrap interval over seeds; with three seeds it is their range.

    Raises:
        SettingError: If there is no value.
    """
    if not values:
        raise SettingError("no values", "at least one seed")
    every = torch.tensor(values, dtype=torch.float64)
    picks = torch.randint(
        len(values), (resamples, len(values)), generator=torch.Generator().manual_seed(seed)
    )
    medians = every[picks].quantile(0.5, dim=1)
    low, high = torch.quantile(medians, torch.tensor([0.025, 0.975], dtype=torch.float64))
    return Interval(float(every.quantile(0.5)), float(low), float(high), len(values))


def compare_trials(trials: Sequence[Trial]) -> Comparison:
    """Predicted against measured: trials are grouped by their direction, seeds within a group.

    Args:
        trials: Finished trials of at least two directions.

    Returns:
        The comparison, directions by ascending eigenvalue.

    Raises:
        SettingError: If there are fewer than two directions.
    """
    groups: dict[tuple[float, int], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.eigenvalue, trial.index), []).append(trial)
    if len(groups) < 2:
        raise SettingError(
            f"trials of {len(groups)} direction", "at least two directions with their eigenvalues"
        )
    ordered = sorted(groups)
    distances = tuple(median_interval([float(t.sliced[-1]) for t in groups[one]]) for one in ordered)
    eigenvalues = torch.tensor([value for value, _ in ordered], dtype=torch.float64)
    medians = torch.tensor([d.median for d in distances], dtype=torch.float64)
    anchors = [min(t.baselines.zero.mean for t in groups[one]) for one in ordered]
    return Comparison(
        eigenvalues=eigenvalues,
        distances=distances,
        rank_correlation=rank_correlation(eigenvalues, medians),
        beats_zero=tuple(bool(d.median < zero) for d, zero in zip(distances, anchors, strict=True)),
    )


def undecided(comparison: Comparison) -> str:
    """What the trials of a comparison cannot decide, in one sentence; empty where its ends are apart.

    A bootstrap of one or two seeds has no width that means anything, and ends whose intervals overlap may
    come out in the other order with other seeds.
    """
    first, last = comparison.distances[0], comparison.distances[-1]
    seeds = min(d.seeds for d in comparison.distances)
    if seeds < 3:
        return f"{seeds} seed{'s' * (seeds > 1)} a direction: the sign is not decided"
    if first.low <= last.high and last.low <= first.high:
        return "the intervals of λ_min and λ_max overlap: the sign is not decided"
    return ""


def doubtful(trials: Sequence[Trial]) -> str:
    """Which end of a plan is no direction of its own, in one clause each; empty where both are."""
    ordered = sorted(trials, key=lambda trial: trial.eigenvalue)
    ends = {"λ_min": ordered[0].meaning, "λ_max": ordered[-1].meaning} if ordered else {}
    return "; ".join(f"{end}: {words}" for end, words in ends.items() if words not in ("", RESOLVED))


def rank_correlation(first: Tensor, second: Tensor) -> float:
    """Spearman's rank correlation, ties averaged; zero where one of the two is constant."""
    ranks = torch.stack([torch.from_numpy(rankdata(v.numpy())) for v in (first.double(), second.double())])
    centred = ranks - ranks.mean(1, keepdim=True)
    size = centred.norm(dim=1).prod()
    return float(centred.prod(0).sum() / size) if size > 0 else 0.0
