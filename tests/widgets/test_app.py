"""The page without a browser: the same session, numbers and sentences as in the notebook."""

import pytest

from widgets.state import PathState

pytest.importorskip("panel")

from widgets.app import PathPage


@pytest.fixture
def page():
    made = PathPage(PathState(world="v_mixture", regime="static", nodes=17))
    assert made.wait()
    yield made
    made.close()


def test_a_page_shows_its_first_answer(page):
    assert "● converged" in page.status.object
    assert "exact barrier" in page.facts.object
    assert page.profile.object.data[0].name == "profile"
    assert {"path", "straight line"} <= {curve["name"] for curve in page.canvas.curves}


def test_a_gesture_moves_the_end_and_is_answered(page):
    page.canvas.gesture = {"kind": "end", "id": "start", "x": -3.5, "y": 0.5, "seq": 1}
    assert page.wait()
    assert page.canvas.answered == 1
    assert page.start.value == "-3.5,0.5"
    assert page.session.state.start == "-3.5,0.5"


def test_bad_input_is_one_sentence(page):
    page.start.value = "nowhere"
    assert "Got the point &#x27;nowhere&#x27;" in page.status.object
    assert "Traceback" not in page.status.object


def test_another_world_is_another_subject(page):
    page.subject.value = "muller_brown"
    assert page.wait()
    assert page.session.subject.frame.name == "muller_brown"
    assert page.regime.options == ["static"]


def test_the_copied_text_is_the_cell(page):
    page.copy.param.trigger("clicks")
    assert page.parameters.object.startswith("world: str = 'v_mixture'")
    assert page.canvas.clip == page.parameters.object
