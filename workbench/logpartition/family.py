r"""Learning an exponential family from samples: statistics by a network, everything else in closed form.

A network phi maps a sample to a few statistics. Its logits over the sampled natural points,
:math:`\langle \phi(x), t_j\rangle - \psi_j`, are the log posterior of an exponential family with uniform
prior, so that cross-entropy against the true point learns the sufficient statistics up to a constant and psi
beside them. There is one stage; afterwards the statistics are taken as they are, psi and the metric follow
from `potential_of_statistics`. A free softmax head would reach the same loss without being an exponential
family, and its metric would be wrong.

Fit in natural coordinates and transform afterwards: in others the same head learns another tensor.

References:
    Lobashev, Guskov, Larchenko, Tamm, "Hessian Geometry of Latent Space in Generative Models", 2025,
        https://arxiv.org/abs/2506.10632 (there in two stages with a free head; see `fit_two_stage`)
    Gutmann, Hyvarinen, "Noise-contrastive estimation", 2010 (reverse logistic regression)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from workbench.draws import seeded
from workbench.errors import SettingError, ShapeError
from workbench.integrators import Cancel
from workbench.logpartition.mbar import LearnedPotential, potential_of_statistics
from workbench.metrics.base import Chart
from workbench.report import Provenance, SolveReport, Status, provenance_of


class LatticeStatistics(nn.Module):
    """Local statistics of a periodic lattice summed over its sites: one wrapped convolution and two site-wise
    layers.

    Args:
        count: Number of statistics.
        width: Channels.
        reach: Side of the window that a site sees.
    """

    def __init__(self, count: int, width: int = 24, reach: int = 2) -> None:
        super().__init__()
        self.reach = reach
        self.window = nn.Conv2d(1, width, reach)
        self.mix = nn.Conv2d(width, width, 1)
        self.out = nn.Conv2d(width, count, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Statistics of lattices (batch, rows, columns), shape (batch, count)."""
        wrapped = nn.functional.pad(x.unsqueeze(1), (0, self.reach - 1, 0, self.reach - 1), mode="circular")
        hidden = nn.functional.silu(self.mix(nn.functional.silu(self.window(wrapped))))
        return self.out(hidden).sum(dim=(2, 3)) / math.sqrt(x.shape[1] * x.shape[2])


class VectorStatistics(nn.Module):
    """Statistics of flat samples by a small smooth perceptron with a linear path beside it.

    Args:
        dim: Size of a sample.
        count: Number of statistics.
        width: Units of its two hidden layers.
    """

    def __init__(self, dim: int, count: int, width: int = 64) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(dim, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, count)
        )
        self.line = nn.Linear(dim, count)

    def forward(self, x: Tensor) -> Tensor:
        """Statistics of samples (batch, dim), shape (batch, count)."""
        return self.body(x) + self.line(x)


@dataclass(frozen=True, slots=True)
class FamilyFit:
    """A fitted exponential family.

    Attributes:
        potential: psi and its metric, ready to be used as one.
        losses: Mean cross-entropy of each epoch, in nats.
        chance: Cross-entropy of knowing nothing: log of the number of cells.
        report: Epochs done, how far psi is from its fixed point, samples seen; cancelled if it was.
        provenance: Settings and seed.
    """

    potential: LearnedPotential
    losses: tuple[float, ...]
    chance: float
    report: SolveReport
    provenance: Provenance


def fit_family(
    samples: Tensor,
    points: Tensor,
    cells: Tensor,
    *,
    network: nn.Module | None = None,
    chart: Chart | None = None,
    epochs: int = 20,
    batch: int = 256,
    rate: float = 1e-2,
    generator: torch.Generator | None = None,
    progress: Callable[[float, str], None] | None = None,
    cancel: Cancel | None = None,
) -> FamilyFit:
    """Learn statistics, log partition function and metric from labelled samples.

    Args:
        samples: Shape (samples, *shape): lattices (rows, columns) or flat vectors.
        points: Natural points that were sampled, shape (cells, dim).
        cells: Index of each sample's point, shape (samples,).
        network: phi, from a batch of samples to (batch, dim); None for a small smooth one of the samples'
            shape. It is trained in place.
        chart: Name of the natural coordinates.
        epochs: Passes over the samples.
        batch: Samples to a step.
        rate: Largest learning rate; it falls to zero along a cosine.
        generator: Source of initial weights and of the order of samples; None for one of seed 0.
        progress: Called with the share done and a message.
        cancel: Asked after every epoch.

    Returns:
        The fit. Cost: epochs passes of the network, then a few Newton steps.

    Raises:
        ShapeError: If shapes do not fit, or no network is known for samples of that shape.
        SettingError: If all points coincide along an axis.
    """
    if cells.shape != samples.shape[:1]:
        raise ShapeError(f"{tuple(cells.shape)} cell indices", f"one for each of {len(samples)} samples")
    dim = points.shape[1]
    centre, scale = span_of(points)
    generator = seeded(generator)
    with torch.random.fork_rng(devices=[]):  # weights are drawn on the CPU, wherever they go
        torch.manual_seed(_seed(generator))
        if network is None:
            network = network_for(samples, dim)
    network = network.to(samples.device, torch.float32).train()
    unit = ((points - centre) / scale).float()
    log_partition = nn.Parameter(torch.zeros(len(points), device=samples.device))
    inputs, total = samples.float(), len(samples)
    groups = [
        {"params": list(network.parameters()), "max": rate},
        {"params": [log_partition], "max": 20.0 * rate},
    ]
    optimiser = torch.optim.Adam(groups, lr=rate)
    steps, done, losses = epochs * math.ceil(total / batch), 0, []
    for epoch in range(epochs):
        order = torch.randperm(total, generator=generator, device=generator.device).to(samples.device)
        running = torch.zeros((), device=samples.device)
        for pick in order.split(batch):
            share = done / steps
            for group in optimiser.param_groups:
                group["lr"] = group["max"] * min(1.0, done / 30.0) * 0.5 * (1.0 + math.cos(math.pi * share))
            logits = network(inputs[pick]) @ unit.mT - log_partition
            loss = nn.functional.cross_entropy(logits, cells[pick])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            running += loss.detach() * len(pick)
            done += 1
        losses.append(float(running) / total)
        if progress is not None:
            progress((epoch + 1) / epochs, f"epoch {epoch + 1}: cross-entropy {losses[-1]:.3f} nats")
        if cancel is not None and cancel.is_set():
            break
    network.eval()
    with torch.no_grad():
        learned = torch.cat([network(part) for part in inputs.split(4096)]).to(points.dtype) / scale
    potential = potential_of_statistics(learned, points, cells, chart=chart, refine=True)
    settings = {"epochs": epochs, "batch": batch, "rate": rate, "samples": total, "cells": len(points)}
    provenance = provenance_of(
        points,
        model="exponential family with learned statistics",
        settings=settings,
        generator=generator,
        sources=(
            "Hessian Geometry of Latent Space in Generative Models",
            "Multistate Bennett acceptance ratio",
        ),
    )
    named = replace(potential, name="learned Fisher (exponential family)")
    report = SolveReport(
        potential.report.status if len(losses) == epochs else Status.CANCELLED,
        len(losses),
        potential.report.residual,
        len(losses) * total,
        tuple(losses),
        (),
        f"cross-entropy {losses[-1]:.3f} nats of {math.log(len(points)):.3f}; {potential.report.message}",
    )
    report.warn_if_failed()
    return FamilyFit(named, tuple(losses), math.log(len(points)), report, provenance)


def network_for(samples: Tensor, count: int) -> nn.Module:
    """A small smooth statistic network for lattices (samples, rows, columns) or vectors (samples, dim)."""
    if samples.ndim == 3:
        return LatticeStatistics(count)
    if samples.ndim == 2:
        return VectorStatistics(samples.shape[1], count)
    raise ShapeError(
        f"samples of shape {tuple(samples.shape)}",
        "(samples, rows, columns) or (samples, dim)",
        "network=...",
    )


def _seed(generator: torch.Generator) -> int:
    return int(torch.randint(2**31, (), generator=generator, device=generator.device))


def span_of(points: Tensor) -> tuple[Tensor, Tensor]:
    """Middle and half width of natural points along every axis, by which they are scaled to -1 .. 1.

    Args:
        points: Shape (cells, dim).

    Returns:
        Middle and half width, shapes (dim,).

    Raises:
        ShapeError: If the points are not finite, or no table.
        SettingError: If they coincide along an axis.
    """
    if points.ndim != 2 or not bool(torch.isfinite(points).all()):
        raise ShapeError(f"points of shape {tuple(points.shape)}", "finite ones of shape (cells, dim)")
    low, high = points.amin(dim=0), points.amax(dim=0)
    same = (high == low).nonzero()
    if len(same):
        raise SettingError(
            f"points that all agree on axis {int(same[0])}", "a spread along every axis", "leaving it out"
        )
    return 0.5 * (high + low), 0.5 * (high - low)
