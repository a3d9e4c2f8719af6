"""How much memory a computation takes, and how many points of it fit into a budget.

The peak is of what lives during one call: every tensor is followed from the operation that makes it to its
end, storages shared by views counted once. On a few points it says what a point takes, and so how many go
into one batch: all of them where they fit.
"""

import weakref
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

PROBE = 64
"""Points that are tried to see what one of them takes."""
SMALL = 1024
"""Points that go into one batch untried."""
BUDGET = 2 * 2**30
"""Bytes that one batch may take; on CUDA it is half of what is free there."""


class Live(TorchDispatchMode):
    """Bytes that live, and their peak, while operations run on this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[int, tuple[int, int]] = {}  # storage address: (tensors on it, its bytes)
        self.live = self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, Tensor):
                self._note(tensor)
        return out

    def _note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        try:
            key, size = storage.data_ptr(), storage.nbytes()
        except RuntimeError:  # a wrapper around other tensors, as transforms make them: no memory of its own
            return
        count, _ = self.held.get(key, (0, 0))
        if count == 0:
            self.live += size
            self.peak = max(self.peak, self.live)
        self.held[key] = (count + 1, size)
        weakref.finalize(tensor, self._drop, key)

    def _drop(self, key: int) -> None:
        count, size = self.held.get(key, (0, 0))
        if count == 1:
            self.live -= size
            del self.held[key]
        elif count > 1:
            self.held[key] = (count - 1, size)


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
    with Live() as counter:
        evaluate(points[:PROBE])
    if budget is None:
        cuda = points.device.type == "cuda"
        budget = torch.cuda.mem_get_info(points.device)[0] // 2 if cuda else BUDGET
    fit = PROBE * budget // max(1, counter.peak)
    parts = -(-count // max(PROBE, fit))
    return -(-count // parts)  # parts of one size
