"""Formulas of the networks, their training data and their measures, by other routes; no workbench here."""

import math
import struct

import numpy as np
import scipy.linalg


def edm_denoised(inner, y, sigma, data_std):
    """D from F by table 1 of Karras et al. 2022, written out for one point."""
    c_skip = data_std**2 / (sigma**2 + data_std**2)
    c_out = sigma * data_std / math.sqrt(data_std**2 + sigma**2)
    c_in = 1 / math.sqrt(sigma**2 + data_std**2)
    return c_skip * y + c_out * inner(c_in * y, 0.25 * math.log(sigma))


def edm_loss_weight(sigma, data_std):
    """Weight of |D - x0|^2 in the loss, table 1 of Karras et al. 2022."""
    return (sigma**2 + data_std**2) / (sigma * data_std) ** 2


def ring_denoised(y, sigma, modes=8, radius=0.8, std=0.06):
    """E[x0 | y] of an equal mixture of isotropic normals on a circle, points (n, 2)."""
    angles = 2 * np.pi * np.arange(modes) / modes
    means = radius * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    total = std**2 + sigma**2
    exponent = -((y[:, None] - means) ** 2).sum(-1) / (2 * total)
    weights = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    shrunk = means + std**2 / total * (y[:, None] - means)
    return (weights[..., None] * shrunk).sum(axis=1)


def power_average(values, power):
    """Average of values[0..n-1], weight of value k proportional to the increments of (k / n)^(power + 1)."""
    edges = (np.arange(len(values) + 1) / len(values)) ** (power + 1)
    products = [1.0]
    for k in range(len(values), 0, -1):
        products.append(products[-1] * (1 - 1 / k) ** (power + 1))
    weights = np.array(
        [products[len(values) - k] - products[len(values) - k + 1] for k in range(1, len(values) + 1)]
    )
    assert np.allclose(weights, np.diff(edges))  # the telescoping product is the power function itself
    return (weights[:, None] * np.asarray(values)).sum(axis=0)


def frechet(first, second):
    """Fréchet distance of two sets of features with scipy's matrix square root."""
    c1, c2 = np.cov(first, rowvar=False), np.cov(second, rowvar=False)
    root = scipy.linalg.sqrtm(c1 @ c2).real
    gap = first.mean(0) - second.mean(0)
    return gap @ gap + np.trace(c1) + np.trace(c2) - 2 * np.trace(root)


def energy_distance(first, second):
    """Squared energy distance by explicit double loops."""

    def mean(x, y, same):
        values = [
            np.linalg.norm(a - b) for i, a in enumerate(x) for j, b in enumerate(y) if not (same and i == j)
        ]
        return np.mean(values)

    return 2 * mean(first, second, False) - mean(first, first, True) - mean(second, second, True)


def karras_level(i, steps, sigma_min, sigma_max, rho=7.0):
    """Level i of equation 5 of Karras et al. 2022."""
    low, high = sigma_min ** (1 / rho), sigma_max ** (1 / rho)
    return (high + i / (steps - 1) * (low - high)) ** rho


def idx_bytes(array):
    """An IDX file of bytes: magic number, big-endian lengths, values."""
    return (
        struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()
    )


def evidence_bound(p, logits, mean, log_variance, beta):
    """Bernoulli misfit plus beta times the divergence from a standard normal, mean over pictures, in nats."""
    odds = np.asarray(logits, dtype=float)
    shown = 1.0 / (1.0 + np.exp(-odds))
    misfit = -(p * np.log(shown) + (1.0 - p) * np.log1p(-shown)).sum(axis=-1)
    variance = np.exp(log_variance)
    divergence = (0.5 * (variance + mean**2 - 1.0) - 0.5 * np.log(variance)).sum(axis=-1)
    return float(np.mean(misfit + beta * divergence))
