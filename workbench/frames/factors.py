"""Frames with two known factors, such as a letter and a style: keep one factor and change the other.

A frame of letter a in style s is hidden from everything while other letters of that style and other styles of
that letter are seen. Two maps, one by each factor, stand side by side as one embedding. A counterfactual
starts from a frame that was seen, keeps its place in the one map and moves in the other by the difference of
two means; what it leads to is held against the frame that was hidden.

The error is the root of the summed squared distance over that of the mean frame: 1 knows nothing.

References:
    Contrastive Diffusion Alignment (Sandilya et al., 2025), https://arxiv.org/abs/2510.14190
    Tenenbaum, Freeman, "Separating Style and Content with Bilinear Models", 2000,
        https://doi.org/10.1162/089976600300015349
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.checks import check_count
from workbench.errors import SettingError, ShapeError
from workbench.types import Points


@dataclass(frozen=True, slots=True)
class Swaps:
    """Counterfactuals whose answers are known.

    Attributes:
        start: Frame that each begins at, which was seen, shape (count,).
        truth: Hidden frame that it should lead to: the same kept factor, another changed one, shape (count,).
    """

    start: Int[Tensor, " count"]
    truth: Int[Tensor, " count"]

    def __len__(self) -> int:
        return len(self.start)


def hide_pairs(first: Tensor, second: Tensor, *, every: int = 6) -> Bool[Tensor, " count"]:
    """Hide one pair of two factors in so many, evenly: every value of either keeps most of its frames.

    Args:
        first: Index of the one factor of each frame, shape (count,).
        second: Index of the other, same shape.
        every: One value of the first factor in so many is hidden for each value of the second, in turn.

    Returns:
        True where hidden.

    Raises:
        ShapeError: If the factors differ in number.
        SettingError: If a value would be hidden altogether.
    """
    check_count("every", every, least=2)
    if first.shape != second.shape or first.ndim != 1:
        raise ShapeError(f"factors of shape {tuple(first.shape)} and {tuple(second.shape)}", "one a frame")
    hidden = (first + second) % every == every - 1
    for factor in (first, second):
        lost = set(factor.tolist()) - set(factor[~hidden].tolist())
        if lost or not bool(hidden.any()):
            raise SettingError(
                f"every={every} for {len(first)} frames of {len(factor.unique())} values",
                "some hidden and some kept of every value",
                "a larger every" if lost else "a smaller every",
            )
    return hidden


def plan_swaps(
    kept: Int[Tensor, " count"], changed: Int[Tensor, " count"], hidden: Bool[Tensor, " count"]
) -> Swaps:
    """For each hidden frame a seen one with the same kept factor, the changed factor far along its list.

    Args:
        kept: Index of the factor that is kept, of each frame.
        changed: Index of the factor that is changed.
        hidden: True where a frame was hidden, see `hide_pairs`.

    Returns:
        The counterfactuals, one a hidden frame that has a start.

    Raises:
        SettingError: If none has.
    """
    truth = hidden.nonzero()[:, 0]
    seen = (~hidden).nonzero()[:, 0]
    count = int(changed.max()) + 1
    turned = (changed[seen][None] - changed[truth][:, None] - count // 2) % count  # 0 is half a list away
    turned = torch.where(kept[seen][None] == kept[truth][:, None], turned, count)
    found, place = turned.min(dim=1)
    if not bool((found < count).any()):
        raise SettingError("hidden frames alone in their kept factor", "a seen frame with the same one")
    return Swaps(seen[place][found < count], truth[found < count])


def join_maps(maps: Sequence[Tensor]) -> Tensor:
    """Maps of the same frames side by side, each of spread one, so that both count when neighbours are found.

    Args:
        maps: Points, shape (count, dim) each.

    Returns:
        Shape (count, sum of dims).
    """
    spreads = [(points - points.mean(0)).square().mean().sqrt() for points in maps]
    least = torch.finfo(maps[0].dtype).tiny
    return torch.cat([p / spread.clamp_min(least) for p, spread in zip(maps, spreads, strict=True)], 1)


def change_factor(
    points: Tensor, labels: Int[Tensor, " count"], start: Int[Tensor, " n"], target: Int[Tensor, " n"]
) -> Tensor:
    """Move points from the mean of their own class to that of another.

    Args:
        points: Embedded frames, or latents, shape (count, dim).
        labels: Class of each.
        start: Rows to move.
        target: Class that each is given.

    Returns:
        The moved points, shape (n, dim).

    Raises:
        SettingError: For a class without frames.
    """
    classes = int(labels.max()) + 1
    sizes = torch.bincount(labels, minlength=classes)
    strange = [int(k) for k in target.unique() if not 0 <= int(k) < classes or not sizes[int(k)]]
    if strange:
        raise SettingError(f"class {strange[0]}", "a class that has frames")
    means = points.new_zeros(classes, points.shape[1]).index_add_(0, labels, points)
    means = means / sizes.clamp_min(1)[:, None].to(points)
    return points[start] + means[target] - means[labels[start]]


def measure_swaps(made: Mapping[str, Points], truth: Points, mean: Float[Tensor, " dim"]) -> dict[str, float]:
    """Relative error of frames, way by way.

    Args:
        made: What each way leads to, shape (n, dim).
        truth: The frames that were hidden, same shape.
        mean: The mean frame that was seen, shape (dim,).

    Returns:
        The errors, by name.
    """
    scale = (truth - mean).square().sum()
    return {name: float(((frames - truth).square().sum() / scale).sqrt()) for name, frames in made.items()}
