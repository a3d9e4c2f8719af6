"""The landscape under a string: forces, and energies where they are known."""

from collections.abc import Callable
from dataclasses import dataclass

from workbench.models import ExactScore, Landscape, ScoreModel, score
from workbench.types import Points, Scalars, Vectors


@dataclass(frozen=True, slots=True)
class Ground:
    """The landscape under a string, whatever it comes from.

    Attributes:
        name: In words.
        unit: Unit of the energy.
        sigma: Noise level, 0 where noise has no meaning.
        force: -grad V at points (rows, dim).
        energy: V at points; None where only the force is known.
        smooth: Whether torch can differentiate the force.
    """

    name: str
    unit: str
    sigma: float
    force: Callable[[Points], Vectors]
    energy: Callable[[Points], Scalars] | None
    smooth: bool = False


def ground_of(model: ScoreModel | Landscape, sigma: float) -> Ground:
    """The landscape of a model at one noise level, or a landscape itself.

    Args:
        model: A model or a landscape.
        sigma: Noise level in the data's unit; without meaning for a landscape.

    Returns:
        Energies in nats, -log p, where the model knows its density; forces alone for a network.
    """
    if isinstance(model, Landscape):
        return Ground(model.name, model.unit, 0.0, model.force, model.energy)
    if isinstance(model, ExactScore):
        return Ground(
            f"{model.frame} at sigma {sigma:.4g}",
            "nats",
            sigma,
            lambda x: model.score(x, sigma),
            lambda x: -model.log_prob(x, sigma),
        )
    return Ground(
        f"{model.frame} at sigma {sigma:.4g}", "nats", sigma, lambda x: score(model, x, sigma), None, True
    )
