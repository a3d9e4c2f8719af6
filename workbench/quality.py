"""How good a generative model is, in numbers that a card can hold.

Four measures, each with its error: the share of conditional samples to which a judge gives the class that was
asked for; the Fréchet distance between the judge's features of samples and of held-out images,

    |m1 - m2|^2 + tr(C1 + C2 - 2 (C1^(1/2) C2 C1^(1/2))^(1/2));

the mean distance of samples to their nearest training image over that of held-out images (well below 1:
copies); and the mean squared error of the denoiser on held-out images at given noise levels. For
two-dimensional sets, where no judge is needed, the energy distance between samples and fresh data stands for
the first three. A model on latents is judged by its decoded samples; its denoising errors are those of
encoded images, in latents.

The Fréchet distance depends on the sample sizes: compare it only with a distance at the same sizes, such as
that of two halves of real images, which the cards give beside it.

References:
    GANs trained by a two time-scale update rule converge to a local Nash equilibrium (Heusel et al., 2017),
    https://arxiv.org/abs/1706.08500
    Energy statistics: a class of statistics based on distances (Székely, Rizzo, 2013),
    https://doi.org/10.1016/j.jspi.2013.03.018
"""

import argparse
import math
import sys
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.data import TOYS, ImageSet, draw_toy, load_images
from workbench.decoders import Autoencoder, LatentModel, decoder_of, show_points
from workbench.errors import WorkbenchError
from workbench.judges import Judge
from workbench.models import ScoreModel
from workbench.nets import NetModel, given
from workbench.report import Estimate
from workbench.sampling import sample
from workbench.types import Points, Sigma


@torch.no_grad()
def judged(judge: Judge, points: Points, *, batch: int = 500) -> tuple[Tensor, Tensor]:
    """Classes and features that a judge gives to flat images.

    Args:
        judge: The classifier, in evaluation mode.
        points: Images, shape (count, dim).
        batch: Images a pass.

    Returns:
        Class indices (count,) and features (count, features).
    """
    features = torch.cat([judge.features(part) for part in points.split(batch)])
    return judge.leave(features).argmax(dim=-1), features


def measure_accuracy(judge: Judge, points: Points, labels: Tensor) -> Estimate:
    """Share of images to which the judge gives their label.

    Args:
        judge: The classifier.
        points: Images, shape (count, dim).
        labels: Class that each is meant to show, shape (count,).

    Returns:
        The share with its binomial standard error.
    """
    share = (judged(judge, points)[0] == labels).double().mean().item()
    error = math.sqrt(max(share * (1 - share), 1 / len(labels)) / len(labels))
    return Estimate(share, error, "", f"binomial, {len(labels)} images")


def frechet_distance(first: Float[Tensor, "one features"], second: Float[Tensor, "two features"]) -> float:
    """Fréchet distance between normal fits to two sets of features.

    Args:
        first: Features, shape (count, features).
        second: The same of the other set.

    Returns:
        The distance (of squared type, in squared feature units), computed in float64.
    """
    first, second = first.double(), second.double()
    covariances = [features.T.cov() for features in (first, second)]
    values, vectors = torch.linalg.eigh(covariances[0])
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    inner = torch.linalg.eigvalsh(root @ covariances[1] @ root).clamp(min=0).sqrt().sum()
    gap = (first.mean(0) - second.mean(0)).square().sum()
    return (gap + covariances[0].trace() + covariances[1].trace() - 2 * inner).item()


def measure_frechet(
    judge: Judge,
    points: Float[Tensor, "one dim"],
    reference: Float[Tensor, "two dim"],
    *,
    generator: torch.Generator,
    draws: int = 20,
) -> Estimate:
    """Fréchet distance between two sets of images in the judge's features.

    Args:
        judge: The classifier.
        points: Images, e.g. samples, shape (count, dim).
        reference: Images to compare with, e.g. held-out ones.
        generator: Source of the bootstrap.
        draws: Bootstrap resamples of `points`.

    Returns:
        The distance, its error the spread over the resamples.
    """
    first, second = judged(judge, points)[1], judged(judge, reference)[1]
    spread = torch.tensor(
        [
            frechet_distance(first[torch.randint(len(first), (len(first),), generator=generator)], second)
            for _ in range(draws)
        ]
    )
    how = f"bootstrap, {len(points)} against {len(reference)} images"
    return Estimate(frechet_distance(first, second), spread.std().item(), "squared features", how)


def measure_neighbours(
    points: Float[Tensor, "one dim"], train: Float[Tensor, "two dim"], held_out: Float[Tensor, "three dim"]
) -> Estimate:
    """Mean distance to the nearest training image, of samples over held-out images.

    Args:
        points: Samples, shape (count, dim).
        train: Training images.
        held_out: Images that were not trained on.

    Returns:
        The ratio with its standard error; well below 1 means copies.
    """
    near = [
        torch.cat([torch.cdist(part, train).amin(dim=-1) for part in images.split(100)]).double()
        for images in (points, held_out)
    ]
    means = [distances.mean().item() for distances in near]
    relative = [
        distances.std().item() / math.sqrt(len(distances)) / distances.mean().item() for distances in near
    ]
    ratio = means[0] / means[1]
    how = f"standard error, {len(points)} and {len(held_out)} images, {len(train)} neighbours"
    return Estimate(ratio, ratio * math.hypot(*relative), "", how)


@torch.no_grad()
def measure_denoising(
    model: ScoreModel, points: Points, sigma: float, *, generator: torch.Generator, batch: int = 250
) -> Estimate:
    """Mean squared error per entry of a denoiser on held-out data at one noise level.

    Args:
        model: The model.
        points: Clean points, shape (count, dim).
        sigma: Noise level.
        generator: Source of the noise.
        batch: Points a call.

    Returns:
        The mean over points and entries with its standard error over points, in squared units of the points.
        One model call a point.
    """
    noise = torch.randn(points.shape, generator=generator, dtype=points.dtype)
    errors = torch.cat(
        [
            (model.denoise(clean + sigma * eps, sigma) - clean).square().mean(dim=-1)
            for clean, eps in zip(points.split(batch), noise.split(batch), strict=True)
        ]
    ).double()
    how, unit = f"standard error over {len(points)} points", f"squared {model.frame.space} units"
    return Estimate(errors.mean().item(), errors.std().item() / math.sqrt(len(errors)), unit, how)


def energy_distance(first: Float[Tensor, "one dim"], second: Float[Tensor, "two dim"]) -> float:
    """Squared energy distance 2 E|X - Y| - E|X - X'| - E|Y - Y'| between two sets of points.

    Args:
        first: Points, shape (count, dim).
        second: Points of the other set.

    Returns:
        The unbiased estimate; around zero for equal distributions, where it can be negative.
    """
    first, second = first.double(), second.double()
    within = [torch.cdist(x, x).sum() / (len(x) * (len(x) - 1)) for x in (first, second)]
    return (2 * torch.cdist(first, second).mean() - within[0] - within[1]).item()


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


@torch.no_grad()
def measure_reconstruction(decoder: Autoencoder, points: Points) -> Estimate:
    """Mean squared error per pixel of pictures that went through an autoencoder.

    Args:
        decoder: The autoencoder.
        points: Held-out pictures, shape (count, dim).

    Returns:
        The mean with its standard error over the pictures, in squared pixel units.
    """
    errors = (decoder.decode(decoder.encode(points)) - points).square().mean(dim=-1).double()
    error = errors.std().item() / math.sqrt(len(errors))
    return Estimate(
        errors.mean().item(), error, "squared pixel units", f"standard error over {len(points)} images"
    )


DENOISING_LEVELS = (0.05, 0.2, 0.5, 1.0, 3.0)
"""Noise levels of the denoising figures."""


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


def main(arguments: list[str] | None = None) -> int:
    """The command `python -m workbench.quality`; measures a model, writes its card, returns an exit code."""
    from workbench.zoo import find_card, load_judge, load_model, read_card, write_card

    parser = argparse.ArgumentParser(
        prog="python -m workbench.quality", description="Measure a model for its card."
    )
    parser.add_argument("name", help="a shipped model, judge_NAME, or the path of a card")
    parser.add_argument("--count", type=int, default=1000, help="samples (default: 1000)")
    parser.add_argument("--steps", type=int, default=18, help="levels of the sampler (default: 18)")
    parser.add_argument("--seed", type=int, default=0, help="seed (default: 0)")
    parser.add_argument("--dry", action="store_true", help="print the figures without writing the card")
    chosen = parser.parse_args(arguments)
    generator = torch.Generator().manual_seed(chosen.seed)
    try:
        path = find_card(chosen.name)
        facts = read_card(path)
        data = facts["name"].removeprefix("judge_")
        if facts["name"].startswith("judge_"):
            figures = _judge_figures(load_judge(data), data)
        elif data in TOYS:
            figures = measure_toy(load_model(path), steps=chosen.steps, generator=generator)
        elif data == "wake":
            figures = measure_frames(
                load_model(path),
                load_images(data, split="test"),
                load_images(data, split="train"),
                count=chosen.count,
                steps=chosen.steps,
                generator=generator,
            )
        else:
            data = facts.get("autoencoder", {}).get("data", data)
            figures = measure_images(
                load_model(path),
                load_judge(data),
                load_images(data, split="test"),
                load_images(data, split="train"),
                count=chosen.count,
                steps=chosen.steps,
                generator=generator,
            )
    except WorkbenchError as error:
        print(error, file=sys.stderr)
        return 2
    for name, figure in figures.items():
        print(f"{name:28s} {figure}  ({figure.how})")
    if not chosen.dry:
        given_options = f" --count {chosen.count}" if chosen.count != 1000 else ""
        given_options += f" --steps {chosen.steps}" if chosen.steps != 18 else ""
        given_options += f" --seed {chosen.seed}" if chosen.seed != 0 else ""
        facts["measured_by"] = f"python -m workbench.quality {facts['name']}{given_options}"
        facts["figures"] = figures_as_facts(figures)
        write_card(facts, path)
    return 0


def _judge_figures(judge: Judge, data: str) -> dict[str, Estimate]:
    """Accuracy of a judge on all held-out images and on those that are shipped."""
    return {
        f"class_accuracy_{split}": measure_accuracy(judge, images.points, images.labels)
        for split, images in ((split, load_images(data, split=split)) for split in ("test", "sample"))
    }


if __name__ == "__main__":
    sys.exit(main())
