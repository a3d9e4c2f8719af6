"""Error bars of the Fisher lens hold: of 100 random cases with known answers at least 95 lie within three."""

import pytest
import torch

from tests.oracles import fisher as oracle
from workbench.geodesics import relax_levels, straight_start
from workbench.logpartition import bootstrap_metric, potential_of_statistics
from workbench.metrics import half_plane
from workbench.metrics.hessian import burg
from workbench.phases import measure_flipd
from workbench.worlds import GaussianMixture
from workbench.worlds.tasep import Tasep, measure_current

CASES = 100


def share_held(gaps, errors):
    """Share of cases whose true error is at most three times the stated one; below 1e-9 both are rounding."""
    gaps, errors = (torch.as_tensor(v, dtype=torch.float64) for v in (gaps, errors))
    assert bool((errors >= 0.0).all())
    return float((gaps.abs() <= 3.0 * errors + 1e-9).double().mean())


def ends_between(low, high, generator):
    draw = torch.rand(2, CASES, 2, generator=generator, dtype=torch.float64)
    return low + (high - low) * draw


@pytest.mark.parametrize("nodes", [9, 17])
def test_lengths_on_the_half_plane(nodes, generator):
    low, high = torch.tensor([-2.0, 0.4]), torch.tensor([2.0, 3.0])
    start, end = ends_between(low, high, generator)
    found = relax_levels(half_plane(), straight_start(start, end, nodes))
    exact = [
        oracle.half_plane_distance(tuple(a.tolist()), tuple(b.tolist()))
        for a, b in zip(start, end, strict=True)
    ]
    assert share_held(found.length - torch.tensor(exact), found.error) >= 0.95


def test_lengths_for_a_potential_with_a_pole(generator):
    start, end = ends_between(torch.full((2,), 0.2), torch.full((2,), 3.0), generator)
    found = relax_levels(burg(), straight_start(start, end, 9))
    exact = torch.linalg.vector_norm(torch.log(start) - torch.log(end), dim=1)
    assert share_held(found.length - exact, found.error) >= 0.95


def test_currents_of_driven_chains(generator):
    chain = Tasep(8)
    rates = 0.1 + 0.9 * torch.rand(CASES, 2, generator=generator, dtype=torch.float64)
    found = [measure_current(chain, pair, 200, generator=generator) for pair in rates]
    gaps = torch.tensor([one.value for one in found]) - chain.current(rates)
    assert share_held(gaps, [one.error for one in found]) >= 0.95


def test_bootstrap_of_a_metric(generator):
    points = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)  # means of normals of unit variance
    cells = torch.arange(3).repeat_interleave(40)
    gaps, errors = [], []
    for _ in range(CASES):
        draws = points[cells] + torch.randn(len(cells), 1, generator=generator, dtype=torch.float64)
        fit = potential_of_statistics(draws, points, cells)
        gaps.append(float(fit.matrix(points[1])) - 1.0)
        errors.append(float(bootstrap_metric(fit, points[1], replicates=12, generator=generator)))
    assert share_held(gaps, errors) >= 0.95


def test_probes_of_the_local_dimension(generator):
    dim = 6
    spread = torch.diag(torch.tensor([1.0, 1.0, 0.5, 0.02, 0.02, 0.02], dtype=torch.float64))
    turn = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))[0]
    world = GaussianMixture(
        "a pancake",
        torch.ones(1, dtype=torch.float64),
        torch.zeros(1, dim, dtype=torch.float64),
        (turn @ spread @ turn.mT)[None],
    )
    x = 0.1 * torch.ones(dim, dtype=torch.float64)
    exact = measure_flipd(world, x, 0.3).value
    found = [measure_flipd(world, x, 0.3, probes=24, generator=generator) for _ in range(CASES)]
    assert share_held([one.value - exact for one in found], [one.error for one in found]) >= 0.95
