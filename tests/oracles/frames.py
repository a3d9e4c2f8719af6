"""What an ideal network of each convention answers for a Gaussian mixture; torch only, no workbench here.

Everything is derived in the network's own frame x = a x0 + s eps, component by component: x given k is
N(a mu_k, S_k) with S_k = a^2 C_k + s^2 I, and the velocity is the mean of dx/dt under the joint law of x0
and eps.
"""

import math

import torch


def linear_betas(t):
    """VP-SDE of Song et al. with beta from 0.1 to 20: (a, s, da/dt, ds/dt)."""
    beta = 0.1 + 19.9 * t
    a = torch.exp(-0.5 * (0.1 * t + 9.95 * t**2))
    s = torch.sqrt(-torch.expm1(-(0.1 * t + 9.95 * t**2)))
    return a, s, -0.5 * beta * a, 0.5 * beta * a**2 / s


def cosine(t):
    """a = cos, s = sin of pi t / 2."""
    w = math.pi / 2
    return torch.cos(w * t), torch.sin(w * t), -w * torch.sin(w * t), w * torch.cos(w * t)


def exploding(t):
    """a = 1, s = t."""
    return torch.ones_like(t), t, torch.zeros_like(t), torch.ones_like(t)


def rectified(t):
    """a = 1 - t, s = t."""
    return 1 - t, t, -torch.ones_like(t), torch.ones_like(t)


def matching(t):
    """a = t, s = 1 - t."""
    return t, 1 - t, torch.ones_like(t), -torch.ones_like(t)


def unpublished(t):
    """a = exp(-t^2) / (1 + t), s = t (1 + t / 3): neither variance preserving nor anything else."""
    a = torch.exp(-(t**2)) / (1 + t)
    return a, t + t**2 / 3, -a * (2 * t + 1 / (1 + t)), 1 + 2 * t / 3


def ideal_output(tables, frame, x, t, prediction):
    """Output of the ideal network.

    tables: (weights, means, covariances) as tensors; frame: one of the functions above; x: (n, dim); t: (n,).
    """
    weights, means, covariances = tables
    a, s, a_rate, s_rate = (value[:, None] for value in frame(t))
    eye = torch.eye(means.shape[1], dtype=x.dtype)
    noisy = a[..., None, None] ** 2 * covariances + s[..., None, None] ** 2 * eye  # (n, components, dim, dim)
    offset = x[:, None] - a[..., None] * means
    pull = torch.linalg.solve(noisy, offset[..., None])[..., 0]  # S^-1 (x - a mu)
    logs = weights.log() - 0.5 * (offset * pull).sum(-1) - 0.5 * torch.linalg.slogdet(noisy)[1]
    share = torch.softmax(logs, -1)[..., None]
    noise = (share * s[..., None] * pull).sum(1)
    clean = (share * (means + a[..., None] * torch.einsum("kij,nkj->nki", covariances, pull))).sum(1)
    if prediction == "eps":
        return noise
    if prediction == "x0":
        return clean
    if prediction == "score":
        return -(share * pull).sum(1)
    if prediction == "v":
        return a * noise - s * clean
    mixed = (
        a_rate[..., None, None] * a[..., None, None] * covariances
        + s_rate[..., None, None] * s[..., None, None] * eye
    )
    return (share * (a_rate[..., None] * means + torch.einsum("nkij,nkj->nki", mixed, pull))).sum(1)


def edm_output(tables, y, sigma, data_std):
    """Raw output of the ideal EDM network: what is left of the posterior mean after the skip connection."""
    total = sigma**2 + data_std**2
    clean = ideal_output(tables, exploding, y, sigma, "x0")
    skip, out = data_std**2 / total, sigma * data_std / torch.sqrt(total)
    # (clean - skip y) / out, without the cancellation: both parts are posterior means of x0 - skip y
    return (clean - skip[:, None] * y) / out[:, None]
