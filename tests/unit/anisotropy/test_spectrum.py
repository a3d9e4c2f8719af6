"""Directions: order, clusters, null spaces, subspaces and products from seeds."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from workbench.anisotropy.closed_forms import (
    circulant_geometry,
    colour_geometry,
    exact_geometry,
    rectified_geometry,
    transformer_geometry,
)
from workbench.anisotropy.ensemble import make_ensemble
from workbench.anisotropy.geometry import average_geometry, sum_geometry
from workbench.anisotropy.lanczos import find_largest
from workbench.anisotropy.levels import ddpm_levels
from workbench.anisotropy.probes import ZERO
from workbench.anisotropy.products import SeededGeometry
from workbench.anisotropy.spectrum import find_score_spectrum
from workbench.anisotropy.subspaces import index_overlaps, overlap, principal_angles
from workbench.architectures import Architecture, ShiftUNet, call_without_time, load_architecture
from workbench.errors import SettingError, ShapeError


def test_directions_ascend_and_say_so():
    spectrum = find_score_spectrum(exact_geometry(torch.diag(torch.tensor([3.0, 1.0, 2.0])), shape=(3,)))
    assert spectrum.order == "ascending"
    assert_close(spectrum.values, torch.tensor([1.0, 2.0, 3.0]))
    assert (spectrum.lambda_min, spectrum.lambda_max) == (1.0, 3.0)
    assert_close(spectrum.direction(0), torch.tensor([0.0, 1.0, 0.0]))
    assert_close(spectrum.direction(-1), torch.tensor([1.0, 0.0, 0.0]))
    assert [c.kind for c in spectrum.clusters] == ["simple"] * 3
    assert spectrum.meaning(0) == "a direction of its own"


def test_sum_of_eigenvalues_is_the_trace_and_vectors_are_orthonormal():
    geometry = average_geometry(load_architecture("dit8-2"), networks=2, seed=0, dtype=torch.float64)
    spectrum = find_score_spectrum(geometry)
    every = spectrum.directions(list(range(64)))
    assert_close(float(spectrum.values.sum()) * spectrum.copies, geometry.trace.value)
    assert_close(every @ every.T, torch.eye(64), rtol=0, atol=1e-12)
    assert_close(
        every @ geometry.matrix() @ every.T,
        torch.diag(spectrum.values.repeat_interleave(4)),
        rtol=0,
        atol=1e-8,
    )


def test_rectified_outputs_have_one_block_and_one_direction():
    spectrum = find_score_spectrum(rectified_geometry(16, 2.0))
    assert [(c.kind, c.dim) for c in spectrum.clusters] == [("block", 15), ("simple", 1)]
    assert "15-dimensional block" in spectrum.meaning(3)
    assert_close(spectrum.direction(-1), torch.full((16,), 0.25))


@pytest.mark.parametrize(("patch", "rank"), [(2, 52), (4, 112)])
def test_the_null_space_of_a_transformer_is_one_cluster(patch, rank):
    spectrum = find_score_spectrum(transformer_geometry((1, 16, 16), patch, 48))
    assert (spectrum.rank, spectrum.nullity) == (rank, 256 - rank)
    assert (spectrum.clusters[0].kind, spectrum.clusters[0].dim) == ("null", 256 - rank)
    assert {c.kind for c in spectrum.clusters[1:]} == {"block"}
    assert {c.dim % patch**2 for c in spectrum.clusters} == {0}
    assert "null space" in spectrum.meaning(0)
    assert spectrum.lambda_min == pytest.approx(0.0, abs=1e-12)
    assert spectrum.lambda_min_positive > 1e-9


def test_colours_make_every_eigenvalue_a_block():
    spectrum = find_score_spectrum(colour_geometry(torch.diag(torch.arange(1.0, 5.0)), (3, 2, 2)))
    assert [(c.kind, c.dim) for c in spectrum.clusters] == [("block", 3)] * 4
    assert_close(spectrum.direction(4).reshape(3, 4)[1], torch.tensor([0.0, 1.0, 0.0, 0.0]))


def test_fourier_modes_come_in_pairs():
    kernel = torch.tensor([[1.0, 0.5], [0.25, 0.1]])
    spectrum = find_score_spectrum(circulant_geometry(kernel, 5, 5))
    assert sorted(c.dim for c in spectrum.clusters)[0] == 1
    for cluster in spectrum.clusters:
        assert cluster.dim in (1, 2)
        power = torch.fft.fft2(spectrum.subspace(cluster).reshape(-1, 5, 5)).abs().square().sum(0)
        assert int((power > 1e-20).sum()) == cluster.dim


def test_too_few_networks_leave_directions_unresolved_and_more_resolve_them():
    few, many = (
        find_score_spectrum(average_geometry(load_architecture("unet8"), networks=n, seed=0))
        for n in (20, 1200)
    )
    assert len(few.clusters) < len(many.clusters)
    assert "not resolved" in " ".join(few.meaning(i) for i in range(64))
    assert many.overlaps[[0, -1]].min() > 0.9
    assert many.band_overlaps.min() >= many.overlaps.min()
    assert (few.errors / few.values).median() > 2 * (many.errors / many.values).median()


def test_errors_of_eigenvalues_cover_the_difference_to_other_networks():
    first, second = (
        find_score_spectrum(average_geometry(load_architecture("unet8"), networks=300, seed=s))
        for s in (0, 1)
    )
    score = (first.values - second.values) / first.errors.hypot(second.errors)
    assert 0.4 < float(score.square().mean().sqrt()) < 2.0


def test_angles_are_exact_where_cosines_are_not():
    angle = torch.tensor(1e-9)
    first = torch.eye(3)[:2]
    second = torch.stack([torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, angle.cos(), angle.sin()])])
    assert_close(principal_angles(first, second), torch.tensor([0.0, 1e-9]), rtol=1e-6, atol=1e-15)
    assert_close(principal_angles(first, torch.eye(3)[2:]), torch.tensor([math.pi / 2]))
    assert overlap(first, torch.eye(3)[1:]) == pytest.approx(0.5)
    with pytest.raises(ShapeError, match="rows of one length"):
        overlap(first, torch.eye(4))


def test_band_overlap_sees_a_neighbouring_swap():
    first, second = torch.eye(6), torch.eye(6)[[1, 0, 2, 3, 4, 5]]
    assert_close(index_overlaps(first, second)[:3], torch.tensor([0.0, 0.0, 1.0]))
    assert_close(index_overlaps(first, second, band=1), torch.ones(6))


def test_an_index_out_of_range_gets_one_sentence():
    spectrum = find_score_spectrum(rectified_geometry(4, 1.0))
    with pytest.raises(SettingError, match="0 to 3"):
        spectrum.direction(4)


# ---- products regenerated from seeds


@pytest.fixture(scope="module")
def seeded() -> SeededGeometry:
    torch.set_default_dtype(torch.float64)
    architecture = Architecture("tiny", (2, 6, 6), lambda: ShiftUNet(2, 8, 1, 1, groups=2))
    ensemble = make_ensemble(architecture, levels=ddpm_levels(), probe=ZERO, seed=4, dtype=torch.float64)
    return SeededGeometry(ensemble, 40)


def test_products_from_seeds_agree_with_the_matrix(seeded):
    matrix = sum_geometry(seeded.ensemble, 40)
    vectors = torch.randn(3, 72)
    assert_close(seeded.apply(vectors), matrix.apply(vectors), rtol=1e-12, atol=1e-10)
    assert_close(seeded.trace().value, matrix.trace.value)


def test_lanczos_on_seeds_finds_the_largest_eigenvalues(seeded, generator):
    core = sum_geometry(seeded.ensemble, 40).core
    values, vectors, residuals = seeded.find_largest(4, generator=generator)
    assert_close(values, torch.linalg.eigvalsh(core)[-4:], rtol=1e-9, atol=0)
    assert residuals.max() < 1e-8
    assert_close(vectors @ vectors.T, torch.eye(4), rtol=0, atol=1e-10)


def test_size_from_pairs_of_networks_is_unbiased(seeded):
    many = SeededGeometry(seeded.ensemble, 2000)
    reference = sum_geometry(seeded.ensemble, 2000, first=5000).core.square().sum() * 2
    assert many.frobenius_square() == pytest.approx(float(reference), rel=0.15)


def three_convolutions():
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.SiLU(), nn.Conv2d(4, 3, 3, padding=1))


def test_huge_images_need_no_matrix(generator):
    architecture = Architecture("huge", (3, 256, 256), three_convolutions, call=call_without_time)
    ensemble = make_ensemble(architecture, levels=ddpm_levels(), probe=ZERO, seed=0)
    geometry = SeededGeometry(ensemble, 2)
    assert geometry.dim == 196_608
    vector = torch.randn(1, geometry.dim, generator=generator)
    image = geometry.apply(vector)
    other = torch.randn(1, geometry.dim, generator=generator)
    assert_close((other * image).sum(), (geometry.apply(other) * vector).sum(), rtol=1e-9, atol=0)
    assert (vector * image).sum() > 0


def test_colour_images_need_a_core_of_one_channel():
    architecture = Architecture("colour", (3, 32, 32), three_convolutions, call=call_without_time)
    geometry = average_geometry(architecture, networks=2, seed=0)
    assert (geometry.dim, geometry.core.shape[0], geometry.copies) == (3072, 1024, 3)
    vector = torch.zeros(3072)
    vector[1024 + 33] = 1.0
    assert_close(geometry.rayleigh(vector), geometry.core[33, 33])
    assert torch.equal(geometry.apply(vector)[:1024], torch.zeros(1024))


def test_eigenpairs_out_of_range_get_one_sentence(generator):
    with pytest.raises(SettingError, match="1 to 3"):
        find_largest(lambda v: v, 3, 4, generator=generator)
