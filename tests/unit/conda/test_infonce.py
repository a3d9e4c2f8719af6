"""The loss: its closed form, its gradient against the definition, and its numerics."""

import math

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import conda as oracle
from workbench.conda.infonce import (
    expected_scale,
    gaussian_information,
    goodness_of_fit,
    infonce,
    infonce_of,
    similarity_of_pairs,
    similarity_table,
    squared_distances,
    von_mises_information,
)
from workbench.errors import SettingError


@pytest.mark.parametrize("negatives", [128, 512, 2048])
@pytest.mark.parametrize("kappa", [2.0, 10.0])
def test_value_on_the_circle_is_log_n_minus_the_mutual_information(kappa, negatives):
    count = 20_480
    reference, positive = oracle.von_mises_pairs(kappa, count, seed=0)
    others, _ = oracle.von_mises_pairs(kappa, count, seed=1)
    losses = [
        infonce(r, p, n, similarity="cosine", temperature=1.0 / kappa)
        for r, p, n in zip(
            reference.split(negatives), positive.split(negatives), others.split(negatives), strict=True
        )
    ]
    assert_close(
        torch.stack(losses).mean().item(), oracle.von_mises_loss(kappa, negatives), rtol=0, atol=0.02
    )


@pytest.mark.parametrize("kappa", [0.5, 2.0, 10.0, 200.0])
def test_mutual_information_equals_its_integral(kappa):
    assert_close(
        von_mises_information(kappa), math.log(100) - oracle.von_mises_loss(kappa, 100), rtol=1e-9, atol=1e-9
    )


def test_constant_similarity_gives_log_n():
    same = torch.ones(10, 3)
    assert_close(infonce(same, same, torch.ones(77, 3)).item(), math.log(77))
    assert goodness_of_fit(math.log(77), 77) == 0.0
    assert_close(goodness_of_fit(math.log(77) - math.log(2), 77), 1.0)


@pytest.mark.parametrize("chunk", [4096, 3])
@pytest.mark.parametrize("similarity", ["euclidean", "cosine"])
def test_value_and_gradient_equal_the_definition(similarity, chunk):
    reference, positive, negative = (torch.randn(n, 3, requires_grad=True) for n in (7, 7, 9))
    tau = torch.tensor(0.7, requires_grad=True)
    inputs = (reference, positive, negative, tau)
    found = infonce(reference, positive, negative, similarity=similarity, temperature=tau, chunk=chunk)
    known = oracle.naive_infonce(reference, positive, negative, similarity, tau)
    assert_close(found, known, rtol=1e-12, atol=1e-12)
    for a, b in zip(torch.autograd.grad(found, inputs), torch.autograd.grad(known, inputs), strict=True):
        assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("similarity", ["euclidean", "cosine"])
def test_copies_are_independent(similarity):
    reference, positive, negative = torch.randn(3, 4, 5, 2), torch.randn(3, 4, 5, 2), torch.randn(3, 4, 6, 2)
    tau = torch.rand(3, 4) + 0.5
    whole = infonce(reference, positive, negative, similarity=similarity, temperature=tau)
    one = infonce(
        reference[1, 2], positive[1, 2], negative[1, 2], similarity=similarity, temperature=tau[1, 2]
    )
    assert_close(whole[1, 2], one)


def test_adding_a_number_to_every_similarity_changes_nothing():
    positive, table = torch.randn(5), torch.randn(5, 8)
    assert_close(infonce_of(positive + 3.0, table + 3.0), infonce_of(positive, table))


def test_large_similarities_neither_overflow_nor_lose_the_gradient():
    points = (torch.randn(6, 2) * 100).float().requires_grad_()
    loss = infonce(points, points, points)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(points.grad).all()
    table = torch.full((2, 3), 1e4, dtype=torch.float32)
    assert_close(
        infonce_of(torch.full((2,), 1e4, dtype=torch.float32), table).item(), math.log(3), rtol=1e-4, atol=0
    )


def test_close_points_keep_their_digits_in_single_precision():
    exact = 1000.0 + torch.rand(20, 3)
    found = squared_distances(exact.float(), exact.float())
    known = torch.cdist(exact.float().double(), exact.float().double()).square()
    assert_close(found.double(), known, rtol=1e-4, atol=1e-5)
    assert (found >= 0).all()


def test_a_spare_axis_is_refused_instead_of_broadcast():
    reference = torch.randn(6, 2)
    table = similarity_table(reference, reference, similarity="cosine", temperature=1.0)
    with pytest.raises(SettingError, match="one positive a row"):
        infonce_of(
            similarity_of_pairs(reference, reference, similarity="cosine", temperature=1.0)[:, None], table
        )


def test_tables_of_interior_information_and_scale():
    assert_close(gaussian_information(0.1, 2) / math.log(2), 2.55, rtol=0, atol=0.01)
    assert_close(expected_scale(0.1), 7.07, rtol=0, atol=0.01)
