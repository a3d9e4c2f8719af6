"""How much of a known factor a latent still shows, depth by depth."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.checks import check_count, check_model, check_number, check_run
from workbench.errors import SettingError, ShapeError
from workbench.integrators import Cancel, Progress
from workbench.inversions.solve import encode, inversion_levels
from workbench.inversions.solvers import solver_of
from workbench.inversions.steps import Solver
from workbench.models import ScoreModel, check_points
from workbench.report import Provenance, SolveReport, Status, provenance_of
from workbench.types import Points


@dataclass(frozen=True, slots=True)
class DepthProbe:
    """Factors read from latents at rising depth.

    Attributes:
        depths: Noise levels, shape (depths,); the first is the data's own.
        linear: Held-out R² of ridge regression from latents to each factor, shape (depths, factors).
        neighbours: The same for the mean of the nearest neighbours.
        names: Names of the factors.
        report: How the inversions went.
        provenance: Where it came from.
    """

    depths: Float[Tensor, " depths"]
    linear: Float[Tensor, "depths factors"]
    neighbours: Float[Tensor, "depths factors"]
    names: tuple[str, ...]
    report: SolveReport
    provenance: Provenance


@torch.no_grad()
def probe_depths(
    model: ScoreModel,
    x: Points,
    factors: Float[Tensor, "count factors"],
    *,
    names: Sequence[str] = (),
    depths: Sequence[float] | None = None,
    low: float | None = None,
    steps: int = 20,
    solver: str | Solver = "belm",
    folds: int = 5,
    k: int = 5,
    ridge: float = 1e-3,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> DepthProbe:
    """Held-out R² of known factors from the latents of samples, at several depths.

    The samples are cut into contiguous blocks, so that neighbours in time do not stand on both sides of a
    split. An angle enters as its cosine and sine.

    Args:
        model: The model, conditions bound.
        x: Data points in their order of time, shape (count, dim).
        factors: What is known of them, shape (count, factors).
        names: Names of the factors.
        depths: Rising noise levels; eight between the model's ends if None.
        low: As for `encode`.
        steps: Steps to each depth.
        solver: As for `encode`.
        folds: Blocks; each is held out once.
        k: Neighbours.
        ridge: Weight of the penalty, relative to the mean squared norm of the latents.
        progress: Called with the fraction done and a sentence.
        cancel: Stops between depths; the depths so far are returned.

    Returns:
        R² by depth and factor: 1 where the factor is all there, 0 or below where it is lost. Cost: steps
        model calls a sample and depth for a solver of one call.

    Raises:
        ShapeError: If samples do not fit the model or the factors, or are not finite.
        SettingError: For a setting out of range, depths that do not rise, or names of other factors.
    """
    check_model(model)
    check_points(x, model.frame.dim, name="x")
    check_run(None, progress, cancel)
    if x.ndim != 2 or factors.ndim != 2 or len(factors) != len(x) or not bool(torch.isfinite(factors).all()):
        raise ShapeError(
            f"factors of shape {tuple(factors.shape)} for {len(x)} samples", "finite values, one row a sample"
        )
    check_count("folds", folds, least=2)
    check_count("k", k)
    check_number("ridge", ridge, above=0.0)
    if names and len(names) != factors.shape[1]:
        raise SettingError(f"{len(names)} names of {factors.shape[1]} factors", "one a factor, or none")
    if len(x) < folds * (k + 1):
        raise SettingError(
            f"{len(x)} samples", f"at least {folds * (k + 1)} for {folds} folds and {k} neighbours"
        )
    chosen = inversion_levels(model.frame, low=low, steps=8)[1:].tolist() if depths is None else list(depths)
    if not chosen or any(b <= a for a, b in pairwise(chosen)):
        raise SettingError(f"depths {chosen}", "rising noise levels", "sorted(set(depths))")
    blocks = torch.arange(len(x), device=x.device) * folds // len(x)
    levels, linear, near, calls = [float(inversion_levels(model.frame, low=low, steps=1)[0])], [], [], 0
    scores = [read_factors(x, factors, blocks, k=k, ridge=ridge)]
    status = Status.CONVERGED
    for i, depth in enumerate(chosen):
        if cancel is not None and cancel.is_set():
            status = Status.CANCELLED
            break
        latent = encode(model, x, depth=depth, low=low, steps=steps, solver=solver)
        calls += latent.report.model_calls
        if latent.report.status is Status.DIVERGED:
            status = Status.DIVERGED
        scores.append(read_factors(latent.points, factors, blocks, k=k, ridge=ridge))
        levels.append(float(depth))
        if progress is not None:
            progress((i + 1) / len(chosen), f"probing depth {i + 1} of {len(chosen)}")
    linear, near = (torch.stack(parts) for parts in zip(*scores, strict=True))
    settings = {"solver": solver_of(solver).name, "steps": steps, "folds": folds, "k": k, "ridge": ridge}
    return DepthProbe(
        torch.tensor(levels, dtype=linear.dtype),
        linear,
        near,
        tuple(names) or tuple(f"factor {i + 1}" for i in range(factors.shape[1])),
        SolveReport(status, len(levels) - 1, None, calls, message=f"{len(levels) - 1} depths"),
        provenance_of(x, model=str(model.frame), settings=settings),
    )


def read_factors(
    z: Points, factors: Float[Tensor, "count factors"], blocks: Tensor, *, k: int, ridge: float
) -> tuple[Tensor, Tensor]:
    """Held-out R² of factors from points, by ridge regression and by nearest neighbours.

    Args:
        z: Points, shape (count, dim).
        factors: Values, shape (count, factors).
        blocks: Block of each sample, shape (count,); each block is held out once.
        k: Neighbours.
        ridge: Penalty relative to the mean squared norm.

    Returns:
        Two tensors of shape (factors,).
    """
    z, factors = z.double(), factors.double()
    guesses = torch.zeros(2, *factors.shape, dtype=factors.dtype, device=factors.device)
    means = torch.zeros_like(factors)
    for block in blocks.unique().tolist():
        out = blocks == block
        train, test = z[~out], z[out]
        centre, level = train.mean(0), factors[~out].mean(0)
        train, test = train - centre, test - centre
        scale = train.square().sum(1).mean()
        eye = torch.eye(len(train), dtype=z.dtype, device=z.device)
        weights = torch.linalg.solve(train @ train.T + ridge * scale * eye, factors[~out] - level)
        guesses[0, out] = level + test @ (train.T @ weights)
        nearest = torch.cdist(test, train).topk(k, largest=False).indices
        guesses[1, out] = factors[~out][nearest].mean(1)
        means[out] = level
    spread = (factors - means).square().sum(0).clamp_min(1e-300)
    errors = (guesses - factors).square().sum(1) / spread
    return 1 - errors[0], 1 - errors[1]
