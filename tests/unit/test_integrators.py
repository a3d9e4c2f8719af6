"""Integrators: orders on a known solution, freezing, cancelling and gradients."""

import math
import threading

import pytest
import torch
from torch.testing import assert_close

from workbench.errors import SettingError
from workbench.integrators import ADAPTIVE, ORDERS, check_solver, integrate
from workbench.report import Status

START = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)


def turning(t, state):
    """dx/dt = cos(t) J x, whose solution is a turn by sin(t)."""
    x = state[0]
    return (torch.cos(t) * torch.stack([-x[..., 1], x[..., 0]], dim=-1),)


def exact(t):
    c, s = math.cos(math.sin(t)), math.sin(math.sin(t))
    return START @ torch.tensor([[c, s], [-s, c]])


def _times(steps, end=1.3):
    return torch.linspace(0.0, end, steps + 1)


@pytest.mark.parametrize("solver", ORDERS)
def test_halving_the_step_divides_the_error_by_the_order(solver):
    errors = [
        float((integrate(turning, (START,), _times(n), solver=solver).state[0] - exact(1.3)).abs().max())
        for n in (20, 40)
    ]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(ORDERS[solver], abs=0.25)


@pytest.mark.parametrize("solver", ADAPTIVE)
def test_adaptive_solvers_keep_their_tolerance(solver):
    found = integrate(turning, (START,), _times(1), solver=solver, tol=1e-9)
    assert_close(found.state[0], exact(1.3), rtol=0, atol=1e-7)
    assert found.status is Status.CONVERGED
    assert found.evaluations > 10


def test_time_runs_backwards_too():
    back = integrate(turning, (exact(1.3),), _times(40).flip(0))
    assert_close(back.state[0], START, rtol=0, atol=1e-6)


def test_quantities_are_carried_along():
    def both(t, state):
        return (*turning(t, state), state[0].square().sum(-1))

    found = integrate(both, (START, torch.zeros(2)), _times(20))
    assert_close(found.state[1], 1.3 * START.square().sum(-1), rtol=1e-5, atol=1e-6)


def test_a_point_that_stops_being_finite_is_frozen_and_named():
    def breaking(t, state):
        x = state[0]
        bad = (torch.arange(2) == 1) & (t > 0.7)
        return (torch.where(bad[:, None], math.nan, torch.ones_like(x)),)

    found = integrate(breaking, (torch.zeros(2, 2),), torch.linspace(0, 1, 11), solver="euler")
    assert found.status is Status.DIVERGED
    assert found.failed_at.tolist() == [-1, 8]
    assert_close(found.state[0], torch.tensor([[1.0, 1.0], [0.8, 0.8]]))


@pytest.mark.parametrize("solver", ["rk4", "dopri5"])
def test_cancelling_returns_what_is_there(solver):
    stop = threading.Event()
    stop.set()
    found = integrate(turning, (START,), _times(10), solver=solver, cancel=stop)
    assert found.status is Status.CANCELLED
    assert found.reached == 0
    assert_close(found.state[0], START)


def test_progress_ends_at_one():
    seen = []
    integrate(
        turning, (START,), _times(4), progress=lambda fraction, message: seen.append((fraction, message))
    )
    assert [fraction for fraction, _ in seen] == [0.25, 0.5, 0.75, 1.0]
    assert seen[-1][1] == "integrating: step 4 of 4"


@pytest.mark.parametrize("solver", [*ORDERS, "dopri5"])
def test_gradients_flow_through(solver):
    x = START.clone().requires_grad_()
    end = integrate(turning, (x,), _times(8), solver=solver).state[0]
    (slope,) = torch.autograd.grad(end[:, 0].sum(), x)
    # the flow is linear, so its gradient is what the same solver does to the columns of the identity
    columns = integrate(turning, (torch.eye(2),), _times(8), solver=solver).state[0]
    assert_close(slope, columns[:, 0].expand(2, 2), rtol=1e-4, atol=1e-5)


def test_unknown_solvers_are_named():
    with pytest.raises(SettingError, match="got solver 'rk5'; expected one of euler, heun, rk4, dopri5"):
        check_solver("rk5", 10)
    with pytest.raises(SettingError, match="got 0 steps"):
        check_solver("rk4", 0)


def test_an_assertion_of_the_derivative_is_not_swallowed():
    def derivative(t, state):
        raise AssertionError("the user's own")

    with pytest.raises(AssertionError, match="the user's own"):
        integrate(derivative, (torch.ones(2, 3),), torch.linspace(0.0, 1.0, 3), solver="dopri5")
