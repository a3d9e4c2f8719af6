"""What is predicted without training: bases, alignment, distances with their baselines, the linear theory."""

import math

import numpy as np
import pytest
import torch
from scipy.fft import dct, dst
from torch.testing import assert_close

from workbench.anisotropy.alignment import align, alignment_of, second_moment
from workbench.anisotropy.bases import BASES, image_basis, line_basis, mean_frequency, rayleigh_map
from workbench.anisotropy.closed_forms import circulant_geometry, colour_geometry, exact_geometry
from workbench.anisotropy.distances import (
    axis_distance,
    baselines,
    exact_distance,
    gaussian_distance,
    off_axis_spread,
    sliced_distance,
)
from workbench.anisotropy.linear_theory import decay_rate, gradient_noise, linear_diffusion
from workbench.anisotropy.selfcheck import check_anisotropy
from workbench.errors import SettingError, ShapeError


def positive(dim, generator):
    half = torch.randn(dim, dim, generator=generator)
    return half @ half.T


# ---- bases


@pytest.mark.parametrize("name", BASES)
def test_bases_are_orthonormal(name):
    basis = image_basis(name, 4, 8)
    assert_close(basis @ basis.T, torch.eye(32), rtol=0, atol=1e-13)


@pytest.mark.parametrize(("name", "transform"), [("dct", dct), ("dst", dst)])
def test_trigonometric_bases_are_the_second_kind(name, transform):
    expected = transform(np.eye(6), type=2, norm="ortho", axis=0)
    assert_close(line_basis(name, 6), torch.from_numpy(expected), rtol=0, atol=1e-13)


def test_walsh_functions_are_in_order_of_their_sign_changes():
    changes = (line_basis("hadamard", 16).diff(dim=1).abs() > 1e-9).sum(1)
    assert torch.equal(changes, torch.arange(16))


def test_haar_is_coarse_before_fine():
    expected = torch.tensor([[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, -0.5, -0.5], [1, -1, 0, 0], [0, 0, 1, -1]])
    expected[2:] /= math.sqrt(2)
    assert_close(line_basis("haar", 4), expected)


@pytest.mark.parametrize(
    ("name", "count", "words"), [("haar", 6, "power of two"), ("wavelet", 4, "one of dct")]
)
def test_bases_that_do_not_fit_get_one_sentence(name, count, words):
    with pytest.raises(SettingError, match=words):
        line_basis(name, count)


@pytest.mark.parametrize("name", BASES)
def test_maps_sum_to_the_trace(name):
    geometry = colour_geometry(positive(32, torch.Generator().manual_seed(0)), (2, 4, 8))
    found = rayleigh_map(geometry, name)
    assert found.shape == (2, 4, 8)
    assert_close(float(found.sum()), geometry.trace.value)
    assert_close(found[0], found[1])


def test_map_of_pixels_is_the_diagonal():
    geometry = circulant_geometry(torch.tensor([[1.0, 0.5]]), 3, 4)
    assert_close(rayleigh_map(geometry, "pixel").flatten(), geometry.core.diagonal())
    with pytest.raises(ShapeError, match="images"):
        rayleigh_map(exact_geometry(torch.eye(4), shape=(4,)), "pixel")


def test_frequency_of_a_cosine_is_its_own():
    basis = image_basis("dct", 4, 4)
    assert_close(mean_frequency(basis[[0, 3, 5]], (1, 4, 4)), torch.tensor([0.0, 3.0, math.sqrt(2)]))


# ---- alignment


def test_alignment_has_the_bounds_of_the_theorem(generator):
    geometry = exact_geometry(positive(8, generator), shape=(8,))
    moment = positive(8, generator)
    best = align(geometry, moment)
    assert_close(best.w_min @ best.w_min.T, torch.eye(8), rtol=0, atol=1e-12)
    assert_close(alignment_of(geometry, moment, best.w_min), best.minimum, rtol=1e-12, atol=0)
    assert_close(alignment_of(geometry, moment, best.w_max), best.maximum, rtol=1e-12, atol=0)
    assert_close(best.value, float((geometry.core @ moment).trace()))
    turns = torch.linalg.qr(torch.randn(200, 8, 8, generator=generator))[0]
    inside = [alignment_of(geometry, moment, turn) for turn in turns]
    assert best.minimum < min(inside)
    assert max(inside) < best.maximum
    assert 0.0 < best.position < 1.0


def test_turning_the_data_turns_the_best_rotation(generator):
    geometry = exact_geometry(positive(5, generator), shape=(5,))
    points = torch.randn(50, 5, generator=generator)
    turn = torch.linalg.qr(torch.randn(5, 5, generator=generator))[0]
    plain, turned = (align(geometry, second_moment(p)) for p in (points, points @ turn.T))
    assert_close([plain.minimum, plain.maximum], [turned.minimum, turned.maximum])


def test_a_moment_of_another_size_gets_one_sentence():
    with pytest.raises(ShapeError, match="second moment"):
        align(exact_geometry(torch.eye(3), shape=(3,)), torch.eye(4))
    with pytest.raises(ShapeError, match="points"):
        second_moment(torch.zeros(3))


# ---- distances


def line_data(count, dim, generator):
    out = torch.zeros(count, dim)
    out[:, 0] = dim**0.5 * torch.randn(count, generator=generator)
    return out


def test_anchors_of_rank_one_data(generator):
    reference, fresh = line_data(4000, 64, generator), line_data(4000, 64, generator)
    found = baselines(reference, fresh, projections=512, generator=generator)
    assert_close(found.zero.mean, 1.0, rtol=0.07, atol=0)
    normal = math.sqrt(2 - 2 * math.sqrt(2 / math.pi) * (1 + 1 / 256))
    assert_close(found.normal.mean, normal, rtol=0.07, atol=0)
    assert found.real.mean < 0.12
    assert found.real.largest >= found.real.mean


def test_sliced_distance_of_a_scaled_line_is_the_change_of_scale(generator):
    points = line_data(1000, 32, generator)
    found = sliced_distance(points, 1.5 * points, projections=1024, generator=generator)
    assert_close(found.mean, 0.5 * float(points.square().mean().sqrt()), rtol=0.08, atol=0)


def test_sliced_distance_of_orthogonal_lines(generator):
    points = line_data(4000, 64, generator)
    found = sliced_distance(points, points.roll(1, dims=1), projections=512, generator=generator)
    assert_close(found.mean**2, 2 - 4 / math.pi, rtol=0.1, atol=0)


def test_exact_distance_is_the_shift():
    points = torch.randn(40, 3)
    assert_close(exact_distance(points, points[torch.randperm(40)] + 2.0), 2.0 * math.sqrt(3))
    with pytest.raises(SettingError, match="at most 2000"):
        exact_distance(torch.zeros(2001, 1), torch.zeros(2001, 1))


def test_gaussian_distance_survives_singular_covariances():
    line = torch.diag(torch.tensor([4.0, 0.0]))
    zero = torch.zeros(2)
    assert_close(gaussian_distance(zero, line, zero, torch.eye(2)), math.sqrt(2.0))
    assert_close(gaussian_distance(zero + 1, line, zero, line), math.sqrt(2.0))


def test_axis_and_spread_separate_what_the_sliced_distance_mixes(generator):
    points = line_data(2000, 16, generator)
    axis = torch.eye(16)[0]
    noisy = 2.0 * points + 0.1 * torch.randn(2000, 16, generator=generator) * (1 - axis)
    assert_close(axis_distance(noisy, axis, points[:, 0]), float(points[:, 0].square().mean().sqrt()))
    assert_close(off_axis_spread(noisy, axis[None]), 0.1, rtol=0.03, atol=0)


def test_samples_of_different_size_get_one_sentence(generator):
    with pytest.raises(ShapeError, match="equal shapes"):
        sliced_distance(torch.zeros(3, 2), torch.zeros(4, 2), generator=generator)
    with pytest.raises(ShapeError, match="equally many"):
        axis_distance(torch.zeros(3, 2), torch.ones(2), torch.zeros(4))


# ---- linear theory


@pytest.mark.parametrize(("index", "factor"), [(0, 0.98), (1, 0.98), (3, 0.98), (4, 0.96)])
def test_error_of_gradient_descent_decays_by_the_formula(index, factor):
    values, rate = torch.tensor([8.0, 5.0, 3.0, 2.0, 1.0]), 0.01
    axis = torch.eye(5)[index]
    target = torch.outer(axis, axis)
    error = torch.linalg.inv(target + torch.eye(5))  # a network that starts at zero
    sizes = []
    for _ in range(600):
        error = error - 2 * rate * values[:, None] * error @ (target + torch.eye(5))
        sizes.append(float(error.norm()))
    assert_close(sizes[-1] / sizes[-2], factor, rtol=1e-6, atol=0)
    assert_close(1 - 2 * rate * decay_rate(values, index, 1.0), factor, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("index", "expected"), [(0, 96.0), (4, 12.0)])
def test_gradient_covariance_is_proportional_to_the_eigenvalue(index, expected, generator):
    values, sigma = torch.tensor([8.0, 5.0, 3.0, 2.0, 1.0]), 1.0
    assert gradient_noise(values, index, sigma) == expected
    axis = torch.eye(5)[index]
    best = -torch.linalg.inv(torch.outer(axis, axis) + sigma**2 * torch.eye(5))
    eps = torch.randn(100_000, 5, generator=generator)
    seen = torch.randn(100_000, 1, generator=generator) * axis + sigma * eps
    residual = seen @ best.T + eps / sigma
    size = 4 * (residual.square() * values).sum(1) * seen.square().sum(1)
    assert_close(float(size.mean()), expected, rtol=0.03, atol=0)


@pytest.mark.parametrize(("steps", "largest", "smallest"), [(200, 1.780, 1.154), (1000, 0.576, 0.506)])
def test_many_noise_levels_favour_small_eigenvalues(steps, largest, smallest):
    found = linear_diffusion(steps=steps)
    assert_close(float(found.distances[-1]), largest, rtol=0, atol=6e-4)
    assert_close(float(found.distances[0]), smallest, rtol=0, atol=6e-4)
    assert (found.distances.diff() > 0).all()
    assert found.distances.max() < found.zero


def test_an_unstable_rate_gets_one_sentence():
    with pytest.raises(SettingError, match="stable gradient descent"):
        linear_diffusion(rate=1.0)


def test_the_self_check_passes():
    assert [check.name for check in check_anisotropy() if not check.passed] == []
