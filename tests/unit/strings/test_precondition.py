"""Preconditioned strings: the map itself, the fixed point it keeps, and stiffness that costs no steps."""

import pytest
import torch
from torch.testing import assert_close

from workbench.curves import Curve
from workbench.errors import SettingError
from workbench.report import Status
from workbench.strings.precondition import CurvaturePreconditioner
from workbench.strings.static import relax_string


class StiffValley:
    """A double well in (x, y) with the path y = 0, and n stiff directions bound to z = sin x / sqrt n."""

    def __init__(self, stiffness, count=4):
        self.stiffness, self.amplitude = stiffness * torch.linspace(0.5, 1.0, count), count**-0.5

    def force(self, points):
        with torch.enable_grad():
            p = points.detach().requires_grad_()
            x, y, z = p[..., 0], p[..., 1], p[..., 2:]
            bound = 0.5 * (self.stiffness * (z - self.amplitude * x.sin().unsqueeze(-1)).square()).sum(-1)
            (slope,) = torch.autograd.grad(((x**2 - 1) ** 2 + 2 * y**2 + bound).sum(), p)
        return -slope

    def curve(self, x, bend=0.0):
        y = bend * (1 - x**2)
        return torch.cat(
            [torch.stack([x, y], dim=-1), self.amplitude * x.sin()[:, None].expand(-1, len(self.stiffness))],
            dim=-1,
        )


def test_a_bowl_is_turned_into_a_ball(generator):
    """For V = x H x / 2 the map is the inverse of |H|, with the floor for curvatures below it."""
    q = torch.linalg.qr(torch.randn(5, 5, generator=generator)).Q
    values = torch.tensor([-3.0, 1e-3, 2.0, 50.0, 4000.0])
    hessian = q @ torch.diag(values) @ q.T
    precondition = CurvaturePreconditioner(lambda x: -x @ hessian, margin=1e-12, smallest=1e-5)
    points = torch.randn(1, 3, 5, generator=generator)
    vectors = torch.randn(1, 3, 5, generator=generator)
    expected = vectors @ (q @ torch.diag(1 / values.abs().clamp_min(0.04)) @ q.T)
    assert_close(precondition(points, vectors), expected, rtol=1e-5, atol=1e-5)
    assert precondition.evaluations == 3 * (2 * 5 + 1)


def test_the_floor_keeps_images_from_overtaking():
    """On a slope of 6 with images half a unit apart, margin 2: no mode is softer than 2 * 6 / 0.5."""
    precondition = CurvaturePreconditioner(
        lambda x: torch.stack([6.0 - 0 * x[..., 0], -x[..., 1]], -1), margin=2.0
    )
    points = torch.stack([torch.arange(4) / 2, torch.zeros(4)], -1)[None]
    assert_close(precondition(points, torch.ones(1, 4, 2)), torch.full((1, 4, 2), 1 / 24))


def test_hessians_are_kept_until_an_image_has_left(generator):
    valley = StiffValley(100.0)
    precondition = CurvaturePreconditioner(valley.force, trust=0.5)
    points = valley.curve(torch.linspace(-1, 1, 5))[None]
    vectors = torch.randn(points.shape, generator=generator)
    first = precondition(points, vectors)
    spent = precondition.evaluations
    nearby = points + 0.01
    assert torch.equal(precondition(nearby, vectors), first)
    assert precondition.evaluations == spent
    nearby[:, 2] += 0.5
    precondition(nearby, vectors)
    assert (
        precondition.evaluations == spent + 2 * 6 + 5
    )  # one Hessian in six dimensions, five forces for the floor
    precondition(points[:, :4], vectors[:, :4])
    assert precondition.evaluations == spent + 2 * 6 + 5 + 4 * 12 + 4


def relaxed(valley, precondition, tol=1e-6, limit=2000):
    start = Curve.through(valley.curve(torch.linspace(-1, 1, 11), bend=0.4))
    return relax_string(
        valley.force, start, levels=(11,), tol=tol, max_iterations=limit, precondition=precondition
    )


def test_the_fixed_point_stays():
    valley = StiffValley(50.0)
    plain, preconditioned = relaxed(valley, None), relaxed(valley, CurvaturePreconditioner(valley.force))
    assert plain.report.converged
    assert preconditioned.report.converged
    assert_close(preconditioned.curve.points, plain.curve.points, atol=2e-3, rtol=0)


@pytest.mark.parametrize("stiffness", [1e2, 1e4, 1e6])
def test_stiffness_costs_no_iterations(stiffness):
    valley = StiffValley(stiffness)
    found = relaxed(valley, CurvaturePreconditioner(valley.force), limit=150)
    assert found.report.converged
    assert float(found.curve.points[:, 1].abs().max()) < 1e-4
    bound = 0.5 * found.curve.points[:, :1].sin().expand(-1, 4)
    assert_close(found.curve.points[:, 2:], bound, atol=1e-3 + 1 / stiffness, rtol=0)


@pytest.mark.filterwarnings("ignore::workbench.errors.ConvergenceWarning")
def test_without_it_a_stiff_string_crawls():
    plain = relaxed(StiffValley(1e4), None, limit=150)
    assert plain.report.status is Status.MAX_ITERATIONS
    assert float(plain.curve.points[:, 1].abs().max()) > 0.1


def test_three_thousand_dimensions_need_no_more():
    """Matrix-free and without a preconditioner: a gentle valley in 3000 dimensions, barrier 1."""
    valley = StiffValley(4.0, count=2998)
    found = relaxed(valley, None, tol=1e-4, limit=300)
    assert found.report.converged
    assert float(found.curve.points[:, 1].abs().max()) < 1e-3
    middle = found.curve.points[5]
    assert_close(middle, torch.zeros(3000), atol=1e-3, rtol=0)


def test_bad_settings_are_refused():
    with pytest.raises(SettingError, match=r"margin=0.0.*positive numbers"):
        CurvaturePreconditioner(torch.neg, margin=0.0)
