r"""From latents to pictures and back: the part of a model that its score does not see.

A latent diffusion model is two things: a score in a latent space, and a decoder g that turns a latent z into
what a person looks at. Lenses act on z alone; only figures, and the pullback metric
:math:`J_g^\top J_g` of the decoder, need g. A generator without a score (a GAN, the decoder of an
autoencoder) plays the second role alone.

Latents here are those that the score lives on. An autoencoder's own latents h are shifted and scaled to them,
:math:`z = (h - \text{shift}) \times \text{scale}`; that belongs inside `decode` and `encode`, so that no lens
ever has to know about it.

References:
    Rombach, Blattmann, Lorenz, Esser, Ommer, "High-Resolution Image Synthesis with Latent Diffusion Models",
        2022, section 3, https://arxiv.org/abs/2112.10752
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from workbench.models import Frame, ScoreModel
from workbench.types import Points, Sigma


@runtime_checkable
class Decoder(Protocol):
    """A smooth map from flat latents to flat pictures, row by row."""

    @property
    def latent_shape(self) -> tuple[int, ...]:
        """Shape of one latent; points are its flattening."""
        ...

    @property
    def picture(self) -> Frame:
        """What is decoded: name, shape and range of values; its noise levels are 0."""
        ...

    def decode(self, z: Tensor) -> Tensor:
        """Pictures of latents, (*batch, latent dim) to (*batch, picture dim). Differentiable both ways."""
        ...


@runtime_checkable
class Autoencoder(Decoder, Protocol):
    """A decoder with a way back."""

    @property
    def latent_shape(self) -> tuple[int, ...]:
        """Shape of one latent."""
        ...

    @property
    def picture(self) -> Frame:
        """What is decoded."""
        ...

    def decode(self, z: Tensor) -> Tensor:
        """Pictures of latents."""
        ...

    def encode(self, x: Tensor) -> Tensor:
        """Latents of pictures, (*batch, picture dim) to (*batch, dim); the mean of a random encoder."""
        ...


@dataclass(frozen=True, slots=True)
class LatentModel:
    """A score model on latents together with what decodes them.

    Attributes:
        model: The score model; its frame is that of the latents.
        decoder: The decoder, or the autoencoder.
    """

    model: ScoreModel
    decoder: Decoder

    @property
    def frame(self) -> Frame:
        """What the score model declares: shapes, noise levels and units are those of the latents."""
        return self.model.frame

    def denoise(self, y: Points, sigma: Sigma) -> Points:
        """E[z0 | y] for y = z0 + sigma eps, in latents; one model call a point, the decoder is not asked."""
        return self.model.denoise(y, sigma)


def decoder_of(model: object) -> Decoder | None:
    """The decoder of a latent model, a decoder itself, or None where points are their own pictures.

    Args:
        model: Any model.

    Returns:
        The decoder, or None.
    """
    if isinstance(model, LatentModel):
        return model.decoder
    return model if isinstance(model, Decoder) else None


def show_points(model: ScoreModel | Decoder, points: Tensor) -> tuple[Tensor, Frame]:
    """What figures show of a model's points: decoded pictures of latents, else the points themselves.

    Args:
        model: A score model, a latent model or a decoder.
        points: Its points, shape (*batch, dim).

    Returns:
        Flat pictures (*batch, picture dim) and the frame that has their shape and range. One decoder call a
        point for latents.
    """
    if isinstance(model, LatentModel):
        return model.decoder.decode(points), model.decoder.picture
    if isinstance(model, Decoder):
        return model.decode(points), model.picture
    return points, model.frame
