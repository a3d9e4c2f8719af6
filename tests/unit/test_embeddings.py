"""Embeddings: orthonormal planes, principal directions, and what a projection loses."""

import pytest
import torch
from torch.testing import assert_close

from workbench.embeddings import Identity, Section, Slice, fit_pca, jacobian_of, measure_distortion
from workbench.errors import SettingError, ShapeError


def test_slice_passes_through_its_three_points_and_keeps_their_distances(generator):
    first, second, third = torch.randn(3, 7, generator=generator)
    plane = Slice.through(first, second, third)
    points = torch.stack([first, second, third])
    assert_close(plane.decode(plane.encode(points)), points, rtol=0, atol=1e-12)
    assert_close(torch.pdist(plane.encode(points)), torch.pdist(points), rtol=0, atol=1e-12)
    assert_close(
        plane.encode(second), torch.stack([(second - first).norm(), torch.zeros(())]), rtol=0, atol=1e-12
    )
    assert float(plane.encode(third)[1]) > 0


def test_slice_directions_are_orthonormal(generator):
    plane = Slice.through(*torch.randn(3, 64, generator=generator))
    assert_close(plane.directions @ plane.directions.T, torch.eye(2), rtol=0, atol=1e-12)


def test_slice_through_three_points_on_a_line_is_defined_and_repeatable():
    a, b = torch.zeros(4), torch.tensor([1.0, 0.0, 0.0, 0.0])
    plane = Slice.through(a, b, 0.5 * (a + b))
    assert_close(plane.directions @ plane.directions.T, torch.eye(2))
    assert_close(plane.directions, Slice.through(a, b, 0.5 * (a + b)).directions)


def test_slice_refuses_equal_points():
    with pytest.raises(SettingError, match="two equal points"):
        Slice.through(torch.zeros(3), torch.zeros(3), torch.ones(3))


def test_pca_finds_the_eigenvectors_of_the_covariance(generator):
    scales = torch.tensor([3.0, 1.5, 0.2, 0.1])
    x = torch.randn(400, 4, generator=generator) * scales
    fit = fit_pca(x)
    values, vectors = torch.linalg.eigh(torch.cov(x.T))
    assert_close((fit.directions @ vectors[:, [3, 2]]).abs(), torch.eye(2), rtol=0, atol=1e-10)
    assert_close(torch.tensor(fit.shares), values[[3, 2]] / values.sum(), rtol=1e-10, atol=0)


def test_pca_does_not_depend_on_the_order_of_the_sample(generator):
    x = torch.randn(50, 5, generator=generator)
    shuffled = x[torch.randperm(50, generator=generator)]
    assert_close(fit_pca(x).directions, fit_pca(shuffled).directions, rtol=0, atol=1e-10)


def test_pca_of_two_points_has_one_direction_with_all_the_variance():
    fit = fit_pca(torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 2.0]]))
    assert_close(torch.tensor(fit.shares), torch.tensor([1.0, 0.0]), rtol=0, atol=1e-12)
    assert torch.isfinite(fit.directions).all()


def test_pca_refuses_a_single_point():
    with pytest.raises(ShapeError, match="count >= 2"):
        fit_pca(torch.zeros(1, 3))


def test_distortion_of_a_plane_of_the_space_is_none(generator):
    x = torch.randn(20, 2, generator=generator)
    seen = measure_distortion(Identity(), x)
    assert (seen.median, seen.worst, seen.off) == pytest.approx((1.0, 1.0, 0.0))


def test_distortion_of_a_slice_across_a_line_is_total(generator):
    line = torch.zeros(10, 3)
    line[:, 2] = torch.linspace(0, 1, 10)
    plane = Slice(torch.zeros(3), torch.eye(3)[:2])
    seen = measure_distortion(plane, line)
    assert seen.worst == pytest.approx(0.0)
    assert seen.off > 1.0  # about the plane, not about the mean


def test_distortion_needs_two_different_points():
    with pytest.raises(ShapeError, match="two different"):
        measure_distortion(Identity(), torch.zeros(3, 2))


def test_jacobian_of_a_slice_is_its_directions(generator):
    plane = Slice.through(*torch.randn(3, 5, generator=generator))
    assert_close(jacobian_of(plane, torch.randn(3, 5, generator=generator)), plane.directions.expand(3, 2, 5))


def test_sections_can_decode():
    assert isinstance(Identity(), Section)
    assert isinstance(fit_pca(torch.eye(3)), Section)


def test_identity_refuses_points_of_more_axes():
    with pytest.raises(ShapeError, match=r"Slice\.through"):
        Identity().encode(torch.zeros(2, 3))
