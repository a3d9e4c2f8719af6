"""What the doctor measures against formulas; what it says of shipped models, broken ones, and other kinds."""

import inspect
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import zuko
from torch import nn

from tests.oracles import doctor as oracle
from tests.unit.doctor.families import right
from workbench import open_model
from workbench.adapters.wrap import wrap
from workbench.cards import MODELS
from workbench.data import load_images
from workbench.doctor import examine
from workbench.doctor.calibration import calibrate
from workbench.doctor.costs import peak_memory
from workbench.doctor.data import read_points
from workbench.doctor.verdict import judge_readings
from workbench.errors import DataError, SettingError
from workbench.lenses.paths import find_path
from workbench.models import Frame
from workbench.schedules import VE
from workbench.worlds import load_world
from workbench.zoo import load_model


@dataclass(frozen=True)
class Gaussian:
    """Independent normals of mean 0 and standard deviation v, with an error of one factor."""

    v: float = 0.7
    factor: float = 1.0
    dim: int = 3
    guidance: float = 0.0

    @property
    def frame(self) -> Frame:
        return Frame("gaussian", (self.dim,), 0.004, 50.0, data_std=self.v, guidance=self.guidance)

    def denoise(self, y, sigma):
        level = torch.as_tensor(sigma, dtype=y.dtype).unsqueeze(-1)
        return self.factor * y * self.v**2 / (self.v**2 + level**2)


def test_calibration_of_a_gaussian_is_its_formula():
    generator = torch.Generator().manual_seed(0)
    clean = 0.7 * torch.randn(20_000, 3, generator=generator)
    found = calibrate(Gaussian(), clean, generator=generator)
    error, push = oracle.gaussian_calibration(found.sigmas.numpy(), 0.7)
    torch.testing.assert_close(found.error, torch.tensor(error), rtol=0.03, atol=0)
    torch.testing.assert_close(found.claim, torch.tensor(error), rtol=1e-9, atol=0)  # J is its own constant
    torch.testing.assert_close(found.push, torch.tensor(push), rtol=0.03, atol=0)
    torch.testing.assert_close(found.bound, torch.tensor(error), rtol=0.03, atol=0)  # and so is the spread


def test_a_denoiser_that_claims_too_little_disagrees():
    generator = torch.Generator().manual_seed(0)
    clean = 0.7 * torch.randn(2000, 3, generator=generator)
    found = calibrate(Gaussian(factor=0.5), clean, generator=generator)
    assert found.disagreement > 2.0
    assert found.excess > 1.5


def test_the_right_reading_beats_a_wrong_one_and_never_the_other_way_round():
    generator = torch.Generator().manual_seed(0)
    clean = 0.7 * torch.randn(500, 3, generator=generator)
    good, bad = (calibrate(Gaussian(factor=f), clean, generator=generator.manual_seed(1)) for f in (1.0, 0.8))
    assert good.beats(bad) > 1.1
    assert bad.beats(good) == 1.0


@pytest.mark.parametrize("name", [name for name in MODELS if name != "fashion"])
def test_no_alarm_on_shipped_models(name):
    like = torch.empty(0, dtype=torch.float32)
    found = judge_readings(
        load_model(name), None, count=32, like=like, generator=torch.Generator().manual_seed(0)
    )
    assert [finding for finding in found.findings if finding.verdict == "fault"] == []


@pytest.mark.slow
@pytest.mark.parametrize("data", [None, "fashion"])
@pytest.mark.parametrize("name", ["fashion", "fashion_latent"])
def test_no_alarm_on_shipped_images_with_their_data(name, data):
    assert examine(load_model(name), data=data, count=32).sound


@pytest.fixture(scope="module")
def diagnosis():
    torch.set_default_dtype(torch.float64)
    return examine(load_world("v_mixture"), count=64, dtype=torch.float64)


def test_a_world_is_sound_with_a_symmetric_jacobian(diagnosis):
    assert diagnosis.sound
    assert diagnosis.finding("Jacobian").verdict == "ok"
    assert {row.lens for row in diagnosis.lenses} >= {"paths", "fisher", "anisotropy", "likelihood"}
    assert "v_mixture: sound" in diagnosis.text()


def test_the_same_seed_gives_the_same_findings(diagnosis):
    again = examine(load_world("v_mixture"), count=64, dtype=torch.float64)
    assert again.findings == diagnosis.findings
    assert [row.calls for row in again.lenses] == [row.calls for row in diagnosis.lenses]


@pytest.mark.parametrize(("row", "regime"), [(0, "transport"), (1, "mep")])
def test_foreseen_calls_are_those_of_the_lens(diagnosis, row, regime):
    model = right(load_world("v_mixture"), "edm")
    start, end = torch.tensor([-3.0, 0.0]), torch.tensor([3.0, 0.0])
    found = find_path(model, start, end, regime=regime, nodes=17, measure_share=False)
    foreseen = examine(model, count=24, dtype=torch.float64).lenses[row]
    assert foreseen.task.startswith(regime)
    assert foreseen.calls == pytest.approx(found.report.model_calls, rel=0.15)


def test_asymmetry_is_reported_and_no_fault():
    class Turned:
        frame = Frame("turned", (2,), 0.004, 50.0, data_std=1.0)

        def denoise(self, y, sigma):
            level = torch.as_tensor(sigma, dtype=y.dtype).unsqueeze(-1)
            turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=y.dtype)
            return y / (1 + level**2) + 0.2 * level * (y @ turn) / (1 + level**2) ** 1.5

    found = examine(Turned(), count=64, dtype=torch.float64)
    assert found.finding("Jacobian").verdict == "note"
    assert "Jacobian" not in {fault.name for fault in found.faults}
    assert found.sound


def test_guidance_is_said_and_not_judged():
    found = examine(Gaussian(guidance=2.0), count=32, dtype=torch.float64)
    assert found.finding("prediction").verdict == "not checked"
    assert found.finding("guidance").verdict == "note"
    assert found.sound


def test_a_model_that_does_not_reach_its_argument_is_a_fault():
    class Blurred:
        frame = Frame("blurred", (4,), 0.004, 50.0, data_std=1.0)

        def denoise(self, y, sigma):
            level = torch.as_tensor(sigma, dtype=y.dtype).unsqueeze(-1).clamp(min=0.5)
            return y / (1 + level**2)

    found = examine(Blurred(), count=32, dtype=torch.float64)
    assert "clean end" in {fault.name for fault in found.faults}


@pytest.mark.parametrize(
    ("layer", "words"),
    [(nn.BatchNorm1d(3), "a point alone cannot be asked"), (nn.Dropout(0.3), "draws at random")],
)
def test_a_network_in_training_mode_is_a_fault(layer, words):
    module = nn.Sequential(nn.Linear(3, 3), layer).double().train()
    model = wrap(
        lambda x, t, c: module(x), prediction="x0", schedule=VE, shape=(3,), sigma_range=(0.01, 10.0)
    )
    found = examine(model, count=24, dtype=torch.float64)
    assert words in found.finding("rows").sentence
    assert found.finding("rows").remedy == "module.eval()"


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Linear(4, 4), "cannot be asked"),
        (lambda x: x * math.nan, "not finite"),
    ],
)
def test_what_cannot_be_asked_is_one_fault_and_no_error(module, words):
    model = wrap(
        lambda x, t, c: module(x), prediction="x0", schedule=VE, shape=(3,), sigma_range=(0.01, 10.0)
    )
    found = examine(model, dtype=torch.float64)
    assert [fault.name for fault in found.faults] == ["shapes"]
    assert words in found.faults[0].sentence
    assert found.lenses == ()


def test_a_kernel_without_forward_derivative_is_noted_and_named():
    class Attending(nn.Module):
        def forward(self, x):
            heads = x.reshape(len(x), 1, 2, 2)
            mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads)
            return x + 0.01 * mixed.reshape(x.shape)

    module = Attending()
    model = wrap(
        lambda x, t, c: module(x), prediction="x0", schedule=VE, shape=(4,), sigma_range=(0.01, 10.0)
    )
    found = examine(model, count=24, dtype=torch.float32).finding("forward derivative")
    assert found.verdict == "note"
    assert "attention" in found.sentence


def test_a_model_without_derivatives_lacks_them():
    model = wrap(
        lambda x, t, c: x.detach() * 0.5, prediction="x0", schedule=VE, shape=(2,), sigma_range=(0.01, 10.0)
    )
    found = examine(model, count=24, dtype=torch.float64)
    assert found.finding("Jacobian").verdict == "note"
    assert found.costs.backward is None
    lacking = {row.task for row in found.lenses if not row.works}
    assert any(row.lens == "likelihood" and not row.works for row in found.lenses)
    assert lacking


def test_a_decoder_alone_has_the_pullback_and_lacks_a_score():
    found = examine(load_model("fashion_latent").decoder, dtype=torch.float32)
    rows = {row.lens: row for row in found.lenses}
    assert found.sound
    assert rows["fisher"].works
    assert rows["paths"].lacks == "a score at every noise level"


def test_an_energy_is_asked_for_its_slope():
    world = load_world("muller_brown")
    points = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    assert examine(world, data=points, dtype=torch.float64).finding("force").verdict == "ok"

    class Wrong:
        name, unit = "wrong", "nats"

        def energy(self, x):
            return x.square().sum(dim=-1)

        def force(self, x):
            return 2.0 * x

    assert examine(Wrong(), data=points, dtype=torch.float64).finding("force").verdict == "fault"
    with pytest.raises(SettingError, match="without points"):
        examine(world)


def test_peak_memory_counts_what_lives_at_once():
    def chain():
        x = torch.zeros(1000, dtype=torch.float64)
        for _ in range(5):
            x = x + 1.0  # old and new live together, no more
        return x

    assert peak_memory(chain, torch.device("cpu")) == pytest.approx(2 * 8000 / 1e6, rel=0.1)


def test_data_are_read_from_arrays_pictures_and_names(tmp_path: Path):
    model = load_model("digits")
    images = load_images("digits", limit=4).points
    np.save(tmp_path / "a.npy", images.numpy().reshape(4, 8, 8))
    np.savez(tmp_path / "b.npz", images=images.numpy())
    from PIL import Image

    (tmp_path / "c").mkdir()
    for k in range(2):
        Image.new("L", (8, 8), 255 * k).save(tmp_path / "c" / f"{k}.png")
    torch.testing.assert_close(read_points(tmp_path / "a.npy", model), images)
    torch.testing.assert_close(read_points(str(tmp_path / "b.npz"), model), images)
    assert read_points(tmp_path / "c", model)[:, 0].tolist() == [-1.0, 1.0]
    assert read_points("digits", model, limit=3).shape == (3, 64)


def test_pictures_become_latents_where_points_are():
    model = load_model("fashion_latent")
    assert read_points("fashion", model, limit=3).shape == (3, 16)
    assert read_points(torch.zeros(5, 16), model).shape == (5, 16)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda p: p / "missing.npy", DataError, "expected fashion, digits"),
        (lambda p: _saved(p / "o.npy", np.array([{}], dtype=object)), DataError, "without Python objects"),
        (lambda p: _saved(p / "n.npy", np.full((3, 64), np.nan)), DataError, "non-finite"),
        (lambda p: _saved(p / "w.npy", np.zeros((3, 63))), SettingError, "64 entries"),
        (lambda p: _saved(p / "t.npy", np.zeros(64)), DataError, "first axis counting"),
    ],
)
def test_data_that_do_not_fit_are_refused_in_a_sentence(tmp_path, make, error, words):
    with pytest.raises(error) as caught:
        read_points(make(tmp_path), load_model("digits"))
    assert words in str(caught.value)


def _saved(path: Path, array: np.ndarray) -> Path:
    np.save(path, array, allow_pickle=True)
    return path


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"count": 0}, "got count=0; expected a whole number"),
        ({"count": -5}, "got count=-5; expected a whole number"),
        ({"generator": 0}, "got generator=0; expected a torch.Generator"),
    ],
)
def test_an_examination_of_nothing_is_refused(settings, says):
    with pytest.raises(SettingError, match=f"^{says}"):
        inspect.unwrap(examine)(load_world("v_mixture"), dtype=torch.float64, **settings)


def test_rows_that_are_mixed_are_a_fault():
    model = wrap(
        lambda x, t, c: x - x.mean(dim=0), prediction="x0", schedule=VE, shape=(3,), sigma_range=(0.01, 10.0)
    )
    found = examine(model, count=24, dtype=torch.float64)
    assert "rows of a batch are mixed" in found.finding("rows").sentence
    assert "rows" in {fault.name for fault in found.faults}


def test_views_share_the_memory_that_they_show():
    def viewed():
        x = torch.zeros(1000, dtype=torch.float64)
        views = x.view(10, 100), x.view(-1)
        return views[0] + 1.0

    assert peak_memory(viewed, torch.device("cpu")) == pytest.approx(2 * 8000 / 1e6, rel=0.1)


def test_what_opening_left_out_is_shown_once():
    note = "clip_sample of the scheduler is left out"
    model = replace(Gaussian().frame, notes=(note,))

    class Noted(Gaussian):
        frame = model

    found = examine(Noted(), count=16, dtype=torch.float64)
    assert [one.sentence for one in found.findings if one.name == "as opened"] == [note]
    assert note in found.text()
    assert found.sound


def test_a_normalizing_flow_is_examined_on_its_own_samples():
    flow = open_model(zuko.flows.NICE(2, transforms=1, hidden_features=[4]), dtype="float64")
    found = examine(flow, dtype=torch.float64)
    assert found.finding("force").verdict == "ok"
    assert found.lenses[0].works
    assert found.provenance.settings["data"] is None  # nobody gave any
