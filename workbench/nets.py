"""Small networks that denoise: a perceptron for points and 8x8 images, a U-Net for 28x28 images.

Both are wrapped in the preconditioning of Karras et al. (2022). With y = x0 + sigma eps and s the standard
deviation of the data (`data_std`), the wrapped network is the posterior mean

    D(y, sigma) = c_skip y + c_out F(c_in y, ln(sigma) / 4, class),
    c_skip = s^2 / (sigma^2 + s^2),  c_out = sigma s / sqrt(sigma^2 + s^2),  c_in = 1 / sqrt(sigma^2 + s^2),

so that the inner network F sees unit variance and is asked for unit variance at every noise level. One class
index beyond the last, the null class, stands for "no condition". Every layer is smooth (SiLU, group
normalisation, attention written as two matrix products), so that forward- and reverse-mode derivatives and
`torch.func.vmap` over them work in float32 and float64.

References:
    Elucidating the design space of diffusion-based generative models (Karras, Aittala, Aila, Laine, 2022),
    table 1 and appendix B.6, https://arxiv.org/abs/2206.00364
"""

import math
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.decoders import LatentModel
from workbench.errors import SettingError
from workbench.models import Frame, check_sigma
from workbench.types import Points, Sigma

SMALLEST_SIGMA = 1e-4
"""Below this the network is told this level, so that D(y, 0) = y exactly instead of NaN."""


class NoiseEmbedding(nn.Module):
    """Features of the noise level and of the class that every block is modulated by.

    The noise level enters through sines and cosines of fixed, geometrically spaced frequencies (smooth in
    sigma, no random numbers), the class through a learned table whose last row is the null class.

    Args:
        width: number of features.
        classes: number of classes; 0 for an unconditional network.
        frequencies: number of sine and cosine pairs.
    """

    frequencies: Tensor

    def __init__(self, width: int, classes: int, frequencies: int = 32) -> None:
        super().__init__()
        waves = 2 * math.pi * torch.logspace(-1, math.log10(4), frequencies, dtype=torch.float32)
        self.register_buffer(
            "frequencies", waves, persistent=False
        )  # never rounded to a file's half precision
        self.table = nn.Embedding(classes + 1, width)
        self.inner = nn.Linear(2 * frequencies, width)
        self.outer = nn.Linear(width, width)

    def forward(self, c_noise: Tensor, labels: Tensor) -> Tensor:
        """Features of c_noise (n,) and labels (n,), as (n, width)."""
        angles = c_noise[..., None] * self.frequencies
        waves = torch.cat([angles.cos(), angles.sin()], dim=-1)
        return F.silu(self.outer(F.silu(self.inner(waves))) + self.table(labels))


class MlpBlock(nn.Module):
    """A residual block of a perceptron; its second layer starts at zero.

    Layer normalisation is written as group normalisation with one group: torch's own (2.13) has a
    forward-mode derivative whose gradient (`grad` of `jvp`) is silently wrong.
    """

    def __init__(self, width: int, features: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, width)
        self.first = nn.Linear(width, width)
        self.film = nn.Linear(features, 2 * width)
        self.second = _zeroed(nn.Linear(width, width))

    def forward(self, h: Tensor, features: Tensor) -> Tensor:
        """Modulated residual update of h (n, width)."""
        scale, shift = self.film(features).chunk(2, dim=-1)
        return h + self.second(F.silu(self.first(self.norm(h)) * (1 + scale) + shift))


class Mlp(nn.Module):
    """Residual perceptron F(x, c_noise, class) for flat points.

    Args:
        dim: size of a point.
        width: hidden width.
        depth: number of residual blocks.
        classes: number of classes; 0 for none.
    """

    def __init__(self, dim: int, width: int = 128, depth: int = 3, classes: int = 0) -> None:
        super().__init__()
        self.embed = NoiseEmbedding(width, classes)
        self.enter = nn.Linear(dim, width)
        self.blocks = nn.ModuleList(MlpBlock(width, width) for _ in range(depth))
        self.norm = nn.GroupNorm(1, width)
        self.leave = _zeroed(nn.Linear(width, dim))
        self.entries_a_point = 4 * width * (depth + 2)
        """Entries that one point needs in a pass, for the memory budget."""

    def forward(self, x: Tensor, c_noise: Tensor, labels: Tensor) -> Tensor:
        """F of x (n, dim) at c_noise (n,) for labels (n,)."""
        features = self.embed(c_noise, labels)
        h = self.enter(x)
        for block in self.blocks:
            h = block(h, features)
        return self.leave(F.silu(self.norm(h)))


class ConvBlock(nn.Module):
    """A residual block of two 3x3 convolutions; its second convolution starts at zero."""

    def __init__(self, channels_in: int, channels: int, features: int) -> None:
        super().__init__()
        self.norm_in = nn.GroupNorm(8, channels_in)
        self.first = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.film = nn.Linear(features, 2 * channels)
        self.norm_out = nn.GroupNorm(8, channels)
        self.second = _zeroed(nn.Conv2d(channels, channels, 3, padding=1))
        self.skip = nn.Conv2d(channels_in, channels, 1) if channels_in != channels else nn.Identity()

    def forward(self, h: Tensor, features: Tensor) -> Tensor:
        """Modulated residual update of h (n, channels_in, rows, columns)."""
        scale, shift = self.film(features)[..., None, None].chunk(2, dim=1)
        inner = self.first(F.silu(self.norm_in(h)))
        inner = F.silu(self.norm_out(inner) * (1 + scale) + shift)
        return self.skip(h) + self.second(inner)


class Attention(nn.Module):
    """Residual self-attention over the pixels of a small image, as two plain matrix products."""

    def __init__(self, channels: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(8, channels)
        self.query_key_value = nn.Conv2d(channels, 3 * channels, 1)
        self.leave = _zeroed(nn.Conv2d(channels, channels, 1))

    def forward(self, h: Tensor) -> Tensor:
        """Residual update of h (n, channels, rows, columns)."""
        n, channels, rows, columns = h.shape
        mixed = self.query_key_value(self.norm(h)).reshape(
            n, 3, self.heads, channels // self.heads, rows * columns
        )
        query, key, value = mixed.unbind(dim=1)  # each (n, heads, channels / heads, pixels)
        weight = (query.transpose(-1, -2) @ key / math.sqrt(channels // self.heads)).softmax(dim=-1)
        return h + self.leave((value @ weight.transpose(-1, -2)).reshape(n, channels, rows, columns))


class UNet(nn.Module):
    """U-Net F(x, c_noise, class) for square grey images given as flat points.

    Pixels are first folded two by two into four channels, so that the widest maps are half as large as the
    image: for 28x28, maps of 14x14 at `channels` and of 7x7, with attention, at `deep`.

    Args:
        side: rows and columns of the image; a multiple of four.
        channels: width of the outer level; a multiple of eight.
        deep: width of the inner level; a multiple of eight.
        classes: number of classes; 0 for none.
        features: width of the noise and class embedding.
    """

    def __init__(
        self, side: int, channels: int = 32, deep: int = 64, classes: int = 0, features: int = 128
    ) -> None:
        super().__init__()
        self.side = side
        self.embed = NoiseEmbedding(features, classes)
        self.enter = nn.Conv2d(4, channels, 3, padding=1)
        self.down = ConvBlock(channels, channels, features)
        self.shrink = nn.Conv2d(channels, deep, 3, stride=2, padding=1)
        self.down_deep = ConvBlock(deep, deep, features)
        self.down_attention = Attention(deep)
        self.middle = ConvBlock(deep, deep, features)
        self.up_deep = nn.ModuleList(ConvBlock(2 * deep, deep, features) for _ in range(2))
        self.up_attention = Attention(deep)
        self.grow = nn.Conv2d(deep, channels, 3, padding=1)
        self.up = nn.ModuleList(ConvBlock(2 * channels, channels, features) for _ in range(2))
        self.norm = nn.GroupNorm(8, channels)
        self.leave = _zeroed(nn.Conv2d(channels, 4, 3, padding=1))
        self.entries_a_point = 12 * (side // 2) ** 2 * channels
        """Entries that one point needs in a pass without gradients, for the memory budget."""

    def forward(self, x: Tensor, c_noise: Tensor, labels: Tensor) -> Tensor:
        """F of x (n, side * side) at c_noise (n,) for labels (n,)."""
        features = self.embed(c_noise, labels)
        wide = self.enter(F.pixel_unshuffle(x.reshape(-1, 1, self.side, self.side), 2))
        wide_2 = self.down(wide, features)
        deep = self.shrink(wide_2)
        deep_2 = self.down_attention(self.down_deep(deep, features))
        h = self.middle(deep_2, features)
        h = self.up_attention(self.up_deep[0](torch.cat([h, deep_2], dim=1), features))
        h = self.up_deep[1](torch.cat([h, deep], dim=1), features)
        h = self.grow(F.interpolate(h, scale_factor=2.0, mode="nearest"))
        h = self.up[0](torch.cat([h, wide_2], dim=1), features)
        h = self.up[1](torch.cat([h, wide], dim=1), features)
        return F.pixel_shuffle(self.leave(F.silu(self.norm(h))), 2).reshape(x.shape)


class Denoiser(nn.Module):
    """A network in the preconditioning of the module docstring: the posterior mean D(y, sigma, class).

    Args:
        inner: F(x, c_noise, labels) on flat points.
        classes: number of classes; the null class has the index `classes`.
        data_std: standard deviation s of the data, in the data's own unit.
    """

    def __init__(self, inner: nn.Module, *, classes: int = 0, data_std: float = 0.5) -> None:
        super().__init__()
        self.inner = inner
        self.classes = classes
        self.data_std = data_std

    def forward(self, y: Tensor, sigma: Tensor, labels: Tensor) -> Tensor:
        """D of y (n, dim) at sigma (n,) for labels (n,)."""
        skip, out, into = precondition(sigma[..., None], self.data_std)
        c_noise = sigma.clamp(min=SMALLEST_SIGMA).log() / 4
        return skip * y + out * self.inner(into * y, c_noise, labels)


def precondition(sigma: Tensor, data_std: float) -> tuple[Tensor, Tensor, Tensor]:
    """The three factors (c_skip, c_out, c_in) of the preconditioned network, each of sigma's shape."""
    total = sigma.square() + data_std**2
    return data_std**2 / total, sigma * data_std * total.rsqrt(), total.rsqrt()


def _zeroed(layer: nn.Module) -> nn.Module:
    """The same layer with weights and biases at zero, so that a fresh block is the identity."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


@dataclass(frozen=True, slots=True)
class NetModel:
    """A trained denoiser as a score model, with its condition bound.

    Everything is computed in the network's dtype and returned in that of the points; for the score at small
    noise load the network in float64. Differentiable in y and sigma, forward and backward, also under
    `torch.func.vmap`.

    Attributes:
        net: The network, frozen and in evaluation mode.
        frame: What the model declares, with the condition and the guidance in words.
        label: Class index that is bound; the number of classes stands for the null class.
        memory: Bytes that one pass through the network may take; larger batches go in chunks.
    """

    net: Denoiser
    frame: Frame
    label: int
    memory: int = 2**28

    def denoise(self, y: Points, sigma: Sigma) -> Points:
        """E[x0 | y] for y = x0 + sigma eps under the bound condition.

        Args:
            y: Noisy points, shape (*batch, dim), in the data's unit.
            sigma: Noise level, one for all or broadcastable to *batch.

        Returns:
            Denoised points of y's shape and dtype; y itself at 0. One network call a point, two with
            guidance.

        Raises:
            SettingError: If sigma is a negative number. Tensors are not looked into.
        """
        check_sigma(sigma, self.frame, zero=True)
        weights = next(self.net.parameters())
        batch, dim = y.shape[:-1], y.shape[-1]
        flat = y.reshape(-1, dim).to(weights.dtype)
        level = torch.as_tensor(sigma, dtype=weights.dtype, device=y.device).expand(batch).reshape(-1)
        entries = int(self.net.inner.entries_a_point)  # pyright: ignore[reportArgumentType]  # a plain attribute
        size = max(1, self.memory // (entries * weights.element_size()))
        parts = [self._pass(*chunk) for chunk in zip(flat.split(size), level.split(size), strict=True)]
        return torch.cat(parts).reshape(y.shape).to(y.dtype)

    def _pass(self, y: Tensor, sigma: Tensor) -> Tensor:
        """One chunk through the network: y (n, dim) at sigma (n,)."""
        bound = self.net(y, sigma, torch.full(sigma.shape, self.label, device=y.device))
        if self.frame.guidance == 0.0:
            return bound
        null = self.net(y, sigma, torch.full(sigma.shape, self.net.classes, device=y.device))
        return bound + self.frame.guidance * (bound - null)


Model = TypeVar("Model", bound=NetModel | LatentModel)


def given(model: Model, condition: int | str | None, *, guidance: float = 0.0) -> Model:
    """The same model with another condition bound.

    Args:
        model: A network, or a network on latents.
        condition: Class index or name; None for the null class.
        guidance: Weight w of classifier-free guidance, D + w (D - D_null); with any but 0 the field is the
            score of no density: its Jacobian is not symmetric.

    Returns:
        A model that shares the weights and declares condition and guidance in its frame.

    Raises:
        SettingError: For an unknown class, or guidance without one; for latents of a foreign model.
    """
    if isinstance(model, LatentModel):
        if not isinstance(model.model, NetModel):
            raise SettingError(f"{model.frame}, a foreign model", "a network of the workbench", "its given()")
        return replace(model, model=given(model.model, condition, guidance=guidance))
    names = model.frame.classes
    if condition is None:
        if guidance != 0.0:
            raise SettingError(f"guidance {guidance:g} without a condition", "a class", "condition=0")
        return replace(
            model, label=model.net.classes, frame=replace(model.frame, condition=None, guidance=0.0)
        )
    label = names.index(condition) if condition in names else condition
    if not isinstance(label, int) or not 0 <= label < len(names):
        known = (
            f"an index below {len(names)} or one of {', '.join(names)}"
            if names
            else "None: it has no classes"
        )
        raise SettingError(f"condition {condition!r} for model {model.frame.name}", known, "condition=None")
    return replace(model, label=label, frame=replace(model.frame, condition=names[label], guidance=guidance))
