"""The noisy circle against Bessel functions in many digits and the table of ridges and mean radii."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.oracles import worlds as oracle
from workbench.errors import SettingError
from workbench.worlds import NoisyCircle, load_world

RIDGES = {0.1: 0.994961926, 0.2: 0.979360889, 0.3: 0.951460229}
MEANS = {0.1: 1.005012694, 0.2: 1.020213928, 0.3: 1.046222600}


@pytest.fixture
def points(generator):
    return torch.cat(
        [1.2 * torch.randn(20, 2, generator=generator), torch.tensor([[1e-4, 0.0], [3e-3, -2e-3]])]
    )


@pytest.mark.parametrize("sigma", [0.0, 0.1, 1.0, 50.0, 1e8])
def test_density_and_denoiser_in_many_digits(points, sigma):
    world = load_world("noisy_circle")
    y = points * (1.0 + sigma)
    logs = torch.tensor([oracle.circle_log_prob(row, 0.2, sigma) for row in y.numpy()])
    clean = torch.tensor(np.array([oracle.circle_denoised(row, 0.2, sigma) for row in y.numpy()]))
    assert_close(world.log_prob(y, sigma), logs, rtol=1e-12, atol=1e-12)
    assert_close(world.denoise(y, sigma), clean, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("sigma", [0.0, 0.5, 20.0])
def test_derivatives_against_automatic_ones(points, sigma):
    world = NoisyCircle(0.3)
    y = points.clone().requires_grad_()
    (slope,) = torch.autograd.grad(world.log_prob(y, sigma).sum(), y)
    assert_close(world.score(points, sigma), slope, rtol=1e-9, atol=1e-12)
    jacobian = torch.func.vmap(torch.func.jacfwd(lambda p: world.score(p, sigma)))(points)
    assert_close(world.hessian(points, sigma), jacobian, rtol=1e-8, atol=1e-9)
    trace = torch.diagonal(jacobian, dim1=-2, dim2=-1).sum(-1)
    assert_close(world.divergence(points, sigma), trace, rtol=1e-8, atol=1e-9)


def test_the_centre_is_a_point_like_any_other():
    world = load_world("noisy_circle")
    centre = torch.zeros(1, 2)
    assert_close(world.score(centre, 0.1), torch.zeros(1, 2))
    total = 0.2**2 + 0.1**2
    assert_close(world.hessian(centre, 0.1)[0], (0.5 / total - 1.0) / total * torch.eye(2))


@pytest.mark.parametrize("sigma", RIDGES)
def test_ridge_lies_inside_and_the_mean_radius_outside(sigma, generator):
    world = NoisyCircle(sigma)
    ridge = world.ridge()
    assert ridge == pytest.approx(RIDGES[sigma], abs=1e-9)
    assert_close(world.score(torch.tensor([[ridge, 0.0]]), 0.0), torch.zeros(1, 2), atol=1e-12, rtol=0)
    assert oracle.rice_mean(sigma) == pytest.approx(MEANS[sigma], abs=1e-8)
    draws = world.sample(400_000, generator=generator).norm(dim=-1)
    assert float(draws.mean()) == pytest.approx(MEANS[sigma], abs=4 * sigma / 400_000**0.5)


def test_own_width_and_noise_add_in_squares():
    assert NoisyCircle(0.12).ridge(0.16) == pytest.approx(NoisyCircle(0.2).ridge(), abs=1e-12)
    assert NoisyCircle(0.2).ridge(0.7) == 0.0


def test_a_width_without_ridge_is_refused():
    with pytest.raises(SettingError, match=r"got width 0\.8; expected"):
        NoisyCircle(0.8)
