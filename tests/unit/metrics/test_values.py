"""Metrics against formulas: pullbacks, Fisher metrics, spacetime, the Hessian test of a chart."""

import math

import pytest
import torch
from torch.testing import assert_close

from tests.contracts.metrics import curved_map, metrics, mixture, normal, sphere_map
from tests.oracles import fisher as oracle
from workbench.errors import SettingError, ShapeError
from workbench.metrics import (
    Chart,
    Euclidean,
    MatrixMetric,
    Pullback,
    RankOneScore,
    Scaled,
    Spacetime,
    Sum,
    check_positive,
    condition,
    decoder_metric,
    density_metric,
    derivatives,
    families,
    hessian,
    hessian_residual,
    in_coordinates,
    magnification,
    matrix,
    mean_coordinates,
    natural_of,
    spacetime_energy,
)

PLANE = Chart("plane", 2, ("x", "y"))


def test_sphere_pullback_and_the_gradient_of_its_inner_product():
    x = torch.tensor([[1.0, 0.3], [0.4, 2.0]], requires_grad=True)
    metric = Pullback(sphere_map, Chart("angles", 2))
    assert_close(matrix(metric, x)[:, 1, 1], torch.sin(x[:, 0]) ** 2, rtol=0.0, atol=1e-14)
    v = torch.tensor([0.0, 1.3]).expand(2, 2)
    (slope,) = torch.autograd.grad(metric.inner(x, v, v).sum(), x)
    assert_close(slope[:, 0], 2.0 * torch.sin(x[:, 0]) * torch.cos(x[:, 0]) * 1.3**2, rtol=0.0, atol=1e-13)


def test_uncertainty_of_a_decoder_adds_its_own_pullback():
    z = torch.tensor([[0.3, -0.2]])

    def deviation(z):
        return torch.exp(z)

    both = matrix(decoder_metric(curved_map, PLANE, deviation=deviation), z)
    parts = matrix(decoder_metric(curved_map, PLANE), z) + torch.diag_embed(torch.exp(2.0 * z))
    assert_close(both, parts, rtol=0.0, atol=1e-14)


def test_output_fisher_is_the_expected_outer_product_of_the_score():
    z = torch.tensor([0.4, -0.7])

    def decoder(z):
        return torch.sigmoid(curved_map(z))

    expected = torch.zeros(2, 2)
    for bits in torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3):

        def log_prob(z, bits=bits):
            return (bits * decoder(z).log() + (1 - bits) * (1 - decoder(z)).log()).sum()

        slope = torch.func.grad(log_prob)(z)
        expected += log_prob(z).exp() * torch.outer(slope, slope)
    assert_close(matrix(Pullback(decoder, PLANE, families.bernoulli(3)), z), expected, rtol=1e-12, atol=1e-14)
    assert_close(
        matrix(Pullback(curved_map, PLANE, families.bernoulli_logits(3)), z), expected, rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize(
    ("name", "residual"),
    [
        ("sphere", math.sqrt(2.0 / 3.0)),
        ("natural Gaussian", 0.0),
        ("beta", 0.0),
        ("Burg", 0.0),
        ("one spin", 0.0),
    ],
)
def test_hessian_residual(name, residual):
    metric, x = metrics()[name]
    assert_close(hessian_residual(metric, x), torch.full((len(x),), residual), rtol=0.0, atol=1e-7)


def test_what_breaks_the_symmetry_of_the_derivatives():
    sphere = derivatives(Pullback(sphere_map, Chart("angles", 2)), torch.tensor([1.0, 0.3]))
    assert_close(sphere[1, 0, 1] - sphere[0, 1, 1], torch.tensor(-2.0 * math.sin(1.0) * math.cos(1.0)))
    gaussian = derivatives(families.gaussian(), torch.tensor([1.0, 0.5]))
    assert_close(gaussian[1, 0, 0] - gaussian[0, 0, 1], torch.tensor(-2.0 / 0.5**3))


def test_a_chart_of_log_rates_makes_the_burg_metric_flat():
    flat = in_coordinates(hessian.burg(), torch.exp, Chart("logs", 2))
    assert_close(matrix(flat, torch.randn(5, 2)), torch.eye(2).expand(5, 2, 2), rtol=0.0, atol=1e-13)


def test_dual_coordinates_of_a_gaussian_are_its_moments_and_lead_back():
    metric = hessian.gaussian_natural()
    mu, s = torch.tensor([0.3, -1.0]), torch.tensor([0.5, 2.0])
    t = torch.stack((mu / s**2, -0.5 / s**2), dim=-1)
    eta = metric.dual(t)
    assert_close(eta, torch.stack((mu, mu**2 + s**2), dim=-1), rtol=1e-12, atol=1e-14)
    assert_close(natural_of(metric, eta, torch.tensor([[0.0, -1.0], [0.0, -1.0]])), t, rtol=1e-9, atol=1e-12)


def test_divergence_is_the_relative_entropy():
    metric = hessian.gaussian_natural()
    t1, t2 = torch.tensor([1.0, -0.5]), torch.tensor([0.2, -2.0])
    kl = math.log(1.0 / 0.5) + (0.25 + (0.05 - 1.0) ** 2) / 2.0 - 0.5  # KL(N(.05, .5) || N(1, 1))
    assert_close(metric.divergence(t1, t2), torch.tensor(kl), rtol=1e-12, atol=1e-14)


TABLE = [
    ((0.0, 0.0), (0.27137358, 0.83585093), (1.52441463, -0.066499334, 0.430688189)),
    ((1.0, -2.0), (1.27785535, 3.82213638), (0.336375992, 0.093070269, 0.070815374)),
    ((0.3, 4.0), (0.30950493, 0.1135765), (53.981913213, -0.510461442, 0.476330588)),
]


@pytest.mark.parametrize(("point", "moments", "entries"), TABLE)
def test_spacetime_metric_against_the_table_and_quadrature(point, moments, entries):
    z = torch.tensor(point)
    g = matrix(Spacetime(mixture()), z)
    assert_close(mean_coordinates(mixture(), z), torch.tensor(moments), rtol=0.0, atol=6e-9)
    assert_close(g[(0, 0, 1), (0, 1, 1)], torch.tensor(entries), rtol=2e-8, atol=1e-9)
    assert_close(g, torch.from_numpy(oracle.spacetime_metric(*point)), rtol=1e-6, atol=1e-8)


def test_divergence_of_the_posterior_mean_by_one_probe_is_exact_on_a_line():
    z = torch.tensor([[0.4, 1.0], [-1.0, 2.0]])
    assert_close(mean_coordinates(mixture(), z, torch.tensor([-1.0])), mean_coordinates(mixture(), z))


def test_spacetime_energy_of_a_constant_curve_vanishes_and_is_quadratic_for_short_ones():
    z = torch.tensor([0.4, 1.0])
    step = torch.tensor([1.0, -0.5]) * 1e-4
    curve = z + torch.linspace(-0.5, 0.5, 5)[:, None] * step
    metric = Spacetime(mixture())
    assert_close(spacetime_energy(mixture(), curve), metric.inner(z, step, step), rtol=1e-6, atol=0.0)


def test_score_metric_is_the_graph_of_the_log_density():
    x = torch.tensor([[0.3, -0.7]])
    graph = Pullback(
        lambda x: torch.cat((x, 2.0 * normal(2).log_prob(x, 0.0).unsqueeze(-1)), dim=-1), Chart("plane", 2)
    )
    assert_close(matrix(RankOneScore(normal(2), 0.0, 4.0), x), matrix(graph, x), rtol=0.0, atol=1e-13)


def test_density_metric_of_a_normal():
    x = torch.tensor([[0.3, -0.7]])
    p = torch.exp(-0.5 * x.square().sum(dim=-1)) / (2.0 * math.pi)
    assert_close(magnification(density_metric(normal(2), 0.0), x), 1.0 / p, rtol=1e-12, atol=0.0)


def saddle(x):
    return torch.diag_embed(torch.stack((torch.ones_like(x[..., 0]), x[..., 0]), dim=-1))


def test_an_indefinite_metric_is_refused_at_its_point():
    metric = MatrixMetric(saddle, PLANE, "saddle")
    check_positive(metric, torch.tensor([[0.5, 0.0]]))
    with pytest.raises(SettingError, match=r"an indefinite metric saddle at \(-0.25, 3\)"):
        check_positive(metric, torch.tensor([[0.5, 0.0], [-0.25, 3.0]]))
    with pytest.raises(SettingError, match=r"a singular metric"):
        check_positive(metric, torch.tensor([[0.0, 1.0]]))
    check_positive(metric, torch.tensor([[0.0, 1.0]]), strict=False)
    check_positive(Sum(metric, Scaled(Euclidean(PLANE), 1.0)), torch.tensor([[-0.25, 3.0]]))


def test_points_outside_the_domain_and_of_another_chart_are_named():
    with pytest.raises(SettingError, match=r"\(0.3, -1\) outside the domain"):
        check_positive(families.gaussian(), torch.tensor([[0.3, -1.0]]))
    with pytest.raises(ShapeError, match="3 coordinates"):
        check_positive(families.gaussian(), torch.zeros(2, 3))


def test_the_dense_path_ends_at_sixteen_dimensions():
    with pytest.raises(SettingError, match="17 dimensions; expected at most 16"):
        condition(Euclidean(Chart("many", 17)), torch.zeros(17))
    assert Euclidean(Chart("many", 400)).inner(torch.zeros(400), torch.ones(400), torch.ones(400)) == 400.0


@pytest.mark.parametrize("layer", [torch.nn.ReLU(), torch.nn.LeakyReLU()])
def test_a_potential_without_second_derivative_is_refused(layer):
    with pytest.raises(SettingError, match=f"piecewise linear {type(layer).__name__}"):
        hessian.check_smooth(torch.nn.Sequential(torch.nn.Linear(2, 8), layer, torch.nn.Linear(8, 1)))
    hessian.check_smooth(torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Softplus()))


class Counted:
    """A map that notes how many points it is evaluated at."""

    def __init__(self, function):
        self.function, self.points = function, []

    def __call__(self, x):
        self.points.append(x.shape[0])
        return self.function(x)


def test_all_directions_of_a_pullback_share_one_evaluation():
    seen = Counted(lambda x: torch.sin(x @ torch.arange(6.0).reshape(2, 3)))
    x = torch.tensor([[0.1, 0.2], [0.3, -0.4], [1.0, 0.5]])
    found = matrix(Pullback(seen, Chart("plane", 2)), x)
    assert seen.points == [3]
    jacobian = torch.func.vmap(torch.func.jacrev(lambda y: seen.function(y[None])[0]))(x)
    assert_close(found, jacobian.mT @ jacobian, rtol=1e-12, atol=1e-12)


def test_a_map_that_reads_numbers_off_its_directions_is_pulled_back_too():
    def awkward(x):
        y = x.clone()
        for row in range(x.shape[0]):  # writes single entries, which cannot be mapped over directions
            y[row, 0] = x[row, 1] * x[row, 0]
        return y

    x = torch.tensor([[0.1, 0.2], [0.3, -0.4]])
    found = matrix(Pullback(awkward, Chart("plane", 2)), x)
    rows = torch.stack((torch.stack((x[:, 1], x[:, 0]), 1), torch.tensor([[0.0, 1.0]]).expand(2, 2)), 1)
    assert_close(found, rows.mT @ rows, rtol=1e-12, atol=1e-12)
