"""The evolution: bars on the V-mixture, transport in closed form, stability, and what it refuses."""

import math
import threading

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import strings as oracle
from workbench.curves import slerp
from workbench.errors import ModelOutputError, SettingError
from workbench.flows import transport
from workbench.models import Frame
from workbench.report import Status
from workbench.schedules import LINEAR, TRIGONOMETRIC, VE
from workbench.strings.chebyshev import chebyshev_step, stable_reach, stages_for
from workbench.strings.evolution import evolve_string
from workbench.worlds import GaussianMixture, deviation, load_world


def _evolve(world, **options):
    return evolve_string(world, world.facts.start, world.facts.end, **options)


def _barrier(world, curve):
    values = -world.log_prob(curve(torch.linspace(0, 1, 2001)), 0.0)
    return float(values.max() - values[0])


@pytest.mark.parametrize("gamma", [7.0, pytest.param(15.0, marks=pytest.mark.slow)])
def test_v_mixture_barrier_and_ends(gamma):
    world = load_world("v_mixture")
    found = _evolve(world, nodes=71, gamma=gamma)
    assert abs(_barrier(world, found.curve) - oracle.V_MIXTURE["barrier"]) <= 2e-3
    assert deviation(found.curve.points, world.reference_path(nodes=20001)).max() <= 0.0375
    assert found.round_trip.max() <= 1e-6
    assert torch.equal(found.curve.points[0], world.facts.start)
    assert torch.equal(found.curve.points[-1], world.facts.end)
    assert found.report.converged
    assert found.stiffness < 1


def test_v_mixture_rotated_into_64_dimensions():
    flat = load_world("v_mixture")
    world = flat.rotated(64, generator=torch.Generator().manual_seed(3))
    found = _evolve(world, nodes=33, steps=40)
    assert abs(_barrier(world, found.curve) - oracle.V_MIXTURE["barrier"]) <= 2e-3
    plane = torch.linalg.svd(world.facts.minima - world.facts.minima.mean(0))[2][:2]
    off = found.curve.points - found.curve.points @ plane.T @ plane
    centre = world.facts.minima.mean(0) - world.facts.minima.mean(0) @ plane.T @ plane
    assert (off - centre).norm(dim=-1).max() <= 1e-6


def test_small_gamma_stays_above_the_pass():
    world = load_world("v_mixture")
    tops = [
        _barrier(world, _evolve(world, gamma=gamma, nodes=17, steps=20).curve) for gamma in (0.0, 1.0, 7.0)
    ]
    assert tops[0] > tops[1] + 1 > tops[2] + 2


def test_no_gamma_is_transport():
    world = load_world("g3")
    start, end = torch.tensor([-3.0, 0.3]), torch.tensor([2.5, 1.0])
    found = evolve_string(world, start, end, nodes=65, gamma=0.0, steps=40)
    t = 1.0 / (1.0 + min(world.frame.sigma_max, 1e3 * world.frame.data_std))
    latents = transport(world, torch.stack([start, end]), 1.0, t, steps=40).points
    assert_close(found.latents, latents, rtol=0, atol=1e-8)
    carried = transport(world, slerp(latents[0], latents[1], 2001).points, t, 1.0, steps=40).points
    assert deviation(found.curve.points, carried).max() < 3e-3


def test_transport_string_of_a_gaussian_is_affine():
    mean, cov = torch.tensor([1.0, -2.0]), torch.tensor([[2.0, 0.8], [0.8, 0.6]])
    world = GaussianMixture("one", torch.ones(1), mean[None], cov[None])
    values, vectors = torch.linalg.eigh(cov)
    root = vectors @ torch.diag(values.sqrt()) @ vectors.T
    z = torch.tensor([[0.3, -1.2], [1.5, 0.4]])
    ends = mean + z @ root
    assert_close(ends, torch.tensor([[0.933054, -2.680822], [3.194886, -1.140655]]), rtol=0, atol=2e-6)
    found = evolve_string(world, ends[0], ends[1], nodes=33, gamma=0.0, steps=40)
    arc = mean + slerp(z[0], z[1], 2001).points @ root
    assert deviation(found.curve.points, arc).max() < 2e-3
    assert found.round_trip.max() < 1e-6


def test_straight_line_stays_where_it_is_the_path():
    world = load_world("two_wells")
    found = evolve_string(world, world.facts.start, world.facts.end, nodes=9, steps=10)
    assert_close(_barrier(world, found.curve), world.facts.barrier, rtol=0, atol=1e-6)


def test_one_euler_step_per_step_is_caught():
    """At 400 steps the explicit one-step form returns a finite, smooth and wrong string."""
    world = load_world("v_mixture")
    options = dict(nodes=71, gamma=15.0, solver="euler", relaxation="euler", substeps=1, tol=1.0)
    found = _evolve(world, steps=400, **options)
    assert torch.isfinite(found.curve.points).all()
    assert _barrier(world, found.curve) > 10
    assert found.report.status is Status.DIVERGED
    assert any("stable limit" in sentence for sentence in found.report.warnings)


@pytest.mark.slow
def test_twice_as_many_euler_steps_are_fine():
    world = load_world("v_mixture")
    options = dict(nodes=33, gamma=15.0, solver="euler", relaxation="euler", substeps=1, tol=1.0)
    found = _evolve(world, steps=800, **options)
    assert found.report.converged
    assert abs(_barrier(world, found.curve) - oracle.V_MIXTURE["barrier"]) <= 2e-3


def test_heun_relaxation_agrees_with_chebyshev():
    world = load_world("v_mixture")
    one = _evolve(world, nodes=17, gamma=3.0, steps=20, window=(0.1, 0.8))
    other = _evolve(world, nodes=17, gamma=3.0, steps=20, window=(0.1, 0.8), relaxation="heun", cap=0.25)
    assert_close(one.curve.points, other.curve.points, rtol=0, atol=0.05)


@pytest.mark.parametrize("schedule", [TRIGONOMETRIC, LINEAR])
def test_other_clocks_find_the_same_pass(schedule):
    world = load_world("v_mixture")
    found = _evolve(world, schedule=schedule, nodes=17, steps=20)
    assert abs(_barrier(world, found.curve) - oracle.V_MIXTURE["barrier"]) <= 5e-3


def test_batch_equals_loop():
    world = load_world("v_mixture")
    start = torch.stack([world.facts.start, world.facts.start + 0.3])
    end = torch.stack([world.facts.end, world.facts.end - 0.2])
    options = dict(nodes=9, steps=6, tol=1.0)
    together = evolve_string(world, start, end, **options)
    for k in range(2):
        alone = evolve_string(world, start[k], end[k], **options)
        assert_close(together.curve.points[k], alone.curve.points, rtol=0, atol=1e-9)


def test_answer_does_not_depend_on_chunks():
    world = load_world("v_mixture")
    options = dict(nodes=9, steps=6, tol=1.0)
    whole = _evolve(world, **options).curve.points
    assert_close(_evolve(world, memory_budget=4000, **options).curve.points, whole, rtol=0, atol=1e-10)


def test_via_points_bend_the_first_string():
    world = load_world("ring")
    start, end = world.facts.start, world.facts.end
    side = torch.tensor([[0.0, -4.0]])
    found = evolve_string(world, start, end, nodes=17, steps=12, via=side)
    assert found.curve.points[8, 1] < -3
    other = evolve_string(world, start, end, nodes=17, steps=12, via=-side)
    assert other.curve.points[8, 1] > 3


def test_level_above_zero():
    world = load_world("two_wells")
    found = _evolve(world, sigma=0.3, nodes=9, steps=20)
    assert found.sigma == 0.3
    assert found.round_trip.max() < 1e-6


@pytest.mark.parametrize("stages", [2, 3, 5, 8])
def test_chebyshev_steps_are_second_order(stages):
    def error(count):
        x = torch.tensor([[1.0, 0.5]])
        for _ in range(count):
            x, _ = chebyshev_step(lambda y: -torch.sin(y), x, 1.0 / count, stages)
        exact = 2 * torch.atan(torch.tan(torch.tensor([[0.5, 0.25]])) * math.exp(-1))
        return float((x - exact).norm())

    assert math.log2(error(8) / error(16)) > 1.8


@pytest.mark.parametrize("stages", [2, 5, 8])
def test_chebyshev_steps_are_stable_up_to_their_reach_only(stages):
    curvature = torch.linspace(0.1, 1.0, 91) * stable_reach(stages)
    x, met = chebyshev_step(lambda y: -curvature[:, None] * y, torch.ones(91, 1), 1.0, stages)
    assert x.abs().max() <= 1
    assert_close(met, curvature, rtol=1e-9, atol=0)
    beyond, _ = chebyshev_step(lambda y: -1.1 * stable_reach(stages) * y, torch.ones(1, 1), 1.0, stages)
    assert beyond.abs().max() > 1


def test_fewest_stages_that_reach():
    assert stages_for(1.0) == 2
    assert stable_reach(stages_for(30.0)) >= 30 > stable_reach(stages_for(30.0) - 1)


class _Broken:
    """A model that fails at a noise level."""

    frame = Frame("broken", (2,), 0.01, 10.0)

    def denoise(self, y, sigma):
        low = torch.as_tensor(sigma, dtype=y.dtype).unsqueeze(-1) < 0.5
        return torch.where(low & (y[..., :1] > 0.8), torch.nan, 0.5 * y)


def test_non_finite_model_names_image_and_level():
    with pytest.raises(ModelOutputError, match=r"broken at image \d+, sigma 0\.\d+"):
        evolve_string(_Broken(), torch.tensor([0.0, 0.1]), torch.tensor([1.0, 0.0]), nodes=5, steps=20)


def test_cancelled_run_is_carried_to_the_data():
    stop = threading.Event()
    stop.set()
    found = _evolve(load_world("v_mixture"), nodes=9, steps=10, cancel=stop)
    assert found.report.status is Status.CANCELLED
    assert torch.isfinite(found.curve.points).all()


def test_round_trip_above_tol_is_not_converged():
    found = _evolve(load_world("v_mixture"), nodes=5, steps=4, solver="euler")
    assert found.report.status is Status.MAX_ITERATIONS
    assert "return to" in found.report.warnings[0]


@pytest.mark.parametrize(
    "options",
    [
        {"gamma": -1.0},
        {"window": (0.9, 0.1)},
        {"relaxation": "magic"},
        {"solver": "dopri5"},
        {"schedule": VE},
        {"sigma": 1e9},
        {"nodes": 1},
        {"eta": 0.0},
        {"quench": 0.0},
        {"cap": 3.0},
    ],
)
def test_bad_settings_are_one_sentence(options):
    with pytest.raises(SettingError, match=r"^got .+expected"):
        _evolve(load_world("two_wells"), **options)
