"""Flow maps and densities in closed form; numpy only, no workbench here."""

import math

import numpy as np

# log densities of the mixture G3 of tests.oracles.worlds, to the digits of the table
G3_POINTS = ((0.5, -0.7), (-3.0, 0.0), (5.0, 5.0))
G3_LOGS = (-11.377952246, -2.085225187, -20.813177107)

MEAN = np.array([1.0, -2.0])
COVARIANCE = np.array([[2.0, 0.8], [0.8, 0.6]])


def gaussian_marginal_root(a, s):
    """Square root of a^2 C + s^2 I."""
    values, vectors = np.linalg.eigh(a**2 * COVARIANCE + s**2 * np.eye(2))
    return vectors @ np.diag(np.sqrt(values)) @ vectors.T


def gaussian_flow(x, begin, end):
    """The flow of one Gaussian between two pairs (a, s): z = S^{-1/2} (x - a mu) is carried unchanged."""
    z = np.linalg.solve(gaussian_marginal_root(*begin), (x - begin[0] * MEAN).T)
    return end[0] * MEAN + (gaussian_marginal_root(*end) @ z).T


def gaussian_log_density(x, mean, covariance):
    """Log density of a Gaussian at points (n, dim)."""
    offset = x - mean
    inverse = np.linalg.inv(covariance)
    size = np.linalg.slogdet(2 * math.pi * covariance)[1]
    return -0.5 * np.einsum("ni,ij,nj->n", offset, inverse, offset) - 0.5 * size


def rademacher_variance(matrix):
    """Variance of v^T A v over random signs v: 2 (|A_sym|_F^2 - sum of squared diagonal entries)."""
    symmetric = 0.5 * (matrix + matrix.T)
    return 2.0 * ((symmetric**2).sum() - (np.diag(symmetric) ** 2).sum())
