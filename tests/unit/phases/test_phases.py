"""Phases: the steepness formula, box counting on known sets, rounding limits, local dimension."""

import math

import pytest
import torch
from torch.testing import assert_close

from workbench.errors import SettingError, ShapeError
from workbench.metrics import matrix
from workbench.phases import (
    FlowMap,
    box_dimension,
    exact_slope,
    exponent,
    find_boundary,
    find_ridges,
    label_phases,
    latent_slice,
    measure_dimension,
    measure_flipd,
    measure_normal_bundle,
    measure_sensitivity,
    measure_slope,
    two_gaussians,
)
from workbench.worlds import GaussianMixture, load_world
from workbench.worlds.tasep import Tasep

SLOPES = [
    (0.8, 1.747360648652, 60),
    (0.5, 3.694528049465, 60),
    (0.3, 77.601189154650, 120),
    (0.25, 745.239496760, 240),
]


@pytest.mark.parametrize(("deviation", "slope", "steps"), SLOPES)
def test_slope_of_the_two_gaussian_flow(deviation, slope, steps):
    assert exact_slope(deviation) == pytest.approx(slope, rel=1e-11)
    assert measure_slope(deviation, steps=steps) == pytest.approx(slope, rel=4e-5)


def test_slope_converges_with_order_four():
    errors = [measure_slope(0.5, steps=n) / exact_slope(0.5) - 1.0 for n in (30, 60)]
    assert errors[0] / errors[1] > 12.0  # 16 in the limit


@pytest.mark.parametrize("deviation", [0.8, 0.5])
def test_growth_rate_integrates_to_the_logarithm_of_the_slope(deviation):
    t = torch.linspace(0.0, 40.0, 40001)
    assert float(torch.trapezoid(exponent(deviation, t), t)) == pytest.approx(
        math.log(exact_slope(deviation)), rel=1e-5
    )


def test_flow_map_carries_quantiles():
    flow = FlowMap(two_gaussians(0.5), sigma_max=1e4, softness=0.25)
    z = torch.tensor([[-1.3], [0.2], [0.9]])
    x = flow(z)
    normal = torch.distributions.Normal(0.0, 1.0)
    quantile = 0.5 * (normal.cdf((x + 1.0) / 0.5) + normal.cdf((x - 1.0) / 0.5))
    assert_close(quantile, normal.cdf(z), rtol=1e-4, atol=0.0)


def test_one_step_carries_gaussian_data_exactly():
    world = GaussianMixture("normal", torch.ones(1), torch.zeros(1, 2), 0.49 * torch.eye(2)[None])
    z = torch.tensor([[-1.3, 0.2], [0.9, 2.0]])
    flow = FlowMap(world, sigma_max=80.0, softness=0.3, steps=1)
    assert_close(flow(z), 0.7 * z, rtol=1e-12, atol=0.0)
    assert_close(flow.invert(0.7 * z), z, rtol=1e-12, atol=0.0)


def koch(order):
    """Points of the Koch curve on the unit interval."""
    points = torch.tensor([0.0, 1.0], dtype=torch.complex128)
    turn = torch.tensor(complex(0.5, math.sqrt(3.0) / 2.0), dtype=torch.complex128)
    for _ in range(order):
        a, step = points[:-1], points.diff() / 3.0
        points = torch.cat(
            (
                torch.stack((a, a + step, a + step * (1.0 + turn), a + 2.0 * step), dim=1).flatten(),
                points[-1:],
            )
        )
    return torch.stack((points.real, points.imag), dim=1)


def mark(points, n):
    index = (points * (n - 1e-9)).long().clamp(0, n - 1)
    mask = torch.zeros(n, n, dtype=torch.bool)
    mask[index[:, 1], index[:, 0]] = True
    return mask


def sierpinski(n):
    i = torch.arange(n)
    return (i[:, None] & i[None, :]) == 0


@pytest.mark.parametrize(
    ("mask", "dimension", "tolerance"),
    [
        (mark(koch(9), 1024), math.log(4.0) / math.log(3.0), 0.04),
        (sierpinski(512), math.log(3.0) / math.log(2.0), 1e-9),
        (mark(torch.linspace(0.0, 1.0, 20000)[:, None] * torch.tensor([1.0, 0.37]), 1024), 1.0, 0.02),
        (torch.ones(64, 64, dtype=torch.bool), 2.0, 1e-12),
    ],
    ids=["Koch", "Sierpinski", "line", "square"],
)
def test_box_counting_on_known_sets(mask, dimension, tolerance):
    assert box_dimension(mask).value == pytest.approx(dimension, abs=tolerance)


def test_boundary_of_the_exact_mixture_flow_is_a_curve():
    """The control of every fractal statement: with exact scores in float64 the boundary has dimension one."""
    axis = torch.linspace(-1.5, 1.5, 256)
    grid = torch.cartesian_prod(axis, axis).flip(-1)
    flow = FlowMap(load_world("g3"), sigma_max=80.0, softness=0.3, steps=24)
    ends = flow(grid)
    labels = torch.cdist(ends, load_world("g3").means).argmin(dim=1).reshape(256, 256)
    found = box_dimension(find_boundary(labels))
    assert found.value == pytest.approx(1.0, abs=0.06)


def test_labels_and_boundary_of_two_halves(generator):
    x = torch.linspace(-1.0, 1.0, 32).expand(32, 32)
    features = torch.stack((torch.tanh(40.0 * (x - 0.25)), torch.zeros_like(x)), dim=-1)
    labels = label_phases(features, 2, generator=generator)
    assert bool((labels[x < 0.2] == 0).all())
    assert bool((labels[x > 0.3] == 1).all())
    assert_close(find_boundary(labels).sum(dim=1), torch.ones(32, dtype=torch.long), rtol=0.0, atol=0.0)


def test_ridge_of_the_metric_is_the_first_order_line():
    axis = torch.linspace(0.1, 0.6, 41)
    rates = torch.cartesian_prod(axis, axis).flip(-1)
    g = matrix(Tasep(60).metric(), -torch.log(rates)).reshape(41, 41, 2, 2)
    ridge = find_ridges(g)
    rows, columns = ridge.nonzero(as_tuple=True)
    low = (axis[rows] < 0.4) & (axis[columns] < 0.4)
    assert int(low.sum()) > 15
    assert bool(((rows - columns).abs()[low] <= 1).all())


def test_sensitivity_tells_smooth_from_jump_and_greys_what_is_rounding():
    smooth = measure_sensitivity(lambda t: torch.sin(t), torch.tensor([0.3, 0.4]))
    assert abs(smooth.slope) < 0.02
    jump = measure_sensitivity(lambda t: (t[:, :1] > 0.3).double(), torch.tensor([0.3, 0.4]))
    assert jump.slope == pytest.approx(-1.0, abs=1e-6)
    single = torch.tensor([0.3, 0.4], dtype=torch.float32)
    low = measure_sensitivity(lambda t: torch.sin(t), single, levels=40, control=lambda t: torch.sin(t))
    assert low.limit == pytest.approx(32 * 2**-23)
    assert not bool(low.trusted[-1])
    assert abs(low.slope) < 0.05
    assert_close(low.control[:20], low.values[:20], rtol=0.1, atol=0.0)
    assert float((low.values[-4:] - low.control[-4:]).abs().max()) > 0.1  # below the limit: rounding


def test_a_steep_map_is_smooth_below_its_own_scale():
    flow = FlowMap(two_gaussians(0.4), sigma_max=100.0, softness=0.2, steps=60)
    found = measure_sensitivity(lambda t: flow(t[:, :1]), torch.tensor([0.0, 0.0]), levels=16)
    assert_close(found.values[-3:], torch.full((3,), exact_slope(0.4)), rtol=1e-2, atol=0.0)
    assert float(found.values[0]) < 0.5 * exact_slope(0.4)


def subspace(dim, ambient, width=1e-9):
    variance = torch.full((ambient,), width**2)
    variance[:dim] = 1.0
    return GaussianMixture("subspace", torch.ones(1), torch.zeros(1, ambient), torch.diag(variance)[None])


@pytest.mark.parametrize(("sigma", "dimension"), [(0.1, 1.990001), (0.01, 1.9999)])
def test_dimension_of_a_subspace_by_flipd(sigma, dimension):
    # at x = (0.1, 0, ...): 5 + s^2 (tr + |s|^2) with tr = -2/(1+s^2) - 3/s^2
    x = torch.zeros(5)
    found = measure_flipd(subspace(2, 5), x, sigma)
    exact = 5.0 - 2.0 * sigma**2 / (1.0 + sigma**2) - 3.0
    assert found.value == pytest.approx(exact, abs=1e-6)
    assert found.value == pytest.approx(dimension, abs=1.1 * sigma**2)


@pytest.mark.parametrize(("sigma", "dimension"), [(0.2, 1.010427), (0.1, 1.002525), (0.05, 1.000627)])
def test_dimension_of_the_circle_by_flipd(sigma, dimension):
    from scipy.special import i0e, i1e

    class Circle:
        frame = two_gaussians(1.0).frame.__class__("circle", (2,), 1e-3, 100.0)

        def denoise(self, y, level):
            r = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
            return y / r * _Ratio.apply(r / level**2)

    class _Ratio(torch.autograd.Function):
        """I1/I0, with its derivative in both modes."""

        generate_vmap_rule = False

        @staticmethod
        def forward(z):
            return torch.from_numpy(i1e(z.detach().numpy()) / i0e(z.detach().numpy()))

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(inputs[0], output)

        @staticmethod
        def jvp(ctx, tangent):
            z, a = ctx.saved_tensors
            return (1.0 - a / z - a * a) * tangent

    assert measure_flipd(Circle(), torch.tensor([1.0, 0.0]), sigma).value == pytest.approx(
        dimension, abs=2e-6
    )


def test_trace_by_probes_has_an_honest_error(generator):
    x = torch.zeros(20)
    exact = measure_flipd(subspace(5, 20), x, 0.1)
    rough = measure_flipd(turned_subspace(5, 20), x, 0.1, probes=200, generator=generator)
    assert exact.error is None
    assert abs(rough.value - exact.value) <= 4.0 * rough.error + 0.05


def turned_subspace(dim, ambient):
    """A subspace turned by a random rotation, so that the trace is not on the diagonal."""
    turn = torch.linalg.qr(torch.randn(ambient, ambient, generator=torch.Generator().manual_seed(1)))[0]
    base = subspace(dim, ambient, width=1e-5).covariances[0]
    return GaussianMixture("turned", torch.ones(1), torch.zeros(1, ambient), (turn @ base @ turn.mT)[None])


def test_dimension_by_the_normal_bundle(generator):
    found = measure_normal_bundle(turned_subspace(5, 20), torch.zeros(20), 0.01, generator=generator)
    assert found.dimension == 5
    assert found.gap > 20.0


def test_both_readings_of_a_dimension_agree_on_a_subspace(generator):
    world, sigma = turned_subspace(5, 20), 0.01
    found = measure_dimension(world, torch.zeros(20), sigma=sigma, generator=generator)
    assert found.ambient == 20
    assert found.normal.dimension == 5
    assert abs(found.flipd.value - 5.0) < 3.0 * found.flipd.error + 0.01
    line = measure_dimension(two_gaussians(0.3), torch.zeros(1))
    assert line.normal is None
    assert line.sigma == pytest.approx(0.1 * two_gaussians(0.3).frame.data_std)


def test_a_slice_through_latents_pulls_features_back(generator):
    model = GaussianMixture(
        "normal", torch.ones(1), torch.zeros(1, 3), torch.diag(torch.tensor([4.0, 1.0, 0.25]))[None]
    )
    plane = latent_slice(model, lambda x: 2.0 * x, generator=generator, steps=60, dtype=torch.float64)
    at = torch.tensor([[0.2, 0.3], [0.7, 0.1]])
    stretch = torch.diag(torch.tensor([2.0, 1.0, 0.5]))  # the flow of a normal is linear
    assert_close(plane.samples(at), plane.decode(at) @ stretch, rtol=1e-2, atol=1e-2)
    jacobian = 2.0 * stretch @ (plane.corners[1:] - plane.corners[0]).mT
    assert_close(matrix(plane.metric(), at), (jacobian.mT @ jacobian).expand(2, 2, 2), rtol=2e-2, atol=1e-2)
    with pytest.raises(ShapeError, match="corners of shape"):
        latent_slice(model, lambda x: x, corners=torch.zeros(2, 3))


def test_what_cannot_be_measured_is_said():
    with pytest.raises(ShapeError, match="8, 16, 32"):
        box_dimension(torch.ones(10, 10, dtype=torch.bool))
    with pytest.raises(SettingError, match="without a marked cell"):
        box_dimension(torch.zeros(16, 16, dtype=torch.bool))
    with pytest.raises(SettingError, match="positive number"):
        two_gaussians(0.0)
    with pytest.raises(SettingError, match="different features"):
        label_phases(torch.zeros(9, 1), 2)
    with pytest.raises(SettingError, match="dimension 2 or more"):
        measure_normal_bundle(two_gaussians(0.5), torch.zeros(1), 0.1)
    with pytest.raises(SettingError, match="at least 5, the dimension"):
        measure_normal_bundle(subspace(2, 5), torch.zeros(5), 0.1, count=4)


@pytest.mark.parametrize("measure", [measure_flipd, measure_normal_bundle])
def test_a_dimension_is_that_of_one_point_at_a_noise_level(measure):
    square = torch.zeros(5, 5)  # as many points as entries: broadcasting would mix them
    with pytest.raises(ShapeError, match=r"^got x of shape \(5, 5\); expected one point of shape \(5,\)"):
        measure(subspace(2, 5), square, 0.1)
    with pytest.raises(SettingError, match=r"^got sigma=-0.1; expected a finite number and above 0"):
        measure(subspace(2, 5), square[0], -0.1)


@pytest.mark.parametrize("unit", [0.01, 100.0])
def test_a_dimension_does_not_depend_on_the_unit_of_the_data(unit):
    def line(factor):
        """Data spread along the first axis, by `factor`."""
        spread = torch.diag(torch.tensor([1.0, 1e-6])) * factor**2
        return GaussianMixture("line", torch.ones(1), torch.zeros(1, 2), spread[None])

    one = measure_dimension(line(1.0), torch.zeros(2), generator=torch.Generator().manual_seed(0))
    other = measure_dimension(line(unit), torch.zeros(2), generator=torch.Generator().manual_seed(0))
    assert other.flipd.value == pytest.approx(one.flipd.value, abs=1e-6)
    assert other.sigma == pytest.approx(unit * one.sigma)
