"""Lattice models by brute force: every configuration in turn; no workbench here."""

import itertools
import math

import numpy as np


def ising_states(rows, columns):
    """A and M of all configurations."""
    bonds, moments = [], []
    for bits in itertools.product((1, -1), repeat=rows * columns):
        s = np.array(bits).reshape(rows, columns)
        bonds.append((s * np.roll(s, 1, 0)).sum() + (s * np.roll(s, 1, 1)).sum())
        moments.append(s.sum())
    return np.array(bonds, float), np.array(moments, float)


def ising_moments(states, coupling, field):
    """log Z, means and covariance of (A, M)."""
    bonds, moments = states
    exponent = coupling * bonds + field * moments
    top = exponent.max()
    weights = np.exp(exponent - top)
    log_z = top + math.log(weights.sum())
    weights /= weights.sum()
    both = np.stack((bonds, moments))
    mean = both @ weights
    centred = both - mean[:, None]
    return log_z, mean, (centred * weights) @ centred.T


def tasep_stationary(sites, alpha, beta):
    """Stationary distribution of the Markov generator over 2^N configurations, site 1 the highest bit."""
    size = 2**sites
    rates = np.zeros((size, size))
    for state in range(size):
        bits = [(state >> (sites - 1 - i)) & 1 for i in range(sites)]

        def move(changes, rate, state=state):
            new = state
            for i in changes:
                new ^= 1 << (sites - 1 - i)
            rates[new, state] += rate
            rates[state, state] -= rate

        if not bits[0]:
            move([0], alpha)
        if bits[-1]:
            move([sites - 1], beta)
        for i in range(sites - 1):
            if bits[i] and not bits[i + 1]:
                move([i, i + 1], 1.0)
    system = np.vstack((rates, np.ones(size)))
    target = np.zeros(size + 1)
    target[-1] = 1.0
    return np.linalg.lstsq(system, target, rcond=None)[0]


def tasep_weight(bits, alpha, beta):
    """Weight of one configuration: 10 -> 1 + 0, leading 0 -> 1/alpha, trailing 1 -> 1/beta."""
    if not bits:
        return 1.0
    if bits[0] == 0:
        return tasep_weight(bits[1:], alpha, beta) / alpha
    if bits[-1] == 1:
        return tasep_weight(bits[:-1], alpha, beta) / beta
    cut = next(i for i in range(len(bits) - 1) if bits[i] == 1 and bits[i + 1] == 0)
    head, tail = bits[:cut], bits[cut + 2 :]
    return tasep_weight((*head, 1, *tail), alpha, beta) + tasep_weight((*head, 0, *tail), alpha, beta)


def catalan(n):
    return math.comb(2 * n, n) // (n + 1)
