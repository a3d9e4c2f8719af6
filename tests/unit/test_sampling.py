"""The sampler against a flow that is known: one normal distribution, where every path is a stretch."""

import inspect
import math
import threading
from dataclasses import dataclass, field

import pytest
import torch

from tests.oracles import nets as oracle
from workbench.errors import ModelOutputError, SettingError
from workbench.models import Frame, expand_sigma
from workbench.sampling import default_range, karras_levels, sample
from workbench.worlds import load_world


@dataclass(frozen=True)
class Normal:
    """Data N(mean, std^2 I): D is linear, and the ODE keeps (y - mean) / sqrt(std^2 + sigma^2)."""

    std: float = 0.4
    mean: float = 1.5
    calls: list[int] = field(default_factory=list)

    @property
    def frame(self) -> Frame:
        return Frame("normal", (2,), 0.002, 20.0)

    def denoise(self, y, sigma):
        self.calls.append(len(y))
        level = expand_sigma(y, sigma) ** 2
        return self.mean + self.std**2 / (self.std**2 + level) * (y - self.mean)


@pytest.mark.parametrize("i", [0, 1, 9, 17])
def test_levels(i):
    levels = karras_levels(18, 0.002, 80.0)
    assert levels[i].item() == pytest.approx(oracle.karras_level(i, 18, 0.002, 80.0), rel=1e-12)
    assert levels[-1] == 0
    assert len(levels) == 19


def error(steps: int) -> float:
    model, start = Normal(), torch.Generator().manual_seed(3)
    noise = 20.0 * torch.randn(50, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    exact = model.mean + (noise - model.mean) * model.std / math.hypot(model.std, 20.0)
    return (sample(model, 50, steps=steps, generator=start, dtype=torch.float64) - exact).abs().max().item()


def test_samples_follow_the_exact_flow():
    assert error(80) < 2e-3


def test_order_of_convergence_is_two():
    order = math.log2(error(40) / error(80))
    assert order > 1.8


def test_cost_is_two_calls_a_step_less_one(generator):
    model = Normal()
    sample(model, 5, steps=7, generator=generator)
    assert sum(model.calls) == 5 * (2 * 7 - 1)


def test_settings_out_of_range(generator):
    with pytest.raises(SettingError, match="got steps=1; expected a whole number, at least 2; try steps=18"):
        sample(Normal(), 3, steps=1, generator=generator)
    with pytest.raises(SettingError, match="0 < sigma_min < sigma_max"):
        karras_levels(5, 2.0, 1.0)


@pytest.mark.parametrize("count", [-1, 2.5, "3", True])
def test_a_count_that_is_none_is_one_sentence(generator, count):
    with pytest.raises(SettingError, match=r"^got count=.*; expected a whole number, at least 0; try count"):
        inspect.unwrap(sample)(Normal(), count, generator=generator)


def test_no_generator_is_one_sentence():
    with pytest.raises(SettingError, match=r"^got generator=None; expected a torch.Generator; try generator"):
        inspect.unwrap(sample)(Normal(), 3, generator=None)


def test_a_world_is_sampled_between_levels_of_its_own_size(generator):
    world = load_world("v_mixture")
    assert world.frame.sigma_min == 0
    found = sample(world, 4000, steps=24, generator=generator, dtype=torch.float64)
    exact = world.sample(4000, generator=generator)
    std = exact.std(dim=0)
    assert ((found.mean(dim=0) - exact.mean(dim=0)).abs() < 0.1 * std).all()
    torch.testing.assert_close(found.std(dim=0), std, rtol=0.06, atol=0)


def test_a_network_is_sampled_between_its_own_levels():
    assert default_range(Frame("net", (2,), 0.002, 80.0, data_std=0.5)) == (0.002, 80.0)
    assert default_range(Frame("world", (2,), 0.0, 1e10, data_std=2.0)) == (0.008, 320.0)


class Broken(Normal):
    """Not finite for the second sample below a noise level."""

    def denoise(self, y, sigma):
        clean = super().denoise(y, sigma)
        if sigma < 1.0:
            clean[1] = math.nan
        return clean


def test_a_model_that_breaks_is_named_with_its_sample_and_level(generator):
    with pytest.raises(ModelOutputError, match="non-finite sample from normal at image 1, sigma"):
        sample(Broken(), 3, steps=7, generator=generator)


def test_sampling_reports_and_stops(generator):
    seen, stop = [], threading.Event()

    def progress(fraction, message):
        seen.append(fraction)
        if len(seen) == 3:
            stop.set()

    model = Normal()
    found = sample(model, 4, steps=9, generator=generator, progress=progress, cancel=stop)
    assert seen == [1 / 9, 2 / 9, 3 / 9]
    assert torch.isfinite(found).all()
    assert sum(model.calls) == 4 * (2 * 3 + 1)
