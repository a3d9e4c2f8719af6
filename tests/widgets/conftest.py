"""Paths that the figures' tests draw: found once, never changed."""

import pytest
import torch

from workbench.lenses.paths import find_path
from workbench.worlds import load_world


@pytest.fixture(scope="session")
def valley():
    """The static path of the V-mixture between its modes."""
    torch.set_default_dtype(torch.float64)
    world = load_world("v_mixture")
    return find_path(world, world.facts.start, world.facts.end, regime="static", nodes=33)


@pytest.fixture(scope="session")
def flow():
    """The transport path between the same modes."""
    torch.set_default_dtype(torch.float64)
    world = load_world("v_mixture")
    generator = torch.Generator().manual_seed(3)
    return find_path(
        world, world.facts.start, world.facts.end, regime="transport", nodes=17, generator=generator
    )
