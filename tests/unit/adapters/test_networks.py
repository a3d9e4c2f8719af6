"""The network behind an opened model, and copies of it asked in the adapter's own way."""

import copy

import diffusers
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from workbench import open_model
from workbench.adapters.effects import with_autocast, with_compile
from workbench.adapters.wrap import wrap
from workbench.anisotropy.levels import Levels, weight_of
from workbench.architectures import reset_architecture
from workbench.errors import SettingError
from workbench.lenses.anisotropy import find_directions
from workbench.schedules import LINEAR, VP_COSINE


class Conditioned(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x, t, condition):
        return self.layer(x) + t[:, None] + (0.0 if condition is None else condition)


class Field(nn.Module):
    def __init__(self, first="x"):
        super().__init__()
        self.layer, self.first = nn.Linear(2, 2), first

    def forward(self, x, t):
        return self.layer(x) + t[:, None]


def opened(**settings):
    return {
        "module": open_model(
            Conditioned(), prediction="eps", schedule=VP_COSINE, shape=(2,), dtype="float64", **settings
        ),
        "two arguments": open_model(
            Field(), prediction="eps", schedule=VP_COSINE, shape=(2,), dtype="float64", **settings
        ),
        "field": open_model(Field(), kind="torchcfm", shape=(2,), dtype="float64", **settings),
    }


@pytest.mark.parametrize("option", ["plain", "compiled", "autocast"])
@pytest.mark.parametrize("kind", ["module", "two arguments", "field"])
def test_a_copy_with_the_same_weights_answers_the_same(kind, option):
    model = opened()[kind]
    changed = {
        "plain": lambda: model,
        "compiled": lambda: with_compile(model, backend="eager")[0],
        "autocast": lambda: with_autocast(model, torch.bfloat16)[0],
    }[option]()
    x = torch.randn(3, 2)
    told, a, s = changed.met_at(torch.tensor([0.1, 1.0, 5.0]))
    assert_close(s / a, torch.tensor([0.1, 1.0, 5.0]), rtol=1e-10, atol=0.0)
    expected = model.module(x, told, None)
    twin = copy.deepcopy(changed.network)
    assert_close(changed.ask_network(twin, x, told), expected, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        twin.layer.bias += 1.0
    assert_close(changed.ask_network(twin, x, told), expected + 1.0, rtol=1e-12, atol=1e-12)


def test_the_bound_condition_is_asked():
    model = opened()["module"]
    x, t = torch.zeros(1, 2), torch.zeros(1)
    gap = model.given(2.0).ask_network(model.network, x, t) - model.ask_network(model.network, x, t)
    assert_close(gap, torch.full((1, 2), 2.0), rtol=0.0, atol=1e-12)


def test_a_function_holds_no_network():
    assert wrap(lambda x, t, c: x, prediction="x0", schedule=LINEAR, shape=(2,)).network is None


class Foreign:
    """Somebody's own callable around a network; how it asks it is its own business."""

    def __init__(self):
        self.network = torch.nn.Linear(2, 2)

    def __call__(self, x, t, condition):
        return self.network(x)


def test_a_foreign_callable_around_a_network_is_no_holder_and_says_so():
    model = wrap(Foreign(), prediction="x0", schedule=LINEAR, shape=(2,))
    assert model.network is None
    with pytest.raises(SettingError, match=r"got .*no network is known"):
        model.ask_network(torch.nn.Linear(2, 2), torch.zeros(1, 2), torch.zeros(1))


def test_a_pipelines_network_starts_anew_and_is_asked_in_batches_of_networks():
    unet = diffusers.UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        block_out_channels=(8, 8),
        norm_num_groups=4,
        layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        num_class_embeds=3,
    )
    pipeline = diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler())
    model = open_model(pipeline, condition=1)
    assert type(model.network) is type(unet)
    told, a, s = model.met_at(torch.tensor([0.1, 1.0, 10.0]))
    architecture = reset_architecture(
        model.network, shape=model.frame.shape, prediction=model.prediction, call=model.ask_network
    )
    levels = Levels("three", "eps", told, a, s, weight_of("eps", a, s))
    found = find_directions(architecture, levels=levels, networks=6, seed=0, tol=10.0)
    assert found.geometry.dim == 64
    assert torch.isfinite(found.vectors).all()
