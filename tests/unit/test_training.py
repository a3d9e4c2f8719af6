"""The loss and the average against formulas; training that learns, resumes exactly and stops when asked."""

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.oracles import nets as oracle
from workbench.data import draw_toy
from workbench.errors import DataError, SettingError, ShapeError
from workbench.models import Frame
from workbench.nets import Denoiser, Mlp, NetModel
from workbench.training import TrainSettings, denoising_loss, fit_denoiser, learning_rate

SHORT = TrainSettings(steps=12, batch=8, rate=1e-2, warmup=2, decay=0.5)


def fresh(classes: int = 3, dim: int = 4) -> Denoiser:
    torch.manual_seed(5)
    return Denoiser(Mlp(dim, 16, 1, classes=classes), classes=classes, data_std=0.6)


def batch(count: int = 20, dim: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    points = torch.randn(count, dim, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    return points, torch.arange(count) % 3


def train(net: Denoiser, settings: TrainSettings = SHORT, **more):
    points, labels = batch()
    return fit_denoiser(
        net, points, labels, settings=settings, generator=torch.Generator().manual_seed(7), **more
    )


def test_loss_is_the_weighted_denoising_error():
    net, (x0, labels) = fresh(), batch()
    with torch.no_grad():
        net.inner.leave.weight.normal_()
    loss = denoising_loss(net, x0, labels, SHORT, torch.Generator().manual_seed(8))
    replay = torch.Generator().manual_seed(8)
    sigma = (SHORT.sigma_mean + SHORT.sigma_std * torch.randn(20, generator=replay)).exp()
    y = x0 + sigma[:, None] * torch.randn(x0.shape, generator=replay)
    shown = torch.where(torch.rand(20, generator=replay, dtype=torch.float64) < SHORT.null_share, 3, labels)
    weight = torch.as_tensor(oracle.edm_loss_weight(sigma.numpy(), 0.6))
    expected = (weight * (net(y, sigma, shown) - x0).square().mean(dim=-1)).mean()
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=0)


def test_share_of_the_null_class_is_what_was_asked_for():
    net, seen = fresh(), []
    net.inner.embed.table.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    train(net, replace(SHORT, steps=100, batch=64, null_share=0.35))
    share = (torch.cat(seen) == 3).double().mean().item()
    assert share == pytest.approx(0.35, abs=4 * (0.35 * 0.65 / 6400) ** 0.5)


@pytest.mark.parametrize(
    ("step", "expected"), [(0, 0.01), (4, 0.05), (9, 0.1), (49, 0.1), (75, 0.05), (99, 0.002)]
)
def test_learning_rate_rises_stays_and_falls(step, expected):
    settings = TrainSettings(steps=100, rate=0.1, warmup=10, decay=0.5)
    assert learning_rate(settings, step) == pytest.approx(expected)


def test_kept_weights_are_the_power_average_of_the_path():
    path = []
    net = fresh()
    net.inner.enter.register_forward_hook(
        lambda module, inputs, output: path.append(module.weight.detach().clone().flatten().numpy())
    )
    result = train(net)
    path = [*path[1:], net.inner.enter.weight.detach().flatten().numpy()]  # the weights after each step
    expected = oracle.power_average(np.stack(path), SHORT.ema_power)
    torch.testing.assert_close(
        result.net.inner.enter.weight.flatten(), torch.as_tensor(expected), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("stop", [4, 7])
def test_resumed_run_repeats_the_whole_one_bit_for_bit(tmp_path: Path, stop: int):
    whole_net = fresh()
    whole = train(whole_net)
    checkpoint = tmp_path / "run.safetensors"
    cancel = threading.Event()
    first = train(
        net := fresh(),
        checkpoint=checkpoint,
        cancel=_after(cancel, stop),
    )
    assert first.cancelled
    assert first.step == stop
    second = train(other := fresh(), checkpoint=checkpoint)
    assert second.step == 12
    assert net is not other
    for name, tensor in whole_net.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor), name
    for name, tensor in whole.net.state_dict().items():
        assert torch.equal(second.net.state_dict()[name], tensor), name
    assert torch.equal(torch.cat([first.losses, second.losses]), whole.losses)


class _after:
    """A cancel signal that comes before a given step."""

    def __init__(self, event: threading.Event, step: int) -> None:
        self.event, self.left = event, step

    def is_set(self) -> bool:
        if self.left == 0:
            self.event.set()
        self.left -= 1
        return self.event.is_set()


def test_number_of_steps_may_change_before_the_rate_falls(tmp_path: Path):
    checkpoint = tmp_path / "run.safetensors"
    train(fresh(), replace(SHORT, steps=20), checkpoint=checkpoint, cancel=_after(threading.Event(), 5))
    resumed = train(fresh(), checkpoint=checkpoint)
    for name, tensor in train(fresh()).net.state_dict().items():
        assert torch.equal(resumed.net.state_dict()[name], tensor), name


@pytest.mark.parametrize("change", [{"rate": 2e-2}, {"null_share": 0.5}, {"steps": 14}])
def test_checkpoint_of_another_run_is_refused(tmp_path: Path, change: dict):
    checkpoint = tmp_path / "run.safetensors"
    train(fresh(), checkpoint=checkpoint)
    with pytest.raises(
        DataError, match=rf"got checkpoint .*other {next(iter(change))}; expected .*; try another"
    ):
        train(fresh(), replace(SHORT, **change), checkpoint=checkpoint)


def test_damaged_checkpoint_is_one_sentence(tmp_path: Path):
    checkpoint = tmp_path / "run.safetensors"
    checkpoint.write_bytes(b"not a checkpoint")
    with pytest.raises(DataError, match=r"got checkpoint .* does not fit this run"):
        train(fresh(), checkpoint=checkpoint)


def test_progress_is_told(tmp_path: Path):
    told = []
    train(
        fresh(),
        replace(SHORT, steps=100),
        progress=lambda fraction, message: told.append((fraction, message)),
    )
    assert [fraction for fraction, _ in told] == [0.5, 1.0]
    assert told[-1][1].startswith("step 100 of 100, loss ")


def test_result_is_frozen_and_in_evaluation_mode():
    result = train(fresh())
    assert not result.net.training
    assert not any(parameter.requires_grad for parameter in result.net.parameters())
    assert result.losses.shape == (12,)
    assert not result.cancelled


@pytest.mark.parametrize("settings", [{"steps": 0}, {"null_share": 1.5}, {"decay": 0.0}])
def test_settings_out_of_range(settings):
    with pytest.raises(SettingError, match="expected positive steps"):
        train(fresh(), replace(SHORT, **settings))


def test_labels_that_do_not_fit():
    points, labels = batch()
    generator = torch.Generator()
    with pytest.raises(SettingError, match="got labels from 0 to 12"):
        fit_denoiser(fresh(), points, labels + 10 * (labels == 2), settings=SHORT, generator=generator)
    with pytest.raises((ShapeError, TypeError)):
        fit_denoiser(fresh(), points, labels[:3], settings=SHORT, generator=generator)


def test_five_seconds_of_training_learn_the_score_of_the_ring():
    """450 steps of 256 take about 5 CPU-seconds; the score error is relative, over noisy data."""
    points, _ = draw_toy("ring", 50_000, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    net = Denoiser(Mlp(2, 128, 3)).float()
    settings = TrainSettings(steps=450, batch=256, rate=2e-3, warmup=50)
    result = fit_denoiser(net, points, settings=settings, generator=torch.Generator().manual_seed(0))
    model = NetModel(result.net, Frame("ring", (2,), 0.002, 20.0), 0)
    generator = torch.Generator().manual_seed(1)
    clean, _ = draw_toy("ring", 4000, generator=generator)
    for sigma, bar in ((0.1, 0.25), (0.3, 0.03), (1.0, 0.001)):
        y = clean + sigma * torch.randn(clean.shape, generator=generator, dtype=torch.float32)
        exact = torch.as_tensor(oracle.ring_denoised(y.double().numpy(), sigma))
        wrong = ((model.denoise(y, sigma) - exact) / sigma**2).square().mean()
        right = ((exact - y) / sigma**2).square().mean()
        assert (wrong / right).item() < bar, sigma
