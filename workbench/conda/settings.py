"""Everything that a contrastive fit depends on beside the latents, the context and the generator."""

from dataclasses import dataclass

from workbench.checks import check_choice, check_count, check_number, check_switch
from workbench.conda.infonce import SIMILARITIES
from workbench.conda.positives import KINDS, PRIORS

SCALINGS = ("auto", "none", "columns", "pca", "white")
"""What is done to latents before the network sees them."""

WIDE = 64
"""Latents of more entries are reduced by "auto", to this many components at most."""


@dataclass(frozen=True, slots=True)
class CondaConfig:
    """Everything that a fit depends on beside the data and the generator.

    Attributes:
        dim: Dimension of the embedding.
        positives: Sampler of pairs, see `workbench.conda.positives`; "auto" chooses by the context.
        inner: Sampler inside each group, for "multi".
        offset: Steps of time positives and increments.
        delta: Spread of Gaussian positives, in the variable's unit.
        prior: "empirical" or "balanced" references.
        similarity: "euclidean" or "cosine".
        temperature: tau, or where it begins if it is learnt.
        learn_temperature: Whether tau is learnt.
        least_temperature: Floor of a learnt tau.
        architecture: "mlp" or "conv".
        hidden: Width of the hidden layers.
        layers: Hidden layers of the perceptron.
        scaling: "columns" (mean 0, spread 1 each), "pca" (leading components, one common scale), "white"
            (components of spread 1), "none"; "auto" takes columns up to 64 entries and pca above.
        components: How many components "pca" and "white" keep; None for a tenth of the frames, at least twice
            the dimension and at most 64: of further ones few frames tell noise, which a network learns.
        iterations: Optimiser steps.
        batch: References, and negatives, a step.
        rate: Peak learning rate of Adam, falling to zero along a cosine.
        restarts: Copies that start side by side.
        held_out: Share of the frames that choose among them; 0 judges by new pairs of the same frames.
    """

    dim: int = 3
    positives: str = "auto"
    inner: str = "auto"
    offset: int | tuple[int, ...] = 1
    delta: float = 0.1
    prior: str = "empirical"
    similarity: str = "euclidean"
    temperature: float = 1.0
    learn_temperature: bool = False
    least_temperature: float = 0.1
    architecture: str = "mlp"
    hidden: int = 64
    layers: int = 3
    scaling: str = "auto"
    components: int | None = None
    iterations: int = 1000
    batch: int = 512
    rate: float = 1e-3
    restarts: int = 4
    held_out: float = 0.1

    def check(self) -> None:
        """Refuse settings that cannot be used.

        Raises:
            SettingError: In one sentence.
        """
        for name in ("dim", "hidden", "layers", "iterations", "restarts"):
            check_count(name, getattr(self, name))
        check_count("components", self.components, none=True)
        check_count("batch", self.batch, least=2)
        check_choice("positives", self.positives, ("auto", *KINDS))
        check_choice("prior", self.prior, PRIORS)
        check_choice("similarity", self.similarity, SIMILARITIES)
        check_choice("scaling", self.scaling, SCALINGS)
        for name in ("temperature", "least_temperature", "rate", "delta"):
            check_number(name, getattr(self, name), above=0.0)
        check_switch("learn_temperature", self.learn_temperature)
        check_number("held_out", self.held_out, least=0.0, below=0.5)
