"""How much memory a computation takes, and how many points of it fit into a budget.

The peak is of what lives during one call: every storage is followed from the operation that makes it to its
end, once for all its views; what was there before, points or weights, is not the call's. On a few points it
says what a point takes, and so how many go into one batch: all of them where they fit.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

PROBE = 64
"""Points that are tried to see what one of them takes."""
SMALL = 1024
"""Points that go into one batch untried."""
BUDGET = 2 * 2**30
"""Bytes that one batch may take; on CUDA it is half of what is free there."""


class Live(TorchDispatchMode):
    """Bytes that live, and their peak, of what the operations on this thread make.

    What was there before is left out, and so are the views of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.known: weakref.WeakSet[Any] = weakref.WeakSet()
        self.live = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.known.update(_storages((args, kwargs)))  # one that is not known here was there before
        out = func(*args, **(kwargs or {}))
        for storage in _storages(out):
            if storage not in self.known:
                self._count(storage)
        return out

    def _count(self, storage: Any) -> None:
        size = storage.nbytes()
        self.known.add(storage)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._freed, size)

    def _freed(self, size: int) -> None:
        self.live -= size


def _storages(tree: Any) -> list[Any]:
    """The storages of all tensors in a tree; wrappers around others, as transforms make them, have none."""
    found = []
    for leaf in tree_leaves(tree):
        if isinstance(leaf, Tensor):
            try:
                leaf.untyped_storage().data_ptr()
            except RuntimeError:
                continue
            found.append(leaf.untyped_storage())
    return found


def points_together(
    evaluate: Callable[[Tensor], object], points: Tensor, *, budget: int | None = None
) -> int:
    """How many points one evaluation may take within a budget of memory.

    Args:
        evaluate: What is to be evaluated, row by row.
        points: All of the points, shape (count, dim).
        budget: Bytes that a batch may take; `BUDGET`, or on CUDA half of what is free, if None.

    Returns:
        All of them, where they fit; at least `PROBE`. Evaluates `PROBE` points, unless there are few.
    """
    count = len(points)
    if count <= SMALL:
        return max(1, count)
    few = points[:PROBE]
    with Live() as counter:
        evaluate(few)
    if budget is None:
        cuda = points.device.type == "cuda"
        budget = torch.cuda.mem_get_info(points.device)[0] // 2 if cuda else BUDGET
    fit = PROBE * budget // max(1, counter.peak)
    parts = -(-count // max(PROBE, fit))
    return -(-count // parts)  # parts of one size
