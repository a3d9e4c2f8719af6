"""Exact answers for free ends: basins, barriers above a moved start, and no answer where none is known."""

import pytest
import torch

from workbench.worlds import load_world
from workbench.worlds.answers import descend_to_minimum, energy_of, known_answer


@pytest.mark.parametrize(
    "name", ["v_mixture", "muller_brown", "three_hole", "polar_double_well", "ring", "two_wells"]
)
def test_the_default_ends_have_the_barrier_of_the_first_route(name):
    world = load_world(name)
    answer = known_answer(world, world.facts.start, world.facts.end)
    assert answer.barrier == pytest.approx(world.facts.barrier, abs=1e-8)
    assert answer.between_minima
    assert not answer.reversed


@pytest.mark.parametrize("name", ["v_mixture", "muller_brown", "three_hole"])
def test_a_moved_start_in_the_same_basin_lowers_the_barrier_by_what_it_climbed(name):
    world = load_world(name)
    moved = world.facts.start + 0.03 * torch.tensor([1.0, -2.0])
    answer = known_answer(world, moved, world.facts.end)
    climbed = float(energy_of(world, moved[None]) - energy_of(world, world.facts.start[None]))
    assert climbed > 0
    assert answer.barrier == pytest.approx(world.facts.barrier - climbed, abs=1e-8)
    assert not answer.between_minima


def test_swapped_ends_run_the_route_backwards_with_its_barrier_from_the_other_side():
    world = load_world("muller_brown")
    answer = known_answer(world, world.facts.end, world.facts.start)
    top = float(energy_of(world, world.facts.saddles).max() - energy_of(world, world.facts.end[None]))
    assert answer.reversed
    assert answer.barrier == pytest.approx(top, abs=1e-8)


def test_an_end_above_every_saddle_is_the_barrier_itself():
    world = load_world("v_mixture")
    high = torch.tensor([6.0, 5.196])
    answer = known_answer(world, world.facts.start, high)
    above = float(energy_of(world, high[None]) - energy_of(world, world.facts.start[None]))
    assert above > world.facts.barrier
    assert answer.barrier == pytest.approx(above, abs=1e-12)


def test_of_two_routes_the_one_near_the_path_is_meant():
    world = load_world("three_hole")
    upper = world.reference_path("upper")
    assert known_answer(world, world.facts.start, world.facts.end, near=upper).route.name == "upper"
    lower = world.reference_path("lower")
    assert known_answer(world, world.facts.start, world.facts.end, near=lower).route.name == "lower"


def test_two_points_of_one_basin_have_no_known_route():
    world = load_world("muller_brown")
    assert known_answer(world, world.facts.start, world.facts.start + 0.01) is None


def test_descent_agrees_with_the_minima_themselves():
    world = load_world("ring")
    minima = world.facts.minima
    assert descend_to_minimum(world, minima + 0.05).tolist() == list(range(len(minima)))
