"""How good a generative model is, in numbers that a card can hold.

Four measures, each with its error: the share of conditional samples to which a judge gives the class that was
asked for; the Fréchet distance between the judge's features of samples and of held-out images,

    |m1 - m2|^2 + tr(C1 + C2 - 2 (C1^(1/2) C2 C1^(1/2))^(1/2));

the mean distance of samples to their nearest training image over that of held-out images (well below 1:
copies); and the mean squared error of the denoiser on held-out images at given noise levels. For
two-dimensional sets, where no judge is needed, the energy distance between samples and fresh data stands for
the first three. A model on latents is judged by its decoded samples; its denoising errors are those of
encoded images, in latents.

The Fréchet distance depends on the sample sizes: compare it only with a distance at the same sizes, such as
that of two halves of real images, which the cards give beside it.

References:
    GANs trained by a two time-scale update rule converge to a local Nash equilibrium (Heusel et al., 2017),
    https://arxiv.org/abs/1706.08500
    Energy statistics: a class of statistics based on distances (Székely, Rizzo, 2013),
    https://doi.org/10.1016/j.jspi.2013.03.018
"""

from workbench.quality.figures import (
    DENOISING_LEVELS,
    figures_as_facts,
    measure_frames,
    measure_images,
    measure_levels,
    measure_toy,
)
from workbench.quality.measures import (
    energy_distance,
    frechet_distance,
    judged,
    measure_accuracy,
    measure_denoising,
    measure_frechet,
    measure_neighbours,
    measure_reconstruction,
)

__all__ = [
    "DENOISING_LEVELS",
    "energy_distance",
    "figures_as_facts",
    "frechet_distance",
    "judged",
    "measure_accuracy",
    "measure_denoising",
    "measure_frames",
    "measure_frechet",
    "measure_images",
    "measure_levels",
    "measure_neighbours",
    "measure_reconstruction",
    "measure_toy",
]
