"""Preconditioning against its formula, derivatives against differences, conditions and chunks as laws."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import grad, jvp, vjp, vmap

from tests.oracles import nets as oracle
from workbench.errors import SettingError
from workbench.models import Frame, score
from workbench.nets import Denoiser, Mlp, NetModel, UNet, given

NAMES = ("zero", "one", "two")


def make_model(kind: str) -> NetModel:
    """A network with random, nonzero weights everywhere."""
    inner = Mlp(16, 32, 2, classes=3) if kind == "mlp" else UNet(8, 8, 16, classes=3, features=32)
    net = Denoiser(inner, classes=3, data_std=0.6)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    shape = (16,) if kind == "mlp" else (1, 8, 8)
    frame = Frame("net", shape, 0.002, 80.0, (-1.0, 1.0), data_std=0.6, classes=NAMES)
    return NetModel(net.eval().requires_grad_(False), frame, 3)


@pytest.fixture(params=["mlp", "unet"])
def model(request) -> NetModel:
    """Both kinds of network."""
    return make_model(request.param)


def points_of(model: NetModel, *batch: int) -> torch.Tensor:
    return torch.randn(
        *batch, model.frame.dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )


@pytest.mark.parametrize("sigma", [0.01, 0.6, 40.0])
def test_denoiser_is_the_published_preconditioning_of_its_inner_network(model, sigma):
    y = points_of(model, 1)

    def inner(x, c_noise):
        return model.net.inner(torch.as_tensor(x), torch.tensor([c_noise]), torch.tensor([3])).numpy()

    expected = oracle.edm_denoised(inner, y.numpy(), sigma, 0.6)
    torch.testing.assert_close(model.denoise(y, sigma), torch.as_tensor(expected), rtol=1e-12, atol=1e-12)


def test_fresh_network_is_the_best_linear_denoiser():
    net = Denoiser(UNet(8, 8, 16, classes=0), data_std=0.6)
    y, sigma = torch.randn(4, 64), torch.tensor([0.1, 0.5, 1.0, 5.0])
    expected = 0.36 / (0.36 + sigma[:, None] ** 2) * y
    torch.testing.assert_close(net(y, sigma, torch.zeros(4, dtype=torch.int64)), expected)


def test_at_zero_noise_the_denoiser_is_the_identity(model):
    y = points_of(model, 2)
    torch.testing.assert_close(model.denoise(y, 0.0), y, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("sigma", [0.05, 0.5, 5.0])
def test_jvp_is_the_derivative(model, sigma):
    y, v = points_of(model, 2, 3).unbind(0)
    _, tangent = jvp(lambda x: model.denoise(x, sigma), (y,), (v,))
    h = 1e-5
    difference = (model.denoise(y + h * v, sigma) - model.denoise(y - h * v, sigma)) / (2 * h)
    torch.testing.assert_close(tangent, difference, rtol=1e-7, atol=1e-8)


def test_derivative_in_sigma(model):
    y, sigma, h = points_of(model, 3), torch.tensor([0.1, 0.7, 3.0]), 1e-6
    _, tangent = jvp(lambda s: model.denoise(y, s), (sigma,), (torch.ones(3),))
    difference = (model.denoise(y, sigma + h) - model.denoise(y, sigma - h)) / (2 * h)
    torch.testing.assert_close(tangent, difference, rtol=1e-6, atol=1e-7)


def test_vjp_is_the_transpose_of_jvp(model):
    y, v, w = points_of(model, 3, 2).unbind(0)
    _, tangent = jvp(lambda x: model.denoise(x, 0.4), (y,), (v,))
    _, pull = vjp(lambda x: model.denoise(x, 0.4), y)
    torch.testing.assert_close((pull(w)[0] * v).sum(), (w * tangent).sum(), rtol=1e-11, atol=1e-12)


def test_vmap_over_directions_equals_a_loop(model):
    y, *directions = points_of(model, 4, 2).unbind(0)
    along = torch.stack(directions)
    together = vmap(lambda v: jvp(lambda x: model.denoise(x, 0.4), (y,), (v,))[1])(along)
    loop = torch.stack([jvp(lambda x: model.denoise(x, 0.4), (y,), (v,))[1] for v in directions])
    torch.testing.assert_close(together, loop, rtol=1e-11, atol=1e-12)


def test_gradient_of_a_jvp(model):
    y, v, w = points_of(model, 3, 1).unbind(0)

    def stretch(x):
        return jvp(lambda z: model.denoise(z, 0.4), (x,), (v,))[1].square().sum()

    h = 1e-5
    difference = (stretch(y + h * w) - stretch(y - h * w)) / (2 * h)
    torch.testing.assert_close((grad(stretch)(y) * w).sum(), difference, rtol=1e-6, atol=1e-8)


def test_float32_agrees_with_float64(model):
    y = points_of(model, 4)
    single = replace(model, net=deepcopy(model.net).float())
    torch.testing.assert_close(single.denoise(y, 0.5), model.denoise(y, 0.5), rtol=1e-4, atol=1e-4)
    assert single.denoise(y, 0.5).dtype == torch.float64


def test_batch_equals_loop_and_keeps_every_axis(model):
    y, sigma = points_of(model, 2, 1, 3), torch.tensor([[[0.1, 0.5, 2.0]]])
    together = model.denoise(y, sigma)
    loop = torch.stack([model.denoise(y[i, 0, j], sigma[0, 0, j]) for i in range(2) for j in range(3)])
    torch.testing.assert_close(together, loop.reshape(y.shape), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("memory", [1, 60_000, 2**28])
def test_memory_budget_does_not_change_the_answer(model, memory):
    y = points_of(model, 7)
    torch.testing.assert_close(
        replace(model, memory=memory).denoise(y, 0.4), model.denoise(y, 0.4), rtol=1e-11, atol=1e-12
    )


def test_memory_budget_bounds_the_points_of_a_pass(model):
    sizes = []
    hook = model.net.register_forward_hook(lambda module, inputs, output: sizes.append(len(inputs[0])))
    replace(model, memory=3 * 8 * model.net.inner.entries_a_point).denoise(points_of(model, 7), 0.4)
    hook.remove()
    assert sizes == [3, 3, 1]


def test_null_class_is_the_default_and_conditions_differ(model):
    y = points_of(model, 2)
    assert model.frame.condition is None
    torch.testing.assert_close(
        given(given(model, 1), None).denoise(y, 0.4), model.denoise(y, 0.4), rtol=0, atol=0
    )
    assert not torch.allclose(given(model, 1).denoise(y, 0.4), model.denoise(y, 0.4))
    assert given(model, "two").frame.condition == given(model, 2).frame.condition == "two"
    torch.testing.assert_close(
        given(model, "two").denoise(y, 0.4), given(model, 2).denoise(y, 0.4), rtol=0, atol=0
    )


def test_guidance_extrapolates_and_says_so(model):
    y = points_of(model, 2)
    guided = given(model, 1, guidance=1.5)
    bound, null = given(model, 1).denoise(y, 0.4), model.denoise(y, 0.4)
    torch.testing.assert_close(guided.denoise(y, 0.4), 2.5 * bound - 1.5 * null, rtol=1e-11, atol=1e-11)
    assert str(guided.frame) == "net given one, guidance 1.5"
    assert given(model, 1).frame.guidance == 0.0


@pytest.mark.parametrize("condition", [3, -1, "four"])
def test_unknown_condition_is_one_sentence(condition):
    with pytest.raises(
        SettingError, match=r"got condition .* expected .*zero, one, two.*; try condition=None"
    ):
        given(make_model("mlp"), condition)


def test_guidance_needs_a_condition(model):
    with pytest.raises(SettingError, match=r"got guidance 2 without a condition; .* try condition=0"):
        given(model, None, guidance=2.0)


def test_score_of_a_network(model):
    y = points_of(model, 2)
    expected = (model.denoise(y, 0.3) - y) / 0.09
    torch.testing.assert_close(score(model, y, 0.3), expected, rtol=1e-12, atol=1e-12)


def test_no_gradient_reaches_the_weights(model):
    y = points_of(model, 2).requires_grad_()
    model.denoise(y, 0.4).sum().backward()
    assert y.grad is not None
    assert all(parameter.grad is None for parameter in model.net.parameters())
    assert np.isfinite(y.grad.numpy()).all()
