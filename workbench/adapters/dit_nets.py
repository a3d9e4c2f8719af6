r"""The diffusion transformer of DiT and SiT by its published names.

Names and shapes of the parameters are those of the published state dicts, so that these open without the code
they were trained with; the code is not theirs. Attention is computed by its plain formula, which has every
derivative, and everything in the type of the weights.

References:
    Peebles, Xie, "Scalable Diffusion Models with Transformers", 2023, https://arxiv.org/abs/2212.09748
    Ma, Goldstein, Albergo, Boffi, Vanden-Eijnden, Xie, "SiT: Exploring Flow and Diffusion-based Generative
        Models with Scalable Interpolant Transformers", 2024, https://arxiv.org/abs/2401.08740
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.errors import DataError


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a transformer's weights say about its shape.

    Attributes:
        side: Rows and columns of a picture or latent.
        patch: Rows and columns of a patch.
        channels: Channels of a picture or latent.
        channels_out: Channels of the output; twice as many where a variance is learned.
        width: Features of a token.
        depth: Blocks.
        heads: Attention heads; not in the weights.
        hidden: Width of the perceptrons.
        waves: Width of the time's sinusoids.
        classes: Rows of the class table, the one for no class included.
    """

    side: int
    patch: int
    channels: int
    channels_out: int
    width: int
    depth: int
    heads: int
    hidden: int
    waves: int
    classes: int


def sizes_of(tensors: dict[str, Tensor], heads: int | None = None) -> Sizes:
    """The shape of a transformer, read off its weights.

    Args:
        tensors: Its state dict.
        heads: Attention heads; by default 16 for width 1152, as in the XL models, else heads of 64 features.

    Returns:
        The sizes.

    Raises:
        DataError: If the weights are none of this architecture.
    """
    needed = (
        "x_embedder.proj.weight",
        "pos_embed",
        "final_layer.linear.weight",
        "y_embedder.embedding_table.weight",
    )
    missing = [name for name in needed if name not in tensors]
    if missing:
        raise DataError(f"weights without {', '.join(missing)}", "a state dict of DiT or SiT")
    width, channels, patch, _ = tensors["x_embedder.proj.weight"].shape
    depth = 1 + max((int(name.split(".")[1]) for name in tensors if name.startswith("blocks.")), default=-1)
    heads = heads or (16 if width == 1152 else max(1, width // 64))
    if width % heads:
        raise DataError(
            f"{heads} heads for {width} features", "a divisor of the width", "arguments={'num_heads': 16}"
        )
    return Sizes(
        side=patch * math.isqrt(tensors["pos_embed"].shape[1]),
        patch=patch,
        channels=channels,
        channels_out=tensors["final_layer.linear.weight"].shape[0] // patch**2,
        width=width,
        depth=depth,
        heads=heads,
        hidden=tensors["blocks.0.mlp.fc1.weight"].shape[0] if depth else 4 * width,
        waves=tensors["t_embedder.mlp.0.weight"].shape[1],
        classes=tensors["y_embedder.embedding_table.weight"].shape[0],
    )


class Attention(nn.Module):
    """Attention over tokens by its plain formula."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (n, count, width) mixed."""
        n, count, width = x.shape
        q, k, v = self.qkv(x).reshape(n, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weight = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)
        return self.proj((weight @ v).transpose(1, 2).reshape(n, count, width))


class Perceptron(nn.Module):
    """Two layers with a GELU between, in its tanh form."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


def modulated(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Tokens normalised, then scaled and shifted by the condition."""
    plain = F.layer_norm(x, x.shape[-1:], eps=1e-6)
    return plain * (1 + scale[:, None]) + shift[:, None]


class Block(nn.Module):
    """Attention and a perceptron, each gated by the condition."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.attn = Attention(sizes.width, sizes.heads)
        self.mlp = Perceptron(sizes.width, sizes.hidden)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(sizes.width, 6 * sizes.width))

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        """The next tokens; told of shape (n, width)."""
        shift, scale, gate, shift2, scale2, gate2 = self.adaLN_modulation(told).chunk(6, dim=1)
        x = x + gate[:, None] * self.attn(modulated(x, shift, scale))
        return x + gate2[:, None] * self.mlp(modulated(x, shift2, scale2))


class Last(nn.Module):
    """Tokens to patches."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.linear = nn.Linear(sizes.width, sizes.patch**2 * sizes.channels_out)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(sizes.width, 2 * sizes.width))

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        """Shape (n, count, patch^2 channels_out)."""
        shift, scale = self.adaLN_modulation(told).chunk(2, dim=1)
        return self.linear(modulated(x, shift, scale))


class Transformer(nn.Module):
    """DiT, which is also SiT's network.

    Args:
        sizes: Its shape.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.x_embedder = nn.ModuleDict(
            {"proj": nn.Conv2d(sizes.channels, sizes.width, sizes.patch, stride=sizes.patch)}
        )
        self.t_embedder = nn.ModuleDict(
            {
                "mlp": nn.Sequential(
                    nn.Linear(sizes.waves, sizes.width), nn.SiLU(), nn.Linear(sizes.width, sizes.width)
                )
            }
        )
        self.y_embedder = nn.ModuleDict({"embedding_table": nn.Embedding(sizes.classes, sizes.width)})
        self.pos_embed = nn.Parameter(torch.zeros(1, (sizes.side // sizes.patch) ** 2, sizes.width))
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.depth))
        self.final_layer = Last(sizes)

    def forward(self, x: Tensor, t: Tensor, labels: Tensor) -> Tensor:
        """Output of pictures (n, channels, side, side) at times (n,) for class numbers (n,)."""
        tokens = self.x_embedder["proj"](x).flatten(2).mT + self.pos_embed
        half = self.sizes.waves // 2
        angle = t[:, None] * torch.exp(
            -math.log(1e4) / half * torch.arange(half, dtype=t.dtype, device=t.device)
        )
        told = self.t_embedder["mlp"](torch.cat([angle.cos(), angle.sin()], dim=-1))
        told = told + self.y_embedder["embedding_table"](labels)
        for block in self.blocks:
            tokens = block(tokens, told)
        patch, grid = self.sizes.patch, self.sizes.side // self.sizes.patch
        made = self.final_layer(tokens, told).reshape(len(x), grid, grid, patch, patch, -1)
        return made.permute(0, 5, 1, 3, 2, 4).reshape(len(x), -1, self.sizes.side, self.sizes.side)


@dataclass(frozen=True, slots=True)
class Classed:
    """A transformer as a callable (x, t, class) without its learned variance.

    Attributes:
        network: The transformer.
    """

    network: Transformer

    def __call__(self, x: Tensor, t: Tensor, condition: Any) -> Tensor:
        if isinstance(condition, Tensor):
            labels = condition.to(x.device).long().expand(len(x))
        else:
            labels = torch.full((len(x),), int(condition), device=x.device)
        return self.network(x, t, labels)[:, : self.network.sizes.channels]
