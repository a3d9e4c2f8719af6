"""Eigenvalues from products against dense matrices and closed forms."""

import pytest
import torch
from torch.testing import assert_close

from workbench.linalg import (
    dense_jacobian,
    find_spectrum,
    find_stiffness,
    jacobian_product,
    lanczos,
    power_iteration,
    score_stiffness,
    transposed_product,
)
from workbench.worlds import load_world


def _symmetric(count, dim, generator):
    matrix = torch.randn(count, dim, dim, generator=generator)
    return matrix + matrix.mT


def test_products_are_those_of_the_dense_jacobian(generator):
    matrix = torch.randn(4, 4, generator=generator)

    def field(x):
        return torch.tanh(x @ matrix.T)

    x, v = torch.randn(2, 3, 4, generator=generator), torch.randn(2, 3, 4, generator=generator)
    dense = (1 - field(x).square()).unsqueeze(-1) * matrix
    assert_close(dense_jacobian(field, x), dense)
    assert_close(dense_jacobian(field, x, chunk=3), dense)
    assert_close(jacobian_product(field, x, v), torch.einsum("...ij,...j->...i", dense, v))
    assert_close(transposed_product(field, x, v), torch.einsum("...ji,...j->...i", dense, v))


@pytest.mark.parametrize("dim", [1, 2, 7, 40])
def test_as_many_steps_as_dimensions_give_the_ends_exactly(dim, generator):
    matrix = _symmetric(5, dim, generator)
    found = find_spectrum(lambda v: torch.einsum("nij,nj->ni", matrix, v), torch.zeros(5, dim), steps=dim + 3)
    values, vectors = torch.linalg.eigh(matrix)
    assert_close(found.largest, values[:, -1], rtol=1e-10, atol=1e-10)
    assert_close(found.smallest, values[:, 0], rtol=1e-10, atol=1e-10)
    overlap = (found.direction * vectors[..., -1]).sum(-1).abs()
    assert_close(overlap, torch.ones(5), rtol=0, atol=1e-9)
    assert found.products == dim


@pytest.mark.parametrize("steps", [3, 6, 12])
def test_few_steps_bound_the_ends_from_inside_and_say_how_far(steps, generator):
    matrix = _symmetric(6, 60, generator)
    found = find_spectrum(lambda v: torch.einsum("nij,nj->ni", matrix, v), torch.zeros(6, 60), steps=steps)
    values = torch.linalg.eigvalsh(matrix)
    assert (found.largest <= values[:, -1] + 1e-10).all()
    assert (found.smallest >= values[:, 0] - 1e-10).all()
    nearest = (values - found.largest[:, None]).abs().amin(-1)
    assert (nearest <= found.largest_error + 1e-10).all()


def test_an_exhausted_space_adds_no_value_from_outside_the_spectrum():
    """An operator with two distinct eigenvalues is exhausted after two steps; zero is not one of them."""
    values = torch.tensor([-3.0, -3.0, -3.0, -2.0, -2.0, -2.0])
    found = find_spectrum(lambda v: values * v, torch.zeros(4, 6), steps=6)
    assert_close(found.largest, torch.full((4,), -2.0))
    assert_close(found.smallest, torch.full((4,), -3.0))


def test_power_iteration_with_a_shift_finds_the_largest(generator):
    values = torch.tensor([-10.0, 1.0, 2.0, 5.0])
    value, vector = power_iteration(
        lambda v: values * v, torch.randn(3, 4, generator=generator), steps=80, shift=10.0
    )
    assert_close(value, torch.full((3,), 5.0), rtol=1e-10, atol=1e-10)
    assert_close(vector.abs(), torch.tensor([0.0, 0, 0, 1]).expand(3, 4), rtol=0, atol=1e-5)


@pytest.mark.parametrize("sigma", [0.0, 0.3, 2.0])
def test_stiffness_of_a_mixture_is_the_largest_curvature(sigma, generator):
    world = load_world("v_mixture")
    y = world.sample(20, generator=generator, sigma=sigma)
    exact = torch.linalg.eigvalsh(-world.hessian(y, sigma))[:, -1]
    assert_close(find_stiffness(lambda p: world.score(p, sigma), y), exact, rtol=1e-8, atol=1e-9)


def test_score_stiffness_never_exceeds_its_bound(generator):
    world = load_world("v_mixture").rotated(24, generator=generator)
    y = world.sample(10, generator=generator, sigma=0.5)
    found = score_stiffness(world, y, 0.5, steps=3)
    exact = torch.linalg.eigvalsh(-world.hessian(y, 0.5))[:, -1]
    assert (found <= 4.0 + 1e-12).all()
    assert (found >= 0.9 * exact).all()


def test_spectrum_is_the_same_for_the_same_seed_and_for_a_batch_or_a_loop(generator):
    world = load_world("g3").rotated(24, generator=generator)
    y = world.sample(4, generator=generator)

    def field(p):
        return world.score(p, 0.2)

    whole = find_stiffness(field, y, steps=4)
    assert_close(whole, find_stiffness(field, y, steps=4), rtol=0, atol=0)
    rows = torch.stack([find_stiffness(field, row, steps=4) for row in y])
    assert_close(whole, rows, rtol=1e-9, atol=1e-9)


def test_lanczos_reproduces_the_operator(generator):
    matrix = torch.randn(6, 6, generator=generator, dtype=torch.float64)
    matrix = matrix + matrix.T
    found = lanczos(lambda v: matrix @ v, torch.ones(6, dtype=torch.float64), 6)
    assert_close(found.basis @ found.basis.T, torch.eye(6, dtype=torch.float64), rtol=0, atol=1e-12)
    assert_close(torch.linalg.eigvalsh(found.matrix), torch.linalg.eigvalsh(matrix), rtol=0, atol=1e-10)


def test_lanczos_stops_when_it_has_enough(generator):
    matrix = torch.diag(torch.arange(1.0, 41.0, dtype=torch.float64))
    products = []

    def product(v):
        products.append(1)
        return matrix @ v

    start = torch.ones(40, dtype=torch.float64)
    found = lanczos(product, start, 40, enough=lambda small, rest: len(small) == 7)
    assert len(products) == 7
    assert found.matrix.shape == (7, 7)
    assert found.basis.shape == (7, 40)
