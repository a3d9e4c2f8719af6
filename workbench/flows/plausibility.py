"""Whether points are as likely under a model as its held-out data are.

A high likelihood alone says little in many dimensions: a smooth, empty image is often more likely than any
real one. Held-out data span a range of log densities, and what lies below or above that range is no
typical point of the model.

References:
    Nalisnick, Matsukawa, Teh, Gorur, Lakshminarayanan, "Do Deep Generative Models Know What They Don't
        Know?", 2019, https://arxiv.org/abs/1810.09136
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.flows.likelihood import LikelihoodResult, log_likelihood
from workbench.models import ScoreModel
from workbench.types import Points


@dataclass(frozen=True, slots=True)
class PlausibilityResult:
    """Log densities of points beside those of held-out data, by the same steps and probes.

    Attributes:
        points: Log densities of the points.
        held_out: Log densities of the held-out data.
    """

    points: LikelihoodResult
    held_out: LikelihoodResult

    @property
    def low(self) -> float:
        """Smallest log density among the held-out data, in nats."""
        return float(self.held_out.nats.min())

    @property
    def high(self) -> float:
        """Largest log density among the held-out data, in nats."""
        return float(self.held_out.nats.max())

    @property
    def outside(self) -> Tensor:
        """Which points lie outside the held-out range by more than their probes err, shape (count,)."""
        nats, error = self.points.nats, self.points.probe_error
        return (nats + error < self.low) | (nats - error > self.high)

    def sentences(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """One sentence a point, a warning where it lies outside the range.

        Args:
            names: Names of the points, in order.

        Returns:
            As many sentences.
        """
        span = f"{self.low:.0f} to {self.high:.0f} nats of {self.held_out.nats.numel()} held-out samples"
        said = []
        for name, nats, error, outside in zip(
            names,
            self.points.nats.tolist(),
            self.points.probe_error.tolist(),
            self.outside.tolist(),
            strict=True,
        ):
            verdict = "outside" if outside else "within"
            warning = " - no typical sample of this model" if outside else ""
            said.append(f"{name}: log p = {nats:.0f} ± {error:.0f} nats, {verdict} {span}{warning}")
        return tuple(said)


def measure_plausibility(
    model: ScoreModel, points: Points, held_out: Tensor, *, steps: int = 10, probes: int = 2, seed: int = 0
) -> PlausibilityResult:
    """Log densities of points and of held-out data, for a comparison rather than for their own sake.

    Args:
        model: The model.
        points: Points to judge, shape (count, dim), in the data's unit.
        held_out: Real data that the model was not trained on, shape (samples, dim), two at least.
        steps: Heun steps of the flow.
        probes: Probes of the divergence, the same for all.
        seed: Of the probes.

    Returns:
        Both sets of densities; their common error by the steps cancels in the comparison.

    Raises:
        SettingError: If fewer than two held-out samples are given.
        ShapeError: If points do not fit the model.

    Cost: 2 steps (1 + 2 probes) model calls for every point and sample.
    """
    if held_out.shape[0] < 2:
        raise SettingError(f"{held_out.shape[0]} held-out samples", "two at least", "a few dozen")
    both = torch.cat([points, held_out.to(points)])
    generator = torch.Generator().manual_seed(seed)
    found = log_likelihood(
        model, both, steps=steps, solver="heun", probes=probes, generator=generator, check_steps=False
    )
    return PlausibilityResult(_rows(found, slice(len(points))), _rows(found, slice(len(points), None)))


def _rows(found: LikelihoodResult, rows: slice) -> LikelihoodResult:
    return replace(
        found,
        nats=found.nats[rows],
        step_error=None if found.step_error is None else found.step_error[rows],
        probe_error=found.probe_error[rows],
        latents=found.latents[rows],
    )
