"""Which frames belong together: variables, labels, times, and the trajectories that nothing may cross.

A *group* is what the user names: a session, a trial, a flow. A *run* is a stretch of one group without a
hole: frames follow each other in time, and a step longer than one and a half usual ones ends it. Positives in
time, windows of the convolution and splines stay inside a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from workbench.errors import SettingError, ShapeError

_HOLE = 1.5  # usual steps after which a run has ended


@dataclass(frozen=True, slots=True)
class Context:
    """What is known about frames beside their latents.

    Attributes:
        variables: Continuous variables, shape (count, k), float64; None if there are none.
        labels: Classes, shape (count,), int64; None if there are none.
        groups: Number of each frame's trajectory, shape (count,), int64.
        times: Time of each frame in the user's unit, shape (count,), float64.
        runs: Number of each frame's stretch without a hole, shape (count,), int64.
        order: Rows by run and time, shape (count,), int64.
    """

    variables: Tensor | None
    labels: Tensor | None
    groups: Tensor
    times: Tensor
    runs: Tensor
    order: Tensor

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def rank(self) -> Tensor:
        """Where each row stands in `order`, shape (count,)."""
        rank = torch.empty_like(self.order)
        rank[self.order] = torch.arange(len(self.order))
        return rank

    def bounds(self) -> tuple[Tensor, Tensor]:
        """First and last position in `order` of the run that each position belongs to, shapes (count,)."""
        runs = self.runs[self.order]
        starts = torch.cat([torch.ones(1, dtype=torch.bool), runs[1:] != runs[:-1]])
        number = starts.long().cumsum(0) - 1
        first = starts.nonzero()[:, 0]
        last = torch.cat([first[1:] - 1, torch.tensor([len(runs) - 1])])
        return first[number], last[number]

    def windows(self, width: int) -> Tensor:
        """Rows that a filter of a width sees around each row, the edges of its run repeated.

        Args:
            width: Number of frames; an even width sees one more of the past.

        Returns:
            Rows, shape (count, width), int64.
        """
        first, last = self.bounds()
        place = self.rank
        steps = torch.arange(width) - width // 2
        seen = place[:, None] + steps
        seen = torch.maximum(torch.minimum(seen, last[place][:, None]), first[place][:, None])
        return self.order[seen]

    def select(self, rows: Tensor) -> "Context":
        """The context of some rows; a run from which frames were taken out falls into pieces.

        Args:
            rows: Rows to keep, shape (kept,), int64.

        Returns:
            Their context, in the order of `rows`.
        """
        place = self.rank[rows]
        order = torch.argsort(place)
        runs = self.runs[rows][order]
        new = (runs[1:] != runs[:-1]) | (place[order].diff() != 1)
        number = torch.cat([torch.zeros(1, dtype=torch.long), new.long().cumsum(0)])
        pieces = torch.empty_like(number)
        pieces[order] = number
        return Context(
            variables=None if self.variables is None else self.variables[rows],
            labels=None if self.labels is None else self.labels[rows],
            groups=self.groups[rows],
            times=self.times[rows],
            runs=pieces,
            order=order,
        )


def make_context(
    count: int,
    *indices: object,
    groups: object = None,
    times: object = None,
) -> Context:
    """Read what the user knows about the frames.

    Args:
        count: Number of frames.
        indices: Any number of continuous variables, shape (count,) or (count, k) in floating point, and at
            most one of whole numbers, shape (count,): labels.
        groups: One trajectory name a frame, whole numbers or text; None for one trajectory.
        times: One time a frame; None counts the rows.

    Returns:
        The context.

    Raises:
        ShapeError: If something has another length than the frames.
        SettingError: If a value is not finite, two index arrays hold labels, or two frames of a trajectory
            share a time.
    """
    if isinstance(count, bool) or count < 1:
        raise SettingError(f"{count} frames", "at least 1")
    continuous, labels = [], None
    for index in indices:
        if index is None:
            continue
        values = _array(index, count, "the auxiliary variable")
        if np.issubdtype(values.dtype, np.floating):
            _check_finite(values, "the auxiliary variable")
            continuous.append(values.reshape(count, -1).astype(np.float64))
            continue
        if labels is not None:
            raise SettingError(
                "two arrays of labels", "at most one array of whole numbers", "their product as one"
            )
        if values.ndim > 1 and values.size != count:
            raise ShapeError(f"labels of shape {values.shape}", f"({count},)", "one column of them")
        labels = np.unique(values.reshape(count), return_inverse=True)[1]
    moments = (
        np.arange(count, dtype=np.float64) if times is None else _array(times, count, "times").reshape(count)
    )
    moments = moments.astype(np.float64)
    _check_finite(moments, "times")
    names = np.zeros(count, dtype=np.int64)
    if groups is not None:
        names = np.unique(_array(groups, count, "groups").reshape(count), return_inverse=True)[1]
    order, runs = _runs(names, moments)
    return Context(
        variables=torch.from_numpy(np.concatenate(continuous, axis=1)) if continuous else None,
        labels=None if labels is None else torch.from_numpy(labels.astype(np.int64)),
        groups=torch.from_numpy(names.astype(np.int64)),
        times=torch.from_numpy(moments),
        runs=torch.from_numpy(runs),
        order=torch.from_numpy(order),
    )


def context_of(given: object, count: int) -> Context:
    """A context from whatever came: one itself, nothing, one array, or several.

    Args:
        given: A `Context`, None, an array or tensor, or a tuple or list of them.
        count: Number of frames.

    Returns:
        The context.

    Raises:
        ShapeError: If it is one of another number of frames.
    """
    if isinstance(given, Context):
        if len(given) != count:
            raise ShapeError(f"a context of {len(given)} frames", f"one of {count}, as many as latents")
        return given
    if given is None:
        return make_context(count)
    if isinstance(given, tuple | list) and given and hasattr(given[0], "shape"):
        return make_context(count, *given)
    return make_context(count, given)


def join_sessions(sessions: Sequence[np.ndarray | Tensor]) -> tuple[Tensor, Tensor]:
    """Several recordings of the same width as one table, with the session of every row.

    Args:
        sessions: Tables of shapes (count_i, dim).

    Returns:
        The table, shape (sum of counts, dim), and the groups, shape (sum of counts,).

    Raises:
        ShapeError: If their widths differ.
    """
    tables = [torch.as_tensor(session) for session in sessions]
    widths = {tuple(table.shape[1:]) for table in tables}
    if len(widths) != 1:
        raise ShapeError(
            f"sessions of widths {sorted(widths)}", "one width", "one fit a session, then `consistency`"
        )
    groups = torch.cat([torch.full((len(table),), i) for i, table in enumerate(tables)])
    return torch.cat(tables), groups


def _runs(groups: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows by group and time, and the run of each row."""
    order = np.lexsort((times, groups))
    same = np.diff(groups[order]) == 0
    steps = np.diff(times[order])
    if np.any(same & (steps <= 0)):
        row = int(order[1:][same & (steps <= 0)][0])
        raise SettingError(
            f"two frames at time {times[row]:g} in one trajectory", "one frame a time", "groups=trials"
        )
    usual = np.median(steps[same]) if same.any() else 1.0
    new = ~same | (steps > _HOLE * usual)
    number = np.concatenate([[0], np.cumsum(new)])
    runs = np.empty(len(order), dtype=np.int64)
    runs[order] = number
    return order.astype(np.int64), runs


def _array(given: object, count: int, name: str) -> np.ndarray:
    values = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    if values.ndim == 0 or len(values) != count:
        length = "no axis" if values.ndim == 0 else f"{len(values)} entries"
        raise ShapeError(f"{name} with {length}", f"{count}, one a frame", f"{name}[:{count}]")
    return values


def _check_finite(values: np.ndarray, name: str) -> None:
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        raise SettingError(
            f"{int(bad.sum())} entries of {name} that are not finite, the first in row {int(bad.argmax())}",
            "finite numbers",
            "leaving those frames out",
        )
