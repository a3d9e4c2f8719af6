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

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.models import Frame, ScoreModel
from workbench.types import Points, Scalars, Sigma, Vectors


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


@dataclass(frozen=True, slots=True)
class Latents:
    """The latents of a decoder that has no score: a landscape, that of a standard normal.

    That is what a GAN draws its latents from, and what a variational autoencoder pulls them to; nothing is
    known of how well a decoder keeps to it.

    Attributes:
        decoder: The decoder, or the autoencoder.
    """

    decoder: Decoder

    @property
    def name(self) -> str:
        """The decoder's name."""
        return self.decoder.picture.name

    @property
    def unit(self) -> str:
        """Energies are negative log densities."""
        return "nats"

    @property
    def frame(self) -> Frame:
        """Shape of a latent, of unit deviation and without noise levels."""
        picture = self.decoder.picture
        shape = tuple(self.decoder.latent_shape)
        return Frame(self.name, shape, 0.0, 0.0, space="latent", notes=picture.notes)

    def energy(self, x: Points) -> Scalars:
        """|z|^2 / 2, without its constant."""
        return 0.5 * x.square().sum(-1)

    def force(self, x: Points) -> Vectors:
        """-z."""
        return -x

    def sample(self, count: int, *, generator: torch.Generator) -> Points:
        """Latents as a GAN draws them, shape (count, dim), in torch's default type, beside the generator."""
        return torch.randn(count, self.frame.dim, generator=generator, device=generator.device)


def decoder_of(model: object) -> Decoder | None:
    """The decoder of a model or of latents, a decoder itself, or None where points are their own pictures.

    Args:
        model: Any model.

    Returns:
        The decoder, or None.
    """
    if isinstance(model, LatentModel | Latents):
        return model.decoder
    return model if isinstance(model, Decoder) else None


def show_points(model: ScoreModel | Decoder | Latents, points: Tensor) -> tuple[Tensor, Frame]:
    """What figures show of a model's points: decoded pictures of latents, else the points themselves.

    Args:
        model: A score model, a latent model, a decoder or its latents.
        points: Its points, shape (*batch, dim).

    Returns:
        Flat pictures (*batch, picture dim) and the frame that has their shape and range. One decoder call a
        point for latents.
    """
    decoder = decoder_of(model)
    if decoder is not None:
        return decoder.decode(points), decoder.picture
    if not isinstance(model, ScoreModel):
        raise SettingError(
            f"{type(model).__name__}, which has no frame",
            "a score model, a latent model, a decoder or its latents",
            "open_model(...)",
        )
    return points, model.frame
