"""What follows from a denoiser: frames in words, landscapes of densities, and doors that explain."""

import math

import pytest
import torch
from torch.testing import assert_close

from workbench.errors import SettingError
from workbench.models import (
    ExactScore,
    Frame,
    Landscape,
    LevelLandscape,
    expand_sigma,
    landscape_of,
    noise,
    score,
)
from workbench.worlds import load_world


class Shrinking:
    """The denoiser of standard normal data: y / (1 + sigma^2)."""

    frame = Frame("normal", (2,), 0.01, 80.0)

    def denoise(self, y, sigma):
        return y / (1.0 + expand_sigma(y, sigma) ** 2)


@pytest.mark.parametrize("sigma", [0.1, 1.0, 30.0])
def test_score_and_noise_of_standard_normal_data(sigma, generator):
    y = torch.randn(4, 2, generator=generator)
    assert_close(score(Shrinking(), y, sigma), -y / (1 + sigma**2), rtol=1e-12, atol=1e-14)
    assert_close(noise(Shrinking(), y, sigma), sigma * y / (1 + sigma**2), rtol=1e-12, atol=1e-14)


def test_the_exploding_field_keeps_normal_data_normal():
    """Along dy/dsigma = E[eps | y] a point of normal data grows as sqrt(1 + sigma^2)."""
    y = torch.tensor([[0.4, -2.0]])
    sigma = torch.tensor(0.7)
    grown = y * torch.sqrt(1 + sigma**2)
    assert_close(noise(Shrinking(), grown, sigma), y * sigma / torch.sqrt(1 + sigma**2))


def test_a_level_landscape_is_minus_the_log_density(generator):
    world = load_world("g3")
    level = landscape_of(world, 0.4)
    x = world.sample(5, generator=generator).requires_grad_()
    assert isinstance(level, LevelLandscape)
    assert isinstance(level, Landscape)
    assert (level.name, level.unit) == ("g3 at sigma 0.4", "nats")
    (slope,) = torch.autograd.grad(level.energy(x).sum(), x)
    assert_close(level.force(x.detach()), -slope, rtol=1e-10, atol=1e-12)


def test_a_network_without_density_has_no_landscape():
    assert not isinstance(Shrinking(), ExactScore)
    with pytest.raises(SettingError, match="got normal, a model without a density; expected a landscape"):
        landscape_of(Shrinking(), 0.3)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (Frame("fashion", (1, 28, 28), 0.002, 80.0), "fashion"),
        (Frame("fashion", (1, 28, 28), 0.002, 80.0, condition="bag"), "fashion given bag"),
        (
            Frame("fashion", (1, 28, 28), 0.002, 80.0, condition="bag", guidance=1.5),
            "fashion given bag, guidance 1.5",
        ),
    ],
)
def test_frames_in_words(frame, words):
    assert str(frame) == words
    assert frame.dim == math.prod(frame.shape) == 784


@pytest.mark.parametrize("quantity", [score, noise])
@pytest.mark.parametrize("sigma", [0.0, 0, -1.0, math.nan])
def test_a_level_that_is_none_is_refused(quantity, sigma):
    with pytest.raises(SettingError, match="expected a noise level above 0"):
        quantity(Shrinking(), torch.ones(1, 2), sigma)


def test_an_exact_model_has_fields_without_noise():
    world = load_world("g3")
    y = torch.ones(1, 2)
    assert_close(noise(world, y, 0.0), torch.zeros(1, 2), rtol=0, atol=0)
    assert_close(noise(world, y, 0.4), (y - world.denoise(y, 0.4)) / 0.4, rtol=1e-12, atol=1e-14)
