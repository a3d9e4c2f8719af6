"""The shipped architectures: published sizes, the door for one's own, and what a network can see."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from workbench.architectures import (
    ARCHITECTURES,
    FlatNet,
    architecture_of,
    call_without_time,
    count_parameters,
    embed_grid,
    embed_time,
    load_architecture,
)
from workbench.errors import SettingError, ShapeError


@pytest.mark.parametrize(
    ("name", "count"),
    [("unet16", 381_121), ("unet28", 551_713), ("unet56", 718_049), ("unet32-colour", 719_203)],
)
def test_unet_has_the_published_number_of_parameters(name, count):
    assert count_parameters(load_architecture(name)) == count


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.name)
def test_output_has_the_shape_of_the_input_and_is_not_zero(architecture):
    with torch.no_grad():
        out = FlatNet(architecture).eval()(torch.zeros(2, architecture.dim), torch.tensor([3.0, 700.0]))
    assert out.shape == (2, architecture.dim)
    assert torch.isfinite(out).all()
    if not architecture.name.startswith("linear"):
        assert out.square().mean() > 1e-6


@pytest.mark.parametrize(
    ("name", "blind"), [("unet16", True), ("unet8", True), ("unet8-time", False), ("mlp64", False)]
)
def test_as_many_groups_as_channels_hide_the_time(name, blind):
    architecture = load_architecture(name)
    net = FlatNet(architecture).eval()
    x = torch.randn(1, architecture.dim).expand(2, -1)
    with torch.no_grad():
        early, late = net(x, torch.tensor([0.0, 999.0]))
    assert bool((early - late).norm() < 1e-12 * early.norm()) is blind


def test_a_fresh_transformer_forgets_time_depth_and_input_scale_at_zero():
    architecture = load_architecture("dit8-2")
    net = FlatNet(architecture).eval()
    with torch.no_grad():
        early, late = net(torch.zeros(2, 64), torch.tensor([0.0, 999.0]))
        away = net(torch.ones(1, 64), torch.zeros(1))[0]
    assert_close(early, late, rtol=0, atol=1e-14)
    assert (away - early).norm() > 0.1 * early.norm()


def test_time_features_are_waves_of_the_time():
    features = embed_time(torch.tensor([0.0, 2.0]), 4)
    assert_close(features[0], torch.tensor([1.0, 1.0, 0.0, 0.0]))
    assert_close(features[1], torch.cat([torch.tensor([2.0, 0.02]).cos(), torch.tensor([2.0, 0.02]).sin()]))


def test_grid_features_put_the_column_first():
    grid = embed_grid(2, 3, 8)
    assert grid.shape == (6, 8)
    assert_close(grid[1, :4], torch.cat([torch.tensor([1.0, 0.01]).sin(), torch.tensor([1.0, 0.01]).cos()]))
    assert_close(grid[1, 4:], torch.tensor([0.0, 0.0, 1.0, 1.0]))


def test_any_factory_becomes_an_architecture():
    made = architecture_of(lambda: nn.Conv2d(1, 1, 3, padding=1), shape=(1, 4, 4), call=call_without_time)
    assert (made.name, made.dim) == ("Conv2d", 16)


def _conv_of_random_size():
    return nn.Conv2d(1, 1, int(torch.randint(0, 1000, ())) * 2 + 1, padding="same")


@pytest.mark.parametrize(
    ("factory", "error", "words"),
    [
        (lambda: 3, SettingError, "returns int"),
        (lambda: nn.Conv2d(1, 2, 3, padding=1), ShapeError, "output of shape"),
        (
            lambda: nn.Conv2d(1, 1, int(torch.randint(0, 1000, ())) * 2 + 1, padding="same"),
            ShapeError,
            "differ",
        ),
    ],
)
def test_a_factory_that_cannot_be_used_gets_one_sentence(factory, error, words):
    with pytest.raises(error, match=words):
        architecture_of(factory, shape=(1, 4, 4), call=call_without_time)


def test_the_same_network_twice_is_refused():
    net = nn.Linear(4, 4)
    with pytest.raises(SettingError, match="same network twice"):
        architecture_of(lambda: net, shape=(4,), call=call_without_time)


def test_an_unknown_head_or_name_is_refused():
    with pytest.raises(SettingError, match="dotted name"):
        architecture_of(lambda: nn.Linear(4, 4), shape=(4,), head="no.such", call=call_without_time)
    with pytest.raises(SettingError, match="unet16"):
        load_architecture("resnet")
