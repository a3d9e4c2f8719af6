r"""Integrators of ordinary differential equations for many points at once, without a look at the device per
step.

A state is a tuple of tensors whose first one holds the points, shape (\*batch, dim); the others end in the
batch axes. Steps are fixed (Euler, Heun, classical Runge-Kutta) or left to an adaptive method of a library.
A point whose state stops being finite is frozen at its last finite value and its step is noted on the
device; the host reads it once, at the end.

References:
    Hairer, Norsett, Wanner, "Solving Ordinary Differential Equations I", 1993, section II.1
    torchdiffeq, https://github.com/rtqichen/torchdiffeq
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.report import Status

State = tuple[Tensor, ...]
"""Points of shape (*batch, dim), then quantities of shape (..., *batch) carried along."""

Derivative = Callable[[Tensor, State], State]
"""(time, a tensor without axes; state) -> rates of the state."""

Progress = Callable[[float, str], None]
"""Called with the fraction done and a sentence."""

ORDERS: dict[str, int] = {"euler": 1, "heun": 2, "rk4": 4}
"""Fixed-step solvers and their order, which for them is also the number of stages."""

ADAPTIVE: tuple[str, ...] = ("dopri5",)
"""Solvers that choose their own steps."""


@runtime_checkable
class Cancel(Protocol):
    """What a solver asks whether it should stop; a threading.Event is one."""

    def is_set(self) -> bool:
        """Whether to stop."""
        ...


@dataclass(frozen=True, slots=True)
class Solution:
    """Where an integration ended.

    Attributes:
        state: The last finite state of every point.
        reached: Number of steps done, of those asked for; for an adaptive solver 0 or 1.
        evaluations: Evaluations of the derivative.
        status: CONVERGED at the end, CANCELLED, or DIVERGED if any point stopped being finite.
        failed_at: First step at which a point was not finite, -1 for none, shape (*batch).
    """

    state: State
    reached: int
    evaluations: int
    status: Status
    failed_at: Tensor


def check_solver(solver: object, steps: object, tol: object = None) -> None:
    """Check the settings of an integration.

    Args:
        solver: A name in `ORDERS` or `ADAPTIVE`.
        steps: Number of steps.
        tol: Tolerance; looked at where the solver is adaptive.

    Raises:
        SettingError: If the solver is unknown, no step is asked for, or the tolerance promises nothing.
    """
    if not isinstance(solver, str) or (solver not in ORDERS and solver not in ADAPTIVE):
        raise SettingError(f"solver {solver!r}", f"one of {', '.join((*ORDERS, *ADAPTIVE))}", "solver='rk4'")
    if isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 1:
        raise SettingError(f"{steps!r} steps", "a whole number, at least one", "steps=50")
    if tol is not None and solver in ADAPTIVE:
        _check_tolerance(tol, solver)


def _check_tolerance(tol: object, solver: str) -> None:
    if isinstance(tol, bool) or not isinstance(tol, Real) or not 0.0 < float(tol) < 0.1:
        raise SettingError(f"tol={tol!r} for {solver}", "a number above 0 and below 0.1", "tol=1e-7")


def take_step(derivative: Derivative, state: State, t: Tensor, end: Tensor, solver: str) -> State:
    """One step of a fixed-step solver from t to end.

    Args:
        derivative: Right-hand side.
        state: State at t.
        t: Time, a tensor without axes.
        end: Time after the step.
        solver: A name in `ORDERS`.

    Returns:
        State at end. Differentiable. As many evaluations as the order.
    """
    step = end - t
    first = derivative(t, state)
    if solver == "euler":
        return _shifted(state, step, first)
    if solver == "heun":
        second = derivative(end, _shifted(state, step, first))
        return _shifted(state, 0.5 * step, _summed(first, second))
    middle = t + 0.5 * step
    second = derivative(middle, _shifted(state, 0.5 * step, first))
    third = derivative(middle, _shifted(state, 0.5 * step, second))
    fourth = derivative(end, _shifted(state, step, third))
    inner = _summed(second, third)
    return _shifted(state, step / 6.0, _summed(_summed(first, inner), _summed(inner, fourth)))


def integrate(
    derivative: Derivative,
    state: State,
    times: Tensor,
    *,
    solver: str = "rk4",
    tol: float = 1e-7,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    what: str = "integrating",
) -> Solution:
    """Integrate a state over a grid of times.

    Args:
        derivative: Right-hand side.
        state: State at times[0].
        times: Grid, shape (steps + 1,), rising or falling, on the state's device. An adaptive solver uses
            its ends.
        solver: A name in `ORDERS` or `ADAPTIVE`.
        tol: Relative and absolute tolerance of an adaptive solver.
        progress: Called after every step.
        cancel: Asked before every step.
        what: What is being done, for the progress line.

    Returns:
        The solution. Differentiable.
    """
    if solver in ADAPTIVE:
        _check_tolerance(tol, solver)
        return _integrate_adaptively(derivative, state, times, solver, tol, cancel)
    steps = times.shape[0] - 1
    batch = state[0].shape[:-1]
    failed_at = torch.full(batch, -1, dtype=torch.int64, device=state[0].device)
    reached, stopped = 0, False
    for step in range(steps):
        stopped = cancel is not None and cancel.is_set()
        if stopped:
            break
        state, failed_at = _kept_finite(
            state, take_step(derivative, state, times[step], times[step + 1], solver), failed_at, step
        )
        reached = step + 1
        if progress is not None:
            progress(reached / steps, f"{what}: step {reached} of {steps}")
    diverged = bool((failed_at >= 0).any())
    status = Status.CANCELLED if stopped else Status.DIVERGED if diverged else Status.CONVERGED
    return Solution(state, reached, reached * ORDERS[solver], status, failed_at)


_UNDERFLOW = ("underflow in dt", "non-finite values in state")


class _Cancelled(Exception):
    """Leaves an adaptive solver."""


def _integrate_adaptively(
    derivative: Derivative, state: State, times: Tensor, solver: str, tol: float, cancel: Cancel | None
) -> Solution:
    from torchdiffeq import odeint

    evaluations = 0

    def rates(t: Tensor, now: State) -> State:
        nonlocal evaluations
        if cancel is not None and cancel.is_set():
            raise _Cancelled
        evaluations += 1
        return derivative(t, now)

    batch = state[0].shape[:-1]
    failed_at = torch.full(batch, -1, dtype=torch.int64, device=state[0].device)
    try:
        path = odeint(rates, state, times[[0, -1]], rtol=tol, atol=tol, method=solver)
    except _Cancelled:
        return Solution(state, 0, evaluations, Status.CANCELLED, failed_at)
    except AssertionError as error:  # how the library says that its step has shrunk to nothing
        if not str(error).startswith(_UNDERFLOW):
            raise
        return Solution(state, 0, evaluations, Status.DIVERGED, torch.zeros_like(failed_at))
    state, failed_at = _kept_finite(state, tuple(part[-1] for part in path), failed_at, 0)
    status = Status.DIVERGED if bool((failed_at >= 0).any()) else Status.CONVERGED
    return Solution(state, 1, evaluations, status, failed_at)


def _shifted(state: State, step: Tensor | float, rates: State) -> State:
    return tuple(value + step * rate for value, rate in zip(state, rates, strict=True))


def _summed(one: State, other: State) -> State:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _kept_finite(before: State, after: State, failed_at: Tensor, step: int) -> tuple[State, Tensor]:
    """The new state where it is finite, the old one elsewhere, and the step of each point's first failure."""
    finite = torch.isfinite(after[0]).all(-1)
    for part in after[1:]:
        finite = finite & torch.isfinite(part).reshape(-1, *finite.shape).all(0)
    finite = finite & (failed_at < 0)
    kept = torch.where(finite.unsqueeze(-1), after[0], before[0])
    rest = tuple(torch.where(finite, new, old) for new, old in zip(after[1:], before[1:], strict=True))
    return (kept, *rest), torch.where(finite | (failed_at >= 0), failed_at, step)
