"""Drawing pairs of frames that belong together.

========== ============================================================= =================================
kind        positive of frame i                                           use
========== ============================================================= =================================
time        the frame `offset` later in the same run                      no labels
time_delta  the frame nearest to y_i + (y_{m+offset} - y_m), m random     continuous y, its own increments
delta       the frame nearest to y_i + delta N(0, 1)                      continuous y, a Gaussian kernel
discrete    any other frame of the same label                             classes
mixed       the same label, then as time_delta                            labels and a continuous y
multi       one of the above inside each group, groups equally often      several sessions or trials
========== ============================================================= =================================

Nearest frames come from a k-d tree over y. To keep a search inside a class or a group, its number is one more
coordinate of the tree, scaled so that the next class is farther than any frame of the own one.

References:
    Schneider, Lee, Mathis, "Learnable latent embeddings for joint behavioural and neural analysis", 2023,
        https://doi.org/10.1038/s41586-023-06031-6
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import Tensor

from workbench.checks import check_choice, check_count, check_number
from workbench.conda.context import Context
from workbench.draws import draw_integers, draw_normal, draw_uniform
from workbench.errors import SettingError

KINDS = ("time", "time_delta", "delta", "discrete", "mixed", "multi")
"""The samplers to choose from."""

PRIORS = ("empirical", "balanced")
"""How often classes serve as references: as often as they occur, or equally."""


@runtime_checkable
class Positives(Protocol):
    """A law of pairs."""

    @property
    def references(self) -> "Classes":
        """Frames that can be references, by class."""
        ...

    def draw(self, reference: Tensor, generator: torch.Generator) -> Tensor:
        """One positive for each reference, shapes (n,)."""
        ...


@dataclass(frozen=True, slots=True)
class Classes:
    """Rows sorted by class.

    Attributes:
        rows: Rows, class by class.
        starts: Where each class begins in `rows`, shape (classes,).
        counts: Its size.
        balanced: Whether classes are drawn equally often.
    """

    rows: Tensor
    starts: Tensor
    counts: Tensor
    balanced: bool = False

    @classmethod
    def of(cls, classes: Tensor, rows: Tensor, *, balanced: bool = False, count: int | None = None):
        """Sort some rows by class.

        Args:
            classes: Class of every row, shape (all,).
            rows: Those to sort, shape (n,).
            balanced: Whether classes are drawn equally often.
            count: Number of classes; the largest one met plus one if None.
        """
        own = classes[rows]
        size = torch.bincount(own, minlength=count or 0)
        starts = torch.cat([torch.zeros(1, dtype=torch.long), size.cumsum(0)[:-1]])
        return cls(rows[torch.argsort(own, stable=True)], starts, size, balanced)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """References by the prior, shape (count,)."""
        if not self.balanced:
            return self.rows[draw_integers(len(self.rows), (count,), self.rows, generator)]
        there = self.counts.nonzero()[:, 0]
        return self.inside(there[draw_integers(len(there), (count,), self.rows, generator)], generator)

    def inside(self, classes: Tensor, generator: torch.Generator) -> Tensor:
        """One row of each class named, shape of `classes`."""
        share = draw_uniform(classes.shape, torch.empty(0, dtype=torch.float64), generator)
        place = (share * self.counts[classes]).long()
        return self.rows[self.starts[classes] + place]


@dataclass(frozen=True, slots=True)
class TimePositives:
    """Frames a fixed number of steps later, never past the end of a run.

    Attributes:
        order: Rows by run and time.
        rank: Place of each row in `order`.
        offsets: Steps; each pair takes one of them.
        references: Frames from which the largest step stays inside the run.
    """

    order: Tensor
    rank: Tensor
    offsets: Tensor
    references: Classes

    def draw(self, reference: Tensor, generator: torch.Generator) -> Tensor:
        """One positive for each reference."""
        if len(self.offsets) == 1:
            return self.order[self.rank[reference] + self.offsets]
        chosen = draw_integers(len(self.offsets), tuple(reference.shape), reference, generator)
        return self.order[self.rank[reference] + self.offsets[chosen]]


@dataclass(frozen=True, slots=True)
class NearPositives:
    """Frames nearest to a displaced variable, inside their own class.

    Attributes:
        tree: k-d tree over the variable and the class.
        values: What it holds, shape (count, k + 1).
        classes: Class of each row, shape (count,).
        delta: Spread of a Gaussian displacement, None for increments of the data.
        sources: Rows m from which increments start, by class.
        later: Row of y_{m+offset} for each row, shape (count,).
        references: Frames that can be references.
    """

    tree: KDTree
    values: Tensor
    classes: Tensor
    delta: float | None
    sources: Classes | None
    later: Tensor | None
    references: Classes

    def draw(self, reference: Tensor, generator: torch.Generator) -> Tensor:
        """One positive for each reference."""
        target = self.values[reference]
        if self.sources is None or self.later is None:
            shift = (self.delta or 0.0) * draw_normal((len(target), target.shape[1] - 1), target, generator)
        else:
            m = self.sources.inside(self.classes[reference], generator)
            shift = (self.values[self.later[m]] - self.values[m])[:, :-1]
        target = torch.cat([target[:, :-1] + shift, target[:, -1:]], dim=1)
        return torch.from_numpy(self.tree.query(target.numpy(), workers=-1)[1])


@dataclass(frozen=True, slots=True)
class DiscretePositives:
    """Any other frame of the same label.

    Attributes:
        classes: Label of each row.
        place: Place of each row among those of its label.
        members: Rows by label.
        references: Frames whose label has at least one more.
    """

    classes: Tensor
    place: Tensor
    members: Classes
    references: Classes

    def draw(self, reference: Tensor, generator: torch.Generator) -> Tensor:
        """One positive for each reference, never itself."""
        label = self.classes[reference]
        size = self.members.counts[label]
        share = draw_uniform(tuple(reference.shape), torch.empty(0, dtype=torch.float64), generator)
        step = 1 + (share * (size - 1)).long()
        return self.members.rows[self.members.starts[label] + (self.place[reference] + step) % size]


def default_kind(context: Context) -> str:
    """The sampler that fits what is known, and the one users of such tools expect."""
    if context.variables is not None:
        return "time_delta" if context.labels is None else "mixed"
    return "time" if context.labels is None else "discrete"


def make_positives(
    context: Context,
    kind: str = "auto",
    *,
    offset: int | tuple[int, ...] = 1,
    delta: float = 0.1,
    inner: str = "auto",
    prior: str = "empirical",
) -> Positives:
    """The law of pairs for some frames.

    Args:
        context: What is known about them.
        kind: One of `KINDS`; "auto" takes time_delta for a variable, discrete for labels, mixed for both,
            time for none.
        offset: Steps of time positives and increments; several are mixed (time alone).
        delta: Spread of the Gaussian kernel of "delta", in the variable's unit.
        inner: For "multi": the sampler inside each group.
        prior: "empirical" or "balanced" references, for labels.

    Returns:
        The sampler.

    Raises:
        SettingError: If the context lacks what the kind needs, is constant, or no run is longer than the
            offset.
    """
    check_choice("positives", kind, ("auto", *KINDS))
    check_choice("prior", prior, PRIORS)
    kind = default_kind(context) if kind == "auto" else kind
    several = kind == "multi"
    if several:
        check_choice("inner", inner, ("auto", *KINDS[:-1]))
        kind = default_kind(context) if inner == "auto" else inner
    offsets = offset if isinstance(offset, tuple) else (offset,)
    if not offsets:
        raise SettingError("offset=()", "one whole number or several", "offset=1")
    for step in offsets:
        check_count("offset", step)
    classes = context.groups if several else torch.zeros(len(context), dtype=torch.long)
    balanced = several or prior == "balanced"
    if kind == "discrete":
        return _discrete(context, classes, balanced)
    if kind == "mixed":
        classes = _joint(classes, _labels(context))
    if kind == "delta":
        check_number("delta", delta, above=0.0)
        rows = torch.arange(len(context))
        return _near(context, classes, float(delta), None, None, Classes.of(classes, rows, balanced=balanced))
    return _timed(context, kind, classes, torch.tensor(offsets), balanced, several)


def _timed(
    context: Context, kind: str, classes: Tensor, offsets: Tensor, balanced: bool, several: bool
) -> Positives:
    first, last = context.bounds()
    rank, largest = context.rank, int(offsets.max())
    inside = (rank + largest <= last[rank]).nonzero()[:, 0]
    if several:
        known = torch.bincount(context.groups[inside], minlength=int(context.groups.max()) + 1)
        lengths = torch.bincount(context.groups)
        short = (known == 0).nonzero()[:, 0]
        if len(short):
            raise SettingError(
                f"trajectory {int(short[0])} of {int(lengths[short[0]])} frames",
                f"more than offset={largest} frames in a row in every trajectory",
                "a smaller offset",
            )
    if not len(inside):
        longest = int((last - first).max()) + 1
        raise SettingError(
            f"offset={largest} where the longest trajectory has {longest} frames in a row",
            f"an offset below {longest}" if longest > 1 else "trajectories of two frames or more",
            "a smaller offset" if longest > 1 else "times that follow each other",
        )
    if kind == "time":
        return TimePositives(context.order, rank, offsets, Classes.of(classes, inside, balanced=balanced))
    later = torch.arange(len(context))
    later[inside] = context.order[rank[inside] + largest]
    if kind == "mixed":  # increments of any frame; the class only limits the search
        everywhere = torch.zeros_like(classes) if not several else context.groups
        sources = Classes.of(everywhere, inside)
        expand = torch.empty(int(classes.max()) + 1, dtype=torch.long)
        expand[classes] = everywhere
        sources = Classes(sources.rows, sources.starts[expand], sources.counts[expand])
    else:
        sources = Classes.of(classes, inside)
    rows = torch.arange(len(context))
    return _near(context, classes, None, sources, later, Classes.of(classes, rows, balanced=balanced))


def _near(
    context: Context,
    classes: Tensor,
    delta: float | None,
    sources: Classes | None,
    later: Tensor | None,
    references: Classes,
) -> NearPositives:
    y = context.variables
    if y is None:
        raise SettingError(
            "no continuous variable", "one for these positives", "positives='time', or context=variable"
        )
    span = float((y.amax(0) - y.amin(0)).norm())
    if not span > 0:
        raise SettingError("a constant variable", "one that varies", "positives='time'")
    reach = 4.0 * span + 16.0 * (0.0 if delta is None else delta) * y.shape[1] ** 0.5
    values = torch.cat([y, reach * classes[:, None].to(y)], dim=1).contiguous()
    tree = KDTree(np.ascontiguousarray(values.numpy()))
    return NearPositives(tree, values, classes, delta, sources, later, references)


def _discrete(context: Context, classes: Tensor, balanced: bool) -> DiscretePositives:
    labels = _joint(classes, _labels(context))
    rows = torch.arange(len(context))
    members = Classes.of(labels, rows)
    place = torch.empty_like(rows)
    place[members.rows] = rows - members.starts[labels[members.rows]]
    paired = (members.counts[labels] > 1).nonzero()[:, 0]
    if not len(paired):
        raise SettingError("labels that occur once each", "two frames or more a label", "positives='time'")
    references = Classes.of(labels, paired, balanced=balanced, count=len(members.counts))
    return DiscretePositives(labels, place, members, references)


def _labels(context: Context) -> Tensor:
    if context.labels is None:
        raise SettingError("no labels", "one whole number a frame", "context=labels")
    if not bool((context.labels != context.labels[0]).any()):
        raise SettingError("constant labels", "two classes or more", "positives='time'")
    return context.labels


def _joint(first: Tensor, second: Tensor) -> Tensor:
    """Numbers of the pairs of two classes, without holes."""
    pairs = first * (int(second.max()) + 1) + second
    return torch.unique(pairs, return_inverse=True)[1]
