"""Saddles and minima: climbing, Newton's method, the Hessian index, in few and in many dimensions."""

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import strings as oracle
from workbench.curves import straight
from workbench.strings.profile import find_extrema, spline_profile
from workbench.strings.saddles import climb, cluster, descend, hessian_products, polish
from workbench.strings.static import relax_string
from workbench.worlds import load_world


@pytest.fixture(scope="module")
def tops():
    torch.set_default_dtype(torch.float64)
    world = load_world("muller_brown")
    found = relax_string(world.force, straight(world.facts.start, world.facts.end, 21))
    profile = spline_profile(found.curve, world.energy(found.curve.points), found.force)
    places = torch.tensor([e.t for e in find_extrema(profile, prominence=1e-3) if e.kind == "maximum"])
    return world, found.curve(places), found.curve.velocity(places)


def test_climbing_from_a_coarse_string_reaches_both_saddles(tops):
    world, x, direction = tops
    points, force, iterations = climb(world.force, x, direction)
    assert_close(points, world.facts.saddles, rtol=0, atol=1e-8)
    assert_close(points, torch.tensor(oracle.MULLER_BROWN["saddles"]), rtol=0, atol=2e-8)
    assert force.max() < 1e-5
    assert iterations < 100


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("how", ["difference", "vjp"])
def test_newton_polishes_to_an_index_one_saddle(tops, row, how):
    world, x, _ = tops
    found = polish(world.force, x[row], products=hessian_products(world.force, how=how))
    assert found.converged
    assert found.index == 1
    assert_close(found.point, world.facts.saddles[row], rtol=0, atol=1e-10)
    exact = torch.linalg.eigvalsh(world.hessian(found.point[None])[0])
    assert_close(found.eigenvalues, exact, rtol=1e-6, atol=1e-3)


def test_centre_of_the_ring_has_index_two():
    world = load_world("ring")
    found = polish(lambda x: world.score(x, 0.0), torch.tensor([0.01, 0.02]))
    assert found.converged
    assert found.index == 2


def test_newton_that_leaves_is_refused(tops):
    world, x, _ = tops
    found = polish(world.force, x[0] + 0.3, max_move=1e-3)
    assert not found.converged
    assert torch.equal(found.point, x[0] + 0.3)


def _wide(dim):
    """A saddle of index 1 at 0.1 (1, 1, ...) in many dimensions, with curvatures -1, 2, 2.1, ..."""
    curvatures = torch.cat([torch.tensor([-1.0]), torch.linspace(2, 8, dim - 1)])
    turn = torch.linalg.qr(torch.randn(dim, dim, generator=torch.Generator().manual_seed(0)))[0]
    hessian = turn @ torch.diag(curvatures) @ turn.T
    return lambda x: -((x - 0.1) @ hessian + 0.3 * (x - 0.1) ** 3), turn[:, 0]


def test_newton_without_a_hessian_in_many_dimensions():
    force, mode = _wide(200)
    guess = 0.1 + 0.01 * torch.randn(200, generator=torch.Generator().manual_seed(1))
    found = polish(force, guess, direction=mode, max_iterations=20)
    assert found.converged
    assert found.index == 1
    assert_close(found.point, torch.full((200,), 0.1), rtol=0, atol=1e-8)
    assert abs(found.mode @ mode) > 0.999


def test_rigid_motions_can_be_left_out_of_the_index():
    curvatures = torch.tensor([-1e-4, 0.0, 1e-4, -2.0, 3.0])
    found = polish(lambda x: -x * curvatures, torch.full((5,), 1e-3), ignore=3)
    assert found.index == 1


def test_descent_finds_the_minima():
    world = load_world("muller_brown")
    points, _ = descend(world.force, torch.tensor([[-0.6, 1.3], [0.0, 0.5], [0.5, 0.1]]))
    assert_close(points, world.facts.minima, rtol=0, atol=1e-6)


def test_clusters_keep_the_first():
    points = torch.tensor([[0.0], [1.0], [0.001], [1.0005], [2.0]])
    kept, owner = cluster(points, 0.01)
    assert_close(kept, torch.tensor([[0.0], [1.0], [2.0]]))
    assert owner == [0, 1, 0, 1, 2]
