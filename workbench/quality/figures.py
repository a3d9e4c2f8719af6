"""Every figure of a model at once, by the kind of its data, as its card holds them."""

import math
from typing import Any

import torch

from workbench.data import ImageSet, draw_toy
from workbench.decoders import Autoencoder, LatentModel, decoder_of, show_points
from workbench.judges import Judge
from workbench.models import ScoreModel
from workbench.nets import NetModel, given
from workbench.quality.measures import (
    energy_distance,
    measure_accuracy,
    measure_denoising,
    measure_frechet,
    measure_neighbours,
    measure_reconstruction,
)
from workbench.report import Estimate
from workbench.sampling import sample
from workbench.types import Points, Sigma

DENOISING_LEVELS = (0.05, 0.2, 0.5, 1.0, 3.0)
"""Noise levels of the denoising figures."""


def measure_images(
    model: NetModel | LatentModel,
    judge: Judge,
    held_out: ImageSet,
    train: ImageSet,
    *,
    count: int = 1000,
    steps: int = 18,
    generator: torch.Generator,
    denoising: bool = True,
) -> dict[str, Estimate]:
    """Every figure of an image model: conditional samples, null-class samples and denoising.

    Args:
        model: A class-conditional network, on images or on latents of them.
        judge: The judge of its data.
        held_out: Images that were not trained on; not too few for the Fréchet distance.
        train: Its training images.
        count: Samples, shared among the classes, and as many of the null class.
        steps: Levels of the sampler.
        generator: Source of all randomness.
        denoising: Whether to measure the denoising error too.

    Returns:
        Name of each figure to its value.
    """
    each = count // len(model.frame.classes)
    labels = torch.arange(len(model.frame.classes)).repeat_interleave(each)
    asked = torch.cat(
        [_samples(given(model, label), each, steps, generator) for label in range(len(model.frame.classes))]
    )
    free = _samples(given(model, None), count, steps, generator)
    order = torch.randperm(len(held_out), generator=generator)
    reference, other = held_out.points[order[:count]], held_out.points[order[count : 2 * count]]
    shown = measure_accuracy(judge, asked, labels)
    real = measure_accuracy(judge, held_out.points, held_out.labels)
    ratio = shown.value / real.value
    bar = ratio * math.hypot(*((part.error or 0.0) / part.value for part in (shown, real)))
    figures = {
        "class_accuracy_samples": shown,
        "class_accuracy_held_out": real,
        "class_accuracy_ratio": Estimate(ratio, bar, "", "from the two above"),
        "frechet_conditional": measure_frechet(judge, asked, reference, generator=generator),
        "frechet_null": measure_frechet(judge, free, reference, generator=generator),
    }
    real_images = other if len(other) > 1 else train.points[:count]  # a small set has no second half to spare
    figures["frechet_real"] = measure_frechet(judge, real_images, reference, generator=generator)
    figures["neighbours_conditional"] = measure_neighbours(asked, train.points, reference)
    figures["neighbours_null"] = measure_neighbours(free, train.points, reference)
    decoder = decoder_of(model)
    if isinstance(decoder, Autoencoder):
        figures["reconstruction"] = measure_reconstruction(decoder, held_out.points)
    return figures | (measure_levels(model, held_out, generator=generator) if denoising else {})


def measure_frames(
    model: NetModel | LatentModel,
    held_out: ImageSet,
    train: ImageSet,
    *,
    count: int = 1000,
    steps: int = 18,
    generator: torch.Generator,
) -> dict[str, Estimate]:
    """Every figure of a model of frames whose classes lie on a scale, without a judge.

    Args:
        model: A class-conditional network.
        held_out: Frames that were not trained on.
        train: Its training frames; the class of the nearest one judges a sample.
        count: Samples, shared among the classes, and as many of the null class.
        steps: Levels of the sampler.
        generator: Source of all randomness.

    Returns:
        Name of each figure to its value.
    """
    classes = len(model.frame.classes)
    each = count // classes
    labels = torch.arange(classes).repeat_interleave(each)
    asked = torch.cat(
        [sample(given(model, label), each, steps=steps, generator=generator) for label in range(classes)]
    )
    free = sample(given(model, None), count, steps=steps, generator=generator)
    nearest = torch.cat([torch.cdist(part, train.points).argmin(dim=1) for part in asked.split(100)])
    off = (train.labels[nearest] - labels).abs().double()
    how = f"standard error over {len(off)} samples, class of the nearest training frame"
    figures = {
        "class_offset_samples": Estimate(
            off.mean().item(), off.std().item() / math.sqrt(len(off)), "classes", how
        ),
        "neighbours_conditional": measure_neighbours(asked, train.points, held_out.points),
        "neighbours_null": measure_neighbours(free, train.points, held_out.points),
    }
    return figures | measure_levels(model, held_out, generator=generator)


@torch.no_grad()
def _samples(model: ScoreModel, count: int, steps: int, generator: torch.Generator) -> Points:
    """Samples as pictures."""
    return show_points(model, sample(model, count, steps=steps, generator=generator))[0]


def measure_levels(
    model: NetModel | LatentModel, images: ImageSet, *, generator: torch.Generator
) -> dict[str, Estimate]:
    """Denoising error of the null class, and of the images' own classes, at `DENOISING_LEVELS`.

    Args:
        model: A class-conditional network, on images or on latents of them.
        images: Held-out images; the first 1,000 are used.
        generator: Source of the noise, the same for both.

    Returns:
        Name of each figure to its value.
    """
    seed = int(torch.randint(2**31, (), generator=generator))
    points, labels = images.points[:1000], images.labels[:1000]
    decoder = decoder_of(model)
    if isinstance(decoder, Autoencoder):
        with torch.no_grad():
            points = decoder.encode(points)
    order = labels.argsort(stable=True)
    sorted_points, counts = points[order], labels.bincount(minlength=len(images.classes)).tolist()
    figures: dict[str, Estimate] = {}
    for sigma in DENOISING_LEVELS:
        noise = torch.Generator().manual_seed(seed)
        figures[f"denoising_null_{sigma:g}"] = measure_denoising(
            given(model, None), sorted_points, sigma, generator=noise
        )
        noise = torch.Generator().manual_seed(seed)
        own = _ByClass(model, counts)
        figures[f"denoising_class_{sigma:g}"] = measure_denoising(
            own, sorted_points, sigma, generator=noise, batch=len(points)
        )
    return figures


class _ByClass:
    """A model that gives each block of points, in order, its own class."""

    def __init__(self, model: NetModel | LatentModel, counts: list[int]) -> None:
        self.model, self.counts = model, counts
        self.frame = model.frame

    def denoise(self, y: Points, sigma: Sigma) -> Points:
        """E[x0 | y, class] for points sorted by class."""
        parts = y.split(self.counts)
        return torch.cat([given(self.model, label).denoise(part, sigma) for label, part in enumerate(parts)])


def measure_toy(
    model: ScoreModel, *, count: int = 4000, steps: int = 18, generator: torch.Generator
) -> dict[str, Estimate]:
    """Every figure of a two-dimensional model: energy distance to fresh data and denoising.

    Args:
        model: The network of a toy set.
        count: Samples and fresh points.
        steps: Levels of the sampler.
        generator: Source of all randomness.

    Returns:
        Name of each figure to its value.
    """
    drawn = [
        [sample(model, count, steps=steps, generator=generator) for _ in range(3)],
        [draw_toy(model.frame.name, count, generator=generator)[0] for _ in range(4)],
    ]
    distances = torch.tensor([energy_distance(s, r) for s, r in zip(drawn[0], drawn[1], strict=False)])
    floor = energy_distance(drawn[1][2], drawn[1][3])
    how = f"spread over 3 pairs of {count} points"
    figures = {
        "energy_distance": Estimate(
            distances.mean().item(), distances.std().item() / math.sqrt(3), "data units", how
        ),
        "energy_distance_real": Estimate(floor, None, "data units", f"one pair of {count} fresh points"),
    }
    for sigma in DENOISING_LEVELS:
        figures[f"denoising_null_{sigma:g}"] = measure_denoising(
            model, drawn[1][0], sigma, generator=generator
        )
    return figures


def figures_as_facts(figures: dict[str, Estimate]) -> dict[str, Any]:
    """Figures as a card holds them."""
    return {
        name: {"value": figure.value, "error": figure.error, "unit": figure.unit, "how": figure.how}
        for name, figure in figures.items()
    }
