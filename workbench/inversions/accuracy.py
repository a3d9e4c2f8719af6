"""Two numbers that say different things: how well an inversion returns, and how true its latent is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from workbench.checks import check_count
from workbench.integrators import Cancel, Progress, take_step
from workbench.inversions.latent import Latent
from workbench.inversions.solve import decode, encode
from workbench.inversions.steps import Solver
from workbench.models import ScoreModel, noise
from workbench.report import Provenance, SolveReport, Status
from workbench.types import Points, Scalars


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """An inversion, judged sample by sample.

    One root mean square would hide what matters: a single sample that lands in another mode outweighs all.

    Attributes:
        latent: The latents.
        returned: The samples that they decode to, shape (*batch, dim).
        errors: Distance of each sample to its return, relative to its norm, shape (*batch).
        reference: Latents by the flow itself, integrated on a much finer grid.
        deviations: Distance of each latent to its reference, relative to that one's norm, shape (*batch).
        report: How it went; the residual is the largest error.
        provenance: Where it came from.
    """

    latent: Latent
    returned: Points
    errors: Scalars
    reference: Points
    deviations: Scalars
    report: SolveReport
    provenance: Provenance

    @property
    def median(self) -> float:
        """Median round-trip error."""
        return float(self.errors.median())

    @property
    def worst(self) -> float:
        """Largest round-trip error."""
        return float(self.errors.max())

    @property
    def median_deviation(self) -> float:
        """Median deviation of the latents from the fine reference."""
        return float(self.deviations.median())

    @property
    def worst_deviation(self) -> float:
        """Largest deviation of a latent from the fine reference."""
        return float(self.deviations.max())

    def __str__(self) -> str:
        return (
            f"{self.latent.solver}: round trip {self.median:.2g} (median), {self.worst:.2g} (worst); "
            f"latent off the flow by {self.median_deviation:.2g} (median), {self.worst_deviation:.2g} (worst)"
        )


@torch.no_grad()
def measure_round_trip(
    model: ScoreModel,
    x: Points,
    *,
    depth: float | None = None,
    low: float | None = None,
    steps: int = 50,
    solver: str | Solver = "belm",
    levels: Sequence[float] | Tensor | None = None,
    refine: int = 8,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> RoundTrip:
    """Invert, sample back, and integrate the flow finely beside it.

    Args:
        model: The model, conditions bound.
        x: Data points, shape (*batch, dim).
        depth: As for `encode`.
        low: As for `encode`.
        steps: As for `encode`.
        solver: As for `encode`.
        levels: As for `encode`.
        refine: Classical Runge-Kutta steps of the reference in every interval of the grid, equal in ln sigma.
        progress: Called with the fraction done and a sentence.
        cancel: Stops between levels; the reference is then left out (infinite deviations).

    Returns:
        Both numbers for every sample. Cost: two passes of the solver and 4 x refine x steps model calls a
        sample.

    Raises:
        ShapeError: If x does not fit the model or is not finite.
        SettingError: For a setting out of range.
        NotConverged: If the two copies of "edict" run apart.
    """
    check_count("refine", refine)
    part = _thirds(progress)
    latent = encode(
        model,
        x,
        depth=depth,
        low=low,
        steps=steps,
        solver=solver,
        levels=levels,
        progress=part(0),
        cancel=cancel,
    )
    back = decode(model, latent, progress=part(1), cancel=cancel)
    reference, calls = _reference(model, x, latent.levels, refine, part(2), cancel)
    size = x.norm(dim=-1).clamp_min(1e-3 * model.frame.data_std)
    errors = (back.points - x).norm(dim=-1) / size
    deviations = (latent.points - reference).norm(dim=-1) / reference.norm(dim=-1)
    statuses = [latent.report.status, back.report.status]
    status = next((s for s in statuses if s is not Status.CONVERGED), Status.CONVERGED)
    report = SolveReport(
        status,
        latent.report.iterations + back.report.iterations,
        float(errors.max()) if errors.numel() else 0.0,
        latent.report.model_calls + back.report.model_calls + calls,
        warnings=latent.report.warnings + back.report.warnings,
        message=f"{latent.solver} there and back against Runge-Kutta on a grid {refine} times as fine",
    )
    return RoundTrip(latent, back.points, errors, reference, deviations, report, latent.provenance)


def _reference(
    model: ScoreModel,
    x: Points,
    levels: Tensor,
    refine: int,
    progress: Progress | None,
    cancel: Cancel | None,
) -> tuple[Points, int]:
    """Points at the depth by classical Runge-Kutta, and the calls it took."""
    state, calls = (x,), 0
    for i, (low, high) in enumerate(pairwise(levels)):
        if cancel is not None and cancel.is_set():
            return torch.full_like(x, torch.inf), calls
        inner = torch.linspace(0, 1, refine + 1, dtype=levels.dtype)
        fine = (low.log() + inner * (high / low).log()).exp().to(dtype=x.dtype, device=x.device)
        for k in range(refine):
            state = take_step(lambda t, s: (noise(model, s[0], t),), state, fine[k], fine[k + 1], "rk4")
            calls += 4 * x[..., 0].numel()
        if progress is not None:
            progress((i + 1) / (len(levels) - 1), f"fine reference: level {i + 1} of {len(levels) - 1}")
    return state[0], calls


def _thirds(progress: Progress | None) -> Callable[[int], Progress | None]:
    """Progress callbacks of three equal parts."""

    if progress is None:
        return lambda index: None
    return lambda index: lambda fraction, message: progress((index + fraction) / 3, message)
