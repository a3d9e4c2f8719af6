"""The exact answer of a world for ends of one's own choice.

A path between any two points of a world runs down from each to the minimum of its basin and from there along
a known route. Its barrier is therefore the highest saddle of the route, or the higher end if that is higher
still, above the start. Which basin a point belongs to is found by steepest descent.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.models import LevelLandscape
from workbench.types import Points, Scalars
from workbench.worlds.facts import DensityWorld, Route, World
from workbench.worlds.reference import deviation


@dataclass(frozen=True, slots=True, eq=False)
class KnownAnswer:
    """What is known about the path between two points of a world.

    Attributes:
        route: The route between the minima of their basins.
        barrier: Highest energy on the way minus the energy at the start.
        between_minima: Whether the two points are the route's own ends, so that its length and its reference
            path are those of the whole path.
        reversed: The path runs against the route.
    """

    route: Route
    barrier: float
    between_minima: bool
    reversed: bool


def energy_of(world: World, x: Points) -> Scalars:
    """Energy of a world at zero noise: its own, or -log of its density."""
    return LevelLandscape(world, 0.0).energy(x) if isinstance(world, DensityWorld) else world.energy(x)


def descend_to_minimum(world: World, x: Points, *, steps: int = 2000, tol: float = 1e-2) -> Tensor:
    """Which minimum of a world each point runs down to.

    Args:
        world: The world.
        x: Points, shape (count, dim).
        steps: Most steps of steepest descent, each bounded by the curvature where it starts.
        tol: How near a minimum counts as there, in units of the closest pair of minima.

    Returns:
        Rows of `world.facts.minima`, shape (count,); -1 where no known minimum was reached. Cost: one force
        and one Hessian a point and step.
    """
    minima = world.facts.minima.to(x)
    reach = tol * (float(torch.pdist(minima).min()) if len(minima) > 1 else 1.0)
    x = x.clone()
    for _ in range(steps):
        far = torch.cdist(x, minima).amin(-1) > reach
        if not bool(far.any()):
            break
        force = world.score(x, 0.0) if isinstance(world, DensityWorld) else world.force(x)
        stiffness = torch.linalg.matrix_norm(world.hessian(x))
        step = force / stiffness.clamp_min(1e-12)[:, None]
        size = step.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        x = torch.where(far[:, None], x + step * (10.0 * reach / size).clamp_max(1.0), x)
    distance, which = torch.cdist(x, minima).min(-1)
    return torch.where(distance <= reach, which, -1)


def known_answer(
    world: World, start: Tensor, end: Tensor, *, near: Points | None = None
) -> KnownAnswer | None:
    """The exact barrier between two points, where the world knows a route between their basins.

    Args:
        world: The world, at zero noise.
        start: First end, shape (dim,).
        end: Last end, shape (dim,).
        near: Nodes of a path that was found, shape (count, dim): of several routes the one whose saddles lie
            closest to it is meant; None for the world's first.

    Returns:
        The answer, or None if no known route joins the two basins.
    """
    ends = torch.stack([start, end])
    basins = descend_to_minimum(world, ends)
    if bool((basins < 0).any()):
        return None
    minima = world.facts.minima.to(ends)[basins]
    fitting = []
    for route in world.facts.routes:
        for turned in (False, True):
            order = route.minima.flip(0) if turned else route.minima
            if torch.allclose(minima, order[[0, -1]].to(ends), atol=1e-6):
                fitting.append((route, turned))
    if not fitting:
        return None
    if near is not None and len(fitting) > 1:
        fitting.sort(key=lambda pair: float(deviation(pair[0].saddles.to(near), near).max()))
    route, turned = fitting[0]
    marks = torch.cat([route.saddles.to(ends), ends, minima])
    energies = energy_of(world, marks)
    start_energy = energies[len(route.saddles)]
    at_minima = bool(torch.allclose(ends, minima, atol=1e-6))
    return KnownAnswer(route, float(energies.max() - start_energy), at_minima, turned)


def measure_deviation(world: World, path: Points) -> float | None:
    """Largest distance of a path's nodes to the known path between the same ends.

    Args:
        world: The world, at zero noise.
        path: Nodes, shape (count, dim), the first and last at minima of the world.

    Returns:
        The distance in the data's unit, or None where no known route joins the ends, or the ends are no
        minima.
    """
    answer = known_answer(world, path[0], path[-1], near=path)
    if answer is None or not answer.between_minima:
        return None
    return float(deviation(path, world.reference_path(answer.route.name).to(path)).max())
