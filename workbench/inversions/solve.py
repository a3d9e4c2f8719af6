"""Up the grid of noise levels and down again; see the package for the solvers."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from workbench.checks import check_count, check_model, check_number, check_run
from workbench.errors import NotConverged, SettingError, ShapeError
from workbench.flows.transport import FlowResult
from workbench.integrators import Cancel, Progress
from workbench.inversions.exact import Edict
from workbench.inversions.latent import Latent
from workbench.inversions.solvers import settings_of, solver_of
from workbench.inversions.steps import Noise, Solver, State
from workbench.models import Frame, ScoreModel, check_points, noise
from workbench.report import SolveReport, Status, provenance_of
from workbench.sampling import default_range
from workbench.types import Points

_SOURCES = {
    "ddim": "Denoising Diffusion Implicit Models",
    "fixed": "Denoising Diffusion Implicit Models",
    "heun": "Elucidating the design space of diffusion-based generative models",
    "edict": "EDICT: Exact Diffusion Inversion via Coupled Transformations",
    "bdia": "Exact Diffusion Inversion via Bi-directional Integration Approximation",
    "belm": "BELM: Bidirectional Explicit Linear Multi-step Sampler for Exact Inversion in Diffusion Models",
    "reversible": "Efficient, Accurate and Stable Gradients for Neural ODEs",
}


def inversion_levels(
    frame: Frame,
    *,
    depth: float | None = None,
    low: float | None = None,
    steps: int = 50,
    rho: float = 7.0,
) -> Tensor:
    """A grid from the data's end to a depth, dense near the data.

    Args:
        frame: What the model declares.
        depth: Highest level; None for the model's largest.
        low: Lowest level; None for the model's smallest.
        steps: Intervals.
        rho: How strongly levels crowd towards the data; 1 for equal distances.

    Returns:
        Rising levels, shape (steps + 1,), float64.

    Raises:
        SettingError: For no step, or a depth outside the model's range.

    References:
        Karras et al. 2022, equation 5.
    """
    check_count("steps", steps)
    check_number("rho", rho, above=0.0)
    least, high = default_range(frame)
    check_number("low", low, least=least * (1 - 1e-6), below=high, none=True, hint=f"low={least:g}")
    bottom = least if low is None else low
    check_number("depth", depth, above=bottom, most=high * (1 + 1e-6), none=True, hint=f"depth={high:g}")
    top = high if depth is None else depth
    ramp = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    return (bottom ** (1 / rho) + ramp * (top ** (1 / rho) - bottom ** (1 / rho))) ** rho


@torch.no_grad()
def encode(
    model: ScoreModel,
    x: Points,
    *,
    depth: float | None = None,
    low: float | None = None,
    steps: int = 50,
    solver: str | Solver = "belm",
    levels: Sequence[float] | Tensor | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> Latent:
    """Latents of samples: up the grid with each sample's condition as the model binds it.

    Args:
        model: The model; `given_each` binds a condition to every sample.
        x: Data points, shape (*batch, dim), taken as they are for points at the lowest level. Details of a
            smaller size than that level are carried along small; those of a larger size grow to the size of
            the noise, whether they matter or not. So where latents shall be compared with each other, the
            lowest level says how fine a detail counts.
        depth: Noise level to stop at; None for the model's largest. Structure that is lost at full depth may
            survive at an intermediate one.
        low: Lowest level; None for the model's smallest.
        steps: Intervals of the grid.
        solver: A name in `SOLVERS`, or a solver with settings of its own.
        levels: The grid itself, rising; replaces depth, low and steps.
        progress: Called after every level with the fraction done and a sentence.
        cancel: Asked before every level; the latent then lies at the level reached.

    Returns:
        The latent with all that `decode` needs. Detached. Cost: steps x (1 to 6) model calls a sample, as the
        solver's `calls` says.

    Raises:
        ShapeError: If x does not fit the model or is not finite.
        SettingError: For a setting out of range.
        NotConverged: If the two copies of "edict" run apart.

    References:
        See the package.
    """
    check_model(model)
    check_points(x, model.frame.dim, name="x")
    check_run(None, progress, cancel)
    method = solver_of(solver)
    grid = _grid(model.frame, depth, low, steps, levels)
    return _climb(model, x, grid, method, progress, cancel)


def _climb(
    model: ScoreModel,
    x: Points,
    grid: Tensor,
    method: Solver,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> Latent:
    rungs = grid.to(dtype=x.dtype, device=x.device)
    eps = _noise_of(model)
    state = _scaled((x, x), method.scales(rungs, 0))
    watch = _Watch(x, method)
    reached = 0
    for i in range(len(grid) - 1):
        if cancel is not None and cancel.is_set():
            break
        state = watch.follow(state, method.up(eps, state, rungs, i), i)
        reached = i + 1
        if progress is not None:
            progress(reached / (len(grid) - 1), f"inverting: level {reached} of {len(grid) - 1}")
    state = _scaled(state, method.scales(rungs, reached), back=True)
    report = watch.report(
        grid, reached, len(grid) - 1, x[..., 0].numel() * method.calls * reached, model, method
    )
    provenance = provenance_of(
        x,
        model=str(model.frame),
        settings={
            "solver": method.name,
            **settings_of(method),
            "depth": float(grid[-1]),
            "steps": len(grid) - 1,
        },
        sources=(_SOURCES.get(method.name, method.name),),
    )
    return Latent(
        state[0], state[1], grid[: reached + 1].clone(), method.name, settings_of(method), report, provenance
    )


@torch.no_grad()
def decode(
    model: ScoreModel,
    latent: Latent,
    *,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> FlowResult:
    """Samples of latents: down the latent's own grid by its own solver.

    Args:
        model: The model, with its condition; another one than the latent was made with shows what the
            condition does.
        latent: Latents with their solver's state.
        progress: Called after every level with the fraction done and a sentence.
        cancel: Asked before every level; the points then lie at the level reached.

    Returns:
        The data points; `t` is the noise level reached, the lowest one of the grid. Detached. Cost: as going
        up, one model call a step for "fixed".

    Raises:
        ShapeError: If the latent does not fit the model or is not finite.
        SettingError: If it is none.
        NotConverged: If the two copies of "edict" run apart.
    """
    check_model(model)
    if not isinstance(latent, Latent):
        raise SettingError(f"a latent of type {type(latent).__name__}", "a Latent", "encode(model, x)")
    check_points(latent.points, model.frame.dim, name="latent.points")
    check_points(latent.partner, model.frame.dim, name="latent.partner")
    check_run(None, progress, cancel)
    method, grid = latent.method, latent.levels
    rungs = grid.to(dtype=latent.points.dtype, device=latent.points.device)
    eps = _noise_of(model)
    state = _scaled((latent.points, latent.partner), method.scales(rungs, len(grid) - 1))
    watch = _Watch(latent.points, method)
    steps = len(grid) - 1
    reached = steps
    for i in reversed(range(steps)):
        if cancel is not None and cancel.is_set():
            break
        state = watch.follow(state, method.down(eps, state, rungs, i), i)
        reached = i
        if progress is not None:
            progress(1 - i / steps, f"sampling: level {steps - i} of {steps}")
    state = _scaled(state, method.scales(rungs, reached), back=True)
    calls = 1 if method.name == "fixed" else method.calls
    done = steps - reached
    report = watch.report(grid, done, steps, latent.points[..., 0].numel() * calls * done, model, method)
    settings = dict(latent.provenance.settings)
    provenance = replace(latent.provenance, model=str(model.frame), settings=settings)
    return FlowResult(state[0], float(grid[reached]), report, provenance)


@torch.no_grad()
def latent_from(model: ScoreModel, points: Points, latent: Latent) -> Latent:
    """A latent for points that come without a past, e.g. fresh noise: the solver's state begun anew.

    Args:
        model: The model; two-step solvers ask it once a point.
        points: Points at the depth of the latent, shape (*batch, dim).
        latent: Whose grid and solver to use.

    Returns:
        The latent to decode.

    Raises:
        ShapeError: If the points do not fit the model or are not finite.
    """
    check_points(points, model.frame.dim)
    rungs = latent.levels.to(dtype=points.dtype, device=points.device)
    state = latent.method.begin(_noise_of(model), points, rungs)
    return replace(latent, points=state[0], partner=state[1])


def _scaled(state: State, factors: tuple[Tensor, Tensor] | None, *, back: bool = False) -> State:
    """Points and partner in the frame that the solver works in, or back from it."""
    if factors is None:
        return state
    if back:
        return state[0] / factors[0], state[1] / factors[1]
    return state[0] * factors[0], state[1] * factors[1]


def _noise_of(model: ScoreModel) -> Noise:
    return lambda y, level: noise(model, y, level)


def _grid(
    frame: Frame,
    depth: float | None,
    low: float | None,
    steps: int,
    levels: Sequence[float] | Tensor | None,
) -> Tensor:
    """The grid of noise levels that is asked for, float64."""
    if levels is None:
        return inversion_levels(frame, depth=depth, low=low, steps=steps)
    grid = torch.as_tensor(levels, dtype=torch.float64).cpu()
    if grid.ndim != 1 or len(grid) < 2:
        raise ShapeError(f"levels of shape {tuple(grid.shape)}", "at least two, in one row")
    if not bool((grid[1:] > grid[:-1]).all()) or float(grid[0]) <= 0 or not bool(torch.isfinite(grid).all()):
        raise SettingError(
            f"levels from {float(grid[0]):g} to {float(grid[-1]):g}",
            "positive levels that rise",
            "levels.flip(0)",
        )
    return grid


class _Watch:
    """Keeps the last finite state of every sample and what the report says, without a wait in the loop."""

    def __init__(self, like: Points, method: Solver) -> None:
        self.failed = torch.full(like.shape[:-1], -1, device=like.device)
        self.limit = method.apart if isinstance(method, Edict) else None
        self.apart = torch.zeros((), dtype=like.dtype, device=like.device)

    def follow(self, before: State, after: State, step: int) -> State:
        """The new state where it is finite, the old one elsewhere."""
        finite = torch.isfinite(after[0]).all(-1) & torch.isfinite(after[1]).all(-1)
        self.failed = torch.where((self.failed < 0) & ~finite, step, self.failed)
        if self.limit is not None:
            distance = (after[0] - after[1]).norm(dim=-1) / after[0].norm(dim=-1).clamp_min(1e-30)
            self.apart = torch.maximum(self.apart, distance.amax() if distance.numel() else self.apart)
        mask = finite.unsqueeze(-1)
        return torch.where(mask, after[0], before[0]), torch.where(mask, after[1], before[1])

    def report(
        self, grid: Tensor, done: int, steps: int, calls: int, model: ScoreModel, method: Solver
    ) -> SolveReport:
        """How it went; one look at the device."""
        if self.limit is not None and not float(self.apart) <= self.limit:
            raise NotConverged(
                f"got the two copies of edict {float(self.apart):.2g} of their size apart; expected less "
                f"than {self.limit:g}; try a p nearer to 1, fewer than {steps} steps, or solver='belm'"
            )
        status, warnings = Status.CONVERGED if done == steps else Status.CANCELLED, ()
        if bool((self.failed >= 0).any()):
            status = Status.DIVERGED
            sample = int((self.failed.flatten() >= 0).nonzero()[0])
            level = float(grid[int(self.failed.flatten()[sample])])
            warnings = (
                f"got non-finite noise from {model.frame} at sample {sample}, near sigma {level:.4g}; "
                "expected finite values; try float64 or more steps",
            )
        report = SolveReport(
            status,
            done,
            None if self.limit is None else float(self.apart),
            calls,
            warnings=warnings,
            message=f"{method.name}, {done} of {steps} steps between sigma {float(grid[0]):.3g} and "
            f"{float(grid[-1]):.3g}",
        )
        report.warn_if_failed()
        return report
