"""Parts of the U-Nets of the EDM paper: convolutions that resample, blocks, noise readings, and their levels.

References:
    Karras, Aittala, Aila, Laine, "Elucidating the Design Space of Diffusion-Based Generative Models", 2022,
        appendix F, https://arxiv.org/abs/2206.00364
"""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Conv(nn.Module):
    """A convolution of kernel 0 (none), 1 or 3, with the state resampled by a filter before or after it.

    Args:
        channels_in: Channels of the input.
        channels: Channels of the output.
        kernel: 0, 1 or 3.
        resample: "up", "down", or "" for neither.
        taps: Filter along one axis.
        fused: Whether the convolution comes before the filter that takes it down, and pads for both.
    """

    resample_filter: Tensor

    def __init__(
        self,
        channels_in: int,
        channels: int,
        kernel: int,
        *,
        resample: str = "",
        taps: Sequence[float | int] = (1, 1),
        fused: bool = False,
    ) -> None:
        super().__init__()
        self.channels, self.resample, self.fused, self.kernel = channels, resample, fused, kernel
        if kernel:
            self.weight = nn.Parameter(
                torch.randn(channels, channels_in, kernel, kernel) / (3 * channels_in**0.5)
            )
            self.bias = nn.Parameter(torch.zeros(channels))
        if resample:
            line = torch.tensor(list(taps), dtype=torch.float32)
            self.register_buffer("resample_filter", (torch.outer(line, line) / line.sum() ** 2)[None, None])

    def forward(self, x: Tensor) -> Tensor:
        """The state (n, channels_in, rows, columns) filtered and convolved."""
        pad = self.kernel // 2
        if not self.resample:
            return F.conv2d(x, self.weight, self.bias, padding=pad)
        width = (self.resample_filter.shape[-1] - 1) // 2
        if self.fused:
            made = F.conv2d(x, self.weight, padding=pad + width)
            return self._down(made, 0) + self.bias[:, None, None]
        x = self._up(x, width) if self.resample == "up" else self._down(x, width)
        return F.conv2d(x, self.weight, self.bias, padding=pad) if self.kernel else x

    def _up(self, x: Tensor, padding: int) -> Tensor:
        taps = (4 * self.resample_filter).to(x).expand(x.shape[1], 1, -1, -1)
        return F.conv_transpose2d(x, taps, stride=2, padding=padding, groups=x.shape[1])

    def _down(self, x: Tensor, padding: int) -> Tensor:
        taps = self.resample_filter.to(x).expand(x.shape[1], 1, -1, -1)
        return F.conv2d(x, taps, stride=2, padding=padding, groups=x.shape[1])


class Norm(nn.Module):
    """Group norm over at least four channels a group, in plain operations that have every derivative."""

    def __init__(self, channels: int, eps: float) -> None:
        super().__init__()
        self.groups, self.eps = min(32, channels // 4), eps
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """The state normalised within each group."""
        grouped = x.reshape(len(x), self.groups, -1)
        centred = grouped - grouped.mean(-1, keepdim=True)
        spread = centred.square().mean(-1, keepdim=True)
        plain = (centred * torch.rsqrt(spread + self.eps)).reshape(x.shape)
        return plain * self.weight[:, None, None] + self.bias[:, None, None]


class Block(nn.Module):
    """A residual block with the noise level's features, resampling and attention where they are asked for."""

    def __init__(
        self,
        channels_in: int,
        channels: int,
        features: int,
        *,
        resample: str = "",
        heads: int = 0,
        song: bool,
        taps: Sequence[float | int] = (1, 1),
    ) -> None:
        super().__init__()
        self.channels_in, self.channels, self.heads, self.song = channels_in, channels, heads, song
        eps, self.scale = (1e-6, math.sqrt(0.5)) if song else (1e-5, 1.0)
        self.norm0 = Norm(channels_in, eps)
        self.conv0 = Conv(channels_in, channels, 3, resample=resample, taps=taps)
        self.affine = nn.Linear(features, channels if song else 2 * channels)
        self.norm1 = Norm(channels, eps)
        self.conv1 = Conv(channels, channels, 3)
        self.skip = None
        if channels != channels_in or resample:
            kernel = 1 if song or channels != channels_in else 0
            self.skip = Conv(channels_in, channels, kernel, resample=resample, taps=taps)
        if heads:
            self.norm2 = Norm(channels, eps)
            self.qkv = Conv(channels, 3 * channels, 1)
            self.proj = Conv(channels, channels, 1)

    def forward(self, x: Tensor, features: Tensor) -> Tensor:
        """The next state; features of shape (n, features)."""
        h = self.conv0(F.silu(self.norm0(x)))
        told = self.affine(features)[..., None, None]
        if self.song:
            h = F.silu(self.norm1(h + told))
        else:
            gain, offset = told.chunk(2, dim=1)
            h = F.silu(offset + self.norm1(h) * (gain + 1))
        x = (self.conv1(h) + (x if self.skip is None else self.skip(x))) * self.scale
        return (self.proj(self._attend(x)) + x) * self.scale if self.heads else x

    def _attend(self, x: Tensor) -> Tensor:
        """Attention over places, by its plain formula; the three parts alternate within a head's channels."""
        n, channels = x.shape[:2]
        q, k, v = self.qkv(self.norm2(x)).reshape(n * self.heads, channels // self.heads, 3, -1).unbind(2)
        weight = torch.softmax(q.mT @ k / math.sqrt(q.shape[1]), dim=-1)
        return (v @ weight.mT).reshape(x.shape)


class Waves(nn.Module):
    """Cosines and sines of a noise level at falling frequencies."""

    def __init__(self, count: int, *, endpoint: bool) -> None:
        super().__init__()
        self.count, self.endpoint = count, endpoint

    def forward(self, t: Tensor) -> Tensor:
        """Shape (n, count)."""
        half = self.count // 2
        steps = torch.arange(half, device=t.device, dtype=t.dtype) / (half - self.endpoint)
        angle = t[:, None] * 1e-4**steps
        return torch.cat([angle.cos(), angle.sin()], dim=1)


class RandomWaves(nn.Module):
    """Cosines and sines at frequencies that were drawn once."""

    freqs: Tensor

    def __init__(self, count: int) -> None:
        super().__init__()
        self.register_buffer("freqs", 16 * torch.randn(count // 2))

    def forward(self, t: Tensor) -> Tensor:
        """Shape (n, count)."""
        angle = 2 * math.pi * t[:, None] * self.freqs.to(t)
        return torch.cat([angle.cos(), angle.sin()], dim=1)


Make = Callable[..., Block]


def way_down(
    parts: nn.ModuleDict, side: int, block: Make, skips: list[int], wide: int, attended: Sequence[bool]
) -> int:
    """Blocks of one level of the encoder, one for each entry of `attended`; returns their channels."""
    for index, attention in enumerate(attended):
        parts[f"{side}x{side}_block{index}"] = block(skips[-1], wide, attention=attention)
        skips.append(wide)
    return skips[-1]


def way_up(
    parts: nn.ModuleDict,
    side: int,
    block: Make,
    now: int,
    skips: list[int],
    wide: int,
    attended: Sequence[bool],
    *,
    deepest: bool,
) -> int:
    """Blocks of one level of the decoder, which take over what the encoder kept; returns their channels."""
    if deepest:
        parts[f"{side}x{side}_in0"] = block(now, now, attention=True)
        parts[f"{side}x{side}_in1"] = block(now, now)
    else:
        parts[f"{side}x{side}_up"] = block(now, now, resample="up")
    for index, attention in enumerate(attended):
        parts[f"{side}x{side}_block{index}"] = block(now + skips.pop(), wide, attention=attention)
        now = wide
    return now
