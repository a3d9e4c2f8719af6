"""The contrastive tab without a browser, on a ring in place of the wake."""

import threading

import pytest
import torch

pytest.importorskip("panel")

from tests.oracles import conda as oracle
from widgets.app.offer import LARGEST, Offer
from widgets.app.page import Page
from widgets.app.tabs.conda import wake_scene
from widgets.app.turns import Turns
from widgets.sessions.conda_state import CondaCrossing, CondaScene
from workbench.conda.context import make_context
from workbench.errors import Cancelled
from workbench.lenses.conda import fit_conda


@pytest.fixture(scope="module")
def scene():
    torch.set_default_dtype(torch.float64)
    latents, angle = oracle.ring(count=200, dim=16, seed=0, period=29.3)
    context = make_context(200, torch.stack([angle.cos(), angle.sin()], dim=1))
    fit = fit_conda(latents, context, positives="time", dim=3, iterations=60, batch=48, rate=5e-3, restarts=2)

    def cross(progress, cancel):
        films = dict.fromkeys(("condition follows", "condition held"), latents[:5])
        return CondaCrossing(films, list("abcde"), "condition", "Between the conditions nothing is off")

    return CondaScene(fit, latents, (4, 4), lambda points, variables: points, "ring", (-1.0, 1.0), cross)


@pytest.fixture
def open_tab(scene, monkeypatch):
    monkeypatch.setattr("widgets.app.tabs.conda.wake_scene", lambda gate, progress, cancel: scene)
    pages = []

    def opened(state="{}"):
        page = Page(Offer(), Turns(1), {"tab": [b"conda"], "conda": [state.encode()]})
        pages.append(page)
        assert page.host.wait(120)
        return page, page.tabs["conda"]

    yield opened
    for page in pages:
        page.close()


def test_a_curve_follows_its_control_points(open_tab):
    page, tab = open_tab()
    before = tab.answer.path.points
    assert tab.film.figure is not None
    handle = tab.canvas.handles[0]
    tab.canvas.gesture = {
        "kind": "end",
        "id": handle["id"],
        "x": 0.1,
        "y": 0.2,
        "seq": tab.canvas.answered + 1,
    }
    assert page.host.wait(120)
    assert not torch.equal(tab.answer.path.points[0], before[0])
    assert tab.answer.path.points.shape == before.shape


def test_losses_stand_below_and_what_the_condition_does_is_one_click(open_tab):
    page, tab = open_tab()
    assert "nats" in tab.losses.figure.layout.yaxis.title.text
    assert tab.compare.visible
    tab._compared(None)
    assert page.host.wait(120)
    assert "Between the conditions" in page.host.text
    assert len(tab.crossing.figure.layout.images) == 10
    tab.controls["k"].value = 9
    assert page.host.wait(120)
    assert "converged" in page.host.text


@pytest.mark.parametrize(("ending", "magic"), [(".gif", b"GIF8"), (".npz", b"PK"), (".mp4", b"ftyp")])
def test_curve_and_films_are_downloaded(open_tab, ending, magic):
    _, tab = open_tab()
    written = tab._written(ending)
    assert written is not None
    assert magic in written.getvalue()[:16]


@pytest.mark.parametrize(
    "state", ['{"kind": "loop"}', '{"k": 200}', '{"anchors": "0 999"}', '{"colour": "red"}']
)
def test_an_address_that_cannot_be_shown_gives_the_first_view(open_tab, state):
    page, tab = open_tab(state)
    assert page.host.wait(120)
    assert tab.session.state.kind == "spline"
    assert tab.answer is not None
    tab.controls["k"].value = 9
    assert page.host.wait(120)
    assert tab.answer.state.k == 9


@pytest.mark.parametrize("name", ["k", "steps"])
def test_no_control_asks_for_more_than_the_page_bears(open_tab, name):
    page, tab = open_tab()
    before = tab.state
    tab.controls[name].value = LARGEST[name] + 1
    assert "at most on this page" in page.host.text
    assert tab.state == before


def test_the_first_map_tells_how_far_it_is_and_can_be_cancelled():
    told, cancel = [], threading.Event()

    def progress(share, words):
        told.append(share)
        if share > 0.2:  # the latents are under way
            cancel.set()

    with torch.no_grad(), pytest.raises(Cancelled, match=r"^cancelled before the latents were found"):
        wake_scene(Turns(1).turn, progress, cancel)
    assert told == sorted(told)
    assert 0.2 < told[-1] < 0.5


def test_who_waits_for_the_map_of_another_holds_no_turn(scene, monkeypatch):
    begun, go = threading.Event(), threading.Event()

    def slow(progress, cancel):
        begun.set()
        assert go.wait(60)
        return scene

    monkeypatch.setattr("widgets.app.tabs.conda._opened", [])
    monkeypatch.setattr("widgets.app.tabs.conda.open_scene", slow)
    turns = Turns(2)
    pages = [Page(Offer(), turns, {"tab": [b"conda"]}) for _ in range(3)]
    try:
        assert begun.wait(60)
        threading.Event().wait(1.0)  # the two others have come by now
        assert (turns.running, turns.waiting) == (1, 0)
        with turns.turn(threading.Event()):  # a fourth visitor computes meanwhile
            assert turns.running == 2
        go.set()
        assert all(page.host.wait(120) for page in pages)
        assert all(page.tabs["conda"].session is not None for page in pages)
    finally:
        go.set()
        for page in pages:
            page.close()
