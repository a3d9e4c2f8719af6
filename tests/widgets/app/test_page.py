"""The page without a browser: the same sessions, numbers and sentences as in the notebook."""

import base64
import io
import threading
from dataclasses import replace
from urllib.parse import parse_qs

import pytest
import torch
from PIL import Image
from torch import nn
from torch.testing import assert_close

pytest.importorskip("panel")

from tests.oracles import fisher as oracle
from widgets.app.offer import Offer
from widgets.app.page import Page
from widgets.app.tabs import TABS
from widgets.app.turns import Turns
from widgets.scheduling import Outcome
from workbench.bench.results import BenchEvent
from workbench.bench.state import read_view, view_text
from workbench.report import Status
from workbench.subjects import open_subject
from workbench.worlds import load_world
from workbench.worlds.answers import known_answer

QUICK = '{"world": "v_mixture", "regime": "static", "nodes": 17}'


def open_page(**arguments):
    arguments.setdefault("tab", "paths")
    page = Page(Offer(), Turns(1), {name: [value.encode()] for name, value in arguments.items()})
    assert page.host.wait(120)
    return page


@pytest.fixture
def page():
    made = open_page(paths=QUICK)
    yield made
    made.close()


def gesture(page, tab, point, x, y, kind="end"):
    canvas = page.tabs[tab].canvas
    canvas.gesture = {"kind": kind, "id": point, "x": x, "y": y, "seq": canvas.answered + 1}
    assert page.host.wait(120)
    assert canvas.answered == canvas.gesture["seq"]


def send(tab, data, end="start"):
    tab.pictures.fields[end].file = {"name": "picture", "data": base64.b64encode(data).decode(), "count": 1}


def test_a_page_shows_its_first_answer(page):
    tab = page.tabs["paths"]
    assert "● converged" in page.host.text
    assert "exact barrier" in tab.facts.object
    assert tab.profile.figure.data[0].name == "profile"
    assert {"path", "straight line"} <= {curve["name"] for curve in tab.canvas.curves}
    assert 'role="status"' in page.host.status.object


def test_the_status_line_holds_the_words_of_the_tab_that_is_looked_at(page):
    first = page.host.text
    page.rail.chosen = "fisher"
    assert page.host.wait(120)
    other = page.host.text
    assert other != first
    page.tabs["paths"].host.say("said behind the other's back")
    assert page.host.text == other
    assert "behind" not in page.host.status.object
    page.rail.chosen = "paths"
    assert "behind" in page.host.status.object


@pytest.fixture
def decoder(tmp_path):
    torch.manual_seed(0)
    parts = ((16, 32, 1, 0), (32, 16, 2, 1), (16, 8, 2, 1), (8, 1, 2, 1))
    layers = []
    for taken, given, stride, padding in parts:
        layers += [
            nn.ConvTranspose2d(taken, given, 4, stride, padding, bias=False),
            nn.BatchNorm2d(given),
            nn.ReLU(),
        ]
    made = nn.ModuleDict({"main": nn.Sequential(*layers[:-2], nn.Tanh())})
    torch.save(made.state_dict(), tmp_path / "netG.pth")
    (tmp_path / "netG.json").write_text('{"kind": "decoder"}')
    return str(tmp_path / "netG.pth")


def test_a_page_with_a_decoder_alone_shows_what_it_has_and_says_what_it_lacks(decoder):
    page = Page(Offer(decoder), Turns(4), {"tab": [b"paths"]})
    try:
        assert page.host.wait(120)
        assert "netG, latent space is a decoder without a score and has no path" in page.host.text
        assert page.tabs["paths"].subject.value == "v_mixture"
        page.rail.chosen = "bench"
        bench = page.tabs["bench"]
        assert bench.bench.state.metric == "pullback"
        bench._done(BenchEvent("done", bench.bench.state, "full"))
        assert page.host.text.startswith("▲ no lens has an answer")
        bench.bench.cancel()
        page.rail.chosen = "fisher"
        assert page.tabs["fisher"].session.state.space == "slice"
        assert page.tabs["fisher"].session.state.latents == "decoder"
    finally:
        page.close()


def test_a_gesture_moves_the_end_and_the_numbers_follow(page):
    gesture(page, "paths", "start", -3.5, 0.5)
    tab = page.tabs["paths"]
    assert tab.start.value == "-3.5,0.5"
    world = load_world("v_mixture")
    exact = known_answer(world, torch.tensor([-3.5, 0.5]), world.facts.end).barrier
    assert f"{exact:.6g} nats" in tab.facts.object


def test_a_drag_gets_a_coarse_answer_and_leaves_the_address_alone(page):
    before = page.rail.query
    gesture(page, "paths", "start", -3.5, 0.5, kind="move")
    assert "coarse" in page.tabs["paths"].facts.object
    assert page.rail.query == before
    gesture(page, "paths", "start", -3.5, 0.5)
    assert "full" in page.tabs["paths"].facts.object
    assert page.rail.query != before


def test_the_address_opens_the_same_page_again(page):
    gesture(page, "paths", "start", -3.5, 0.5)
    page.tabs["paths"].nodes.value = 21
    assert page.host.wait()
    query = {name: [value.encode() for value in values] for name, values in parse_qs(page.rail.query).items()}
    again = Page(Offer(), Turns(1), query)
    assert again.host.wait()
    assert again.tabs["paths"].session.state.nodes == 21
    assert again.tabs["paths"].session.state == page.tabs["paths"].session.state
    again.close()


@pytest.mark.parametrize("text", ["nowhere", "/etc/hostname", "1,2,3", "nan,0"])
def test_bad_input_is_one_sentence_and_the_page_lives_on(page, text):
    page.tabs["paths"].start.value = text
    assert page.host.wait()
    assert page.host.text.startswith("Got the point")
    assert 'role="alert"' in page.host.status.object
    assert "Traceback" not in page.host.status.object
    gesture(page, "paths", "end", 3.0, 0.5)
    assert "● converged" in page.host.text


def test_no_control_asks_for_more_than_the_page_bears(page):
    before = page.tabs["paths"].session.state
    page.tabs["paths"].nodes.value = 100_001
    assert "at most on this page" in page.host.text
    assert page.tabs["paths"].session.state == before


def test_another_world_is_another_subject(page):
    tab = page.tabs["paths"]
    tab.subject.value = "muller_brown"
    assert page.host.wait()
    assert tab.session.subject.frame.name == "muller_brown"
    assert tab.regime.options == ["static"]
    assert not tab.gamma.visible


def test_the_copied_text_is_the_cell(page):
    tab = page.tabs["paths"]
    tab.copy.param.trigger("clicks")
    assert tab.parameters.object.startswith("world: str = 'v_mixture'")
    assert tab.canvas.clip == tab.parameters.object


def test_a_picture_of_ones_own_becomes_an_end():
    page = open_page(paths='{"model": "digits", "regime": "transport", "nodes": 5, "steps": 4}')
    tab = page.tabs["paths"]
    buffer = io.BytesIO()
    Image.linear_gradient("L").save(buffer, format="PNG")
    send(tab, buffer.getvalue())
    assert page.host.wait(120)
    state = tab.session.state
    assert state.start.startswith("picture-")
    first = tab.session.subject.point(state.start).reshape(8, 8)
    assert (first.diff(dim=0) > 0).all()
    send(tab, b"no picture")
    assert "PNG or JPEG" in page.host.text
    assert tab.session.state == state
    page.close()


@pytest.mark.parametrize(
    "state",
    [
        '{"nodes": 100000}',
        '{"world": "atlantis"}',
        '{"no_such": 1}',
        '{"nodes": "many"}',
        '{"regime": "fast"}',
    ],
)
def test_an_address_that_cannot_be_shown_gives_a_sentence_and_the_first_view(state):
    page = Page(Offer(), Turns(1), {"tab": [b"paths"], "paths": [state.encode()]})
    said = page.host.text
    assert said.startswith("Got ")
    assert page.host.wait()
    assert page.tabs["paths"].session.state.world == "v_mixture"
    page.close()


def test_a_fault_of_a_tab_is_one_sentence_and_the_others_open(monkeypatch, caplog):
    def broken(self, host, values):
        raise RuntimeError("a fault\nin two lines")

    monkeypatch.setattr("widgets.app.tabs.fisher.FisherTab.__init__", broken)
    page = Page(Offer(), Turns(1), {"tab": [b"fisher"], "paths": [QUICK.encode()]})
    assert page.host.text == "The computation failed with RuntimeError: a fault."
    assert "could not be opened" in caplog.text
    page.rail.chosen = "paths"
    assert page.host.wait(120)
    assert "● converged" in page.host.text
    page.close()


def test_the_fisher_tab_measures_what_the_formula_says(page):
    page.rail.chosen = "fisher"
    tab = page.tabs["fisher"]
    tab.controls["space"].value = "half_plane"
    assert page.host.wait(120)
    gesture(page, "fisher", "end", 2.0, 1.0)
    exact = oracle.half_plane_distance((0.0, 1.0), (2.0, 1.0))
    assert f"{exact:.5g}"[:5] in tab.facts.object
    assert tab.controls["end"].value == "2,1"
    assert [one.visible for one in page.side.objects] == [False, True]  # hidden, not taken away
    assert list(page.side.objects[1]) == tab.side
    assert "metric units" not in page.host.text
    assert "geodesic" in {trace.name for trace in tab.map.figure.data}
    shown, answer = tab.map.figure, tab.session.solve(tab.session.state, "coarse", threading.Event(), print)
    report = replace(answer.result.report, status=Status.MAX_ITERATIONS)
    early = replace(answer, result=replace(answer.result, report=report))
    tab._deliver(Outcome(answer.state, "coarse", early, "", stopped=False, seconds=0.0))
    assert "iteration limit reached" in page.host.text
    assert tab.map.figure is shown  # with its phases, which are measured on release
    gesture(page, "fisher", "end", 2.0, -1.0)
    assert "outside the domain" in page.host.text


def test_the_fisher_tab_cuts_a_slice_and_says_what_is_resolved(page):
    page.rail.chosen = "fisher"
    tab = page.tabs["fisher"]
    assert not tab.controls["zoom"].visible
    assert tab.bar.figure is None
    slice_of = {"space": "slice", "model": "fashion_latent", "latents": "decoder", "corners": "0;1;2"}
    tab._take(lambda: tab.session.state.but(**slice_of, resolution=8), "full")
    assert page.host.wait(120)
    assert all(tab.controls[name].visible for name in ("zoom", "corners", "measure", "resolution"))
    assert "resolved" in tab.bar.figure.layout.title.text
    assert "FLIPD at start" in tab.facts.object
    assert "normal bundle at end" in tab.facts.object
    tab.controls["zoom"].value = 24
    assert page.host.wait(120)
    assert "finer than rounding" in tab.bar.figure.layout.title.text
    tab.controls["middle"].value = "here"
    assert "two numbers" in page.host.text
    tab.controls["space"].value = "half_plane"
    assert page.host.wait(120)
    assert not tab.controls["zoom"].visible
    assert not tab.bar.objects


def test_the_anisotropy_tab_shows_both_architectures():
    page = open_page(
        tab="anisotropy", anisotropy='{"architecture": "unet8-time", "other": "dit8-2", "networks": 16}'
    )
    tab = page.tabs["anisotropy"]
    assert {"unet8-time", "dit8-2"} <= {trace.name for trace in tab.figures["spectrum"].figure.data}
    assert "16 model calls" in page.host.text
    page.close()


def test_one_click_of_the_anisotropy_tab_turns_the_images_into_another_basis():
    page = open_page(
        tab="anisotropy",
        anisotropy='{"architecture": "dit8-2", "other": "dit8-2", "networks": 16, "learner": "dit8-2"}',
    )
    tab = page.tabs["anisotropy"]
    tab.controls["basis"].value = "w_min"
    assert page.host.wait()
    assert "of the way from W_min to W_max" in page.host.text
    assert len(tab.figures["basis"].figure.layout.images) == 18
    tab.controls["basis"].value = "own"  # at once: nothing is computed again
    assert len(tab.figures["basis"].figure.layout.images) == 9
    tab.controls["learner"].value = "dit16-4"
    tab.align.clicks += 1
    assert page.host.wait()
    assert "images of the learner's size" in page.host.text.lower()
    tab.check.clicks += 1
    assert page.host.wait()
    assert "checks pass" in page.host.text
    page.close()


def test_the_anisotropy_tab_trains_a_pair_and_asks_the_opened_model():
    page = open_page(
        tab="anisotropy",
        anisotropy='{"architecture": "model", "other": "dit8-2", "networks": 16, "learner": "dit8-2", '
        '"steps": 2, "samples": 20}',
    )
    tab = page.tabs["anisotropy"]
    assert {"digits, reset", "dit8-2"} <= {trace.name for trace in tab.figures["spectrum"].figure.data}
    tab.train.clicks += 1
    assert page.host.wait()
    assert "Rank correlation" in page.host.text
    anchors = {"all zeros", "standard normal", "real against real"}
    for name in ("measurement", "curves"):
        assert anchors <= {trace.name for trace in tab.figures[name].figure.data}
    tab.resolve.clicks += 1
    assert page.host.wait()
    assert "Harmonics of digits" in page.host.text
    assert len(tab.figures["harmonics"].figure.layout.images) == 9
    tab.controls["architecture"].value = "unet8"
    assert page.host.wait()
    tab.controls["model"].value = "fashion"  # no architecture of the screen is the model's
    assert not tab.figures["harmonics"].objects
    page.close()


def test_the_anisotropy_tab_opens_no_file_of_the_server(tmp_path):
    page = open_page(tab="anisotropy", anisotropy=f'{{"architecture": "model", "model": "{tmp_path}"}}')
    assert "got the model" in page.host.text.lower()
    page.close()


@pytest.mark.parametrize("here", [True, False])
def test_only_visitors_at_the_machine_see_where_its_model_lies(tmp_path, here):
    path = str(tmp_path / "mine.safetensors")
    assert Offer(path, here=here).named("mine") == (path if here else "mine")
    assert Offer(path, here=here).named("fashion") == "fashion"


def test_every_tab_has_a_title(page):
    assert [name for name, _ in page.rail.names] == [kind.name for kind in TABS]
    assert page.rail.chosen == "paths"


BENCH = '{"world": "v_mixture", "lenses": "paths", "nodes": 7, "steps": 6, "background": "none"}'


@pytest.fixture
def bench():
    made = open_page(tab="bench", bench=BENCH)
    yield made
    made.close()


def test_the_bench_tab_compares_all_curves(bench):
    tab = bench.tabs["bench"]
    assert "straight line" in tab.table.object
    assert "path, mep" in {curve["name"] for curve in tab.canvas.curves}
    assert "converged" in tab.badge.object
    assert "lenses converged" in bench.host.text or "not converged" in bench.host.text
    tab._tell(tab.session.citations())
    assert tab.text.object.startswith("@")


def test_a_gesture_on_the_bench_is_its_state_and_a_saved_view_is_reopened(bench):
    tab = bench.tabs["bench"]
    saved = view_text(tab.bench.state)
    gesture(bench, "bench", "start", -3.5, 0.5)
    assert tab.controls["start"].value == "-3.5,0.5"
    assert "-3.5%2C0.5" in bench.rail.query
    data = base64.b64encode(saved.encode()).decode()
    tab.view.file = {"name": "view.yaml", "data": data, "count": 1}
    assert bench.host.wait(120)
    assert tab.bench.state.start == ""
    tab.view.file = {"name": "view.yaml", "data": base64.b64encode(b"- no view").decode(), "count": 2}
    assert bench.host.text.startswith("Got the uploaded view")
    assert tab.bench.state.start == ""
    other = saved.replace("start: ''", "start: -1,0.5")
    tab.canvas.dropped = {"name": "view.yaml", "text": other, "count": 1}
    assert bench.host.wait(120)
    assert tab.bench.state.start == "-1,0.5"


def drawing(value):
    buffer = io.BytesIO()
    Image.radial_gradient("L").resize((60, 60)).point(lambda v: min(255, v * value)).save(
        buffer, format="PNG"
    )
    return buffer.getvalue()


def test_two_pictures_of_ones_own_open_a_model_of_pictures_and_become_both_ends(bench):
    tab = bench.tabs["bench"]
    assert "opens the model fashion" in tab.pictures.fields["end"].label
    send(tab, drawing(1), "start")
    assert tab.bench.state.model == "fashion"
    assert "opens" not in tab.pictures.fields["end"].label
    send(tab, drawing(2), "end")
    assert bench.host.wait(120)
    state = tab.bench.state
    assert state.start.startswith("invert:picture-")  # light along its border, as no garment is
    assert state.end.startswith("invert:picture-")
    assert state.start != state.end
    assert "Shown inverted: start and end" in tab.pictures.note.object
    tab._take(lambda: state.but(end="7"))
    assert "Shown inverted: start," in tab.pictures.note.object  # the end is one of the model's own now
    tab._take(lambda: state)
    assert bench.host.wait(120)
    subject = tab.bench.place.subject
    point = subject.point(state.start)
    assert_close(point, -subject.point(state.start.removeprefix("invert:")), rtol=0, atol=0.02)
    assert point[0] < -0.9
    assert "path, mep" in tab.table.object
    own = tab._own_state()  # in a saved view, which knows no picture of this server
    again = read_view(view_text(own))
    assert_close(open_subject(model="fashion").point(again.start), point, rtol=0, atol=0)
    assert len(view_text(own)) < 40_000
    before = tab.bench.state
    send(tab, b"no picture", "end")
    assert bench.host.text.startswith("Got a file that is no such picture")
    assert tab.bench.state == before


def test_a_second_panel_differs_in_one_setting_and_what_differs_is_marked(bench):
    tab = bench.tabs["bench"]
    tab.second.setting.value, tab.second.value.value = "sigma", "0.8"
    assert bench.host.wait(120)
    assert "B: sigma = 0.8" in tab.second.objects[0].object
    for table in (tab.table.object, tab.second._table.object):
        assert "wb-differs" in table.split("</style>")[1]
    gesture(bench, "bench", "end", 2.0, 0.5)
    assert tab.second.beside.second.state.end == tab.bench.state.end == "2,0.5"
    tab.second.value.value = "400000"
    assert bench.host.text.startswith("Got sigma=400000")
    assert tab.second.objects == []
    tab.second.setting.value = ""
    assert bench.host.wait(120)
    assert "wb-differs" not in tab.table.object.split("</style>")[1]
    assert bench.host._common.workers.count(tab.bench) == 1
    assert len(bench.host._common.workers) == 2


def test_distortion_ellipses_are_drawn_on_demand(bench):
    tab = bench.tabs["bench"]
    assert "distortion" not in {curve["name"] for curve in tab.canvas.curves}
    tab.distortion.value = list(tab.distortion.options)
    assert "distortion" in {curve["name"] for curve in tab.canvas.curves}


def test_a_view_cannot_ask_for_the_servers_files_or_devices(bench):
    tab = bench.tabs["bench"]
    before = tab.bench.state
    hostile = view_text(before.but(start="/etc/hostname"))
    tab.view.file = {"name": "v", "data": base64.b64encode(hostile.encode()).decode(), "count": 1}
    assert bench.host.text.startswith("Got the point '/etc/hostname'")
    other = view_text(before.but(device="cuda:7"))
    tab.view.file = {"name": "v", "data": base64.b64encode(other.encode()).decode(), "count": 2}
    assert bench.host.wait(120)
    assert tab.bench.state == before
