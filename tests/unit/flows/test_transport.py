"""Transport against the closed-form flow of one Gaussian; inversion and its round trip."""

import threading

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import flows as oracle
from workbench.errors import ConvergenceWarning, SettingError, ShapeError
from workbench.flows import clock_ends, generate, invert, transport
from workbench.models import Frame
from workbench.report import Status
from workbench.schedules import LINEAR, OU, SCHEDULES, TRIGONOMETRIC, VE
from workbench.worlds import GaussianMixture, load_world

NOISE = torch.tensor([[0.3, -1.2], [1.5, 0.4]], dtype=torch.float64)
DATA = torch.tensor([[0.933054, -2.680822], [3.194886, -1.140655]], dtype=torch.float64)


@pytest.fixture
def gaussian():
    return GaussianMixture(
        "gaussian", torch.ones(1), torch.tensor(oracle.MEAN)[None], torch.tensor(oracle.COVARIANCE)[None]
    )


@pytest.fixture
def exact():
    return torch.tensor(oracle.gaussian_flow(NOISE.numpy(), (0.0, 1.0), (1.0, 0.0)))


def test_the_closed_form_is_that_of_the_table(exact):
    assert_close(exact, DATA, rtol=0, atol=5e-7)


@pytest.mark.parametrize(("steps", "error"), [(10, 6.5e-6), (20, 3.2e-7), (40, 1.7e-8)])
def test_errors_of_the_table(gaussian, exact, steps, error):
    found = generate(gaussian, NOISE, steps=steps).points
    assert float((found - exact).abs().max()) == pytest.approx(error, rel=0.05)


@pytest.mark.parametrize(
    "schedule", [s for s in SCHEDULES if s.t_noise in (0.0, 1.0)], ids=lambda schedule: schedule.name
)
def test_every_clock_carries_points_by_the_same_map(gaussian, schedule):
    noisy, clean = clock_ends(gaussian, schedule)
    begin, end = (tuple(map(float, schedule(torch.tensor(t)))) for t in (noisy, clean))
    exact = torch.tensor(oracle.gaussian_flow(NOISE.numpy(), begin, end))
    assert_close(generate(gaussian, NOISE, schedule=schedule, steps=16).points, exact, rtol=0, atol=5e-6)


def test_the_exploding_clock_ends_at_the_largest_noise_of_the_model(gaussian, exact):
    noisy, clean = clock_ends(gaussian, VE)
    assert (noisy, clean) == (gaussian.frame.sigma_max, 0.0)
    assert_close(generate(gaussian, noisy * NOISE, schedule=VE, steps=16).points, exact, rtol=0, atol=5e-6)


@pytest.mark.parametrize("schedule", [LINEAR, OU], ids=lambda schedule: schedule.name)
def test_a_part_of_the_clock(gaussian, schedule):
    begin, end = (tuple(map(float, schedule(torch.tensor(t)))) for t in (0.2, 0.7))
    exact = torch.tensor(oracle.gaussian_flow(NOISE.numpy(), begin, end))
    there = transport(gaussian, NOISE, 0.2, 0.7, schedule=schedule, steps=12).points
    assert_close(there, exact, rtol=0, atol=1e-6)
    back = transport(gaussian, there, 0.7, 0.2, schedule=schedule, steps=12).points
    assert_close(back, NOISE, rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", ["euler", "heun", "dopri5"])
def test_other_solvers_agree_to_their_order(gaussian, exact, solver):
    found = generate(gaussian, NOISE, solver=solver, steps=20, tol=1e-8)
    tolerance = {"euler": 0.2, "heun": 2e-3, "dopri5": 1e-6}[solver]
    assert_close(found.points, exact, rtol=0, atol=tolerance)
    assert found.report.status is Status.CONVERGED
    assert found.report.model_calls >= 40


def test_calls_are_counted_in_points(gaussian):
    assert generate(gaussian, NOISE, steps=5).report.model_calls == 5 * 4 * 2


@pytest.mark.parametrize(("steps", "error"), [(20, 2.5e-6), (80, 2.4e-9)])
def test_round_trip_of_the_bent_mixture(steps, error):
    """Of the order of the table, whose ends were not stated to be relative."""
    world = load_world("v_mixture")
    found = invert(world, torch.stack([world.facts.start, world.facts.end]), steps=steps)
    assert float(found.round_trip.max()) < 3 * error
    assert found.report.residual == float(found.round_trip.max())
    distance = (found.returned - torch.stack([world.facts.start, world.facts.end])).norm(dim=-1)
    assert_close(found.round_trip, distance / 3.0, rtol=1e-6, atol=0)


def test_inversion_is_the_inverse_of_the_flow(gaussian, exact):
    found = invert(gaussian, exact, steps=20)
    assert_close(found.latents, NOISE, rtol=0, atol=1e-6)
    one = invert(gaussian, exact[:1], steps=20)
    assert_close(one.latents, found.latents[:1], rtol=1e-12, atol=1e-12)


def test_gradients_flow_to_the_points(gaussian):
    x = NOISE.clone().requires_grad_()
    (slope,) = torch.autograd.grad(generate(gaussian, x, steps=12).points.sum(), x)
    root = torch.tensor(oracle.gaussian_marginal_root(1.0, 0.0))
    assert_close(slope, root.sum(0).expand(2, 2), rtol=0, atol=1e-4)


class _Narrow:
    """A Gaussian world that may be asked between two noise levels only, by its denoiser alone."""

    def __init__(self, world, low, high):
        self.world, self.seen = world, []
        self.frame = Frame("narrow", (2,), low, high, data_std=world.frame.data_std)

    def denoise(self, y, sigma):
        self.seen.append(float(sigma))
        return self.world.denoise(y, sigma)


def test_beyond_its_noise_levels_a_model_is_not_asked(gaussian, exact):
    model = _Narrow(gaussian, 0.002, 80.0)
    found = generate(model, NOISE, steps=40).points
    assert min(model.seen) >= 0.002 * (1 - 1e-9)
    assert max(model.seen) <= 80.0 * (1 + 1e-9)
    assert_close(found, exact, rtol=0, atol=0.05)  # the noise at 80 knows nothing of the mean


def test_a_cancelled_flow_says_how_far_it_came(gaussian):
    stop = threading.Event()
    found = transport(
        gaussian,
        NOISE,
        0.0,
        1.0,
        schedule=OU,
        steps=8,
        progress=lambda fraction, _: stop.set() if fraction >= 0.5 else None,
        cancel=stop,
    )
    assert found.report.status is Status.CANCELLED
    assert found.t == pytest.approx(0.5**0.5, abs=1e-6)  # half of the angle
    begin, end = (0.0, 1.0), tuple(map(float, OU(torch.tensor(found.t))))
    assert_close(
        found.points, torch.tensor(oracle.gaussian_flow(NOISE.numpy(), begin, end)), rtol=0, atol=1e-4
    )


def test_a_model_that_returns_nan_is_named_with_image_and_noise_level(gaussian):
    class Broken(_Narrow):
        def denoise(self, y, sigma):
            clean = super().denoise(y, sigma)
            return torch.where((torch.arange(2) == 1)[:, None] & (sigma < 1.0), torch.nan, clean)

    with pytest.warns(ConvergenceWarning, match="diverged"):
        found = generate(Broken(gaussian, 0.01, 80.0), NOISE, steps=10)
    assert found.report.status is Status.DIVERGED
    assert "narrow at image 1, near sigma 1" in found.report.warnings[0]
    assert torch.isfinite(found.points).all()


def test_bad_input_is_one_sentence(gaussian):
    with pytest.raises(ShapeError, match="last axis of 2"):
        generate(gaussian, torch.zeros(3, 5))
    with pytest.raises(SettingError, match="got solver 'magic'"):
        generate(gaussian, NOISE, solver="magic")
    with pytest.raises(SettingError, match="got 0 steps"):
        invert(gaussian, NOISE, steps=0)


def test_the_angle_is_a_regular_clock_of_ou(gaussian):
    found = generate(gaussian, NOISE, schedule=OU, steps=10).points
    assert_close(found, generate(gaussian, NOISE, schedule=TRIGONOMETRIC, steps=10).points, rtol=0, atol=1e-9)
