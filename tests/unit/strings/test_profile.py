"""Profiles: interpolation with slopes, line integrals, extrema and barriers."""

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import strings as oracle
from workbench.adapters.wrap import wrap
from workbench.curves import Curve, straight
from workbench.models import LevelLandscape
from workbench.schedules import VE
from workbench.strings.ground import Ground, ground_of
from workbench.strings.meter import Meter
from workbench.strings.profile import (
    Profile,
    find_extrema,
    integrate_forces,
    integrate_slopes,
    line_integral,
    refine_extrema,
    slopes_along,
    spline_profile,
)
from workbench.strings.reading import deviation_between, read_string
from workbench.strings.static import relax_string
from workbench.worlds import load_world


def _arc(nodes):
    """A bent arc across the three-component mixture."""
    u = torch.linspace(0, 1, nodes)
    x = torch.stack([-3 + 6 * u, u + 2 * torch.sin(torch.pi * u)], -1)
    return Curve.through(x)


@pytest.mark.parametrize(("nodes", "error"), [(21, 1e-2), (41, 5e-6), (81, 2e-7)])
def test_line_integral_of_the_score(nodes, error):
    world = load_world("g3")
    curve = _arc(nodes)
    drop = line_integral(curve, world.score(curve.points, 0.0))
    exact = world.log_prob(curve.points[0], 0.0) - world.log_prob(curve.points[-1], 0.0)
    assert abs(drop[-1] - exact) <= error


def _winding(nodes=13):
    """A zigzag across the mixture, whose images miss most of what lies between them."""
    u = torch.linspace(0, 1, nodes)
    return Curve.through(torch.stack([-3 + 6 * u, 2.5 * torch.cos(torch.pi * torch.arange(nodes))], -1))


def test_an_integral_refined_between_the_nodes_is_the_energy_of_a_winding_string():
    world, curve = load_world("g3"), _winding()
    forces = world.score(curve.points, 0.0)
    exact = world.log_prob(curve.points[0], 0.0) - world.log_prob(curve.points, 0.0)
    span = float(exact.max() - exact.min())
    found = integrate_forces(curve, forces, lambda x: world.score(x, 0.0))
    off = float((found.at_nodes - exact).abs().max())
    assert off <= 0.01 * span
    assert off <= 3 * found.error
    assert float((line_integral(curve, forces) - exact).abs().max()) > 0.1 * span


def test_refinement_stops_as_soon_as_the_energies_stand_still():
    world, curve = load_world("g3"), _arc(81)
    asked = []

    def force(x):
        asked.append(len(x))
        return world.score(x, 0.0)

    found = integrate_forces(curve, world.score(curve.points, 0.0), force)
    assert asked == [80]
    assert found.finer == 2
    assert_close(found.curve.points[::2], curve.points, rtol=0, atol=1e-12)


def test_a_network_is_read_as_the_density_that_it_knows():
    world = load_world("g3")
    blind = wrap(
        lambda y, sigma, condition: world.denoise(y, sigma), prediction="x0", schedule=VE, shape=(2,)
    )
    curve, meter = _winding(), Meter(None)
    known = read_string(curve, ground_of(world, 0.3), meter, polish_saddles=False)
    found = read_string(curve, ground_of(blind, 0.3), meter, polish_saddles=False)
    assert abs(found.barrier.value - known.barrier.value) <= 3 * found.barrier.error
    assert_close(found.energy, known.energy, rtol=0, atol=0.02 * float(known.energy.abs().max()))


def test_a_force_that_is_no_gradient_widens_the_error_of_the_barrier():
    curve, meter = _arc(41), Meter(None)
    world = load_world("g3")

    def turning(x):
        """A score with a whirl, as a learned one may have."""
        return world.score(x, 0.3) + 0.5 * torch.stack([-x[:, 1], x[:, 0]], -1)

    sound = Ground("sound", "nats", 0.3, lambda x: world.score(x, 0.3), None)
    whirl = Ground("whirl", "nats", 0.3, turning, None)
    true = read_string(curve, ground_of(world, 0.3), meter, polish_saddles=False).barrier
    good = read_string(curve, sound, meter, polish_saddles=False).barrier
    bad = read_string(curve, whirl, meter, polish_saddles=False).barrier
    assert good.error < 0.02 * abs(true.value)
    assert abs(bad.value - true.value) > 10 * good.error
    assert abs(bad.value - true.value) <= 3 * bad.error


def test_line_integral_is_the_integrated_spline():
    curve = _arc(15)
    forces = load_world("g3").score(curve.points, 0.0)
    arc, slopes = curve.arc(), slopes_along(curve, forces)
    peer = oracle.tangent_line_profile(arc, slopes, arc)
    assert_close(integrate_slopes(arc, slopes), torch.from_numpy(peer), rtol=0, atol=1e-11)


def test_hermite_profile_is_exact_on_cubics():
    line = straight(torch.zeros(1), torch.tensor([2.0]), 5)
    x = line.points[:, 0]
    profile = spline_profile(line, x**3 - x, -(3 * x**2 - 1)[:, None])
    assert_close(profile.energy, profile.arc**3 - profile.arc, rtol=0, atol=1e-13)


def _profile(values):
    return Profile(torch.linspace(0, 1, len(values)), torch.tensor(values))


def test_extrema_alternate_and_small_ones_go():
    wavy = [0.0, 1.0, 0.5, 0.50001, 0.499, 2.0, -1.0, 0.0]
    every = find_extrema(_profile(wavy))
    assert [e.kind for e in every] == ["minimum", "maximum"] * 4
    coarse = find_extrema(_profile(wavy), prominence=0.01)
    assert [e.energy for e in coarse] == [0.0, 1.0, 0.499, 2.0, -1.0, 0.0]


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [0.0, 1.0, 2.0], [2.0, 1.0, 1.0, 0.0]])
def test_monotone_profiles_have_their_ends_only(values):
    assert len(find_extrema(_profile(values))) == 2


def test_extrema_are_refined_on_the_landscape():
    world = load_world("muller_brown")
    curve = Curve.through(world.reference_path(nodes=31))
    forces, values = world.force(curve.points), world.energy(curve.points)
    rough = find_extrema(spline_profile(curve, values, forces), prominence=1e-3)
    fine = refine_extrema(curve, rough, world.force, lambda x: world.energy(x) - values[0])
    tops = [e.energy for e in fine if e.kind == "maximum"]
    assert_close(tops[0], oracle.MULLER_BROWN["barrier"], rtol=0, atol=1e-4)
    assert (
        abs(max(e.energy for e in rough) - oracle.MULLER_BROWN["barrier"]) > 1e-3
    )  # images alone are not enough


def _read(name, nodes=41, **options):
    world = load_world(name)
    ground = ground_of(world, 0.0)
    found = relax_string(ground.force, straight(world.facts.start, world.facts.end, nodes))
    return read_string(found.curve, ground, Meter(), **options)


def test_every_pair_of_minimum_and_maximum_is_a_barrier():
    reading = _read("muller_brown")
    a, s1, b, s2, c = oracle.MULLER_BROWN["energies"]
    heights = [s1 - a, s1 - b, s2 - b, s2 - c]
    assert_close([p.polished for p in reading.barriers], heights, rtol=0, atol=1e-7)
    assert_close([p.height for p in reading.barriers], heights, rtol=0, atol=1e-3)
    assert {p.hessian_index for p in reading.barriers} == {1}
    saddles = torch.stack([reading.barriers[k].saddle for k in (0, 2)])
    assert_close(saddles, torch.tensor(oracle.MULLER_BROWN["saddles"]), rtol=0, atol=1e-8)


def test_modes_along_the_string_are_found():
    reading = _read("muller_brown")
    assert_close(reading.modes, torch.tensor(oracle.MULLER_BROWN["minima"]), rtol=0, atol=1e-8)
    energies = torch.tensor(oracle.MULLER_BROWN["energies"])
    assert_close(reading.mode_energies, energies[::2] - energies[0], rtol=0, atol=1e-7)


def test_symmetric_trap_is_reported():
    reading = _read("ring", nodes=33)
    assert reading.barriers[0].hessian_index == 2
    assert any("symmetric trap" in sentence for sentence in reading.warnings)
    assert_close(reading.barrier.value, oracle.RING["centre"], rtol=0, atol=1e-4)


def test_end_that_is_no_minimum_is_reported():
    world = load_world("muller_brown")
    ground = ground_of(world, 0.0)
    found = relax_string(
        ground.force, straight(world.facts.start + torch.tensor([0.2, 0.1]), world.facts.end, 21)
    )
    reading = read_string(found.curve, ground, Meter())
    assert any(sentence.startswith("the start is no minimum") for sentence in reading.warnings)


def test_reading_without_energies_integrates_forces():
    world = load_world("v_mixture")
    exact = ground_of(world, 0.0)
    found = relax_string(exact.force, straight(world.facts.start, world.facts.end, 71))
    bare = type(exact)(exact.name, exact.unit, exact.sigma, exact.force, None)
    reading = read_string(found.curve, bare, Meter(), polish_saddles=False)
    assert_close(reading.barrier.value, oracle.V_MIXTURE["barrier"], rtol=0, atol=2e-3)
    assert reading.barriers[0].saddle is None


def test_level_landscape_and_ground_agree():
    world = load_world("v_mixture")
    x = torch.tensor([[0.3, -1.0], [2.0, 0.5]])
    landscape, ground = LevelLandscape(world, 0.2), ground_of(world, 0.2)
    assert_close(landscape.energy(x), ground.energy(x))
    assert_close(landscape.force(x), ground.force(x))


def test_deviation_between_polylines():
    path = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    points = torch.tensor([[0.5, 0.2], [1.5, 0.5], [-3.0, 4.0]])
    assert_close(deviation_between(points, path), torch.tensor([0.2, 0.5, 5.0]))
