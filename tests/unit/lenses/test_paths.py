"""The door to paths: regimes, starts, verdicts, errors in one sentence, and error bars that hold."""

import inspect
import math
import threading
import warnings

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.oracles import strings as oracle
from workbench.curves import straight
from workbench.errors import ConvergenceWarning, ModelOutputError, SettingError, ShapeError
from workbench.lenses.paths import find_path
from workbench.models import Frame
from workbench.report import Status
from workbench.worlds import GaussianMixture, load_world
from workbench.worlds.answers import known_answer


def _find(name, **options):
    world = load_world(name)
    return find_path(world, world.facts.start, world.facts.end, **options)


def test_landscape_defaults_to_a_static_string():
    found = _find("muller_brown", nodes=41)
    assert found.regime == "static"
    assert found.schedule == ""
    assert_close(found.barrier.value, oracle.MULLER_BROWN["barrier"], rtol=0, atol=1e-4)
    assert_close(found.length.value, oracle.MULLER_BROWN["length"], rtol=0, atol=1e-3)
    assert abs(found.barrier.value - oracle.MULLER_BROWN["barrier"]) <= 3 * found.barrier.error
    assert abs(found.length.value - oracle.MULLER_BROWN["length"]) <= 3 * found.length.error
    assert found.spacing_ratio <= 1.005
    assert found.report.converged
    assert found.report.model_calls / 41 <= 100
    assert torch.equal(found.round_trip, torch.zeros(2))
    assert found.same_path is None
    assert not found.trapped


@pytest.fixture(scope="module")
def v_mixture():
    torch.set_default_dtype(torch.float64)
    options = dict(nodes=33, steps=20, measure_share=False)
    return {
        regime: _find("v_mixture", regime=regime, generator=torch.Generator().manual_seed(0), **options)
        for regime in ("mep", "transport", "static")
    }


def test_model_defaults_to_a_path_of_least_energy(v_mixture):
    found = v_mixture["mep"]
    assert_close(found.barrier.value, oracle.V_MIXTURE["barrier"], rtol=0, atol=2e-3)
    assert abs(found.barrier.value - oracle.V_MIXTURE["barrier"]) <= 3 * found.barrier.error
    assert found.round_trip.max() <= 5e-6
    assert found.energy_unit == "nats"
    assert found.energy[0] == 0
    assert_close(found.db_per_dim, -found.energy / 2 * 10 * math.log10(math.e))
    assert {barrier.hessian_index for barrier in found.barriers} == {1}


def test_regimes_differ_as_they_should(v_mixture):
    assert v_mixture["transport"].barrier.value > 5
    assert v_mixture["static"].force_perp.max() < v_mixture["transport"].force_perp.max() / 10
    assert_close(v_mixture["static"].barrier.value, v_mixture["mep"].barrier.value, rtol=0, atol=5e-3)
    for found in v_mixture.values():
        assert torch.equal(found.curve.points[0], load_world("v_mixture").facts.start)
        assert torch.equal(found.curve.points[-1], load_world("v_mixture").facts.end)
        assert torch.equal(found.lerp.points[-1], found.curve.points[-1])
        assert found.slerp.nodes == found.curve.nodes


def test_principal_curve_brings_its_walkers():
    found = _find(
        "two_wells",
        regime="principal",
        nodes=5,
        steps=6,
        tol=1.0,
        most_substeps=5,
        measure_share=False,
        generator=torch.Generator().manual_seed(0),
    )
    assert found.walkers.shape == (5, 8, 2)
    assert found.provenance.seed == 0


def test_symmetric_trap_is_reported_and_a_bump_leaves_it():
    trapped = _find("ring", regime="static", measure_share=False)
    assert trapped.trapped
    assert any("symmetric trap" in sentence for sentence in trapped.report.warnings)
    assert_close(trapped.barrier.value, oracle.RING["centre"], rtol=0, atol=1e-4)
    freed = _find("ring", regime="static", starts=3, measure_share=False)
    assert not freed.trapped
    assert_close(freed.barrier.value, oracle.RING["barrier"], rtol=0, atol=1e-4)
    assert_close(freed.length.value, oracle.RING["length"], rtol=5e-3, atol=0)


def test_several_starts_say_whether_they_agree():
    same = _find("muller_brown", nodes=21, starts=3, measure_share=False)
    assert same.same_path is True
    assert [verdict.same for verdict in same.starts] == [True] * 3
    different = _find("ring", regime="static", starts=3, measure_share=False)
    assert different.same_path is False
    assert different.others.shape == (3, 33, 2)
    best = min(verdict.barrier for verdict in different.starts)
    assert_close(different.barrier.value, best, rtol=0, atol=1e-9)


def test_own_starts_and_via_points():
    world = load_world("three_hole")
    bent = straight(world.facts.start, world.facts.end, 21)
    lifted = type(bent).through(
        bent.points + torch.sin(torch.pi * bent.t)[:, None] * torch.tensor([0.0, 1.5])
    )
    upper = find_path(
        world, world.facts.start, world.facts.end, nodes=21, starts=[lifted], measure_share=False
    )
    assert_close(upper.barrier.value, oracle.THREE_HOLE["upper"], rtol=0, atol=1e-3)
    over = find_path(
        world,
        world.facts.start,
        world.facts.end,
        nodes=21,
        via=torch.tensor([[0.0, 1.6]]),
        measure_share=False,
    )
    assert_close(over.barrier.value, oracle.THREE_HOLE["upper"], rtol=0, atol=1e-3)


def test_share_in_model_is_measured():
    found = _find("muller_brown", nodes=9)
    assert 0 < found.share_in_model < 1


def test_progress_rises_to_one():
    seen = []
    _find(
        "muller_brown", nodes=17, progress=lambda share, text: seen.append((share, text)), measure_share=False
    )
    assert seen[-1][0] == 1.0
    assert all(0 <= share <= 1 for share, _ in seen)


@pytest.mark.parametrize("name", ["muller_brown", "v_mixture"])
def test_cancelled_solve_returns_a_path(name):
    stop = threading.Event()
    stop.set()
    found = _find(name, nodes=9, steps=5, cancel=stop)
    assert found.report.status is Status.CANCELLED
    assert found.share_in_model is None
    assert torch.isfinite(found.curve.points).all()


def test_unconverged_solve_warns_once():
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        found = _find("muller_brown", nodes=9, max_iterations=5, measure_share=False)
    assert found.report.status is Status.MAX_ITERATIONS


def test_chunks_do_not_matter():
    whole = _find("muller_brown", nodes=17, measure_share=False)
    parts = _find("muller_brown", nodes=17, measure_share=False, memory_budget=6000)
    assert_close(parts.curve.points, whole.curve.points, rtol=0, atol=1e-9)


def test_settings_are_recorded(v_mixture):
    settings = v_mixture["mep"].provenance.settings
    assert settings["regime"] == "mep"
    assert settings["schedule"] == "linear"
    assert settings["gamma"] == 7.0
    assert v_mixture["mep"].provenance.sources


A, B = torch.tensor([-3.0, 0.0]).double(), torch.tensor([3.0, 0.0]).double()


@pytest.mark.parametrize(
    ("ends", "options", "error", "says"),
    [
        ((A, A), {}, SettingError, "start equal to the end"),
        ((A[:1], B), {}, ShapeError, r"start of shape \(1,\)"),
        ((A, torch.tensor([torch.nan, 0.0]).double()), {}, ShapeError, "end with 1 non-finite"),
        ((A[None], B), {}, ShapeError, r"one point of shape \(dim,\)"),
        ((A, B.float()), {}, ShapeError, "two points alike"),
        ((A, B), {"regime": "magic"}, SettingError, "one of transport, mep, principal, static"),
        ((A, B), {"starts": 0}, SettingError, "starts=0"),
        ((A, B), {"starts": []}, SettingError, "no start"),
        ((A, B), {"sigma": -1.0}, SettingError, "a level from"),
        ((A, B), {"nodes": 1}, SettingError, "nodes=1; expected a whole number, at least 2"),
        ((A, B), {"via": torch.zeros(2).double()}, ShapeError, "via of shape"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(ends, options, error, says):
    with pytest.raises(error, match=says) as caught:
        find_path(load_world("v_mixture"), *ends, **options)
    assert str(caught.value).startswith("got ")


def test_landscape_has_no_noise_to_ride():
    with pytest.raises(SettingError, match="a model with noise levels"):
        _find("muller_brown", regime="mep")


class _Net:
    """A network in form: a denoiser without a density."""

    def __init__(self, world, value_range=None, breaks_below=-1.0):
        self.world, self.breaks_below = world, breaks_below
        self.frame = Frame("net", (2,), 0.02, 80.0, value_range=value_range, data_std=2.0)

    def denoise(self, y, sigma):
        out = self.world.denoise(y, sigma)
        return out * torch.nan if float(torch.as_tensor(sigma).max()) < self.breaks_below else out


def test_network_gets_line_integrals_and_its_own_level():
    world = load_world("v_mixture")
    found = find_path(_Net(world), A, B, nodes=33, steps=20, measure_share=False)
    assert 0.05 < found.energy_sigma < 0.2
    exact = -world.log_prob(found.curve.points, found.energy_sigma)
    assert_close(found.energy, exact - exact[0], rtol=0, atol=0.02)
    assert found.barriers[0].saddle is None
    assert found.provenance.model.startswith("net at sigma")


def test_network_saddles_can_be_polished():
    world = load_world("two_wells")
    start, end = world.facts.start, world.facts.end
    found = find_path(
        _Net(world), start, end, nodes=17, regime="static", sigma=0.1, polish=True, measure_share=False
    )
    assert found.barriers[0].hessian_index == 1
    assert_close(found.barriers[0].saddle, torch.zeros(2), rtol=0, atol=1e-6)


def test_values_outside_the_range_are_refused():
    with pytest.raises(SettingError, match="a start with values from"):
        find_path(_Net(load_world("v_mixture"), value_range=(-1.0, 1.0)), A, B)


@pytest.mark.parametrize("regime", ["static", "mep"])
def test_nan_names_image_and_noise_level(regime):
    net = _Net(load_world("v_mixture"), breaks_below=0.5)
    with pytest.raises(ModelOutputError, match=r"image \d+.*sigma 0\.\d+"):
        find_path(net, A, B, nodes=9, steps=10, regime=regime)


def _random_mixture(rng):
    """Two Gaussians with full covariances, well apart, and the true barrier by their ridgeline."""
    while True:
        means = np.array([[-2.0, 0.0], [2.0, rng.uniform(-1, 1)]])
        turns = [np.linalg.qr(rng.normal(size=(2, 2)))[0] for _ in range(2)]
        covariances = np.array([q @ np.diag(rng.uniform(0.2, 1.2, 2)) @ q.T for q in turns])
        weight = rng.uniform(0.25, 0.75)
        weights = np.array([weight, 1 - weight])
        known = oracle.ridgeline_barrier(weights, means, covariances)
        if known is not None and known[2] > 0.3:
            world = GaussianMixture("pair", *(torch.from_numpy(x) for x in (weights, means, covariances)))
            return world, known


def _within(count, seed, **options):
    """Share of random cases whose true error is at most three times the stated one."""
    rng = np.random.default_rng(seed)
    held = []
    for _ in range(count):
        world, (start, end, barrier) = _random_mixture(rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = find_path(
                world, torch.from_numpy(start), torch.from_numpy(end), measure_share=False, **options
            )
        held.append(abs(found.barrier.value - barrier) <= 3 * found.barrier.error)
    return np.mean(held)


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_stated_errors_hold_in_random_cases(count):
    assert _within(count, 0, regime="static", nodes=13) >= 0.95


@pytest.mark.slow
def test_stated_errors_hold_for_the_evolution():
    assert _within(20, 1, regime="mep", nodes=13, steps=15) >= 0.95


@pytest.mark.slow
def test_stated_length_errors_hold():
    rng = np.random.default_rng(2)
    held = []
    for _ in range(40):
        world, (start, end, _) = _random_mixture(rng)
        ends = torch.from_numpy(start), torch.from_numpy(end)
        fine = find_path(world, *ends, regime="static", nodes=97, polish=False, measure_share=False)
        coarse = find_path(world, *ends, regime="static", nodes=17, polish=False, measure_share=False)
        held.append(abs(coarse.length.value - fine.length.value) <= 3 * coarse.length.error)
    assert np.mean(held) >= 0.95


def test_every_setting_of_a_path_is_in_its_provenance():
    world = load_world("muller_brown")
    found = find_path(world, world.facts.start, world.facts.end, nodes=9, measure_share=False, tol=0.1)
    asked = {
        name for name, one in inspect.signature(find_path).parameters.items() if one.kind is one.KEYWORD_ONLY
    }
    assert asked - {"generator", "progress", "cancel", "measure_share"} <= found.provenance.settings.keys()
    with pytest.raises(SettingError, match="expected a log density, in nats"):
        _ = found.db_per_dim


@pytest.mark.parametrize("nodes", [7, 11, 12])
def test_the_barrier_states_an_error_that_covers_the_truth(nodes):
    """Without the saddle at hand, for odd and for even numbers of images."""
    world = load_world("v_mixture")
    found = find_path(world, A, B, regime="static", nodes=nodes, polish=False, measure_share=False)
    truth = known_answer(world, A, B, near=found.curve.points).barrier
    assert found.barrier.error is not None
    assert 1e-12 < abs(found.barrier.value - truth) <= 3 * found.barrier.error


def test_a_barrier_that_is_not_resolved_says_so():
    """Four images across a pass: the stated error is half the barrier."""
    world = load_world("v_mixture")
    settings = dict(regime="static", polish=False, measure_share=False)
    coarse = find_path(world, A, B, nodes=6, **settings)
    fine = find_path(world, A, B, nodes=33, **settings)
    said = [any("more images resolve it" in text for text in path.report.warnings) for path in (coarse, fine)]
    assert said == [True, False]
