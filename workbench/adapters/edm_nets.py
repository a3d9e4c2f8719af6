r"""The U-Nets of the EDM paper by their published names: `SongUNet` (DDPM++, NCSN++), `DhariwalUNet` (ADM).

Written here so that an export of weights opens without the code it was trained with: names and shapes of the
parameters are those of the published checkpoints, the code is not. Everything is computed in the type of the
weights, and nothing in place, so that every derivative passes.

References:
    Karras, Aittala, Aila, Laine, "Elucidating the Design Space of Diffusion-Based Generative Models", 2022,
        appendix F, https://arxiv.org/abs/2206.00364
    Song et al., "Score-Based Generative Modeling through Stochastic Differential Equations", 2021,
        appendix H, https://arxiv.org/abs/2011.13456
    Dhariwal, Nichol, "Diffusion Models Beat GANs on Image Synthesis", 2021, https://arxiv.org/abs/2105.05233
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.adapters.edm_layers import Block, Conv, Norm, RandomWaves, Waves, way_down, way_up


class SongUNet(nn.Module):
    """DDPM++ (standard encoder) and NCSN++ (residual encoder, Fourier features, filter 1-3-3-1).

    Args:
        img_resolution: Rows and columns of a picture.
        in_channels: Channels of a picture.
        out_channels: Channels of the output.
        label_dim: Number of classes; 0 for none.
        augment_dim: Entries of the augmentation's label, which is zero here.
        model_channels: Channels at the finest level.
        channel_mult: Factor of the channels at each level.
        channel_mult_emb: Factor of the features.
        num_blocks: Residual blocks at each level.
        attn_resolutions: Sides at which there is attention.
        embedding_type: "positional" or "fourier".
        channel_mult_noise: Factor of the noise level's waves.
        encoder_type: "standard", "skip" or "residual".
        decoder_type: "standard" or "skip".
        resample_filter: Filter along one axis.
    """

    def __init__(
        self,
        img_resolution: int,
        in_channels: int,
        out_channels: int,
        label_dim: int = 0,
        augment_dim: int = 0,
        model_channels: int = 128,
        channel_mult: Sequence[int] = (1, 2, 2, 2),
        channel_mult_emb: int = 4,
        num_blocks: int = 4,
        attn_resolutions: Sequence[int] = (16,),
        embedding_type: str = "positional",
        channel_mult_noise: int = 1,
        encoder_type: str = "standard",
        decoder_type: str = "standard",
        resample_filter: Sequence[float | int] = (1, 1),
    ) -> None:
        super().__init__()
        features, waves = model_channels * channel_mult_emb, model_channels * channel_mult_noise
        positional = embedding_type == "positional"
        self.map_noise = Waves(waves, endpoint=True) if positional else RandomWaves(waves)
        self.map_label = nn.Linear(label_dim, waves) if label_dim else None
        self.map_augment = nn.Linear(augment_dim, waves, bias=False) if augment_dim else None
        self.map_layer0, self.map_layer1 = nn.Linear(waves, features), nn.Linear(features, features)
        self.label_dim = label_dim

        def block(channels_in: int, channels: int, *, resample: str = "", attention: bool = False) -> Block:
            heads = 1 if attention else 0
            return Block(
                channels_in,
                channels,
                features,
                resample=resample,
                heads=heads,
                song=True,
                taps=resample_filter,
            )

        self.enc = nn.ModuleDict()
        now = beside = in_channels
        skips: list[int] = []
        for depth, factor in enumerate(channel_mult):
            side = img_resolution >> depth
            if depth == 0:
                self.enc[f"{side}x{side}_conv"] = Conv(now, model_channels, 3)
                now = model_channels
            else:
                self.enc[f"{side}x{side}_down"] = block(now, now, resample="down")
                if encoder_type == "skip":
                    self.enc[f"{side}x{side}_aux_down"] = Conv(
                        beside, beside, 0, resample="down", taps=resample_filter
                    )
                    self.enc[f"{side}x{side}_aux_skip"] = Conv(beside, now, 1)
                if encoder_type == "residual":
                    self.enc[f"{side}x{side}_aux_residual"] = Conv(
                        beside, now, 3, resample="down", taps=resample_filter, fused=True
                    )
                    beside = now
            skips.append(now)
            attended = [side in attn_resolutions] * num_blocks
            now = way_down(self.enc, side, block, skips, model_channels * factor, attended)
        self.dec = nn.ModuleDict()
        for depth, factor in reversed(list(enumerate(channel_mult))):
            side = img_resolution >> depth
            last, attended = depth == len(channel_mult) - 1, [False] * num_blocks + [side in attn_resolutions]
            now = way_up(self.dec, side, block, now, skips, model_channels * factor, attended, deepest=last)
            if decoder_type == "skip" or depth == 0:
                if decoder_type == "skip" and depth < len(channel_mult) - 1:
                    self.dec[f"{side}x{side}_aux_up"] = Conv(
                        out_channels, out_channels, 0, resample="up", taps=resample_filter
                    )
                self.dec[f"{side}x{side}_aux_norm"] = Norm(now, 1e-6)
                self.dec[f"{side}x{side}_aux_conv"] = Conv(now, out_channels, 3)

    def forward(self, x: Tensor, noise: Tensor, labels: Tensor | None = None) -> Tensor:
        """F of pictures (n, channels, side, side) at noise readings (n,) for one-hot labels."""
        waves = self.map_noise(noise)
        waves = torch.cat(waves.chunk(2, dim=1)[::-1], dim=1)  # sines come first here
        if self.map_label is not None and labels is not None:
            waves = waves + self.map_label(labels * math.sqrt(self.label_dim))
        features = F.silu(self.map_layer1(F.silu(self.map_layer0(waves))))
        states, beside = [], x
        for name, part in self.enc.items():
            if name.endswith("aux_down"):
                beside = part(beside)
            elif name.endswith("aux_skip"):
                x = states[-1] = x + part(beside)
            elif name.endswith("aux_residual"):
                x = states[-1] = beside = (x + part(beside)) * math.sqrt(0.5)
            else:
                x = part(x, features) if isinstance(part, Block) else part(x)
                states.append(x)
        made: Tensor | None = None
        normed = x
        for name, part in self.dec.items():
            if name.endswith("aux_up"):
                made = part(made)
            elif name.endswith("aux_norm"):
                normed = part(x)
            elif name.endswith("aux_conv"):
                out = part(F.silu(normed))
                made = out if made is None else made + out
            else:
                if "block" in name:
                    x = torch.cat([x, states.pop()], dim=1)
                x = part(x, features)
        assert made is not None  # the finest level always has an output
        return made


class DhariwalUNet(nn.Module):
    """ADM: attention at several sides, scale and shift by the noise level.

    Args:
        img_resolution: Rows and columns of a picture.
        in_channels: Channels of a picture.
        out_channels: Channels of the output.
        label_dim: Number of classes; 0 for none.
        augment_dim: Entries of the augmentation's label, which is zero here.
        model_channels: Channels at the finest level.
        channel_mult: Factor of the channels at each level.
        channel_mult_emb: Factor of the features.
        num_blocks: Residual blocks at each level.
        attn_resolutions: Sides at which there is attention.
    """

    def __init__(
        self,
        img_resolution: int,
        in_channels: int,
        out_channels: int,
        label_dim: int = 0,
        augment_dim: int = 0,
        model_channels: int = 192,
        channel_mult: Sequence[int] = (1, 2, 3, 4),
        channel_mult_emb: int = 4,
        num_blocks: int = 3,
        attn_resolutions: Sequence[int] = (32, 16, 8),
    ) -> None:
        super().__init__()
        features = model_channels * channel_mult_emb
        self.map_noise = Waves(model_channels, endpoint=False)
        self.map_augment = nn.Linear(augment_dim, model_channels, bias=False) if augment_dim else None
        self.map_layer0, self.map_layer1 = nn.Linear(model_channels, features), nn.Linear(features, features)
        self.map_label = nn.Linear(label_dim, features, bias=False) if label_dim else None

        def block(channels_in: int, channels: int, *, resample: str = "", attention: bool = False) -> Block:
            heads = max(1, channels // 64) if attention else 0
            return Block(channels_in, channels, features, resample=resample, heads=heads, song=False)

        self.enc = nn.ModuleDict()
        now, skips = in_channels, []
        for depth, factor in enumerate(channel_mult):
            side = img_resolution >> depth
            if depth == 0:
                self.enc[f"{side}x{side}_conv"] = Conv(now, model_channels * factor, 3)
                now = model_channels * factor
            else:
                self.enc[f"{side}x{side}_down"] = block(now, now, resample="down")
            skips.append(now)
            attended = [side in attn_resolutions] * num_blocks
            now = way_down(self.enc, side, block, skips, model_channels * factor, attended)
        self.dec = nn.ModuleDict()
        for depth, factor in reversed(list(enumerate(channel_mult))):
            side = img_resolution >> depth
            last, attended = depth == len(channel_mult) - 1, [side in attn_resolutions] * (num_blocks + 1)
            now = way_up(self.dec, side, block, now, skips, model_channels * factor, attended, deepest=last)
        self.out_norm = Norm(now, 1e-5)
        self.out_conv = Conv(now, out_channels, 3)

    def forward(self, x: Tensor, noise: Tensor, labels: Tensor | None = None) -> Tensor:
        """F of pictures (n, channels, side, side) at noise readings (n,) for one-hot labels."""
        features = self.map_layer1(F.silu(self.map_layer0(self.map_noise(noise))))
        if self.map_label is not None and labels is not None:
            features = features + self.map_label(labels)
        features, states = F.silu(features), []
        for part in self.enc.values():
            x = part(x, features) if isinstance(part, Block) else part(x)
            states.append(x)
        for name, part in self.dec.items():
            x = part(torch.cat([x, states.pop()], dim=1) if "block" in name else x, features)
        return self.out_conv(F.silu(self.out_norm(x)))
