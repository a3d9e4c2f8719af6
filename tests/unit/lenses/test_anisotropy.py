"""The door to the directions: what it accepts, what it reports, how it is saved."""

import dataclasses
import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from workbench import open_model
from workbench.adapters.wrap import PREDICTIONS, wrap
from workbench.anisotropy.closed_forms import exact_geometry, transformer_geometry
from workbench.anisotropy.levels import ddpm_levels, edm_levels, weight_of
from workbench.anisotropy.probes import gaussian_probe
from workbench.architectures import ShiftUNet, load_architecture
from workbench.decoders import LatentModel
from workbench.errors import ConvergenceWarning, SettingError
from workbench.lenses.anisotropy import (
    DirectionsResult,
    directions_of,
    find_directions,
    lacking_of,
    levels_of,
)
from workbench.models import Frame
from workbench.nets import Denoiser, Mlp, NetModel
from workbench.report import Status
from workbench.schedules import LINEAR, RECTIFIED, VE, VP_COSINE
from workbench.storage import load_result, save_result


def test_directions_of_a_fresh_transformer_are_exact():
    found = find_directions("dit8-2", networks=2, seed=0, dtype=torch.float64)
    exact = directions_of(transformer_geometry((1, 8, 8), 2, 32, ddpm_levels().mean_weight))
    assert (found.order, found.report.status) == ("ascending", Status.CONVERGED)
    assert_close(found.spectrum.values, exact.spectrum.values, rtol=1e-9, atol=1e-9)
    assert found.spectrum.rank == exact.spectrum.rank == 28
    assert "null space" in found.meanings[0]
    assert any("null space of 36" in w for w in found.report.warnings)
    assert any("do not see the noise level" in w for w in found.report.warnings)


def test_the_same_seed_gives_the_same_directions_and_a_generator_another():
    first, second = (find_directions("unet8-time", networks=30, seed=4, tol=1.0) for _ in range(2))
    assert torch.equal(first.vectors, second.vectors)
    generators = [torch.Generator().manual_seed(s) for s in (1, 1, 2)]
    same, again, other = (
        find_directions("unet8-time", networks=4, tol=1.0, generator=g).geometry.core for g in generators
    )
    assert torch.equal(same, again)
    assert not torch.equal(same, other)


def test_a_result_comes_back_from_a_file(tmp_path):
    found = find_directions("unet8", networks=30, seed=4, count=5, tol=1.0)
    back = load_result(save_result(found, tmp_path / "directions"), DirectionsResult)
    assert torch.equal(back.vectors, found.vectors)
    assert back.spectrum.clusters == found.spectrum.clusters
    assert back.indices == (0, 1, 2, 62, 63)
    assert back.order == "ascending"
    assert back.provenance.seed == 4
    assert_close(back.lambda_max, found.spectrum.direction(-1))
    assert_close(back.lambda_min, found.spectrum.direction(0))


def test_too_few_networks_warn():
    with pytest.warns(ConvergenceWarning, match="relative residual"):
        found = find_directions("unet8", networks=4, seed=0, tol=0.01)
    assert found.report.status is Status.MAX_ITERATIONS


def test_a_factory_needs_a_shape_and_becomes_an_architecture():
    def factory():
        return ShiftUNet(1, 8, 2, 1, groups=2)

    found = find_directions(factory, shape=(1, 8, 8), networks=8, seed=0, tol=1.0)
    assert (found.geometry.architecture, found.geometry.head) == ("ShiftUNet", "convolution")
    with pytest.raises(SettingError, match="without a shape"):
        find_directions(factory, seed=0)
    again = find_directions(factory(), shape=(1, 8, 8), networks=8, seed=0, tol=1.0)
    assert_close(again.geometry.core, found.geometry.core)


def test_a_shipped_model_is_asked_through_its_inner_network():
    net = Denoiser(Mlp(4, 16, 1), data_std=0.7)
    model = NetModel(net.eval().requires_grad_(False), Frame("tiny", (4,), 0.01, 10.0), 0)
    found = find_directions(model, networks=6, seed=0, tol=1.0, probe=gaussian_probe())
    assert found.geometry.head == "linear"
    expected = edm_levels(sigma_min=0.01, sigma_max=10.0, data_std=0.7)
    assert_close(found.geometry.mean_weight, expected.mean_weight)
    assert any("no direction is preferred" in w for w in found.report.warnings)


def test_copies_of_an_opened_models_network_start_anew():
    net = ShiftUNet(1, 8, 2, 1, groups=2)
    trained = net.leave.weight.detach().clone()
    model = open_model(net, prediction="eps", schedule=VP_COSINE, shape=(1, 8, 8), dtype="float32")
    found = find_directions(model, networks=8, seed=0, tol=1.0)
    fresh = find_directions(net, shape=(1, 8, 8), networks=8, seed=0, tol=1.0)
    assert (found.geometry.head, found.geometry.blind) == ("convolution", False)
    assert found.geometry.architecture.endswith("reset")
    assert found.geometry.mean_weight != fresh.geometry.mean_weight  # its own levels, not the thousand
    assert_close(net.leave.weight, trained)


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_an_opened_model_of_any_prediction_is_weighted_like_its_score(prediction):
    """Two outputs that differ by one change the model's score by the root of the weight."""
    schedule = VE if prediction == "edm" else RECTIFIED
    net = ShiftUNet(1, 8, 2, 1, groups=2)
    settings = dict(prediction=prediction, schedule=schedule, shape=(1, 8, 8), data_std=0.7)
    model = open_model(net, sigma_range=(0.05, 5.0), **settings)
    found = find_directions(model, networks=4, seed=0, tol=10.0)
    sigma = 0.05 * 100 ** torch.linspace(0, 1, 100, dtype=torch.float64)
    ask = dict(sigma_range=(0.01, 9.0), **settings)
    one, zero = (wrap(lambda x, t, c, k=k: 0 * x + k, **ask) for k in (1.0, 0.0))
    y = torch.zeros(100, 64, dtype=torch.float64)
    change = ((one.denoise(y, sigma) - zero.denoise(y, sigma)) / sigma[:, None] ** 2)[:, 0]
    scale = 1.0 if prediction == "edm" else 1.0 / model.met_at(sigma)[1]
    assert_close(found.geometry.mean_weight, float((change * scale).square().mean()), rtol=1e-5, atol=0)
    assert torch.isfinite(found.vectors).all()


@pytest.mark.parametrize("prediction", ["eps", "x0", "v", "score"])
def test_levels_of_an_opened_model_agree_with_those_of_a_schedule(prediction):
    model = wrap(nn.Conv2d(1, 1, 1), prediction=prediction, schedule=RECTIFIED, shape=(1, 4, 4))
    sigma = torch.tensor([0.1, 1.0, 10.0], dtype=torch.float64)
    _, a, s = model.met_at(sigma)
    assert_close((model.gain_at(sigma) / sigma**2 / a) ** 2, weight_of(prediction, a, s))


def test_a_model_on_latents_is_asked_through_its_network():
    net = ShiftUNet(1, 8, 2, 1, groups=2)
    inner = open_model(net, prediction="eps", schedule=VP_COSINE, shape=(1, 8, 8))
    decoder = open_model(nn.Linear(64, 3), kind="decoder", shape=(64,))
    found = find_directions(LatentModel(inner, decoder), networks=4, seed=0, tol=10.0)
    assert_close(found.geometry.core, find_directions(inner, networks=4, seed=0, tol=10.0).geometry.core)


def test_levels_are_a_models_own_and_one_is_the_nearest_in_noise_over_data():
    net = Denoiser(Mlp(4, 16, 1), data_std=0.5)
    model = NetModel(net.eval().requires_grad_(False), Frame("tiny", (4,), 0.01, 10.0, data_std=0.5), 0)
    ladder, own = ddpm_levels(), edm_levels(sigma_min=0.01, sigma_max=10.0, data_std=0.5)
    assert_close(levels_of(model).weight, own.weight)
    assert levels_of("unet16").name == "ddpm 1000"
    assert levels_of("unet16", 300).time.tolist() == [300.0]
    for level in (0, 300, 900):
        wanted = 0.5 * float((1.0 / (ladder.a[level] ** 2) - 1.0).sqrt())
        within = min(max(wanted, 0.01), 10.0)
        step = math.log(1000.0) / 99  # of the own levels
        assert abs(math.log(float(levels_of(model, level).sigma) / within)) <= step / 2
    with pytest.raises(SettingError, match="0 to 999"):
        levels_of(model, 1000)


def test_levels_of_an_architecture_are_weighted_for_what_it_predicts():
    factory = load_architecture("mlp64")
    for prediction in ("x0", "v"):
        asked = dataclasses.replace(factory, prediction=prediction)
        assert_close(levels_of(asked).weight, ddpm_levels(prediction=prediction).weight)
    assert_close(levels_of(factory, 300).weight, ddpm_levels().only(300).weight)


def test_an_opened_function_is_refused():
    model = wrap(lambda x, t, c: x, prediction="x0", schedule=LINEAR, shape=(2,))
    with pytest.raises(SettingError, match="no network is known"):
        find_directions(model, seed=0)
    assert "start anew" in lacking_of(model)
    assert lacking_of(wrap(nn.Conv2d(1, 1, 1), prediction="x0", schedule=LINEAR, shape=(1, 2, 2))) == ""


def test_the_report_says_when_the_last_layer_is_sampled():
    found = find_directions("mlp64-rectified", networks=8, seed=0, tol=10.0)
    assert any("no linear last layer" in w for w in found.report.warnings)


def test_cancelling_is_a_status():
    class Now:
        def is_set(self):
            return True

    assert find_directions("unet8", networks=500, seed=0, cancel=Now()).report.status is Status.CANCELLED


@pytest.mark.parametrize(("count", "words"), [(0, "1 to 3"), (4, "1 to 3")])
def test_a_count_out_of_range_gets_one_sentence(count, words):
    with pytest.raises(SettingError, match=words):
        directions_of(exact_geometry(torch.eye(3), shape=(3,)), count=count)


def test_a_module_whose_layers_cannot_be_reset_is_refused():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

    with pytest.raises(SettingError, match="can be reset"):
        find_directions(Plain(), shape=(3,), seed=0)
