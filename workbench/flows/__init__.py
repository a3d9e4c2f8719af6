r"""The probability-flow ODE: transport between noise and data, inversion, and likelihood.

In the frame of a noising :math:`x_t = a(t)\,x_0 + s(t)\,\varepsilon` points move by

.. math::  \dot x_t = b_t(x_t) = \dot a\,D + \dot s\,\mathbb{E}[\varepsilon \mid x_t],

which carries the law of :math:`x_t` along, whatever noising the model was trained on. The log density
follows the flow by the divergence,

.. math::  \log p_{data}(x) = \log p_{noise}(z) + \int_{data}^{noise} \nabla\cdot b_t(x_t)\,dt .

A schedule whose rates are infinite somewhere is integrated in its `regular` clock. Beyond the noise levels
that a model declares the flow is continued by its limit: above, the noise in a point is frozen; below, its
clean part is. So every schedule can be asked from one end of its clock to the other.

References:
    Song, Sohl-Dickstein, Kingma, Kumar, Ermon, Poole, "Score-Based Generative Modeling through Stochastic
        Differential Equations", 2021, section 4.3 and appendix D.2, https://arxiv.org/abs/2011.13456
    Chen, Rubanova, Bettencourt, Duvenaud, "Neural Ordinary Differential Equations", 2018, theorem 1,
        https://arxiv.org/abs/1806.07366
    Grathwohl, Chen, Bettencourt, Sutskever, Duvenaud, "FFJORD", 2019 (Hutchinson's estimate with one set of
        probes), https://arxiv.org/abs/1810.01367
"""

from workbench.flows.clock import clock_ends, noise_range
from workbench.flows.likelihood import LikelihoodResult, log_likelihood
from workbench.flows.transport import FlowResult, InversionResult, generate, invert, transport

__all__ = [
    "FlowResult",
    "InversionResult",
    "LikelihoodResult",
    "clock_ends",
    "generate",
    "invert",
    "log_likelihood",
    "noise_range",
    "transport",
]
