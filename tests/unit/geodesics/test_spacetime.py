"""Curves of denoising distributions from the simulation-free energy, against Gaussian posteriors."""

import pytest
import torch

from workbench.errors import SettingError, ShapeError
from workbench.geodesics.spacetime import find_spacetime_curve
from workbench.report import Status
from workbench.worlds import GaussianMixture


def line_model():
    return GaussianMixture("normal", torch.ones(1), torch.tensor([[0.3]]), torch.ones(1, 1, 1))


def test_distance_of_gaussian_posteriors():
    found = find_spacetime_curve(line_model(), torch.tensor([-1.0, 3.0]), torch.tensor([1.2, 1.0]))
    assert found.report.status is Status.CONVERGED
    assert found.length.value == pytest.approx(4.351819149448, rel=1e-3)
    assert found.straight > found.length.value
    assert found.report.model_calls > 0
    assert torch.equal(found.curve.points[0], torch.tensor([-1.0, 3.0]))


def test_one_probe_serves_many_dimensions(generator):
    dim = 20
    model = GaussianMixture("normal", torch.ones(1), torch.zeros(1, dim), torch.eye(dim)[None])
    start, end = torch.zeros(dim + 1), torch.zeros(dim + 1)
    start[0], end[0], start[-1], end[-1] = -1.0, 1.0, 1.0, 1.0
    found = find_spacetime_curve(model, start, end, nodes=17, free=3, max_iterations=60, generator=generator)
    exact = find_spacetime_curve(model, start, end, nodes=17, free=3, max_iterations=60, probe=False)
    assert found.length.value == pytest.approx(
        exact.length.value, rel=1e-6
    )  # the Jacobian is a multiple of I
    assert found.length.value < found.straight


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="start"):
        find_spacetime_curve(line_model(), torch.zeros(3), torch.zeros(2))
    with pytest.raises(SettingError, match="odd number"):
        find_spacetime_curve(line_model(), torch.zeros(2), torch.ones(2), nodes=8)
