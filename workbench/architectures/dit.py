"""A diffusion transformer on patches, with adaptive layer norms that start as the identity.

Patches become tokens; a fixed sine-cosine code of the position is added; blocks of attention and perceptron
are gated by functions of the time that start at zero; a linear readout turns every token into its patch.
The readout keeps a Xavier initialisation: at zero output there is no average geometry. With x = 0 and a
fresh network every block is the identity, so that the output depends on the readout and on the position
code alone.

References:
    Scalable diffusion models with transformers (Peebles, Xie, 2022), https://arxiv.org/abs/2212.09748
"""

import torch.nn.functional as F
from torch import Tensor, nn

from workbench.architectures.embedding import embed_grid, embed_time


class TokenBlock(nn.Module):
    """Gated attention and gated perceptron on tokens; both gates start at zero."""

    def __init__(self, width: int, heads: int, ratio: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.mix = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.wide = nn.Linear(width, int(ratio * width))
        self.narrow = nn.Linear(int(ratio * width), width)
        self.modulate = nn.Linear(width, 6 * width)
        for layer in (self.mix, self.join, self.wide, self.narrow):
            _xavier(layer)
        _zero(self.modulate)

    def forward(self, h: Tensor, features: Tensor) -> Tensor:
        """Updated tokens h (n, tokens, width)."""
        shift, scale, gate, shift_2, scale_2, gate_2 = self.modulate(F.silu(features))[:, None].chunk(
            6, dim=-1
        )
        h = h + gate * self._attend(self.norm(h) * (1 + scale) + shift)
        inner = F.gelu(self.wide(self.norm(h) * (1 + scale_2) + shift_2), approximate="tanh")
        return h + gate_2 * self.narrow(inner)

    def _attend(self, h: Tensor) -> Tensor:
        n, tokens, width = h.shape
        mixed = self.mix(h).reshape(n, tokens, 3, self.heads, width // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4).unbind(0)  # each (n, heads, tokens, width / heads)
        weight = (query @ key.transpose(-1, -2) * (width // self.heads) ** -0.5).softmax(dim=-1)
        return self.join((weight @ value).transpose(1, 2).reshape(n, tokens, width))


class TokenNet(nn.Module):
    """Transformer F(x, t) on images.

    Args:
        shape: (colours, rows, columns).
        patch: Side of a patch; divides rows and columns.
        width: Width of a token, a multiple of four.
        depth: Number of blocks.
        heads: Attention heads.
        ratio: Width of the block's perceptron over the token's.
    """

    def __init__(
        self,
        shape: tuple[int, int, int] = (1, 16, 16),
        patch: int = 2,
        width: int = 48,
        depth: int = 8,
        heads: int = 4,
        ratio: float = 2.0,
    ) -> None:
        super().__init__()
        colours, rows, columns = shape
        self.patch, self.grid = patch, (rows // patch, columns // patch)
        self.enter = nn.Conv2d(colours, width, patch, stride=patch)
        self.register_buffer("position", embed_grid(*self.grid, width))  # cast where it is used
        self.time_in, self.time_out = nn.Linear(256, width), nn.Linear(width, width)
        self.blocks = nn.ModuleList(TokenBlock(width, heads, ratio) for _ in range(depth))
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.modulate = nn.Linear(width, 2 * width)
        self.leave = nn.Linear(width, patch * patch * colours)
        nn.init.xavier_uniform_(self.enter.weight.view(width, -1))
        if self.enter.bias is not None:
            nn.init.zeros_(self.enter.bias)
        for layer in (self.time_in, self.time_out):
            nn.init.normal_(layer.weight, std=0.02)
        _zero(self.modulate)
        _xavier(self.leave)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """F of x (n, colours, rows, columns) at times t (n,)."""
        n, colours, rows, columns = x.shape
        features = self.time_out(F.silu(self.time_in(embed_time(t, 256).to(x.dtype))))
        h = self.enter(x).flatten(2).transpose(1, 2) + self.position.to(x.dtype)
        for block in self.blocks:
            h = block(h, features)
        shift, scale = self.modulate(F.silu(features))[:, None].chunk(2, dim=-1)
        patches = self.leave(self.norm(h) * (1 + scale) + shift)
        tiles = patches.reshape(n, *self.grid, self.patch, self.patch, colours)
        return tiles.permute(0, 5, 1, 3, 2, 4).reshape(n, colours, rows, columns)


def _xavier(layer: nn.Linear) -> None:
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)


def _zero(layer: nn.Linear) -> None:
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
