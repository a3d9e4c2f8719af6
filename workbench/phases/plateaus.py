r"""A potential learned on a slice, and the plateaus of its gradient.

Where a slice's metric were the Hessian of a potential psi, grad psi would be constant inside a phase and jump
across a boundary: a staircase. `learn_slice` fits such a psi to the features of a grid of pictures in the
published way: each grid point gets the posterior of a Gaussian kernel in feature space,

.. math::
    p(t \mid t') \propto e^{-\frac N2 |E(t) - E(t')|^2},

and psi is what explains all posteriors. Nothing is trained on pictures, and the deterministic sampler's own
metric, the pullback of the features, stands beside it. The two differ in three ways: the grid sees nothing
between its points (`grid_metric` is what it sees), the kernel smooths over its width, and the pullback is no
Hessian, so that the learned metric is a projection of it.

References:
    Lobashev, Guskov, Larchenko, Tamm, "Hessian Geometry of Latent Space in Generative Models", 2025, sections
    4.2 and 4.3, https://arxiv.org/abs/2506.10632 (there with an exponential of the distance instead of its
    square, which has a cusp where the metric is read off)
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from workbench.draws import seeded
from workbench.errors import SettingError, ShapeError
from workbench.fields import Window
from workbench.integrators import Progress
from workbench.logpartition.twostage import fit_potential
from workbench.metrics import Chart, Hessian, Metric
from workbench.phases.boundaries import label_phases
from workbench.phases.slices import LatentSlice
from workbench.report import Provenance, SolveReport, Status, provenance_of

MEASURES = ("features", "pictures", "learned")
"""What a slice can be measured by; see `slice_metric`."""


@dataclass(frozen=True, slots=True)
class LearnedSlice:
    """A potential on a slice.

    Attributes:
        metric: Its Hessian, in the unit of squared feature distance.
        gradient: grad psi on the grid, shape (rows, columns, 2).
        matrices: The learned metric on the grid, shape (rows, columns, 2, 2).
        sharpness: N of the kernel.
        divergence: Jensen-Shannon divergence at the end, in nats, mean over the grid.
        report: Steps done and the divergence on the way.
        provenance: Settings, seed and versions.
    """

    metric: Hessian
    gradient: Tensor
    matrices: Tensor
    sharpness: float
    divergence: float
    report: SolveReport
    provenance: Provenance


def learn_slice(
    features: Tensor,
    window: Window,
    *,
    width: float = 1.0,
    steps: int = 1000,
    rate: float = 3e-2,
    potential: nn.Module | None = None,
    chart: Chart | None = None,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
) -> LearnedSlice:
    """Fit a potential to the features of a grid of pictures.

    Args:
        features: Features on a regular grid, shape (rows, columns, features), row 0 lowest.
        window: Where the grid lies.
        width: Typical width of the kernel, in cells; it smooths the learned metric.
        steps: Steps of the fit; with too few of them the metric is smoothed over several cells.
        rate: Largest learning rate.
        potential: psi from (*batch, 2) to (*batch); an input-convex network if None, so that its metric is
            positive everywhere.
        chart: Coordinates of the slice.
        generator: Source of initial weights; None for one of seed 0.
        progress: Called with the share done and a sentence.

    Returns:
        The potential. Memory: (rows columns)^2 numbers, a few times; no model calls.

    Raises:
        ShapeError: If the features are no grid.
        SettingError: If all features agree.
    """
    if features.ndim != 3 or min(features.shape[:2]) < 4:
        raise ShapeError(f"features of shape {tuple(features.shape)}", "(rows, columns, features), 4 x 4 up")
    rows, columns, _ = features.shape
    flat = features.reshape(rows * columns, -1).double()
    x = torch.linspace(*window.x, columns, dtype=flat.dtype, device=flat.device)
    y = torch.linspace(*window.y, rows, dtype=flat.dtype, device=flat.device)
    points = torch.cartesian_prod(y, x).flip(-1)
    squared = torch.cdist(flat, flat).square()
    beside = torch.cat(
        ((features[1:] - features[:-1]).flatten(0, 1), (features[:, 1:] - features[:, :-1]).flatten(0, 1))
    )
    step = beside.double().square().sum(dim=1).mean()  # mean squared change from cell to cell
    if not float(step) > 0.0:
        raise SettingError("features that are the same everywhere", "features that vary", "another slice")
    sharpness = float(1.0 / (step * width**2))
    posteriors = torch.softmax(-0.5 * sharpness * squared, dim=1)
    fitted = fit_potential(
        posteriors,
        points,
        potential=potential,
        steps=steps,
        rate=rate,
        generator=seeded(generator),
        progress=progress,
    )
    scaled = Hessian(
        lambda t: fitted.potential(t) / sharpness,
        Chart("latent plane", 2, ("a", "b")) if chart is None else chart,
        "learned Hessian metric of a slice",
    )
    report = SolveReport(
        Status.CONVERGED,
        steps,
        None,
        0,
        fitted.divergences,
        (),
        f"divergence {fitted.divergences[-1]:.4f} nats",
    )
    settings = {
        "width": width,
        "steps": steps,
        "rate": rate,
        "rows": rows,
        "columns": columns,
        "sharpness": sharpness,
    }
    return LearnedSlice(
        scaled,
        scaled.dual(points).detach().reshape(rows, columns, 2),
        scaled.matrix(points).detach().reshape(rows, columns, 2, 2),
        sharpness,
        fitted.divergences[-1],
        report,
        provenance_of(points, model=scaled.name, settings=settings, generator=generator),
    )


def slice_metric(
    plane: LatentSlice,
    measure: str,
    window: Window,
    *,
    side: int = 16,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
) -> Metric:
    """The metric of a slice by name.

    Args:
        plane: The slice.
        measure: "features" for the pullback of the judge's features (of the pictures, where there is no
            judge), "pictures" for the pullback of the pictures, "learned" for the Hessian of a potential that
            is fitted to the features of a grid.
        window: Where the learned one is fitted.
        side: Grid points along each side for it.
        generator: Source of its initial weights; None for one of seed 0.
        progress: Called with the share done and a sentence.

    Returns:
        The metric. A learned one costs side^2 pictures now and no model calls later.

    Raises:
        SettingError: If no metric has that name.
    """
    if measure not in MEASURES:
        raise SettingError(f"measure {measure!r}", f"one of {', '.join(MEASURES)}", "measure='features'")
    if measure != "learned":
        return plane.metric() if measure == "features" else plane.picture_metric()
    x, y = (torch.linspace(*span, side).to(plane.corners) for span in (window.x, window.y))
    with torch.no_grad():
        features = plane.read(torch.cartesian_prod(y, x).flip(-1)).reshape(side, side, -1)
    with torch.enable_grad():
        return learn_slice(features, window, generator=generator, progress=progress).metric


@dataclass(frozen=True, slots=True)
class Plateaus:
    """How much of a staircase a gradient is.

    Attributes:
        labels: Phase of each grid point, shape (rows, columns); 0 is the largest.
        heights: Mean gradient of each phase, shape (phases, 2).
        spread: Root mean square distance of the gradient from its phase's mean.
        flatness: Share of the gradient's variance between the phases: 1 for a perfect staircase.
        report: Whether phases that were looked for came to rest; the residual is the share of grid points
            whose gradient is nearer to another phase's mean, none where the phases were given.
        provenance: Settings, seed and versions.
    """

    labels: Tensor
    heights: Tensor
    spread: float
    flatness: float
    report: SolveReport
    provenance: Provenance


def measure_plateaus(
    gradient: Tensor,
    *,
    labels: Tensor | None = None,
    count: int = 3,
    generator: torch.Generator | None = None,
) -> Plateaus:
    """Plateaus of a gradient over phases.

    Args:
        gradient: grad psi on a grid, shape (rows, columns, 2).
        labels: Phases, shape (rows, columns), e.g. of a judge; None finds `count` of them in the gradient.
        count: Number of phases to find.
        generator: Source of the search's first centres; None for one of seed 0.

    Returns:
        The plateaus.
    """
    given = labels is not None
    if labels is None:
        labels = label_phases(gradient, count, generator=generator)
    if labels.shape != gradient.shape[:2]:
        raise ShapeError(f"labels of shape {tuple(labels.shape)}", f"{tuple(gradient.shape[:2])}")
    flat, which = gradient.reshape(-1, 2), torch.unique(labels.flatten(), return_inverse=True)[1]
    size = torch.bincount(which).to(flat.dtype)
    heights = torch.zeros(len(size), 2, dtype=flat.dtype, device=flat.device).index_add_(0, which, flat)
    heights = heights / size[:, None]
    inner = (flat - heights[which]).square().sum(dim=1).mean()
    total = (flat - flat.mean(dim=0)).square().sum(dim=1).mean()
    flatness = float(1.0 - inner / total) if float(total) > 0.0 else 1.0
    stray = float((torch.cdist(flat, heights).argmin(dim=1) != which).double().mean())
    report = SolveReport(
        Status.CONVERGED if given or stray == 0.0 else Status.MAX_ITERATIONS,
        0,
        None if given else stray,
        0,
        message=f"{len(heights)} phases " + ("as given" if given else "found in the gradient"),
    )
    provenance = provenance_of(
        gradient,
        model="gradient of a potential",
        settings={"count": count, "given": given},
        generator=generator,
    )
    return Plateaus(labels, heights, float(inner.sqrt()), flatness, report, provenance)


def grid_metric(features: Tensor, window: Window) -> Tensor:
    """The pullback of features as their grid shows it, by central differences.

    Args:
        features: Features on a regular grid, shape (rows, columns, features), row 0 lowest.
        window: Where the grid lies.

    Returns:
        Matrices, shape (rows, columns, 2, 2): the most that whatever is fitted to the grid can know of the
        metric between its points.

    Raises:
        ShapeError: If the features are no grid.
    """
    if features.ndim != 3 or min(features.shape[:2]) < 3:
        raise ShapeError(f"features of shape {tuple(features.shape)}", "(rows, columns, features), 3 x 3 up")
    rows, columns = features.shape[:2]
    steps = ((window.y[1] - window.y[0]) / (rows - 1), (window.x[1] - window.x[0]) / (columns - 1))
    up, along = torch.gradient(features.double(), spacing=steps, dim=(0, 1))
    jacobian = torch.stack((along, up), dim=-1)
    return jacobian.mT @ jacobian


def compare_metrics(learned: Tensor, reference: Tensor) -> tuple[float, float]:
    """A learned metric beside the sampler's own on one grid, (rows, columns, 2, 2) each.

    Returns:
        (scale, correlation): median ratio of their traces, and rank correlation of the traces over the grid.
        Boundaries agree where the correlation is high; the scale falls where the kernel smooths them.
    """
    first, second = (g.diagonal(dim1=-2, dim2=-1).sum(dim=-1).flatten() for g in (learned, reference))
    ranks = torch.stack([v.argsort().argsort().double() for v in (first, second)])
    ranks = ranks - ranks.mean(dim=1, keepdim=True)
    size = torch.linalg.vector_norm(ranks, dim=1).prod()
    return float((first / second.to(first)).median()), float(ranks.prod(dim=0).sum() / size)
