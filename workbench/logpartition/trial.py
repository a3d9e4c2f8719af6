"""The whole way on a magnet: sample Ising lattices, learn their family, compare with what is known.

Up to twelve columns the transfer matrix is the exact answer. Larger lattices have none in a field; there the
reference is the same samples with their true statistics (A, M), whose error without a field is measured
against Kaufman's product.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.checks import check_count, check_number, check_run, shown
from workbench.draws import seeded
from workbench.errors import SettingError
from workbench.integrators import Cancel, Progress
from workbench.logpartition.family import FamilyFit, fit_family
from workbench.logpartition.mbar import potential_of_statistics
from workbench.logpartition.scoring import (
    affine_rest,
    metric_errors,
    potential_error,
    share_indefinite,
    slope_errors,
)
from workbench.report import Provenance, SolveReport, provenance_of
from workbench.worlds.ising import NATURAL, Ising, sample_heat_bath, sample_wolff

_WIDEST = 12
_CLUSTERED = 32
_AT_ONCE = 4096  # lattices whose statistics are taken together
_SPINS = 2**26  # spins sampled together


@dataclass(frozen=True, slots=True)
class LatticeTrial:
    """A learned family beside the reference.

    Attributes:
        lattice: Rows and columns.
        fit: The learned family.
        points: Natural points of the grid, shape (cells, 2).
        exact: Reference metric there, shape (cells, 2, 2).
        learned: Learned metric there.
        errors: Relative error at each cell, shape (cells,).
        indefinite: Share of cells where the learned metric is not positive definite.
        log_partition_error: Root mean square error of log Z / sites after affine alignment.
        derivative_errors: The same of its derivatives in K and B, each after removing its mean difference.
        configurations: How many lattices were drawn.
        reference: What `exact` is, in words.
        reference_error: Root mean square error of the reference's own log Z / sites on the line B = 0; zero
            for the transfer matrix.
        report: The fit's.
        provenance: Settings, seed and versions.
    """

    lattice: tuple[int, int]
    fit: FamilyFit
    points: Tensor
    exact: Tensor
    learned: Tensor
    errors: Tensor
    indefinite: float
    log_partition_error: float
    derivative_errors: tuple[float, float]
    configurations: int
    reference: str
    reference_error: float
    report: SolveReport
    provenance: Provenance

    @property
    def median(self) -> float:
        """Median relative error of the metric over all cells."""
        return float(self.errors.median())

    @property
    def p90(self) -> float:
        """90th percentile of it over all cells."""
        return float(torch.quantile(self.errors, 0.9))


def try_ising(
    size: int = 8,
    *,
    grid: int = 24,
    per_cell: int = 48,
    sweeps: int = 150,
    epochs: int = 8,
    coupling: tuple[float, float] = (0.1, 0.7),
    field: float = 0.5,
    device: torch.device | str = "cpu",
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> LatticeTrial:
    """Sample a square Ising lattice over a window of (K, B), learn its family, and compare.

    Args:
        size: Side of the lattice, even and at least 4.
        grid: Points along each natural coordinate; even.
        per_cell: Configurations at each.
        sweeps: Sweeps of the heat bath; beyond 32 spins a side as many clusters follow.
        epochs: Passes of the learner.
        coupling: Lowest and highest K.
        field: Largest B; the lowest is its negative.
        device: Where everything is computed.
        generator: Source of all draws, on any device; None for one of seed 0.
        progress: Called with the share done and a sentence.
        cancel: Asked after every epoch of the learner; the fit so far is compared.

    Returns:
        The comparison. With the defaults 27 648 configurations; about a minute of one free core. Memory:
        grid^2 numbers a configuration, three times.

    Raises:
        SettingError: If the size or the grid is odd, the size below 4, or another setting out of range.
    """
    settings = {"size": size, "grid": grid, "per_cell": per_cell, "sweeps": sweeps, "epochs": epochs}
    for name, value in settings.items():
        check_count(name, value)
    check_number("field", field, above=0.0)
    check_run(generator, progress, cancel)
    if not 0.0 < coupling[0] < coupling[1] < math.inf:
        raise SettingError(shown("coupling", coupling), "two rising numbers above 0", "coupling=(0.1, 0.7)")
    if size % 2 or size < 4 or grid % 2:
        raise SettingError(f"size {size} and grid {grid}", "an even size from 4 and an even grid", "size=8")
    generator = seeded(generator, device)
    lattice = Ising(size, size)
    k = torch.linspace(*coupling, grid, dtype=torch.float64, device=device)
    b = torch.linspace(-field, field, grid, dtype=torch.float64, device=device)
    points = torch.cartesian_prod(k, b)
    cells = torch.arange(len(points), device=device).repeat_interleave(per_cell)
    say = (lambda share, words: None) if progress is None else progress
    say(0.0, f"sampling {len(cells)} lattices of {size} x {size}")
    spins = _sample(lattice, points[cells], sweeps, generator, say)
    fit = fit_family(
        spins,
        points,
        cells,
        epochs=epochs,
        chart=NATURAL,
        generator=generator,
        progress=lambda share, words: say(0.3 + 0.3 * share, words),
        cancel=cancel,
    )
    if size <= _WIDEST:
        exact, log_z, dual = _exact(lattice, k, b[grid // 2 :], say)
        reference, reference_error = "transfer matrix", 0.0
    else:
        say(0.6, "reweighting with the true statistics")
        statistics = torch.cat([lattice.statistics(part.double()) for part in spins.split(_AT_ONCE)])
        known = potential_of_statistics(statistics, points, cells, chart=NATURAL)
        exact, log_z, dual = known.matrix(points), known.potential(points), known.dual(points)
        reference = "the same samples with their true statistics"
        line = torch.stack((k, torch.zeros_like(k)), dim=1)
        gap = known.potential(line) - lattice.log_partition_zero_field(k)
        reference_error = float(affine_rest(k[:, None], gap).square().mean().sqrt()) / lattice.sites
    learned = fit.potential.matrix(points)
    widths = torch.tensor([coupling[1] - coupling[0], 2.0 * field], dtype=torch.float64, device=device)
    say(1.0, f"compared with {reference}")
    settings |= {"coupling": list(coupling), "field": field}
    return LatticeTrial(
        (size, size),
        fit,
        points,
        exact,
        learned,
        metric_errors(learned, exact, widths),
        share_indefinite(learned),
        potential_error(points, fit.potential.potential(points), log_z, lattice.sites),
        slope_errors(fit.potential.dual(points), dual, lattice.sites),
        len(cells),
        reference,
        reference_error,
        fit.report,
        provenance_of(points, model="Ising", settings=settings, generator=generator),
    )


def _sample(lattice: Ising, points: Tensor, sweeps: int, generator: torch.Generator, say: Progress) -> Tensor:
    """One lattice a point: heat bath, which mends short scales, then clusters on large lattices."""
    found, parts = [], points.split(max(1, _SPINS // lattice.sites))
    for done, part in enumerate(parts):
        spins = sample_heat_bath(lattice, part, sweeps=sweeps, generator=generator)
        if max(lattice.rows, lattice.columns) > _CLUSTERED:
            spins = sample_wolff(lattice, part, clusters=sweeps, start=spins, generator=generator)
        found.append(spins)
        say(0.3 * (done + 1) / len(parts), f"{done + 1} of {len(parts)} batches of lattices drawn")
    return torch.cat(found)


def _exact(lattice: Ising, k: Tensor, upper: Tensor, say: Progress) -> tuple[Tensor, Tensor, Tensor]:
    """Metric, log Z and mean statistics on the grid; B < 0 follows from B > 0 by symmetry."""
    half = torch.cartesian_prod(k, upper)
    metric, parts = lattice.metric(), []
    pieces = half.split(8)
    for done, part in enumerate(pieces):
        parts.append((metric.matrix(part), metric.potential(part), metric.dual(part)))
        say(0.6 + 0.4 * done / len(pieces), "transfer matrices")
    shape = (len(k), len(upper))
    g, log_z, dual = (torch.cat([p[i] for p in parts]) for i in range(3))
    g, log_z, dual = g.reshape(*shape, 2, 2), log_z.reshape(shape), dual.reshape(*shape, 2)
    mirror = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=g.dtype, device=g.device)
    g = torch.cat((g.flip(1) * mirror, g), dim=1).reshape(-1, 2, 2)
    turn = torch.tensor([1.0, -1.0], dtype=dual.dtype, device=dual.device)
    dual = torch.cat((dual.flip(1) * turn, dual), dim=1).reshape(-1, 2)
    return g, torch.cat((log_z.flip(1), log_z), dim=1).reshape(-1), dual
