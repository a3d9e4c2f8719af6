r"""The magnitude-preserving U-Net of EDM2 by its published names.

Every weight is used at unit length times a known gain, sums and concatenations are balanced so that
magnitudes stay what they are, and there are no biases and no group norms. Names and shapes of the parameters
are those of the published checkpoints, the code is not; everything is computed in the type of the weights.

References:
    Karras, Aittala, Lehtinen, Hellsten, Aila, Laine, "Analyzing and Improving the Training Dynamics of
        Diffusion Models", 2024, figure 21 and equations 47 to 103, https://arxiv.org/abs/2312.02696
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_EPS = 1e-4


def at_unit_size(x: Tensor, axes: Sequence[int]) -> Tensor:
    """A tensor with entries of mean square 1 along axes."""
    size = torch.linalg.vector_norm(x, dim=list(axes), keepdim=True)
    return x / (_EPS + size * math.sqrt(size.numel() / x.numel()))


def balanced_sum(a: Tensor, b: Tensor, share: float) -> Tensor:
    """(1 - share) a + share b at the magnitude of its parts."""
    return torch.lerp(a, b, share) / math.hypot(1 - share, share)


def balanced_cat(a: Tensor, b: Tensor, share: float) -> Tensor:
    """Channels of both, weighted so that each part counts by its share whatever its width."""
    wide_a, wide_b = a.shape[1], b.shape[1]
    whole = math.sqrt((wide_a + wide_b) / ((1 - share) ** 2 + share**2))
    return torch.cat(
        [whole * (1 - share) / math.sqrt(wide_a) * a, whole * share / math.sqrt(wide_b) * b], dim=1
    )


def activate(x: Tensor) -> Tensor:
    """SiLU at unit magnitude."""
    return F.silu(x) / 0.596


class Wave(nn.Module):
    """Cosines of a noise level at frequencies and phases that were drawn once."""

    freqs: Tensor
    phases: Tensor

    def __init__(self, count: int) -> None:
        super().__init__()
        self.register_buffer("freqs", 2 * math.pi * torch.randn(count))
        self.register_buffer("phases", 2 * math.pi * torch.rand(count))

    def forward(self, t: Tensor) -> Tensor:
        """Shape (n, count)."""
        return math.sqrt(2.0) * torch.cos(t[:, None] * self.freqs.to(t) + self.phases.to(t))


class Weight(nn.Module):
    """A linear map or convolution whose weight counts by its direction only."""

    def __init__(self, channels_in: int, channels: int, kernel: int = 0) -> None:
        super().__init__()
        self.channels = channels
        self.weight = nn.Parameter(torch.randn(channels, channels_in, *(kernel,) * (2 if kernel else 0)))

    def forward(self, x: Tensor, gain: Tensor | float = 1.0) -> Tensor:
        """The map at a gain."""
        axes = tuple(range(1, self.weight.ndim))
        w = at_unit_size(self.weight, axes) * (gain / math.sqrt(self.weight[0].numel()))
        return x @ w.T if w.ndim == 2 else F.conv2d(x, w, padding=w.shape[-1] // 2)


class Block(nn.Module):
    """A residual block of the encoder or of the decoder."""

    def __init__(
        self,
        channels_in: int,
        channels: int,
        features: int,
        *,
        decoder: bool,
        resample: str = "",
        attention: bool = False,
        channels_per_head: int = 64,
        res_balance: float = 0.3,
        attn_balance: float = 0.3,
        clip_act: float | int | None = 256,
        resample_filter: Sequence[float | int] = (1, 1),
    ) -> None:
        super().__init__()
        self.channels, self.decoder, self.resample = channels, decoder, resample
        self.heads = channels // channels_per_head if attention else 0
        self.res_balance, self.attn_balance, self.clip_act = res_balance, attn_balance, clip_act
        self.taps = tuple(resample_filter)
        self.emb_gain = nn.Parameter(torch.zeros([]))
        self.conv_res0 = Weight(channels_in if decoder else channels, channels, 3)
        self.emb_linear = Weight(features, channels)
        self.conv_res1 = Weight(channels, channels, 3)
        self.conv_skip = Weight(channels_in, channels, 1) if channels_in != channels else None
        self.attn_qkv = Weight(channels, 3 * channels, 1) if self.heads else None
        self.attn_proj = Weight(channels, channels, 1) if self.heads else None

    def forward(self, x: Tensor, features: Tensor) -> Tensor:
        """The next state; features of shape (n, features)."""
        x = self._resampled(x)
        if not self.decoder:
            x = at_unit_size(x if self.conv_skip is None else self.conv_skip(x), (1,))
        told = self.emb_linear(features, self.emb_gain) + 1
        h = self.conv_res1(activate(self.conv_res0(activate(x)) * told[..., None, None]))
        if self.decoder and self.conv_skip is not None:
            x = self.conv_skip(x)
        x = balanced_sum(x, h, self.res_balance)
        if self.attn_qkv is not None and self.attn_proj is not None:
            x = balanced_sum(x, self.attn_proj(self._attend(self.attn_qkv(x), x)), self.attn_balance)
        return x if self.clip_act is None else x.clamp(-self.clip_act, self.clip_act)

    def _attend(self, mixed: Tensor, x: Tensor) -> Tensor:
        """Attention over places with queries, keys and values at unit size."""
        heads = mixed.reshape(len(x), self.heads, -1, 3, x.shape[2] * x.shape[3])
        q, k, v = at_unit_size(heads, (2,)).unbind(3)
        weight = torch.softmax(q.mT @ k / math.sqrt(q.shape[2]), dim=-1)
        return (v @ weight.mT).reshape(x.shape)

    def _resampled(self, x: Tensor) -> Tensor:
        if not self.resample:
            return x
        line = torch.tensor(self.taps, dtype=x.dtype, device=x.device)
        taps = torch.outer(line, line) / line.sum() ** 2
        pad, count = (len(self.taps) - 1) // 2, x.shape[1]
        taps = taps.expand(count, 1, -1, -1)
        if self.resample == "down":
            return F.conv2d(x, taps, stride=2, padding=pad, groups=count)
        return F.conv_transpose2d(x, 4 * taps, stride=2, padding=pad, groups=count)


class UNet2(nn.Module):
    """The U-Net of EDM2.

    Args:
        img_resolution: Rows and columns of a picture or latent.
        img_channels: Its channels.
        label_dim: Number of classes; 0 for none.
        model_channels: Channels at the finest level.
        channel_mult: Factor of the channels at each level.
        channel_mult_noise: Factor of the noise level's waves; None for the finest level's channels.
        channel_mult_emb: Factor of the features; None for the widest level's channels.
        num_blocks: Residual blocks at each level.
        attn_resolutions: Sides at which there is attention.
        label_balance: Share of the class in the features.
        concat_balance: Share of the encoder's state where the decoder takes it in.
        **block: Further arguments of the blocks.
    """

    def __init__(
        self,
        img_resolution: int,
        img_channels: int,
        label_dim: int,
        model_channels: int = 192,
        channel_mult: Sequence[int] = (1, 2, 3, 4),
        channel_mult_noise: int | None = None,
        channel_mult_emb: int | None = None,
        num_blocks: int = 3,
        attn_resolutions: Sequence[int] = (16, 8),
        label_balance: float = 0.5,
        concat_balance: float = 0.5,
        **block: Any,
    ) -> None:
        super().__init__()
        wide = [model_channels * factor for factor in channel_mult]
        waves = wide[0] if channel_mult_noise is None else model_channels * channel_mult_noise
        features = max(wide) if channel_mult_emb is None else model_channels * channel_mult_emb
        block.pop("dropout", None)
        self.label_dim, self.label_balance, self.concat_balance = label_dim, label_balance, concat_balance
        self.out_gain = nn.Parameter(torch.zeros([]))
        self.emb_fourier, self.emb_noise = Wave(waves), Weight(waves, features)
        self.emb_label = Weight(label_dim, features) if label_dim else None

        def made(
            now: int, channels: int, *, decoder: bool, resample: str = "", attention: bool = False
        ) -> Block:
            return Block(
                now, channels, features, decoder=decoder, resample=resample, attention=attention, **block
            )

        self.enc, skips, now = nn.ModuleDict(), [], img_channels + 1
        for depth, channels in enumerate(wide):
            side = img_resolution >> depth
            if depth == 0:
                self.enc[f"{side}x{side}_conv"] = Weight(now, channels, 3)
                now = channels
            else:
                self.enc[f"{side}x{side}_down"] = made(now, now, decoder=False, resample="down")
            skips.append(now)
            for index in range(num_blocks):
                inside = side in attn_resolutions
                self.enc[f"{side}x{side}_block{index}"] = made(now, channels, decoder=False, attention=inside)
                now = channels
                skips.append(now)
        self.dec = nn.ModuleDict()
        for depth, channels in reversed(list(enumerate(wide))):
            side = img_resolution >> depth
            if depth == len(wide) - 1:
                self.dec[f"{side}x{side}_in0"] = made(now, now, decoder=True, attention=True)
                self.dec[f"{side}x{side}_in1"] = made(now, now, decoder=True)
            else:
                self.dec[f"{side}x{side}_up"] = made(now, now, decoder=True, resample="up")
            for index in range(num_blocks + 1):
                inside = side in attn_resolutions
                self.dec[f"{side}x{side}_block{index}"] = made(
                    now + skips.pop(), channels, decoder=True, attention=inside
                )
                now = channels
        self.out_conv = Weight(now, img_channels, 3)

    def forward(self, x: Tensor, noise: Tensor, labels: Tensor | None = None) -> Tensor:
        """F of pictures (n, channels, side, side) at noise readings (n,) for one-hot labels."""
        features = self.emb_noise(self.emb_fourier(noise))
        if self.emb_label is not None and labels is not None:
            classes = self.emb_label(labels * math.sqrt(self.label_dim))
            features = balanced_sum(features, classes, self.label_balance)
        features, states = activate(features), []
        x = torch.cat([x, torch.ones_like(x[:, :1])], dim=1)
        for part in self.enc.values():
            x = part(x, features) if isinstance(part, Block) else part(x)
            states.append(x)
        for name, part in self.dec.items():
            x = part(balanced_cat(x, states.pop(), self.concat_balance) if "block" in name else x, features)
        return self.out_conv(x, self.out_gain)
