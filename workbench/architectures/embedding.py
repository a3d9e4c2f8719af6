"""Fixed sine and cosine features: of the time step, and of positions on a grid."""

import math

import torch
from torch import Tensor


def embed_time(t: Tensor, width: int, longest: float = 10_000.0) -> Tensor:
    """Cosines, then sines, of the times at geometrically spaced frequencies from 1 down to 1/longest.

    Args:
        t: Times, shape (n,).
        width: Number of features, even.
        longest: Period of the slowest wave over 2 pi.

    Returns:
        Features, shape (n, width).
    """
    half = width // 2
    steps = torch.arange(half, dtype=t.dtype, device=t.device)
    angles = t[:, None] * torch.exp(-math.log(longest) * steps / half)
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def embed_grid(rows: int, columns: int, width: int) -> Tensor:
    """Sine-cosine features of the cells of a grid, row by row.

    Half of the features belong to the column index, half to the row index; each half is sines then cosines.

    Args:
        rows: Cells down.
        columns: Cells across.
        width: Number of features, a multiple of four.

    Returns:
        Features, shape (rows * columns, width), float64.
    """
    quarter = width // 4
    speeds = 10_000.0 ** (-torch.arange(quarter, dtype=torch.float64) / quarter)

    def waves(index: Tensor) -> Tensor:
        angles = index[:, None] * speeds
        return torch.cat([angles.sin(), angles.cos()], dim=-1)

    down, across = torch.meshgrid(
        torch.arange(rows, dtype=torch.float64), torch.arange(columns, dtype=torch.float64), indexing="ij"
    )
    return torch.cat([waves(across.flatten()), waves(down.flatten())], dim=-1)
