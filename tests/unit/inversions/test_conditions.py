"""Each sample keeps its own condition, on whatever scale it lies."""

import pytest
import torch

from workbench.errors import SettingError, ShapeError
from workbench.inversions import Blend, decode, encode, given_each
from workbench.nets import given
from workbench.zoo import load_model


@pytest.fixture
def model():
    return load_model("moons", dtype=torch.float64)


def test_every_sample_sees_its_own_condition(model, generator: torch.Generator):
    y = torch.randn(4, 2, generator=generator)
    found = given_each(model, ["upper", 1, None, 0]).denoise(y, 0.4)
    for row, condition in enumerate(["upper", "lower", None, "upper"]):
        expected = given(model, condition).denoise(y[row : row + 1], 0.4)[0]
        torch.testing.assert_close(found[row], expected)


def test_levels_follow_their_samples(model, generator: torch.Generator):
    y, sigma = torch.randn(3, 2, generator=generator), torch.tensor([0.1, 0.5, 2.0])
    found = given_each(model, [1, 0, 1]).denoise(y, sigma)
    for row, condition in enumerate([1, 0, 1]):
        torch.testing.assert_close(found[row], given(model, condition).denoise(y[row], sigma[row]))


def test_a_condition_between_two_classes_mixes_them(model, generator: torch.Generator):
    y = torch.randn(2, 2, generator=generator)
    found = given_each(model, torch.tensor([0.25, 1.0])).denoise(y, 0.4)
    upper, lower = (given(model, label).denoise(y, 0.4) for label in (0, 1))
    torch.testing.assert_close(found[0], 0.75 * upper[0] + 0.25 * lower[0])
    torch.testing.assert_close(found[1], lower[1])


def test_inversion_uses_the_condition_of_each_sample(model, generator: torch.Generator):
    x = torch.tensor([[-0.9, -0.15], [0.9, 0.15]]) + 0.02 * torch.randn(2, 2, generator=generator)
    together = encode(given_each(model, [0, 1]), x, depth=5.0, steps=20)
    for row in (0, 1):
        alone = encode(given(model, row), x[row : row + 1], depth=5.0, steps=20)
        torch.testing.assert_close(together[row : row + 1].joined(), alone.joined(), rtol=1e-8, atol=1e-8)
    back = decode(given_each(model, [0, 1]), together).points
    torch.testing.assert_close(back, x, rtol=0, atol=1e-9)
    swapped = decode(given_each(model, [1, 0]), together).points
    assert float((swapped - x).norm(dim=1).min()) > 0.1  # the other condition leads elsewhere
    assert "one a sample" in together.provenance.model


def test_bad_conditions_are_one_sentence(model):
    with pytest.raises(SettingError, match=r"^got condition 'nowhere' for model moons"):
        given_each(model, ["nowhere"])
    with pytest.raises(SettingError, match=r"^got condition=1.5; expected a number from 0 to 1"):
        given_each(model, [1.5])
    with pytest.raises(SettingError, match=r"^got no conditions; expected one a sample"):
        given_each(model, [])
    with pytest.raises(
        ShapeError, match=r"^got points of shape \(3, 2\); expected 2 points, one a condition"
    ):
        given_each(model, [0, 1]).denoise(torch.zeros(3, 2), 0.4)
    with pytest.raises(ShapeError, match=r"^got weights of shape \(2, 2\) for 1 models"):
        Blend((model,), torch.ones(2, 2))
