r"""Any callable as a decoder: a GAN's generator, an autoencoder in raw or in scaled latents.

Latent diffusion runs in :math:`z = (h - \text{shift})\cdot\text{scale}` of the autoencoder's own latents h,
and lengths and scores are measured in z, so that scale enters every one of them.

References:
    Rombach, Blattmann, Lorenz, Esser, Ommer, "High-Resolution Image Synthesis with Latent Diffusion Models",
        2022, appendix G, https://arxiv.org/abs/2112.10752
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workbench.errors import SettingError, ShapeError
from workbench.models import Frame


@dataclass(frozen=True, slots=True, eq=False)
class Generator:
    """A decoder made of any callable; made by `generator_of`.

    Attributes:
        frame: The latent space: name, shape and spread of one latent; its noise levels are 0.
        picture: What is decoded: name, shape and range of values.
        decoding: Callable from raw latents (n, *frame.shape) to samples (n, *picture.shape).
        scale: Factor of the latents that lenses see.
        shift: Taken off the raw latents before scaling.
        dtype: Floating type that the callable computes in; None for that of the points.
        batch: Most points to a pass; None for all at once.
    """

    frame: Frame
    picture: Frame
    decoding: Callable[[Tensor], Tensor]
    scale: float = 1.0
    shift: float = 0.0
    dtype: torch.dtype | None = None
    batch: int | None = None

    @property
    def latent_shape(self) -> tuple[int, ...]:
        """Shape of one latent."""
        return self.frame.shape

    def decode(self, z: Tensor) -> Tensor:
        """Samples of latents.

        Args:
            z: Latents, shape (*batch, frame.dim), scaled.

        Returns:
            Samples, shape (*batch, picture.dim), in z's dtype. Differentiable if the callable is. One pass a
            point.

        Raises:
            ShapeError: If z does not fit, or the callable returns another number of entries than a sample
                has.
        """
        raw = z.to(self.dtype or z.dtype) / self.scale + self.shift
        return _flat_pass(self.decoding, raw, self.frame, self.picture, self.batch).to(z.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Coder:
    """A decoder with a way back; made by `generator_of`.

    Attributes:
        generator: The decoder.
        encoding: Callable from samples (n, *picture.shape) to raw latents, the mean of a random encoder.
    """

    generator: Generator
    encoding: Callable[[Tensor], Tensor]

    @property
    def frame(self) -> Frame:
        """The latent space."""
        return self.generator.frame

    @property
    def picture(self) -> Frame:
        """What is decoded."""
        return self.generator.picture

    @property
    def latent_shape(self) -> tuple[int, ...]:
        """Shape of one latent."""
        return self.generator.latent_shape

    def decode(self, z: Tensor) -> Tensor:
        """Samples of latents; as `Generator.decode`."""
        return self.generator.decode(z)

    def encode(self, x: Tensor) -> Tensor:
        """Latents of samples, shifted and scaled; the mean where the encoder gives a distribution.

        Args:
            x: Samples, shape (*batch, picture.dim).

        Returns:
            Latents, shape (*batch, frame.dim), in x's dtype. Differentiable if the callable is.

        Raises:
            ShapeError: If x does not fit, or the encoder returns another number of entries than a latent has.
        """
        own = self.generator
        raw = _flat_pass(self.encoding, x.to(own.dtype or x.dtype), own.picture, own.frame, own.batch)
        return ((raw - own.shift) * own.scale).to(x.dtype)


def _flat_pass(
    function: Callable[[Tensor], Tensor], points: Tensor, before: Frame, after: Frame, batch: int | None
) -> Tensor:
    """A callable on shaped batches, as a function of flat points."""
    if points.shape[-1:] != (before.dim,):
        raise ShapeError(f"points of shape {tuple(points.shape)}", f"a last axis of {before.dim}")
    shaped = points.reshape(-1, *before.shape)
    made = torch.cat([function(part) for part in shaped.split(batch or max(1, len(shaped)))])
    if made.numel() != len(shaped) * after.dim:
        raise ShapeError(
            f"an output of shape {tuple(made.shape)} for {len(shaped)} inputs of shape {before.shape}",
            f"shape {(len(shaped), *after.shape)}",
            "the shapes that the network was trained with",
        )
    return made.reshape(*points.shape[:-1], after.dim)


def generator_of(
    decoding: Any,
    *,
    latent_shape: tuple[int, ...],
    shape: tuple[int, ...],
    name: str = "generator",
    value_range: tuple[float, float] | None = None,
    encoding: Callable[[Tensor], Tensor] | None = None,
    scale: float = 1.0,
    shift: float = 0.0,
    dtype: torch.dtype | None = None,
    batch: int | None = None,
    notes: tuple[str, ...] = (),
) -> Generator | Coder:
    """Use any callable as a decoder.

    Args:
        decoding: From raw latents (n, *latent_shape) to samples (n, *shape).
        latent_shape: Shape of one latent.
        shape: Shape of one sample.
        name: Its name, as figures print it.
        value_range: Lowest and highest value of a sample's entries; None if unbounded.
        encoding: From samples to raw latents; None where there is none.
        scale: Factor of the latents that lenses see; finite and not 0.
        shift: Taken off the raw latents before scaling.
        dtype: Floating type that the callables compute in; None for that of the points.
        batch: Most points to a pass.
        notes: Sentences for the reader.

    Returns:
        The decoder, or the autoencoder if it has a way back.

    Raises:
        SettingError: For a callable that is none, or a scale of 0.

    Example:
        >>> double = generator_of(lambda z: 2 * z, latent_shape=(2,), shape=(2,))
        >>> double.decode(torch.ones(1, 2))
        tensor([[2., 2.]])
    """
    if not callable(decoding):
        raise SettingError(f"decoding={decoding!r}", "a callable from latents to samples", "your generator")
    if not scale or scale != scale or abs(scale) == float("inf"):
        raise SettingError(f"scale={scale}", "a finite number that is not 0", "1.0")
    latent = Frame(name, tuple(latent_shape), 0.0, 0.0, space="latent", notes=tuple(notes))
    picture = Frame(name, tuple(shape), 0.0, 0.0, value_range)
    function: Any = decoding
    generator = Generator(latent, picture, function, scale, shift, dtype, batch)
    return generator if encoding is None else Coder(generator, encoding)
