r"""Loops: has the embedding the ring that the latents have, or has it folded?

A map to few dimensions trained by contrast keeps the winding number that it began with; one that began folded
stays folded, and everything drawn in it is wrong. Two checks:

- *loops*, by persistent homology (H1): the longest-lived loop of the latents and of the embedding, as
  lifetime over diameter, 0.87 for a circle, near 0 for an arc or a cloud. Needs the package `ripser`.
- *mixing*, always: how far apart in the latents the neighbours in the embedding are, in units of random
  pairs, 0 for a faithful map and about a half where two branches of a ring lie on each other. An embedding
  that rightly ignores a factor of the latents mixes too, so alone it is a hint, not a verdict.

References:
    Edelsbrunner, Letscher, Zomorodian, "Topological persistence and simplification", 2002,
        https://doi.org/10.1007/s00454-002-2885-2
    Tralie, Saul, Bar-On, "Ripser.py: A Lean Persistent Homology Library for Python", 2018,
        https://doi.org/10.21105/joss.00925
    de Silva, Carlsson, "Topological estimation using witness complexes", 2004 (farthest-point landmarks)
"""

from dataclasses import dataclass
from importlib.util import find_spec

import torch
from torch import Tensor

from workbench.conda.lifts import NeighbourIndex
from workbench.draws import seeded
from workbench.errors import MissingExtra

_LANDMARKS = 300
_RING = 0.35  # lifetime over diameter of a loop that counts as a ring
_MIXED = 0.3  # mixing above which the map may be folded


@dataclass(frozen=True, slots=True)
class Topology:
    """Loops and mixing of an embedding.

    Attributes:
        loops: Lifetimes of its longest loops over its diameter, longest first; empty without `ripser`.
        latent_loops: The same of the latents.
        mixing: Distance in the latents of neighbours in the embedding, over that of random pairs.
        folded: Whether the latents have a ring that the embedding has not; None without `ripser`.
        warning: One sentence for the reader, "" if there is nothing to say.
    """

    loops: tuple[float, ...]
    latent_loops: tuple[float, ...]
    mixing: float
    folded: bool | None
    warning: str


def find_loops(points: Tensor, *, landmarks: int = _LANDMARKS, count: int = 5) -> tuple[float, ...]:
    """Lifetimes of the longest loops over the diameter, longest first.

    Args:
        points: A cloud, shape (n, dim).
        landmarks: Points it is thinned to, each the farthest from those before it.
        count: How many loops.

    Returns:
        At most `count` numbers; a circle gives 0.87 and then little.

    Raises:
        MissingExtra: If `ripser` is not there.
    """
    try:
        from ripser import ripser
    except ImportError as error:
        raise MissingExtra.of("ripser", "conda") from error
    chosen = _farthest(points.detach().cpu().double(), landmarks)
    apart = torch.cdist(chosen, chosen)
    diameter = float(apart.max())
    if diameter == 0.0:
        return ()
    bars = ripser(apart.numpy(), maxdim=1, distance_matrix=True)["dgms"][1]
    return tuple(sorted(((bars[:, 1] - bars[:, 0]) / diameter).tolist(), reverse=True)[:count])


def measure_mixing(
    inputs: Tensor, points: Tensor, *, k: int = 8, generator: torch.Generator | None = None
) -> float:
    """How far apart in the latents the neighbours in the embedding are.

    Args:
        inputs: Latents as the network sees them, shape (n, p).
        points: The embedding, shape (n, dim).
        k: Neighbours of each point.
        generator: Chooses the points asked and the random pairs; that of seed 0 if None.

    Returns:
        Mean squared distance of neighbours over that of random pairs; 0 is faithful, 1 is unrelated.
    """
    generator = seeded(generator)
    asked = torch.randperm(len(points), generator=generator, device=generator.device).cpu()[:1000]
    rows = NeighbourIndex(points, spacing=1.0).find(points[asked], min(k + 1, len(points)))[1][:, 1:]
    inputs = inputs.cpu().double()
    near = (inputs[rows] - inputs[asked][:, None]).square().sum(-1).mean()
    centred = inputs - inputs.mean(dim=0)
    return float(near / (2.0 * centred.square().sum(-1).mean()).clamp_min(1e-300))


def check_topology(inputs: Tensor, points: Tensor, *, generator: torch.Generator | None = None) -> Topology:
    """Compare the loops of an embedding with those of the latents.

    Args:
        inputs: Latents as the network sees them, shape (n, p).
        points: The embedding, shape (n, dim).
        generator: See `measure_mixing`.

    Returns:
        What was found, with a warning where the ring has folded.
    """
    mixing = measure_mixing(inputs, points, generator=generator)
    if find_spec("ripser") is None:
        warning = (
            f"neighbours in the embedding are {mixing:.2f} of a random pair apart: it may be folded"
            if mixing > _MIXED
            else ""
        )
        return Topology((), (), mixing, None, warning)
    latent_loops, loops = find_loops(inputs), find_loops(points)
    ring = bool(latent_loops) and latent_loops[0] > _RING
    kept = bool(loops) and loops[0] > _RING
    folded = ring and not kept
    warning = ""
    if folded:
        warning = (
            f"the latents form a ring (loop {latent_loops[0]:.2f} of their diameter), the embedding does not "
            f"({loops[0] if loops else 0.0:.2f}): it is folded; try one more dimension or more restarts"
        )
    elif not ring and mixing > _MIXED:
        warning = (
            f"neighbours in the embedding are {mixing:.2f} of a random pair apart in the latents: "
            "it ignores a factor or is folded"
        )
    return Topology(loops, latent_loops, mixing, folded, warning)


def _farthest(points: Tensor, count: int) -> Tensor:
    """A thinned cloud: each point the farthest from those chosen before it."""
    if len(points) > 20 * count:
        points = points[:: len(points) // (20 * count)]
    if len(points) <= count:
        return points
    chosen = [0]
    apart = (points - points[0]).norm(dim=1)
    for _ in range(count - 1):
        chosen.append(int(apart.argmax()))
        apart = torch.minimum(apart, (points - points[chosen[-1]]).norm(dim=1))
    return points[chosen]
