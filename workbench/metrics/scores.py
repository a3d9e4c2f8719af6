r"""Metrics made of the score of a diffusion or flow model, and the metric of a Riemannian VAE.

Rank one, :math:`g = I + \lambda s s^\top`: steps up and down the density cost more, at one model call a
point. It is the metric of the graph of :math:`\sqrt\lambda \log p`. The score grows like 1/sigma near a thin
set, so :math:`\lambda` must shrink like sigma squared; at a mode s = 0 and there is no anisotropy.

Jacobian, :math:`g = J_s^\top J_s + \epsilon I`: directions in which the score turns fast cost more. For a
Gaussian it is :math:`\Sigma^{-2}`, flat. It is singular wherever the Hessian of log p is, hence the explicit
:math:`\epsilon`.

References:
    Azeglio, Di Bernardo, "What's Inside Your Diffusion Model? A Score-Based Riemannian Metric to Explore the
        Data Manifold", 2025, https://arxiv.org/abs/2505.11128
    Saito, Matsubara, "Image Interpolation with Score-based Riemannian Metrics of Diffusion Models", 2025,
        https://arxiv.org/abs/2504.20288
    Chadebec, Thibeau-Sutre, Burgos, Allassonniere, "Data Augmentation in High Dimensional Low Sample Size
        Setting Using a Geometry-Based Variational Autoencoder", 2022, https://arxiv.org/abs/2105.00026
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.decoders import Decoder, Latents, decoder_of
from workbench.errors import SettingError
from workbench.metrics.base import Chart
from workbench.metrics.plain import Euclidean, Scaled, Sum
from workbench.metrics.pullback import Pullback
from workbench.models import ScoreModel, score
from workbench.types import Matrices, Points, Scalars, Vectors


@dataclass(frozen=True, slots=True)
class RankOneScore:
    """g = I + weight s s^T with s the score at one noise level.

    Attributes:
        model: The score model.
        sigma: Noise level, in the data's unit.
        weight: lambda, in squared units of the data; of the order of sigma^2.
    """

    model: ScoreModel
    sigma: float
    weight: float
    calls: float = 1.0

    def __post_init__(self) -> None:
        if not self.weight >= 0.0:
            raise SettingError(f"weight {self.weight}", "zero or more", "a weight of the order of sigma^2")

    @property
    def name(self) -> str:
        """Kind, weight and noise level."""
        return f"score metric, weight {self.weight:g}, sigma = {self.sigma:g}"

    @property
    def chart(self) -> Chart:
        """The data space at this noise level."""
        return Chart(f"noisy data space of {self.model.frame.name}", self.model.frame.dim)

    def inner(self, x: Points, u: Vectors, v: Vectors) -> Scalars:
        """u . v + weight (s . u)(s . v); one model call."""
        return self.inner_with(score(self.model, x, self.sigma), u, v)

    def inner_with(self, s: Vectors, u: Vectors, v: Vectors) -> Scalars:
        """The same where the score is at hand; no model call."""
        return (u * v).sum(dim=-1) + self.weight * (s * u).sum(dim=-1) * (s * v).sum(dim=-1)

    def matrix(self, x: Points) -> Matrices:
        """I + weight s s^T; one model call."""
        s = score(self.model, x, self.sigma)
        eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
        return eye + self.weight * s.unsqueeze(-1) * s.unsqueeze(-2)

    def raise_index(self, x: Points, w: Vectors) -> Vectors:
        """The inverse applied by the Sherman-Morrison formula; one model call."""
        s = score(self.model, x, self.sigma)
        share = self.weight * (s * w).sum(dim=-1) / (1.0 + self.weight * s.square().sum(dim=-1))
        return w - share.unsqueeze(-1) * s


def score_jacobian_metric(model: ScoreModel, sigma: float, *, epsilon: float = 0.0) -> Pullback | Sum:
    """g = J_s^T J_s + epsilon I with J_s the Jacobian of the score at one noise level.

    Args:
        model: The score model.
        sigma: Noise level, in the data's unit.
        epsilon: Multiple of the identity that is added, visible in the name; 0 leaves it out.

    Returns:
        The metric; two Jacobian-vector products an inner product.
    """
    chart = Chart(f"noisy data space of {model.frame.name}", model.frame.dim)
    bare = Pullback(lambda x: score(model, x, sigma), chart, None, f"score Jacobian, sigma = {sigma:g}")
    return bare if epsilon == 0.0 else Sum(bare, Scaled(Euclidean(chart), epsilon))


def seen_metric(model: ScoreModel | Decoder | Latents, sigma: float | None = None) -> Pullback:
    """How much what a person sees changes with a point: the one pullback that every model has.

    Of latents the decoder makes pictures, g = J^T J of the decoder. Where points are data, the denoiser
    shows what is left of a step under the noise, g = J_D^T J_D: close to 0 across the data, to 1 along.

    Args:
        model: A score model, a latent model, a decoder or its latents.
        sigma: Noise level of the denoiser; None for half the data's spread. Without meaning for a decoder.

    Returns:
        The metric; two Jacobian-vector products an inner product.
    """
    decoder = decoder_of(model)
    if decoder is not None:
        chart = Chart(f"latents of {decoder.picture.name}", math.prod(decoder.latent_shape))
        return Pullback(decoder.decode, chart, None, "pullback of the decoder")
    if not isinstance(model, ScoreModel):
        raise SettingError(f"a {type(model).__name__}", "a score model or a decoder")
    level = 0.5 * model.frame.data_std if sigma is None else sigma
    chart = Chart(f"noisy data space of {model.frame.name}", model.frame.dim)
    return Pullback(
        lambda y: model.denoise(y, level), chart, None, f"pullback of the denoiser, sigma = {level:g}"
    )


@dataclass(frozen=True, slots=True)
class RiemannianVae:
    """g^-1(z) = sum_i L_i L_i^T exp(-|z - c_i|^2 / T^2) + floor I: positive definite by construction.

    Far from all centroids g tends to I / floor: space there is long, and geodesics stay near the data.

    Attributes:
        centroids: c, shape (centroids, dim).
        factors: Lower triangular L, shape (centroids, dim, dim).
        temperature: T, in units of z.
        floor: The multiple of I, above 0.
        name: Its name.
    """

    centroids: Tensor
    factors: Tensor
    temperature: float
    floor: float
    name: str = "Riemannian VAE"
    calls: float = 0.0

    def __post_init__(self) -> None:
        if not self.floor > 0.0 or not self.temperature > 0.0:
            raise SettingError(
                f"floor {self.floor} and temperature {self.temperature}", "positive numbers", "floor=1e-3"
            )

    @property
    def chart(self) -> Chart:
        """The latent space."""
        return Chart("latent space", self.centroids.shape[-1])

    def inverse(self, x: Points) -> Matrices:
        """g^-1(x); differentiable."""
        gap = (x.unsqueeze(-2) - self.centroids).square().sum(dim=-1)
        weights = torch.exp(-gap / self.temperature**2)
        eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
        return torch.einsum("...c,cij->...ij", weights, self.factors @ self.factors.mT) + self.floor * eye

    def matrix(self, x: Points) -> Matrices:
        """g(x), by inverting a positive definite matrix."""
        return torch.cholesky_inverse(torch.linalg.cholesky(self.inverse(x)))

    def inner(self, x: Points, u: Vectors, v: Vectors) -> Scalars:
        """u^T g(x) v."""
        return torch.einsum("...i,...ij,...j->...", u, self.matrix(x), v)

    def raise_index(self, x: Points, w: Vectors) -> Vectors:
        """g^-1(x) w, without an inversion."""
        return torch.einsum("...ij,...j->...i", self.inverse(x), w)
