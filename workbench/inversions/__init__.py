r"""Inversion: the latent of a sample at any noise level, by solvers that differ in what they promise.

In the frame :math:`y = x_0 + \sigma\varepsilon` the probability-flow ODE is :math:`dy/d\sigma = \epsilon(y,
\sigma) = (y - D)/\sigma`. A grid :math:`\sigma_0 < \dots < \sigma_n` leads from the data to the depth
:math:`\sigma_n`, and a sampler leads down the same grid. With :math:`h_i = \sigma_i - \sigma_{i-1}` and
:math:`\epsilon_i = \epsilon(y_i, \sigma_i)` the samplers are

=============  ==========================================================================  =================
``ddim``       y_{i-1} = y_i - h_i eps_i; inverted with eps at the cleaner end             order 1
``fixed``      the same sampler, its inverse solved by iteration                           to a tolerance
``heun``       the mean of eps at both ends, either way                                    order 2
``edict``      two copies, each moved by the eps of the other, then mixed                  exact
``bdia``       z_{i-1} = z_{i+1} - up(z_i) + down(z_i), z = y / sqrt(1 + sigma^2)          exact
``belm``       y_{i-1} = r^2 y_{i+1} + (1 - r^2) y_i - h_i (1 + r) eps_i, r = h_i/h_{i+1}  exact
``reversible`` any one-step method beside a second copy that remembers                     exact
=============  ==========================================================================  =================

"Exact" means that the inverse undoes the sampler to rounding. It says nothing about how near the latent is to
the flow's own: `measure_round_trip` gives both numbers, sample by sample. An exact method needs all of its
state, so the unit here is a `Latent`, never one tensor.

References:
    Song, Meng, Ermon, "Denoising Diffusion Implicit Models", 2021, https://arxiv.org/abs/2010.02502
    Wallace, Gokul, Naik, "EDICT: Exact Diffusion Inversion via Coupled Transformations", 2023,
        https://arxiv.org/abs/2211.12446
    Zhang, Lewis, Kleijn, "Exact Diffusion Inversion via Bi-directional Integration Approximation", 2023,
        https://arxiv.org/abs/2307.10829
    Wang et al., "BELM: Bidirectional Explicit Linear Multi-step Sampler for Exact Inversion in Diffusion
        Models", 2024, https://arxiv.org/abs/2410.07273
    McCallum, Foster, "Efficient, Accurate and Stable Gradients for Neural ODEs", 2024,
        https://arxiv.org/abs/2410.11648
    Blasingame, Liu, "Reversible Solvers for Diffusion Models", 2025, https://arxiv.org/abs/2502.08834
"""

from workbench.inversions.accuracy import RoundTrip, measure_round_trip
from workbench.inversions.conditions import Blend, given_each
from workbench.inversions.depth import DepthProbe, probe_depths
from workbench.inversions.latent import Latent
from workbench.inversions.solve import decode, encode, inversion_levels, latent_from
from workbench.inversions.solvers import SOLVERS, solver_of
from workbench.inversions.steps import Solver

__all__ = [
    "SOLVERS",
    "Blend",
    "DepthProbe",
    "Latent",
    "RoundTrip",
    "Solver",
    "decode",
    "encode",
    "given_each",
    "inversion_levels",
    "latent_from",
    "measure_round_trip",
    "probe_depths",
    "solver_of",
]
