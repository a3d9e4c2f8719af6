"""Closed forms of the worlds by other routes: numpy with inverses, mpmath, scipy; no workbench here."""

import math

import mpmath
import numpy as np
from scipy.integrate import quad, solve_ivp

G3 = (
    np.array([0.5, 0.3, 0.2]),
    np.array([[-3.0, 0.0], [3.0, 1.0], [0.0, 4.0]]),
    np.array([[[1.0, 0.3], [0.3, 0.5]], [[0.6, -0.2], [-0.2, 0.8]], [[0.4, 0.0], [0.0, 0.4]]]),
)
_O = 6.7 * math.sqrt(3.0) / 4.0
V = (
    np.array([0.5, 0.5]),
    np.array([[3.0, 0.0], [-3.0, 0.0]]),
    np.array([[[7.9 / 4, _O], [_O, 21.3 / 4]], [[7.9 / 4, -_O], [-_O, 21.3 / 4]]]),
)


def mixture_log_prob(mixture, y, sigma):
    """Log density of a mixture plus noise at one point, by explicit inverses and determinants."""
    weights, means, covariances = mixture
    logs = []
    for w, m, c in zip(weights, means, covariances, strict=True):
        s = c + sigma**2 * np.eye(len(m))
        logs.append(
            math.log(w)
            - 0.5 * (y - m) @ np.linalg.inv(s) @ (y - m)
            - 0.5 * np.linalg.slogdet(2 * np.pi * s)[1]
        )
    top = max(logs)
    return top + math.log(sum(math.exp(value - top) for value in logs))


def mixture_score(mixture, y, sigma):
    """Its gradient at one point."""
    weights, means, covariances = mixture
    total, pull = 0.0, np.zeros(len(y))
    whole = mixture_log_prob(mixture, y, sigma)
    for w, m, c in zip(weights, means, covariances, strict=True):
        one = mixture_log_prob((np.array([1.0]), m[None], c[None]), y, sigma)
        share = w * math.exp(one - whole)
        total += share
        pull -= share * np.linalg.solve(c + sigma**2 * np.eye(len(m)), y - m)
    return pull / total


def mixture_denoised(mixture, y, sigma, digits=60):
    """E[x0 | y] in many digits, by the conditional means of jointly Gaussian x0 and y."""
    with mpmath.workdps(digits):
        weights, means, covariances = mixture
        dim = len(y)
        total, mean = mpmath.mpf(0), mpmath.zeros(dim, 1)
        point = mpmath.matrix([mpmath.mpf(float(v)) for v in y])
        for w, m, c in zip(weights, means, covariances, strict=True):
            cov = mpmath.matrix(c.tolist())
            noisy = cov + mpmath.mpf(sigma) ** 2 * mpmath.eye(dim)
            inverse = noisy**-1
            offset = point - mpmath.matrix(m.tolist())
            value = (offset.T * inverse * offset)[0]
            share = mpmath.mpf(float(w)) * mpmath.exp(-value / 2) / mpmath.sqrt(mpmath.det(noisy))
            total += share
            mean += share * (mpmath.matrix(m.tolist()) + cov * inverse * offset)
        return np.array([float(v) for v in mean / total])


def circle_log_prob(y, width, sigma, digits=40):
    """Log density of the noisy unit circle in many digits."""
    with mpmath.workdps(digits):
        squared = mpmath.mpf(width) ** 2 + mpmath.mpf(sigma) ** 2
        r = mpmath.sqrt(mpmath.mpf(float(y[0])) ** 2 + mpmath.mpf(float(y[1])) ** 2)
        value = -(r**2 + 1) / (2 * squared) + mpmath.log(mpmath.besseli(0, r / squared))
        return float(value - mpmath.log(2 * mpmath.pi * squared))


def circle_denoised(y, width, sigma, digits=40):
    """E[x0 | y] on the noisy unit circle in many digits."""
    with mpmath.workdps(digits):
        w2, squared = mpmath.mpf(width) ** 2, mpmath.mpf(width) ** 2 + mpmath.mpf(sigma) ** 2
        x, z = mpmath.mpf(float(y[0])), mpmath.mpf(float(y[1]))
        r = mpmath.sqrt(x**2 + z**2)
        ratio = mpmath.besseli(1, r / squared) / mpmath.besseli(0, r / squared)
        beneath = (ratio * x / r, ratio * z / r)
        return np.array([float(c + w2 / squared * (v - c)) for c, v in zip(beneath, (x, z), strict=True)])


def muller_brown(x, y):
    """The energy, term by term."""
    a = (-1, -1, -6.5, 0.7)
    b = (0, 0, 11, 0.6)
    c = (-10, -10, -6.5, 0.7)
    centres = ((1, 0), (0, 0.5), (-0.5, 1.5), (-1, 1))
    heights = (-200, -100, -170, 15)
    return sum(
        h * math.exp(p * (x - u) ** 2 + q * (x - u) * (y - v) + s * (y - v) ** 2)
        for h, p, q, s, (u, v) in zip(heights, a, b, c, centres, strict=True)
    )


def three_hole(x, y):
    """The energy, as printed."""
    return (
        3 * math.exp(-(x**2) - (y - 1 / 3) ** 2)
        - 3 * math.exp(-(x**2) - (y - 5 / 3) ** 2)
        - 5 * math.exp(-((x - 1) ** 2) - y**2)
        - 5 * math.exp(-((x + 1) ** 2) - y**2)
        + 0.2 * x**4
        + 0.2 * (y - 1 / 3) ** 4
    )


def polar_double_well(x, y, stiffness=20.0, height=1.5):
    """The energy, through the angle."""
    return stiffness / 2 * (math.hypot(x, y) - 1) ** 2 + height * math.sin(math.atan2(y, x)) ** 2


def gradient(function, point, step=1e-5):
    """Central differences of fourth order."""
    out = []
    for i in range(len(point)):
        e = np.zeros(len(point))
        e[i] = step
        near = function(*(point + e)) - function(*(point - e))
        far = function(*(point + 2 * e)) - function(*(point - 2 * e))
        out.append((8 * near - far) / (12 * step))
    return np.array(out)


def descent_length(force, saddle, direction, goal):
    """Length of the steepest descent from a saddle to a minimum, with time as the variable."""

    def field(_, state):
        value = force(state[:2])
        return [*value, np.hypot(*value)]

    def arrived(_, state):
        return np.hypot(*(state[:2] - goal)) - 1e-7

    arrived.terminal = True
    begin = [*(saddle + 1e-6 * direction), 1e-6]
    run = solve_ivp(field, (0.0, 1e4), begin, "DOP853", rtol=1e-11, atol=1e-13, events=arrived)
    assert run.status == 1
    return run.y[2, -1] + 1e-7


def rice_mean(sigma, power=1.0):
    """Mean radius of the blurred circle's density raised to a power and normalised, by quadrature."""
    squared = sigma**2

    def log_density(r):
        return float(
            -((r - 1) ** 2) / (2 * squared)
            + math.log(mpmath.besseli(0, r / squared) * mpmath.exp(-r / squared))
        )

    low, high = max(0.0, 1 - 9 * sigma / math.sqrt(power)), 1 + 9 * sigma / math.sqrt(power)
    weight = [
        quad(
            lambda r, k=k: r ** (1 + k) * math.exp(power * log_density(r)), low, high, epsabs=1e-12, limit=200
        )[0]
        for k in (0, 1)
    ]
    return weight[1] / weight[0]
