r"""The whole way on the driven chain: draw stationary states, learn a family, compare with the exact answer.

The states are no exponential family in the log rates: they are a marginal of one, the model of contacts,
whose log partition function is ln Z. The best a family of two learned statistics can do is therefore close,
not exact, and its metric estimates that of the states (`Tasep.configuration_metric`), which is never larger
than the Hessian of ln Z. Both are reported: F = ln Z / N with its derivatives, and the current
:math:`J = Z_{N-1}/Z_N`, whose negative logarithm F tends to.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.checks import check_count, check_run
from workbench.draws import seeded
from workbench.errors import SettingError
from workbench.integrators import Cancel, Progress
from workbench.logpartition.family import FamilyFit, fit_family
from workbench.logpartition.scoring import (
    affine_rest,
    metric_errors,
    potential_error,
    share_indefinite,
    slope_errors,
)
from workbench.report import Provenance, SolveReport, provenance_of
from workbench.worlds.tasep import NATURAL, Tasep

_ENUMERATED = 12


@dataclass(frozen=True, slots=True)
class ChainTrial:
    """A learned family beside the exact driven chain.

    Attributes:
        sites: Length of the chain.
        fit: The learned family.
        rates: Entry and exit rates of the grid, shape (cells, 2); natural points are minus their logarithms.
        learned: Learned metric in natural coordinates, shape (cells, 2, 2).
        exact: Exact metric of the states there, by enumeration; None above 12 sites.
        errors: Relative error at each cell, shape (cells,); None above 12 sites.
        indefinite: Share of cells where the learned metric is not positive definite.
        above_contacts: Share of cells where the learned metric exceeds that of the contacts by more than a
            tenth in some direction, which no metric of the states can.
        log_partition_error: Root mean square error of F = ln Z / N after affine alignment.
        derivative_errors: The same of its derivatives in the log rates, after removing the mean difference.
        current_error: Root mean square gap of exp(-F), aligned, to the exact current J of the chain; F is not
            -ln J at finite length, so `current_floor` is what the exact F itself scores.
        current_floor: The same of the exact F.
        configurations: How many states were drawn.
        report: The fit's.
        provenance: Settings, seed and versions.
    """

    sites: int
    fit: FamilyFit
    rates: Tensor
    learned: Tensor
    exact: Tensor | None
    errors: Tensor | None
    indefinite: float
    above_contacts: float
    log_partition_error: float
    derivative_errors: tuple[float, float]
    current_error: float
    current_floor: float
    configurations: int
    report: SolveReport
    provenance: Provenance

    @property
    def median(self) -> float | None:
        """Median relative error of the metric over all cells; None above 12 sites."""
        return None if self.errors is None else float(self.errors.median())


def try_tasep(
    sites: int = 10,
    *,
    grid: int = 12,
    per_cell: int = 200,
    epochs: int = 10,
    rates: tuple[float, float] = (0.15, 0.9),
    device: torch.device | str = "cpu",
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> ChainTrial:
    """Draw stationary states of a driven chain over a square of rates, learn their family, and compare.

    Args:
        sites: Length of the chain.
        grid: Rates along each side.
        per_cell: States drawn at each, exactly.
        epochs: Passes of the learner.
        rates: Lowest and highest rate of both ends.
        device: Where everything is computed.
        generator: Source of all draws, on any device; None for one of seed 0.
        progress: Called with the share done and a sentence.
        cancel: Asked after every epoch of the learner; the fit so far is compared.

    Returns:
        The comparison; seconds of one core with the defaults.

    Raises:
        SettingError: If the chain, the grid or the window of rates is too small.
    """
    settings = {"sites": sites, "grid": grid, "per_cell": per_cell, "epochs": epochs}
    for name, value in settings.items():
        check_count(name, value)
    check_run(generator, progress, cancel)
    if sites < 3 or grid < 3 or not 0.0 < rates[0] < rates[1] <= 1.0:
        raise SettingError(
            f"{sites} sites, grid {grid} and rates from {rates[0]:g} to {rates[1]:g}",
            "3 sites, 3 rates a side, rates above 0 and at most 1",
        )
    generator = seeded(generator, device)
    chain = Tasep(sites)
    side = torch.linspace(*rates, grid, dtype=torch.float64, device=device)
    corners = torch.cartesian_prod(side, side)
    points = -torch.log(corners)
    cells = torch.arange(len(points), device=device).repeat_interleave(per_cell)
    say = (lambda share, words: None) if progress is None else progress
    say(0.0, f"drawing {len(cells)} states of {sites} sites")
    states = chain.sample(corners, per_cell, generator=generator).reshape(-1, sites)
    fit = fit_family(
        2.0 * states - 1.0,
        points,
        cells,
        epochs=epochs,
        chart=NATURAL,
        generator=generator,
        progress=lambda share, words: say(0.2 + 0.6 * share, words),
        cancel=cancel,
    )
    contacts = chain.metric()
    exact_f, found_f = contacts.potential(points), fit.potential.potential(points)
    learned, bound = fit.potential.matrix(points), contacts.matrix(points)
    exact = errors = None
    widths = points.amax(dim=0) - points.amin(dim=0)
    if sites <= _ENUMERATED:
        say(0.8, "enumerating all states")
        exact = torch.stack([chain.configuration_metric(pair) for pair in corners])
        errors = metric_errors(learned, exact, widths)
    exact_j = chain.current(corners)
    currents = [torch.exp(-f / sites) for f in (exact_f + affine_rest(points, found_f - exact_f), exact_f)]
    gaps = [float((j - exact_j).square().mean().sqrt()) for j in currents]
    exceeds = torch.linalg.eigvalsh(1.1 * bound - learned)[:, 0] < 0.0
    say(1.0, "compared with the exact chain")
    settings |= {"rates": list(rates)}
    return ChainTrial(
        sites,
        fit,
        corners,
        learned,
        exact,
        errors,
        share_indefinite(learned),
        float(exceeds.double().mean()),
        potential_error(points, found_f, exact_f, sites),
        slope_errors(fit.potential.dual(points), contacts.dual(points), sites),
        gaps[0],
        gaps[1],
        len(cells),
        fit.report,
        provenance_of(points, model="TASEP", settings=settings, generator=generator),
    )
