"""Worlds: models and landscapes whose answers are known; the ground truth of tests, notebooks and views.

Densities (`g3`, `ring`, `v_mixture`, `two_wells`, `noisy_circle`) are score models that are exact at every
noise level; landscapes (`muller_brown`, `three_hole`, `polar_double_well`) are energies with forces. Each
states its `facts` and can draw its `reference_path()`. `Ising` and `Tasep` are lattice models with exact
partition functions and samplers: distributions over their parameters, not densities on a latent space.
"""

from functools import cache

from workbench.errors import SettingError
from workbench.worlds.circle import NoisyCircle
from workbench.worlds.facts import DensityWorld, Facts, LandscapeWorld, Route, World
from workbench.worlds.ising import InfiniteIsing, Ising, infinite_ising, sample_heat_bath, sample_wolff
from workbench.worlds.mixture import GaussianMixture
from workbench.worlds.mixtures import ring_mixture, three_gaussians, two_wells, v_mixture
from workbench.worlds.muller_brown import MullerBrown
from workbench.worlds.polar import PolarDoubleWell
from workbench.worlds.reference import deviation
from workbench.worlds.tasep import Tasep
from workbench.worlds.three_hole import ThreeHole

_MAKERS = {
    "muller_brown": MullerBrown,
    "v_mixture": v_mixture,
    "ring": ring_mixture,
    "noisy_circle": NoisyCircle,
    "three_hole": ThreeHole,
    "polar_double_well": PolarDoubleWell,
    "two_wells": two_wells,
    "g3": three_gaussians,
}

WORLDS: tuple[str, ...] = tuple(_MAKERS)
"""Names that `load_world` knows."""

LANDSCAPES: tuple[str, ...] = ("muller_brown", "three_hole", "polar_double_well")
"""Those of them that are energies without a density: they have no noise level."""


@cache
def load_world(name: str) -> World:
    """The world of that name; made once, always the same object.

    Args:
        name: One of `WORLDS`.

    Returns:
        A score model with exact answers, or a landscape for the names in `LANDSCAPES`.

    Raises:
        SettingError: If no world has that name.

    Example:
        >>> round(load_world("v_mixture").facts.barrier, 6)
        1.587018
    """
    if name not in _MAKERS:
        raise SettingError(f"world {name!r}", f"one of {', '.join(WORLDS)}", "load_world('v_mixture')")
    return _MAKERS[name]()


__all__ = [
    "LANDSCAPES",
    "WORLDS",
    "DensityWorld",
    "Facts",
    "GaussianMixture",
    "InfiniteIsing",
    "Ising",
    "LandscapeWorld",
    "MullerBrown",
    "NoisyCircle",
    "PolarDoubleWell",
    "Route",
    "Tasep",
    "ThreeHole",
    "World",
    "deviation",
    "infinite_ising",
    "load_world",
    "ring_mixture",
    "sample_heat_bath",
    "sample_wolff",
    "three_gaussians",
    "two_wells",
    "v_mixture",
]
