"""Leading directions by random blocks against the dense singular value decomposition; fused attention."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from workbench.errors import SettingError, ShapeError
from workbench.metrics import (
    Chart,
    Pullback,
    bottleneck_metric,
    families,
    top_directions,
    with_math_attention,
)


def decaying_map(dim=60, out=90):
    generator = torch.Generator().manual_seed(3)
    left = torch.linalg.qr(torch.randn(out, dim, generator=generator))[0]
    right = torch.linalg.qr(torch.randn(dim, dim, generator=generator))[0]
    weights = left * 0.7 ** torch.arange(dim) @ right
    return lambda x: torch.tanh(x @ weights.mT) + 0.1 * (x @ weights.mT)


def test_leading_directions_of_a_wide_jacobian(generator):
    function, x = decaying_map(), 0.1 * torch.randn(60, generator=generator)
    found = top_directions(Pullback(function, Chart("x", 60)), x, 5, generator=generator)
    _, values, right = torch.linalg.svd(torch.func.jacfwd(function)(x), full_matrices=False)
    assert_close(found.values, values[:5], rtol=1e-4, atol=0.0)
    overlap = torch.linalg.svdvals(found.directions @ right[:5].mT)
    assert bool((overlap > 1.0 - 1e-4).all())
    assert found.products == 13 * 2 + 5
    assert float(found.residual.max()) < 1e-3


def test_all_directions_are_exact(generator):
    function, x = decaying_map(6, 9), torch.randn(6, generator=generator)
    found = top_directions(Pullback(function, Chart("x", 6)), x, 6, generator=generator)
    assert_close(found.values, torch.linalg.svdvals(torch.func.jacfwd(function)(x)), rtol=1e-10, atol=0.0)
    assert_close(found.directions @ found.directions.mT, torch.eye(6), rtol=0.0, atol=1e-12)
    assert float(found.residual.max()) < 1e-12


def test_what_does_not_fit_is_refused():
    metric = Pullback(torch.sin, Chart("x", 3))
    with pytest.raises(ShapeError, match="one point"):
        top_directions(metric, torch.zeros(2, 3), 1)
    with pytest.raises(SettingError, match="1 to 3 directions"):
        top_directions(metric, torch.zeros(3), 4)
    with pytest.raises(SettingError, match="Euclidean output"):
        top_directions(Pullback(torch.sigmoid, Chart("x", 3), families.bernoulli(3)), torch.zeros(3), 1)


def test_the_bottleneck_of_a_network_has_its_own_metric():
    network = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).eval()
    metric = bottleneck_metric(network, network[1], network, Chart("input", 3))
    x = torch.randn(4, 3)
    jacobian = torch.stack([torch.func.jacfwd(lambda y: torch.tanh(network[0](y)))(row) for row in x])
    assert_close(metric.matrix(x), jacobian.mT @ jacobian)
    with pytest.raises(SettingError, match="not part"):
        bottleneck_metric(network, torch.nn.Tanh(), network, Chart("input", 3))
    with pytest.raises(SettingError, match="training mode"):
        bottleneck_metric(network.train(), network[1], network, Chart("input", 3))


def attention(x):
    heads = x.reshape(-1, 1, 4, 2)
    return F.scaled_dot_product_attention(heads, heads, heads).flatten(1)


@pytest.mark.parametrize("double_backward", [False, True])
def test_fused_attention_is_caught_and_the_way_out_works(double_backward):
    x = torch.randn(3, 8)
    with pytest.raises(SettingError, match="with_math_attention"):
        Pullback(attention, Chart("x", 8), double_backward=double_backward).matrix(x)
    found = Pullback(with_math_attention(attention), Chart("x", 8), double_backward=double_backward).matrix(x)

    def plain(row):
        heads = row.reshape(4, 2)
        return (torch.softmax(heads @ heads.mT / 2.0**0.5, dim=-1) @ heads).flatten()

    jacobian = torch.stack([torch.func.jacfwd(plain)(row) for row in x])
    assert_close(found, jacobian.mT @ jacobian, rtol=1e-9, atol=1e-12)
