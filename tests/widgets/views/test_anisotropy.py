"""The anisotropy view without a browser: set a trait, let the scheduler finish, read what is shown."""

import dataclasses
import json
import threading
from pathlib import Path

import pytest

from widgets.cells import read_cell, read_values, write_cell
from widgets.sessions.anisotropy import train_state
from widgets.views import VIEWS
from widgets.views.anisotropy import AnisotropyExplorer, AnisotropyState
from workbench import open_model
from workbench.architectures import ShiftUNet
from workbench.errors import SettingError
from workbench.headless.catalog import open_notebook
from workbench.headless.parameters import declared
from workbench.schedules import VP_COSINE
from workbench.scheduling import Outcome
from workbench.worlds import load_world


@pytest.fixture
def view():
    made = AnisotropyExplorer("unet8-time", "dit8-2", networks=24)
    assert made.wait()
    yield made
    made.close()


def names(box):
    return [trace.name for trace in box.figure.data]


def test_a_view_shows_both_architectures_and_how_sure_they_are(view):
    assert {"unet8-time", "dit8-2", "dit8-2, null space"} <= set(names(view.spectrum))
    assert "24 model calls" in view.status.text
    assert len(view.gallery.figure.layout.images) == 9
    assert "null space" in view.gallery_other.figure.to_json()
    assert len(view.map.figure.layout.images) == 5
    assert names(view.theory) == ["exact W2", "all zeros"]
    assert view.result.order == "ascending"
    assert AnisotropyExplorer in VIEWS


def test_moving_the_probe_gives_another_answer(view):
    before = view.result.geometry.core
    view.controls["probe"].value = "gaussian"
    assert view.wait()
    assert view.state.probe == "gaussian"
    assert view.controls["probe_std"].layout.display is None
    assert view.result.geometry.probe == "x ~ N(0, 1^2)"
    assert not before.equal(view.result.geometry.core)


def test_one_noise_level_is_one_level(view):
    view.state = view.state.but(level=900)
    assert view.wait()
    assert view.controls["level"].value == 900
    assert "level 900" in view.result.geometry.levels


def test_training_a_pair_draws_predicted_against_measured(view):
    view.state = view.state.but(learner="dit8-2", steps=4)
    view.train()
    assert view.wait()
    assert {"median of seeds", "all zeros"} <= set(names(view.measurement))
    assert names(view.curves) == ["λ_min", "λ_max", "all zeros", "standard normal", "real against real"]


def test_a_learner_without_preference_gets_one_sentence(view):
    view.state = view.state.but(learner="mlp64", steps=2)
    view.train()
    assert view.wait()
    assert "prefers no direction" in view.status.text


def test_one_click_turns_the_images_into_the_basis_of_least_alignment(view):
    view.state = view.state.but(learner="dit8-2")
    view.controls["basis"].value = "w_min"
    assert view.wait()
    assert "of the way from W_min to W_max" in view.status.text
    names_of = [image.name for image in view.basis.figure.layout.images]
    assert names_of == [f"sample {k}" for k in range(9)] + [f"turned {k}" for k in range(9)]
    assert names(view.alignment) == ["position"]
    assert view.lay.alignment.minimum < view.lay.alignment.value
    view.controls["basis"].value = "own"  # at once: nothing is computed again
    assert len(view.basis.figure.layout.images) == 9
    view.state = view.state.but(learner="dit16-4", images="digits")
    view.align()
    assert view.wait()
    assert "images of the learner's size" in view.status.text
    view._deliver(Outcome(None, "full", ("align", (view.state.but(learner="unet8"), None)), "", False, 0.0))
    assert "for unet8: align again" in view.status.text


def test_a_basis_that_is_chosen_while_a_pair_trains_does_not_end_the_training(view, monkeypatch):
    begun, go = threading.Event(), threading.Event()

    def slow(state, cancel, progress):
        begun.set()
        assert go.wait(60)
        assert not cancel.is_set()
        return train_state(state, cancel, progress)

    monkeypatch.setattr("widgets.views.anisotropy.train_state", slow)
    view.state = view.state.but(learner="dit8-2", steps=2, samples=20)
    view.train()
    assert begun.wait(60)
    view.controls["basis"].value = "w_min"
    assert "press “Align the images”" in view.status.text
    go.set()
    assert view.wait()
    assert names(view.curves)[:2] == ["λ_min", "λ_max"]


def test_a_sphere_is_learnt_instead_of_a_line(view):
    view.state = view.state.but(learner="dit8-2", steps=2, data="sphere", samples=20)
    view.train()
    assert view.wait()
    assert names(view.curves)[:2] == ["λ_min", "λ_max"]
    assert len(view.measured.distances) == 2


def test_the_opened_model_gives_its_architecture_and_its_harmonics(view):
    view.controls["model"].value = "fashion"
    assert view.wait()
    assert "unet8-time" in view.results  # nothing on the screen is the model's
    view.controls["architecture"].value = "model"
    assert view.wait()
    assert list(view.results) == ["fashion, reset", "dit8-2"]
    assert view.result.geometry.levels == "edm 100"  # its own levels
    assert {"fashion, reset", "dit8-2"} <= set(names(view.spectrum))
    view.state = view.state.but(level=900)
    assert view.wait()
    assert view.result.geometry.levels.startswith("edm 100, level")
    view.buttons["harmonics"].click()
    assert view.wait()
    assert "asymmetry of the Jacobian" in view.status.text
    assert len(view.harmonics.figure.layout.images) == 9
    view.state = view.state.but(model="digits")
    assert view.wait()
    assert not view.harmonics.figure.layout.images
    assert list(view.results) == ["digits, reset", "dit8-2"]


def test_a_model_in_memory_takes_part_by_its_name():
    net = ShiftUNet(1, 8, 2, 1, groups=2)
    own = open_model(net, prediction="eps", schedule=VP_COSINE, shape=(1, 8, 8), dtype="float32")
    made = AnisotropyExplorer("model", "model", model=own, networks=16)
    assert made.wait()
    assert (made.state.model, list(made.results)) == ("ShiftUNet", ["ShiftUNet, reset"])
    made.resolve()
    assert made.wait()
    assert "Harmonics of ShiftUNet" in made.status.text
    made.close()


@pytest.mark.parametrize(
    ("world", "words"),
    [("ring", "Harmonics of ring"), ("muller_brown", "Got muller_brown, an energy")],
)
def test_a_model_without_a_network_gets_one_sentence(world, words):
    made = AnisotropyExplorer("model", "dit8-2", model=load_world(world), networks=16)
    assert made.wait()
    assert made.status.text.startswith(f"Got {world}, a model without a torch network")
    assert made.results == {}
    made.resolve()
    assert made.wait()
    assert made.status.text.startswith(words)
    made.close()


def test_the_self_check_says_that_all_pass(view):
    view.check()
    assert view.wait()
    assert "checks pass" in view.status.text


def test_the_state_is_the_parameters_cell_of_the_notebook(view):
    view.state = view.state.but(networks=40, seed=3)
    assert view.wait()
    text = view.to_parameters()
    assert read_cell(AnisotropyState, text) == view.state
    json.dumps(dataclasses.asdict(view.state))
    view.buttons["copy"].click()
    assert view.parameters.value == text
    view.from_parameters("networks = 32  # fewer\nother: str = 'unet8'")
    assert view.wait()
    assert (view.state.networks, view.state.other) == (32, "unet8")


def test_the_notebook_has_the_same_parameters_and_defaults():
    path = Path(__file__).parents[3] / "notebooks" / "30_anisotropy.ipynb"
    found = {p.name: p.default for p in declared(open_notebook(path)).parameters}
    assert found == dataclasses.asdict(AnisotropyState())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"architecture": "resnet"}, "one of linear8"),
        ({"probe": "loud"}, "zero or gaussian"),
        ({"level": 5000}, "0 to 999"),
        ({"networks": 1}, "at least 2"),
        ({"networks": "many"}, "kind int"),
        ({"no_such": 1}, "unknown parameter"),
    ],
)
def test_bad_settings_get_one_sentence(settings, words):
    with pytest.raises(SettingError, match=words):
        AnisotropyExplorer(**settings)


def test_a_bad_state_shows_its_sentence_and_keeps_the_answer(view):
    before = view.results
    view.state = view.state.but(networks=1)
    assert "at least 2" in view.status.text
    assert view.results is before


def test_cells_refuse_what_is_no_cell():
    with pytest.raises(SettingError, match="no parameters cell"):
        read_cell(AnisotropyState, "import os")
    assert read_values(AnisotropyState, {"probe_std": 2}).probe_std == 2.0
    assert write_cell(AnisotropyState()).splitlines()[0] == "architecture: str = 'unet16'"
