"""Forward derivatives: the value, the slope, and two threads at once."""

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import workbench
from workbench.forward import jvp
from workbench.lenses.paths import find_path
from workbench.linalg import jacobian_product
from workbench.schedules import OU, SCHEDULES, rates
from workbench.worlds import load_world


def in_two_threads(call, rounds=1):
    with ThreadPoolExecutor(2) as pool:
        return [future.result() for future in [pool.submit(call) for _ in range(2 * rounds)]]


def test_value_and_slope():
    x, v = torch.tensor([0.3, 2.0]), torch.tensor([1.0, -2.0])
    value, slope = jvp(torch.sin, (x,), (v,))
    assert_close(value, x.sin())
    assert_close(slope, x.cos() * v)


def test_calls_nest():
    third = torch.tensor(0.5)
    one = torch.ones(())
    slope = jvp(lambda x: jvp(lambda y: y**4, (x,), (one,))[1], (third,), (one,))[1]
    assert_close(slope, 12 * third**2)


def test_two_threads_take_forward_derivatives():
    x, v = torch.ones(40, 3), torch.ones(40, 3)

    def field(y):
        for _ in range(20):
            y = torch.sin(y)
        return y

    expected = jacobian_product(field, x, v)
    for found in in_two_threads(lambda: jacobian_product(field, x, v), rounds=40):
        assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.name)
def test_rates_of_a_schedule_leave_forward_mode_alone(schedule, monkeypatch):
    def refuse(*_args, **_options):
        raise AssertionError("forward mode in the hot path")

    monkeypatch.setattr(torch.func, "jvp", refuse)
    t = torch.linspace(0.1, 0.9, 5)
    assert all(torch.isfinite(value).all() for value in rates(schedule, t))


def test_an_infinite_rate_leaves_the_other_finite():
    a, s, a_rate, s_rate = rates(OU, torch.tensor([0.5, 1.0]))
    assert_close(a_rate, torch.ones(2))
    assert s_rate[1] == -torch.inf
    assert_close(s, (1 - a**2).sqrt())


def test_two_threads_find_the_path_that_one_finds():
    world = load_world("v_mixture")

    def find():
        return find_path(
            world,
            world.facts.start,
            world.facts.end,
            nodes=9,
            steps=6,
            measure_share=False,
            tol=1e-2,
            generator=torch.Generator().manual_seed(0),
        )

    alone = find()
    for found in in_two_threads(find):
        assert_close(found.curve.points, alone.curve.points, rtol=0, atol=1e-12)
        assert_close(found.barrier.value, alone.barrier.value, rtol=0, atol=1e-12)


def test_no_module_takes_a_forward_derivative_past_the_lock():
    root = Path(workbench.__file__).parent
    past = [
        path.name
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and node.module == "torch.func"
        and {"jvp", "jacfwd", "hessian", "linearize"} & {alias.name for alias in node.names}
    ]
    assert past == []
