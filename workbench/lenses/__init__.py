"""The lenses: ways of looking at a model, each a verb that returns a result.

`LENSES` lists them one by one; contracts and views run over it. To add one, write its module and its entry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.lenses.anisotropy import DirectionsResult, find_directions
from workbench.lenses.conda import CondaFit, fit_conda
from workbench.lenses.fisher import GeodesicResult, find_geodesic
from workbench.lenses.paths import PathResult, find_path


@dataclass(frozen=True, slots=True)
class Lens:
    """An entry of the list.

    Attributes:
        name: Name of its module.
        question: What it answers.
        verb: The function to call.
        result: Class of what it returns.
    """

    name: str
    question: str
    verb: Callable[..., Any]
    result: type


LENSES: tuple[Lens, ...] = (
    Lens("paths", "Which way leads from one sample to another?", find_path, PathResult),
    Lens(
        "fisher",
        "How far apart are samples really, and where does a model change phase?",
        find_geodesic,
        GeodesicResult,
    ),
    Lens("anisotropy", "Which directions does an architecture find easy?", find_directions, DirectionsResult),
    Lens("conda", "Which map of latents follows the dynamics, and what lies along it?", fit_conda, CondaFit),
)
"""Every lens, in the order of the notebooks."""
