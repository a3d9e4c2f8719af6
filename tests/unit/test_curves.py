"""Curves: formulas, laws and the guards of the starts."""

import math

import pytest
import torch
from scipy.interpolate import CubicSpline
from torch.testing import assert_close

from workbench.curves import Curve, bumped, normal_direction, respace, slerp, straight, via
from workbench.errors import SettingError, ShapeError
from workbench.splines import arc_knots, chords, slope_matrix, spline_weights


def _random_knots(generator, nodes, batch=()):
    steps = torch.rand(*batch, nodes - 1, generator=generator) + 0.1
    return torch.cat([torch.zeros(*batch, 1), steps.cumsum(-1)], -1)


def _wave(nodes, dim=3):
    u = torch.linspace(0, 1, nodes)[:, None]
    return torch.cat([torch.sin((k + 1) * u + k) for k in range(dim)], -1)


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 17])
@pytest.mark.parametrize("derivative", [False, True])
def test_weights_are_the_not_a_knot_spline(generator, nodes, derivative):
    knots, values = _random_knots(generator, nodes), torch.randn(nodes, 4, generator=generator)
    at = torch.rand(50, generator=generator) * knots[-1]
    peer = CubicSpline(knots.numpy(), values.numpy())(at.numpy(), int(derivative))
    assert_close(
        spline_weights(knots, at, derivative=derivative) @ values, torch.from_numpy(peer), rtol=0, atol=1e-11
    )


def test_weights_batch_equals_loop(generator):
    knots, at = _random_knots(generator, 9, (3,)), torch.rand(3, 7, generator=generator)
    loop = torch.stack([spline_weights(k, a) for k, a in zip(knots, at, strict=True)])
    assert_close(spline_weights(knots, at), loop, rtol=0, atol=1e-13)


def test_slopes_of_a_cubic_are_exact(generator):
    knots = _random_knots(generator, 8)
    assert_close(slope_matrix(knots) @ knots**3, 3 * knots**2, rtol=1e-10, atol=1e-10)


def test_weights_differentiate_in_the_knots(generator):
    knots, values = _random_knots(generator, 6), torch.randn(6, 2, generator=generator)
    at = torch.linspace(0.05, 0.9, 5) * knots[-1]
    knots.requires_grad_(True)
    assert torch.autograd.gradcheck(lambda k: spline_weights(k, at) @ values, (knots,))


def test_linear_weights_are_the_polygon():
    knots, at = torch.tensor([0.0, 1.0, 3.0]), torch.tensor([0.5, 2.0])
    expected = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    assert_close(spline_weights(knots, at, kind="linear"), expected)


def test_length_and_energy_of_a_circle():
    angle = torch.linspace(0, 2 * math.pi, 65)
    circle = Curve.through(torch.stack([angle.cos(), angle.sin()], -1))
    assert_close(circle.length(), torch.tensor(2 * math.pi), rtol=1e-5, atol=0)
    assert_close(circle.energy(), torch.tensor(4 * math.pi**2), rtol=1e-5, atol=0)
    assert_close(circle.arc()[-1], circle.length())


def test_length_is_at_most_root_energy():
    curve = Curve.through(_wave(21) ** 3)
    assert curve.length() < curve.energy().sqrt()
    even = curve.resample(401, passes=3)
    assert_close(even.length(), even.energy().sqrt(), rtol=1e-6, atol=0)


def test_length_is_fourth_order():
    def error(nodes):
        angle = torch.linspace(0, math.pi, nodes)
        return abs(float(Curve.through(torch.stack([angle.cos(), angle.sin()], -1)).length()) - math.pi)

    assert math.log2(error(17) / error(33)) > 3.5


def test_evaluation_meets_nodes_and_tangents_are_unit():
    curve = Curve.through(_wave(11))
    assert_close(curve(curve.t), curve.points, rtol=0, atol=1e-14)
    assert_close(curve.tangents().norm(dim=-1), torch.ones(11))


def test_repeated_passes_converge():
    u = torch.linspace(0, 1, 41)[:, None] ** 1.7
    uneven = Curve.through(torch.cat([u, torch.sin(3 * u)], -1))
    ratios = [float(uneven.resample(passes=k).spacing_ratio()) for k in (1, 2, 3)]
    assert ratios[0] > ratios[1] >= ratios[2]
    assert ratios[2] < 1 + 1e-5
    moved = (uneven.resample(passes=3).points - uneven.resample(passes=2).points).norm(dim=-1).max()
    assert moved < 1e-4


@pytest.mark.parametrize("kind", ["cubic", "linear"])
@pytest.mark.parametrize("nodes", [2, 3, 9, 30])
def test_resampling_keeps_the_ends_bit_for_bit(kind, nodes):
    points = _wave(13) / 3
    new = Curve.through(points).resample(nodes, kind=kind).points
    assert torch.equal(new[[0, -1]], points[[0, -1]])
    assert new.shape == (nodes, 3)


def test_resampling_a_straight_line_at_constant_speed_changes_nothing():
    line = straight(torch.zeros(2), torch.tensor([3.0, 4.0]), 9)
    assert_close(line.resample().points, line.points, rtol=0, atol=1e-14)


def test_coincident_nodes_are_merged():
    points = _wave(9)
    doubled = torch.cat([points[:1], points[:4], points[3:4], points[3:], points[-1:]])
    assert_close(
        Curve.through(doubled).resample(15).points,
        Curve.through(points).resample(15).points,
        rtol=0,
        atol=1e-12,
    )


def test_all_nodes_coincident_stay_finite():
    points = torch.ones(5, 2)
    assert torch.equal(Curve.through(points).resample(7).points, torch.ones(7, 2))
    assert torch.isfinite(respace(points)).all()


def test_closed_curve_keeps_its_length():
    angle = torch.linspace(0, 2 * math.pi, 41)
    closed = Curve.through(torch.stack([angle.cos() ** 3, angle.sin()], -1)).resample(passes=3)
    assert closed.spacing_ratio() < 1.001
    assert_close(closed.points[0], closed.points[-1], rtol=0, atol=1e-15)


def test_weights_draw_nodes():
    line = straight(torch.zeros(1), torch.ones(1), 41)
    weights = 1.0 + 9.0 * (line.t > 0.5).to(line.t)
    drawn = line.resample(weights=weights).points[:, 0]
    assert int((drawn > 0.5).sum()) == pytest.approx(41 * 10 / 11, abs=2)


def test_batched_resampling_equals_loop(generator):
    points = torch.randn(4, 11, 5, generator=generator)
    loop = torch.stack([respace(p, 17, passes=2) for p in points])
    assert_close(respace(points, 17, passes=2), loop, rtol=0, atol=1e-12)


def test_resampling_commutes_with_rotation_translation_and_scale(generator):
    points = torch.randn(9, 3, generator=generator)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=generator))[0]
    moved = respace(2.5 * points @ turn + 7.0, 13)
    assert_close(moved, 2.5 * respace(points, 13) @ turn + 7.0, rtol=0, atol=1e-11)


def test_reversal_commutes_with_resampling():
    curve = Curve.through(_wave(12))
    assert_close(curve.reverse().resample(9).points, curve.resample(9).reverse().points, rtol=0, atol=1e-13)


def test_arc_knots_are_cumulative_chords():
    points = torch.tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]])
    assert_close(chords(points), torch.tensor([5.0, 1.0]))
    assert_close(arc_knots(points), torch.tensor([0.0, 5.0, 6.0]))


def test_slerp_uses_the_real_angle_and_the_mean_norm():
    start, end = torch.tensor([2.0, 0.0, 0.0]), 4.0 * torch.tensor([math.cos(0.7), math.sin(0.7), 0.0])
    arc = slerp(start, end, 5).points
    assert_close(arc.norm(dim=-1), torch.linspace(2.0, 4.0, 5))
    assert_close(torch.atan2(arc[:, 1], arc[:, 0]), torch.linspace(0.0, 0.7, 5))


@pytest.mark.parametrize("dim", [2, 3, 50])
def test_slerp_between_antipodes_goes_round(generator, dim):
    start = torch.randn(dim, generator=generator)
    arc = slerp(start, -start, 9).points
    assert_close(arc.norm(dim=-1), start.norm().expand(9), rtol=1e-12, atol=0)
    assert torch.equal(arc[-1], -start)


@pytest.mark.parametrize(
    ("start", "end"),
    [((1.0, 2.0), (2.0, 4.0)), ((1.0, 2.0), (1.0, 2.0)), ((0.0, 0.0), (1.0, 2.0)), ((1.0, 2.0), (0.0,
    0.0)), ((0.0, 0.0), (0.0, 0.0))], ids=["parallel", "identical", "zero start", "zero end", "both zero"],
)  # fmt: skip
def test_slerp_falls_back_to_the_segment(start, end):
    start, end = torch.tensor(start), torch.tensor(end)
    assert_close(slerp(start, end, 7).points, straight(start, end, 7).points)


def test_slerp_is_continuous_near_parallel():
    start = torch.tensor([1.0, 0.0])
    near = torch.tensor([math.cos(1e-7), math.sin(1e-7)])
    assert_close(slerp(start, near, 3).points[1, 1].item(), 0.5e-7, rtol=1e-3, atol=0)


def test_slerp_in_one_dimension_is_the_segment():
    assert_close(slerp(torch.tensor([1.0]), torch.tensor([-1.0]), 3).points[1], torch.zeros(1))


def test_starts_batch_equals_loop(generator):
    start, end = torch.randn(3, 4, generator=generator), torch.randn(3, 4, generator=generator)
    for make in (straight, slerp, bumped):
        loop = torch.stack([make(a, b, 9).points for a, b in zip(start, end, strict=True)])
        assert_close(make(start, end, 9).points, loop, rtol=0, atol=1e-13)


def test_bump_has_its_height_and_side():
    curve = bumped(torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 0.0]), 33, amplitude=-0.5)
    assert_close(curve.points[16], torch.tensor([0.0, -0.5]), rtol=0, atol=1e-6)


def test_normal_direction_is_unit_and_orthogonal(generator):
    start, end = torch.randn(5, 7, generator=generator), torch.randn(5, 7, generator=generator)
    for draw in (None, generator):
        normal = normal_direction(start, end, draw)
        assert_close(normal.norm(dim=-1), torch.ones(5))
        assert_close((normal * (end - start)).sum(-1), torch.zeros(5), rtol=0, atol=1e-12)


def test_via_points_are_visited():
    curve = via(torch.zeros(2), torch.tensor([2.0, 0.0]), torch.tensor([[1.0, 1.0]]), 41)
    assert (curve.points - torch.tensor([1.0, 1.0])).norm(dim=-1).min() < 0.05
    assert torch.equal(curve.points[-1], torch.tensor([2.0, 0.0]))


def test_float32_keeps_dtype():
    assert Curve.through(_wave(9).float()).resample(15).points.dtype == torch.float32


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Curve(torch.zeros(1, 2), torch.zeros(1)), ShapeError),
        (lambda: Curve(torch.zeros(3, 2), torch.zeros(4)), ShapeError),
        (lambda: straight(torch.zeros(2), torch.ones(2), 1), SettingError),
        (lambda: Curve.through(_wave(5)).resample(1), SettingError),
        (lambda: bumped(torch.zeros(1), torch.ones(1)), SettingError),
    ],
)
def test_bad_input_is_one_sentence(make, error):
    with pytest.raises(error, match=r"^got .+"):
        make()


def test_points_and_velocities_for_many_calls_are_those_of_single_ones(generator):
    curve = Curve.through(torch.randn(9, 3, generator=generator, dtype=torch.float64))
    s = torch.rand(20, generator=generator, dtype=torch.float64)
    assert_close(curve.moving()(s), (curve(s), curve.velocity(s)), rtol=0.0, atol=0.0)
