r"""Strings carried from noise to data: transport, and relaxation towards minimum-energy paths on the way.

The ends are carried back along the probability flow to noise, joined there by an arc, and the whole string is
carried forward again. Interior images move with

.. math:: \dot x = b_t(x) + \gamma_t^2\, s_t(x),

split in each outer step into transport by b (a Runge-Kutta step) and relaxation by s over the effort
:math:`\gamma_t^2\,\Delta t`; the ends feel b alone and so come home. With :math:`\gamma = 0` the string is
the image of the arc under the flow; for large :math:`\gamma` it tracks the minimum-energy path of
:math:`-\log p_t`. Outside a
window of the clock the score is off: a learned score degrades near the data.

Relaxation is stiff: :math:`-\nabla s_t \le 1/s(t)^2` always, and almost every direction of an image has
just that curvature. It is integrated by the second-order Runge-Kutta-Chebyshev method, whose stable step
grows with the square of its stages; an explicit Euler step beyond :math:`2/\lambda` does not fail but
returns a smooth wrong string, so every stage also measures the curvature it met and the report refuses
steps beyond the limit.

The evolution's clock is its own and has nothing to do with the model's training; images live in the frame
:math:`x = a\,y` of that clock.

References:
    Moreau, Coeurdoux, Ferre, Vanden-Eijnden, "Probing the Geometry of Diffusion Models with the String
    Method",
        2026, https://arxiv.org/abs/2602.22122
    Sommeijer, Shampine, Verwer, "RKC: an explicit solver for parabolic PDEs", 1998,
        https://doi.org/10.1016/S0377-0427(97)00219-7
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from numbers import Real

import torch
from torch import Tensor

from workbench.checks import check_count, check_number, check_run, shown
from workbench.curves import Curve, arc_knots, respace, slerp, tangents_at_nodes
from workbench.errors import ModelOutputError, SettingError
from workbench.flows import noise_range
from workbench.integrators import Cancel, Progress, check_solver, take_step
from workbench.models import ExactScore, ScoreModel, fields_along
from workbench.report import SolveReport, Status
from workbench.schedules import LINEAR, Schedule, sigma_of, time_of
from workbench.strings.meter import Meter
from workbench.strings.walkers import Swarm
from workbench.types import Nodes, Points

Gamma = float | Callable[[float], float]

RELAXATIONS: dict[str, float] = {"euler": 2.0, "heun": 2.0, "rkc": math.inf}
"""Relaxation methods and the product of step and curvature at which they lose stability."""

_MOST_STAGES = 8  # Chebyshev stages between two respacings
_SLACK = 1.25  # a learned score may be stiffer than any true one can be
_MOST_SUBSTEPS = 1_000_000  # sub-steps of a whole run beyond which a gamma is taken for a slip
_USUAL_CURVATURE = 400.0  # 1/s^2 where the usual window closes; what such a count assumes beyond it
_FARTHEST = 1e3  # noise end of the evolution, in standard deviations of the data


@dataclass(frozen=True, slots=True)
class EvolvedString:
    """Strings at the end of their evolution.

    Attributes:
        curve: The strings in the data's unit, points (*batch, nodes, dim); ends are the caller's own points.
        sigma: Noise level at which they lie.
        latents: The carried-back ends at the noise end, in the clock's frame, shape (*batch, 2, dim).
        round_trip: Distance of each returned end from where it started over its norm, shape (*batch, 2).
        sigmas: Noise level after each outer step, shape (steps,).
        lengths: Length of the string in the data's unit after each outer step, shape (steps, *batch).
        stiffness: Largest measured product of relaxation step and curvature over its stable limit; below 1
            where the run can be trusted. Measured from differences of the score, hence noisy in float32.
        walkers: Walkers at the end in the data's unit, shape (*batch, nodes, walkers, dim); None at zero
            temperature.
        acceptance: Share of walker moves that stayed in their cell; None without walkers.
        resets: Share of walkers reset a sub-step; None without walkers.
        width: Measured transverse standard deviation of the walkers in the data's unit; None without walkers.
        report: Status, residual (worst round trip) and calls.
    """

    curve: Curve
    sigma: float
    latents: Points
    round_trip: Tensor
    sigmas: Tensor
    lengths: Tensor
    stiffness: float
    walkers: Tensor | None
    acceptance: float | None
    resets: float | None
    width: float | None
    report: SolveReport


@cache
def _chebyshev(stages: int) -> tuple[tuple[float, ...], ...]:
    """Coefficients (mu, nu, mu~, gamma~) of the damped second-order method, one row a stage from the
    second."""
    w0 = 1.0 + 2.0 / 13.0 / stages**2
    t, d, dd = [1.0, w0], [0.0, 1.0], [0.0, 0.0]
    for _ in range(2, stages + 1):
        t, d, dd = (
            [*t, 2 * w0 * t[-1] - t[-2]],
            [*d, 2 * t[-1] + 2 * w0 * d[-1] - d[-2]],
            [*dd, 4 * d[-1] + 2 * w0 * dd[-1] - dd[-2]],
        )
    w1 = d[stages] / dd[stages]
    b = [dd[j] / d[j] ** 2 if j >= 2 else dd[2] / d[2] ** 2 for j in range(stages + 1)]
    rows: list[tuple[float, ...]] = [(b[1] * w1,)]
    for j in range(2, stages + 1):
        mu = 2 * b[j] * w1 / b[j - 1]
        rows.append((2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2], mu, -(1 - b[j - 1] * t[j - 1]) * mu))
    return tuple(rows)


def stable_reach(stages: int) -> float:
    """Largest product of step and curvature that the Chebyshev method of so many stages damps."""
    w0 = 1.0 + 2.0 / 13.0 / stages**2
    angle = math.acosh(w0)
    th, sh = math.cosh(stages * angle), math.sinh(stages * angle)
    first = stages * sh / math.sinh(angle)
    second = (stages**2 * th - w0 * first) / (w0**2 - 1.0)
    return (w0 + 1.0) * second / first


def stages_for(product: float) -> int:
    """Fewest stages, two or more, whose stable reach covers a product of step and curvature."""
    stages = 2
    while stable_reach(stages) < product:
        stages += 1
    return stages


def _curvature(x: Tensor, before: Tensor, after: Tensor, move: Tensor) -> Tensor:
    """Curvature of the energy along a move from x, from the forces at its ends.

    0 where the energy falls ever faster, and where the move is so small that rounding decides.
    """
    size = torch.linalg.vector_norm(move, dim=-1)
    least = 100.0 * torch.finfo(x.dtype).eps ** 0.75 * (1.0 + torch.linalg.vector_norm(x, dim=-1))
    rise = ((before - after) * move).sum(-1) / size.square().clamp_min(torch.finfo(x.dtype).tiny)
    return torch.where(size > least, rise.clamp_min(0.0), 0.0)


def chebyshev_step(
    force: Callable[[Tensor], Tensor],
    x: Tensor,
    step: float | Tensor,
    stages: int,
    first: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One second-order step of dx/dt = force(x), stable up to curvature `stable_reach(stages) / step`.

    Args:
        force: Right-hand side.
        x: State, shape (*batch, dim).
        step: Step, a number or of a shape that broadcasts against x.
        stages: Number of stages, at least 2.
        first: force(x), if it is known.

    Returns:
        (state after the step, curvature met in the first stage, shape (*batch)). `stages` evaluations.
    """
    rows = _chebyshev(stages)
    f0 = force(x) if first is None else first
    before, now = x, x + rows[0][0] * step * f0
    curvature = torch.zeros_like(x[..., 0])
    for j, (mu, nu, mu_f, gamma_f) in enumerate(rows[1:]):
        f = force(now)
        if j == 0:
            curvature = _curvature(x, f0, f, now - x)
        before, now = now, (1 - mu - nu) * x + mu * now + nu * before + step * (mu_f * f + gamma_f * f0)
    return now, curvature


@dataclass(frozen=True, slots=True)
class _Clock:
    """The evolution's own time: a regular clock, run from noise to data, with the caller's clock for the
    effort."""

    schedule: Schedule
    stepped: Schedule
    times: Tensor  # (steps + 1,) readings of the regular clock, float64 on the host
    shares: tuple[float, ...]  # the caller's clock at the same moments, 0 at noise and 1 at data

    @classmethod
    def between(cls, schedule: Schedule, noisy: float, clean: float, steps: int) -> "_Clock":
        if not math.isfinite(schedule.t_noise):
            raise SettingError(
                f"schedule {schedule.name!r} with an endless clock",
                "a clock of finite length",
                "LINEAR or OU",
            )
        stepped = schedule.regular or schedule
        levels = torch.tensor([noisy, clean], dtype=torch.float64)
        begin, finish = time_of(stepped, levels).tolist()
        times = torch.linspace(begin, finish, steps + 1, dtype=torch.float64)
        own = time_of(schedule, sigma_of(stepped, times))
        shares = (own - schedule.t_noise) / (schedule.t_data - schedule.t_noise)
        return cls(schedule, stepped, times, tuple(shares.tolist()))

    def levels(self, step: int) -> tuple[float, float]:
        """(a, s) at a reading."""
        a, s = self.stepped(self.times[step])
        return float(a), float(s)


class _Fields:
    """The model's fields in the clock's frame, one call for both."""

    def __init__(self, model: ScoreModel, clock: _Clock, meter: Meter) -> None:
        self.model, self.clock, self.meter = model, clock, meter

    def _both(self, rows: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        return fields_along(self.model, rows, t, self.clock.stepped)

    def velocity(self, x: Tensor, t: Tensor) -> Tensor:
        """b at points (*batch, dim)."""
        return self.meter(self._both, x, t)[0]

    def score(self, x: Tensor, t: Tensor) -> Tensor:
        """s at points (*batch, dim)."""
        return self.meter(self._both, x, t)[1]

    def carry(self, x: Tensor, t: Tensor, end: Tensor, solver: str) -> Tensor:
        """One transport step."""
        return take_step(lambda at, state: (self.velocity(state[0], at),), (x,), t, end, solver)[0]


def evolution_levels(model: ScoreModel, sigma: float | None) -> tuple[float, float]:
    """Noise levels at which an evolution starts and ends.

    Args:
        model: The model.
        sigma: Level of the ends asked for; None for the cleanest that the model offers.

    Returns:
        (noisy, clean) in the data's unit.

    Raises:
        SettingError: If sigma lies outside the model's range.
    """
    low, high = noise_range(model)
    noisy = min(high, _FARTHEST * model.frame.data_std)
    if sigma is not None and not low * (1 - 1e-9) <= sigma < noisy:
        raise SettingError(f"sigma={sigma}", f"a level from {low:g} to {noisy:g}", "sigma=None")
    return noisy, low if sigma is None else sigma


@torch.no_grad()
def evolve_string(
    model: ScoreModel,
    start: Points,
    end: Points,
    *,
    nodes: int = 33,
    gamma: Gamma = 7.0,
    window: tuple[float, float] = (0.1, 0.95),
    quench: float = 1.0,
    schedule: Schedule = LINEAR,
    steps: int = 50,
    solver: str = "rk4",
    relaxation: str = "rkc",
    cap: float = 0.5,
    substeps: int | None = None,
    sigma: float | None = None,
    arc: Callable[[Points, Points, int], Curve] = slerp,
    via: Nodes | None = None,
    temperature: float = 0.0,
    walkers: int = 8,
    eta: float = 0.1,
    modes: int | None = None,
    most_substeps: int | None = None,
    tol: float = 1e-3,
    memory_budget: int | None = None,
    meter: Meter | None = None,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> EvolvedString:
    """Carry strings from noise to data between given ends.

    Args:
        model: The model.
        start: Starts at level sigma, shape (*batch, dim), in the data's unit.
        end: Ends of the same shape.
        nodes: Number of images.
        gamma: Strength of the relaxation, or a function of the clock's share (0 noise, 1 data); 0 is pure
            transport. Its square times the clock's step is an effort: it depends on the schedule.
        window: Shares of the clock between which the string relaxes.
        quench: Share of the clock from which gamma falls in proportion to what is left of the clock, where a
            learned score gets poorer and stiffer; 1 for never.
        schedule: The evolution's own noising and clock.
        steps: Outer steps.
        solver: Fixed-step solver of the transport: "euler", "heun" or "rk4".
        relaxation: "rkc", "heun" or "euler".
        cap: Product of step and curvature aimed at by "heun" and "euler", and by walkers a fifth of it.
        substeps: Relaxation steps an outer step; None bounds them by the stiffness.
        sigma: Noise level of the ends; None for the cleanest that the model offers.
        arc: (start, end, nodes) -> Curve, the first string at the noise end.
        via: Points at level sigma through whose latents the first string goes, shape (*batch, count, dim); it
            may leave them later.
        temperature: T of the density p^(1/T) whose principal curve is sought; 0 for the path of least energy.
        walkers: Walkers an image where T > 0.
        eta: Share of the walkers' mean that an image takes over each sub-step.
        modes: Sine modes kept of each string where T > 0; None keeps all unless the images stand closer than
            two transverse widths, then length / (pi width).
        most_substeps: Limit of walker sub-steps an outer step; the effort left undone is reported. None for
            no limit.
        tol: Relative round-trip error of the ends above which the run counts as not converged.
        memory_budget: Bytes a call may take; the answer does not depend on it.
        meter: A meter to count on; made here if None.
        generator: Draws the walkers' noise.
        progress: Called after every outer step.
        cancel: Asked before every sub-step; a cancelled run is carried to the data without relaxation.

    Returns:
        The strings. Not differentiable.

    Raises:
        SettingError: If a setting cannot be used.
        ModelOutputError: If the model returns a non-finite field; says at which image and noise level.

    Cost: rk4 transport 4 steps (nodes + 2) calls; relaxation about sqrt(gamma^2 dt / (2 s^2)) calls an image
    and step; 33 images at gamma 7 and 50 steps take about 9,700 in all, as some 300 batches.
    """
    _check(
        gamma,
        window,
        quench,
        steps,
        solver,
        relaxation,
        cap,
        substeps,
        temperature,
        walkers,
        eta,
        nodes,
        tol,
        modes,
        most_substeps,
    )
    check_run(generator, progress, cancel)
    meter = Meter(memory_budget) if meter is None else meter
    before = meter.points
    noisy, clean = evolution_levels(model, sigma)
    clock = _Clock.between(schedule, noisy, clean, steps)
    fields = _Fields(model, clock, meter)
    efforts = _efforts(clock, gamma, window, quench)
    if temperature == 0 and substeps is None:
        longest = stable_reach(_MOST_STAGES) if relaxation == "rkc" else cap
        _check_substeps(clock, efforts, longest, gamma)
    elif temperature > 0 and most_substeps is None:
        _check_substeps(clock, efforts, 0.2 * cap, gamma)
    times = clock.times.to(start)
    a_clean, _ = clock.levels(steps)
    ends = torch.stack([start, end], dim=-2)
    latents = a_clean * (
        ends if via is None else torch.cat([ends[..., :1, :], via, ends[..., 1:, :]], dim=-2)
    )
    for step in range(steps, 0, -1):
        latents = fields.carry(latents, times[step], times[step - 1], solver)
        _check_finite(latents, model, clock, step, "an end carried back")
    pairs = zip(latents.unbind(-2)[:-1], latents.unbind(-2)[1:], strict=True)
    pieces = torch.cat([arc(here, there, nodes).points for here, there in pairs], dim=-2)
    x = Curve.through(pieces).resample(nodes, passes=2).points
    latents = latents[..., (0, -1), :]
    relax = _Relaxation(fields, relaxation, cap, substeps)
    swarm = None
    sigmas, lengths = [], []
    cancelled = False
    for step in range(steps):
        cancelled = cancelled or (cancel is not None and cancel.is_set())
        t, after = times[step], times[step + 1]
        if swarm is None:
            x = fields.carry(x, t, after, solver)
        else:
            both = torch.cat([x.unsqueeze(-2), swarm.walkers], dim=-2)
            both = fields.carry(both, t, after, solver)
            x, swarm.walkers = both[..., 0, :], both[..., 1:, :]
        x = respace(x)
        effort = efforts[step]
        if effort > 0 and nodes > 2 and not cancelled:
            if temperature > 0:
                swarm = Swarm.at(x, walkers) if swarm is None else swarm
                x = _stir(
                    relax,
                    swarm,
                    x,
                    effort,
                    clock.levels(step + 1),
                    after,
                    temperature,
                    eta,
                    modes,
                    cap,
                    most_substeps,
                    generator,
                    cancel,
                )
            else:
                x = relax(x, effort, clock.levels(step + 1), after, cancel)
            cancelled = cancel is not None and cancel.is_set()
        _check_finite(x, model, clock, step + 1, "a field")
        a, _ = clock.levels(step + 1)
        sigmas.append(clock.levels(step + 1)[1] / a)
        lengths.append(torch.linalg.vector_norm(x.diff(dim=-2), dim=-1).sum(-1) / a)
        if progress is not None:
            progress((step + 1) / steps, f"string at sigma {sigmas[-1]:.3g}, step {step + 1} of {steps}")
    returned = x[..., (0, -1), :] / a_clean
    norm = torch.linalg.vector_norm(ends, dim=-1)
    norm = torch.where(norm > 0, norm, model.frame.data_std * math.sqrt(model.frame.dim))
    round_trip = torch.linalg.vector_norm(returned - ends, dim=-1) / norm
    points = respace(
        torch.cat([ends[..., :1, :], x[..., 1:-1, :] / a_clean, ends[..., 1:, :]], dim=-2), passes=6
    )
    worst, stiffness = float(round_trip.max()), relax.worst()
    return EvolvedString(
        curve=Curve.through(points),
        sigma=clean,
        latents=latents,
        round_trip=round_trip,
        sigmas=torch.tensor(sigmas, dtype=torch.float64),
        lengths=torch.stack(lengths),
        stiffness=stiffness,
        walkers=None if swarm is None else swarm.walkers / a_clean,
        acceptance=None if swarm is None else swarm.acceptance,
        resets=None if swarm is None else swarm.reset_rate,
        width=None if swarm is None else swarm.width(x) / a_clean,
        report=_report(
            worst, tol, stiffness, cancelled, steps, meter.points - before, swarm, x, 1.0 if substeps else 1.5
        ),
    )


def _efforts(clock: _Clock, gamma: Gamma, window: tuple[float, float], quench: float) -> list[float]:
    """Relaxation effort of every outer step, 0 outside the window."""
    span = abs(clock.schedule.t_data - clock.schedule.t_noise)
    efforts = []
    for before, share in pairwise(clock.shares):
        if not window[0] <= share <= window[1] + 1e-9:
            efforts.append(0.0)
            continue
        strength = gamma(share) if callable(gamma) else gamma
        if callable(gamma):
            check_number(f"gamma({share:.4g})", strength, least=0.0, hint="a gamma that is finite everywhere")
        strength = float(strength)
        strength *= min(1.0, (1.0 - share) / (1.0 - quench)) if quench < 1.0 else 1.0
        efforts.append(strength**2 * abs(share - before) * span if strength < 1e100 else math.inf)
    return efforts


def _check_substeps(clock: _Clock, efforts: list[float], longest: float, gamma: Gamma) -> None:
    """Refuse a strength whose relaxation would take forever, before it begins."""
    count = 0.0
    for step, effort in enumerate(efforts, start=1):
        s = clock.levels(step)[1]
        count += effort * min(1.0 / s**2 if s > 0 else math.inf, _USUAL_CURVATURE) / longest
    if count > _MOST_SUBSTEPS:
        name = "a gamma function" if callable(gamma) else f"gamma={gamma:g}"
        raise SettingError(
            f"{name}, which takes some {count:.1g} relaxation sub-steps",
            f"at most {_MOST_SUBSTEPS:,} in all",
            "gamma=7.0",
        )


def _check(
    gamma,
    window,
    quench,
    steps,
    solver,
    relaxation,
    cap,
    substeps,
    temperature,
    walkers,
    eta,
    nodes,
    tol,
    modes,
    most_substeps,
) -> None:
    check_solver(solver, steps)
    if solver not in ("euler", "heun", "rk4"):
        raise SettingError(f"solver {solver!r}", "euler, heun or rk4", "solver='rk4'")
    if relaxation not in RELAXATIONS:
        raise SettingError(
            f"relaxation {relaxation!r}", f"one of {', '.join(RELAXATIONS)}", "relaxation='rkc'"
        )
    check_relaxation(gamma, window, quench, temperature, eta)
    check_number("cap", cap, above=0.0, below=2.0)
    check_count("substeps", substeps, none=True)
    check_count("most_substeps", most_substeps, none=True)
    check_count("walkers", walkers)
    check_count("modes", modes, least=0, none=True)
    check_count("nodes", nodes, least=2)
    check_number("tol", tol, above=0.0)


def check_relaxation(gamma: object, window: object, quench: object, temperature: object, eta: object) -> None:
    """Check how strongly, when and how warm a string relaxes.

    Args:
        gamma: Strength, a number or a function of the clock's share.
        window: Shares of the clock.
        quench: Share of the clock; None for a default.
        temperature: T; None for a default.
        eta: Share of the walkers' mean.

    Raises:
        SettingError: If one of them cannot be used.
    """
    if not callable(gamma):
        check_number("gamma", gamma, least=0.0, hint="gamma=7.0")
    shares = list(window) if isinstance(window, tuple | list) else []
    numbers = [float(one) for one in shares if isinstance(one, Real) and not isinstance(one, bool)]
    if len(shares) != 2 or len(numbers) != 2 or not 0 <= numbers[0] < numbers[1] <= 1:
        raise SettingError(
            shown("window", window), "two rising shares of the clock from 0 to 1", "window=(0.1, 0.95)"
        )
    check_number("quench", quench, above=0.0, most=1.0, none=True, hint="quench=1.0")
    check_number("temperature", temperature, least=0.0, none=True, hint="temperature=1.0")
    check_number("eta", eta, above=0.0, most=1.0, hint="eta=0.1")


def _check_finite(x: Tensor, model: ScoreModel, clock: _Clock, step: int, what: str) -> None:
    """Name the first image whose state is not finite; the one look at the device an outer step."""
    finite = torch.isfinite(x).all(-1)
    if not bool(finite.all()):
        image = int((~finite).nonzero()[0][-1])
        a, s = clock.levels(step)
        level = s / a if a else math.inf
        raise ModelOutputError(
            f"{what} that is not finite from {model.frame} at image {image}, sigma {level:.4g}",
            "finite values at every image",
            "float64, more steps, or a larger sigma",
        )


class _Relaxation:
    """Moves interior images along the score, in steps that the stiffness and the spacing bound."""

    def __init__(self, fields: _Fields, method: str, cap: float, substeps: int | None) -> None:
        self.fields, self.method, self.cap, self.substeps = fields, method, cap, substeps
        self.margins: list[Tensor] = []
        self.taken = 0  # sub-steps so far
        self.probe: Tensor | None = None

    def __call__(
        self, x: Tensor, effort: float, levels: tuple[float, float], t: Tensor, cancel: Cancel | None = None
    ) -> Tensor:
        """The strings after an effort, respaced after every step; each string has its own steps."""
        shape = x.shape
        x = x.reshape(-1, *shape[-2:])
        exact = isinstance(self.fields.model, ExactScore)
        bound = (1.0 if exact else _SLACK) / levels[1] ** 2 if levels[1] > 0 else math.inf
        if bound > 1e4 and exact:
            bound = self.bound(x, levels[1], t)
        longest = stable_reach(_MOST_STAGES) if self.method == "rkc" else self.cap
        count = self.substeps or max(1, math.ceil(effort * bound / longest))
        left = [effort] * x.shape[0]
        while max(left) > 0 and not (cancel is not None and cancel.is_set()):
            self.taken += 1
            if self.taken > _MOST_SUBSTEPS:
                raise SettingError(
                    f"a relaxation of more than {_MOST_SUBSTEPS:,} sub-steps, now at noise {levels[1]:.3g}",
                    "a field that the images can follow",
                    "a smaller gamma, or a window that closes earlier",
                )
            moving = [k for k, rest in enumerate(left) if rest > 0]
            forces = self.fields.score(x[moving][:, 1:-1].contiguous(), t)
            steps = [effort / count] * len(moving)
            if self.substeps is None:
                steps = [
                    min(h, most) for h, most in zip(steps, _slide_bounds(x[moving], forces), strict=True)
                ]
            steps = [_even(left[k], h) for k, h in zip(moving, steps, strict=True)]
            stages = [min(_MOST_STAGES, stages_for(h * bound)) if self.method == "rkc" else 0 for h in steps]
            for same in sorted(set(stages)):
                rows = [k for k, number in enumerate(stages) if number == same]
                strings = [moving[k] for k in rows]
                h = torch.tensor([steps[k] for k in rows], dtype=x.dtype, device=x.device)[:, None, None]
                new = self._step(x[strings], forces[rows], h, same, t)
                x = x.index_copy(0, torch.tensor(strings, device=x.device), respace(new))
            for k, h in zip(moving, steps, strict=True):
                left[k] = max(0.0, left[k] - h) if left[k] - h > 1e-9 * effort else 0.0
        return x.reshape(shape)

    def _step(self, x: Tensor, first: Tensor, h: Tensor, stages: int, t: Tensor) -> Tensor:
        """Strings (rows, nodes, dim) after one step h, shape (rows, 1, 1), along the score."""

        def pull(inner: Tensor) -> Tensor:
            return self.fields.score(inner, t)

        inner = x[:, 1:-1]
        if self.method == "rkc":
            new, curvature = chebyshev_step(pull, inner, h, stages, first)
            limit = stable_reach(stages)
        elif self.method == "heun":
            second = pull(inner + h * first)
            curvature = _curvature(inner, first, second, h * first)
            new, limit = inner + 0.5 * h * (first + second), RELAXATIONS["heun"]
        else:
            curvature = self._measured(x, t, 1)
            new, limit = inner + h * first, RELAXATIONS["euler"]
        self.margins.append((h[..., 0] * curvature).max() / limit)
        return torch.cat([x[:, :1], new, x[:, -1:]], dim=1)

    def bound(self, x: Tensor, s: float, t: Tensor) -> float:
        """Largest curvature to reckon with: 1/s^2, or what is measured where the model is cheap and exact."""
        bound = 1.0 / s**2 if s > 0 else math.inf
        if isinstance(self.fields.model, ExactScore):
            bound = min(bound, 1.5 * float(self._measured(x, t, 6 if self.probe is None else 2).max()))
        return bound

    def _measured(self, x: Tensor, t: Tensor, count: int) -> Tensor:
        """Curvature at the images by power iterations that go on from step to step."""
        inner = x[..., 1:-1, :]
        if self.probe is None or self.probe.shape != inner.shape:
            noise = torch.randn(inner.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
            self.probe = (noise / torch.linalg.vector_norm(noise, dim=-1, keepdim=True)).to(inner)
        force = self.fields.score(inner, t)
        reach = torch.finfo(x.dtype).eps ** 0.4 * torch.linalg.vector_norm(x.diff(dim=-2), dim=-1).mean()
        size = torch.zeros_like(inner[..., 0])
        for _ in range(count):
            after = self.fields.score(inner + reach * self.probe, t)
            size = _curvature(inner, force, after, reach * self.probe)
            bend = (force - after) / reach
            # shifted so that a falling direction, however steep, does not hide the stiffest rising one
            bend = bend + torch.linalg.vector_norm(bend, dim=-1, keepdim=True) * self.probe
            norm = torch.linalg.vector_norm(bend, dim=-1, keepdim=True)
            self.probe = bend / norm.clamp_min(torch.finfo(x.dtype).tiny)
        return size

    def worst(self) -> float:
        """Largest measured share of the stable limit over the run."""
        return float(torch.stack(self.margins).max()) if self.margins else 0.0


def _slide_bounds(x: Tensor, forces: Tensor) -> list[float]:
    """For each string the step in which neighbouring images slide apart or together by a factor e at most."""
    knots = arc_knots(x)
    pull = (forces * tangents_at_nodes(x, knots)[:, 1:-1]).sum(-1)
    if pull.shape[-1] < 2:
        return [math.inf] * x.shape[0]
    rate = (pull.diff(dim=-1).abs() / knots[:, 1:-1].diff(dim=-1).to(pull.dtype)).amax(-1)
    return (1.0 / rate.clamp_min(torch.finfo(rate.dtype).tiny)).tolist()


def _even(left: float, step: float) -> float:
    """A step no longer than asked that divides what is left evenly."""
    return left / math.ceil(left / max(step, 1e-9 * left) - 1e-9)


def _stir(
    relax: _Relaxation, swarm, x, effort, levels, t, temperature, eta, modes, cap, most, generator, cancel
) -> Tensor:
    """Walkers and string after an effort at one noise level."""
    h = min(effort, 0.2 * cap / relax.bound(x, levels[1], t))
    count = math.ceil(effort / h - 1e-9)
    if most is not None and count > most:
        swarm.undone += effort - most * h
        count = most
    else:
        h = effort / count
    swarm.asked += effort
    for _ in range(count):
        if cancel is not None and cancel.is_set():
            break
        x = swarm.advance(
            x,
            lambda rows: relax.fields.score(rows, t),
            h,
            temperature,
            eta=eta,
            modes=modes,
            generator=generator,
        )
    return x


def _report(worst, tol, stiffness, cancelled, steps, calls, swarm, x, limit) -> SolveReport:
    warnings = [] if swarm is None else list(swarm.warnings(x))
    status, message = Status.CONVERGED, f"worst relative round trip of the ends {worst:.2e}, tol {tol:g}"
    if worst > tol:
        status = Status.MAX_ITERATIONS
        warnings.append(f"the ends return to {worst:.2e} of their norm, above tol {tol:g}: take more steps")
    if stiffness > limit:
        status = Status.DIVERGED
        message = f"a relaxation step reached {stiffness:.2f} times its stable limit: finite but wrong"
        warnings.append(message + "; leave substeps to the solver or take more steps")
    if cancelled:
        status, message = Status.CANCELLED, "cancelled; carried to the data without further relaxation"
    return SolveReport(status, steps, worst, calls, (), tuple(warnings), message)
