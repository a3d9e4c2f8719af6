"""Ideal networks for tests: what a perfect network of each convention answers for a known mixture."""

import torch

from tests.oracles import frames
from tests.oracles.worlds import G3
from workbench.worlds import load_world

TABLES = tuple(torch.tensor(part, dtype=torch.float64) for part in G3)
"""Weights, means and covariances of a three-component mixture in the plane."""

WORLD = load_world("g3")
"""The same mixture as a model with exact answers."""


def answer(frame, prediction, *, clock=lambda t: t):
    """A function (x, t) -> F of the ideal network: x of any shape with two entries a point."""

    def network(x, t):
        flat = x.reshape(len(x), 2).double()
        made = frames.ideal_output(TABLES, frame, flat, clock(t.double()), prediction)
        return made.to(x.dtype).reshape(x.shape)

    return network


def worst(model, sigma, *, count=30, seed=0):
    """Largest relative error of a model's posterior mean at a noise level."""
    y = WORLD.sample(count, generator=torch.Generator().manual_seed(seed), sigma=sigma)
    exact = WORLD.denoise(y, sigma)
    return float(((model.denoise(y, sigma) - exact).norm(dim=-1) / exact.norm(dim=-1)).max())
