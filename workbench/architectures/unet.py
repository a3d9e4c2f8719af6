"""The U-Net of denoising diffusion with residual blocks, in small sizes, for noise prediction.

Levels of residual blocks, strided convolutions down, nearest-neighbour doubling up, skips by concatenation,
self-attention in the middle block only. Time enters each block as an added shift per channel, directly
before a group normalisation. With as many groups as channels that normalisation subtracts the shift again:
such a network cannot see the time at all. Fewer groups let differences between the channels of a group
survive.

No layer starts at zero: at zero output there is no average geometry
to look at.

References:
    Improved denoising diffusion probabilistic models (Nichol, Dhariwal, 2021),
    https://arxiv.org/abs/2102.09672 On the Anisotropy of Score-Based Generative Models (Floros et al.,
    2025), https://arxiv.org/abs/2510.22899
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.architectures.embedding import embed_time


class ShiftBlock(nn.Module):
    """Residual block of two convolutions; the time shifts the channels between them."""

    def __init__(self, channels_in: int, channels: int, features: int, groups: int) -> None:
        super().__init__()
        self.norm_in = nn.GroupNorm(min(groups, channels_in), channels_in)
        self.first = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.shift = nn.Linear(features, channels)
        self.norm_out = nn.GroupNorm(min(groups, channels), channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.skip = nn.Conv2d(channels_in, channels, 1) if channels_in != channels else nn.Identity()

    def forward(self, h: Tensor, features: Tensor) -> Tensor:
        """Updated h (n, channels, rows, columns)."""
        inner = self.first(F.silu(self.norm_in(h))) + self.shift(F.silu(features))[..., None, None]
        return self.skip(h) + self.second(F.silu(self.norm_out(inner)))


class PixelAttention(nn.Module):
    """Residual self-attention over the pixels, as two matrix products."""

    def __init__(self, channels: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(min(groups, channels), channels)
        self.mix = nn.Conv1d(channels, 3 * channels, 1)
        self.leave = nn.Conv1d(channels, channels, 1)

    def forward(self, h: Tensor) -> Tensor:
        """Updated h (n, channels, rows, columns)."""
        n, channels, rows, columns = h.shape
        flat = h.reshape(n, channels, rows * columns)
        query, key, value = (
            self.mix(self.norm(flat)).reshape(n, self.heads, -1, rows * columns).chunk(3, dim=2)
        )
        weight = (query.transpose(-1, -2) @ key * query.shape[2] ** -0.5).softmax(dim=-1)
        mixed = (value @ weight.transpose(-1, -2)).reshape(n, channels, rows * columns)
        return (flat + self.leave(mixed)).reshape(n, channels, rows, columns)


class Down(nn.Module):
    """Half the resolution: a strided convolution, or a convolution and bilinear interpolation."""

    def __init__(self, channels: int, smooth: bool) -> None:
        super().__init__()
        self.smooth = smooth
        self.conv = nn.Conv2d(channels, channels, 3, stride=1 if smooth else 2, padding=1)

    def forward(self, h: Tensor) -> Tensor:
        """Halved h."""
        h = self.conv(h)
        return F.interpolate(h, scale_factor=0.5, mode="bilinear", align_corners=False) if self.smooth else h


class Up(nn.Module):
    """Twice the resolution, then a convolution."""

    def __init__(self, channels: int, smooth: bool) -> None:
        super().__init__()
        self.smooth = smooth
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, h: Tensor, rows: int, columns: int) -> Tensor:
        """h at the size asked for (an odd size is met exactly)."""
        size = (rows, columns)
        if self.smooth:
            return self.conv(F.interpolate(h, size=size, mode="bilinear", align_corners=False))
        return self.conv(F.interpolate(h, size=size, mode="nearest"))


class ShiftUNet(nn.Module):
    """U-Net F(x, t) on images.

    Args:
        colours: Channels of the image.
        channels: Channels of every level.
        levels: Number of resolutions.
        blocks: Residual blocks a level.
        heads: Attention heads in the middle.
        groups: Groups of the normalisations; equal to `channels` the network is blind to time.
        smooth: Bilinear interpolation in place of strided and nearest resampling.
    """

    def __init__(
        self,
        colours: int = 1,
        channels: int = 32,
        levels: int = 3,
        blocks: int = 1,
        *,
        heads: int = 4,
        groups: int = 32,
        smooth: bool = False,
    ) -> None:
        super().__init__()
        self.channels, features = channels, 4 * channels
        self.time = nn.Sequential(nn.Linear(channels, features), nn.SiLU(), nn.Linear(features, features))
        self.enter = nn.Conv2d(colours, channels, 3, padding=1)
        self.down = nn.ModuleList(
            nn.ModuleList(ShiftBlock(channels, channels, features, groups) for _ in range(blocks))
            for _ in range(levels)
        )
        self.shrink = nn.ModuleList(Down(channels, smooth) for _ in range(levels - 1))
        self.middle_first = ShiftBlock(channels, channels, features, groups)
        self.middle_attention = PixelAttention(channels, heads, groups)
        self.middle_last = ShiftBlock(channels, channels, features, groups)
        self.up = nn.ModuleList(
            nn.ModuleList(ShiftBlock(2 * channels, channels, features, groups) for _ in range(blocks + 1))
            for _ in range(levels)
        )
        self.grow = nn.ModuleList(Up(channels, smooth) for _ in range(levels - 1))
        self.norm = nn.GroupNorm(min(groups, channels), channels)
        self.leave = nn.Conv2d(channels, colours, 3, padding=1)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """F of x (n, colours, rows, columns) at times t (n,)."""
        features = self.time(embed_time(t, self.channels).to(x.dtype))
        h = self.enter(x)
        kept = [h]
        for level, stage in enumerate(cast(list[nn.ModuleList], self.down)):
            if level:
                h = self.shrink[level - 1](h)
                kept.append(h)
            for block in stage:
                h = block(h, features)
                kept.append(h)
        h = self.middle_last(self.middle_attention(self.middle_first(h, features)), features)
        for level, stage in enumerate(cast(list[nn.ModuleList], self.up)):
            if level:
                h = self.grow[level - 1](h, *kept[-1].shape[-2:])
            for block in stage:
                h = block(torch.cat([h, kept.pop()], dim=1), features)
        return self.leave(F.silu(self.norm(h)))
