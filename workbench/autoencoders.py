r"""A small variational autoencoder: pictures to a few latents and back, for latent diffusion.

The encoder gives a normal :math:`q(h \mid x) = N(m(x), s(x)^2)`, the decoder the odds of every pixel. With
pixels as probabilities :math:`p = (x - \text{low}) / (\text{high} - \text{low})` the loss is

.. math::
    -\sum_{\text{pixels}} \big[p \ln \hat p + (1 - p) \ln(1 - \hat p)\big]
    + \beta \, \mathrm{KL}\big(q(h \mid x) \,\|\, N(0, 1)\big),

with :math:`\beta < 1` where sharp pictures count more than a normal prior: the prior is what the diffusion
model is for. A diffusion model then sees :math:`z = (h - \text{shift}) \times \text{scale}`, whose entries
have mean 0 and variance 1 over the training pictures, the encoder's own noise included. The decoder is smooth
(SiLU), so that pullback metrics of it exist.

References:
    Kingma, Welling, "Auto-Encoding Variational Bayes", 2014, equation 10, https://arxiv.org/abs/1312.6114
    Higgins et al., "beta-VAE", 2017, equation 4, https://openreview.net/forum?id=Sy2fzU9gl
    Rombach, Blattmann, Lorenz, Esser, Ommer, "High-Resolution Image Synthesis with Latent Diffusion Models",
        2022, appendix G (scale of the latents), https://arxiv.org/abs/2112.10752
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from workbench.draws import draw_integers, draw_normal
from workbench.errors import ModelOutputError, SettingError, ShapeError
from workbench.integrators import Progress
from workbench.judges import shift_images
from workbench.models import Frame
from workbench.types import Points


class Vae(nn.Module):
    """Perceptrons from pixels to latents and back.

    Args:
        pixels: Entries of a picture.
        latents: Entries of a latent.
        widths: Widths of the encoder's hidden layers; the decoder's are the same, backwards.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, pixels: int, latents: int, widths: tuple[int, ...] | list[int] = (512, 256)) -> None:
        super().__init__()
        self.pixels, self.latents = pixels, latents
        self.encoder = _layers(pixels, *widths, 2 * latents)
        self.decoder = _layers(latents, *reversed(widths), pixels)
        self.register_buffer("shift", torch.zeros(latents))
        self.register_buffer("scale", torch.ones(latents))

    def posterior(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of q(h | x) for pixels p (n, pixels) in 0..1, each (n, latents)."""
        mean, log_variance = self.encoder(2 * p - 1).chunk(2, dim=-1)
        return mean, log_variance

    def logits(self, h: Tensor) -> Tensor:
        """Log odds of every pixel for the autoencoder's own latents h (n, latents)."""
        return self.decoder(h)


def _layers(*widths: int) -> nn.Sequential:
    """Linear layers with SiLU between."""
    layers: list[nn.Module] = []
    for width_in, width in pairwise(widths):
        layers += [nn.Linear(width_in, width), nn.SiLU()]
    return nn.Sequential(*layers[:-1])


@dataclass(frozen=True, slots=True)
class VaeModel:
    """A trained autoencoder as lenses and figures see it; latents are the shifted and scaled ones.

    Attributes:
        net: The network, frozen and in evaluation mode.
        picture: What is decoded: name, shape and range of values.
        memory: Bytes that one pass may take; larger batches go in chunks.
    """

    net: Vae
    picture: Frame
    memory: int = 2**28

    @property
    def latent_shape(self) -> tuple[int, ...]:
        """Shape of one latent."""
        return (self.net.latents,)

    def decode(self, z: Points) -> Float[Tensor, "*batch pixels"]:
        """Pictures of latents: the decoder's mean, inside the picture's range.

        Args:
            z: Latents, shape (*batch, latents).

        Returns:
            Flat pictures, shape (*batch, pixels), in z's dtype. Differentiable, forward and backward. One
            pass a point.

        Raises:
            ShapeError: If z has another last axis than a latent.
        """
        low, high = self._range
        return self._chunked(
            lambda rows: low + (high - low) * torch.sigmoid(self._logits(rows)), z, self.net.latents
        )

    def logits(self, z: Points) -> Float[Tensor, "*batch pixels"]:
        """Log odds of the pixels, the natural coordinates of the decoder's distribution; as `decode`."""
        return self._chunked(self._logits, z, self.net.latents)

    def encode(self, x: Float[Tensor, "*batch pixels"]) -> Points:
        """Latents of pictures: the mean of the encoder's normal.

        Args:
            x: Flat pictures, shape (*batch, pixels), in the picture's range.

        Returns:
            Latents, shape (*batch, latents), in x's dtype. Differentiable. One pass a picture.

        Raises:
            ShapeError: If x has another last axis than a picture.
        """
        low, high = self._range

        def latents(rows: Tensor) -> Tensor:
            mean, _ = self.net.posterior((rows - low) / (high - low))
            return (mean - self.net.shift) * self.net.scale

        return self._chunked(latents, x, self.net.pixels)

    @property
    def _range(self) -> tuple[float, float]:
        return self.picture.value_range or (0.0, 1.0)

    def _logits(self, z: Tensor) -> Tensor:
        return self.net.logits(z / self.net.scale + self.net.shift)

    def _chunked(self, function: Callable[[Tensor], Tensor], points: Tensor, width: int) -> Tensor:
        """A function row by row in the network's dtype, in chunks that fit the memory."""
        if points.shape[-1:] != (width,):
            raise ShapeError(f"points of shape {tuple(points.shape)}", f"a last axis of {width}")
        weights = self.net.shift
        flat = points.reshape(-1, points.shape[-1]).to(weights.dtype)
        size = max(1, self.memory // (8 * self.net.pixels * weights.element_size()))
        rows = torch.cat([function(part) for part in flat.split(size)])
        return rows.reshape(*points.shape[:-1], -1).to(points.dtype)


@dataclass(frozen=True, slots=True)
class VaeSettings:
    """What the training of an autoencoder depends on, beside the network, the pictures and the generator.

    Attributes:
        steps: optimiser steps.
        batch: pictures a step.
        rate: peak learning rate of AdamW; it rises over the warm-up and falls linearly to zero.
        warmup: steps over which the rate rises linearly from zero.
        clip: largest gradient norm.
        beta: weight of the divergence from the normal prior.
        beta_warmup: steps over which that weight rises linearly from zero, so that no latent is given up
            before the decoder has learnt to use it.
        shift: largest random shift of a batch, in pixels.
    """

    steps: int = 6000
    batch: int = 128
    rate: float = 2e-3
    warmup: int = 100
    clip: float = 100.0
    beta: float = 0.2
    beta_warmup: int = 1500
    shift: int = 1


def vae_loss(net: Vae, p: Float[Tensor, "n pixels"], noise: Tensor, beta: float) -> Float[Tensor, ""]:
    """The loss of the module docstring, mean over pictures, in nats.

    Args:
        net: The network.
        p: Pixels in 0..1, shape (n, pixels).
        noise: Standard normal numbers, shape (n, latents), that draw h.
        beta: Weight of the divergence.

    Returns:
        The loss, a tensor without axes, differentiable in the weights.
    """
    mean, log_variance = net.posterior(p)
    h = mean + (0.5 * log_variance).exp() * noise
    misfit = F.binary_cross_entropy_with_logits(net.logits(h), p, reduction="none").sum(dim=-1)
    divergence = 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(dim=-1)
    return (misfit + beta * divergence).mean()


def fit_vae(
    net: Vae,
    images: Float[Tensor, "count pixels"],
    *,
    settings: VaeSettings,
    generator: torch.Generator,
    value_range: tuple[float, float] = (-1.0, 1.0),
    progress: Progress | None = None,
) -> Vae:
    """Train an autoencoder on square pictures and set the shift and scale of its latents.

    Args:
        net: The network; trained in place.
        images: Flat pictures, shape (count, pixels).
        settings: Steps, batch, rate, weight of the divergence, shifts.
        generator: Source of all randomness. The initial weights are the caller's.
        value_range: Values of black and white.
        progress: Called every 100 steps with the fraction done and a sentence.

    Returns:
        The network, in evaluation mode.

    Raises:
        SettingError: For settings without steps or pictures that are no squares.
        ShapeError: If the images are none of the network's.
        ModelOutputError: If the training diverged.
    """
    side = math.isqrt(net.pixels)
    if settings.steps < 1 or settings.batch < 1 or side * side != net.pixels:
        raise SettingError(
            f"steps={settings.steps}, batch={settings.batch}, {net.pixels} pixels",
            "positive steps and batch, square pictures",
        )
    if images.ndim != 2 or images.shape[1] != net.pixels or not len(images):
        raise ShapeError(f"images of shape {tuple(images.shape)}", f"(count, {net.pixels})")
    low, high = value_range
    optimiser = torch.optim.AdamW(net.parameters(), lr=settings.rate, betas=(0.9, 0.99), weight_decay=0.0)
    net.train()
    for step in range(settings.steps):
        rows = draw_integers(len(images), (settings.batch,), images, generator)
        moved = shift_images(images[rows].reshape(-1, side, side), settings.shift, generator, black=low)
        noise = draw_normal((settings.batch, net.latents), images, generator)
        beta = settings.beta * min(1.0, step / max(settings.beta_warmup, 1))
        loss = vae_loss(net, (moved.flatten(1) - low) / (high - low), noise, beta)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), settings.clip)
        for group in optimiser.param_groups:
            rise, fall = (step + 1) / max(settings.warmup, 1), 1.0 - step / settings.steps
            group["lr"] = settings.rate * min(1.0, rise, fall)
        optimiser.step()
        if progress is not None and (step + 1) % 100 == 0:
            nats = loss.detach().item()
            progress((step + 1) / settings.steps, f"step {step + 1} of {settings.steps}, {nats:.1f} nats")
    net.eval()
    standardise(net, images, generator=generator, value_range=value_range)
    if not bool(torch.isfinite(net.shift).all() & torch.isfinite(net.scale).all()):
        raise ModelOutputError(
            f"non-finite latents after {settings.steps} steps", "a training that stays finite", "a lower rate"
        )
    return net


@torch.no_grad()
def standardise(
    net: Vae, images: Tensor, *, generator: torch.Generator, value_range: tuple[float, float] = (-1.0, 1.0)
) -> None:
    """Set a network's shift and scale so that drawn latents of the pictures have mean 0 and variance 1."""
    net.shift.zero_()
    net.scale.fill_(1.0)
    h = draw_latents(net, images, generator=generator, value_range=value_range)
    net.shift.copy_(h.mean(dim=0))
    net.scale.copy_(1.0 / h.std(dim=0))
    # what a file in half precision will hold, so that the diffusion model is trained on the latents it gets
    net.shift.copy_(net.shift.half())
    net.scale.copy_(net.scale.half())


@torch.no_grad()
def draw_latents(
    net: Vae, images: Tensor, *, generator: torch.Generator, value_range: tuple[float, float] = (-1.0, 1.0)
) -> Points:
    """One latent of each picture, drawn from the encoder's normal, shifted and scaled; (count, latents)."""
    low, high = value_range
    parts = []
    for rows in images.split(4096):
        mean, log_variance = net.posterior((rows - low) / (high - low))
        parts.append(mean + (0.5 * log_variance).exp() * draw_normal(mean.shape, mean, generator))
    return (torch.cat(parts) - net.shift) * net.scale
