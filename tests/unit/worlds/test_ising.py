"""Ising: three exact routes agree with enumeration and with the tables; samplers agree with them."""

import math

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import lattices as oracle
from workbench.errors import SettingError
from workbench.geodesics import relax_levels, straight_start
from workbench.metrics import hessian_residual, matrix
from workbench.metrics.hessian import Hessian
from workbench.worlds.ising import (
    CRITICAL_COUPLING,
    THERMAL,
    Ising,
    infinite_ising,
    natural_of_thermal,
    sample_heat_bath,
    sample_wolff,
)


@pytest.fixture(scope="module")
def states():
    return {shape: oracle.ising_states(*shape) for shape in ((3, 3), (3, 4), (4, 4))}


def zero_field_moments(lattice, coupling):
    k = torch.tensor(coupling, requires_grad=True)
    log_z = lattice.log_partition_zero_field(k)
    (mean,) = torch.autograd.grad(log_z, k, create_graph=True)
    (variance,) = torch.autograd.grad(mean, k)
    return log_z.detach(), mean.detach(), variance


@pytest.mark.parametrize("shape", [(3, 3), (3, 4), (4, 4)])
@pytest.mark.parametrize("coupling", [0.2, CRITICAL_COUPLING, 0.7])
def test_kaufman_and_transfer_matrix_equal_enumeration(states, shape, coupling):
    expected, mean, covariance = oracle.ising_moments(states[shape], coupling, 0.0)
    found = zero_field_moments(Ising(*shape), coupling)
    assert_close(found[0], torch.tensor(expected), rtol=1e-12, atol=0.0)
    assert_close(found[1], torch.tensor(mean[0]), rtol=1e-10, atol=0.0)
    assert_close(found[2], torch.tensor(covariance[0, 0]), rtol=1e-9, atol=0.0)
    log_z = Ising(*shape).log_partition(torch.tensor([coupling, 0.0]))
    assert_close(log_z, torch.tensor(expected), rtol=1e-12, atol=0.0)


TABLE = [
    (0.2, 0.734533553475, 0.42836805894, 2.447854299, 2.441304998, 2.44130444),
    (0.3, 0.790770789034, 0.71246737267, 3.459759449, 3.183544406, 3.181002254),
    (0.4, 0.884365449382, 1.2223206433, 6.877974309, 6.656105518, 5.38659427),
    (CRITICAL_COUPLING, 0.939715324829, 1.4915891074, 5.898715918, 7.71713456, 11.28813927),
    (0.5, 1.03663409186, 1.7456831703, 2.856490411, 2.902035071, 2.899485794),
    (0.6, 1.2209632634, 1.9090674298, 0.871444164, 0.8706818263, 0.8706815504),
]


@pytest.mark.parametrize(("coupling", "log_z", "bonds", "variance", "variance16", "variance64"), TABLE)
def test_kaufman_tables(coupling, log_z, bonds, variance, variance16, variance64):
    found = [float(v) / 64 for v in zero_field_moments(Ising(8, 8), coupling)]
    assert found == pytest.approx([log_z, bonds, variance], rel=2e-9)
    assert float(zero_field_moments(Ising(16, 16), coupling)[2]) / 256 == pytest.approx(variance16, rel=2e-9)
    assert float(zero_field_moments(Ising(64, 64), coupling)[2]) / 4096 == pytest.approx(variance64, rel=1e-8)


@pytest.mark.parametrize(
    ("coupling", "log_z", "bonds", "variance", "magnetisation"),
    [
        (0.2, 0.734530812276, 0.428228833240, 2.44130443971, 0.0),
        (0.4, 0.879363820775, 1.10607920375, 5.38561473019, 0.0),
        (0.5, 1.02579281269, 1.74556457531, 2.89948579441, 0.911319377877),
        (0.6, 1.21013238829, 1.90908617768, 0.87068155035, 0.973608667440),
    ],
)
def test_onsager_table(coupling, log_z, bonds, variance, magnetisation):
    found = infinite_ising(coupling)
    values = [found.log_partition, found.bonds, found.bonds_variance, found.magnetisation]
    assert values == pytest.approx([log_z, bonds, variance, magnetisation], rel=1e-10)


def test_the_infinite_lattice_at_its_critical_point():
    found = infinite_ising(CRITICAL_COUPLING)
    catalan = 0.915965594177219015
    assert found.log_partition == pytest.approx(0.5 * math.log(2.0) + 2.0 * catalan / math.pi, rel=1e-12)
    assert found.bonds == pytest.approx(math.sqrt(2.0), rel=1e-9)
    assert found.bonds_variance == math.inf


@pytest.mark.parametrize(
    ("point", "log_z", "entries"),
    [
        ((0.2, 0.1), 11.990749435693, (59.0014353153, 25.7655892411, 39.2924736938)),
        ((0.44068679350977, 0.05), 15.749226830698, (59.6442596139, 21.3454082522, 128.4788841048)),
        ((0.25, -0.2), 13.293666069058, (85.4727347814, -39.6254826682, 27.8255614652)),
    ],
)
def test_metric_with_a_field(states, point, log_z, entries):
    lattice, x = Ising(4, 4), torch.tensor(point)
    g = matrix(lattice.metric(), x)
    assert_close(lattice.log_partition(x), torch.tensor(log_z), rtol=1e-13, atol=0.0)
    assert_close(g[(0, 0, 1), (0, 1, 1)], torch.tensor(entries), rtol=1e-10, atol=0.0)
    assert_close(g, torch.from_numpy(oracle.ising_moments(states[4, 4], *point)[2]), rtol=1e-10, atol=0.0)


def test_the_coordinate_trap():
    """The metric in (T, H) is the natural one pulled back, not the Hessian of log Z taken in (T, H)."""
    lattice, x = Ising(4, 4), torch.tensor([2.5, 0.2])
    pulled = matrix(lattice.thermal_metric(), x)
    assert_close(pulled, torch.tensor([[2.247300, -3.009622], [-3.009622, 12.163623]]), rtol=0.0, atol=1e-6)
    wrong = matrix(Hessian(lambda y: lattice.log_partition(natural_of_thermal(y)), THERMAL), x)
    assert_close(wrong, torch.tensor([[5.5598, -4.6747], [-4.6747, 12.1637]]), rtol=0.0, atol=1e-4)
    assert float(hessian_residual(lattice.metric(), natural_of_thermal(x))) < 1e-9
    assert float(hessian_residual(lattice.thermal_metric(), x)) > 0.04


def test_the_line_without_a_field_is_a_geodesic():
    ends = torch.tensor([0.2, 0.0]), torch.tensor([0.6, 0.0])
    found = relax_levels(Ising(4, 4).metric(), straight_start(*ends, 17)[None])
    assert_close(found.length[0], torch.tensor(2.9713386727), rtol=1e-6, atol=0.0)
    assert float(found.points[..., 1].abs().max()) < 1e-12


POINTS = torch.tensor([[0.2, 0.1], [0.44, 0.05], [0.5, -0.02], [0.6, 0.0]]).double()


@pytest.mark.parametrize("method", ["heat bath", "wolff"])
def test_samplers_reach_equilibrium(method, generator):
    lattice, count = Ising(4, 4), 1500
    x = POINTS.repeat_interleave(count, dim=0)
    if method == "heat bath":
        spins = sample_heat_bath(lattice, x, sweeps=60, generator=generator)
    else:
        spins = sample_wolff(lattice, x, clusters=60, generator=generator)
    statistics = lattice.statistics(spins.double()).reshape(len(POINTS), count, 2)
    exact = lattice.metric()
    deviation = torch.diagonal(matrix(exact, POINTS), dim1=-2, dim2=-1).sqrt() / math.sqrt(count)
    score = (statistics.mean(dim=1) - exact.dual(POINTS)) / deviation
    assert float(score.abs().max()) < 4.0
    spread = statistics.var(dim=1) / torch.diagonal(matrix(exact, POINTS), dim1=-2, dim2=-1)
    assert_close(spread, torch.ones_like(spread), rtol=0.0, atol=0.3)


def test_sampling_is_reproducible():
    first, second = (
        sample_heat_bath(Ising(4, 4), POINTS, sweeps=3, generator=torch.Generator().manual_seed(5))
        for _ in "ab"
    )
    assert torch.equal(first, second)


def test_what_a_lattice_cannot_be():
    with pytest.raises(SettingError, match="3 x 3 or more"):
        Ising(2, 4)
    with pytest.raises(SettingError, match="even sides"):
        sample_heat_bath(Ising(3, 4), POINTS, generator=torch.Generator())
    with pytest.raises(SettingError, match="K >= 0"):
        sample_wolff(Ising(3, 3), -POINTS, generator=torch.Generator())
    with pytest.raises(SettingError, match="transfer matrix for 20 columns"):
        Ising(3, 20).log_partition(POINTS)
