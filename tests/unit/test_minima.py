"""Minima: a stiff quadratic whose minimum is known, and what an unfinished search says."""

import math

import pytest
import torch
from torch.testing import assert_close

from workbench.errors import ConvergenceWarning, SettingError
from workbench.minima import find_minimum
from workbench.report import Status


class Bowl:
    """V = (x - 1) A (x - 1) / 2 with eigenvalues 1 to 1e4."""

    name, unit = "bowl", ""
    scale = torch.logspace(0, 4, 6, dtype=torch.float64)

    def energy(self, x):
        return 0.5 * (self.scale * (x - 1).square()).sum(dim=-1)

    def force(self, x):
        return -self.scale * (x - 1)


def test_a_stiff_bowl_is_solved():
    found = find_minimum(Bowl(), torch.zeros(6), tol=1e-8)
    assert_close(found.x, torch.ones(6), atol=1e-7, rtol=0)
    assert found.report.residual <= 1
    assert math.isclose(found.energy, 0.0, abs_tol=1e-14)


def test_an_unfinished_search_says_so():
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        found = find_minimum(Bowl(), torch.zeros(6), tol=1e-8, max_iterations=1)
    assert found.report.status is Status.MAX_ITERATIONS
    with pytest.raises(SettingError, match="tol = 0"):
        find_minimum(Bowl(), torch.zeros(6), tol=0.0)


class Cliff(Bowl):
    """A bowl whose force is not a number beyond a wall."""

    def force(self, x):
        return torch.where(x.abs().amax() > 0.5, torch.nan, super().force(x))


def test_a_broken_landscape_ends_at_its_lowest_finite_point():
    with pytest.warns(ConvergenceWarning, match="diverged"):
        found = find_minimum(Cliff(), torch.zeros(6), tol=1e-8)
    assert found.report.status is Status.DIVERGED
    assert torch.isfinite(found.x).all()
    assert_close(torch.tensor(found.energy), Bowl().energy(found.x))
    assert math.isfinite(found.report.residual)
