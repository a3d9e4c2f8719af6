"""A metric seen on a plane: matrices, volumes, eigenvalues on a grid, in one batch.

Batches are cut by memory alone: what a point takes is measured on a few of them, where models are asked.
Where the matrix is not positive definite the field says so; nothing is clipped.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.embeddings import Section
from workbench.errors import SettingError
from workbench.fields import Window
from workbench.integrators import Cancel, Progress
from workbench.memory import points_together
from workbench.metrics import Chart, Metric, Pullback, hessian_residual, inside, matrix
from workbench.metrics.base import anisotropy_of
from workbench.report import Provenance, SolveReport, Status, provenance_of


@dataclass(frozen=True, slots=True)
class MetricField:
    """A metric on a grid over a plane; row 0 at the lowest ordinate.

    Attributes:
        matrices: Shape (rows, columns, 2, 2).
        window: Where the grid lies.
        log_magnification: Half the log determinant, NaN where it is negative, shape (rows, columns).
        largest: Largest eigenvalue.
        smallest: Smallest eigenvalue; negative where the metric is indefinite.
        anisotropy: Fractional anisotropy, 0 to 1.
        residual: Distance from a Hessian metric in this chart, 0 to 1; None if not measured.
        indefinite: True where the metric is not positive definite, or the point lies outside the domain.
        metric: Name of the metric.
        chart: Its coordinates.
        report: Cost, and which share of the grid has no metric.
        provenance: Settings and versions.
    """

    matrices: Tensor
    window: Window
    log_magnification: Tensor
    largest: Tensor
    smallest: Tensor
    anisotropy: Tensor
    residual: Tensor | None
    indefinite: Tensor
    metric: str
    chart: Chart
    report: SolveReport
    provenance: Provenance

    @property
    def condition(self) -> Tensor:
        """Largest over smallest eigenvalue."""
        return self.largest / self.smallest

    @property
    def share_indefinite(self) -> float:
        """Share of grid points where the metric is no metric."""
        return float(self.indefinite.double().mean())


def on_section(metric: Metric, section: Section, *, axes: tuple[str, str] = ("a", "b")) -> Pullback:
    """A metric of a large space seen on a plane through it, without any of its matrices.

    Args:
        metric: The metric of the large space.
        section: The plane.
        axes: Names of its coordinates.

    Returns:
        The induced metric in the plane's two coordinates; three inner products a point for its matrix.
    """
    return Pullback(section.decode, Chart(f"plane through {metric.chart.name}", 2, axes), metric, metric.name)


def _together(metric: Metric, points: Tensor, residual: bool) -> tuple[int, int]:
    """Points to a batch, and points tried for it.

    All go together where the metric is a formula, and what memory holds where models are asked.
    """
    if metric.calls == 0.0 or not len(points):
        return max(1, len(points)), 0
    measured, tried = hessian_residual if residual else matrix, []

    def evaluate(part: Tensor) -> Tensor:
        tried.append(len(part))
        return measured(metric, part)

    return points_together(evaluate, points), sum(tried)


def measure_metric_field(
    metric: Metric,
    window: Window,
    *,
    columns: int = 64,
    rows: int = 64,
    residual: bool = False,
    chunk: int | None = None,
    like: Tensor | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> MetricField:
    """Evaluate a metric of two coordinates on a grid, in one batch.

    Args:
        metric: A metric of a two-dimensional chart; `on_section` makes one of a larger space.
        window: The rectangle of the chart.
        columns: Grid points along the first coordinate.
        rows: Grid points along the second.
        residual: Also measure how far it is from a Hessian metric; costs its first derivatives.
        chunk: Points to a batch; as many as memory holds if None.
        like: A tensor whose dtype and device the grid takes; float64 on the CPU if None.
        progress: Called before each batch with the share done and a sentence.
        cancel: Asked before each batch; what is left then has no metric, and a warning says how much it is.

    Returns:
        The field. Model calls: those of the points that were measured, and of a few on which the batch was
        tried. An indefinite metric is marked, not refused: the field is where one looks for it.

    Raises:
        SettingError: If the chart has not two coordinates.
    """
    if metric.chart.dim != 2 or min(columns, rows) < 2:
        raise SettingError(
            f"a chart of {metric.chart.dim} coordinates and {rows} x {columns} points",
            "two coordinates and 2 x 2 points or more",
            "on_section(metric, section)",
        )
    like = torch.empty(0, dtype=torch.float64) if like is None else like
    x = torch.linspace(*window.x, columns, dtype=like.dtype, device=like.device)
    y = torch.linspace(*window.y, rows, dtype=like.dtype, device=like.device)
    grid = torch.cartesian_prod(y, x).flip(-1)
    here = inside(metric, grid)
    g = torch.full((len(grid), 2, 2), torch.nan, dtype=grid.dtype, device=grid.device)
    rest = torch.full((len(grid),), torch.nan, dtype=grid.dtype, device=grid.device)
    points, status = here.nonzero().squeeze(1), Status.CONVERGED
    known, asked = ~here, 0
    if chunk is None:
        chunk, asked = _together(metric, grid[points], residual)
    for done, part in enumerate(points.split(chunk)):
        if cancel is not None and cancel.is_set():
            status = Status.CANCELLED
            break
        if progress is not None:
            progress(done * chunk / len(points), f"metric at {len(points)} points")
        g[part] = matrix(metric, grid[part]).detach()
        known[part], asked = True, asked + len(part)
        if residual:
            rest[part] = hessian_residual(metric, grid[part]).detach()
    finite = torch.isfinite(g).flatten(1).all(dim=1)
    values = torch.full((len(grid), 2), torch.nan, dtype=grid.dtype, device=grid.device)
    values[finite] = torch.linalg.eigvalsh(g[finite])
    bad = ~(values[:, 0] > 0.0)
    volume = 0.5 * torch.log(values.prod(dim=1).clamp_min(0.0))
    volume = torch.where(finite & (values.prod(dim=1) >= 0.0), volume, torch.full_like(volume, torch.nan))
    shape = (rows, columns)
    settings = {"x": window.x, "y": window.y, "columns": columns, "rows": rows, "residual": residual}
    shares = {"no metric": bad & known, "not measured": ~known}
    said = tuple(
        f"{words} at {float(at.double().mean()):.0%} of the points"
        for words, at in shares.items()
        if at.any()
    )
    report = SolveReport(
        status,
        1,
        None,
        round(asked * metric.calls),
        (),
        said,
        f"{rows} x {columns} points",
    )
    return MetricField(
        g.reshape(*shape, 2, 2),
        window,
        volume.reshape(shape),
        values[:, 1].reshape(shape),
        values[:, 0].reshape(shape),
        anisotropy_of(values).reshape(shape),
        rest.reshape(shape) if residual else None,
        bad.reshape(shape),
        metric.name,
        metric.chart,
        report,
        provenance_of(grid, model=metric.name, settings=settings),
    )
