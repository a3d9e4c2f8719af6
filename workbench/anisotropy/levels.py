r"""Noise levels as an architecture meets them: the time it is told, its input, the weight of its output.

At a level the network sees :math:`x = a\,x_0 + s\,\varepsilon` and a time; its output F enters the score of
x_t linearly, :math:`\nabla \log p = c\,F + d\,x`. The geometry of the score's network part is that of F times
the weight :math:`w = c^2`:

====== ======================================== ==================================
output meaning                                  w in the frame of x
====== ======================================== ==================================
eps    the noise                                1 / s^2
x0     the clean data                           (a / s^2)^2
v      a eps - s x0                             (a / (s (a^2 + s^2)))^2
score  the score of x itself                    1
edm    the inner network of c_skip y + c_out F  (c_out / sigma^2)^2, frame of y
====== ======================================== ==================================

The part d x does not depend on the network's weights and has no preference; it is left out for every output.

References:
    Denoising diffusion probabilistic models (Ho, Jain, Abbeel, 2020), https://arxiv.org/abs/2006.11239
    Elucidating the design space of diffusion-based generative models (Karras et al., 2022), table 1,
    https://arxiv.org/abs/2206.00364
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.schedules import Schedule


@dataclass(frozen=True)
class Levels:
    """A distribution of noise levels.

    Attributes:
        name: In words.
        prediction: What the output means: "eps", "x0", "v" or "edm".
        time: What the network is told, shape (levels,).
        a: Data coefficient of the network's input, shape (levels,).
        s: Noise coefficient of the network's input, shape (levels,).
        weight: Weight w of the squared output, shape (levels,).
    """

    name: str
    prediction: str
    time: Tensor
    a: Tensor
    s: Tensor
    weight: Tensor

    @property
    def count(self) -> int:
        """Number of levels, all equally likely."""
        return self.time.shape[0]

    @property
    def mean_weight(self) -> float:
        """Average of the weight over the levels."""
        return float(self.weight.mean())

    @property
    def effective_share(self) -> float:
        """(mean w)^2 / mean w^2: the share of uniform draws that counts."""
        return float(self.weight.mean() ** 2 / self.weight.square().mean())

    @property
    def sigma(self) -> Tensor:
        """Noise over data of the network's input, s / a, shape (levels,)."""
        return self.s / self.a

    def near(self, sigma: float) -> "Levels":
        """The one level whose sigma is nearest on a logarithmic axis."""
        return self.only(int((self.sigma.log() - math.log(sigma)).abs().argmin()))

    def only(self, level: int) -> "Levels":
        """The one level of that index."""
        if not -self.count <= level < self.count:
            raise SettingError(f"level {level}", f"0 to {self.count - 1}")
        pick = {f: getattr(self, f)[level].reshape(1) for f in ("time", "a", "s", "weight")}
        return replace(self, name=f"{self.name}, level {level % self.count}", **pick)


def weight_of(prediction: str, a: Tensor, s: Tensor) -> Tensor:
    """Weight of the squared output for a network that sees a x0 + s eps, of a's shape.

    Args:
        prediction: "eps", "x0", "v" or "score".
        a: Data coefficient.
        s: Noise coefficient, positive.

    Raises:
        SettingError: If the prediction is none of these.
    """
    if prediction == "eps":
        return s**-2
    if prediction == "x0":
        return (a / s**2) ** 2
    if prediction == "v":
        return (a / (s * (a**2 + s**2))) ** 2
    if prediction == "score":
        return torch.ones_like(a)
    raise SettingError(
        f"prediction {prediction!r}", "one of eps, x0, v, score", "edm_levels for an EDM network"
    )


def ddpm_levels(count: int = 1000, prediction: str = "eps") -> Levels:
    """The linear-beta ladder of denoising diffusion: beta from 0.1/count to 20/count.

    Args:
        count: Number of levels T; the network is told 1000 t / T.
        prediction: "eps", "x0" or "v".

    Returns:
        The levels, from least to most noise.
    """
    if count < 2:
        raise SettingError(f"{count} levels", "at least 2")
    betas = torch.linspace(0.1 / count, min(20.0 / count, 0.999), count, dtype=torch.float64)
    kept = torch.cumprod(1.0 - betas, dim=0)
    a, s = kept.sqrt(), (1.0 - kept).sqrt()
    time = torch.arange(count, dtype=torch.float64) * (1000.0 / count)
    return Levels(f"ddpm {count}", prediction, time, a, s, weight_of(prediction, a, s))


def edm_levels(
    count: int = 100, *, sigma_min: float = 0.002, sigma_max: float = 80.0, data_std: float = 0.5
) -> Levels:
    """Log-spaced levels of an EDM network: its inner part is told ln(sigma)/4 and sees c_in (x0 + sigma eps).

    Args:
        count: Number of levels.
        sigma_min: Smallest, in the data's unit.
        sigma_max: Largest.
        data_std: Standard deviation of the data in the preconditioning.

    Returns:
        The levels.
    """
    sigma = torch.logspace(0.0, 1.0, count, base=sigma_max / sigma_min, dtype=torch.float64) * sigma_min
    total = sigma**2 + data_std**2
    weight = data_std**2 / (sigma**2 * total)
    return Levels(f"edm {count}", "edm", sigma.log() / 4, total.rsqrt(), sigma * total.rsqrt(), weight)


def schedule_levels(
    schedule: Schedule, prediction: str = "eps", *, count: int = 100, cut: float = 0.01
) -> Levels:
    """Levels of a continuous schedule, evenly spaced in its own clock between cut and 1 - cut.

    Args:
        schedule: A schedule whose clock is bounded.
        prediction: "eps", "x0" or "v".
        count: Number of levels.
        cut: Share of the clock left out at either end.

    Returns:
        The levels, from data to noise; the network is told the clock.
    """
    span = torch.linspace(cut, 1.0 - cut, count, dtype=torch.float64)
    time = schedule.t_data + (schedule.t_noise - schedule.t_data) * span
    if not torch.isfinite(time).all():
        raise SettingError(f"the unbounded clock of {schedule.name}", "a bounded one", "edm_levels")
    a, s = schedule(time)
    return Levels(schedule.name, prediction, time, a, s, weight_of(prediction, a, s))
