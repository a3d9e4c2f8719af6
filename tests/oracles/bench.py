"""Closed forms for the bench: where modes merge, where eigenvalues cross, lengths and potentials.

Written without the workbench, from the formulas alone.
"""

import math


def merging_level(distance: float, deviation: float) -> float:
    """Noise at which two equal round Gaussians at a distance have one mode: sigma^2 + s^2 = d^2 / 4.

    On the axis, p ~ exp(-(x-a)^2/2S^2) + exp(-(x+a)^2/2S^2) with a = d/2; the second derivative at the middle
    is proportional to a^2/S^2 - 1, which changes sign at S = a.
    """
    return math.sqrt((distance / 2.0) ** 2 - deviation**2)


def crossing_level(c1: float, c2: float, a: float) -> float:
    """Noise at which both eigenvalues of the posterior covariance at the middle are equal.

    Two equal components at +-a on the first axis with covariance diag(c1, c2), observed at the origin with
    noise of variance u: along the first axis c1 u / (c1 + u) + (a u / (c1 + u))^2, along the second
    c2 u / (c2 + u). Equal for u = (c1 (c2 - c1) - a^2 c2) / (c1 + a^2 - c2).
    """
    return math.sqrt((c1 * (c2 - c1) - a**2 * c2) / (c1 + a**2 - c2))


def posterior_variances(c1: float, c2: float, a: float, sigma: float) -> tuple[float, float]:
    """Both eigenvalues of that covariance."""
    u = sigma**2
    return c1 * u / (c1 + u) + (a * u / (c1 + u)) ** 2, c2 * u / (c2 + u)


def gaussian_density_length(deviation: float, reach: float, power: float, steps: int = 200_000) -> float:
    """Length from -reach to reach on the axis of a round Gaussian in the plane under p^(-2 b) I.

    By symmetry the axis is a geodesic; its length is the integral of p^(-b).
    """
    h = 2.0 * reach / steps
    total = 0.0
    for k in range(steps):
        x = -reach + (k + 0.5) * h
        log_p = -math.log(2.0 * math.pi * deviation**2) - 0.5 * (x / deviation) ** 2
        total += math.exp(-power * log_p) * h
    return total


def graph_length(slope: float, run: float, weight: float) -> float:
    """Length of a straight run along a constant score s under I + w s s': run sqrt(1 + w s^2)."""
    return run * math.sqrt(1.0 + weight * slope**2)
