r"""The log partition function and its metric from samples whose sufficient statistics are known.

Samples n with statistics :math:`\phi_n` were drawn at natural points :math:`t_i`, :math:`N_i` of them at
each. The maximum of their joint likelihood solves

.. math::
    \psi_j = \log \sum_n e^{\langle\phi_n, t_j\rangle} / c_n, \qquad c_n = \sum_i N_i\, e^{\langle\phi_n,
    t_i\rangle - \psi_i},

a convex problem (solved here by Newton steps). Every sample then speaks about every t, with weight
proportional to :math:`e^{\langle\phi_n, t\rangle} / c_n`: their mean statistic is grad psi and their
covariance the Fisher metric, positive semidefinite by construction at any t and in any dimension.

References:
    Shirts, Chodera, "Statistically optimal analysis of samples from multiple equilibrium states", 2008,
        https://arxiv.org/abs/0801.1426
    Geyer, "Estimating Normalizing Constants and Reweighting Mixtures", 1994
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.draws import draw_uniform, seeded
from workbench.errors import SettingError, ShapeError
from workbench.metrics.base import Chart
from workbench.report import SolveReport, Status
from workbench.types import Matrices, Points, Scalars, Vectors

_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class LearnedPotential:
    """psi, its gradient and its Hessian anywhere, as reweighted averages; plays the role of a metric.

    Attributes:
        statistics: Sufficient statistics of the samples, shape (samples, dim).
        log_mixture: log c of each sample, shape (samples,).
        points: Natural points that were sampled, shape (cells, dim).
        cells: Cell of each sample, shape (samples,).
        log_partition: psi at those points up to one constant, shape (cells,).
        chart: The natural coordinates.
        report: How the fixed point was reached.
        name: Its name, as figures print it.
    """

    statistics: Tensor
    log_mixture: Tensor
    points: Tensor
    cells: Tensor
    log_partition: Tensor
    chart: Chart
    report: SolveReport
    name: str = "learned Fisher"

    @property
    def calls(self) -> float:
        """No model is called: the samples answer."""
        return 0.0

    def _log_weights(self, x: Tensor) -> Tensor:
        return x @ self.statistics.mT - self.log_mixture

    def _in_parts(self, function, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        part = max(1, _BYTES // (8 * len(self.statistics)))
        found = torch.cat([function(piece) for piece in flat.split(part)])
        return found.reshape((*x.shape[:-1], *found.shape[1:]))

    def potential(self, x: Points) -> Scalars:
        """psi at natural points, up to the constant of `log_partition`; differentiable."""
        return self._in_parts(lambda t: torch.logsumexp(self._log_weights(t), dim=-1), x)

    def dual(self, x: Points) -> Points:
        """grad psi: the mean statistic; differentiable."""
        return self._in_parts(lambda t: torch.softmax(self._log_weights(t), dim=-1) @ self.statistics, x)

    def matrix(self, x: Points) -> Matrices:
        """Covariance of the statistics under the weights of x; differentiable."""

        def covariance(t: Tensor) -> Tensor:
            weights = torch.softmax(self._log_weights(t), dim=-1)
            mean = weights @ self.statistics
            dim = self.statistics.shape[1]
            products = (self.statistics.unsqueeze(2) * self.statistics.unsqueeze(1)).flatten(1)
            return (weights @ products).reshape(-1, dim, dim) - mean.unsqueeze(-1) * mean.unsqueeze(-2)

        return self._in_parts(covariance, x)

    def inner(self, x: Points, u: Vectors, v: Vectors) -> Scalars:
        """Covariance of <phi, u> and <phi, v>; differentiable."""
        return torch.einsum("...i,...ij,...j->...", u, self.matrix(x), v)

    def effective_samples(self, x: Points) -> Scalars:
        """(sum w)^2 / sum w^2 at natural points: how many samples the answer at x rests on."""
        return self._in_parts(
            lambda t: 1.0 / torch.softmax(self._log_weights(t), dim=-1).square().sum(dim=-1), x
        )

    def divergence(self, x: Points, y: Points) -> Scalars:
        """KL(p_y || p_x) = psi(x) - psi(y) - grad psi(y) . (x - y)."""
        return self.potential(x) - self.potential(y) - (self.dual(y) * (x - y)).sum(dim=-1)


def potential_of_statistics(
    statistics: Tensor,
    points: Tensor,
    cells: Tensor,
    *,
    chart: Chart | None = None,
    weights: Tensor | None = None,
    start: Tensor | None = None,
    tol: float = 1e-7,
    max_iterations: int = 60,
    refine: bool = False,
) -> LearnedPotential:
    """psi and its metric from samples with known statistics.

    Args:
        statistics: Shape (samples, dim), centred internally.
        points: Natural points that were sampled, shape (cells, dim).
        cells: Index of each sample's point, shape (samples,).
        chart: Name of the coordinates; "natural" if None.
        weights: Multiplicity of each sample (a bootstrap's); ones if None.
        start: psi to start from, shape (cells,).
        tol: Largest relative difference of expected and actual counts at which to stop.
        max_iterations: Newton steps at most.
        refine: Take the statistics as known up to a linear map only, and find the likeliest map jointly with
            psi; for learned statistics, whose scale a network leaves a few per cent off.

    Returns:
        The potential. Each step costs samples x cells exponentials and one cells-square solve.

    Raises:
        ShapeError: If shapes do not fit.
        SettingError: If fewer than two cells were sampled.
    """
    if statistics.ndim != 2 or points.ndim != 2 or statistics.shape[1] != points.shape[1]:
        raise ShapeError(
            f"statistics {tuple(statistics.shape)} and points {tuple(points.shape)}",
            "(samples, dim) and (cells, dim) of one dim",
        )
    if cells.shape != statistics.shape[:1]:
        raise ShapeError(f"{tuple(cells.shape)} cell indices", f"one for each of {len(statistics)} samples")
    weights = torch.ones_like(statistics[:, 0]) if weights is None else weights.to(statistics)
    counts = torch.zeros(len(points), dtype=statistics.dtype, device=statistics.device)
    counts.index_add_(0, cells, weights)
    used = counts > 0.0
    if int(used.sum()) < 2:
        raise SettingError(f"samples of {int(used.sum())} natural points", "two points or more")
    centre, spread = statistics.mean(dim=0), statistics.std(dim=0)
    if bool((spread == 0.0).any()):
        raise SettingError("a statistic that is the same in all samples", "statistics that vary")
    unit, dim = (statistics - centre) / spread, points.shape[1]
    linear = torch.diag(spread)  # statistics = centre + linear @ unit
    visited, log_counts = points[used], torch.log(counts[used])
    own = points[cells]
    psi = (
        _start(unit * spread, points, cells, weights, counts)[used]
        if start is None
        else (start - points @ centre)[used]
    )
    history: list[float] = []
    state = _likelihood(unit @ linear.mT, own, visited, psi, log_counts, weights, counts[used])
    for _ in range(max_iterations):
        slope, hessian = _newton(unit, own, visited, state[2], weights, counts[used], refine)
        scale = torch.cat((weights.sum() * visited.std(dim=0).repeat_interleave(dim), counts[used]))
        history.append(float((slope.abs() / scale[-len(slope) :]).max()))
        if history[-1] <= tol:
            break
        step = -torch.linalg.solve(hessian, slope)
        turn = step[: -len(psi)].reshape(dim, dim) if refine else torch.zeros_like(linear)
        size = 1.0
        for _ in range(30):
            trial_linear, trial_psi = linear + size * turn, psi + size * step[-len(psi) :]
            trial = _likelihood(
                unit @ trial_linear.mT, own, visited, trial_psi, log_counts, weights, counts[used]
            )
            if float(trial[0]) <= float(state[0]) + 1e-12 * abs(float(state[0])):
                break
            size *= 0.5
        linear, psi, state = trial_linear, trial_psi, trial
    found = centre + unit @ linear.mT
    log_mixture = state[1] - torch.log(weights)  # of unit @ linear; the centre only shifts psi
    psi_all = torch.logsumexp((found - centre) @ points.mT - log_mixture.unsqueeze(1), dim=0)
    status = Status.CONVERGED if history[-1] <= 100.0 * tol else Status.MAX_ITERATIONS
    message = f"counts met to {history[-1]:.1e}"
    return LearnedPotential(
        found,
        log_mixture + 0.0,
        points,
        cells,
        psi_all + points @ centre,
        Chart("natural", dim) if chart is None else chart,
        SolveReport(status, len(history), history[-1], 0, tuple(history), (), message),
    )


def _newton(
    unit: Tensor, own: Tensor, visited: Tensor, share: Tensor, weights: Tensor, counts: Tensor, refine: bool
) -> tuple[Tensor, Tensor]:
    """Gradient and Hessian of the negative log likelihood in psi, or in (linear map, psi)."""
    expected = weights @ share
    slope = counts - expected
    scaled = (share * torch.sqrt(weights).unsqueeze(1)).float()  # single precision: the Hessian only steers
    hessian = torch.diag((1.0 + 1e-6) * expected) - (scaled.mT @ scaled).to(expected)
    hessian = hessian + weights.sum() / len(expected) ** 2  # fixes the free constant of psi
    if not refine:
        return slope, hessian
    dim = unit.shape[1]
    mean = share @ visited  # expected natural point of each sample, (samples, dim)
    second = share @ (visited.unsqueeze(2) * visited.unsqueeze(1)).flatten(1)
    covariance = second.reshape(-1, dim, dim) - mean.unsqueeze(2) * mean.unsqueeze(1)
    heavy = unit * weights.unsqueeze(1)
    turn = torch.einsum("na,nb->ab", mean - own, heavy).flatten()
    block = torch.einsum("naA,nb,nB->abAB", covariance, heavy, unit).reshape(dim * dim, dim * dim)
    products = (mean.unsqueeze(2) * heavy.unsqueeze(1)).flatten(1)  # (samples, dim * dim)
    cross = products.mT @ share - torch.einsum("bj,ja->abj", heavy.mT @ share, visited).flatten(0, 1)
    top = torch.cat((block, cross), dim=1)
    return torch.cat((turn, slope)), torch.cat((top, torch.cat((cross.mT, hessian), dim=1)))


def _likelihood(
    statistics: Tensor,
    own: Tensor,
    visited: Tensor,
    psi: Tensor,
    log_counts: Tensor,
    weights: Tensor,
    counts: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Negative log likelihood, log mixture of each sample, and posterior over the sampled points."""
    logits = statistics @ visited.mT + (log_counts - psi)
    log_mixture = torch.logsumexp(logits, dim=1)
    value = (weights * (log_mixture - (statistics * own).sum(dim=1))).sum() + (counts * psi).sum()
    return value, log_mixture, torch.exp(logits - log_mixture.unsqueeze(1))


def _start(shifted: Tensor, points: Tensor, cells: Tensor, weights: Tensor, counts: Tensor) -> Tensor:
    """psi by integrating the cells' mean statistics: the best convex quadratic-free guess, a least squares
    fit.

    psi_j - psi_i is about the mean of the two gradients times t_j - t_i; all pairs of near cells vote.
    """
    mean = torch.zeros_like(points).index_add_(0, cells, weights.unsqueeze(1) * shifted)
    mean = mean / counts.clamp_min(1.0).unsqueeze(1)
    near = min(len(points), 9)
    scale = points.std(dim=0).clamp_min(torch.finfo(points.dtype).tiny)
    gaps = torch.cdist(points / scale, points / scale)
    gaps[:, counts == 0.0] = torch.inf
    other = gaps.topk(near, largest=False).indices
    first = torch.arange(len(points), device=points.device).repeat_interleave(near)
    second = other.flatten()
    rise = (0.5 * (mean[first] + mean[second]) * (points[second] - points[first])).sum(dim=1)
    graph = torch.zeros(len(points), len(points), dtype=points.dtype, device=points.device)
    ones = torch.ones_like(rise)
    for a, b, sign in (
        (first, first, 1.0),
        (second, second, 1.0),
        (first, second, -1.0),
        (second, first, -1.0),
    ):
        graph.index_put_((a, b), sign * ones, accumulate=True)
    target = torch.zeros_like(points[:, 0]).index_add_(0, second, rise).index_add_(0, first, -rise)
    return torch.linalg.solve(
        graph + torch.full_like(graph, 1.0 / len(points)) + 1e-9 * torch.eye(len(points)).to(graph), target
    )


def bootstrap_metric(
    fitted: LearnedPotential, x: Points, *, replicates: int = 20, generator: torch.Generator | None = None
) -> Matrices:
    """Standard error of every entry of the metric, by drawing the samples again within their cells.

    Args:
        fitted: The potential; its statistics are taken as they are.
        x: Natural points, shape (*batch, dim).
        replicates: How many redrawn sets.
        generator: Source of the draws; None for one of seed 0.

    Returns:
        Shape (*batch, dim, dim): standard deviation over the replicates. Each costs a few Newton steps from
        psi.
    """
    generator, cells = seeded(generator), fitted.cells
    order = torch.argsort(cells, stable=True)
    counts = torch.bincount(cells, minlength=len(fitted.points))
    first = counts.cumsum(0) - counts
    found = []
    for _ in range(replicates):
        draw = draw_uniform((len(cells),), fitted.statistics, generator)
        pick = order[first[cells] + (draw * counts[cells]).long()]
        again = potential_of_statistics(
            fitted.statistics[pick],
            fitted.points,
            cells,
            chart=fitted.chart,
            start=fitted.log_partition,
            tol=1e-4,
        )
        found.append(again.matrix(x))
    return torch.stack(found).std(dim=0)
