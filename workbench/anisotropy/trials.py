r"""Does training bear the prediction out? Data along chosen directions, learnt, sampled and measured.

Data are :math:`\sqrt D\,z\,v` with z ~ N(0, 1) for one direction, or uniform on the sphere of radius sqrt D
in the span of several. Every number comes with the trivial generators' (all zero, standard normal, real
against real): a distance above those ranks blow-ups, not qualities. The coordinate along the axis and the
spread off it are measured by themselves, because sliced distances hide both.

References:
    On the Anisotropy of Score-Based Generative Models (Floros et al., 2025), section 4,
    https://arxiv.org/abs/2510.22899
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.anisotropy.denoising import (
    DenoisingSettings,
    build_network,
    sample_noise_predictor,
    stream,
    train_noise_predictor,
)
from workbench.anisotropy.distances import (
    Baselines,
    SlicedDistance,
    axis_distance,
    baselines,
    off_axis_spread,
    sliced_distance,
)
from workbench.anisotropy.levels import ddpm_levels
from workbench.anisotropy.spectrum import ScoreSpectrum
from workbench.architectures import Architecture
from workbench.draws import draw_integers, draw_normal
from workbench.errors import SettingError, ShapeError


@dataclass(frozen=True, slots=True)
class Trial:
    """One network trained on data along one direction or subspace.

    Attributes:
        seed: Seed of its streams.
        eigenvalue: Predicted difficulty: mean Rayleigh quotient of the directions, NaN if it was not given.
        steps: Optimiser steps at each pause, shape (pauses,).
        losses: Mean loss since the pause before, shape (pauses,).
        sliced: Sliced W2 at each pause, shape (pauses,).
        largest: Max-sliced W2, over the same directions.
        along: Exact W2 of the first coordinate, over sqrt(dim).
        variance: Variance along the directions over the true one.
        off_axis: Root mean square entry off the directions.
        finite: Share of samples that are finite; the others are left out.
        baselines: What trivial generators score.
        meaning: What the direction by itself is worth, in words; empty where it was not given.
        index: Place of the direction in its spectrum; -1 where it was not given.
    """

    seed: int
    eigenvalue: float
    steps: Tensor
    losses: Tensor
    sliced: Tensor
    largest: Tensor
    along: Tensor
    variance: Tensor
    off_axis: Tensor
    finite: Tensor
    baselines: Baselines
    meaning: str = ""
    index: int = -1


def direction_data(directions: Tensor) -> Callable[[int, torch.Generator], Tensor]:
    """The sampler of data along directions.

    Args:
        directions: Orthonormal rows (k, dim): k = 1 gives Gaussian data on a line, more a sphere in their
            span.

    Returns:
        (count, generator) -> points (count, dim) of mean square entry 1.

    Raises:
        ShapeError: If the rows are not orthonormal.
    """
    k, dim = directions.shape
    gram = directions @ directions.T
    if not torch.allclose(gram, torch.eye(k, dtype=gram.dtype, device=gram.device), atol=1e-5):
        raise ShapeError(f"{k} directions that are not orthonormal", "unit vectors at right angles")

    def draw(count: int, generator: torch.Generator) -> Tensor:
        z = draw_normal((count, k), directions.double(), generator)
        z = z if k == 1 else z / z.norm(dim=1, keepdim=True)
        return dim**0.5 * z.to(directions.dtype) @ directions

    return draw


DATA = ("line", "sphere")
"""Kinds of data along directions."""


def rows_at(spectrum: ScoreSpectrum, index: int, data: str = "line") -> tuple[Tensor, float]:
    """Directions that data at an index of a spectrum lie along, and the difficulty predicted for them.

    Args:
        spectrum: The spectrum.
        index: Ascending index.
        data: "line" for the direction itself, "sphere" for it and its two nearest neighbours.

    Returns:
        (orthonormal rows (1 or 3, dim), their mean eigenvalue).

    Raises:
        SettingError: For another kind of data, or fewer than three directions for a sphere.
    """
    if data not in DATA or (data == "sphere" and spectrum.dim < 3):
        raise SettingError(f"data={data!r} in {spectrum.dim} dimensions", "line, or sphere from 3 dimensions")
    if data == "line":
        return spectrum.direction(index)[None], spectrum.eigenvalue(index)
    first = min(max(index % spectrum.dim - 1, 0), spectrum.dim - 3)
    near = list(range(first, first + 3))
    return spectrum.directions(near), sum(map(spectrum.eigenvalue, near)) / 3.0


def train_direction(
    architecture: Architecture,
    directions: Tensor,
    *,
    settings: DenoisingSettings | None = None,
    seed: int = 0,
    eigenvalue: float = float("nan"),
    meaning: str = "",
    index: int = -1,
    samples: int = 500,
    projections: int = 2048,
    stops: Sequence[int] = (),
    device: torch.device | str = "cpu",
    progress: Callable[[float, str], None] | None = None,
    cancel=None,
) -> Trial:
    """Train a fresh network on data along directions, sample from it and measure.

    Args:
        architecture: The recipe.
        directions: Orthonormal rows (k, dim), on any device.
        settings: How to train and sample.
        seed: Seed of all streams; the same seed gives two directions the same initialisation and noise.
        eigenvalue: Predicted difficulty, kept beside the result.
        meaning: What the direction by itself is worth, kept beside the result.
        index: Place of the direction in its spectrum, kept beside the result.
        samples: Generated points, and points of each reference set.
        projections: Directions of the sliced distances.
        stops: Steps at which to measure as well, for learning curves.
        device: Where to train and sample.
        progress: Called with a fraction and a sentence.
        cancel: An object whose `is_set()` ends the training early.

    Returns:
        The trial.

    Raises:
        ShapeError: If the directions do not fit the architecture.

    Cost:
        3 batch * steps model calls for training; samples * levels for every pause.
    """
    if directions.ndim != 2 or directions.shape[1] != architecture.dim:
        raise ShapeError(
            f"directions of shape {tuple(directions.shape)}",
            f"rows of length {architecture.dim}",
            "direction[None]",
        )
    axes = directions.double().cpu()
    return _run(
        architecture,
        direction_data(axes),
        axes,
        settings=settings or DenoisingSettings(),
        seed=seed,
        eigenvalue=eigenvalue,
        meaning=meaning,
        index=index,
        samples=samples,
        projections=projections,
        stops=tuple(stops),
        device=device,
        progress=progress,
        cancel=cancel,
    )


def train_rotated(
    architecture: Architecture,
    points: Tensor,
    *,
    rotation: Tensor | None = None,
    settings: DenoisingSettings | None = None,
    seed: int = 0,
    alignment: float = float("nan"),
    samples: int = 500,
    projections: int = 2048,
    stops: Sequence[int] = (),
    device: torch.device | str = "cpu",
    progress: Callable[[float, str], None] | None = None,
    cancel=None,
) -> Trial:
    """Train a fresh network on W x for real data x, sample, turn back by W^T and measure among the data.

    Args:
        architecture: The recipe.
        points: Data (n, dim), on any device; 2 * samples of them are held out as references.
        rotation: W, (dim, dim), orthogonal, for example `Alignment.w_min`; the identity if None.
        settings: How to train and sample.
        seed: Seed of all streams.
        alignment: alpha(W), kept beside the result as the predicted difficulty.
        samples: Generated points, and points of each reference set.
        projections: Directions of the sliced distances.
        stops: Steps at which to measure as well.
        device: Where to train and sample.
        progress: Called with a fraction and a sentence.
        cancel: An object whose `is_set()` ends the training early.

    Returns:
        The trial; `along`, `variance` and `off_axis` refer to the data's first principal direction.

    Raises:
        SettingError: If there are too few points.
        ShapeError: If points or rotation do not fit the architecture.

    Cost:
        As `train_direction`.
    """
    dim = architecture.dim
    if points.ndim != 2 or points.shape[1] != dim or (rotation is not None and rotation.shape != (dim, dim)):
        raise ShapeError(
            f"data of shape {tuple(points.shape)}", f"points (n, {dim}) and a rotation ({dim}, {dim})"
        )
    if points.shape[0] <= 2 * samples:
        raise SettingError(
            f"{points.shape[0]} points", f"more than {2 * samples}", f"samples={points.shape[0] // 4}"
        )
    order = torch.randperm(points.shape[0], generator=stream(seed, "data"))
    every = points.double().cpu()[order]
    axes = torch.linalg.eigh(every.T @ every)[1][:, -1][None]
    kept = every[2 * samples :]

    def draw(count: int, generator: torch.Generator) -> Tensor:
        return kept[draw_integers(kept.shape[0], (count,), kept, generator)]

    return _run(
        architecture,
        draw,
        axes,
        settings=settings or DenoisingSettings(),
        seed=seed,
        eigenvalue=alignment,
        samples=samples,
        projections=projections,
        stops=tuple(stops),
        device=device,
        progress=progress,
        cancel=cancel,
        references=(every[:samples], every[samples : 2 * samples]),
        rotation=rotation,
    )


def _run(
    architecture: Architecture,
    draw: Callable[[int, torch.Generator], Tensor],
    axes: Tensor,
    *,
    settings: DenoisingSettings,
    seed: int,
    eigenvalue: float,
    samples: int,
    projections: int,
    stops: tuple[int, ...],
    device: torch.device | str,
    progress: Callable[[float, str], None] | None,
    cancel,
    references: tuple[Tensor, Tensor] | None = None,
    rotation: Tensor | None = None,
    meaning: str = "",
    index: int = -1,
) -> Trial:
    net = build_network(architecture, seed, device=device)
    if references is None:
        held = stream(seed + 1_000_000, "data")
        references = draw(samples, held), draw(samples, held)
    anchors = baselines(*references, projections=projections, generator=stream(seed, "projections"))
    turn = torch.eye(axes.shape[1], dtype=axes.dtype) if rotation is None else rotation.double().cpu()
    rows = []
    for step, loss in train_noise_predictor(
        net, lambda n, g: draw(n, g) @ turn.T, settings=settings, seed=seed, stops=stops, cancel=cancel
    ):
        made = sample_noise_predictor(
            net,
            samples,
            levels=ddpm_levels(settings.levels),
            sampler=settings.sampler,
            generator=stream(seed, "sampling"),
        )
        rows.append(
            (step, loss, *_measure(made.double().cpu() @ turn, references[0], axes, projections, seed))
        )
        if progress is not None:
            progress(step / settings.steps, f"step {step}, loss {loss:.4f}, sliced W2 {rows[-1][2]:.3f}")
    columns = torch.tensor(rows, dtype=torch.float64).T
    return Trial(
        seed, eigenvalue, columns[0].long(), *columns[1:], baselines=anchors, meaning=meaning, index=index
    )


def _measure(made: Tensor, reference: Tensor, axes: Tensor, projections: int, seed: int) -> tuple[float, ...]:
    good = torch.isfinite(made).all(dim=1)
    kept, target = made[good], reference[: int(good.sum())]
    share = float(good.double().mean())
    if kept.shape[0] < 2:
        return (float("inf"),) * 5 + (share,)
    distance: SlicedDistance = sliced_distance(
        kept, target, projections=projections, generator=stream(seed, "projections")
    )
    along = axis_distance(kept, axes[0], target @ axes[0]) / axes.shape[1] ** 0.5
    variance = float((kept @ axes.T).square().sum() / (target @ axes.T).square().sum())
    return distance.mean, distance.largest, along, variance, off_axis_spread(kept, axes), share
