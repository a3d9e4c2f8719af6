"""Distances and metrics in closed form, written with numpy, scipy and mpmath; no workbench here."""

import math

import mpmath
import numpy as np
from scipy.integrate import quad


def gaussian_distance(mu1, s1, mu2, s2, dim=1):
    """Fisher-Rao distance of N(mu, s^2 I)."""
    gap = np.sum((np.asarray(mu1, float) - np.asarray(mu2, float)) ** 2)
    return math.sqrt(2 * dim) * math.acosh(1 + (gap / (2 * dim) + (s1 - s2) ** 2) / (2 * s1 * s2))


def covariance_distance(a, b):
    """Fisher-Rao distance of two covariances at equal mean."""
    values = np.linalg.eigvals(np.linalg.solve(a, b)).real
    return math.sqrt(0.5 * np.sum(np.log(values) ** 2))


def categorical_distance(p, q):
    return 2 * math.acos(np.sum(np.sqrt(np.asarray(p) * np.asarray(q))))


def bernoulli_distance(p, q):
    return 2 * abs(math.asin(math.sqrt(p)) - math.asin(math.sqrt(q)))


def poisson_distance(a, b):
    return 2 * abs(math.sqrt(a) - math.sqrt(b))


def gudermann_distance(a, b):
    def gd(t):
        return 2 * math.atan(math.tanh(t / 2))

    return abs(gd(a) - gd(b))


def half_plane_distance(a, b):
    a, b = np.asarray(a, float), np.asarray(b, float)
    return math.acosh(1 + np.sum((a - b) ** 2) / (2 * a[1] * b[1]))


def sphere_distance(a, b):
    def point(t, p):
        return np.array([math.sin(t) * math.cos(p), math.sin(t) * math.sin(p), math.cos(t)])

    return math.acos(point(*a) @ point(*b))


def swiss_roll_distance(a, b):
    def arc(t):
        return (t * math.sqrt(1 + t * t) + math.asinh(t)) / 2

    return math.hypot(arc(a[0]) - arc(b[0]), a[1] - b[1])


def paraboloid_meridian(r1, r2):
    def h(r):
        return (r * math.sqrt(1 + 4 * r * r) + math.asinh(2 * r) / 2) / 2

    return abs(h(r2) - h(r1))


def fermat_radial(r):
    """Distance from the mode of N(0, I_2) to radius r in the metric p^-1 I."""
    return math.sqrt(2 * math.pi) * math.sqrt(math.pi) * float(mpmath.erfi(r / 2))


MIXTURE = ((0.275, 0.45, 0.275), (-2.5, 0.5, 2.5), 0.5625)
"""Weights, means and common variance of a mixture on the line."""


def posterior_moments(x, log_snr, order):
    """E[x0^order | x_t = x] for MIXTURE under x_t = alpha x0 + s eps, by quadrature."""
    weights, means, variance = MIXTURE
    alpha2 = 1 / (1 + math.exp(-log_snr))
    alpha, noise2 = math.sqrt(alpha2), 1 - alpha2

    def density(x0):
        prior = sum(
            w * math.exp(-((x0 - m) ** 2) / (2 * variance)) for w, m in zip(weights, means, strict=True)
        )
        return prior * math.exp(-((x - alpha * x0) ** 2) / (2 * noise2))

    options = {"epsabs": 1e-14, "epsrel": 1e-12, "limit": 400, "points": [-2.5, 0.5, 2.5, x / alpha]}
    total = quad(density, -9, 9, **options)[0]
    return quad(lambda x0: x0**order * density(x0), -9, 9, **options)[0] / total


def spacetime_metric(x, log_snr):
    """Fisher metric of the denoising posterior of MIXTURE in (x, lambda), from its moments."""
    alpha2 = 1 / (1 + math.exp(-log_snr))
    alpha, noise2 = math.sqrt(alpha2), 1 - alpha2
    m = [posterior_moments(x, log_snr, k) for k in range(5)]
    cov = np.array([[m[2] - m[1] ** 2, m[3] - m[1] * m[2]], [m[3] - m[1] * m[2], m[4] - m[2] ** 2]])
    # d alpha / d lambda = alpha noise2 / 2, and alpha / noise2 = e^(lambda/2) / sqrt(noise2)
    ratio = alpha / noise2
    d_ratio = ratio * (noise2 / 2 + alpha2)
    jacobian = np.array([[ratio, x * d_ratio], [0.0, -0.5 * math.exp(log_snr)]])
    return jacobian.T @ cov @ jacobian


def finite_difference(function, x, step=1e-5):
    """Central differences of a scalar function of a vector."""
    x = np.asarray(x, float)
    out = np.zeros_like(x)
    for i in range(len(x)):
        e = np.zeros_like(x)
        e[i] = step
        out[i] = (function(x + e) - function(x - e)) / (2 * step)
    return out
