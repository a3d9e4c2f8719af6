"""The measures against formulas and known cases, and figures of a card measured again."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.oracles import nets as oracle
from workbench.cards import find_card, read_card
from workbench.data import ImageSet, load_images
from workbench.judges import Judge, fit_judge
from workbench.models import Frame, expand_sigma
from workbench.quality import (
    energy_distance,
    frechet_distance,
    measure_accuracy,
    measure_denoising,
    measure_frechet,
    measure_images,
    measure_neighbours,
)
from workbench.quality.__main__ import main
from workbench.zoo import load_judge, load_model


def features(seed: int, count: int, stretch: float = 1.0, shift: float = 0.0) -> torch.Tensor:
    noise = torch.randn(count, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return stretch * noise @ torch.linspace(0.5, 1.5, 25, dtype=torch.float64).reshape(5, 5) + shift + noise


def test_frechet_distance_is_its_formula():
    first, second = features(0, 200), features(1, 150, 1.3, 0.4)
    expected = oracle.frechet(first.numpy(), second.numpy())
    assert frechet_distance(first, second) == pytest.approx(expected, rel=1e-8)


def test_frechet_distance_of_a_shift_is_its_square():
    first = features(0, 200)
    assert frechet_distance(first, first + 0.3) == pytest.approx(5 * 0.09, rel=1e-9)
    assert frechet_distance(first, first) == pytest.approx(0, abs=1e-9)


def test_energy_distance_is_its_double_sum():
    first, second = features(2, 20), features(3, 25, 1.2)
    expected = oracle.energy_distance(first.numpy(), second.numpy())
    assert energy_distance(first, second) == pytest.approx(expected, rel=1e-10)


def test_neighbour_ratio_sees_copies_and_unlike_points():
    train, held_out = features(4, 300), features(5, 100)
    copies = measure_neighbours(train[:50] + 1e-6, train, held_out)
    like = measure_neighbours(features(6, 100), train, held_out)
    unlike = measure_neighbours(features(6, 100, 4.0), train, held_out)
    assert copies.value < 1e-4
    assert abs(like.value - 1) < 4 * like.error
    assert unlike.value > 1.5


@dataclass(frozen=True)
class Shrink:
    """The exact denoiser of standard normal data."""

    @property
    def frame(self) -> Frame:
        return Frame("normal", (3,), 0.002, 20.0)

    def denoise(self, y, sigma):
        return y / (1 + expand_sigma(y, sigma) ** 2)


@pytest.mark.parametrize("sigma", [0.1, 1.0, 5.0])
def test_denoising_error_of_normal_data_is_the_posterior_variance(sigma, generator):
    points = torch.randn(20_000, 3, generator=generator)
    found = measure_denoising(Shrink(), points, sigma, generator=generator)
    assert abs(found.value - sigma**2 / (1 + sigma**2)) < 4 * found.error
    assert found.error < 0.02 * found.value


def test_judge_learns_and_its_accuracy_is_counted(generator):
    labels = torch.arange(64) % 2
    points = torch.where(labels[:, None] == 0, -1.0, 1.0) * torch.linspace(-1, 1, 64) + 0.1 * torch.randn(
        64, 64
    )
    judge = fit_judge(Judge(8, classes=2), points, labels, epochs=20, batch=16, generator=generator)
    assert measure_accuracy(judge, points, labels).value == 1.0
    half = torch.where(torch.arange(64) < 32, labels, 1 - labels)
    found = measure_accuracy(judge, points, half)
    assert found.value == 0.5
    assert found.error == pytest.approx(0.0625)
    near = measure_frechet(judge, points[:32], points[32:], generator=generator)
    far = measure_frechet(judge, points[labels == 0], points[labels == 1], generator=generator)
    assert near.value < 0.5 * far.value


@pytest.mark.parametrize("name", ["fashion", "digits"])
def test_shipped_judge_gives_the_figure_of_its_card(name):
    images = load_images(name)
    found = measure_accuracy(load_judge(name), images.points, images.labels)
    stated = read_card(find_card(f"judge_{name}"))["figures"]["class_accuracy_sample"]
    assert found.value == pytest.approx(stated["value"], abs=1.5 / len(images))


def test_judge_of_fashion_is_right_on_nine_of_ten_held_out_images():
    assert read_card(find_card("judge_fashion"))["figures"]["class_accuracy_test"]["value"] >= 0.90


def test_fashion_card_meets_its_bar():
    figures = read_card(find_card("fashion"))["figures"]
    ratio = figures["class_accuracy_samples"]["value"] / figures["class_accuracy_held_out"]["value"]
    assert ratio == pytest.approx(figures["class_accuracy_ratio"]["value"], rel=1e-12)
    assert ratio >= 0.85


def test_shipped_fashion_samples_show_the_class_that_was_asked(generator):
    """A small repeat of the card's figure: 5 samples a class at 8 levels, to four standard errors."""
    images = load_images("fashion")
    ratio = measure_images(
        load_model("fashion"),
        load_judge("fashion"),
        images,
        _first(images, 50),
        count=50,
        steps=8,
        generator=generator,
        denoising=False,
    )["class_accuracy_ratio"]
    stated = read_card(find_card("fashion"))["figures"]["class_accuracy_ratio"]["value"]
    assert abs(ratio.value - stated) < 4 * ratio.error
    assert ratio.value > 0.65


def _first(images: ImageSet, count: int) -> ImageSet:
    return load_images(images.name, split=images.split, limit=count)


@pytest.mark.parametrize("sigma", [0.2, 1.0])
def test_shipped_fashion_denoises_as_its_card_says(sigma):
    """Over 100 of the held-out images and other noise; four standard errors of the small repeat."""
    images = load_images("fashion", limit=100)
    found = measure_denoising(
        load_model("fashion"), images.points, sigma, generator=torch.Generator().manual_seed(9)
    )
    stated = read_card(find_card("fashion"))["figures"][f"denoising_null_{sigma:g}"]
    assert abs(found.value - stated["value"]) < 4 * np.hypot(found.error, stated["error"])


def test_command_measures_a_shipped_model(capsys: pytest.CaptureFixture):
    assert main(["judge_digits", "--dry"]) == 0
    assert "class_accuracy_test" in capsys.readouterr().out
    assert main(["nowhere"]) == 2
    assert "got model 'nowhere'" in capsys.readouterr().err
