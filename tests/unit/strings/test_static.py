"""The static string: bars on known surfaces, laws, options, and what it says when things go wrong."""

import math
import threading

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import strings as oracle
from workbench.curves import Curve, bumped, normal_direction, straight
from workbench.errors import ModelOutputError, SettingError
from workbench.models import LevelLandscape
from workbench.report import Status
from workbench.strings.static import coarse_levels, relax_string
from workbench.worlds import deviation, load_world

BENDS = 21


def _bends(start, end, nodes, seed=0):
    """The straight start and twenty randomly bent ones."""
    generator = torch.Generator().manual_seed(seed)
    u = torch.linspace(0, 1, nodes)[:, None]
    line, aside = straight(start, end, nodes).points, normal_direction(start, end)
    starts = [line]
    for _ in range(BENDS - 1):
        heights = (torch.rand(3, generator=generator) - 0.5) / torch.tensor([1.0, 2.0, 3.0])
        heights = heights * (end - start).norm() / 1.85
        waves = sum(heights[k] * torch.sin((k + 1) * math.pi * u) for k in range(3))
        starts.append(line + waves * aside)
    return Curve.through(torch.stack(starts)).resample(passes=3)


def _relaxed(world, nodes, **options):
    facts = world.facts
    return relax_string(world.force, straight(facts.start, facts.end, nodes), **options)


def _barrier(energy, curve):
    values = energy(curve(torch.linspace(0, 1, 4001)))
    return float(values.max() - values[0])


@pytest.fixture(scope="module")
def muller_brown():
    torch.set_default_dtype(torch.float64)
    world = load_world("muller_brown")
    found = relax_string(world.force, _bends(world.facts.start, world.facts.end, 41))
    return world, found, world.reference_path(nodes=20001)


@pytest.fixture(scope="module")
def v_mixture():
    torch.set_default_dtype(torch.float64)
    world = load_world("v_mixture")
    ground = LevelLandscape(world, 0.0)
    found = relax_string(ground.force, _bends(world.facts.start, world.facts.end, 71))
    return ground, found, world.reference_path(nodes=20001)


@pytest.mark.parametrize("start", range(BENDS))
def test_muller_brown_from_straight_and_bent_starts(muller_brown, start):
    world, found, path = muller_brown
    curve = Curve.through(found.curve.points[start])
    assert deviation(curve.points, path).max() <= 5e-4
    assert abs(_barrier(world.energy, curve) - oracle.MULLER_BROWN["barrier"]) <= 1e-4
    assert curve.spacing_ratio() <= 1.005
    assert found.evaluations[start] <= 60
    assert found.report.status is Status.CONVERGED


@pytest.mark.parametrize("start", range(BENDS))
def test_v_mixture_within_sixty_evaluations(v_mixture, start):
    ground, found, path = v_mixture
    curve = Curve.through(found.curve.points[start])
    assert abs(_barrier(ground.energy, curve) - oracle.V_MIXTURE["barrier"]) <= 1e-4
    assert deviation(curve.points, path).max() <= 2e-3
    assert found.evaluations[start] <= 60


def test_single_level_stays_below_a_hundred_evaluations():
    world = load_world("muller_brown")
    found = relax_string(world.force, _bends(world.facts.start, world.facts.end, 41), levels=(41,))
    assert found.evaluations.max() <= 100
    assert deviation(found.curve.points, world.reference_path(nodes=20001)).max() <= 5e-4


def test_order_of_convergence_is_at_least_three():
    world = load_world("muller_brown")
    path = world.reference_path(nodes=40001)
    errors = [float(deviation(_relaxed(world, n, tol=1e-7).curve.points, path).max()) for n in (21, 41, 81)]
    assert math.log(errors[0] / errors[2]) / math.log(4) >= 3
    assert errors[0] / errors[1] >= 8
    assert errors[1] / errors[2] >= 8


def test_many_images_stay_smooth():
    world = load_world("muller_brown")
    found = _relaxed(world, 161)
    assert found.report.converged
    assert deviation(found.curve.points, world.reference_path(nodes=40001)).max() <= 1e-5


def test_polar_path_is_the_semicircle():
    world = load_world("polar_double_well")
    start = bumped(world.facts.start, world.facts.end, 17, amplitude=0.4)
    found = relax_string(world.force, start, tol=1e-7)
    assert (found.curve.points.norm(dim=-1) - 1).abs().max() <= 2e-5
    assert_close(found.curve.length(), torch.tensor(math.pi), rtol=1e-4, atol=0)


@pytest.mark.parametrize(("lift", "barrier"), [(0.0, "lower"), (1.5, "upper")])
def test_three_hole_channels(lift, barrier):
    world = load_world("three_hole")
    start = bumped(world.facts.start, world.facts.end, 41, amplitude=lift, direction=torch.tensor([0.0, 1.0]))
    found = relax_string(world.force, start)
    assert_close(_barrier(world.energy, found.curve), oracle.THREE_HOLE[barrier], rtol=0, atol=1e-4)


@pytest.mark.parametrize("side", [0.5, -0.5])
def test_ring_from_a_bump_goes_round(side):
    ground = LevelLandscape(load_world("ring"), 0.0)
    facts = load_world("ring").facts
    found = relax_string(ground.force, bumped(facts.start, facts.end, 33, amplitude=side))
    assert_close(_barrier(ground.energy, found.curve), oracle.RING["barrier"], rtol=0, atol=1e-4)
    assert_close(found.curve.length(), torch.tensor(oracle.RING["length"]), rtol=5e-3, atol=0)


def test_swapped_ends_give_the_reversed_string():
    world = load_world("muller_brown")
    facts = world.facts
    back = relax_string(world.force, straight(facts.end, facts.start, 21), tol=1e-8).curve.reverse()
    assert_close(back.points, _relaxed(world, 21, tol=1e-8).curve.points, rtol=0, atol=1e-6)


def test_equivariance_under_rotation_translation_and_scale():
    world = load_world("muller_brown")
    angle = torch.tensor(0.7)
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    scale, shift = 3.0, torch.tensor([5.0, -2.0])

    def force(x):
        return world.force((x - shift) @ turn / scale) @ turn.T / scale

    def forward(x):
        return scale * x @ turn.T + shift

    start = straight(world.facts.start, world.facts.end, 21)
    moved = relax_string(force, Curve.through(forward(start.points)), tol=1e-8).curve.points
    assert_close(moved, forward(_relaxed(world, 21, tol=1e-8).curve.points), rtol=0, atol=1e-5)


def test_batch_equals_loop():
    world = load_world("muller_brown")
    batch = _bends(world.facts.start, world.facts.end, 21)
    batch = Curve.through(batch.points[:3])
    together = relax_string(world.force, batch)
    for k in range(3):
        alone = relax_string(world.force, Curve.through(batch.points[k]))
        assert_close(together.curve.points[k], alone.curve.points, rtol=0, atol=1e-9)
        assert together.iterations[k] == alone.iterations


def test_answer_does_not_depend_on_chunks():
    world = load_world("muller_brown")
    whole = _relaxed(world, 21).curve.points
    assert_close(_relaxed(world, 21, memory_budget=5000).curve.points, whole, rtol=0, atol=1e-12)


def test_float32_agrees():
    world = load_world("v_mixture").to(dtype=torch.float32)
    start, end = torch.tensor([-3.0, 0.0]).float(), torch.tensor([3.0, 0.0]).float()
    found = relax_string(LevelLandscape(world, 0.0).force, straight(start, end, 33), tol=1e-4)
    ground = LevelLandscape(load_world("v_mixture"), 0.0)
    peer = relax_string(ground.force, straight(start.double(), end.double(), 33))
    assert found.curve.points.dtype == torch.float32
    assert_close(found.curve.points.double(), peer.curve.points, rtol=0, atol=1e-2)
    assert_close(
        _barrier(ground.energy, Curve.through(found.curve.points.double())),
        oracle.V_MIXTURE["barrier"],
        rtol=0,
        atol=1e-3,
    )


def test_thousands_of_dimensions():
    world, dim = load_world("polar_double_well"), 3000

    def force(x):
        return torch.cat([world.force(x[:, :2]), -4.0 * x[:, 2:]], -1)

    start, end = torch.zeros(dim), torch.zeros(dim)
    start[0], end[0] = 1.0, -1.0
    aside = torch.zeros(dim)
    aside[1], aside[2:] = 1.0, 0.02
    found = relax_string(force, bumped(start, end, 17, amplitude=0.6, direction=aside / aside.norm()))
    assert found.report.converged
    assert (found.curve.points[:, :2].norm(dim=-1) - 1).abs().max() < 1e-4
    assert found.curve.points[:, 2:].abs().max() < 1e-5


def test_ends_are_kept_bit_for_bit_and_two_nodes_are_a_string():
    world = load_world("muller_brown")
    points = _relaxed(world, 21).curve.points
    assert torch.equal(points[0], world.facts.start)
    assert torch.equal(points[-1], world.facts.end)
    pair = _relaxed(world, 2)
    assert torch.equal(pair.curve.points, torch.stack([world.facts.start, world.facts.end]))
    assert pair.report.converged


def test_free_ends_fall_into_minima():
    world = load_world("muller_brown")
    start = straight(world.facts.start + 0.05, world.facts.end - 0.05, 21)
    found = relax_string(world.force, start, free_ends=True).curve.points
    assert_close(found[0], world.facts.start, rtol=0, atol=1e-4)
    assert_close(found[-1], world.facts.end, rtol=0, atol=1e-4)


def test_end_that_is_no_minimum_stays():
    world = load_world("muller_brown")
    start = straight(world.facts.start + torch.tensor([0.2, 0.1]), world.facts.end, 21)
    found = relax_string(world.force, start)
    assert torch.equal(found.curve.points[0], start.points[0])
    assert found.curve.spacing_ratio() < 1.05


def test_preconditioner_leaves_the_fixed_point():
    world = load_world("muller_brown")
    scale = torch.tensor([1.0, 0.5])
    found = _relaxed(world, 41, precondition=lambda _, v: v * scale)
    assert found.report.converged
    assert deviation(found.curve.points, world.reference_path(nodes=20001)).max() <= 5e-4


def test_alignment_is_applied():
    world = load_world("muller_brown")

    def force(x):  # a third coordinate on which nothing depends: only alignment holds it
        return torch.cat([world.force(x[:, :2]), torch.zeros_like(x[:, :1])], -1)

    def align(strings):
        return torch.cat([strings[..., :2], torch.zeros_like(strings[..., :1])], -1)

    start = torch.cat([straight(world.facts.start, world.facts.end, 21).points, torch.zeros(21, 1)], -1)
    start[5:15, 2] = 0.3
    found = relax_string(force, Curve.through(start), align=align)
    assert torch.equal(found.curve.points[:, 2], torch.zeros(21))


def test_density_crowds_images():
    world = load_world("muller_brown")
    even = _relaxed(world, 41).curve
    crowded = _relaxed(world, 41, density=lambda x: 1.0 + 4.0 * torch.sigmoid(-8.0 * (x[..., 0] + 0.5))).curve

    def count(curve):
        return int((curve.points[:, 0] < -0.5).sum())

    assert count(crowded) > count(even) + 5


def test_non_finite_force_names_the_image():
    def force(x):
        return torch.where(x[:, :1] > 0.5, torch.nan, -x)

    with pytest.raises(ModelOutputError, match=r"image \d+ of string 0, sigma 0.3"):
        relax_string(
            force, straight(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.0]), 9), where=", sigma 0.3"
        )


def test_cancelled_solve_returns_the_best_so_far():
    world, stop = load_world("muller_brown"), threading.Event()
    stop.set()
    found = _relaxed(world, 41, cancel=stop)
    assert found.report.status is Status.CANCELLED
    assert found.curve.points.shape == (41, 2)
    assert torch.isfinite(found.curve.points).all()


def test_iteration_limit_is_a_status_and_progress_is_reported():
    seen = []
    found = _relaxed(
        load_world("muller_brown"), 41, max_iterations=6, progress=lambda share, _: seen.append(share)
    )
    assert found.report.status is Status.MAX_ITERATIONS
    assert seen
    assert 0 <= min(seen) <= max(seen) <= 1


def test_residual_bounds_what_is_left():
    world = load_world("muller_brown")
    rough, exact = _relaxed(world, 41, tol=1e-3), _relaxed(world, 41, tol=1e-8)
    gap = (rough.curve.points - exact.curve.points).norm(dim=-1).max() / exact.curve.length()
    assert gap < 3e-3


@pytest.mark.parametrize(
    "options", [{"step": 2.0}, {"step": 0.0}, {"momentum": 1.0}, {"levels": (1,)}, {"levels": ()}]
)
def test_bad_settings(options):
    with pytest.raises(SettingError, match=r"^got .+expected"):
        _relaxed(load_world("muller_brown"), 9, **options)


def test_levels_halve():
    assert coarse_levels(41) == (11, 21, 41)
    assert coarse_levels(9) == (9,)
