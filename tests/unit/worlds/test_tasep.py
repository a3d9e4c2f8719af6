"""TASEP: matrix products against the Markov chain, contacts against tables, draws against both."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.oracles import lattices as oracle
from workbench.errors import SettingError
from workbench.metrics import matrix
from workbench.worlds.tasep import Tasep, limit_current, limit_density, measure_current, phase_of

RATES = [(0.3, 0.6), (0.6, 0.6), (0.3, 0.3), (0.8, 0.2)]


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("sites", [1, 2, 5])
def test_weights_are_the_stationary_state(sites, rates):
    chain, at = Tasep(sites), torch.tensor(rates)
    weights = torch.exp(chain.log_weights(at))
    expected = [oracle.tasep_weight(bits, *rates) for bits in itertools.product((0, 1), repeat=sites)]
    assert_close(weights, torch.tensor(expected), rtol=1e-12, atol=0.0)
    stationary = oracle.tasep_stationary(sites, *rates)
    assert_close(weights / weights.sum(), torch.from_numpy(stationary), rtol=1e-9, atol=1e-12)
    assert_close(chain.log_partition(-torch.log(at)), torch.log(weights.sum()), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("sites", [1, 4, 9])
def test_normalisation_at_unit_rates_is_a_catalan_number(sites):
    found = torch.exp(Tasep(sites).log_partition(torch.zeros(2)))
    assert_close(found, torch.tensor(float(oracle.catalan(sites + 1))), rtol=1e-12, atol=0.0)


def test_the_product_line():
    at = torch.tensor([0.3, 0.7])
    assert_close(
        Tasep(20).log_partition(-torch.log(at)), torch.tensor(-20.0 * math.log(0.21)), rtol=1e-12, atol=0.0
    )
    assert_close(Tasep(20).current(at), torch.tensor(0.21), rtol=1e-11, atol=0.0)
    assert_close(Tasep(20).density(at), torch.full((20,), 0.3), rtol=1e-10, atol=0.0)


def test_density_table_and_enumeration():
    at = torch.tensor([0.3, 0.6])
    table = torch.tensor([0.30539877, 0.31074186, 0.31788354, 0.32859981, 0.34730061])
    chain = Tasep(5)
    assert_close(chain.density(at), table, rtol=0.0, atol=5e-9)
    assert_close(
        torch.exp(chain.log_partition(-torch.log(at))), torch.tensor(221470 / 81), rtol=1e-12, atol=0.0
    )
    bits = np.array(list(itertools.product((0, 1), repeat=5)), float)
    expected = oracle.tasep_stationary(5, 0.3, 0.6) @ bits
    assert_close(chain.density(at), torch.from_numpy(expected), rtol=1e-9, atol=0.0)
    current = chain.current(at)
    assert_close(chain.density(at)[0], 1.0 - current / 0.3, rtol=1e-11, atol=0.0)
    assert_close(chain.density(at)[-1], current / 0.6, rtol=1e-11, atol=0.0)


TABLE = [
    (
        4,
        (0.3, 0.6),
        6.3452030853,
        (2.42903575, 0.73239437),
        (1.447564292, -0.814765080, 0.921886683),
        (1.220502636, -0.671346287, 0.742225023),
    ),
    (
        8,
        (0.3, 0.6),
        12.6082881926,
        (4.69297416, 0.90219938),
        (3.640358122, -1.345422984, 1.484397989),
        (2.859493298, -1.052250382, 1.080878706),
    ),
    (
        8,
        (0.6, 0.6),
        10.2834638197,
        (2.08708511, 2.08708511),
        (3.063508344, -1.689750511, 3.063508344),
        (1.891142517, -1.056101952, 1.891142517),
    ),
    (
        8,
        (0.3, 0.3),
        13.8161993559,
        (2.96903037, 2.96903037),
        (4.624180532, -3.579995587, 4.624180532),
        (4.001951998, -3.208520018, 4.001951998),
    ),
    (
        12,
        (0.8, 0.8),
        14.3107493737,
        (1.96769945, 1.96769945),
        (3.194077059, -1.322731756, 3.194077059),
        (1.311391318, -0.452224104, 1.311391318),
    ),
]


@pytest.mark.parametrize(("sites", "rates", "log_z", "contacts", "whole", "seen"), TABLE)
def test_both_fisher_metrics(sites, rates, log_z, contacts, whole, seen):
    chain, at = Tasep(sites), torch.tensor(rates)
    t = -torch.log(at)
    assert_close(chain.log_partition(t), torch.tensor(log_z), rtol=1e-11, atol=0.0)
    assert_close(chain.metric().dual(t), torch.tensor(contacts), rtol=0.0, atol=6e-9)
    h, g = matrix(chain.metric(), t), chain.configuration_metric(at)
    assert_close(h[(0, 0, 1), (0, 1, 1)], torch.tensor(whole), rtol=0.0, atol=2e-9)
    assert_close(g[(0, 0, 1), (0, 1, 1)], torch.tensor(seen), rtol=0.0, atol=2e-9)
    assert bool((torch.linalg.eigvalsh(h - g) > 0.0).all())  # a marginal knows less
    rate = matrix(chain.rate_metric(), at)
    assert_close(rate, h / torch.outer(at, at), rtol=1e-11, atol=0.0)


def test_covariance_of_contacts_is_the_hessian():
    from workbench.metrics import Hessian
    from workbench.worlds.tasep import NATURAL

    t = torch.tensor([[1.2, 0.5], [0.1, 0.9]])
    by_derivative = Hessian(Tasep(10).log_partition, NATURAL)
    assert_close(matrix(Tasep(10).metric(), t), matrix(by_derivative, t), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("rates", "values"),
    [
        ((0.2, 0.6), (0.30931738, 0.31174045, 0.31231011)),
        ((0.8, 0.9), (0.2486, 0.1063, 0.0319)),
        ((0.3, 0.3), (0.8436, 2.2133, 7.4609)),
    ],
)
def test_how_the_metric_grows_tells_the_transition(rates, values):
    t = -torch.log(torch.tensor(rates))
    found = [float(matrix(Tasep(n).metric(), t)[0, 0]) / n for n in (16, 64, 256)]
    assert found == pytest.approx(values, abs=6e-5)


@pytest.mark.parametrize(
    ("rates", "phase", "current", "density"),
    [((0.2, 0.6), 0, 0.16, 0.2), ((0.7, 0.3), 1, 0.21, 0.7), ((0.7, 0.8), 2, 0.25, 0.5)],
)
def test_phases_of_the_infinite_chain(rates, phase, current, density):
    at = torch.tensor(rates)
    assert int(phase_of(at)) == phase
    assert float(limit_current(at)) == pytest.approx(current)
    assert float(limit_density(at)) == pytest.approx(density)
    assert float(Tasep(400).current(at)) == pytest.approx(current, rel=5e-3)


@pytest.mark.parametrize("rates", RATES)
def test_draws_are_stationary(rates, generator):
    chain, at, count = Tasep(6), torch.tensor(rates), 20000
    draws = chain.sample(at, count, generator=generator)
    exact = torch.softmax(chain.log_weights(at), dim=0)
    index = (draws.long() * (2 ** torch.arange(5, -1, -1))).sum(dim=1)
    seen = torch.bincount(index, minlength=64) / count
    error = torch.sqrt(exact * (1.0 - exact) / count)
    assert float(((seen - exact) / error).abs().max()) < 4.5


@pytest.mark.parametrize("rates", [(0.2, 0.6), (0.3, 0.3), (0.8, 0.9)])
def test_current_of_long_chains(rates, generator):
    chain, at = Tasep(100), torch.tensor(rates)
    found = measure_current(chain, at, 1000, generator=generator)
    assert abs(found.value - float(chain.current(at))) < 4.0 * found.error


def test_what_a_chain_cannot_be():
    with pytest.raises(SettingError, match="one or more"):
        Tasep(0)
    with pytest.raises(SettingError, match="at most 16"):
        Tasep(40).log_weights(torch.tensor([0.3, 0.6]))
