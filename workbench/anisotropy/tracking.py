r"""How the average geometry moves while networks learn: an ensemble of partly trained networks.

Directions are read off fresh networks; whether training keeps them is a question of its own. A few networks
are trained on the same data, and at every pause their second moment at the probe is compared with the first
one's by principal angles between leading and trailing subspaces and by the Rayleigh quotient along the
data.

References:
    On the Anisotropy of Score-Based Generative Models (Floros et al., 2025), https://arxiv.org/abs/2510.22899
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.anisotropy.denoising import DenoisingSettings, build_network, train_noise_predictor
from workbench.anisotropy.levels import Levels, ddpm_levels
from workbench.anisotropy.subspaces import principal_angles
from workbench.architectures import Architecture, FlatNet
from workbench.errors import SettingError


@dataclass(frozen=True, slots=True)
class Track:
    """The geometry of an ensemble at several steps of its training.

    Attributes:
        steps: Optimiser steps, the first 0, shape (pauses,).
        cores: Second moments at x = 0, averaged over levels and networks, shape (pauses, dim, dim).
        largest_angles: Principal angles of the `count` largest directions from step 0's, shape (pauses,
            count).
        smallest_angles: The same of the smallest.
        rayleigh: v^T G v along the data's first direction, over tr G / dim, shape (pauses,).
        networks: How many networks.
    """

    steps: Tensor
    cores: Tensor
    largest_angles: Tensor
    smallest_angles: Tensor
    rayleigh: Tensor
    networks: int


def second_moment_at_zero(net: FlatNet, levels: Levels) -> Tensor:
    """Mean over the levels of w F F^T at x = 0 for one network, float64; one model call a level."""
    example = next(net.parameters())
    dim = int(torch.tensor(net.shape).prod())
    with torch.no_grad():
        out = (
            net(torch.zeros(levels.count, dim).to(example), levels.time.to(example)).double().cpu()
            * levels.weight.sqrt()[:, None]
        )
    return out.T @ out / levels.count


def track_geometry(
    architecture: Architecture,
    draw: Callable[[int, torch.Generator], Tensor],
    axis: Tensor,
    *,
    stops: tuple[int, ...],
    networks: int = 8,
    count: int = 4,
    settings: DenoisingSettings | None = None,
    device: torch.device | str = "cpu",
    progress: Callable[[float, str], None] | None = None,
) -> Track:
    """Train an ensemble and follow its second moment.

    Args:
        architecture: The recipe.
        draw: (count, generator) -> data (count, dim).
        axis: A unit direction of interest, (dim,).
        stops: Steps at which to look, ascending.
        networks: How many networks, seeds 0, 1, ....
        count: Size of the subspaces that are compared.
        settings: How to train; its steps are replaced by the last stop.
        device: Where to train.
        progress: Called with a fraction and a sentence.

    Returns:
        The track. With fewer networks than directions the small end is a null space of the sample: choose
        `networks` times the levels well above the dimension, or compare the largest only.

    Raises:
        SettingError: If the stops do not ascend from above zero, or count is too large.

    Cost:
        3 batch * steps model calls a network.
    """
    if not stops or list(stops) != sorted(set(stops)) or stops[0] < 1:
        raise SettingError(f"stops {stops}", "ascending steps from 1", "stops=(10, 100)")
    if not 1 <= count <= architecture.dim:
        raise SettingError(f"subspaces of {count}", f"1 to {architecture.dim}")
    given = settings or DenoisingSettings()
    training = DenoisingSettings(stops[-1], given.batch, given.rate, given.clip, given.levels, given.sampler)
    levels, along = ddpm_levels(training.levels), axis.double().cpu()
    cores = torch.zeros(len(stops) + 1, architecture.dim, architecture.dim, dtype=torch.float64)
    for seed in range(networks):
        net = build_network(architecture, seed, device=device).eval()
        cores[0] += second_moment_at_zero(net, levels) / networks
        steps = train_noise_predictor(net, draw, settings=training, seed=seed, stops=stops)
        for place, _ in enumerate(steps, start=1):
            cores[place] += second_moment_at_zero(net, levels) / networks
        if progress is not None:
            progress((seed + 1) / networks, f"network {seed + 1} of {networks}")
    rows = [torch.linalg.eigh(core)[1].T for core in cores]
    traces = cores.diagonal(dim1=1, dim2=2).sum(1) / architecture.dim
    return Track(
        steps=torch.tensor([0, *stops]),
        cores=cores,
        largest_angles=torch.stack([principal_angles(r[-count:], rows[0][-count:]) for r in rows]),
        smallest_angles=torch.stack([principal_angles(r[:count], rows[0][:count]) for r in rows]),
        rayleigh=(along @ cores @ along) / traces,
        networks=networks,
    )
