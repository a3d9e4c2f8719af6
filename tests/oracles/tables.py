"""Noise tables over whole steps by hand: betas, their products, and the levels between steps."""

import math

import torch


def betas_of(name, steps=1000, start=1e-4, end=0.02):
    """Variances of the steps by their published formulas."""
    if name == "linear":
        return torch.linspace(start, end, steps)
    if name == "scaled_linear":
        return torch.linspace(math.sqrt(start), math.sqrt(end), steps) ** 2
    share = [math.cos((i / steps + 0.008) / 1.008 * math.pi / 2) ** 2 for i in range(steps + 1)]
    return torch.tensor([min(1 - share[i + 1] / share[i], 0.999) for i in range(steps)])


def frame_of(alphas_cumprod):
    """(a, s, -, -) at whole or fractional steps: ln sigma is linear between the steps."""
    table = alphas_cumprod.double()
    logs = 0.5 * torch.log(1 / table - 1)

    def frame(t):
        low = t.floor().clamp(0, len(table) - 2).long()
        place = t - low
        sigma = torch.exp((1 - place) * logs[low] + place * logs[low + 1])
        a = 1 / torch.sqrt(1 + sigma**2)
        return a, a * sigma, torch.zeros_like(a), torch.zeros_like(a)

    return frame
