"""Learned log partition functions against exact ones, by three routes."""

import threading

import pytest
import torch
from torch.testing import assert_close

from workbench.errors import SettingError, ShapeError
from workbench.geodesics import relax_levels, straight_start
from workbench.logpartition import (
    ConvexPotential,
    bootstrap_metric,
    fit_family,
    fit_two_stage,
    potential_of_statistics,
    try_ising,
    try_tasep,
)
from workbench.metrics import Chart, Metric, check_positive, hessian_residual
from workbench.report import Status
from workbench.worlds.ising import Ising
from workbench.worlds.tasep import Tasep


def relative_errors(found, exact, ranges):
    scale = torch.diag(torch.tensor(ranges))
    size = torch.linalg.matrix_norm(scale @ exact @ scale)
    return torch.linalg.matrix_norm(scale @ (found - exact) @ scale) / size


@pytest.fixture(scope="module")
def small():
    """4 x 4 Ising on a 6 x 6 grid, 200 configurations a point, drawn from the exact distribution."""
    with torch.random.fork_rng():
        generator = torch.Generator().manual_seed(0)
        lattice = Ising(4, 4)
        axis = [torch.linspace(low, high, 6, dtype=torch.float64) for low, high in ((0.1, 0.5), (-0.4, 0.4))]
        points = torch.cartesian_prod(*axis)
        cells = torch.arange(36).repeat_interleave(200)
        spins = torch.cartesian_prod(*[torch.tensor([1.0, -1.0], dtype=torch.float64)] * 16).reshape(-1, 4, 4)
        logits = points @ lattice.statistics(spins).mT
        pick = torch.multinomial(torch.softmax(logits, dim=1), 200, replacement=True, generator=generator)
        exact = lattice.metric().matrix(points)
        return lattice, points, cells, spins[pick.flatten()], exact


def test_known_statistics_give_the_metric_and_the_potential(small):
    lattice, points, cells, spins, exact = small
    found = potential_of_statistics(lattice.statistics(spins), points, cells)
    assert found.report.status is Status.CONVERGED
    errors = relative_errors(found.matrix(points), exact, (0.4, 0.8))
    assert float(errors.median()) < 0.03
    assert float(errors.max()) < 0.12
    log_z = lattice.log_partition(points)
    gap = found.potential(points) - log_z
    assert float((gap - gap.mean()).abs().max()) < 0.1
    assert_close(found.potential(points), found.log_partition, rtol=1e-9, atol=1e-9)
    assert isinstance(found, Metric)
    check_positive(found, points)


def test_gradient_and_hessian_of_the_potential_are_mean_and_covariance(small):
    lattice, points, cells, spins, _ = small
    found = potential_of_statistics(lattice.statistics(spins), points, cells)
    x = points[7].clone().requires_grad_()
    (slope,) = torch.autograd.grad(found.potential(x), x, create_graph=True)
    rows = [torch.autograd.grad(s, x, retain_graph=True)[0] for s in slope]
    assert_close(slope, found.dual(x), rtol=1e-10, atol=1e-10)
    assert_close(torch.stack(rows), found.matrix(x), rtol=1e-8, atol=1e-9)
    assert float(hessian_residual(found, points[7])) < 1e-9


def test_counts_are_met_and_the_free_constant_does_not_matter(small):
    lattice, points, cells, spins, _ = small
    statistics = lattice.statistics(spins)
    found = potential_of_statistics(statistics, points, cells)
    weights = torch.exp(statistics @ points.mT - found.log_mixture[:, None] - found.potential(points))
    assert_close(weights.sum(dim=0), torch.ones(36), rtol=1e-9, atol=0.0)
    moved = potential_of_statistics(statistics + torch.tensor([3.0, -5.0]), points, cells)
    assert_close(moved.matrix(points), found.matrix(points), rtol=1e-6, atol=1e-8)


def test_effective_samples_and_error_bars(small, generator):
    lattice, points, cells, spins, exact = small
    found = potential_of_statistics(lattice.statistics(spins), points, cells)
    effective = found.effective_samples(points)
    assert bool(((effective > 200.0) & (effective <= len(cells))).all())
    bars = bootstrap_metric(found, points[::5], replicates=8, generator=generator)
    score = (found.matrix(points[::5]) - exact[::5]).abs() / bars
    assert 0.1 < float(score.median()) < 3.0


def test_refining_recovers_a_linear_map_that_was_lost(small):
    lattice, points, cells, spins, exact = small
    turned = lattice.statistics(spins) @ torch.tensor([[0.6, 0.1], [-0.2, 1.5]])
    plain = potential_of_statistics(turned, points, cells)
    refined = potential_of_statistics(turned, points, cells, refine=True)
    assert float(relative_errors(plain.matrix(points), exact, (0.4, 0.8)).median()) > 0.3
    assert float(relative_errors(refined.matrix(points), exact, (0.4, 0.8)).median()) < 0.05


def test_learned_statistics(small, generator):
    _, points, cells, spins, exact = small
    fit = fit_family(spins, points, cells, epochs=6, generator=generator)
    errors = relative_errors(fit.potential.matrix(points), exact, (0.4, 0.8))
    assert float(errors.median()) < 0.12
    assert fit.losses[-1] < fit.losses[0] < fit.chance + 0.5
    learned = fit.potential  # its linear map is the likeliest: residuals and statistics are uncorrelated
    posterior = torch.softmax(learned.statistics @ points.mT - learned.log_partition, dim=1)
    rest = points[cells] - posterior @ points
    centred = (learned.statistics - learned.statistics.mean(dim=0)) / learned.statistics.std(dim=0)
    assert float((rest.mT @ centred / len(cells)).abs().max()) < 1e-5
    assert fit.provenance.seed == 0


def test_a_normal_family_in_any_dimension_has_the_flat_metric(generator):
    points = torch.randn(40, 3, generator=generator)
    cells = torch.arange(40).repeat_interleave(50)
    samples = points[cells] + torch.randn(2000, 3, generator=generator)
    fit = fit_family(samples, points, cells, epochs=15, chart=Chart("means", 3), generator=generator)
    found = fit.potential.matrix(0.5 * points[:10])
    assert_close(found.mean(dim=0), torch.eye(3), rtol=0.0, atol=0.2)


def test_geodesics_run_on_a_learned_metric(small):
    lattice, points, cells, spins, _ = small
    learned = potential_of_statistics(lattice.statistics(spins), points, cells)
    line = straight_start(torch.tensor([0.15, -0.3]), torch.tensor([0.45, 0.3]), 9)[None]
    found, exact = (relax_levels(metric, line, levels=2) for metric in (learned, lattice.metric()))
    assert_close(found.length, exact.length, rtol=0.03, atol=0.0)


def test_the_same_seed_gives_the_same_fit(small):
    _, points, cells, spins, _ = small
    fits = [
        fit_family(spins[::4], points, cells[::4], epochs=1, generator=torch.Generator().manual_seed(3))
        for _ in range(2)
    ]
    assert torch.equal(fits[0].potential.statistics, fits[1].potential.statistics)


def test_the_two_stage_recipe_is_rougher_but_of_the_right_size(small, generator):
    _, points, cells, spins, exact = small
    fit = fit_two_stage(spins, points, cells, potential=ConvexPotential(2), epochs=8, generator=generator)
    errors = relative_errors(fit.metric.matrix(points).detach(), exact, (0.4, 0.8))
    half = relative_errors(0.5 * fit.metric.matrix(points).detach(), exact, (0.4, 0.8))
    assert float(errors.median()) < float(half.median())  # the factor two of finite bundles
    assert float(errors.median()) < 0.5
    assert fit.stage_two[-1] < 0.5 * fit.stage_two[0]
    assert bool((torch.linalg.eigvalsh(fit.metric.matrix(points)) > 0.0).all())
    assert "two-stage" in fit.metric.name


def test_a_relu_potential_is_refused(small):
    _, points, cells, spins, _ = small
    flat = torch.nn.Sequential(
        torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1), torch.nn.Flatten(0)
    )
    with pytest.raises(SettingError, match="piecewise linear ReLU"):
        fit_two_stage(spins, points, cells, potential=flat)


def test_what_cannot_be_fitted_is_said(small):
    _, points, cells, spins, _ = small
    with pytest.raises(ShapeError, match="cell indices"):
        fit_family(spins, points, cells[1:])
    with pytest.raises(SettingError, match="two points or more"):
        potential_of_statistics(torch.randn(5, 2), points, torch.zeros(5, dtype=torch.long))
    with pytest.raises(SettingError, match="agree on axis 1"):
        fit_family(spins, points * torch.tensor([1.0, 0.0]), cells)
    with pytest.raises(SettingError, match="a bundle"):
        fit_two_stage(spins[::100], points, cells[::100])
    with pytest.raises(SettingError, match="agree on axis 0"):
        fit_two_stage(spins, points * torch.tensor([0.0, 1.0]), cells)
    with pytest.raises(SettingError, match="cell indices from 1 to 36; expected 0 to 35"):
        fit_two_stage(spins, points, cells + 1)
    with pytest.raises(ShapeError, match="samples that are not finite"):
        fit_two_stage(spins * torch.nan, points, cells)


@pytest.mark.parametrize("setting", ["bundle", "epochs", "steps"])
def test_a_recipe_without_a_stage_is_refused(small, setting):
    _, points, cells, spins, _ = small
    with pytest.raises(SettingError, match=f"^got {setting}=0; expected a whole number"):
        fit_two_stage(spins, points, cells, **{setting: 0})


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"per_cell": 0}, "per_cell=0"),
        ({"epochs": 0}, "epochs=0"),
        ({"field": -0.1}, "field=-0.1"),
        ({"coupling": (0.4, 0.4)}, "coupling="),
    ],
)
def test_a_trial_of_nothing_is_refused(settings, says):
    with pytest.raises(SettingError, match=f"^got {says}"):
        try_ising(4, grid=4, **settings)


def test_the_whole_way_on_a_small_lattice():
    trial = try_ising(4, grid=6, per_cell=100, sweeps=40, epochs=5)
    assert trial.configurations == 3600
    assert trial.median < 0.15
    assert trial.p90 < 0.4
    assert trial.indefinite == 0.0
    assert trial.log_partition_error < 0.05
    lattice = Ising(4, 4)
    assert_close(
        trial.exact, lattice.metric().matrix(trial.points), rtol=1e-9, atol=1e-9
    )  # the mirrored half too
    with pytest.raises(SettingError, match="even size from 4"):
        try_ising(5)


@pytest.mark.slow
def test_eight_by_eight_ising_bar(generator):
    """27 648 configurations on a 24 x 24 grid: median at most 15 %, 90th percentile 30 %, none indefinite."""
    trial = try_ising(generator=generator)
    assert trial.configurations <= 30_000
    assert trial.median <= 0.15
    assert trial.p90 <= 0.30
    assert trial.indefinite == 0.0


def test_a_lattice_too_wide_for_its_transfer_matrix_has_its_true_statistics_beside_it():
    trial = try_ising(14, grid=8, per_cell=40, sweeps=30, epochs=8, coupling=(0.1, 0.35), field=0.2)
    assert "true statistics" in trial.reference
    assert trial.reference_error < 4e-4  # against Kaufman's product, nats a spin; the learned family: 0.0017
    assert trial.median < 0.25
    assert trial.log_partition_error < 0.02
    assert trial.report.converged


def test_the_driven_chain_is_learned_as_well_as_a_family_can():
    trial = try_tasep(6, grid=6, per_cell=150, epochs=6)
    chain = Tasep(6)
    assert_close(trial.exact[7], chain.configuration_metric(trial.rates[7]), rtol=1e-10, atol=1e-12)
    assert trial.median < 0.35
    assert trial.indefinite == 0.0
    assert trial.log_partition_error < 0.08
    assert max(trial.derivative_errors) < 0.15
    assert trial.current_error < trial.current_floor + 0.02
    assert try_tasep(14, grid=3, per_cell=20, epochs=1).median is None
    with pytest.raises(SettingError, match="3 sites"):
        try_tasep(2)


def test_cancelling_a_fit_keeps_what_there_is_and_says_so(small):
    _, points, cells, spins, _ = small
    stop = threading.Event()
    stop.set()
    fit = fit_family(spins[::4], points, cells[::4], epochs=5, cancel=stop)
    assert fit.report.status is Status.CANCELLED
    assert fit.report.iterations == 1
    assert fit.report.model_calls == len(cells[::4])
