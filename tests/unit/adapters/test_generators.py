"""Decoders and GANs: the DCGAN layout from its state dict, callables, the pullback without a score."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from workbench import open_model
from workbench.adapters.latents import generator_of
from workbench.decoders import Autoencoder, Decoder
from workbench.errors import DataError, SettingError, ShapeError
from workbench.metrics import Chart, decoder_metric


def published(latents=7, width=4, channels=3, bias=False):
    """The generator of the paper at a tiny width: 32 x 32 pictures."""
    torch.manual_seed(0)
    made = nn.Sequential(
        nn.ConvTranspose2d(latents, 4 * width, 4, 1, 0, bias=bias),
        nn.BatchNorm2d(4 * width),
        nn.ReLU(True),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=bias),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(True),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=bias),
        nn.BatchNorm2d(width),
        nn.ReLU(True),
        nn.ConvTranspose2d(width, channels, 4, 2, 1, bias=bias),
        nn.Tanh(),
    )
    made(torch.randn(16, latents, 1, 1))  # so that the running statistics are not trivial
    return made.eval()


@pytest.mark.parametrize("layout", ["main.", "module.main.", "netG", "G"])
@pytest.mark.parametrize("bias", [False, True])
def test_a_dcgan_opens_from_its_state_dict(tmp_path, layout, bias):
    network = published(bias=bias)
    tensors = network.state_dict()
    if layout.endswith("."):
        content = {layout + name: one for name, one in tensors.items()}
    else:
        key = {"netG": "netG_state_dict", "G": "generator"}[layout]
        content = {key: {f"main.{name}": one for name, one in tensors.items()}, "optimizer": {"step": 3}}
    torch.save(content, tmp_path / "weights.tar")
    decoder = open_model(tmp_path / "weights.tar", dtype="float64")
    assert isinstance(decoder, Decoder)
    assert not isinstance(decoder, Autoencoder)
    assert decoder.latent_shape == (7,)
    assert decoder.picture.shape == (3, 32, 32)
    z = torch.randn(3, 7)
    with torch.no_grad():
        expected = network(z[..., None, None]).flatten(1)
    assert_close(decoder.decode(z), expected, rtol=1e-9, atol=1e-9)
    assert_close(decoder.decode(z[:1]), expected[:1], rtol=1e-9, atol=1e-9)  # no row depends on another


def test_its_pullback_metric_needs_no_score(tmp_path):
    torch.save(
        {f"main.{name}": one for name, one in published(channels=1).state_dict().items()}, tmp_path / "g.pt"
    )
    decoder = open_model(tmp_path / "g.pt", dtype="float64")
    metric = decoder_metric(decoder.decode, Chart("latents", 7))
    z, v = torch.randn(2, 7), torch.randn(2, 7)
    jacobian = torch.stack([torch.func.jacrev(decoder.decode)(row) for row in z])
    assert_close(
        metric.inner(z, v, v), (jacobian @ v[..., None]).square().sum((-1, -2)), rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("damage", ["linear", "channels", "end", "name"])
def test_other_layouts_are_named(tmp_path, damage):
    tensors = {f"main.{name}": one for name, one in published().state_dict().items()}
    if damage == "linear":
        tensors["main.20.weight"] = torch.zeros(3, 3)
    elif damage == "channels":
        tensors["main.3.weight"] = torch.zeros(5, 8, 4, 4)
    elif damage == "end":
        del tensors["main.9.weight"]
    else:
        tensors["main.extra"] = torch.zeros(1)
    torch.save(tensors, tmp_path / "g.pt")
    with pytest.raises(DataError, match="transposed convolutions"):
        open_model(tmp_path / "g.pt", kind="decoder")


def test_any_callable_is_a_decoder_and_its_shape_is_found():
    network = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Unflatten(1, (2, 4)))
    decoder = open_model(network, kind="decoder", shape=(3,), dtype="float64")
    z = torch.randn(4, 5, 3)
    expected = network.double()(z.reshape(-1, 3)).reshape(4, 5, 8)
    assert_close(decoder.decode(z), expected, rtol=1e-9, atol=1e-9)
    with pytest.raises(SettingError, match="shape of one latent"):
        open_model(network, kind="decoder")
    with pytest.raises(SettingError, match="one sample for each latent"):
        open_model(lambda z: z.sum(), kind="decoder", shape=(3,))


def test_scale_and_shift_are_inside():
    coder = generator_of(
        lambda h: 2 * h, latent_shape=(2,), shape=(2,), encoding=lambda x: x / 2, scale=3.0, shift=0.5
    )
    z = torch.randn(4, 2)
    assert_close(coder.decode(z), 2 * (z / 3 + 0.5))
    assert_close(coder.encode(coder.decode(z)), z)
    assert isinstance(coder, Autoencoder)


def test_batches_change_nothing():
    whole = generator_of(torch.sin, latent_shape=(2,), shape=(2,))
    parts = generator_of(torch.sin, latent_shape=(2,), shape=(2,), batch=3)
    z = torch.randn(7, 2)
    assert_close(parts.decode(z), whole.decode(z), rtol=0, atol=0)
    assert parts.decode(z[:0]).shape == (0, 2)


@pytest.mark.parametrize("scale", [0.0, float("nan"), float("inf")])
def test_a_scale_that_loses_everything_is_refused(scale):
    with pytest.raises(SettingError, match="scale"):
        generator_of(torch.sin, latent_shape=(2,), shape=(2,), scale=scale)


def test_a_decoder_of_another_shape_says_so():
    with pytest.raises(ShapeError, match="shape"):
        generator_of(torch.sin, latent_shape=(2,), shape=(3,)).decode(torch.randn(4, 2))
    with pytest.raises(ShapeError, match=r"^got points of shape \(1, 4\); expected a last axis of 2"):
        generator_of(torch.sin, latent_shape=(2,), shape=(2,)).decode(torch.randn(1, 4))  # two latents in one
    with pytest.raises(SettingError, match="a callable"):
        generator_of("sin", latent_shape=(2,), shape=(3,))
