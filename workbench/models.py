r"""Models as the lenses see them: a denoiser in the data's own unit, and what follows from it.

The primitive is :math:`D(y, \sigma) = \mathbb{E}[x_0 \mid y]` with :math:`y = x_0 + \sigma\varepsilon`.
From it

.. math::
    \nabla_y \log p_\sigma(y) = (D - y)/\sigma^2, \qquad
    \mathbb{E}[\varepsilon \mid y] = (y - D)/\sigma, \qquad
    dy/d\sigma = (y - D)/\sigma,

and for any noising :math:`x = a x_0 + s\varepsilon` with :math:`y = x/a`, :math:`\sigma = s/a`

.. math::
    \nabla_x \log p_t(x) = \tfrac1a \nabla_y \log p_\sigma(y), \qquad
    b_t(x) = \mathbb{E}[\dot x_t \mid x] = \dot a\,D + \dot s\,\mathbb{E}[\varepsilon \mid y].

A model whose answers are known in closed form offers its score and density itself (`ExactScore`), so that
they stay exact at :math:`\sigma = 0`; for all others the quotient above is the score.

References:
    Karras, Aittala, Aila, Laine, "Elucidating the Design Space of Diffusion-Based Generative Models", 2022,
        equations 1 to 3, https://arxiv.org/abs/2206.00364
    Albergo, Boffi, Vanden-Eijnden, "Stochastic Interpolants", 2023, https://arxiv.org/abs/2303.08797
    Moreau, Coeurdoux, Ferre, Vanden-Eijnden, "Probing the Geometry of Diffusion Models with the String
        Method", 2026, https://arxiv.org/abs/2602.22122 (equation 10 of version 1 has the opposite sign)
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from workbench.errors import ModelOutputError, SettingError, ShapeError
from workbench.schedules import Schedule, rates
from workbench.types import Points, Scalars, Sigma, Vectors


@dataclass(frozen=True, slots=True)
class Frame:
    """What a model declares about itself.

    Attributes:
        name: The model's name, as figures print it.
        shape: Shape of one sample, e.g. (1, 28, 28) or (2,); points are its flattening.
        sigma_min: Smallest noise level at which it may be asked, in the data's unit.
        sigma_max: Largest; there the data are lost in the noise.
        value_range: Lowest and highest value of a sample's entries; None if unbounded.
        data_std: Standard deviation of one entry of the data.
        classes: Names of the classes that it can be conditioned on; empty if none.
        condition: The condition that is bound, in words; None for the null class or an unconditional model.
        guidance: Weight of classifier-free guidance that is bound; with any but 0 the field is no score.
        space: "data", or "latent" where points are latents that a decoder turns into samples.
        notes: Sentences on what opening the model left out, switched off or advises.
    """

    name: str
    shape: tuple[int, ...]
    sigma_min: float
    sigma_max: float
    value_range: tuple[float, float] | None = None
    data_std: float = 1.0
    classes: tuple[str, ...] = ()
    condition: str | None = None
    guidance: float = 0.0
    space: str = "data"
    notes: tuple[str, ...] = ()

    @property
    def dim(self) -> int:
        """Number of entries of one sample."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        bound = "" if self.condition is None else f" given {self.condition}"
        weight = "" if self.guidance == 0.0 else f", guidance {self.guidance:g}"
        where = "" if self.space == "data" else f", {self.space} space"
        return f"{self.name}{bound}{weight}{where}"


@runtime_checkable
class ScoreModel(Protocol):
    """The role every diffusion or flow model plays for the lenses."""

    @property
    def frame(self) -> Frame:
        """What the model declares about itself."""
        ...

    def denoise(self, y: Points, sigma: Sigma) -> Points:
        """E[x0 | y] for y = x0 + sigma eps; one model call a point."""
        ...


@runtime_checkable
class ExactScore(Protocol):
    """A score model whose score and density are known at every noise level, zero included."""

    @property
    def frame(self) -> Frame:
        """What the model declares about itself."""
        ...

    def denoise(self, y: Points, sigma: Sigma) -> Points:
        """E[x0 | y] for y = x0 + sigma eps."""
        ...

    def score(self, y: Points, sigma: Sigma) -> Vectors:
        """Gradient of log_prob in y."""
        ...

    def log_prob(self, y: Points, sigma: Sigma) -> Scalars:
        """Log density of y, in nats."""
        ...


@runtime_checkable
class Landscape(Protocol):
    """An energy V(x) with its force -grad V: what the static string needs, whatever the unit."""

    @property
    def name(self) -> str:
        """Its name, as figures print it."""
        ...

    @property
    def unit(self) -> str:
        """Unit of the energy, "nats" for -log p."""
        ...

    def energy(self, x: Points) -> Scalars:
        """V(x)."""
        ...

    def force(self, x: Points) -> Vectors:
        """-grad V(x)."""
        ...


def expand_sigma(y: Points, sigma: Sigma) -> Tensor:
    """The noise level as a tensor that broadcasts against y, shape (*batch or (), 1).

    Args:
        y: Points, shape (*batch, dim).
        sigma: One level, or one a point (broadcastable to *batch).

    Returns:
        The level in y's dtype and device with a trailing axis.
    """
    return torch.as_tensor(sigma, dtype=y.dtype, device=y.device).unsqueeze(-1)


def check_sigma(sigma: Sigma, frame: Frame, *, zero: bool = False, in_range: bool = False) -> None:
    """Check a noise level given as a Python number; tensors are not looked into, which would cost a wait.

    Args:
        sigma: The level.
        frame: What the model declares.
        zero: Whether 0 is a level, too.
        in_range: Whether the level must lie in the range that the model declares.

    Raises:
        SettingError: If the level is no level, or outside the range.
    """
    if isinstance(sigma, Tensor):
        return
    low, high = frame.sigma_min, frame.sigma_max
    if in_range and not low * (1.0 - 1e-6) <= sigma <= high * (1.0 + 1e-6):
        nearest = high if sigma > high else low
        raise SettingError(
            f"sigma {sigma:g} for {frame}", f"a noise level from {low:g} to {high:g}", f"sigma={nearest:g}"
        )
    if not (sigma > 0 or (zero and sigma == 0)):
        raise SettingError(
            f"sigma {sigma:g} for {frame}",
            "a noise level of 0 or above" if zero else "a noise level above 0",
            f"sigma={low or 1e-3:g}",
        )


def score(model: ScoreModel, y: Points, sigma: Sigma) -> Vectors:
    """Gradient of log p_sigma at y.

    Args:
        model: The model.
        y: Noisy points, shape (*batch, dim), in the data's unit.
        sigma: Noise level.

    Returns:
        Vectors of y's shape, in nats per unit of y. Differentiable. One model call a point. For a network the
        relative error grows like machine epsilon / sigma: use float64 below 0.02.

    Raises:
        SettingError: If sigma is a number not above 0 and the model has no score of its own.

    References:
        Karras et al. 2022, equation 3.
    """
    if isinstance(model, ExactScore):
        return model.score(y, sigma)
    check_sigma(sigma, model.frame)
    return (model.denoise(y, sigma) - y) / expand_sigma(y, sigma) ** 2


def noise(model: ScoreModel, y: Points, sigma: Sigma) -> Vectors:
    """E[eps | y], the noise that the model sees in y; also dy/dsigma of the probability-flow ODE.

    Args:
        model: The model.
        y: Noisy points, shape (*batch, dim), in the data's unit.
        sigma: Noise level.

    Returns:
        Vectors of y's shape, pure numbers. Differentiable. One model call a point.

    Raises:
        SettingError: If sigma is a number not above 0 and the model has no score of its own.

    References:
        Karras et al. 2022, equation 1.
    """
    if isinstance(model, ExactScore):
        return -expand_sigma(y, sigma) * model.score(y, sigma)
    check_sigma(sigma, model.frame)
    return (y - model.denoise(y, sigma)) / expand_sigma(y, sigma)


def fields_along(model: ScoreModel, x: Points, t: Tensor, schedule: Schedule) -> tuple[Vectors, Vectors]:
    """Velocity b and score s of x_t in a schedule's own frame and clock, from one model call.

    Args:
        model: The model.
        x: Points of x_t, shape (*batch, dim).
        t: Clock time, a tensor without axes or broadcastable to *batch; a(t) must not vanish, nor s(t) for a
            network.
        schedule: The noising.

    Returns:
        (b, s) of x's shape: b = E[dx_t/dt | x] and s = grad log p_t(x). Differentiable.

    References:
        Albergo, Boffi, Vanden-Eijnden 2023, section 2.
    """
    a, s, a_rate, s_rate = (value.unsqueeze(-1) for value in rates(schedule, t))
    y, sigma = x / a, (s / a).squeeze(-1)
    clean = model.denoise(y, sigma)
    if isinstance(model, ExactScore):
        score_seen = model.score(y, sigma) / a
        return a_rate * clean - s_rate * s * score_seen, score_seen
    noise_seen = (x - a * clean) / s
    return a_rate * clean + s_rate * noise_seen, -noise_seen / s


@dataclass(frozen=True, slots=True)
class LevelLandscape:
    """The energy -log p_sigma of a model whose density is known, at one noise level.

    Attributes:
        model: A model with its own score and density.
        sigma: The noise level, in the data's unit.
    """

    model: ExactScore
    sigma: float

    @property
    def name(self) -> str:
        """Model and level."""
        return f"{self.model.frame} at sigma {self.sigma:g}"

    @property
    def unit(self) -> str:
        """Energies are negative log densities."""
        return "nats"

    def energy(self, x: Points) -> Scalars:
        """-log p_sigma(x), in nats; one model call a point."""
        return -self.model.log_prob(x, self.sigma)

    def force(self, x: Points) -> Vectors:
        """The score at x; one model call a point."""
        return self.model.score(x, self.sigma)


def landscape_of(model: ScoreModel | Landscape, sigma: float = 0.0) -> Landscape:
    """The energy that a model stands for at one noise level.

    Args:
        model: A landscape, or a model whose density is known.
        sigma: Noise level in the data's unit; without meaning for a landscape.

    Returns:
        The landscape itself, or -log p_sigma of the model.

    Raises:
        SettingError: If the model has a score but no density: a network's energy is known only along paths.
    """
    if isinstance(model, Landscape):
        return model
    if isinstance(model, ExactScore):
        return LevelLandscape(model, sigma)
    raise SettingError(
        f"{model.frame}, a model without a density",
        "a landscape or a model with its own log_prob",
        "the likelihood by the probability-flow ODE, or the line integral of its score",
    )


def check_points(points: Tensor, dim: int, *, name: str = "points") -> None:
    """Check shape, dtype and finiteness of points once, at a public door.

    Args:
        points: What the user passed.
        dim: Size of the last axis that is expected.
        name: The argument's name, for the sentence.

    Raises:
        ShapeError: If it is no floating tensor of last axis dim, or holds NaN or infinity.
    """
    if not isinstance(points, Tensor):
        raise ShapeError(
            f"{name} of type {type(points).__name__}", "a torch tensor", f"torch.as_tensor({name})"
        )
    if not points.is_floating_point():
        raise ShapeError(f"{name} of dtype {points.dtype}", "a floating dtype", f"{name}.double()")
    if points.ndim == 0 or points.shape[-1] != dim:
        raise ShapeError(
            f"{name} of shape {tuple(points.shape)}", f"a last axis of {dim}", f"{name}.reshape(-1, {dim})"
        )
    bad = ~torch.isfinite(points)
    if bad.any():
        where = tuple(int(i) for i in bad.nonzero()[0])
        raise ShapeError(
            f"{name} with {int(bad.sum())} non-finite entries, the first at {where}", "finite values"
        )


def check_finite(values: Tensor, *, model: str, sigma: float, what: str = "denoised point") -> None:
    """Say at which image and noise level a model returned NaN or infinity.

    Args:
        values: Model output, shape (images, dim).
        model: The model in words.
        sigma: Noise level of the call.
        what: Name of the quantity.

    Raises:
        ModelOutputError: If any entry is not finite; names the first image. One host synchronisation.
    """
    finite = torch.isfinite(values).flatten(1).all(dim=1) if values.ndim > 1 else torch.isfinite(values)
    if not bool(finite.all()):
        image = int((~finite).nonzero()[0])
        raise ModelOutputError(
            got=f"a non-finite {what} from {model} at image {image}, sigma {sigma:.4g}",
            expected="finite values at every image",
            hint="float64, or a larger smallest noise level",
        )
