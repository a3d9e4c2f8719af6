"""Settings at the doors: zero, NaN, True and text are refused in one sentence, never taken for a default."""

import inspect
import math
import threading

import pytest
import torch

from workbench.checks import check_count, check_model, check_number
from workbench.curves import straight
from workbench.errors import ModelOutputError, SettingError, ShapeError
from workbench.flows import log_likelihood
from workbench.integrators import check_solver, integrate
from workbench.lenses.paths import find_path
from workbench.report import Status
from workbench.strings.evolution import evolve_string
from workbench.strings.ground import ground_of
from workbench.strings.meter import Meter
from workbench.strings.reading import read_string
from workbench.strings.static import relax_string
from workbench.subjects import open_subject
from workbench.worlds import load_world

# a user's run has no type checker around the doors
find_path, log_likelihood = inspect.unwrap(find_path), inspect.unwrap(log_likelihood)

WRONG_FOR_A_PATH = [
    ("nodes", [2.5, "9", None, True, 1, 0]),
    ("steps", [0, 2.5, True, -1, "50"]),
    ("gamma", ["7", math.nan, -1.0, math.inf, 1e9, 1e200, lambda share: math.nan, lambda share: -1.0]),
    ("window", [0.5, None, (0.1, 0.5, 0.9), (0.9, 0.1), (math.nan, 0.9), ("a", "b")]),
    ("sigma", ["0.1", math.nan, -1.0, 1e9]),
    ("energy_sigma", ["0.1", math.nan]),
    ("quench", ["x", 0.0, math.nan, 2.0]),
    ("temperature", [math.nan, -1.0, "1"]),
    ("starts", [2.5, "a", [1], [], 0, True, None]),
    ("walkers", [0, -1, 2.5]),
    ("eta", [0.0, math.nan, None]),
    ("modes", [-1, 2.5]),
    ("most_substeps", [0, -1, 2.5]),
    ("tol", [0, -1.0, math.nan, "x"]),
    ("max_iterations", [0, 2.5]),
    ("memory_budget", ["1GB", 0, -1, 2.5]),
    ("schedule", ["linear", None, 3]),
    ("solver", ["dopri5", "rk5", ["rk4"], None]),
    ("regime", ["shortest", 3, ["mep"]]),
    ("generator", [0]),
    ("cancel", [lambda: True, True]),
    ("progress", [True]),
    ("align", [1]),
    ("polish", ["yes"]),
    ("refine_energies", ["no", None]),
    ("measure_share", [None]),
]


def _each(table):
    return [pytest.param(name, value, id=_id(name, value)) for name, row in table for value in row]


def _id(name, value):
    """The same in every process: a function's own text holds its address."""
    return f"{name}={'a function' if callable(value) else repr(value)}"[:40]


@pytest.fixture(scope="module")
def world():
    torch.set_default_dtype(torch.float64)
    return load_world("v_mixture")


@pytest.mark.parametrize(("name", "value"), _each(WRONG_FOR_A_PATH))
def test_a_path_refuses_it_in_one_sentence(world, name, value):
    with pytest.raises(SettingError, match=r"(?s)^got [^\n]*; expected [^\n]*$") as caught:
        find_path(world, world.facts.start, world.facts.end, **{name: value})
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [0, -1, 1.0, math.nan, math.inf])
def test_a_static_string_refuses_a_tolerance_that_promises_nothing(value):
    world = load_world("muller_brown")
    with pytest.raises(SettingError, match="tol="):
        find_path(world, world.facts.start, world.facts.end, tol=value)


def test_a_model_that_is_none_is_named(world):
    for model in ("v_mixture", open_subject(world="v_mixture"), 3):
        with pytest.raises(SettingError, match="expected a score model or a landscape"):
            find_path(model, world.facts.start, world.facts.end)
        with pytest.raises(SettingError, match="expected a score model"):
            log_likelihood(model, world.facts.start)
    with pytest.raises(SettingError, match=r"\.model"):
        check_model(open_subject(world="v_mixture"))


def test_ends_that_round_off_cannot_part_are_refused(world):
    a = world.facts.start
    with pytest.raises(SettingError, match="round-off"):
        find_path(world, a, a + 1e-13)
    with pytest.raises(ShapeError, match="bfloat16"):
        find_path(world, a.bfloat16(), world.facts.end.bfloat16())


def test_a_budget_above_all_memory_is_one_batch():
    meter = Meter(10**30)
    x = torch.ones(5, 2)
    assert meter.rows_per_call(x) == 5
    assert torch.equal(meter(lambda rows: 2 * rows, x), 2 * x)


class _CountDown:
    """A cancel that is set from the given question on."""

    def __init__(self, questions):
        self.left = questions

    def is_set(self):
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_relaxation_asks_for_cancel_at_every_substep(world, temperature):
    asked = _CountDown(10)
    ends = world.facts.start, world.facts.end
    found = evolve_string(
        world, *ends, nodes=9, steps=2, window=(0.0, 1.0), gamma=10.0, cancel=asked, temperature=temperature
    )
    assert found.report.status is Status.CANCELLED
    assert found.report.model_calls < 9 * 10 * 30
    assert asked.left < 0


def test_no_run_of_an_event_is_cancelled_unasked(world):
    found = evolve_string(
        world, world.facts.start, world.facts.end, nodes=5, steps=8, cancel=threading.Event()
    )
    assert found.report.status is not Status.CANCELLED


def test_energies_that_overflow_are_named():
    world = load_world("muller_brown")
    with pytest.raises(ModelOutputError, match=r"not finite|non-finite"):
        find_path(world, world.facts.start, 50 * world.facts.end, measure_share=False)


def test_a_string_that_stops_being_finite_keeps_its_last_finite_curve():
    calls = []

    def align(points):
        calls.append(0)
        return points if len(calls) < 8 else points * math.nan

    line = straight(torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 0.5]), 9)
    found = relax_string(lambda x: -x, line, levels=(9,), align=align)
    assert found.report.status is Status.DIVERGED
    assert torch.isfinite(found.curve.points).all()
    assert "last finite" in found.report.message


def test_every_energy_that_a_reading_asks_for_is_counted(world):
    asked = []

    class Counting:
        name, unit, dim = "counting", "nats", 2

        def energy(self, x):
            asked.append(x.shape[0])
            return -world.log_prob(x, 0.0)

        def force(self, x):
            asked.append(x.shape[0])
            return world.score(x, 0.0)

    meter = Meter()
    line = relax_string(Counting().force, straight(world.facts.start, world.facts.end, 17)).curve
    asked.clear()
    reading = read_string(line, ground_of(Counting(), 0.0), meter)
    assert any(barrier.polished is not None for barrier in reading.barriers)
    assert meter.points == sum(asked)


WRONG_FOR_A_LIKELIHOOD = [
    ("steps", [0, 1, 2, 3, 2.5, True, "40"]),
    ("probes", [2.5, 0, True]),
    ("chunk", [-1, 0, 2.5]),
    ("grey_levels", [1, 2.5]),
    ("check_steps", ["no"]),
    ("divergence", ["guess", 0, ""]),
    ("schedule", ["linear"]),
    ("solver", ["rk5", None]),
    ("generator", [0]),
    ("cancel", [lambda: True]),
]


@pytest.mark.parametrize(("name", "value"), _each(WRONG_FOR_A_LIKELIHOOD))
def test_a_likelihood_refuses_it_in_one_sentence(world, name, value):
    with pytest.raises(SettingError, match=r"(?s)^got [^\n]*; expected [^\n]*$"):
        log_likelihood(world, torch.zeros(1, 2), **{name: value})


@pytest.mark.parametrize("tol", [1e6, 0.1, math.inf, -1.0, 0, math.nan, "x", True])
def test_an_adaptive_solver_refuses_a_tolerance_that_promises_nothing(world, tol):
    with pytest.raises(SettingError, match="tol="):
        log_likelihood(world, torch.zeros(1, 2), solver="dopri5", tol=tol)
    with pytest.raises(SettingError, match="tol="):
        check_solver("dopri5", 1, tol)
    with pytest.raises(SettingError, match="tol="):
        inspect.unwrap(integrate)(
            lambda t, state: state, (torch.ones(1, 2),), torch.linspace(0, 1, 2), solver="dopri5", tol=tol
        )


def test_a_likelihood_names_points_and_models_that_it_cannot_take(world):
    with pytest.raises(SettingError, match="the landscape"):
        log_likelihood(load_world("muller_brown"), torch.zeros(1, 2))
    with pytest.raises(ShapeError, match="at least one point"):
        log_likelihood(world, torch.zeros(0, 2))
    with pytest.raises(ShapeError, match="bfloat16"):
        log_likelihood(world, torch.zeros(1, 2, dtype=torch.bfloat16))
    found = log_likelihood(world, torch.zeros(1, 2), steps=4)
    with pytest.raises(SettingError, match="index=5"):
        found.estimate(5)
    with pytest.raises(SettingError, match="unit"):
        found.estimate(0, "miles")


def test_numbers_of_numpy_are_numbers():
    import numpy as np

    check_count("nodes", np.int64(9))
    check_number("gamma", np.float32(7.0), least=0.0)
    with pytest.raises(SettingError, match="at least 1"):
        check_count("nodes", torch.tensor(0))
