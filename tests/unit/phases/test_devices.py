"""Where tensors live: the meta device has no numbers, so that nothing can be read back to the host there, and
what is made on the host does not fit it. It stands in for an accelerator.
"""

import pytest
import torch

from workbench.metrics import matrix
from workbench.phases import FlowMap, latent_slice, two_gaussians
from workbench.worlds.ising import Ising, sample_heat_bath
from workbench.worlds.tasep import Tasep
from workbench.zoo import load_judge, load_model

ELSEWHERE = torch.device("meta")


def points(count, dim=2):
    return torch.rand(count, dim, device=ELSEWHERE)


def drawn():
    return torch.Generator().manual_seed(0)


def network_slice():
    model, judge = load_model("fashion"), load_judge("fashion")
    model.net.to(ELSEWHERE)
    judge.to(ELSEWHERE)
    plane = latent_slice(model, judge.features, steps=2, device=ELSEWHERE, classify=judge)
    return matrix(plane.metric(), points(3))


CASES = {
    "heat bath": lambda: sample_heat_bath(Ising(6, 6), points(5), sweeps=3, generator=drawn()),
    "Kaufman": lambda: Ising(6, 6).log_partition_zero_field(points(5)[:, 0]),
    "chain": lambda: matrix(Tasep(8).rate_metric(), points(5)),
    "current": lambda: Tasep(8).current(points(5)),
    "flow of a world": lambda: FlowMap(two_gaussians(0.3), steps=3)(points(5, 1)),
    "slice of a network": network_slice,
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_read_back_or_made_elsewhere(name):
    assert CASES[name]().device == ELSEWHERE
