r"""Curves in the embedding: between observed times by splines, beyond them by linear dynamics.

A spline goes through observed points at their own times; a periodic one closes after a period. It is never
continued past its ends: a cubic grows like the cube of the distance there. What continues is linear dynamics
with delays, :math:`c_{t+1} = \sum_j A_j c_{t-j}`, as modes and eigenvalues of its companion matrix; an
eigenvalue outside the unit circle is moved onto it, so that a forecast of any length stays bounded.

A counterfactual moves a point by the difference of two conditional means.

References:
    de Boor, "A Practical Guide to Splines", 1978, chapters IV and X
    Schmid, "Dynamic mode decomposition of numerical and experimental data", 2010,
        https://doi.org/10.1017/S0022112010001217
    Askham, Kutz, "Variable projection methods for an optimized dynamic mode decomposition", 2018,
        https://doi.org/10.1137/M1124176
    PyDMD, https://pydmd.github.io/PyDMD/
"""

import math
import warnings
from dataclasses import dataclass

import torch
from scipy.interpolate import make_interp_spline
from torch import Tensor

from workbench.checks import check_choice, check_count, check_number, check_switch
from workbench.conda.context import Context, make_context
from workbench.errors import MissingExtra, SettingError, ShapeError

METHODS = ("ar", "dmd", "optimised")
"""How linear dynamics are fitted."""


@dataclass(frozen=True, slots=True)
class Spline:
    """A curve through points at their own times.

    Attributes:
        times: Increasing times of the points, shape (count,).
        points: Points, shape (count, dim).
        degree: 1 or 3; fewer points than four lower it.
        period: Time after which the curve closes; None for an open one.
    """

    times: Tensor
    points: Tensor
    degree: int = 3
    period: float | None = None

    @property
    def span(self) -> tuple[float, float]:
        """First and last time."""
        start = float(self.times[0])
        return start, (float(self.times[-1]) if self.period is None else start + self.period)

    def __call__(self, times: Tensor) -> Tensor:
        """Points of the curve.

        Args:
            times: Shape (m,); a closed curve takes any time.

        Returns:
            Shape (m, dim).

        Raises:
            SettingError: If an open curve is asked before its first or after its last point.
        """
        start, end = self.span
        at = times.detach().cpu().double()
        if self.period is not None:
            at = start + (at - start) % self.period
        elif bool((at < start).any()) or bool((at > end).any()):
            raise SettingError(
                f"times {float(at.min()):g} to {float(at.max()):g} on a spline over {start:g} to {end:g}",
                "times inside it: a spline says nothing past its ends",
                "fit_dynamics(points, context).forecast(history, steps)",
            )
        return torch.from_numpy(self._made()(at.numpy())).to(self.points)

    def even_times(self, count: int, *, fine: int = 16) -> Tensor:
        """Times at which the curve has gone equal lengths, shape (count,); ends included unless it closes."""
        start, end = self.span
        grid = torch.linspace(start, end, fine * max(count, len(self.times)) + 1, dtype=torch.float64)
        made = torch.from_numpy(self._made()(grid.numpy()))
        gone = torch.cat([torch.zeros(1, dtype=torch.float64), made.diff(dim=0).norm(dim=1).cumsum(0)])
        steps = torch.linspace(0.0, 1.0, count + (self.period is not None), dtype=torch.float64)
        wanted = steps[:count] * gone[-1]
        after = torch.searchsorted(gone, wanted).clamp(1, len(gone) - 1)
        share = (wanted - gone[after - 1]) / (gone[after] - gone[after - 1]).clamp_min(1e-300)
        return torch.lerp(grid[after - 1], grid[after], share.clamp(0, 1))

    def _made(self):
        knots, values = self.times.double(), self.points.detach().cpu().double()
        if self.period is None:
            return make_interp_spline(knots.numpy(), values.numpy(), k=min(self.degree, len(knots) - 1))
        knots = torch.cat([knots, knots[:1] + self.period])
        values = torch.cat([values, values[:1]])
        bc = "periodic" if self.degree == 3 else None
        return make_interp_spline(knots.numpy(), values.numpy(), k=self.degree, bc_type=bc)


def fit_spline(times: Tensor, points: Tensor, *, degree: int = 3, period: float | None = None) -> Spline:
    """The spline through points at their times.

    Args:
        times: Times of the points, shape (count,), in any order, no two alike.
        points: Points, shape (count, dim), any dim.
        degree: 3 for a cubic, 1 for straight segments.
        period: Time after which the curve closes, longer than the times span; None for an open curve.

    Returns:
        The curve.

    Raises:
        SettingError: If there are fewer than two points (three for a closed curve), two share a time, or the
            period is not longer than their span.
        ShapeError: If times and points differ in number.
    """
    times = torch.as_tensor(times, dtype=torch.float64).cpu()
    if points.ndim != 2 or times.shape != points.shape[:1]:
        raise ShapeError(
            f"{tuple(times.shape)} times of points of shape {tuple(points.shape)}", "one time a point"
        )
    if degree not in (1, 3):
        raise SettingError(f"degree={degree!r}", "1 or 3")
    if not bool(torch.isfinite(points).all()) or not bool(torch.isfinite(times).all()):
        raise SettingError("points or times that are not finite", "finite ones")
    least = 2 if period is None else 3
    if len(times) < least:
        raise SettingError(f"{len(times)} points", f"at least {least}")
    order = times.argsort()
    times, points = times[order], points[order]
    if bool((times.diff() <= 0).any()):
        raise SettingError("two points at one time", "one point a time")
    if period is not None:
        check_number("period", period, above=float(times[-1] - times[0]))
    return Spline(times, points, degree, period)


@dataclass(frozen=True, slots=True)
class LinearDynamics:
    """Dynamics of points with delays, as modes.

    Attributes:
        modes: Modes of the newest point, shape (dim, r), complex.
        dual: What turns a history and a constant into amplitudes, shape (r, delays dim + 1), complex.
        eigenvalues: Factor of each mode in one step, shape (r,), complex, none outside the unit circle if
            they were made stable.
        raw: The eigenvalues as fitted.
        mean: What is subtracted from points, shape (dim,).
        level: The constant.
        delays: Points of history.
        dt: Time of one step, in the user's unit.
        method: How they were fitted.
    """

    modes: Tensor
    dual: Tensor
    eigenvalues: Tensor
    raw: Tensor
    mean: Tensor
    level: float
    delays: int
    dt: float
    method: str

    @property
    def frequencies(self) -> Tensor:
        """Angular frequency of each mode, radians per unit of time."""
        return self.eigenvalues.angle() / self.dt

    def forecast(self, history: Tensor, steps: int) -> Tensor:
        """Points after a history.

        Args:
            history: The last points in order, shape (at least delays, dim), dt apart.
            steps: How many points to go on for.

        Returns:
            Shape (steps, dim); the first is one step after the last of the history.

        Raises:
            ShapeError: If the history is shorter than the delays or has another dimension.
        """
        check_count("steps", steps)
        if history.ndim != 2 or len(history) < self.delays or history.shape[1] != len(self.mean):
            raise ShapeError(
                f"a history of shape {tuple(history.shape)}",
                f"at least {self.delays} points of dimension {len(self.mean)}",
            )
        recent = (history[-self.delays :].to(self.mean) - self.mean).flip(0).reshape(-1)
        state = torch.cat([recent, torch.full((1,), self.level).to(recent)])
        amplitude = self.dual @ state.to(self.dual)
        powers = self.eigenvalues[:, None] ** torch.arange(1, steps + 1)
        return ((self.modes @ (amplitude[:, None] * powers)).real.mT + self.mean).to(history)


def fit_dynamics(
    points: Tensor,
    context: Context | None = None,
    *,
    method: str = "ar",
    delays: int = 2,
    rank: int | None = None,
    dt: float | None = None,
    ridge: float = 1e-9,
    stable: bool = True,
) -> LinearDynamics:
    """Linear dynamics of points, fitted inside runs.

    Args:
        points: Points, shape (count, dim).
        context: Which follow which; one run in the order of the rows if None.
        method: "ar" (least squares), "dmd" (exact) or "optimised" (variable projection, one run); the last
            two through PyDMD.
        delays: Points of history.
        rank: Modes kept by DMD; all if None.
        dt: Time of one step; the usual one of the context if None.
        ridge: Regularisation of the least squares, relative to the mean square of the points.
        stable: Whether eigenvalues outside the unit circle are moved onto it.

    Returns:
        The dynamics.

    Raises:
        SettingError: If no run is longer than the delays.
        MissingExtra: If PyDMD is not there.
    """
    check_choice("method", method, METHODS)
    check_count("delays", delays)
    check_count("rank", rank, none=True)
    check_number("dt", dt, above=0.0, none=True)
    check_number("ridge", ridge, least=0.0)
    check_switch("stable", stable)
    context = make_context(len(points)) if context is None else context
    points = points.detach().cpu().double()
    first, last = context.bounds()
    place = torch.arange(len(points))
    usable = ((place - first >= delays - 1) & (place < last)).nonzero()[:, 0]
    if not len(usable):
        raise SettingError(
            f"delays={delays} where the longest run has {int((last - first).max()) + 1} frames",
            f"a run of {delays + 1} frames",
            "delays=1",
        )
    if dt is None:
        moments = context.times[context.order]
        dt = float((moments[usable + 1] - moments[usable]).median())
    mean = points.mean(dim=0)
    rows = (points - mean)[context.order]
    dim, wide = points.shape[1], delays * points.shape[1]
    level = float(rows.square().mean().sqrt()) or 1.0
    steady = torch.full((len(usable), 1), level, dtype=rows.dtype)  # the centre need not be the mean
    state = torch.cat([rows[usable - j] for j in range(delays)] + [steady], dim=1)
    target = torch.cat([rows[usable + 1 - j] for j in range(delays)] + [steady], dim=1)
    if method == "ar":
        normal = state.T @ state + ridge * level**2 * len(state) * torch.eye(wide + 1, dtype=state.dtype)
        companion = torch.zeros(wide + 1, wide + 1, dtype=state.dtype)
        companion[:dim] = torch.linalg.solve(normal, state.T @ target[:, :dim]).T
        companion[dim:wide, : wide - dim] = torch.eye(wide - dim, dtype=state.dtype)
        companion[-1, -1] = 1.0
        raw, modes = torch.linalg.eig(companion)
    else:
        raw, modes = _with_pydmd(state, target, method, rank, bool(len(usable) == last[0] - delays + 1))
    size = raw.abs().clamp_min(1.0) if stable else torch.ones_like(raw.abs())
    return LinearDynamics(
        modes=modes[:dim],
        dual=torch.linalg.pinv(modes),
        eigenvalues=raw / size,
        raw=raw,
        mean=mean,
        level=level,
        delays=delays,
        dt=dt,
        method=method,
    )


def conditional_mean(points: Tensor, context: Context, at: Tensor | float | int, *, k: int = 32) -> Tensor:
    """Mean of the points whose label or variable is a value.

    Args:
        points: Points, shape (count, dim).
        context: Their labels (used if the value is a whole number) or variables.
        at: The value: a label, or one number a variable.
        k: Frames nearest in the variable over which the mean is taken.

    Returns:
        Shape (dim,).

    Raises:
        SettingError: If the value does not occur.
    """
    if isinstance(at, int) and not isinstance(at, bool) and context.labels is not None:
        chosen = (context.labels == at).nonzero()[:, 0]
        if not len(chosen):
            raise SettingError(f"label {at}", f"one from 0 to {int(context.labels.max())}")
        return points[chosen.to(points.device)].mean(dim=0)
    if context.variables is None:
        raise SettingError(f"the value {at!r} without a variable", "labels or variables in the context")
    if at is None:
        raise SettingError("no value", "a label or one number a variable", "before=0.5, after=1.0")
    wanted = torch.atleast_1d(torch.as_tensor(at, dtype=torch.float64))
    y = context.variables
    if wanted.shape != y.shape[1:]:
        raise ShapeError(f"{tuple(wanted.shape)} values", f"{tuple(y.shape[1:])}, one a variable")
    low, high = y.amin(0), y.amax(0)
    if not bool(((wanted >= low) & (wanted <= high)).all()):
        raise SettingError(
            f"the value {wanted.tolist()}", f"one inside {low.tolist()} to {high.tolist()}, where frames are"
        )
    spread = (high - low).clamp_min(torch.finfo(y.dtype).tiny)
    near = ((y - wanted) / spread).norm(dim=1).topk(min(k, len(y)), largest=False).indices
    return points[near.to(points.device)].mean(dim=0)


def shift_points(
    points: Tensor, start: Tensor, context: Context, before: Tensor | float | int, after: Tensor | float | int
) -> Tensor:
    """Counterfactual: where a point would be had its label or variable been another.

    Args:
        points: The embedding, shape (count, dim).
        start: Points to move, shape (*batch, dim).
        context: Labels or variables of the embedding.
        before: The value they have.
        after: The value they are given.

    Returns:
        start + mean(points | after) - mean(points | before).
    """
    shift = conditional_mean(points, context, after) - conditional_mean(points, context, before)
    return start + shift.to(start)


def _with_pydmd(
    state: Tensor, target: Tensor, method: str, rank: int | None, single: bool
) -> tuple[Tensor, Tensor]:
    try:
        from pydmd import BOPDMD, DMD
    except ImportError as error:
        raise MissingExtra.of("pydmd", "conda") from error
    most = min(state.shape)
    rank = most if rank is None else min(rank, most)
    with warnings.catch_warnings():
        # delayed data are nearly dependent by construction; the rank is what bounds them
        warnings.filterwarnings("ignore", "Input data condition number", UserWarning, "pydmd")
        if method == "dmd":
            fitted = DMD(svd_rank=rank, exact=True)
            fitted.fit(state.T.numpy(), target.T.numpy())
        else:
            if not single:
                raise SettingError("several runs for optimised DMD", "one run", "method='dmd'")
            series = torch.cat([state, target[-1:]])
            fitted = BOPDMD(svd_rank=rank, num_trials=0, use_proj=True)
            fitted.fit(series.T.numpy(), torch.arange(len(series), dtype=torch.float64).numpy())
    values, modes = torch.from_numpy(fitted.eigs), torch.from_numpy(fitted.modes)
    values = values.to(torch.complex128)
    return (values.exp() if method == "optimised" else values), modes.to(torch.complex128)


def period_of(eigenvalue: complex, dt: float) -> float:
    """Period of a mode, in the unit of dt; infinite for a real one."""
    angle = abs(math.atan2(eigenvalue.imag, eigenvalue.real))
    return math.inf if angle == 0 else 2.0 * math.pi * dt / angle
