r"""How steep the map from latent to sample is: the flow of two Gaussians, where the answer is a formula.

For data :math:`\tfrac12 N(-1, s^2) + \tfrac12 N(1, s^2)` the probability flow is the monotone map of
quantiles, so its slope at the boundary z = 0 between the two modes is :math:`\varphi(0)/p_0(0)`,

.. math::
    L(s) = s\, e^{1/(2 s^2)} .

It is huge for narrow modes and finite for every s > 0: at scales below 1/L the boundary is smooth, whatever
it looks like in low precision.

References:
    Lobashev, Guskov, Larchenko, Tamm, "Hessian Geometry of Latent Space in Generative Models", 2025,
        section 4 (exponent of the reverse process), https://arxiv.org/abs/2506.10632
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.forward import jvp
from workbench.integrators import Progress
from workbench.models import ScoreModel, noise
from workbench.types import Points, Vectors
from workbench.worlds import GaussianMixture


def two_gaussians(deviation: float) -> GaussianMixture:
    """The mixture of two equal Gaussians at -1 and 1 on the line, as a score model."""
    if not deviation > 0.0:
        raise SettingError(f"deviation {deviation}", "a positive number")
    return GaussianMixture(
        f"two Gaussians, s = {deviation:g}",
        torch.full((2,), 0.5, dtype=torch.float64),
        torch.tensor([[-1.0], [1.0]], dtype=torch.float64),
        torch.full((2, 1, 1), deviation**2, dtype=torch.float64),
    )


def exact_slope(deviation: float) -> float:
    """L(s) = s exp(1 / (2 s^2)): slope of the flow map at the boundary."""
    return deviation * math.exp(0.5 / deviation**2)


def exponent(deviation: float, t: Tensor, *, beta: float = 1.0) -> Tensor:
    """Growth rate at x = 0 and time t of the reverse flow of the VP process with constant beta.

    Its integral over all times is the logarithm of `exact_slope`.
    """
    kept = torch.exp(-beta * t)
    variance = kept * deviation**2 + 1.0 - kept
    return 0.5 * beta * (1.0 + (kept - variance) / variance**2)


@dataclass(frozen=True, slots=True)
class FlowMap:
    r"""The map from unit-normal latents to data, by the probability flow.

    The state is the point over :math:`r = \sqrt{\sigma^2 + s^2}`, s the spread of the data, in which

    .. math::
        \frac{d}{d\sigma} \frac yr = \frac1r \Big(\epsilon(y, \sigma) - \frac{\sigma y}{r^2}\Big):

    for Gaussian data of that spread nothing is left to integrate, and for other data only what differs.

    Attributes:
        model: The model.
        sigma_max: Noise level at which latents enter, scaled to the spread of data and noise there.
        softness: Scale c of the grid sigma = c sinh(u); about the smallest structure of the data.
        steps: Runge-Kutta steps in u.
        lowest: Noise level below which the model is asked at this one; for models that know no less.
        progress: Called before each step with the share done and a sentence; what it raises ends the flow.
    """

    model: ScoreModel
    sigma_max: float = 200.0
    softness: float = 0.05
    steps: int = 400
    lowest: float = 0.0
    progress: Progress | None = None

    def __call__(self, z: Points) -> Points:
        """Samples of latents, shape (*batch, dim); differentiable. Four model calls a step and point."""
        return self._spread(0.0) * self._follow(z, self._top, 0.0)

    def invert(self, x: Points) -> Points:
        """Latents of samples by the same flow backwards, shape (*batch, dim); exact up to its steps."""
        return self._follow(x / self._spread(0.0), 0.0, self._top)

    @property
    def _top(self) -> float:
        return math.asinh(self.sigma_max / self.softness)

    def _spread(self, sigma: float) -> float:
        return math.hypot(sigma, self.model.frame.data_std)

    def _follow(self, y: Tensor, start: float, end: float) -> Tensor:
        h = (end - start) / self.steps

        def rate(y: Tensor, u: float) -> Tensor:
            sigma = self.softness * math.sinh(max(u, 1e-9))
            r = self._spread(sigma)
            change = noise(self.model, r * y, max(sigma, self.lowest)) - (sigma / r) * y
            return change * (self.softness * math.cosh(u) / r)

        for k in range(self.steps):
            if self.progress is not None:
                self.progress(k / self.steps, f"step {k + 1} of {self.steps} of the flow")
            u = start + k * h
            first = rate(y, u)
            second = rate(y + 0.5 * h * first, u + 0.5 * h)
            third = rate(y + 0.5 * h * second, u + 0.5 * h)
            last = rate(y + h * third, u + h)
            y = y + (h / 6.0) * (first + 2.0 * second + 2.0 * third + last)
        return y

    def push(self, z: Points, v: Vectors) -> tuple[Points, Vectors]:
        """Sample and derivative along v, by a forward derivative through the whole flow; twice the cost."""
        return jvp(self, (z,), (v,))


def measure_slope(deviation: float, *, steps: int = 240, progress: Progress | None = None) -> float:
    """Slope at the boundary of the integrated flow of `two_gaussians`, by a forward derivative in float64.

    Args:
        deviation: s of each Gaussian.
        steps: Steps of the flow.
        progress: Called before each step; what it raises ends the flow.

    Returns:
        An estimate of `exact_slope` whose relative error falls with the fourth power of the steps.
    """
    flow = FlowMap(
        two_gaussians(deviation), sigma_max=1e3, softness=0.5 * deviation, steps=steps, progress=progress
    )
    zero = torch.zeros(1, 1, dtype=torch.float64)
    return float(flow.push(zero, torch.ones_like(zero))[1])
