"""Likelihood by the flow against exact densities; order, errors that cover the truth, units and probes."""

import math
import threading

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.oracles import flows as oracle
from workbench.errors import SettingError
from workbench.flows import log_likelihood
from workbench.models import Frame
from workbench.report import Status
from workbench.schedules import LINEAR, OU, SCHEDULES, TRIGONOMETRIC
from workbench.storage import load_result, save_result
from workbench.worlds import GaussianMixture, load_world, two_wells

POINTS = torch.tensor([*oracle.G3_POINTS, (1.0, 2.0)], dtype=torch.float64)


@pytest.fixture
def g3():
    return load_world("g3")


def _worst(world, points, **options):
    found = log_likelihood(world, points, check_steps=False, **options)
    return float((found.nats - world.log_prob(points, 0.0)).abs().max())


@pytest.mark.parametrize("schedule", [LINEAR, TRIGONOMETRIC, OU], ids=lambda schedule: schedule.name)
def test_forty_runge_kutta_steps_are_right_to_1e_4(g3, schedule):
    found = log_likelihood(g3, POINTS, schedule=schedule, steps=40)
    assert_close(found.nats[:3], torch.tensor(oracle.G3_LOGS), rtol=0, atol=1e-4)
    assert ((found.nats - g3.log_prob(POINTS, 0.0)).abs() <= 3 * found.error).all()


@pytest.mark.parametrize(
    ("solver", "steps", "error"),
    [
        ("euler", 10, 4.5),
        ("heun", 10, 9.5e-2),
        ("heun", 20, 2.4e-2),
        ("rk4", 10, 6.1e-3),
        ("rk4", 20, 2.2e-4),
    ],
)
def test_errors_of_the_table_on_the_linear_path(g3, solver, steps, error):
    assert _worst(g3, POINTS, solver=solver, steps=steps) == pytest.approx(error, rel=0.05)


def test_order_of_runge_kutta_is_four(g3):
    errors = [_worst(g3, POINTS, steps=n) for n in (20, 40)]
    assert math.log2(errors[0] / errors[1]) >= 3.8


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.name)
def test_every_clock_gives_the_same_density(g3, schedule):
    assert _worst(g3, POINTS[:2], schedule=schedule, steps=24) < 1e-3


def test_adaptive_steps(g3):
    found = log_likelihood(g3, POINTS, solver="dopri5", tol=1e-6)
    assert_close(found.nats, g3.log_prob(POINTS, 0.0), rtol=0, atol=1e-4)
    assert ((found.nats - g3.log_prob(POINTS, 0.0)).abs() <= 3 * found.error).all()
    assert "tolerance" in found.solver


def test_errors_cover_the_truth_in_95_of_100_random_cases():
    """Mixture, dimension, steps and clock drawn at random; three times the error must cover the truth."""
    draw = np.random.default_rng(5)
    covered = 0
    for case in range(20):  # of five points each
        generator = torch.Generator().manual_seed(case)
        dim, count = int(draw.integers(2, 7)), int(draw.integers(1, 4))
        factors = 0.6 * torch.randn(count, dim, dim, generator=generator)
        world = GaussianMixture(
            "random",
            torch.rand(count, generator=generator) + 0.2,
            2.0 * torch.randn(count, dim, generator=generator),
            factors @ factors.mT + 0.3 * torch.eye(dim),
        )
        x = world.sample(5, generator=generator)
        found = log_likelihood(
            world,
            x,
            schedule=(LINEAR, TRIGONOMETRIC)[int(draw.integers(2))],
            steps=int(draw.integers(8, 17)),
            divergence=("exact", "hutchinson")[int(draw.integers(2))],
            probes=16,
            generator=generator,
        )
        covered += int(((found.nats - world.log_prob(x, 0.0)).abs() <= 3 * found.error).sum())
    assert covered >= 95


def test_probes_are_the_same_for_every_point(g3, generator):
    """A point's estimate does not depend on which others are asked with it."""
    whole = log_likelihood(
        g3, POINTS, divergence="hutchinson", probes=4, steps=6, generator=torch.Generator().manual_seed(1)
    )
    single = log_likelihood(
        g3,
        POINTS[2:3],
        divergence="hutchinson",
        probes=4,
        steps=6,
        generator=torch.Generator().manual_seed(1),
    )
    assert_close(whole.nats[2:3], single.nats, rtol=1e-10, atol=1e-10)
    twins = log_likelihood(
        g3, POINTS[[0, 0]], divergence="hutchinson", probes=2, steps=6, generator=generator
    )
    assert float(twins.nats[0] - twins.nats[1]) == pytest.approx(0.0, abs=1e-12)


def test_an_isotropic_gaussian_has_no_variance_over_probes(generator):
    world = GaussianMixture("round", torch.ones(1), torch.ones(1, 5), 0.7 * torch.eye(5)[None])
    x = world.sample(3, generator=generator)
    found = log_likelihood(world, x, divergence="hutchinson", probes=4, steps=12, generator=generator)
    assert_close(found.probe_error, torch.zeros(3), rtol=0, atol=1e-10)
    assert_close(found.nats, world.log_prob(x, 0.0), rtol=0, atol=1e-3)


def test_spread_over_probes_is_that_of_random_signs(generator):
    """For one Gaussian the Jacobian integrates to a matrix; its trace has the variance of random signs."""
    covariance = torch.tensor([[1.0, 0.6, 0.2], [0.6, 0.8, 0.1], [0.2, 0.1, 1.5]])
    world = GaussianMixture("slanted", torch.ones(1), torch.zeros(1, 3), covariance[None])
    x = world.sample(1, generator=generator)
    found = log_likelihood(
        world, x, divergence="hutchinson", probes=400, steps=12, generator=generator, check_steps=False
    )
    values, vectors = np.linalg.eigh(covariance.numpy())
    gathered = (
        -0.5 * vectors @ np.diag(np.log(values)) @ vectors.T
    )  # the integral of the Jacobian from data to noise
    expected = math.sqrt(oracle.rademacher_variance(gathered) / 400)
    assert float(found.probe_error) == pytest.approx(expected, rel=0.15)


def test_units_and_their_offset(generator):
    class Grey:
        frame = Frame("grey", (2,), 0.0, 1e6, value_range=(-1.0, 1.0), data_std=1.0)

        def denoise(self, y, sigma):
            return y / (1 + torch.as_tensor(sigma) ** 2)

    found = log_likelihood(Grey(), torch.zeros(1, 2), steps=40, grey_levels=256)
    nats = -math.log(2 * math.pi)
    assert float(found.nats) == pytest.approx(nats, abs=1e-4)
    assert float(found.db_per_dim) == pytest.approx(4.342944819 * nats / 2, abs=1e-4)
    assert float(found.bits_per_dim) == pytest.approx(-nats / (2 * math.log(2)) + math.log2(127.5), abs=1e-4)
    assert found.offset == math.log2(127.5)
    estimate = found.estimate(0, "bits/dim")
    assert "127.5 grey levels" in estimate.how
    assert "rk4, 40 steps" in estimate.how
    assert estimate.value == float(found.bits_per_dim)
    assert found.sigma == pytest.approx(1e-4)
    plain = log_likelihood(Grey(), torch.zeros(1, 2), steps=4)
    assert plain.offset == 0.0
    with pytest.raises(SettingError, match="got unit 'bits'"):
        plain.estimate(0, "bits")


def test_gradient_of_the_likelihood_is_the_score(g3):
    x = POINTS[:2].clone().requires_grad_()
    (slope,) = torch.autograd.grad(log_likelihood(g3, x, steps=16, check_steps=False).nats.sum(), x)
    assert_close(slope, g3.score(x.detach(), 0.0), rtol=0, atol=0.05)


def test_batches_keep_their_axes_and_chunks_do_not_matter(g3):
    whole = log_likelihood(g3, POINTS, steps=5, check_steps=False)
    grid = log_likelihood(g3, POINTS.reshape(2, 2, 2), steps=5, check_steps=False, chunk=1)
    assert grid.nats.shape == (2, 2)
    assert_close(grid.nats.reshape(-1), whole.nats, rtol=1e-12, atol=1e-12)
    assert whole.latents.shape == (4, 2)


def test_typical_noise_is_what_is_left(generator):
    """Latents of samples are standard normal whatever the world."""
    world = two_wells()
    z = log_likelihood(world, world.sample(400, generator=generator), steps=20, check_steps=False).latents
    assert_close(z.mean(0), torch.zeros(2), rtol=0, atol=0.2)
    assert_close(z.T.cov(), torch.eye(2), rtol=0, atol=0.3)


def test_single_precision_stays_single(g3):
    found = log_likelihood(g3, POINTS.float(), schedule=TRIGONOMETRIC, steps=20, check_steps=False)
    assert found.nats.dtype == found.latents.dtype == torch.float32
    assert_close(found.nats.double(), g3.log_prob(POINTS, 0.0), rtol=0, atol=1e-2)


def test_slow_convergence_is_seen_and_widens_the_error(g3):
    """With few Euler steps the differences shrink by two, so the error is the last difference itself."""
    found = log_likelihood(g3, POINTS, solver="euler", steps=16)
    halved = log_likelihood(g3, POINTS, solver="euler", steps=8, check_steps=False)
    assert (found.step_error >= 0.99 * (found.nats - halved.nats).abs()).all()
    assert ((found.nats - g3.log_prob(POINTS, 0.0)).abs() <= 3 * found.error).all()


def test_a_cancelled_likelihood_is_not_a_number_and_says_so(g3):
    stop = threading.Event()
    stop.set()
    found = log_likelihood(g3, POINTS, steps=5, cancel=stop)
    assert found.report.status is Status.CANCELLED
    assert found.nats.isnan().all()


def test_saving_and_loading(g3, tmp_path):
    found = log_likelihood(g3, POINTS, steps=4)
    again = load_result(save_result(found, tmp_path / "density"), type(found))
    assert_close(again.nats, found.nats, rtol=0, atol=0)
    assert again.solver == found.solver


def test_bad_settings_are_one_sentence(g3, generator):
    with pytest.raises(SettingError, match="got divergence 'guess'; expected 'exact' or 'hutchinson'"):
        log_likelihood(g3, POINTS, divergence="guess")
    with pytest.raises(SettingError, match="got 1 probes; expected at least 2"):
        log_likelihood(g3, POINTS, divergence="hutchinson", probes=1, generator=generator)
    with pytest.raises(SettingError, match="got no generator"):
        log_likelihood(g3, POINTS, divergence="hutchinson")
    with pytest.raises(SettingError, match="value range"):
        log_likelihood(g3, POINTS, grey_levels=256)


def test_an_error_that_was_not_measured_is_not_zero(g3):
    found = log_likelihood(g3, POINTS, steps=5, check_steps=False)
    assert found.step_error is None
    assert found.error is None
    assert found.report.residual is None
    assert found.estimate().error is None
