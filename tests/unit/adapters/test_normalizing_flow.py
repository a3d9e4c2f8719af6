"""Normalizing flows of zuko: the density by the change of variables, its force, and its latent space."""

import json
import math

import pytest
import torch
import zuko
from safetensors.torch import save_file
from torch.testing import assert_close

from workbench import open_model
from workbench.decoders import Autoencoder
from workbench.errors import DataError, MissingExtra, SettingError
from workbench.models import Landscape, ScoreModel, landscape_of

MAKERS = {
    "autoregressive": lambda context=0: zuko.flows.MAF(2, context, transforms=2, hidden_features=(16,)),
    "spline": lambda context=0: zuko.flows.NSF(2, context, transforms=2, bins=4, hidden_features=(16,)),
    "coupling": lambda context=0: zuko.flows.NICE(2, context, transforms=2, hidden_features=(16,)),
}


def made(name, context=0):
    torch.manual_seed(3)
    return MAKERS[name](context)


@pytest.mark.parametrize("name", MAKERS)
def test_the_density_is_the_change_of_variables(name):
    density = open_model(made(name), dtype="float64")
    x = torch.randn(7, 2)
    jacobian = torch.stack([torch.func.jacrev(density.coder.encode)(row) for row in x])
    z = density.coder.encode(x)
    normal = -0.5 * z.square().sum(-1) - math.log(2 * math.pi)
    assert_close(density.log_prob(x), normal + jacobian.slogdet()[1], rtol=1e-9, atol=1e-9)
    assert_close(density.energy(x), -density.log_prob(x), rtol=0, atol=0)


@pytest.mark.parametrize("name", MAKERS)
def test_the_force_is_its_gradient_and_can_be_differentiated(name):
    density = open_model(made(name), dtype="float64")
    x = torch.randn(4, 2)
    step = 1e-5 * torch.eye(2)
    slope = [(density.log_prob(x + h) - density.log_prob(x - h)) / 2e-5 for h in step]
    assert_close(density.force(x), torch.stack(slope, dim=-1), rtol=1e-5, atol=1e-6)
    y = x.clone().requires_grad_()
    (curvature,) = torch.autograd.grad(density.force(y)[:, 0].sum(), y)
    assert torch.isfinite(curvature).all()


def test_the_density_integrates_to_one():
    density = open_model(made("spline"), dtype="float64")
    axis = torch.linspace(-9, 9, 301)
    with torch.no_grad():
        total = density.log_prob(torch.cartesian_prod(axis, axis)).exp().sum() * float(axis[1] - axis[0]) ** 2
    assert float(total) == pytest.approx(1.0, abs=1e-3)


def test_its_latent_space_goes_both_ways():
    density = open_model(made("spline"), dtype="float64")
    assert isinstance(density.coder, Autoencoder)
    z = torch.randn(5, 2)
    assert_close(density.coder.encode(density.coder.decode(z)), z, rtol=1e-6, atol=1e-6)


def test_it_is_a_landscape_and_no_score_model():
    density = open_model(made("spline"))
    assert isinstance(density, Landscape)
    assert not isinstance(density, ScoreModel)
    assert landscape_of(density) is density
    assert density.unit == "nats"


def test_draws_follow_the_generator_and_nothing_else():
    density = open_model(made("spline"), dtype="float64")
    first = density.sample(50, generator=torch.Generator().manual_seed(1))
    torch.randn(3)
    assert_close(density.sample(50, generator=torch.Generator().manual_seed(1)), first, rtol=0, atol=0)


def test_a_context_is_a_condition():
    flow = made("autoregressive", 1)
    x = torch.randn(3, 2)
    low, high = (open_model(flow, condition=[c], dtype="float64") for c in (-1.0, 1.0))
    assert not torch.allclose(low.log_prob(x), high.log_prob(x))
    with torch.no_grad():
        expected = flow.double()(torch.tensor([1.0])).log_prob(x)
    assert_close(high.log_prob(x), expected, rtol=1e-9, atol=1e-9)


def save(folder, **facts):
    weights = {key: value.float().contiguous() for key, value in made("spline").state_dict().items()}
    save_file(weights, folder / "flow.safetensors")
    (folder / "flow.json").write_text(json.dumps(facts))
    return folder / "flow.safetensors"


ARGUMENTS = {"flow": "NSF", "features": 2, "transforms": 2, "bins": 4, "hidden_features": [16]}


def test_weights_open_with_their_arguments_beside_them(tmp_path):
    density = open_model(save(tmp_path, kind="zuko", arguments=ARGUMENTS), dtype="float64")
    x = torch.randn(3, 2)
    expected = open_model(made("spline"), dtype="float64").log_prob(x)
    assert_close(density.log_prob(x), expected, rtol=1e-5, atol=1e-5)
    assert density.name == "flow"


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, SettingError, "the name of a flow"),
        ({"flow": "Flow"}, DataError, "weights of that flow"),
        ({**ARGUMENTS, "bins": 5}, DataError, "weights of that flow"),
    ],
)
def test_arguments_that_do_not_fit_are_named(tmp_path, arguments, error, words):
    with pytest.raises(error, match=words):
        open_model(save(tmp_path, kind="zuko", arguments=arguments))


def test_the_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zuko", None)
    with pytest.raises(MissingExtra, match=r"latent-workbench\[models\]"):
        open_model(torch.nn.Identity(), kind="zuko")
