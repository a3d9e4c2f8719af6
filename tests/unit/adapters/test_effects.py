"""Batches found by trial, and what compiling and lower precision do to the numbers."""

import pytest
import torch
from torch import nn
from torch._dynamo import register_backend
from torch.testing import assert_close

from workbench import open_model
from workbench.adapters.budget import find_batch, peak_bytes
from workbench.adapters.effects import measure_effect, with_autocast, with_compile
from workbench.adapters.latents import generator_of
from workbench.errors import SettingError
from workbench.schedules import VP_COSINE


class Wide(nn.Module):
    """A network whose activations are known: one layer of `width` entries a point."""

    def __init__(self, width):
        super().__init__()
        torch.manual_seed(0)
        self.into, self.out = nn.Linear(8, width), nn.Linear(width, 8)

    def forward(self, x, t):
        return self.out(torch.tanh(self.into(x) + t[:, None]))


def opened(width=1000, **settings):
    return open_model(Wide(width), prediction="eps", schedule=VP_COSINE, shape=(8,), **settings)


def test_the_peak_grows_by_what_a_point_needs():
    model = opened()
    first, second, tenth = (peak_bytes(model, count) for count in (1, 2, 10))
    assert tenth - first == pytest.approx(9 * (second - first), rel=0.05)
    # at least the layer before and after tanh, at most a few more of its size, in single precision
    assert 2 * 4000 <= second - first <= 8 * 4000


def test_the_batch_fits_the_budget_and_a_larger_one_does_not():
    model, budget = opened(), 2**20
    found = find_batch(model, budget)
    assert found.batch > 10
    assert peak_bytes(model, found.batch) <= budget
    assert peak_bytes(model, found.batch + found.batch // 10 + 1) > budget
    assert found.tried[:2] == (1, 2)
    assert find_batch(model, 1).batch == 1
    assert find_batch(model, 2**40, largest=64).batch == 64


def test_a_budget_limits_the_calls_and_says_so():
    limited, whole = opened(memory=2**20), opened()
    sizes = []
    module = limited.module
    counted = type(limited)(
        **{
            **{name: getattr(limited, name) for name in limited.__slots__},
            "module": lambda x, t, c: (sizes.append(len(x)), module(x, t, c))[1],
        }
    )
    y = torch.randn(200, 8)
    assert_close(counted.denoise(y, 1.0), whole.denoise(y, 1.0), rtol=1e-5, atol=1e-6)
    assert len(sizes) > 1
    assert max(sizes) == limited.batch
    assert any("found by trial" in note for note in limited.frame.notes)


def test_a_latent_model_is_limited_too():
    coder = generator_of(torch.sin, latent_shape=(8,), shape=(8,))
    assert opened(decoder=coder, memory=2**20).model.batch > 1


def test_the_same_model_differs_by_nothing():
    effect = measure_effect(opened(), opened(), what="nothing")
    assert (effect.denoiser, effect.score, effect.derivative) == (0.0, 0.0, 0.0)
    assert effect.milliseconds > 0
    assert str(effect).startswith("nothing: D differs by 0.0e+00")


def test_single_against_double_precision_is_a_rounding():
    effect = measure_effect(opened(dtype="float64"), opened(), what="single precision")
    assert 1e-9 < effect.denoiser < 1e-4
    assert 1e-9 < effect.derivative < 1e-4


def test_small_noise_costs_the_score_its_digits():
    near = measure_effect(opened(dtype="float64"), opened(), sigmas=(0.004, 0.005))
    far = measure_effect(opened(dtype="float64"), opened(), sigmas=(1.0, 2.0))
    assert near.score > 10 * far.score


def test_autocast_is_measured_and_written_down():
    model = opened(autocast="bfloat16", batch=50)
    note = next(note for note in model.frame.notes if note.startswith("autocast to bfloat16"))
    assert "D differs by" in note
    _, effect = with_autocast(opened(), torch.bfloat16)
    assert 1e-4 < effect.denoiser < 0.1
    assert model.denoise(torch.randn(3, 8), 1.0).dtype == torch.float64
    with pytest.raises(SettingError, match="autocast"):
        opened(autocast="float64")


def test_compiling_is_measured_and_written_down():
    model, effect = with_compile(opened(), backend="aot_eager")
    assert effect.denoiser < 1e-5
    assert any(note.startswith("compiled by aot_eager") for note in model.frame.notes)
    y = torch.randn(3, 8)
    assert_close(model.denoise(y, 1.0), opened().denoise(y, 1.0), rtol=1e-5, atol=1e-6)
    with pytest.raises(SettingError, match="backend 'magic'"):
        opened(compile="magic")


@pytest.mark.slow
def test_the_default_compiler_changes_roundings_only():
    model, plain = opened(200, compile=True), opened(200)
    assert any(note.startswith("compiled by inductor") for note in model.frame.notes)
    y = torch.randn(3, 8)
    assert_close(model.denoise(y, 1.0), plain.denoise(y, 1.0), rtol=1e-5, atol=1e-6)


RUNS = []


@register_backend
def counting(graph, inputs):
    """A compiler that counts the calls of what it made."""
    return lambda *given: (RUNS.append(1), graph.forward(*given))[1]


def test_derivatives_leave_a_compiled_network_compiled():
    model, plain = opened(50, compile="counting", dtype="float64"), opened(50, dtype="float64")
    y = torch.randn(3, 8)

    def calls(act):
        before = len(RUNS)
        act()
        return len(RUNS) - before

    assert calls(lambda: model.denoise(y, 1.0)) == 1
    level = torch.ones(3)
    forward = [torch.func.jvp(lambda y, m=m: m.denoise(y, level), (y,), (y,))[1] for m in (model, plain)]
    assert_close(*forward, rtol=1e-12, atol=1e-12)
    second = [
        torch.autograd.functional.hessian(lambda y, m=m: m.denoise(y, 1.0).square().sum(), y)
        for m in (model, plain)
    ]
    assert_close(*second, rtol=1e-12, atol=1e-12)
    assert calls(lambda: model.denoise(y, 1.0)) == 1


def test_autocast_and_compiler_can_be_had_together():
    model = opened(50, compile="counting", autocast="bfloat16")
    assert sum(note.startswith(("compiled", "autocast")) for note in model.frame.notes) == 2
    y = torch.randn(3, 8)
    assert_close(model.denoise(y, 1.0), opened(50).denoise(y, 1.0), rtol=0.05, atol=0.05)


def test_models_of_another_make_are_refused_in_words():
    decoder = generator_of(torch.sin, latent_shape=(8,), shape=(8,))
    for act in (lambda: find_batch(decoder, 2**20), lambda: with_compile(decoder), lambda: opened(memory=0)):
        with pytest.raises(SettingError, match="got"):
            act()
