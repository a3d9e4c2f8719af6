"""Single measures of samples, pictures and denoising, each with its error."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.decoders import Autoencoder
from workbench.judges import Judge
from workbench.models import ScoreModel
from workbench.report import Estimate
from workbench.types import Points


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
