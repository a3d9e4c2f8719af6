"""Facts about strings, from formulas alone: numbers of known surfaces, ridgelines, cells, curve laws."""

import math

import numpy as np
from scipy.integrate import quad
from scipy.interpolate import CubicSpline
from scipy.special import i0e

MULLER_BROWN = {
    "minima": ((-0.558223635, 1.441725842), (-0.050010823, 0.466694105), (0.623499405, 0.028037759)),
    "saddles": ((-0.822001559, 0.624312803), (0.212486582, 0.292988325)),
    "energies": (-146.699517210, -40.664843509, -80.767818130, -72.248940112, -108.166724117),
    "barrier": 106.034673701,
    "length": 2.69883,
}
V_MIXTURE = {"barrier": 1.587018331, "straight": 10.717567105, "length": 10.79795}
RING = {"barrier": 2.561226360, "centre": 20.142785, "length": 12.245838}
THREE_HOLE = {"lower": 2.610274, "upper": 2.348173, "lower_length": 2.220366}


def tangent_line_profile(arc, slopes, at):
    """Integral of a spline through slopes by scipy: the line integral of a force along a curve."""
    spline = CubicSpline(np.asarray(arc), np.asarray(slopes))
    return np.array([spline.integrate(0.0, s) for s in np.atleast_1d(at)])


def nearest_image(points, images):
    """Index of the nearest image for each point, by brute force in double precision."""
    apart = np.linalg.norm(np.asarray(points)[:, None, :] - np.asarray(images)[None], axis=-1)
    return apart.argmin(1)


def radial_mean(log_weight, power=1, lower=0.0, upper=5.0):
    """<r^(power+1)> / <r^power> for a planar density exp(log_weight(r)), by quadrature."""
    top = quad(lambda r: r ** (power + 1) * math.exp(log_weight(r)), lower, upper, epsabs=1e-13)[0]
    return top / quad(lambda r: r**power * math.exp(log_weight(r)), lower, upper, epsabs=1e-13)[0]


def polar_mean(sigma):
    """Mean radius of exp(-(r - 1)^2 / (2 sigma^2)) in the plane."""
    return radial_mean(lambda r: -((r - 1.0) ** 2) / (2.0 * sigma**2))


def noisy_circle_mean(sigma, temperature):
    """Mean radius of (unit circle with Gaussian noise)^(1/T): where its principal curve lies."""

    def log_weight(r):
        z = r / sigma**2
        return (-((r - 1.0) ** 2) / (2.0 * sigma**2) + math.log(i0e(z))) / temperature

    return radial_mean(log_weight)


def cell_mean(radius, spacing):
    """Mean of a cell's arc, seen from the image: what images of a circle at an angular spacing read."""
    return radius * math.sin(0.5 * spacing) / (0.5 * spacing)


def ridgeline_barrier(weights, means, covariances, points=20001):
    """Barrier between the modes of a two-component Gaussian mixture.

    Every critical point lies on the ridgeline x(a) = ((1-a) P1 + a P2)^-1 ((1-a) P1 m1 + a P2 m2), with P
    the precisions (Ray, Lindsay 2005), so the barrier is read off one curve.

    Returns:
        (point at the first mode, at the second, both to the grid's accuracy; energy of the saddle minus
        that of the first point) or None if there is only one mode.
    """
    precisions = [np.linalg.inv(c) for c in covariances]
    a = np.linspace(0.0, 1.0, points)[:, None, None]
    both = (1 - a) * precisions[0] + a * precisions[1]
    right = (1 - a[..., 0]) * (precisions[0] @ means[0]) + a[..., 0] * (precisions[1] @ means[1])
    line = np.linalg.solve(both, right[..., None])[..., 0]
    energy = mixture_energy(line, weights, means, covariances)
    inner = energy[1:-1]
    dips = np.flatnonzero((inner < energy[:-2]) & (inner <= energy[2:])) + 1
    if len(dips) != 2:
        return None
    top = dips[0] + energy[dips[0] : dips[1]].argmax()
    high = _peak(energy, top)
    return line[dips[0]], line[dips[1]], high - energy[dips[0]]


def _peak(values, k):
    """Value at the top of the parabola through three neighbours."""
    left, here, right = values[k - 1 : k + 2]
    bend = left - 2 * here + right
    return here - (right - left) ** 2 / (8 * bend) if bend else here


def mixture_energy(x, weights, means, covariances):
    """-log density of a Gaussian mixture."""
    parts = []
    for w, m, c in zip(weights, means, covariances, strict=True):
        d = x - m
        power = -0.5 * np.einsum("...i,ij,...j", d, np.linalg.inv(c), d)
        parts.append(math.log(w) + power - 0.5 * math.log((2 * math.pi) ** len(m) * np.linalg.det(c)))
    parts = np.stack(parts)
    top = parts.max(0)
    return -(top + np.log(np.exp(parts - top).sum(0)))
