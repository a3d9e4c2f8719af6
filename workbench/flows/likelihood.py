"""Log densities by the instantaneous change of variables; see the package for the equations."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vjp, vmap

from workbench.checks import check_count, check_model, check_run, check_schedule, check_switch
from workbench.draws import draw_signs
from workbench.errors import SettingError, ShapeError
from workbench.flows.clock import clock_grid, failure_sentences, noise_range
from workbench.flows.transport import SOURCES
from workbench.integrators import ADAPTIVE, ORDERS, Cancel, Progress, Solution, check_solver, integrate
from workbench.models import ScoreModel, check_points, fields_along
from workbench.report import DB_PER_NAT, Estimate, Provenance, SolveReport, Status, provenance_of
from workbench.schedules import LINEAR, Schedule, sigma_of, time_of
from workbench.types import Points, Scalars

EXACT_UP_TO = 256
"""Largest dimension for which the exact divergence is the default."""


@dataclass(frozen=True, slots=True)
class LikelihoodResult:
    """Log densities of points under a model, with everything that the numbers depend on.

    Attributes:
        nats: Log density per point in the data's own unit, shape (*batch).
        step_error: Error by the steps, from the same integral with half as many (or a tenfold tolerance), in
            nats; None where it was not measured.
        probe_error: Standard error over the probes, in nats; zero for the exact divergence.
        dim: Number of coordinates.
        sigma: Noise level at which the density lies: data blurred by so much.
        solver: Solver, steps and clock in words.
        divergence: How the divergence was taken, in words.
        probes: Number of probes; 0 for the exact divergence.
        offset: What is added to -log2 p / dim to get `bits_per_dim`.
        offset_reason: Why, in words.
        latents: Points at the noise end in units of the noise there, shape (*batch, dim).
        report: How it went; the residual is the worst error relative to the density, None if unknown.
        provenance: Where it came from.
    """

    nats: Scalars
    step_error: Scalars | None
    probe_error: Scalars
    dim: int
    sigma: float
    solver: str
    divergence: str
    probes: int
    offset: float
    offset_reason: str
    latents: Points
    report: SolveReport
    provenance: Provenance

    @property
    def error(self) -> Scalars | None:
        """One-sigma error of `nats`, steps and probes together; None where that of the steps is unknown."""
        if self.step_error is None:
            return None
        return torch.hypot(self.step_error, self.probe_error)

    @property
    def bits_per_dim(self) -> Scalars:
        """Code length -log2 p per coordinate plus `offset`: small for likely points."""
        return -self.nats / (self.dim * math.log(2.0)) + self.offset

    @property
    def db_per_dim(self) -> Scalars:
        """10 log10 p per coordinate: large for likely points."""
        return DB_PER_NAT * self.nats / self.dim

    def estimate(self, index: int = 0, unit: str = "nats") -> Estimate:
        """One point's likelihood with its error bar.

        Args:
            index: Which point, counted through the batch.
            unit: "nats", "bits/dim" or "dB/dim".

        Returns:
            Value, error, unit and how both were obtained. Reads from the device.

        Raises:
            SettingError: If the unit is unknown, or there is no such point.
        """
        rows = {
            "nats": (self.nats, 1.0),
            "bits/dim": (self.bits_per_dim, 1.0 / (self.dim * math.log(2.0))),
            "dB/dim": (self.db_per_dim, DB_PER_NAT / self.dim),
        }
        if unit not in rows:
            raise SettingError(f"unit {unit!r}", f"one of {', '.join(rows)}")
        count = self.nats.numel()
        if isinstance(index, bool) or not isinstance(index, int) or not -count <= index < count:
            raise SettingError(f"index={index!r}", f"a whole number from 0 to {count - 1}", "index=0")
        values, factor = rows[unit]
        error = None if self.error is None else factor * float(self.error.reshape(-1)[index])
        how = f"{self.solver}; {self.divergence}"
        if unit == "bits/dim" and self.offset:
            how += f"; offset {self.offset:.4g} ({self.offset_reason})"
        return Estimate(float(values.reshape(-1)[index]), error, unit, how)


def log_likelihood(
    model: ScoreModel,
    x: Points,
    *,
    schedule: Schedule = LINEAR,
    steps: int = 40,
    solver: str = "rk4",
    tol: float = 1e-7,
    divergence: str | None = None,
    probes: int = 16,
    generator: torch.Generator | None = None,
    grey_levels: int | None = None,
    check_steps: bool = True,
    chunk: int | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> LikelihoodResult:
    """Log density of data points by the instantaneous change of variables.

    Points run from the data to the noise with the divergence of the flow alongside; there the density is
    that of a Gaussian of the data's mean and deviation. The probes of the stochastic divergence are the same
    for every point, so that differences along a path are smooth.

    Args:
        model: The model.
        x: Data points, shape (*batch, dim), in the data's unit.
        schedule: The noising whose frame and clock are used.
        steps: Number of equal steps in the (regular) clock; at least 4 with `check_steps`.
        solver: As in `transport`.
        tol: As in `transport`.
        divergence: "exact" (dim products with the Jacobian) or "hutchinson"; None chooses by dim.
        probes: Number of Rademacher probes, at least 2.
        generator: Draws the probes; needed for "hutchinson".
        grey_levels: Number of grey levels of the data, if bits/dim should be per level instead of per data
            unit.
        check_steps: Repeat with a half and a quarter of the steps for the error by steps; else that is None.
        chunk: Backward passes at a time; None chooses by size.
        progress: Called with a fraction and a sentence.
        cancel: Stops between steps; unfinished densities are NaN and the status says so.

    Returns:
        The densities with their errors, in nats, bits/dim and dB/dim. Differentiable in x and the
        parameters; errors are detached.

    Raises:
        ShapeError: If x does not fit the model or is not finite.
        SettingError: If a setting cannot be used: an unknown solver or divergence, fewer than two probes, no
            generator for them, or fewer than four steps to be checked against a half and a quarter of them.

    Cost: steps x (1, 2 or 4) x (1 + products) model calls a point, 1.75 times that with `check_steps`; a
    product is a backward pass, dim of them for "exact" and one a probe for "hutchinson".

    References:
        Chen et al. 2018, theorem 1; Song et al. 2021, appendix D.2; Hutchinson, "A Stochastic Estimator of
        the Trace of the Influence Matrix", 1989.
    """
    check_model(model)
    dim = model.frame.dim
    _check_data(x, dim)
    _check(solver, steps, tol, schedule, probes, grey_levels, check_steps, chunk)
    check_run(generator, progress, cancel)
    kind = ("exact" if dim <= EXACT_UP_TO else "hutchinson") if divergence is None else divergence
    draws = _draw_probes(kind, probes, generator, x)
    offset, reason = _offset(model, grey_levels)
    run = _Run(model, schedule, solver, draws, kind == "exact", chunk, cancel)
    nats, latents, solution, times = run(x, steps, tol, progress)
    stepped = schedule.regular or schedule
    evaluations = solution.evaluations
    step_error = None
    if check_steps and solution.status is not Status.CANCELLED:
        with torch.no_grad():
            others = [run(x.detach(), *coarser, None) for coarser in _coarser(solver, steps, tol)]
        evaluations += sum(other[2].evaluations for other in others)
        step_error = _step_error(solver, nats, [other[0] for other in others])
        step_error = step_error + _floor(model, stepped, times, nats)
    spread = (
        nats.detach().std(0) / math.sqrt(probes)
        if kind == "hutchinson"
        else torch.zeros_like(nats[0].detach())
    )
    value = nats.mean(0)
    size = value.detach().abs().clamp_min(1.0)
    report = SolveReport(
        status=solution.status,
        iterations=solution.reached,
        residual=_residual(step_error, spread, size),
        model_calls=evaluations * size.numel() * (1 + draws.shape[0]),
        warnings=failure_sentences(solution, times, stepped, model),
        message=f"density at sigma {noise_range(model)[0]:g}",
    )
    report.warn_if_failed()
    words = f"{solver}, tolerance {tol:g}" if solver in ADAPTIVE else f"{solver}, {steps} steps"
    settings = {
        "schedule": schedule.name, "steps": steps, "solver": solver, "tol": tol, "divergence": kind,
        "probes": probes, "grey_levels": grey_levels,
    }  # fmt: skip
    return LikelihoodResult(
        nats=value,
        step_error=step_error,
        probe_error=spread,
        dim=dim,
        sigma=noise_range(model)[0],
        solver=f"{words} in the clock of {stepped.name}",
        divergence="exact divergence"
        if kind == "exact"
        else f"Hutchinson divergence, {probes} Rademacher probes",
        probes=0 if kind == "exact" else probes,
        offset=offset,
        offset_reason=reason,
        latents=latents,
        report=report,
        provenance=provenance_of(
            x, model=str(model.frame), settings=settings, generator=generator, sources=SOURCES
        ),
    )


def _check_data(x: Tensor, dim: int) -> None:
    """At least one point, in a type whose round-off the error can be read from."""
    check_points(x, dim)
    if x.dtype not in (torch.float32, torch.float64):
        raise ShapeError(f"points of dtype {x.dtype}", "float32 or float64", "points.float()")
    if x.numel() == 0:
        raise ShapeError(f"points of shape {tuple(x.shape)}", "at least one point", f"shape (1, {dim})")


def _check(solver, steps, tol, schedule, probes, grey_levels, check_steps, chunk) -> None:
    """The settings by kind and value."""
    check_solver(solver, steps, tol)
    check_switch("check_steps", check_steps)
    if check_steps and solver not in ADAPTIVE:
        why = " for its check against a half and a quarter of them"
        check_count("steps", steps, least=4, hint="steps=40, or check_steps=False", why=why)
    check_schedule(schedule)
    check_count("probes", probes, least=1, hint="probes=16")
    check_count("grey_levels", grey_levels, least=2, none=True, hint="grey_levels=256")
    check_count("chunk", chunk, none=True, hint="chunk=None, which chooses by size")


def _residual(step_error: Tensor | None, spread: Tensor, size: Tensor) -> float | None:
    """Worst error relative to the density."""
    if step_error is None:
        return None
    return float((torch.hypot(step_error, spread) / size).nan_to_num(math.inf).max()) if size.numel() else 0.0


@dataclass(frozen=True, slots=True)
class _Run:
    """Points and divergence from data to noise.

    The noise end is the largest level of the model, or of the stepped clock if that is less; it does not
    matter there whether the schedule's own clock stops earlier.
    """

    model: ScoreModel
    schedule: Schedule
    solver: str
    draws: Tensor  # directions: probes, or the basis, shape (directions, dim)
    exact: bool  # whether the traces along the directions are summed
    chunk: int | None
    cancel: Cancel | None

    def __call__(
        self, x: Tensor, steps: int, tol: float, progress: Progress | None
    ) -> tuple[Tensor, Tensor, Solution, Tensor]:
        """Log densities (estimates, *batch), unit-noise latents, the solution and its times."""
        stepped = self.schedule.regular or self.schedule
        levels = torch.tensor(noise_range(self.model), dtype=torch.float64)
        first, last = time_of(stepped, levels).tolist()
        times = clock_grid(first, last, steps, x)
        a = float(stepped(torch.tensor(first, dtype=torch.float64))[0])
        gathered = x.new_zeros(1 if self.exact else self.draws.shape[0], *x.shape[:-1])
        solution = integrate(
            lambda t, state: self._rates(t, state[0], stepped),
            (a * x, gathered),
            times,
            solver=self.solver,
            tol=tol,
            progress=progress,
            cancel=self.cancel,
            what="following the density",
        )
        z, gathered = solution.state
        nats = self._prior(z, times[-1], stepped) + gathered + x.shape[-1] * math.log(a)
        if solution.status is Status.CANCELLED:
            nats = torch.full_like(nats, math.nan)
        nats = torch.where(solution.failed_at >= 0, math.nan, nats)
        return nats, z / stepped(times[-1])[1], solution, times

    def _rates(self, t: Tensor, x: Tensor, stepped: Schedule) -> tuple[Tensor, Tensor]:
        """Velocity and divergence, from one forward pass and a backward pass for each direction."""

        def velocity(points: Tensor) -> Tensor:
            return fields_along(self.model, points, t, stepped)[0]

        chunk = self.chunk or max(1, 2**22 // max(1, x.numel()))
        moved, pull = vjp(velocity, x)[:2]
        traces = vmap(lambda v: (pull(v.expand_as(x))[0] * v).sum(-1), chunk_size=chunk)(self.draws)
        return moved, traces.sum(0, keepdim=True) if self.exact else traces

    def _prior(self, z: Tensor, t: Tensor, stepped: Schedule) -> Tensor:
        """Log density at the noise end: a Gaussian of the data's mean and deviation under the noise."""
        a, s = stepped(t)
        mean = self.model.denoise(z.new_zeros(1, z.shape[-1]), s / a)[0]
        variance = s**2 + (a * self.model.frame.data_std) ** 2
        squared = (z - a * mean).square().sum(-1)
        return -0.5 * squared / variance - 0.5 * z.shape[-1] * torch.log(2.0 * math.pi * variance)


def _draw_probes(kind: object, probes: int, generator: torch.Generator | None, x: Points) -> Tensor:
    """Directions in which the Jacobian is asked, shape (directions, dim)."""
    dim = x.shape[-1]
    if kind == "exact":
        return torch.eye(dim, dtype=x.dtype, device=x.device)
    if kind != "hutchinson":
        raise SettingError(
            f"divergence {kind!r}", "'exact' or 'hutchinson'", "None, which chooses by dimension"
        )
    if probes < 2:
        raise SettingError(f"{probes} probes", "at least 2, for their spread is the error", "probes=16")
    if generator is None:
        raise SettingError(
            "no generator", "one to draw the probes", "generator=torch.Generator().manual_seed(0)"
        )
    return draw_signs((probes, dim), x, generator)


def _offset(model: ScoreModel, grey_levels: int | None) -> tuple[float, str]:
    """Bits per coordinate between a density per data unit and one per grey level."""
    if grey_levels is None:
        return 0.0, "none: the density is per data unit"
    limits = model.frame.value_range
    if limits is None or grey_levels < 2:
        raise SettingError(
            f"{grey_levels} grey levels for {model.frame} with value range {limits}",
            "at least 2 levels and a model that declares its value range",
            "grey_levels=None",
        )
    per_unit = (grey_levels - 1) / (limits[1] - limits[0])
    return math.log2(per_unit), f"log2 of {per_unit:g} grey levels per data unit"


def _coarser(solver: str, steps: int, tol: float) -> tuple[tuple[int, float], ...]:
    """Steps and tolerance of the repetitions from which the error by steps is read."""
    if solver in ADAPTIVE:
        return ((steps, 10.0 * tol),)
    return tuple((max(1, steps // part), tol) for part in (2, 4))


def _step_error(solver: str, nats: Tensor, coarser: list[Tensor]) -> Tensor:
    """Error by steps: the last difference, divided by what the differences have been seen to shrink by.

    In the regime of the solver's order p they shrink by 2^p and the error is the last difference over 2^p -
    1. One order is given away, and where they shrink more slowly the rate that was seen is used.
    """
    fine, middle = nats.detach().mean(0), coarser[0].mean(0)
    last = (fine - middle).abs()
    if solver in ADAPTIVE:
        return last
    before = (middle - coarser[1].mean(0)).abs()
    seen = before / last.clamp_min(torch.finfo(last.dtype).tiny)
    return last / (seen.clamp(2.0, max(2.0, 2.0 ** (ORDERS[solver] - 1))) - 1.0)


def _floor(model: ScoreModel, stepped: Schedule, times: Tensor, nats: Tensor) -> Tensor:
    """What no number of steps removes: rounding, and a noise end that is a Gaussian to second order only."""
    ratio = model.frame.data_std / float(sigma_of(stepped, times[-1].double()))
    rounding = 8.0 * torch.finfo(nats.dtype).eps * (1.0 + nats.detach().mean(0).abs())
    return 0.5 * model.frame.dim * ratio**2 + rounding
