"""What every metric promises; runs over the list in `tests.contracts.metrics`."""

import pytest
import torch
from torch.testing import assert_close

from tests.contracts.metrics import metrics
from workbench.metrics import (
    Metric,
    Solvable,
    anisotropy,
    check_positive,
    condition,
    inside,
    lower,
    magnification,
    matrix,
    norm,
)

NAMES = tuple(metrics())


@pytest.fixture(params=NAMES)
def case(request):
    torch.manual_seed(0)
    return metrics()[request.param]


def steps(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(x.shape, generator=generator), torch.randn(x.shape, generator=generator)


def test_it_plays_the_role_and_states_its_chart_and_cost(case):
    metric, x = case
    assert isinstance(metric, Metric)
    assert metric.chart.dim == x.shape[-1]
    assert metric.name
    assert metric.chart.name
    assert metric.calls >= 0.0


def test_inner_product_is_symmetric_and_linear(case):
    metric, x = case
    u, v = steps(x)
    assert_close(metric.inner(x, u, v), metric.inner(x, v, u), rtol=1e-10, atol=1e-12)
    both = metric.inner(x, 2.0 * u - 3.0 * v, v)
    assert_close(both, 2.0 * metric.inner(x, u, v) - 3.0 * metric.inner(x, v, v), rtol=1e-9, atol=1e-10)


def test_it_is_positive_on_its_domain(case):
    metric, x = case
    u, _ = steps(x)
    assert bool(inside(metric, x).all())
    assert bool((norm(metric, x, u) > 0.0).all())
    check_positive(metric, x)


def test_matrix_is_the_inner_product(case):
    metric, x = case
    u, v = steps(x)
    g = matrix(metric, x)
    assert_close(g, g.mT, rtol=0.0, atol=1e-12)
    assert_close(torch.einsum("ni,nij,nj->n", u, g, v), metric.inner(x, u, v), rtol=1e-9, atol=1e-11)


def test_lowering_and_raising_an_index_undo_each_other(case):
    metric, x = case
    u, _ = steps(x)
    lowered = lower(metric, x, u)
    assert_close(lowered, (matrix(metric, x) @ u.unsqueeze(-1)).squeeze(-1), rtol=1e-9, atol=1e-11)
    if isinstance(metric, Solvable):
        assert_close(metric.raise_index(x, lowered), u, rtol=1e-8, atol=1e-10)


def test_batch_equals_loop(case):
    metric, x = case
    u, v = steps(x)
    one_by_one = torch.stack([metric.inner(x[i], u[i], v[i]) for i in range(len(x))])
    assert_close(metric.inner(x, u, v), one_by_one, rtol=1e-10, atol=1e-12)
    deep = metric.inner(x[:, None], u[:, None], v[:, None])
    assert deep.shape == (len(x), 1)
    assert_close(deep[:, 0], one_by_one, rtol=1e-10, atol=1e-12)


def test_derivative_in_the_point_is_the_finite_difference(case):
    metric, x = case
    u, direction = steps(x)
    y = x.clone().requires_grad_()
    value = metric.inner(y, u, u).sum()
    if not value.requires_grad:
        slope = torch.tensor(0.0)  # a constant metric
    else:
        (gradient,) = torch.autograd.grad(value, y)
        slope = (gradient * direction).sum()
    h = 1e-5
    ahead, behind = (metric.inner(x + s * h * direction, u, u).sum() for s in (1.0, -1.0))
    assert_close(slope, (ahead - behind) / (2.0 * h), rtol=1e-5, atol=1e-7)


def test_readings_agree_with_the_eigenvalues(case):
    metric, x = case
    values = torch.linalg.eigvalsh(matrix(metric, x))
    assert_close(magnification(metric, x), values.prod(dim=-1).sqrt(), rtol=1e-8, atol=0.0)
    assert_close(condition(metric, x), values[:, -1] / values[:, 0], rtol=1e-8, atol=0.0)
    share = anisotropy(metric, x)
    assert bool(((share >= 0.0) & (share <= 1.0 + 1e-12)).all())
