"""The path view without a browser: set a trait, let the scheduler finish, read what is shown."""

import json
import threading
import time

import numpy as np
import pytest
import torch
from PIL import Image

from widgets.sessions.paths import PathSession
from widgets.state import PathState, cell_of
from widgets.views import VIEWS, PathExplorer
from workbench.errors import SettingError
from workbench.worlds import load_world
from workbench.worlds.answers import known_answer


@pytest.fixture
def view():
    made = PathExplorer("v_mixture", regime="static")
    assert made.wait()
    yield made
    made.close()


def gesture(view, kind, handle, x, y):
    seq = view.canvas.answered + 1
    view.canvas.gesture = {"kind": kind, "id": handle, "x": x, "y": y, "seq": seq}
    assert view.canvas.answered == seq


def traces(view):
    return {trace.name: trace for trace in view.profile.figure.data}


def curve(view, name):
    entry = next(c for c in view.canvas.curves if c["name"] == name)
    flat = torch.frombuffer(bytearray(view.canvas.vertices), dtype=torch.float32).reshape(-1, 2)
    return flat[entry["offset"] : entry["offset"] + entry["count"]]


def test_a_view_is_a_box_that_shows_its_first_answer(view):
    assert view.status.text.startswith("● converged")
    assert "model calls" in view.status.text
    assert {"straight line", "exact path", "path"} <= {c["name"] for c in view.canvas.curves}
    assert traces(view)["highest barrier"].y[0] == pytest.approx(1.587018, abs=2e-3)
    assert not view.canvas.busy
    assert view.status.cancel.disabled


def test_the_error_against_the_exact_answer_is_shown(view):
    assert abs(view.answer.barrier_error) < 2e-3
    assert view.answer.deviation < 5e-2
    assert "exact barrier" in view.facts.value
    assert "1.58702 nats" in view.facts.value


def test_moving_a_point_gives_a_coarse_answer_and_letting_go_the_full_one(view):
    gesture(view, "start", "start", -3.0, 0.0)
    gesture(view, "move", "start", -3.5, 0.5)
    assert view.wait()
    assert view.answer.speed == "coarse"
    assert view.state.start == "-3.5,0.5"
    assert len(curve(view, "path")) == 13
    gesture(view, "end", "start", -3.6, 0.6)
    assert view.wait()
    assert view.answer.speed == "full"
    assert view.start.value == "-3.6,0.6"
    world = load_world("v_mixture")
    exact = known_answer(world, torch.tensor([-3.6, 0.6]), world.facts.end)
    assert view.result.barrier.value == pytest.approx(exact.barrier, abs=2e-3)
    assert view.answer.barrier_error == pytest.approx(0.0, abs=2e-3)


def test_the_points_follow_a_state_that_is_set_from_code(view):
    view.state = view.state.but(end="2.8,-0.2")
    assert view.wait()
    ends = {handle["id"]: handle for handle in view.canvas.handles}
    assert (ends["end"]["x"], ends["end"]["y"]) == pytest.approx((2.8, -0.2))
    assert view.end.value == "2.8,-0.2"
    assert view.result.curve.points[-1].tolist() == pytest.approx([2.8, -0.2])


def test_a_control_changes_the_state_and_the_answer(view):
    view.nodes.value = 21
    assert view.wait()
    assert view.state.nodes == 21
    assert len(view.result.curve.points) == 21


def test_a_noise_level_from_code_is_kept_exactly_and_moves_the_ground(view):
    before = view.canvas.field
    view.state = view.state.but(sigma=0.777)
    assert view.wait()
    assert view.sigma.value == 0.777
    assert view.result.sigma == 0.777
    assert view.canvas.field != before
    assert view.answer.exact is None


def test_controls_that_mean_nothing_in_a_regime_are_hidden(view):
    assert view.gamma.layout.display == "none"
    view.regime.value = "mep"
    assert view.gamma.layout.display is None
    assert view.temperature.layout.display == "none"
    assert view.sigma.layout.display == "none"
    view.cancel()
    assert view.wait()


def test_a_via_point_is_added_moved_and_taken_away(view):
    gesture(view, "add", "", 0.0, -3.0)
    assert view.wait()
    assert view.state.vias == ("0,-3",)
    assert [handle["id"] for handle in view.canvas.handles] == ["start", "via 0", "end"]
    gesture(view, "end", "via 0", 0.5, -3.0)
    assert view.wait()
    assert view.state.vias == ("0.5,-3",)
    gesture(view, "remove", "via 0", 0.0, 0.0)
    assert view.wait()
    assert view.state.vias == ()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda v: setattr(v.start, "value", "here"),
            "Got the point 'here'; expected 2 finite numbers with commas between",
        ),
        (lambda v: setattr(v.start, "value", "nan,0"), "Got the point 'nan,0'"),
        (lambda v: setattr(v.start, "value", v.end.value), "two equal ends"),
        (lambda v: gesture(v, "end", "via 7", 0.0, 0.0), "no point 'via 7'"),
    ],
)
def test_bad_input_is_one_sentence_and_never_a_traceback(view, change, sentence):
    change(view)
    assert view.wait()
    assert sentence in view.status.text
    assert view.status.kind == "error"
    assert "Traceback" not in view.status.line.value
    assert view.status.text.count("\n") == 0
    assert not view.canvas.busy
    view.state = view.state.but(start="-3,0", end="3,0", via="")
    view.state = view.state.but(nodes=21)
    assert view.wait()
    assert view.status.kind == "idle"


def test_parameters_go_out_and_come_back(view):
    view.state = view.state.but(start="-2.9,0.1", nodes=27)
    cell = view.to_parameters()
    view.state = view.state.but(start="-3,0", nodes=33)
    view.from_parameters(cell)
    assert view.wait()
    assert (view.state.start, view.state.nodes) == ("-2.9,0.1", 27)
    assert view.to_parameters() == cell
    assert json.loads(json.dumps(view.state.as_dict()))["world"] == "v_mixture"


def test_parameters_of_another_world_change_the_subject(view):
    view.from_parameters(cell_of(PathState(world="muller_brown", regime="static")))
    assert view.wait()
    assert view.session.subject.frame.name == "muller_brown"
    assert view.sigma is None
    assert view.result.barrier.value == pytest.approx(106.0347, abs=1e-2)


def test_the_copied_text_is_shown_and_offered_to_the_clipboard(view):
    view.copy.click()
    assert view.parameters.value == view.to_parameters()
    assert view.canvas.clip == view.to_parameters()
    assert view.parameters.layout.display is None


def test_settings_are_checked_at_the_door():
    with pytest.raises(SettingError, match="unknown parameter 'noodles'"):
        PathExplorer("ring", noodles=3)


def test_a_landscape_has_only_its_regime_and_no_noise():
    view = PathExplorer("muller_brown")
    assert view.wait()
    assert view.state.regime == "static"
    assert view.regime.options == ("static",)
    assert view.sigma is None
    view.close()


def test_ends_can_be_sequences():
    view = PathExplorer("v_mixture", start=[-3, 0.5], end=(3, 0.5), regime="static")
    assert (view.state.start, view.state.end) == ("-3,0.5", "3,0.5")
    view.close()


def test_a_model_of_ones_own_can_be_explored():
    world = load_world("two_wells")
    view = PathExplorer(world, regime="static", nodes=15)
    assert view.wait()
    assert view.result is not None
    view.close()


def test_cancel_keeps_the_best_so_far():
    view = PathExplorer("v_mixture", regime="mep", nodes=71, gamma=15.0)
    deadline = time.monotonic() + 60
    while view.status.bar.value == 0.0 and time.monotonic() < deadline:
        time.sleep(0.01)
    view.cancel()
    assert view.wait(60.0)
    assert view.result is not None
    assert not view.canvas.busy
    view.close()


def test_the_session_finds_the_same_path_as_the_lens(generator):
    session = PathSession(PathState(world="v_mixture", regime="static", nodes=17))
    answer = session.solve(session.state, "full", threading.Event(), lambda share, words: None)
    again = session.solve(session.state, "full", threading.Event(), lambda share, words: None)
    assert torch.equal(answer.result.curve.points, again.result.curve.points)


def test_views_are_listed():
    assert PathExplorer in VIEWS


def test_empty_entries_become_the_subjects_own_on_an_open_view_too():
    view = PathExplorer("v_mixture", regime="static", nodes=9)
    assert view.state.gamma == 7.0
    view.from_parameters({"world": "v_mixture", "regime": "static", "nodes": 9, "seed": 1})
    assert view.wait()
    assert (view.state.start, view.state.gamma) == (view.session.stage.first_ends()[0], 7.0)
    view.close()


def test_a_regime_that_the_subject_lacks_is_refused():
    with pytest.raises(SettingError, match="regime='foo'"):
        PathExplorer("v_mixture", regime="foo")


def test_a_picture_on_a_light_background_is_named_beside_its_path(tmp_path):
    pixels = np.full((28, 28), 255, np.uint8)
    pixels[8:20, 12:16] = 0
    Image.fromarray(pixels).save(tmp_path / "light.png")
    view = PathExplorer("digits", str(tmp_path / "light.png"), "0", nodes=5, steps=4, regime="transport")
    assert view.wait(60)
    assert "light.png has a background 1.00" in view.status.text
    view.close()
