"""Landscapes against their tables, their printed formulas and difference quotients."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.oracles import worlds as oracle
from workbench.models import landscape_of
from workbench.worlds import LANDSCAPES, PolarDoubleWell, load_world

FORMULAS = {
    "muller_brown": oracle.muller_brown,
    "three_hole": oracle.three_hole,
    "polar_double_well": oracle.polar_double_well,
}


@pytest.fixture
def points(generator):
    return torch.tensor([0.1, 0.5]) + 0.6 * torch.randn(25, 2, generator=generator)


@pytest.mark.parametrize("name", LANDSCAPES)
def test_energy_is_the_printed_formula(name, points):
    expected = torch.tensor([FORMULAS[name](*row) for row in points.tolist()])
    assert_close(load_world(name).energy(points), expected, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("name", LANDSCAPES)
def test_force_is_the_slope_of_the_formula(name, points):
    expected = torch.tensor(np.array([-oracle.gradient(FORMULAS[name], row) for row in points.numpy()]))
    assert_close(load_world(name).force(points), expected, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("name", LANDSCAPES)
def test_hessian_is_the_jacobian_of_the_force(name, points):
    world = load_world(name)
    jacobian = torch.func.vmap(torch.func.jacfwd(world.force))(points)
    assert_close(world.hessian(points), -jacobian, rtol=1e-10, atol=1e-9)
    assert_close(world.hessian(points), world.hessian(points).mT, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("name", LANDSCAPES)
def test_a_landscape_is_its_own_energy_at_any_level(name):
    world = load_world(name)
    assert landscape_of(world, 0.3) is world


def test_muller_brown_table():
    world = load_world("muller_brown")
    facts = world.facts
    minima = torch.tensor(
        [[-0.558223635, 1.441725842], [-0.050010823, 0.466694105], [0.623499405, 0.028037759]]
    )
    saddles = torch.tensor([[-0.822001559, 0.624312803], [0.212486582, 0.292988325]])
    assert_close(facts.minima, minima, atol=1e-9, rtol=0)
    assert_close(facts.saddles, saddles, atol=1e-9, rtol=0)
    energies = torch.tensor([-146.699517210, -80.767818130, -108.166724117])
    assert_close(world.energy(facts.minima), energies, atol=1e-8, rtol=0)
    assert_close(world.energy(facts.saddles), torch.tensor([-40.664843509, -72.248940112]), atol=1e-8, rtol=0)
    curvatures = torch.tensor([[410.531, 4068.199], [221.037, 1479.197], [543.836, 3005.396]])
    assert_close(torch.linalg.eigvalsh(world.hessian(facts.minima)), curvatures, atol=1e-3, rtol=0)
    bent = torch.tensor([[-750.863, 490.241], [-735.247, 510.887]])
    assert_close(torch.linalg.eigvalsh(world.hessian(facts.saddles)), bent, atol=1e-3, rtol=0)
    assert facts.barrier == pytest.approx(106.034673701, abs=1e-8)


def test_three_hole_table():
    world = load_world("three_hole")
    facts = world.facts
    assert_close(
        world.energy(facts.minima),
        torch.tensor([-3.994860602, -2.172153623, -3.994860602]),
        atol=1e-9,
        rtol=0,
    )
    heights = torch.tensor([-1.384586640, -1.646687453, -1.646687453])
    assert_close(world.energy(facts.saddles), heights, atol=1e-9, rtol=0)
    assert float(world.energy(torch.tensor([0.0, 0.519186742]))) == pytest.approx(-0.715229887, abs=1e-9)
    assert facts.barrier == pytest.approx(2.610274, abs=1e-6)
    assert facts.routes[1].barrier == pytest.approx(2.348173, abs=1e-6)


def test_polar_well_has_its_path_on_the_unit_circle():
    world = PolarDoubleWell(stiffness=20.0, height=1.5)
    path = world.reference_path(nodes=101)
    force = world.force(path)
    tangent = torch.stack([-path[:, 1], path[:, 0]], dim=-1)
    across = force - (force * tangent).sum(-1, keepdim=True) * tangent
    assert_close(across, torch.zeros_like(across), atol=1e-13, rtol=0)
    profile = world.energy(path)
    assert float(profile.max() - profile[0]) == pytest.approx(1.5, abs=1e-14)
