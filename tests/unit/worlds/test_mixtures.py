"""Gaussian mixtures against tables and against inverses, determinants and many digits."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.oracles import worlds as oracle
from workbench.errors import SettingError, ShapeError
from workbench.models import fields_along
from workbench.schedules import LINEAR, OU, TRIGONOMETRIC, rates
from workbench.worlds import GaussianMixture, load_world, two_wells

POINT = torch.tensor([0.5, -0.7], dtype=torch.float64)
LEVELS = (0.0, 0.02, 0.3, 1.0, 7.0, 1e3)

TABLE = {  # log density, score, velocity of x_t at 0.3 of the clock, at POINT
    "linear": (LINEAR, -3.064258785, (-0.332903558, 1.743259260), (0.889891697, 1.734271607)),
    "trigonometric": (TRIGONOMETRIC, -3.601983980, (-0.149242670, 1.171567501), (1.081336223, 1.453777233)),
    "ou": (OU, -2.913251118, (-0.428732376, 0.998253266), (0.237558748, 0.994177554)),
}


@pytest.fixture
def g3():
    return load_world("g3")


@pytest.fixture
def points(generator):
    return 3.0 * torch.randn(40, 2, generator=generator)


@pytest.mark.parametrize("row", TABLE)
def test_density_score_and_velocity_in_the_frames_of_three_paths(g3, row):
    schedule, log_density, score, velocity = TABLE[row]
    t = torch.tensor(0.3)
    a, s = schedule(t)
    seen = g3.log_prob(POINT / a, s / a) - 2 * torch.log(a)
    assert_close(seen, torch.tensor(log_density), atol=1e-9, rtol=0)
    b, slope = fields_along(g3, POINT, t, schedule)
    assert_close(slope, torch.tensor(score), atol=1e-9, rtol=0)
    assert_close(b, torch.tensor(velocity), atol=1e-9, rtol=0)


def test_table_in_the_variance_exploding_frame(g3):
    assert_close(g3.log_prob(POINT, 0.8), torch.tensor(-6.702881066), atol=1e-9, rtol=0)
    assert_close(g3.score(POINT, 0.8), torch.tensor([-0.086404210, 1.364333860]), atol=1e-9, rtol=0)
    assert_close(g3.denoise(POINT, 0.8), torch.tensor([0.444701306, 0.173173670]), atol=1e-9, rtol=0)


def test_table_of_the_data_themselves(g3):
    assert_close(g3.log_prob(POINT, 0.0), torch.tensor(-11.377952246), atol=1e-9, rtol=0)
    assert_close(g3.score(POINT, 0.0), torch.tensor([-0.409865334, 3.916109509]), atol=1e-9, rtol=0)
    others = torch.tensor([[-3.0, 0.0], [5.0, 5.0]])
    assert_close(g3.log_prob(others, 0.0), torch.tensor([-2.085225187, -20.813177107]), atol=1e-9, rtol=0)


def test_modes_of_three_gaussians(g3):
    expected = torch.tensor([[-3.0, 0.0], [0.000053512, 3.999963871], [2.999999947, 1.000000036]])
    assert_close(g3.facts.minima, expected, atol=1e-9, rtol=0)
    heights = torch.tensor([2.085225187, 2.530991384, 2.631359582])
    assert_close(-g3.log_prob(g3.facts.minima, 0.0), heights, atol=1e-9, rtol=0)


@pytest.mark.parametrize("sigma", LEVELS)
@pytest.mark.parametrize("name", ["g3", "v_mixture"])
def test_density_and_score_against_inverses(name, sigma, points):
    world, tables = load_world(name), {"g3": oracle.G3, "v_mixture": oracle.V}[name]
    y = points * (1.0 + sigma)
    logs = torch.tensor([oracle.mixture_log_prob(tables, row, sigma) for row in y.numpy()])
    slopes = torch.tensor(np.array([oracle.mixture_score(tables, row, sigma) for row in y.numpy()]))
    assert_close(world.log_prob(y, sigma), logs, atol=1e-11, rtol=1e-12)
    assert_close(world.score(y, sigma), slopes, atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("sigma", [0.0, 1e-3, 0.5, 30.0, 1e4, 1e8])
def test_denoiser_keeps_its_digits_from_no_noise_to_all(g3, sigma, points):
    y = points[:6] * (1.0 + sigma)
    exact = torch.tensor(np.array([oracle.mixture_denoised(oracle.G3, row, sigma) for row in y.numpy()]))
    assert_close(g3.denoise(y, sigma), exact, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("sigma", [0.0, 0.4, 5.0])
def test_derivatives_against_automatic_ones(g3, sigma, points):
    y = points[:8].requires_grad_()
    (slope,) = torch.autograd.grad(g3.log_prob(y, sigma).sum(), y)
    assert_close(g3.score(y, sigma), slope, rtol=1e-10, atol=1e-12)
    jacobian = torch.func.vmap(torch.func.jacfwd(lambda p: g3.score(p, sigma)))(y.detach())
    assert_close(g3.hessian(y.detach(), sigma), jacobian, rtol=1e-10, atol=1e-11)
    trace = torch.diagonal(jacobian, dim1=-2, dim2=-1).sum(-1)
    assert_close(g3.divergence(y.detach(), sigma), trace, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_tweedie_ties_denoiser_and_score(g3, sigma, points):
    assert_close(
        g3.denoise(points, sigma), points + sigma**2 * g3.score(points, sigma), rtol=1e-11, atol=1e-11
    )


def test_denoiser_jacobian_is_the_posterior_covariance_over_the_noise(g3, points):
    sigma = 0.7
    jacobian = torch.func.vmap(torch.func.jacfwd(lambda p: g3.denoise(p, sigma)))(points)
    assert_close(jacobian, torch.eye(2) + sigma**2 * g3.hessian(points, sigma), rtol=1e-9, atol=1e-10)


def test_a_level_for_each_point_equals_a_loop(g3, points):
    sigma = torch.linspace(0.0, 3.0, len(points))
    for method in ("log_prob", "denoise", "score", "hessian", "divergence"):
        whole = getattr(g3, method)(points, sigma)
        rows = [getattr(g3, method)(p, float(level)) for p, level in zip(points, sigma, strict=True)]
        assert_close(
            whole, torch.stack(rows), rtol=1e-12, atol=1e-12, msg=lambda text, m=method: f"{m}: {text}"
        )


def test_batches_of_any_shape_keep_their_axes(g3, points):
    grid = points.reshape(4, 5, 2, 2)
    assert_close(g3.score(grid, 0.2).reshape(-1, 2), g3.score(points, 0.2))
    assert g3.hessian(grid[:1, :1, :1], 0.2).shape == (1, 1, 1, 2, 2)


def test_single_precision_stays_near(g3, points):
    single = g3.to(dtype=torch.float32)
    assert_close(single.denoise(points.float(), 0.3), g3.denoise(points, 0.3).float(), rtol=2e-5, atol=2e-5)


def test_continuity_equation(g3, points):
    """d/dt log p + b . s + div b = 0 along the linear path."""
    t = torch.tensor(0.6)

    def log_density(time):
        a, s = LINEAR(time)
        return g3.log_prob(points / a, s / a) - 2.0 * torch.log(a)

    change = torch.func.jvp(log_density, (t,), (torch.ones_like(t),))[1]
    b, s = fields_along(g3, points, t, LINEAR)
    a, level, a_rate, s_rate = rates(LINEAR, t)
    divergence = (
        2 * a_rate / a
        + (level**2 * a_rate / a - level * s_rate) * g3.divergence(points / a, level / a) / a**2
    )
    assert_close(change + (b * s).sum(-1) + divergence, torch.zeros(len(points)), atol=1e-9, rtol=0)


def test_samples_have_the_moments_of_the_mixture(g3, generator):
    draws = g3.sample(200_000, generator=generator, sigma=0.5)
    weights, means, covariances = (torch.tensor(part) for part in oracle.G3)
    mean = weights @ means
    spread = means - mean
    total = torch.einsum("k,kij->ij", weights, covariances + 0.25 * torch.eye(2)) + spread.T @ (
        weights[:, None] * spread
    )
    assert_close(draws.mean(0), mean, atol=0.03, rtol=0)
    assert_close(draws.T.cov(), total, atol=0.06, rtol=0)
    again = g3.sample(5, generator=torch.Generator().manual_seed(3))
    assert_close(again, g3.sample(5, generator=torch.Generator().manual_seed(3)), rtol=0, atol=0)


def test_valley_of_the_bent_mixture():
    world = load_world("v_mixture")
    facts = world.facts
    assert_close(
        -world.log_prob(facts.minima, 0.0),
        torch.tensor([2.901992919, 4.487326751, 2.901992919]),
        atol=1e-9,
        rtol=0,
    )
    assert_close(-world.log_prob(facts.saddles, 0.0), torch.full((2,), 4.489011250), atol=1e-9, rtol=0)
    assert_close(facts.saddles[1], torch.tensor([0.171033229, -4.339284613]), atol=1e-9, rtol=0)
    assert_close(facts.minima[1], torch.tensor([0.0, -4.406863447]), atol=1e-9, rtol=0)
    origin = -world.log_prob(torch.zeros(2), 0.0)
    assert float(origin) == pytest.approx(13.619560024, abs=1e-9)
    assert facts.barrier == pytest.approx(1.587018331, abs=1e-9)
    assert float(origin) - 2.901992919 == pytest.approx(10.717567105, abs=2e-9)


def test_ring_modes_saddles_and_barrier():
    world = load_world("ring")
    facts = world.facts
    assert_close(facts.minima.norm(dim=1), torch.full((8,), 3.999994795), atol=1e-9, rtol=0)
    assert_close(facts.saddles.norm(dim=1), torch.full((8,), 3.695518130), atol=1e-9, rtol=0)
    assert_close(-world.log_prob(facts.minima, 0.0), torch.full((8,), 2.895662918), atol=1e-9, rtol=0)
    assert_close(-world.log_prob(facts.saddles, 0.0), torch.full((8,), 5.456889278), atol=1e-9, rtol=0)
    assert facts.barrier == pytest.approx(2.561226360, abs=1e-9)
    centre = world.log_prob(facts.minima[0], 0.0) - world.log_prob(torch.zeros(2), 0.0)
    assert float(centre) == pytest.approx(20.142785, abs=1e-6)
    assert_close(facts.end, -facts.start, atol=1e-12, rtol=0)


def test_two_wells_barrier_and_the_noise_at_which_they_merge():
    world = load_world("two_wells")
    assert world.facts.barrier == pytest.approx(7.306852819, abs=1e-9)
    for schedule, merge in ((LINEAR, 0.340542427), (TRIGONOMETRIC, 0.303463666), (OU, 0.458831468)):
        a, s = schedule(torch.tensor(merge))
        curvature = world.hessian(torch.zeros(2), s / a)[0, 0]
        assert abs(float(curvature)) < 1e-7


@pytest.mark.parametrize("dim", [2, 7])
def test_two_wells_curvature_at_the_saddle(dim):
    world = two_wells(2.0, 0.5, dim)
    total = 0.5**2 + 0.3**2
    expected = torch.full((dim,), 1.0 / total)
    expected[0] -= 4.0 / total**2
    assert_close(torch.diagonal(-world.hessian(torch.zeros(dim), 0.3)), expected, rtol=1e-12, atol=1e-12)


def test_a_turned_world_has_the_same_answers_in_more_dimensions(generator):
    flat = load_world("v_mixture")
    turned = flat.rotated(64, generator=generator)
    assert turned.dim == turned.frame.dim == 64
    assert_close(turned.score(turned.facts.minima, 0.0), torch.zeros(3, 64), atol=1e-12, rtol=0)
    shift = 31.0 * math.log(2 * math.pi)  # of 62 added standard normal coordinates
    heights = -flat.log_prob(flat.facts.saddles, 0.0) + shift
    assert_close(-turned.log_prob(turned.facts.saddles, 0.0), heights, atol=1e-10, rtol=0)
    values = torch.linalg.eigvalsh(-turned.hessian(turned.facts.saddles, 0.0))
    assert ((values < 0).sum(-1) == 1).all()
    assert turned.facts.barrier == flat.facts.barrier


def test_bad_settings_are_one_sentence(g3, generator):
    with pytest.raises(SettingError, match="got dim 1; expected at least the world's own 2"):
        g3.rotated(1, generator=generator)
    with pytest.raises(SettingError, match="positive"):
        GaussianMixture("flat", torch.ones(1), torch.zeros(1, 2), torch.zeros(1, 2, 2))
    with pytest.raises(ShapeError, match="beside means"):
        GaussianMixture("odd", torch.ones(2), torch.zeros(1, 2), torch.eye(2)[None])
    with pytest.raises(SettingError, match="one of muller_brown"):
        load_world("flatland")
    with pytest.raises(SettingError, match="without known answers"):
        _ = GaussianMixture("own", torch.ones(1), torch.zeros(1, 2), torch.eye(2)[None]).facts


def test_two_wells_that_merge_are_refused():
    with pytest.raises(SettingError, match="expected 0 < width < offset"):
        two_wells(0.5, 0.5)
