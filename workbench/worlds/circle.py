r"""The noisy circle: data on the unit circle, blurred; ridge and principal curve differ, and both are known.

With :math:`S^2 = w^2 + \sigma^2` (own width w and noise) and :math:`\kappa = r/S^2`,

.. math::
    \log p = -\frac{(r-1)^2}{2S^2} + \log\big(e^{-\kappa} I_0(\kappa)\big) - \log 2\pi S^2, \qquad
    \mathbb{E}[c \mid y] = A(\kappa)\,y/r, \quad A = I_1/I_0,

where c is the point of the circle beneath y. The ridge of the density, on which its minimum-energy path
lies, solves :math:`r = A(r/S^2)` and is inside the circle; the principal curve, at the mean radius, is
outside.

References:
    Hastie, Stuetzle, "Principal Curves", 1989, https://doi.org/10.1080/01621459.1989.10478797
    Mardia, Jupp, "Directional Statistics", 2000, section 3.5 (the Bessel ratio)
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.models import Frame, expand_sigma
from workbench.types import Matrices, Nodes, Points, Scalars, Sigma, Vectors
from workbench.worlds.facts import Facts, Route
from workbench.worlds.reference import route_of

_SERIES = (0.5, -1.0 / 16.0, 1.0 / 96.0, -11.0 / 6144.0, 473.0 / 1474560.0)  # of A(k)/k in k^2
_SMALL = 1e-3  # of k^2: beneath it five terms are exact to rounding


@dataclass(frozen=True, slots=True, eq=False)
class NoisyCircle:
    """The unit circle blurred by isotropic noise of a given width, as a score model in the plane.

    Attributes:
        width: Standard deviation w of the data around the circle, positive and below 1/sqrt(2).
    """

    width: float = 0.2
    name: str = "noisy_circle"
    dim: int = 2
    frame: Frame = field(init=False, repr=False)
    facts: Facts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0.0 < self.width < math.sqrt(0.5):
            raise SettingError(
                f"width {self.width:g}", "a positive width below 0.7071, where the ridge vanishes"
            )
        frame = Frame(self.name, (2,), 0.0, 1e10, data_std=math.sqrt(0.5 + self.width**2))
        object.__setattr__(self, "frame", frame)
        radius = self.ridge()
        ends = radius * torch.tensor([[-math.sqrt(0.75), 0.5], [math.sqrt(0.75), 0.5]], dtype=torch.float64)
        none = torch.zeros(0, 2, dtype=torch.float64)
        route = Route("ridge", ends, none, 0.0, radius * 2.0 * math.pi / 3.0)
        window = (-1.8, 1.8, -1.8, 1.8)
        facts = Facts(ends, none, ends[0], ends[1], (route,), window, levels=(0.02, 3.0))
        object.__setattr__(self, "facts", facts)

    def ridge(self, sigma: float = 0.0) -> float:
        """Radius of the ridge of the density at noise level sigma; 0 once it has vanished.

        Solves r = A(r / S^2) by bisection: the right side is concave in r.
        """
        squared = self.width**2 + sigma**2
        if squared >= 0.5:
            return 0.0
        low, high = 1e-12, 1.0
        for _ in range(100):
            middle = 0.5 * (low + high)
            ratio = float(_ratio_over(torch.tensor((middle / squared) ** 2, dtype=torch.float64))) / squared
            low, high = (middle, high) if ratio > 1.0 else (low, middle)
        return 0.5 * (low + high)

    def _total(self, y: Points, sigma: Sigma) -> Tensor:
        """S^2, shape (*batch or (), 1)."""
        return self.width**2 + expand_sigma(y, sigma) ** 2

    def log_prob(self, y: Points, sigma: Sigma) -> Scalars:
        """Log density of y = x0 + sigma eps, in nats."""
        total = self._total(y, sigma).squeeze(-1)
        squared = y.square().sum(-1)
        positive = torch.where(squared > 0, squared, 1.0)
        r = torch.where(squared > 0, positive.sqrt(), 0.0)
        bessel = torch.special.i0e(r / total).log()
        return -((r - 1.0) ** 2) / (2.0 * total) + bessel - torch.log(2.0 * math.pi * total)

    def nearest(self, y: Points, sigma: Sigma) -> Points:
        """E[c | y], the expected point of the circle beneath y; inside the circle."""
        total = self._total(y, sigma)
        squared = (y / total).square().sum(-1, keepdim=True)
        return _ratio_over(squared) / total * y

    def denoise(self, y: Points, sigma: Sigma) -> Points:
        """E[x0 | y]: the point beneath y, and the share w^2/S^2 of the way from it to y."""
        beneath = self.nearest(y, sigma)
        return beneath + self.width**2 / self._total(y, sigma) * (y - beneath)

    def score(self, y: Points, sigma: Sigma) -> Vectors:
        """Gradient of `log_prob` in y."""
        return (self.nearest(y, sigma) - y) / self._total(y, sigma)

    def hessian(self, y: Points, sigma: Sigma = 0.0) -> Matrices:
        """Second derivatives of `log_prob` in y.

        With g = A(k)/k the Jacobian of E[c | y] is (g I + y y^T (1 - 2 g - A^2) / r^2) / S^2, because
        A' = 1 - A/k - A^2.
        """
        total = self._total(y, sigma)
        squared = (y / total).square().sum(-1, keepdim=True)
        ratio = _ratio_over(squared)
        bend = _bend(squared) / total**2
        eye = torch.eye(2, dtype=y.dtype, device=y.device)
        outer = y.unsqueeze(-1) * y.unsqueeze(-2)
        inner = ratio.unsqueeze(-1) * eye + bend.unsqueeze(-1) * outer
        return (inner / total.unsqueeze(-1) - eye) / total.unsqueeze(-1)

    def divergence(self, y: Points, sigma: Sigma = 0.0) -> Scalars:
        """Divergence of the score: ((1 - A^2) / S^2 - 2) / S^2."""
        total = self._total(y, sigma).squeeze(-1)
        beneath = self.nearest(y, sigma).square().sum(-1)
        return ((1.0 - beneath) / total - 2.0) / total

    def sample(self, count: int, *, generator: torch.Generator, sigma: float = 0.0) -> Points:
        """Draw points of x0 + sigma eps.

        Args:
            count: How many.
            generator: Source of randomness.
            sigma: Noise level.

        Returns:
            Points of shape (count, 2), float64.
        """
        angle = (
            2.0
            * math.pi
            * torch.rand(count, generator=generator, dtype=torch.float64, device=generator.device)
        )
        noise = torch.randn(count, 2, generator=generator, dtype=torch.float64, device=generator.device)
        spread = math.sqrt(self.width**2 + sigma**2)
        return torch.stack([angle.cos(), angle.sin()], dim=-1) + spread * noise

    def reference_path(self, route: str | None = None, *, nodes: int = 2001) -> Nodes:
        """The ridge over the top, a third of the circle, from start to end.

        Args:
            route: "ridge" or None.
            nodes: Number of points, equally spaced.

        Returns:
            Points of shape (nodes, 2).
        """
        route_of(self.facts, route)
        angle = math.pi * torch.linspace(5.0 / 6.0, 1.0 / 6.0, nodes, dtype=torch.float64)
        path = self.ridge() * torch.stack([angle.cos(), angle.sin()], dim=-1)
        path[0], path[-1] = self.facts.start, self.facts.end
        return path


def _ratio_over(squared: Tensor) -> Tensor:
    """A(k)/k as a smooth function of k^2, 1/2 at zero."""
    small = squared < _SMALL
    k = torch.where(small, 1.0, squared).sqrt()
    direct = torch.special.i1e(k) / (torch.special.i0e(k) * k)
    return torch.where(small, _polynomial(torch.where(small, squared, 0.0), _SERIES), direct)


def _bend(squared: Tensor) -> Tensor:
    """(1 - 2 g - A^2) / k^2 with g = A(k)/k, twice the slope of g in k^2; -1/8 at zero."""
    small = squared < _SMALL
    safe = torch.where(small, 1.0, squared)
    ratio = _ratio_over(safe)
    direct = (1.0 - 2.0 * ratio - ratio.square() * safe) / safe
    slopes = tuple(2.0 * power * value for power, value in enumerate(_SERIES))[1:]
    return torch.where(small, _polynomial(torch.where(small, squared, 0.0), slopes), direct)


def _polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    total = torch.zeros_like(x)
    for value in reversed(coefficients):
        total = total * x + value
    return total
