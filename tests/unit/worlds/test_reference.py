"""Reference paths: force along the curve, lengths by another integration, ends bit for bit."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.oracles import worlds as oracle
from workbench.errors import SettingError
from workbench.models import landscape_of
from workbench.worlds import WORLDS, deviation, load_world

ROUTES = [(name, route.name) for name in WORLDS for route in load_world(name).facts.routes]
LENGTHS = {  # from tables, to the digits that they print
    "muller_brown": (2.69883, 5e-6),
    "v_mixture": (10.79795, 5e-6),
    "ring": (12.24585, 2e-5),
    "three_hole": (2.220366, 1e-6),
}


@pytest.mark.parametrize(("name", "route"), ROUTES)
def test_force_is_tangent_to_the_path_and_the_ends_are_the_minima(name, route):
    world = load_world(name)
    landscape = landscape_of(world, 0.0)
    path = world.reference_path(route)
    assert torch.equal(path[0], world.facts.start)
    assert torch.equal(path[-1], world.facts.end)
    tangent = path[2:] - path[:-2]
    tangent = tangent / tangent.norm(dim=-1, keepdim=True)
    force = landscape.force(path[1:-1])
    across = (force - (force * tangent).sum(-1, keepdim=True) * tangent).norm(dim=-1)
    corner = path[2:] - 2 * path[1:-1] + path[:-2]  # at minima the curve may have a corner
    smooth = corner.norm(dim=-1) < 1e-4
    assert smooth.sum() > 1950
    assert float(across[smooth].max() / landscape.force(path).norm(dim=-1).max().clamp_min(1e-2)) < 1e-3


@pytest.mark.parametrize(("name", "route"), ROUTES)
def test_barrier_is_the_rise_along_the_path(name, route):
    world = load_world(name)
    known = next(r for r in world.facts.routes if r.name == route)
    energy = landscape_of(world, 0.0).energy(world.reference_path(route))
    assert float(energy.max() - energy[0]) == pytest.approx(known.barrier, abs=5e-3)
    assert float(energy.max() - energy[0]) <= known.barrier + 1e-9


@pytest.mark.parametrize(("name", "route"), ROUTES)
def test_length_is_that_of_the_polyline(name, route):
    world = load_world(name)
    known = next(r for r in world.facts.routes if r.name == route)
    steps = world.reference_path(route).diff(dim=0).norm(dim=-1)
    assert float(steps.sum()) == pytest.approx(known.length, rel=1e-4)
    assert float(steps.sum()) <= known.length + 1e-9


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_of_the_tables(name):
    value, tolerance = LENGTHS[name]
    assert load_world(name).facts.length == pytest.approx(value, abs=tolerance)


def test_pieces_of_the_muller_brown_path_by_another_integration():
    facts = load_world("muller_brown").facts

    def force(x):
        return -oracle.gradient(oracle.muller_brown, x, 1e-4)

    expected = [(1.034186, 0.802081), (0.333828, 0.528731)]
    for k, pieces in enumerate(expected):
        saddle = facts.saddles[k].numpy()
        hessian = np.stack(
            [oracle.gradient(lambda *p, i=i: force(np.array(p))[i], saddle, 1e-3) for i in (0, 1)]
        )
        direction = np.linalg.eigh(-0.5 * (hessian + hessian.T))[1][:, 0]
        for goal, length in zip(facts.minima[k : k + 2].numpy(), pieces, strict=True):
            sign = 1.0 if direction @ (goal - saddle) > 0 else -1.0
            found = oracle.descent_length(force, saddle, sign * direction, goal)
            assert found == pytest.approx(length, abs=2e-6)


def test_ring_length_by_another_integration():
    facts = load_world("ring").facts
    angles = np.pi / 4 * np.arange(8)
    ring = (
        np.full(8, 1 / 8),
        4 * np.stack([np.cos(angles), np.sin(angles)], -1),
        np.stack([0.36 * np.eye(2)] * 8),
    )
    saddle = facts.saddles[0].numpy()
    direction = np.array([-np.sin(np.pi / 8), np.cos(np.pi / 8)])
    half = oracle.descent_length(
        lambda x: oracle.mixture_score(ring, x, 0.0), saddle, direction, facts.minima[1].numpy()
    )
    assert 8 * half == pytest.approx(facts.length, abs=1e-7)


def test_the_path_of_a_turned_world_is_the_turned_path(generator):
    flat = load_world("two_wells")
    turned = flat.rotated(16, generator=generator)
    steps = turned.reference_path(nodes=101).diff(dim=0).norm(dim=-1)
    assert float(steps.sum()) == pytest.approx(flat.facts.length, abs=1e-9)
    assert float(deviation(turned.facts.saddles, turned.reference_path()).max()) < 1e-9


def test_deviation_is_the_distance_to_segments():
    corner = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    points = torch.tensor([[0.5, 0.2], [-3.0, 4.0], [1.5, 0.5], [1.0, 0.0]])
    assert_close(deviation(points, corner), torch.tensor([0.2, 5.0, 0.5, 0.0]))


def test_unknown_routes_are_named():
    with pytest.raises(SettingError, match="got route 'left'; expected one of lower, upper"):
        load_world("three_hole").reference_path("left")
