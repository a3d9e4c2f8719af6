"""The view of contrastive maps without a browser: drag, select and save, and read what is shown."""

import re
import threading
from dataclasses import asdict, replace
from pathlib import Path

import imageio.v3 as imageio
import imageio_ffmpeg
import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.oracles import conda as oracle
from widgets.canvas.scene import Gesture
from widgets.cells import read_cell
from widgets.sessions.conda import CondaSession
from widgets.sessions.conda_scene import CondaRun
from widgets.sessions.conda_state import CondaCrossing, CondaScene, CondaState
from widgets.theme import theme_of
from widgets.views import VIEWS, ConDAExplorer
from workbench.conda.context import make_context
from workbench.errors import Cancelled, SettingError, ShapeError
from workbench.headless.catalog import open_notebook
from workbench.headless.parameters import declared
from workbench.lenses.conda import fit_conda


@pytest.fixture(scope="module")
def turning():
    torch.set_default_dtype(torch.float64)
    latents, angle = oracle.ring(count=200, dim=16, seed=0, period=29.3)
    context = make_context(200, torch.stack([angle.cos(), angle.sin()], dim=1))
    return fit_conda(
        latents, context, positives="time", dim=3, iterations=60, batch=48, rate=5e-3, restarts=2
    )


@pytest.fixture
def view(turning):
    asked = []

    def render(latents, variables):
        asked.append((latents, variables))
        return torch.tanh(latents)

    made = ConDAExplorer(turning, render=render, frames=turning.latents, shape=(4, 4), name="ring")
    made.asked = asked
    assert made.wait()
    yield made
    made.close()


def names(strokes):
    return [curve["name"] for curve in strokes]


def drag(view, kind, identity, x, y, seq):
    view.canvas.gesture = {"kind": kind, "id": identity, "x": x, "y": y, "seq": seq}


def test_the_first_look_shows_frames_curve_and_films(view):
    assert view.canvas.clouds[0]["count"] == 200
    assert "curve" in names(view.canvas.curves)
    assert [handle["label"] for handle in view.canvas.handles] == ["start", "1", "2", "3", "end"]
    assert list(view.films) == ["curve, lifted", "straight in z", "spherical in z"]
    assert len(view.film.figure.layout.images) == 36
    assert "support" in view.facts.value
    assert "usual spacing" in view.support.figure.layout.yaxis.title.text
    assert view.support.figure.layout.xaxis.title.text == "share of the curve"
    assert "nats" in view.losses.figure.layout.yaxis.title.text
    assert ConDAExplorer in VIEWS
    assert "ring" in repr(view)


def test_films_are_rendered_in_one_call_with_the_variables_that_follow(view):
    (latents, variables), *_ = view.asked
    assert latents.shape == (3 * 33, 16)
    assert variables.shape == (3 * 33, 2)
    assert_close(view.films["curve, lifted"], torch.tanh(view.result.latents))


def test_a_dragged_point_moves_in_the_plane_and_the_curve_follows(view):
    before = view.session.controls.clone()
    place = view.session.plane.encode(before[2]) + torch.tensor([0.2, -0.1])
    drag(view, "start", "c2", 0.0, 0.0, 1)
    drag(view, "move", "c2", *place.tolist(), 2)
    assert view.wait()
    assert view.answer.speed == "coarse"
    assert view.films == {}
    drag(view, "end", "c2", *place.tolist(), 3)
    assert view.wait()
    after = view.session.controls
    assert_close(view.session.plane.encode(after[2]), place, rtol=1e-5, atol=1e-5)
    off = after[2] - before[2]
    inside = view.session.plane.directions.mT @ (view.session.plane.directions @ off)
    assert_close(off, inside, rtol=1e-4, atol=1e-5)
    assert torch.equal(after[[0, 1, 3, 4]], before[[0, 1, 3, 4]])
    assert view.answer.speed == "full"
    assert view.canvas.answered == 3
    assert (view.result.points - after[2]).norm(dim=1).min() < 0.2


def test_control_points_are_added_on_the_nearest_leg_and_taken_away(view):
    polygon = view.session.plane.encode(view.session.controls)
    x, y = ((polygon[1] + polygon[2]) / 2).tolist()
    drag(view, "add", "", x, y, 1)
    assert view.wait()
    assert len(view.session.controls) == 6
    assert_close(
        view.session.plane.encode(view.session.controls[2]), torch.tensor([x, y]), rtol=1e-4, atol=1e-4
    )
    drag(view, "remove", "c2", x, y, 2)
    assert view.wait()
    assert_close(view.session.plane.encode(view.session.controls), polygon, rtol=1e-4, atol=1e-4)


def test_a_curve_off_the_frames_turns_the_light_off(view):
    drag(view, "end", "c2", 30.0, 30.0, 1)
    assert view.wait()
    assert "off support" in names(view.canvas.curves)
    assert "spacings" in view.canvas.note
    assert view.status.kind == "warning"


@pytest.mark.parametrize(
    ("name", "value"), [("k", 3), ("weights", "tapered"), ("kind", "line"), ("closed", True)]
)
def test_sliders_lift_again(view, name, value):
    before = view.result
    view.controls[name].value = value
    assert view.wait()
    assert getattr(view.state, name) == value
    assert view.result is not before


def test_frames_take_another_colour(view):
    before = view.canvas.cloud_labels
    view.controls["colour"].value = "time"
    assert view.wait()
    assert view.canvas.cloud_labels != before
    assert view.canvas.clouds[0]["name"] == "frames, by time"


def test_a_lasso_selects_what_it_encloses(view):
    coords = view.session.coords
    x, y = coords[7].tolist()
    view.canvas.lasso = [x - 0.05, y - 0.05, x + 0.05, y - 0.05, x + 0.05, y + 0.05, x - 0.05, y + 0.05]
    inside = ((coords - coords[7]).abs() < 0.05).all(dim=1).nonzero()[:, 0]
    assert list(view.selection) == inside.tolist()
    assert 7 in view.selection
    assert "selection" in names(view.canvas.curves)
    assert f"{len(inside)} of 200 frames selected" in view.picked.value
    assert len(view.chosen.figure.layout.images) >= 1
    view.canvas.lasso = []
    assert view.selection == ()


def test_a_selection_is_set_from_code(view):
    view.selection = (3, 50)
    assert "2 of 200 frames selected" in view.picked.value


def test_a_lasso_of_any_shape_is_even_odd(view):
    star = [0, 0, 4, 0, 4, 4, 2, 1, 0, 4]
    view.session.coords = torch.tensor([[2.0, 0.5], [2.0, 2.0], [0.2, 3.0], [3.8, 3.0], [5.0, 1.0]])
    assert view.session.enclosed([float(v) for v in star]).tolist() == [0, 2, 3]


def test_the_state_travels_as_a_cell(view):
    cell = view.to_parameters()
    view.state = view.state.but(k=4)
    assert view.wait()
    view.from_parameters(cell)
    assert view.wait()
    assert view.state.k == 8


@pytest.mark.parametrize("ending", [".npz", ".gif", ".mp4"])
def test_curve_and_films_are_written(view, tmp_path, ending):
    path = view.export(str(tmp_path / f"curve{ending}"))
    if ending == ".npz":
        with np.load(path) as file:
            assert_close(torch.from_numpy(file["points"]), view.result.points)
            assert file["film curve, lifted"].shape == (33, 16)
            assert file["neighbours"].shape == (33, 8)
    elif ending == ".gif":
        assert imageio.imread(path).shape[:3] == (33, 16, 4 * (3 * 4 + 2 * 2))
    else:
        assert imageio_ffmpeg.count_frames_and_secs(path)[0] == 33


def test_what_cannot_be_shown_says_so_in_one_sentence(view):
    view.state = view.state.but(anchors="0 900")
    assert "control points" in view.status.text
    assert view.status.kind == "error"
    view.target.value = "curve.bmp"
    view.save.click()
    assert "an ending of .gif" in view.status.text


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"k": 200}, SettingError),
        ({"weights": "kriging"}, SettingError),
        ({"colour": "mood"}, SettingError),
        ({"anchors": "5"}, SettingError),
        ({"neighbours": 5}, SettingError),
        ({"frames": torch.zeros(3, 16)}, ShapeError),
    ],
)
def test_views_refuse_bad_settings(turning, options, error):
    with pytest.raises(error):
        ConDAExplorer(turning, **options)


def test_without_a_renderer_the_nearest_frames_are_shown(turning):
    view = ConDAExplorer(turning, frames=turning.latents, shape=(4, 4), theme="dark")
    assert view.wait()
    rows = view.result.lifted.neighbours[:, 0]
    assert_close(view.films["nearest frames"], turning.latents[rows])
    view.close()


def test_a_million_frames_are_a_cloud_with_levels_of_detail(turning):
    points = torch.randn(1_000_000, 2)
    context = make_context(1_000_000)
    big = replace(turning, points=points, context=context, latents=points, spacing=1e-3)
    session = CondaSession(CondaScene(big), CondaState())
    traits = session.ground(theme_of("light"))
    assert traits["clouds"][0]["count"] == 1_000_000
    assert len(traits["cloud_points"]) == 8_000_000
    assert len(traits["cloud_labels"]) == 1_000_000
    assert session.after(Gesture("move", "c1", 0.1, 0.2, 1)) == "coarse"


def test_frames_by_name_are_opened_with_the_parameters_of_the_notebook():
    view = ConDAExplorer("wake", iterations=20, restarts=1, batch=48, steps=3, solver="ddim")
    assert view.wait()
    assert view.session.scene.shape[-2:] == (30, 50)
    assert view.films["curve, lifted"].shape == (33, 1500)
    cell = view.to_parameters()
    assert read_cell(CondaRun, cell) == view.run
    frames = len(view.session.coords)
    view.from_parameters(cell.replace("gap: int = 6", "gap: int = 8"))
    assert view.wait()
    assert len(view.session.coords) < frames
    assert view.canvas.clouds[0]["count"] == len(view.session.coords)
    view.close()


def test_the_notebook_has_the_same_parameters_and_defaults():
    path = Path(__file__).parents[3] / "notebooks" / "40_conda.ipynb"
    found = {p.name: p.default for p in declared(open_notebook(path)).parameters}
    assert found == asdict(CondaRun())


def test_frames_are_opened_behind_a_bar_and_can_be_cancelled_and_opened_again(monkeypatch, turning):
    begun, on, told = threading.Event(), threading.Event(), []

    def slow(run, *, progress, cancel):
        told.append(run)
        progress(0.4, "the latents are under way")
        begun.set()
        while not cancel.is_set() and not on.wait(0.01):
            pass
        if cancel.is_set():
            raise Cancelled.before("the map was drawn")
        return CondaScene(turning, turning.latents, (4, 4), name="ring")

    monkeypatch.setattr("widgets.views.conda.open_scene", slow)
    view = ConDAExplorer("ring", k=5)
    assert begun.wait(30)  # the constructor has returned, the kernel is free
    assert view.status.bar.layout.visibility == "visible"
    assert view.status.bar.value == pytest.approx(0.4)
    assert "opening ring: the latents are under way" in view.status.text
    assert "no frames yet" in repr(view)
    with pytest.raises(SettingError, match=r"^got a view whose frames are not there yet"):
        _ = view.session
    view.status.cancel.click()
    assert view.wait()
    assert "Cancelled before the map was drawn" in view.status.text
    assert view.again.layout.display is None
    on.set()
    view.again.click()
    assert view.wait()
    assert view.result is not None
    assert view.state.k == 5
    assert len(told) == 2
    assert view.status.kind == "idle"
    view.close()


def test_what_the_condition_does_is_a_button_and_one_sentence(turning):
    films = dict.fromkeys(("condition follows", "condition held"), turning.latents[:5])
    words = "Between the conditions a frame is 0.1 spreads off"

    def cross(progress, cancel):
        progress(0.5, "half")
        return CondaCrossing(films, list("abcde"), "condition", words)

    view = ConDAExplorer(CondaScene(turning, turning.latents, (4, 4), cross=cross))
    assert view.wait()
    view.compare.click()
    assert view.wait()
    assert view.status.text == words
    assert len(view.crossing.figure.layout.images) == 10
    assert view.crossing.figure.layout.xaxis.ticktext == tuple("abcde")
    view.close()


def test_without_conditions_there_is_nothing_to_compare(view):
    view.cross()
    assert view.wait()
    assert view.status.text.startswith("Got frames without conditions on a scale")


@pytest.mark.slow
def test_the_wake_is_rendered_with_the_condition_following_and_held():
    view = ConDAExplorer("wake", iterations=20, restarts=1, batch=48, steps=3)
    assert view.wait()
    view.cross()
    assert view.wait()
    off = [float(number) for number in re.findall(r"0\.\d+", view.status.text)]
    assert off[0] < 0.3 < off[1]
    view.close()


def test_unknown_flows_are_refused_with_those_there_are():
    view = ConDAExplorer("wake", condition="Re 1000")
    assert view.wait()
    assert view.status.kind == "error"
    assert "one of Re 60" in view.status.text
    view.close()


def test_a_drag_does_not_end_the_opening_of_other_frames(monkeypatch, turning):
    on, begun = threading.Event(), threading.Event()

    def slow(run, *, progress, cancel):
        begun.set()
        while run.frames != "ring" and not cancel.is_set() and not on.wait(0.01):
            pass
        if cancel.is_set():
            raise Cancelled.before("the map was drawn")
        return CondaScene(turning, turning.latents, (4, 4), name=run.frames)

    monkeypatch.setattr("widgets.views.conda.open_scene", slow)
    view = ConDAExplorer("ring", k=5)
    assert view.wait()
    begun.clear()
    view.from_parameters({"frames": "other"})
    assert begun.wait(30)
    view.controls["k"].value = 7
    assert "opening other" in view.status.text
    on.set()
    assert view.wait()
    assert view.run.frames == view.session.scene.name == "other"
    view.close()
