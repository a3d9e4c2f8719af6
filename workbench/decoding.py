"""How well a label is read from an embedding, on stretches of time that the embedding has not seen.

Windows next to each other are nearly the same, so that held out are whole blocks, with a guard on both sides.
The reader is a vote of nearest neighbours; accuracy is averaged over classes, so that a frequent class counts
as one, and its error comes from resampling blocks, not windows.

References:
    Varoquaux et al., "Assessing and tuning brain decoders", 2017, https://doi.org/10.1016/j.neuroimage.2016.10.038
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.checks import check_count
from workbench.draws import draw_integers, seeded
from workbench.errors import SettingError, ShapeError
from workbench.report import Estimate


@dataclass(frozen=True, slots=True)
class BlockSplit:
    """Which windows teach and which are asked.

    Attributes:
        train: Windows to learn from, shape (count,).
        test: Windows to be read; those of the guard are in neither, shape (count,).
        blocks: Number of the block of each window, shape (count,).
    """

    train: Bool[Tensor, " count"]
    test: Bool[Tensor, " count"]
    blocks: Int[Tensor, " count"]


def split_blocks(
    groups: Int[Tensor, " count"],
    *,
    labels: Int[Tensor, " count"] | None = None,
    blocks: int = 10,
    every: int = 5,
    guard: int = 1,
) -> BlockSplit:
    """Hold out every so many blocks of each recording.

    Args:
        groups: Recording of each window, windows in the order of time, shape (count,).
        labels: If given, a stretch of one label is a block, in place of equal blocks.
        blocks: Equal blocks of a recording.
        every: One block of so many is held out; with labels one stretch of each label in turn.
        guard: Windows next to a held-out block that are left out.

    Returns:
        The split.

    Raises:
        SettingError: If nothing is held out.
    """
    check_count("blocks", blocks, least=2)
    check_count("every", every, least=2)
    check_count("guard", guard, least=0)
    number, out = torch.zeros_like(groups), torch.zeros(len(groups), dtype=torch.bool)
    done = 0
    for group in groups.unique().tolist():
        rows = (groups == group).nonzero()[:, 0]
        if labels is None:
            own = torch.arange(len(rows)) * blocks // len(rows)
            held = torch.arange(blocks) % every == every - 1
        else:
            change = torch.cat([torch.zeros(1, dtype=torch.bool), labels[rows].diff() != 0])
            own = change.long().cumsum(0)
            first = torch.cat([torch.ones(1, dtype=torch.bool), own.diff() != 0])
            held = _in_turn(labels[rows][first], every)
        number[rows] = own + done
        out[rows] = held[own]
        done += int(own.max()) + 1
    near = out.clone()
    for _ in range(guard):
        near = near | torch.cat([near[1:], near[-1:]]) | torch.cat([near[:1], near[:-1]])
    if not bool(out.any()) or bool(near.all()):
        raise SettingError(
            f"blocks={blocks}, every={every} for {len(groups)} windows", "some held out and some kept"
        )
    return BlockSplit(~near, out, number)


def _in_turn(labels: Tensor, every: int) -> Tensor:
    """Of the stretches of each label, every so manieth."""
    held = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique().tolist():
        held[(labels == label).nonzero()[:, 0][every - 1 :: every]] = True
    return held


def measure_decoding(
    points: Float[Tensor, "count axes"],
    labels: Int[Tensor, " count"],
    split: BlockSplit,
    *,
    k: int = 15,
    draws: int = 200,
    generator: torch.Generator | None = None,
) -> Estimate:
    """Balanced accuracy of a vote of neighbours on held-out blocks.

    Args:
        points: Embedded windows, by a map that learnt from `split.train` alone.
        labels: Class of each.
        split: What is held out.
        k: Neighbours that vote.
        draws: Resamples of the held-out blocks.
        generator: Source of the resamples; that of seed 0 if None.

    Returns:
        The accuracy, chance being one over the number of classes.

    Raises:
        ShapeError: If points, labels and split differ in number.
    """
    if not len(points) == len(labels) == len(split.train):
        raise ShapeError(f"{len(points)} points and {len(labels)} labels", f"{len(split.train)} of both")
    check_count("k", k)
    known, asked = points[split.train], points[split.test]
    truth, classes = labels[split.test], int(labels.max()) + 1
    votes = torch.zeros(len(asked), classes)
    for part in torch.arange(len(asked)).split(1024):
        near = torch.cdist(asked[part].double(), known.double()).topk(k, largest=False).indices
        votes[part] = torch.nn.functional.one_hot(labels[split.train][near], classes).sum(1).to(votes)
    right = (votes.argmax(1) == truth).double()
    blocks, index = split.blocks[split.test].unique(return_inverse=True)
    hits = torch.zeros(len(blocks), classes, dtype=torch.float64)
    sizes = torch.zeros_like(hits)
    hits.index_put_((index, truth), right, accumulate=True)
    sizes.index_put_((index, truth), torch.ones_like(right), accumulate=True)
    generator = seeded(generator)
    chosen = draw_integers(len(blocks), (draws, len(blocks)), hits, generator)
    spread = _balanced(hits[chosen].sum(1), sizes[chosen].sum(1))
    value = _balanced(hits.sum(0), sizes.sum(0))
    how = f"bootstrap over {len(blocks)} held-out blocks, {len(asked)} windows"
    return Estimate(float(value), float(spread.std()), "", how)


def _balanced(hits: Tensor, sizes: Tensor) -> Tensor:
    """Mean over the classes that are there."""
    there = sizes > 0
    return torch.where(there, hits / sizes.clamp_min(1), 0.0).sum(-1) / there.sum(-1)
