"""Views that several tests read: asked once, never changed."""

import pytest
import torch

from workbench.bench import Bench, BenchState


@pytest.fixture(scope="session")
def valley():
    """All lenses but the contrastive one on the V-mixture between its modes, by the static string."""
    torch.set_default_dtype(torch.float64)
    state = BenchState(
        world="v_mixture", metric="density", regimes="static", nodes=41, lenses="paths,fisher,anisotropy"
    )
    return Bench(state).ask()


@pytest.fixture(scope="session")
def ring():
    """The small network on the plane, coarse."""
    torch.set_default_dtype(torch.float64)
    return Bench(BenchState(model="ring", lenses="paths,anisotropy", networks=8)).ask(resolution="coarse")
