"""The linked view without a browser: one state, every part follows; files, second panel, scrubber."""

import threading
from datetime import UTC, datetime

import ipywidgets
import pytest
import torch
from ipywidgets.widgets.widget import _instances

from widgets.sessions.beside import Beside
from widgets.views import VIEWS, BenchExplorer
from workbench.bench import Bench, BenchState, load_view
from workbench.bench.geodesics import metrics_for
from workbench.bench.scrub import Scrub
from workbench.errors import SettingError
from workbench.headless.catalog import open_notebook
from workbench.headless.parameters import declared
from workbench.zoo import load_model

FAST = {"regimes": "static", "lenses": "paths,anisotropy", "nodes": 9}


@pytest.fixture
def view():
    made = BenchExplorer("two_wells", **FAST)
    assert made.wait()
    yield made
    made.close()


def gesture(view, kind, point, x, y):
    view.canvas.gesture = {"kind": kind, "id": point, "x": x, "y": y, "seq": view.canvas.answered + 1}
    assert view.wait()


def upload(view, name, content):
    file = {"name": name, "content": memoryview(content), "type": "", "size": len(content)}
    view.upload.value = ({**file, "last_modified": datetime.now(UTC)},)


def test_the_first_answers_are_all_there(view):
    names = [curve["name"] for curve in view.canvas.curves]
    assert {"straight line", "slerp", "path, static", "exact path", "posterior at the ends"} <= set(names)
    assert "● converged" in view.badge.value
    assert "coarse" not in view.badge.value
    assert "path, static" in view.table.value
    assert "paths" in view.words.value
    assert "projection" in view.words.value
    assert view.status.text == "all lenses answered"
    assert BenchExplorer in VIEWS


def test_another_subject_offers_other_choices_and_leaves_no_controls_behind(view):
    before = set(_instances)
    for name in ("muller_brown", "v_mixture", "two_wells"):
        view.controls["subject"].value = name
        assert view.wait()
        assert view.controls["subject"].value == view.state.world == name
        assert set(view.controls["metric"].options) == set(metrics_for(view.bench.place.subject))
        assert "static" in view.controls["regimes"].value
    new = [_instances[one] for one in set(_instances) - before]
    assert [one for one in new if isinstance(one, ipywidgets.DOMWidget)] == []
    assert view.strip.layout.display == "none"


def test_one_gesture_moves_everything(view):
    gesture(view, "move", "start", -1.5, 0.5)
    assert "coarse" in view.badge.value
    gesture(view, "end", "start", -1.5, 0.5)
    assert view.state.start == view.bench.state.start == "-1.5,0.5"
    assert view.controls["start"].value == "-1.5,0.5"
    assert "coarse" not in view.badge.value
    assert view.result.lines[0].points[0].tolist() == [-1.5, 0.5]
    assert f"{view.bench.table.rows[0].lengths['euclidean'].value:.5g}" in view.table.value


def test_via_points_are_added_moved_and_taken_away(view):
    gesture(view, "add", "", 0.0, 1.0)
    assert view.state.via == "0,1"
    assert [handle["id"] for handle in view.canvas.handles] == ["start", "via 0", "end"]
    gesture(view, "remove", "via 0", 0.0, 0.0)
    assert view.state.via == ""


def test_controls_write_the_state_and_the_state_writes_the_controls(view):
    view.controls["metric"].value = "density"
    view.controls["lenses"].value = ("anisotropy",)
    assert view.wait()
    assert (view.state.metric, view.state.lenses) == ("density", "anisotropy")
    view.state = view.state.but(background="score", sigma=0.5)
    assert view.wait()
    assert view.controls["background"].value == "score"
    assert view.sigma.value == 0.5
    assert "size of the score" in view.canvas.field_title


def test_another_subject_brings_its_own_controls(view):
    view.controls["subject"].value = "muller_brown"
    assert view.wait()
    assert view.state.world == "muller_brown"
    assert view.state.metric == "euclidean"
    assert view.controls["regimes"].options == ("static",)
    assert "is an energy" in view.words.value


def test_a_mistake_is_one_sentence_and_changes_nothing(view):
    before = view.state
    view.controls["start"].value = "nowhere"
    assert view.wait()
    assert "nowhere" in view.status.text
    assert view.bench.state == before
    with pytest.raises(SettingError):
        BenchExplorer("atlantis")


def test_the_noise_slider_shows_what_was_computed_ahead(view):
    view.session.scrub = Scrub((), (), ())
    view.sigma.value = view.sigma.options[8][1]
    assert view.wait()
    assert view.state.sigma == view.sigma.options[8][1]
    view.sigma.value = -1.0
    assert view.wait()
    assert view.state.sigma is None


def test_levels_are_computed_ahead_without_waiting(view, monkeypatch):
    go = threading.Event()

    def few(bench, *, progress, cancel):
        assert go.wait(60)
        result = bench.ask(bench.state.but(sigma=0.5), resolution="coarse")
        progress(1.0, "done")
        return Scrub((0.5,), (result,), ())

    monkeypatch.setattr("widgets.sessions.bench.scrub_levels", few)
    view.ahead.click()
    assert view.session.scrubbing
    go.set()
    assert view.session.wait_precompute()
    assert view.session.scrub.levels == (0.5,)
    assert "path, static" in [trace.name for trace in view.marks.figure.data]


def test_a_view_is_saved_opened_copied_and_cited(view, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    view.saving.click()
    assert load_view(tmp_path / "view.yaml") == view.state
    changed = view.state.but(start="-1,0.5")
    content = (tmp_path / "view.yaml").read_bytes().replace(b"start: ''", b"start: -1,0.5")
    upload(view, "view.yaml", content)
    assert view.wait()
    assert view.state == changed
    original = (tmp_path / "view.yaml").read_text()
    view.canvas.dropped = {"name": "view.yaml", "text": original, "count": 1}
    assert view.wait()
    assert view.state.start == ""
    view.canvas.dropped = {"name": "evil.yaml", "text": "!!python/object:os.system x", "count": 2}
    assert "evil.yaml" in view.status.text
    view.load("view.yaml")
    assert view.wait()
    assert view.state.start == ""
    view.copy.click()
    assert view.text.value == view.to_parameters() == view.canvas.clip
    view.citing.click()
    assert "e2007simplified" in view.text.value


def test_an_uploaded_file_that_is_no_view_is_refused(view):
    before = view.state
    upload(view, "evil.yaml", b"!!python/object:os.system x")
    assert view.wait()
    assert "evil.yaml" in view.status.text
    assert view.state == before


def test_a_second_panel_differs_in_one_setting_and_follows_the_rest(view):
    view.setting.value = "sigma"
    view.value.value = "0.8"
    assert view.wait()
    assert view.beside.second.state.differences(view.state) == {"sigma": (0.8, None)}
    assert "straight line" in view.beside.changed()
    assert "wb-differs" in view.table.value
    gesture(view, "end", "end", 1.5, 0.2)
    assert view.beside.second.state.end == view.state.end == "1.5,0.2"
    view.setting.value = ""
    assert view.beside is None
    assert view.other.children == ()


def test_a_second_panel_of_the_same_value_differs_in_nothing():
    first = Bench(world="two_wells", **FAST, background="none")
    beside = Beside(first, "seed", 0)
    first.refresh()
    assert first.wait()
    assert beside.second.wait()
    assert beside.changed() == frozenset()
    beside.close()
    first.close()


def test_distortion_can_be_shown(view):
    view.distort.value = True
    assert "distortion" in [curve["name"] for curve in view.canvas.curves]


def test_several_pieces_are_parted_by_a_vertex_that_is_no_number(view):
    curve = next(c for c in view.canvas.curves if c["name"] == "posterior at the ends")
    flat = torch.frombuffer(bytearray(view.canvas.vertices), dtype=torch.float32).reshape(-1, 2)
    own = flat[curve["offset"] : curve["offset"] + curve["count"]]
    assert int(own.isnan().any(dim=1).sum()) == 1


def test_a_model_of_ones_own_is_looked_at():
    from workbench.worlds import two_wells

    made = BenchExplorer(two_wells(1.5, 0.4), **FAST)
    assert made.wait()
    assert made.bench.table.row("straight line").lengths["euclidean"].value == pytest.approx(3.0, abs=0.1)
    made.setting.value, made.value.value = "nodes", "7"
    assert made.wait()
    own = made.beside.second.table.row("straight line").lengths["euclidean"].value
    assert own == made.bench.table.row("straight line").lengths["euclidean"].value
    made.setting.value = ""
    made.controls["subject"].value = "ring"
    assert made.wait()
    assert made.bench.place.subject.frame.name == "ring"
    made.controls["subject"].value = "two_wells"
    assert made.wait()
    assert made.bench.place.coords("start")[0] == pytest.approx(-1.5, abs=0.05)
    made.close()


def test_a_class_of_a_model_in_memory_is_refused():
    made = BenchExplorer(load_model("digits"), **{**FAST, "lenses": "paths"})
    made.cancel()
    before = made.state
    made.setting.value, made.value.value = "condition", "3"
    assert "condition bound" in made.status.text
    assert made.beside is None
    assert made.state == before
    made.close()


def test_the_state_is_the_parameters_cell_of_the_notebook():
    found = {p.name: p for p in declared(open_notebook("90_side_by_side")).parameters}
    assert list(found) == list(BenchState().as_dict())
    declaration = declared(open_notebook("90_side_by_side"))
    assert declaration.check(BenchState(world="ring", sigma=0.5).as_dict())["sigma"] == 0.5
