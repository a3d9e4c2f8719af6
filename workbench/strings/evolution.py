r"""Strings carried from noise to data: transport, and relaxation towards minimum-energy paths on the way.

The ends are carried back along the probability flow to noise, joined there by an arc, and the whole string is
carried forward again. Interior images move with

.. math:: \dot x = b_t(x) + \gamma_t^2\, s_t(x),

split in each outer step into transport by b (a Runge-Kutta step) and relaxation by s over the effort
:math:`\gamma_t^2\,\Delta t`; the ends feel b alone and so come home. With :math:`\gamma = 0` the string is
the image of the arc under the flow; for large :math:`\gamma` it tracks the minimum-energy path of
:math:`-\log p_t`. Outside a
window of the clock the score is off: a learned score degrades near the data.

Relaxation is stiff. It takes Runge-Kutta-Chebyshev steps, which measure the curvature that they meet, and the
report refuses steps beyond their limit.

The evolution's clock is its own and has nothing to do with the model's training; images live in the frame
:math:`x = a\,y` of that clock.

References:
    Moreau, Coeurdoux, Ferre, Vanden-Eijnden, "Probing the Geometry of Diffusion Models with the String
        Method", 2026, https://arxiv.org/abs/2602.22122
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.checks import check_count, check_number, check_run
from workbench.curves import Curve, respace, slerp
from workbench.errors import ModelOutputError, SettingError
from workbench.integrators import Cancel, Progress, check_solver
from workbench.models import ScoreModel
from workbench.report import SolveReport, Status
from workbench.schedules import LINEAR, Schedule
from workbench.strings.clock import Clock, Gamma, efforts_of, evolution_levels
from workbench.strings.meter import Meter
from workbench.strings.relaxation import (
    RELAXATIONS,
    Fields,
    Relaxation,
    check_relaxation,
    check_substeps,
    longest_product,
)
from workbench.strings.walkers import Swarm
from workbench.types import Nodes, Points


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
    clock = Clock.between(schedule, noisy, clean, steps)
    fields = Fields(model, clock, meter)
    efforts = efforts_of(clock, gamma, window, quench)
    if temperature == 0 and substeps is None:
        check_substeps(clock, efforts, longest_product(relaxation, cap), gamma)
    elif temperature > 0 and most_substeps is None:
        check_substeps(clock, efforts, 0.2 * cap, gamma)
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
    relax = Relaxation(fields, relaxation, cap, substeps)
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


def _check_finite(x: Tensor, model: ScoreModel, clock: Clock, step: int, what: str) -> None:
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


def _stir(
    relax: Relaxation, swarm, x, effort, levels, t, temperature, eta, modes, cap, most, generator, cancel
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
