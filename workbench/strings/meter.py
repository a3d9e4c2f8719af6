"""The meter through which solvers call models: chunks by memory, counts points, and can replay the bare
calls."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workbench.checks import check_count

_NUMBERS_PER_ENTRY = (
    64  # numbers a call keeps alive for each entry of a point: a guess that suits small networks
)


@dataclass(slots=True)
class _Kind:
    """One kind of call: same function, same number of rows."""

    function: Callable[..., Any]
    rows: Tensor
    rest: tuple[Any, ...]
    count: int = 0


class Meter:
    """Calls functions of points batch by batch.

    Args:
        memory_budget: Bytes that one call may take, estimated as 64 numbers an entry of its points; None for
            one batch. The answer does not depend on it.
    """

    def __init__(self, memory_budget: int | None = None) -> None:
        check_count("memory_budget", memory_budget, none=True, hint="memory_budget=2**30", why=" (bytes)")
        self.memory_budget = memory_budget
        self.points = 0
        self._kinds: dict[tuple[Any, ...], _Kind] = {}

    def rows_per_call(self, x: Tensor) -> int:
        """How many rows of x one call takes."""
        rows = max(1, x[..., 0].numel())
        if self.memory_budget is None:
            return rows
        fit = self.memory_budget // (_NUMBERS_PER_ENTRY * x.shape[-1] * x.element_size())
        return min(rows, max(1, fit))

    def __call__(self, function: Callable[..., Any], x: Tensor, *rest: Any) -> Any:
        """function(x, *rest) for points x of shape (*batch, dim).

        Args:
            function: Takes rows, shape (rows, dim), and returns a tensor, or a tuple of them, with one row
                each.
            x: Points.
            rest: Further arguments, the same for all points.

        Returns:
            What the function returns, with x's batch axes.
        """
        rows = x.reshape(-1, x.shape[-1])
        size = self.rows_per_call(x)
        parts = [self._once(function, part, rest) for part in rows.split(size)]
        if isinstance(parts[0], tuple):
            joined = (torch.cat(column) for column in zip(*parts, strict=True))
            return tuple(column.reshape(*x.shape[:-1], *column.shape[1:]) for column in joined)
        joined = parts[0] if len(parts) == 1 else torch.cat(parts)
        return joined.reshape(*x.shape[:-1], *joined.shape[1:])

    def _once(self, function: Callable[..., Any], rows: Tensor, rest: tuple[Any, ...]) -> Any:
        self.points += rows.shape[0]
        key = (function, rows.shape[0])
        kind = self._kinds.setdefault(key, _Kind(function, rows, rest))
        kind.rows, kind.rest, kind.count = rows, rest, kind.count + 1
        return function(rows, *rest)

    def replay(self, repeats: int = 5) -> float:
        """Seconds that the calls made so far take without a solver around them.

        Every distinct batch is run again on its last points a few times and its median time scaled by how
        often it was called, so replaying costs little.

        Args:
            repeats: Runs of each distinct batch.

        Returns:
            Seconds. Does not count as model calls.
        """
        total = 0.0
        for kind in self._kinds.values():
            times = []
            for _ in range(min(repeats, kind.count) + 1):
                _wait(kind.rows)
                begin = time.perf_counter()
                kind.function(kind.rows, *kind.rest)
                _wait(kind.rows)
                times.append(time.perf_counter() - begin)
            total += kind.count * sorted(times[1:] or times)[len(times[1:] or times) // 2]
        return total


def _wait(x: Tensor) -> None:
    if x.device.type == "cuda":
        torch.cuda.synchronize(x.device)
