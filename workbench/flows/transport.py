"""Transport along the flow, generation and inversion; see the package for the equations."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.flows.clock import Reading, clock_ends, clock_grid, enter, failure_sentences
from workbench.integrators import Cancel, Progress, Solution, check_solver, integrate
from workbench.models import ScoreModel, check_points, fields_along
from workbench.report import Provenance, SolveReport, Status, provenance_of
from workbench.schedules import LINEAR, Schedule, sigma_of, time_of
from workbench.types import Points, Scalars

SOURCES = ("Score-Based Generative Modeling through Stochastic Differential Equations",)


@dataclass(frozen=True, slots=True)
class FlowResult:
    """Points carried along the flow.

    Attributes:
        points: Where they are, shape (*batch, dim), in the schedule's frame at time t.
        t: Clock reading that was reached; the one asked for unless the flow was cancelled.
        report: How it went. No error controls the steps, so there is no residual.
        provenance: Where it came from.
    """

    points: Points
    t: float
    report: SolveReport
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class InversionResult:
    """Latents of data points, and how well the flow returns.

    Attributes:
        latents: Points at the noise end, shape (*batch, dim), in the schedule's frame.
        returned: The latents carried back to the data, same shape.
        round_trip: Distance from each point to its return, relative to the point's norm, shape (*batch).
        schedule: Name of the schedule.
        report: How it went; the residual is the worst round trip.
        provenance: Where it came from.
    """

    latents: Points
    returned: Points
    round_trip: Scalars
    schedule: str
    report: SolveReport
    provenance: Provenance


def transport(
    model: ScoreModel,
    x: Points,
    start: float,
    end: float,
    *,
    schedule: Schedule = LINEAR,
    steps: int = 50,
    solver: str = "rk4",
    tol: float = 1e-7,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> FlowResult:
    """Carry points along the probability flow from one clock time to another.

    Args:
        model: The model.
        x: Points of x_t at time start, shape (*batch, dim), in the schedule's frame.
        start: Clock reading where they are.
        end: Clock reading to carry them to, before or after.
        schedule: The noising whose frame and clock are used; independent of how the model was trained.
        steps: Number of equal steps in the (regular) clock.
        solver: "euler", "heun" or "rk4" with fixed steps, "dopri5" adaptive.
        tol: Tolerance of an adaptive solver.
        progress: Called with a fraction and a sentence.
        cancel: Stops between steps; the points reached so far are returned.

    Returns:
        The points at time end. Differentiable in x and in the model's parameters.

    Raises:
        ShapeError: If x does not fit the model or is not finite.
        SettingError: For an unknown solver or no steps.

    Cost: steps x (1, 2 or 4) model calls a point.

    References:
        Song et al. 2021, equation 13; Albergo, Boffi, Vanden-Eijnden 2023, section 2.
    """
    check_points(x, model.frame.dim)
    check_solver(solver, steps)
    begin, finish = enter(model, schedule, start), enter(model, schedule, end)
    options = {
        "solver": solver,
        "tol": tol,
        "progress": progress,
        "cancel": cancel,
        "what": "carrying points",
    }
    solution = _carry(model, x, begin, finish, schedule, options, steps)
    t, factor = end, finish.factor
    stepped = schedule.regular or schedule
    times = clock_grid(begin.t, finish.t, steps, x)
    if solution.status is Status.CANCELLED:
        level = sigma_of(stepped, times[solution.reached].double())
        t = float(time_of(schedule, level))
        factor = enter(model, schedule, t).factor
    report = SolveReport(
        status=solution.status,
        iterations=solution.reached,
        residual=None,
        model_calls=solution.evaluations * x[..., 0].numel(),
        warnings=failure_sentences(solution, times, stepped, model),
        message=f"{solver} from {schedule.name} time {start:g} to {t:g}",
    )
    report.warn_if_failed()
    settings = {
        "start": start,
        "end": end,
        "schedule": schedule.name,
        "steps": steps,
        "solver": solver,
        "tol": tol,
    }
    provenance = provenance_of(x, model=str(model.frame), settings=settings, sources=SOURCES)
    return FlowResult(solution.state[0] / factor, t, report, provenance)


def generate(model: ScoreModel, latents: Points, *, schedule: Schedule = LINEAR, **options) -> FlowResult:
    """Carry latents to data: `transport` from the noise end of the clock to the data end.

    Args:
        model: The model.
        latents: Points at the noise end, shape (*batch, dim), e.g. standard normal draws for `LINEAR`.
        schedule: The noising in whose frame they are.
        **options: steps, solver, tol, progress, cancel of `transport`.

    Returns:
        The data points.

    Raises:
        ShapeError: If the latents do not fit the model or are not finite.
        SettingError: For an unknown solver or no steps.

    Cost: as for `transport`.

    References:
        Song et al. 2021, equation 13.
    """
    noisy, clean = clock_ends(model, schedule)
    return transport(model, latents, noisy, clean, schedule=schedule, **options)


def invert(
    model: ScoreModel,
    x: Points,
    *,
    schedule: Schedule = LINEAR,
    steps: int = 50,
    solver: str = "rk4",
    tol: float = 1e-7,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> InversionResult:
    """Latents of data points by the flow run backwards, and the error of coming back.

    Args:
        model: The model.
        x: Data points, shape (*batch, dim), in the data's unit.
        schedule: The noising whose frame the latents are in.
        steps: Steps each way.
        solver: As in `transport`.
        tol: As in `transport`.
        progress: Called with a fraction and a sentence.
        cancel: Stops between steps.

    Returns:
        Latents, the points that they return to, and each point's round-trip error relative to its norm.
        Differentiable.

    Raises:
        ShapeError: If x does not fit the model or is not finite.
        SettingError: For an unknown solver or no steps.

    Cost: 2 x steps x (1, 2 or 4) model calls a point.

    References:
        Song et al. 2021, section 4.3 and appendix D.
    """
    noisy, clean = clock_ends(model, schedule)
    scale = float(schedule(torch.tensor(clean, dtype=torch.float64))[0])
    options = {"schedule": schedule, "steps": steps, "solver": solver, "tol": tol, "cancel": cancel}
    back = transport(model, scale * x, clean, noisy, progress=progress_part(progress, 0.0, 0.5), **options)
    forth = transport(
        model, back.points, back.t, clean, progress=progress_part(progress, 0.5, 1.0), **options
    )
    returned = forth.points / scale
    size = torch.linalg.vector_norm(x, dim=-1).clamp_min(1e-3 * model.frame.data_std)
    round_trip = torch.linalg.vector_norm(returned - x, dim=-1) / size
    worst = next((r.report.status for r in (back, forth) if r.report.status is not Status.CONVERGED), None)
    report = SolveReport(
        status=worst or Status.CONVERGED,
        iterations=back.report.iterations + forth.report.iterations,
        residual=float(round_trip.detach().max()) if round_trip.numel() else 0.0,
        model_calls=back.report.model_calls + forth.report.model_calls,
        warnings=back.report.warnings + forth.report.warnings,
        message=f"{solver}, {steps} steps each way in the clock of {schedule.name}",
    )
    settings = {"schedule": schedule.name, "steps": steps, "solver": solver, "tol": tol}
    provenance = provenance_of(x, model=str(model.frame), settings=settings, sources=SOURCES)
    return InversionResult(back.points, returned, round_trip, schedule.name, report, provenance)


def _carry(
    model, x, begin: Reading, finish: Reading, schedule: Schedule, options: dict, steps: int
) -> Solution:
    """Points along the flow in the clock that is stepped in."""
    stepped = schedule.regular or schedule

    def derivative(t: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (fields_along(model, state[0], t, stepped)[0],)

    return integrate(derivative, (begin.factor * x,), clock_grid(begin.t, finish.t, steps, x), **options)


def progress_part(progress: Progress | None, low: float, high: float) -> Callable[[float, str], None] | None:
    """A progress callback for one part of a longer run."""
    if progress is None:
        return None
    return lambda fraction, message: progress(low + (high - low) * fraction, message)
