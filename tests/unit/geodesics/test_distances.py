"""The engine against every distance that is known in closed form, its order, and its traps."""

import math

import pytest
import torch
from torch.testing import assert_close

from tests.contracts.metrics import mixture
from tests.oracles import fisher as oracle
from tests.unit.geodesics.cases import CASES, SPHERE, TORUS, natural
from workbench.curves import Curve
from workbench.errors import SettingError
from workbench.geodesics import (
    affine_length,
    bent_starts,
    curve_energy,
    curve_inside,
    curve_length,
    dual_line,
    geodesic_residual,
    relax,
    relax_levels,
    second_variation,
    straight_start,
    via_start,
)
from workbench.metrics import (
    Chart,
    Euclidean,
    MatrixMetric,
    RankOneScore,
    Scaled,
    Spacetime,
    families,
    half_plane,
    hessian,
    spacetime_energy,
)
from workbench.report import Status
from workbench.worlds import GaussianMixture


def line(start, end, nodes=33):
    return straight_start(torch.tensor(start), torch.tensor(end), nodes).unsqueeze(0)


@pytest.mark.parametrize("name", CASES)
def test_distance_to_one_in_a_million_with_an_honest_error(name):
    make, start, end, distance = CASES[name]
    found = relax_levels(make(), line(start, end))
    assert found.status is Status.CONVERGED
    assert_close(found.length[0], torch.tensor(distance), rtol=1e-7 if "beta" not in name else 1e-6, atol=0.0)
    assert abs(float(found.length[0]) - distance) <= 3.0 * float(found.error[0]) + 2e-8 * distance
    assert float(found.gap[0]) < 1e-6
    assert float(found.speed_spread[0]) < 1e-3
    assert torch.equal(found.points[0, 0], torch.tensor(start))
    assert torch.equal(found.points[0, -1], torch.tensor(end))


@pytest.mark.parametrize("name", ["sphere", "half-plane", "bernoulli", "torus", "natural Gaussian"])
def test_doubling_the_nodes_divides_the_error_by_four(name):
    make, start, end, distance = CASES[name]
    levels = relax_levels(make(), line(start, end, 65)).levels[:, 0]
    ratio = (levels[:-1] - distance) / (levels[1:] - distance)
    assert_close(ratio, torch.full((2,), 4.0), rtol=0.02, atol=0.0)


@pytest.mark.parametrize("name", ["sphere", "half-plane", "torus", "covariance"])
def test_the_curve_solves_the_geodesic_equation(name):
    make, start, end, _ = CASES[name]
    found = relax_levels(make(), line(start, end))
    curve, h = Curve.through(found.points[0]), 1.0 / 128
    at = torch.tensor([0.25, 0.5, 0.75])
    acceleration = (curve(at + h) - 2.0 * curve(at) + curve(at - h)) / h**2
    assert float(geodesic_residual(make(), curve(at), curve.velocity(at), acceleration).max()) < 5e-3


def test_half_plane_geodesic_lies_on_its_circle():
    found = relax_levels(half_plane(), line((0.0, 1.0), (3.0, 0.5))).points[0]
    centre = (9.0 + 0.25 - 1.0) / 6.0
    radius = torch.hypot(found[:, 0] - centre, found[:, 1])
    assert_close(radius, torch.full_like(radius, math.hypot(centre, 1.0)), rtol=2e-4, atol=0.0)


def test_length_never_exceeds_the_root_of_the_energy(generator):
    curves = bent_starts(SPHERE, line((1.0, 0.0), (1.5, 1.5))[0], 8, bend=0.3, generator=generator)
    length, energy = curve_length(SPHERE, curves), curve_energy(SPHERE, curves)
    assert bool((length**2 <= energy).all())
    assert bool((length >= oracle.sphere_distance((1.0, 0.0), (1.5, 1.5))).all())


def test_reversing_the_ends_reverses_the_curve():
    there = relax_levels(half_plane(), line((0.0, 1.0), (3.0, 0.5)), tol=1e-9)
    back = relax_levels(half_plane(), line((3.0, 0.5), (0.0, 1.0)), tol=1e-9)
    assert_close(back.points.flip(1), there.points, rtol=0.0, atol=1e-7)


def test_a_batch_gives_what_its_curves_give_alone(generator):
    base = line((0.0, 1.0), (1.0, 2.0))[0]
    starts = bent_starts(families.gaussian(), base, 4, bend=0.4, generator=generator)
    together = relax_levels(families.gaussian(), starts)
    alone = torch.cat([relax_levels(families.gaussian(), start[None]).length for start in starts])
    assert_close(together.length, alone, rtol=1e-11, atol=0.0)
    assert_close(together.length, torch.full((4,), 1.189380931406), rtol=1e-9, atol=0.0)


def test_outer_equator_is_a_saddle_and_its_negative_mode_leads_to_the_minimum():
    equator = relax_levels(TORUS, line((0.0, 0.0), (0.0, 2.5)))
    assert_close(equator.length[0], torch.tensor(7.5), rtol=1e-12, atol=0.0)
    coarse = equator.points[0, ::4]
    values, modes = second_variation(TORUS, coarse)
    assert int((values < -1e-6).sum()) == 1  # one conjugate point before 2.5, at 1.814
    assert bool((second_variation(TORUS, line((0.0, 0.0), (0.0, 1.7))[0])[0] > 0.0).all())
    bump = modes[0] / modes[0].abs().max()
    found = relax_levels(TORUS, torch.stack((coarse + 0.3 * bump, coarse - 0.3 * bump)))
    assert_close(found.length, torch.full((2,), 6.791775610664), rtol=1e-8, atol=0.0)
    assert bool((second_variation(TORUS, found.points[0, ::4])[0] > 0.0).all())


@pytest.mark.parametrize("seed", range(3))
def test_random_bends_leave_the_outer_equator(seed):
    generator = torch.Generator().manual_seed(seed)
    starts = bent_starts(TORUS, line((0.0, 0.0), (0.0, 2.5))[0], 4, bend=0.3, generator=generator)
    assert_close(relax_levels(TORUS, starts).length, torch.full((4,), 6.791775610664), rtol=1e-7, atol=0.0)


@pytest.mark.parametrize("nodes", [65, 129])
def test_natural_parameters_never_leave_their_domain(nodes):
    metric = hessian.gaussian_natural()
    found = relax(metric, line(natural(0.0, 1.0), natural(1.0, 2.0), nodes))
    assert float(found.points[..., 1].max()) < 0.0
    assert_close(found.length[0], torch.tensor(1.189380931406), rtol=1e-3, atol=0.0)


def test_curves_never_leave_the_half_plane(generator):
    base = line((0.0, 0.02), (2.0, 0.02))[0]
    found = relax_levels(half_plane(), bent_starts(half_plane(), base, 6, bend=0.5, generator=generator))
    assert float(found.points[..., 1].min()) >= 0.02 - 1e-12
    exact = oracle.half_plane_distance((0.0, 0.02), (2.0, 0.02))
    assert_close(found.length, torch.full((6,), exact), rtol=1e-6, atol=0.0)


def test_bends_that_leave_the_domain_are_made_to_fit(generator):
    base = line((0.0, 0.02), (2.0, 0.02))[0]
    starts = bent_starts(half_plane(), base, 20, bend=3.0, generator=generator)
    assert bool(curve_inside(half_plane(), starts).all())
    assert torch.equal(starts[:, 0], base[0].expand(20, 2))


class TestBurg:
    """The case that tells the three kinds of straightness apart."""

    start, end = (0.2, 3.0), (2.0, 0.5)

    def test_shortest_is_straight_in_logs(self, generator):
        base = line(self.start, self.end)[0]
        starts = bent_starts(hessian.burg(), base, 3, bend=0.5, generator=generator)
        found = relax_levels(hessian.burg(), starts)
        assert_close(found.length, torch.full((3,), 2.917584635627), rtol=1e-9, atol=0.0)
        logs = torch.log(found.points[0])
        assert_close(logs, straight_start(logs[0], logs[-1], logs.shape[0]), rtol=0.0, atol=1e-6)

    def test_frozen_metric_gives_the_dual_line_instead(self):
        frozen = relax_levels(hessian.burg(), line(self.start, self.end), freeze=True)
        ends = torch.tensor(self.start), torch.tensor(self.end)
        dual = dual_line(hessian.burg(), *ends, frozen.points.shape[1])
        length, _ = affine_length(hessian.burg(), *ends, dual=True)
        assert_close(frozen.points[0], dual, rtol=0.0, atol=2e-3)
        assert_close(frozen.length[0], length, rtol=1e-6, atol=0.0)
        assert float(length) > 3.23
        assert float(frozen.gap[0]) > 0.1  # its own certificate unmasks it

    def test_dual_line_is_straight_in_reciprocals(self):
        curve = dual_line(hessian.burg(), torch.tensor(self.start), torch.tensor(self.end), 17)
        assert_close(1.0 / curve, straight_start(1.0 / curve[0], 1.0 / curve[-1], 17), rtol=1e-9, atol=1e-12)


def test_spacetime_of_a_gaussian_is_the_half_plane_of_its_posterior():
    model = GaussianMixture("normal", torch.ones(1), torch.tensor([[0.3]]), torch.ones(1, 1, 1))
    found = relax_levels(Spacetime(model), line((-1.0, 3.0), (1.2, 1.0)))
    assert_close(found.length[0], torch.tensor(4.351819149448), rtol=1e-7, atol=0.0)
    assert_close(
        torch.tensor(oracle.gaussian_distance(-0.96177128, 0.21777482, 1.10670599, 0.51859562)),
        torch.tensor(4.351819149448),
        rtol=1e-7,
        atol=0.0,
    )


def test_simulation_free_energy_converges_from_above_with_order_two():
    model = GaussianMixture("normal", torch.ones(1), torch.tensor([[0.3]]), torch.ones(1, 1, 1))
    fine = relax_levels(Spacetime(model), line((-1.0, 3.0), (1.2, 1.0))).points[0]
    errors = []
    for skip in (8, 4, 2):
        estimate = torch.sqrt(spacetime_energy(model, fine[::skip]))
        errors.append(float(estimate) - 4.351819149448)
    assert errors[0] == pytest.approx(4.370227 - 4.351819, rel=0.01)
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.03)
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.03)


def test_spacetime_of_a_mixture_is_symmetric_under_reversal():
    there = relax_levels(Spacetime(mixture()), line((0.0, 0.0), (1.0, 2.0)))
    back = relax_levels(Spacetime(mixture()), line((1.0, 2.0), (0.0, 0.0)))
    assert_close(there.length, back.length, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("dim", [2, 40])
def test_high_dimensions_without_a_matrix(dim):
    model = GaussianMixture("normal", torch.ones(1), torch.zeros(1, dim), torch.eye(dim)[None])
    start, end = torch.zeros(dim), torch.zeros(dim)
    start[0], end[1] = 1.0, 1.0
    found = relax_levels(RankOneScore(model, 0.0, 4.0), straight_start(start, end, 33)[None])
    assert_close(found.length[0], torch.tensor(1.537330418475), rtol=1e-8, atol=0.0)
    assert found.status is Status.CONVERGED


def test_scaling_a_metric_scales_its_distances():
    found = relax_levels(Scaled(half_plane(), 9.0), line((0.0, 1.0), (3.0, 0.5)))
    expected = 3.0 * oracle.half_plane_distance((0.0, 1.0), (3.0, 0.5))
    assert_close(found.length[0], torch.tensor(expected), rtol=1e-8, atol=0.0)


def test_a_cancelled_solve_returns_what_it_has():
    found = relax_levels(half_plane(), line((0.0, 0.1), (2.0, 0.1)), cancelled=lambda: True)
    assert found.status is Status.CANCELLED
    assert bool(torch.isfinite(found.length).all())


def test_what_cannot_be_solved_is_said():
    saddle = MatrixMetric(
        lambda x: torch.diag_embed(torch.stack((torch.ones_like(x[..., 0]), x[..., 0]), dim=-1)),
        Chart("plane", 2),
        "saddle",
    )
    with pytest.raises(SettingError, match="indefinite, singular or not finite along starting curve 0"):
        relax(saddle, line((0.5, 0.0), (-0.5, 1.0)))
    with pytest.raises(SettingError, match="leaves the domain of hyperbolic half-plane"):
        relax(half_plane(), line((0.0, 1.0), (0.0, -1.0)))
    many = MatrixMetric(lambda x: torch.eye(17).expand(*x.shape, 17), Chart("many", 17), "many")
    with pytest.raises(SettingError, match="geodesics of many in 17 dimensions"):
        relax(many, torch.randn(1, 5, 17))
    with pytest.raises(SettingError, match="via point equal"):
        via_start(torch.zeros(3, 2), 9)


def test_a_polygon_through_stations_has_equal_steps():
    found = via_start(torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), 9)
    assert_close(torch.linalg.vector_norm(found.diff(dim=0), dim=-1), torch.full((8,), 0.25))
    flat = relax(Euclidean(Chart("plane", 2)), found[None])
    assert_close(flat.points[0], straight_start(found[0], found[-1], 9), rtol=0.0, atol=1e-12)
