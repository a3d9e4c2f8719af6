"""Formulas of the average output geometry, written with numpy and loops, independent of the workbench."""

import math

import numpy as np


def linear_beta_weights(count: int) -> np.ndarray:
    """1 / (1 - abar_t) for beta from 0.1/count to 20/count, by a loop."""
    kept, out = 1.0, []
    for step in range(count):
        kept *= 1.0 - (0.1 + (20.0 - 0.1) * step / (count - 1)) / count
        out.append(1.0 / (1.0 - kept))
    return np.array(out)


def rectified_moments(square: float) -> tuple[float, float]:
    """(variance, squared mean) of max(z, 0) for z ~ N(0, square), by quadrature."""
    z = np.linspace(0.0, 12.0, 400_001)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    mean = np.trapezoid(z * density, z)
    second = np.trapezoid(z**2 * density, z)
    return square * (second - mean**2), square * mean**2


def convolution_moment(features: np.ndarray, size: int, variance: float, bias: float) -> np.ndarray:
    """Second moment over independent weights of one channel of a zero-padded convolution, entry by entry.

    Args:
        features: (channels, rows, columns).
        size: Side of the odd kernel.
        variance: Of a weight.
        bias: Variance of the bias.

    Returns:
        (rows * columns, rows * columns).
    """
    channels, rows, columns = features.shape
    reach = size // 2
    padded = np.zeros((channels, rows + 2 * reach, columns + 2 * reach))
    padded[:, reach : reach + rows, reach : reach + columns] = features
    patches = [padded[:, i : i + size, j : j + size].ravel() for i in range(rows) for j in range(columns)]
    stacked = np.array(patches)
    return variance * stacked @ stacked.T + bias


def position_code(grid: int, width: int) -> np.ndarray:
    """Sine-cosine code of a square grid, row by row: column waves first, sines before cosines."""
    quarter = width // 4
    out = np.zeros((grid * grid, width))
    for row in range(grid):
        for column in range(grid):
            for k in range(quarter):
                speed = 10_000.0 ** (-k / quarter)
                out[row * grid + column, [k, quarter + k]] = (
                    math.sin(column * speed),
                    math.cos(column * speed),
                )
                out[row * grid + column, [2 * quarter + k, 3 * quarter + k]] = (
                    math.sin(row * speed),
                    math.cos(row * speed),
                )
    return out


def transformer_core(grid: int, width: int, patch_entries: int) -> np.ndarray:
    """2 / (width + entries) H H^T with H the layer-normalised code."""
    code = position_code(grid, width)
    centred = code - code.mean(1, keepdims=True)
    hidden = centred / np.sqrt(centred.var(1, keepdims=True) + 1e-6)
    return 2.0 / (width + patch_entries) * hidden @ hidden.T
