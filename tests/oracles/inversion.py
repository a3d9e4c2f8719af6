"""Inversion in the frame of constant variance, as the papers print it, on closed-form denoisers; numpy only.

x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) eps with the "scaled linear" betas of latent diffusion, 1000 steps.
"""

from itertools import pairwise

import numpy as np

STEPS = 1000
ABAR = np.cumprod(1.0 - np.linspace(np.sqrt(0.00085), np.sqrt(0.012), STEPS) ** 2)
SIGMA = np.sqrt(1.0 - ABAR) / np.sqrt(ABAR)


def grid(count):
    """Abar at `count` + 1 rounded uniform indices from 0 to 999."""
    return ABAR[np.round(np.linspace(0, STEPS - 1, count + 1)).astype(int)]


def mixture_noise(means, deviation):
    """The exact noise (x, abar) -> E[eps | x] of an equal mixture of isotropic normals."""

    def noise(x, abar):
        variance = abar * deviation**2 + 1 - abar
        offsets = x[:, None, :] - np.sqrt(abar) * means[None]
        logs = -0.5 * (offsets**2).sum(-1) / variance
        weights = np.exp(logs - logs.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        return (x - np.sqrt(abar) * weights @ means) * np.sqrt(1 - abar) / variance

    return noise


def move(x, eps, start, end):
    """DDIM's step: a x + b eps."""
    a = np.sqrt(end / start)
    return a * x + (np.sqrt(1 - end) - a * np.sqrt(1 - start)) * eps


def ddim_up(noise, x, abars):
    """DDIM inversion: the noise of the cleaner state."""
    for start, end in pairwise(abars):
        x = move(x, noise(x, start), start, end)
    return x


def ddim_down(noise, x, abars):
    """DDIM sampling."""
    for start, end in pairwise(abars[::-1]):
        x = move(x, noise(x, start), start, end)
    return x


def fixed_up(noise, x, abars, iterations):
    """DDIM sampling, inverted by iteration."""
    for low, high in pairwise(abars):
        a = np.sqrt(low / high)
        b = np.sqrt(1 - low) - a * np.sqrt(1 - high)
        guess = move(x, noise(x, low), low, high)
        for _ in range(iterations):
            guess = (x - b * noise(guess, high)) / a
        x = guess
    return x


def heun_up(noise, x, abars):
    """Heun's rule in sigma on x / sqrt(abar)."""
    for low, high in pairwise(abars):
        y, h = x / np.sqrt(low), np.sqrt(1 / high - 1) - np.sqrt(1 / low - 1)
        first = noise(x, low)
        second = noise(np.sqrt(high) * (y + h * first), high)
        x = np.sqrt(high) * (y + 0.5 * h * (first + second))
    return x


def edict_down(noise, first, second, abars, p):
    """EDICT sampling of a pair."""
    for start, end in pairwise(abars[::-1]):
        first = move(first, noise(second, start), start, end)
        second = move(second, noise(first, start), start, end)
        first = p * first + (1 - p) * second
        second = p * second + (1 - p) * first
    return first, second


def bdia_down(noise, above, x, abars):
    """BDIA (gamma 1) from the states at the two highest levels."""
    for i in range(len(abars) - 2, 0, -1):
        eps = noise(x, abars[i])
        below = above - move(x, eps, abars[i], abars[i + 1]) + move(x, eps, abars[i], abars[i - 1])
        above, x = x, below
    return x


def belm_down(noise, above, x, abars):
    """O-BELM from the states at the two highest levels, in its own frame x / sqrt(abar)."""
    sigma = np.sqrt(1 / abars - 1)
    above, y = above / np.sqrt(abars[-1]), x / np.sqrt(abars[-2])
    for i in range(len(abars) - 2, 0, -1):
        h, ahead = sigma[i] - sigma[i - 1], sigma[i + 1] - sigma[i]
        r = h / ahead
        eps = noise(np.sqrt(abars[i]) * y, abars[i])
        above, y = y, r**2 * above + (1 - r**2) * y - h * (1 + r) * eps
    return y * np.sqrt(abars[0])


def gaussian_latent(x, deviation, abars):
    """The flow of N(0, s^2): points keep their place in units of the deviation at their level."""
    ends = abars[[0, -1]] * deviation**2 + 1 - abars[[0, -1]]
    return x * np.sqrt(ends[1] / ends[0])
