"""Stacks of fresh networks: the laws agree with construction, and the index alone keys the draw."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from workbench.anisotropy.initial import Law, keyed, read_laws
from workbench.architectures import FlatNet, load_architecture
from workbench.errors import SettingError, ShapeError


@pytest.mark.parametrize("name", ["unet8", "dit8-2", "mlp64", "linear8"])
def test_drawn_parameters_follow_the_construction(name):
    architecture = load_architecture(name)
    laws = read_laws(lambda: FlatNet(architecture))
    assert laws.known
    drawn = laws.draw(3, range(40), torch.float64)
    built = [dict(FlatNet(architecture).named_parameters()) for _ in range(40)]
    for parameter, values in drawn.items():
        there = torch.stack([net[parameter].detach() for net in built])
        entries = there.numel()
        spread = there.std()
        assert abs(values.mean() - there.mean()) < 6 * spread * (2 / entries) ** 0.5 + 1e-12, parameter
        assert_close(values.std() / spread, torch.tensor(1.0), rtol=0, atol=6 / entries**0.5)
        law = laws.laws[parameter]
        assert_close(values.var().item(), law.variance, rtol=6 / entries**0.5, atol=0)
        if law.kind == "uniform":
            assert law.low <= min(there.min(), values.min())
            assert max(there.max(), values.max()) <= law.high
    for parameter, value in laws.fixed.items():
        if parameter in laws.laws:
            assert_close(built[0][parameter].detach(), value)


def test_the_index_alone_keys_a_network():
    laws = read_laws(lambda: nn.Linear(5, 3))
    together = laws.draw(7, range(6), torch.float64)
    apart = laws.draw(7, [4], torch.float64)
    assert torch.equal(together["weight"][4], apart["weight"][0])
    assert not torch.equal(together["weight"][4], together["weight"][5])
    assert not torch.equal(laws.draw(8, [4], torch.float64)["weight"], apart["weight"])


def test_both_precisions_see_the_same_networks():
    laws = read_laws(lambda: nn.Linear(5, 3))
    single = laws.draw(7, [2], torch.float32)["weight"].double()
    assert_close(single, laws.draw(7, [2], torch.float64)["weight"], rtol=1e-6, atol=1e-8)


class Orthogonal(nn.Module):
    """A layer whose initialisation has no independent entries."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        nn.init.orthogonal_(self.layer.weight)


def test_other_initialisations_are_constructed():
    laws = read_laws(Orthogonal)
    assert not laws.known
    assert laws.laws["layer.weight"].kind == "unknown"
    state = torch.random.get_rng_state()
    weight = laws.draw(1, [0, 1], torch.float64)["layer.weight"]
    assert torch.equal(state, torch.random.get_rng_state())
    assert_close(weight[1] @ weight[1].T, torch.eye(4))
    assert torch.equal(weight[1], laws.draw(1, [1], torch.float64)["layer.weight"][0])


@pytest.mark.parametrize(
    ("law", "mean", "variance"),
    [
        (Law("uniform", -1.0, 3.0), 1.0, 16 / 12),
        (Law("normal", 2.0, 3.0), 2.0, 9.0),
        (Law("constant", 5.0), 5.0, 0.0),
    ],
)
def test_moments_of_the_laws(law, mean, variance):
    assert (law.mean, law.variance) == (mean, variance)


def test_streams_of_a_network_are_independent():
    assert len({keyed(1, 2, stream).random() for stream in range(4)}) == 4


def test_factories_that_cannot_be_used_get_one_sentence():
    with pytest.raises(SettingError, match="returns int"):
        read_laws(lambda: 3)
    with pytest.raises(SettingError, match="without parameters"):
        read_laws(nn.ReLU)
    with pytest.raises(ShapeError, match="differ in shape"):
        read_laws(lambda: nn.Linear(2, 1 + int(torch.randint(1000, ()))))
