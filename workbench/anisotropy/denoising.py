r"""Training and sampling a small noise-predicting network, as the published experiments do it.

The loss is the plain squared error of the noise at levels drawn uniformly; sampling is ancestral or follows
the probability flow (the deterministic variant of the same ladder). Seeds for initialisation, data, noise
and sampling are separate streams of one trial's seed, so that two directions can share all of them.

References:
    Denoising diffusion probabilistic models (Ho, Jain, Abbeel, 2020), algorithms 1 and 2,
    https://arxiv.org/abs/2006.11239
    Denoising diffusion implicit models (Song, Meng, Ermon, 2021), https://arxiv.org/abs/2010.02502
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.anisotropy.levels import Levels, ddpm_levels
from workbench.architectures import Architecture, FlatNet
from workbench.draws import draw_integers, draw_normal
from workbench.errors import SettingError

STREAMS = ("initialisation", "data", "noise", "sampling", "projections")
"""Independent streams of random numbers of one trial."""


def stream(seed: int, name: str) -> torch.Generator:
    """The generator of one of the `STREAMS` of a trial."""
    return torch.Generator().manual_seed(seed * len(STREAMS) + STREAMS.index(name))


@dataclass(frozen=True, slots=True)
class DenoisingSettings:
    """How a network is trained and sampled.

    Attributes:
        steps: Optimiser steps.
        batch: Samples a step.
        rate: Learning rate of Adam.
        clip: Largest gradient norm.
        levels: Number of noise levels of the ladder.
        sampler: "ancestral" or "ode".
    """

    steps: int = 300
    batch: int = 128
    rate: float = 1e-3
    clip: float = 1.0
    levels: int = 100
    sampler: str = "ancestral"


def build_network(
    architecture: Architecture,
    seed: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> FlatNet:
    """A fresh network of a trial; the global generator is put back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "initialisation").initial_seed())
        return FlatNet(architecture).to(device=device, dtype=dtype)


def train_noise_predictor(
    net: FlatNet,
    draw: Callable[[int, torch.Generator], Tensor],
    *,
    settings: DenoisingSettings,
    seed: int,
    stops: tuple[int, ...] = (),
    cancel=None,
) -> Iterator[tuple[int, float]]:
    """Train a network in place, pausing at the steps asked for.

    Args:
        net: The network.
        draw: (count, generator) -> data (count, dim).
        settings: Steps, batch, rate, clip and ladder.
        seed: Seed of the trial.
        stops: Steps at which to pause; the last step always is one.
        cancel: An object whose `is_set()` ends the training early.

    Yields:
        (step, mean loss since the last pause), with the network in evaluation mode.

    Raises:
        SettingError: If the network does not predict noise.
    """
    if net.prediction != "eps":
        raise SettingError("a network that predicts other things than noise", "prediction='eps'")
    levels = ddpm_levels(settings.levels)
    example = next(net.parameters())
    a, s, clock = (values.to(example) for values in (levels.a, levels.s, levels.time))
    data, noise = stream(seed, "data"), stream(seed, "noise")
    optimiser = torch.optim.Adam(net.parameters(), lr=settings.rate)
    losses: list[Tensor] = []
    pauses = {*stops, settings.steps}
    for step in range(1, settings.steps + 1):
        net.train()
        clean = draw(settings.batch, data).to(example)
        level = draw_integers(levels.count, (settings.batch,), example, noise)
        eps = draw_normal(clean.shape, example, noise)
        with torch.enable_grad():  # also in a worker or a block that records no gradients
            guess = net(a[level, None] * clean + s[level, None] * eps, clock[level])
            loss = (guess - eps).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), settings.clip)
        optimiser.step()
        losses.append(loss.detach())
        stopped = cancel is not None and cancel.is_set()
        if step in pauses or stopped:
            net.eval()
            yield step, float(torch.stack(losses).mean())
            losses.clear()
        if stopped:
            return


@torch.no_grad()
def sample_noise_predictor(
    net: FlatNet,
    count: int,
    *,
    levels: Levels,
    sampler: str = "ancestral",
    generator: torch.Generator,
    batch: int = 512,
) -> Tensor:
    """Samples from a noise predictor.

    Args:
        net: The network, in evaluation mode.
        count: How many; need not divide into batches.
        levels: The ladder it was trained on.
        sampler: "ancestral" (posterior variance) or "ode" (deterministic).
        generator: Draws the start and, for "ancestral", every step.
        batch: Samples at once.

    Returns:
        Points (count, dim) in the network's dtype, on its device. Random numbers are drawn where the
        generator lives, so that with one on the CPU every device sees the same.

    Raises:
        SettingError: If the sampler is unknown.

    Cost:
        One model call a sample and level.
    """
    if sampler not in ("ancestral", "ode"):
        raise SettingError(f"sampler {sampler!r}", "ancestral or ode")
    example = next(net.parameters())
    dim = int(torch.tensor(net.shape).prod())
    a, s, clock = (values.to(example) for values in (levels.a, levels.s, levels.time))
    parts = []
    for start in range(0, count, batch):
        size = min(batch, count - start)
        x = draw_normal((size, dim), example, generator)
        for level in range(levels.count - 1, -1, -1):
            eps = net(x, clock[level].expand(size))
            a_next = a[level - 1] if level else torch.ones_like(a[0])
            s_next = s[level - 1] if level else torch.zeros_like(s[0])
            clean = (x - s[level] * eps) / a[level]
            if sampler == "ode":
                x = a_next * clean + s_next * eps
                continue
            kept = (a[level] / a_next) ** 2
            spread = s_next / s[level] * (1.0 - kept).sqrt()
            x = (x - (1.0 - kept) / s[level] * eps) / kept.sqrt()
            if level:
                x = x + spread * draw_normal(x.shape, x, generator)
        parts.append(x)
    return torch.cat(parts)
