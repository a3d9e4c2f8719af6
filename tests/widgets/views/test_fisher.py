"""The Fisher view without a browser: move a point, let the scheduler finish, read what is shown."""

import dataclasses
import json
import math
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.oracles import fisher as oracle
from widgets.scheduling import Outcome
from widgets.sessions.fisher import FisherSession
from widgets.views import VIEWS
from widgets.views.fisher import FisherExplorer, FisherState
from workbench.cards import find_card, read_card
from workbench.errors import Cancelled, SettingError
from workbench.headless.catalog import open_notebook
from workbench.headless.parameters import declared
from workbench.memory import PROBE
from workbench.phases import LatentSlice, latent_slice
from workbench.report import Status
from workbench.worlds import load_world
from workbench.zoo import load_model, save_model


@pytest.fixture
def view():
    made = FisherExplorer("half_plane")
    assert made.wait()
    yield made
    made.close()


def unmeasured(answer):
    """An answer while dragging that did not converge, before its window was measured in full."""
    report = replace(answer.result.report, status=Status.MAX_ITERATIONS)
    result = replace(answer.result, report=report)
    return replace(answer, speed="coarse", result=result, labels=None, slope=None)


def drag(view, point, x, y, *, kind="end"):
    view.canvas.gesture = {"kind": kind, "id": point, "x": x, "y": y, "seq": view.canvas.answered + 1}
    assert view.wait()


def test_the_first_answer_is_right_and_certified(view):
    exact = oracle.half_plane_distance((0.0, 1.0), (3.0, 0.5))
    assert view.result.distance.value == pytest.approx(exact, rel=1e-8)
    assert "energy/length² − 1" in view.facts.value
    assert "converged" in view.status.text
    assert {"geodesic", "straight in the chart"} <= {curve["name"] for curve in view.canvas.curves}
    assert "geodesic" in [trace.name for trace in view.map.figure.data]
    assert view.canvas.field_shape == [64, 64]
    assert FisherExplorer in VIEWS


def test_dragging_gives_a_coarse_answer_and_release_the_full_one(view):
    drag(view, "end", 2.0, 1.5, kind="move")
    assert view.answer.speed == "coarse"
    drag(view, "end", 2.0, 1.0)
    assert view.answer.speed == "full"
    assert view.state.end == "2,1"
    assert view.result.distance.value == pytest.approx(
        oracle.half_plane_distance((0.0, 1.0), (2.0, 1.0)), rel=1e-8
    )


def test_another_space_starts_at_its_own_ends(view):
    view.controls["space"].value = "torus"
    assert view.wait()
    assert view.state.end == ""
    assert view.result.distance.value == pytest.approx(6.791775610664, rel=1e-6)
    assert "saddle curve" in {curve["name"] for curve in view.canvas.curves}
    assert view.canvas.x_title == "u"


def test_a_point_outside_the_domain_gets_one_sentence(view):
    drag(view, "start", 0.0, -1.0)
    assert "outside the domain" in view.status.text
    assert "Traceback" not in view.status.text


def test_state_is_the_parameters_cell_of_the_notebook(view):
    cell = view.to_parameters()
    view.from_parameters(cell.replace("nodes: int = 33", "nodes: int = 17"))
    assert view.wait()
    assert view.state.nodes == 17
    assert json.loads(json.dumps(dataclasses.asdict(view.state)))["space"] == "half_plane"
    path = Path(__file__).parents[3] / "notebooks" / "20_fisher.ipynb"
    found = {p.name: p.default for p in declared(open_notebook(path)).parameters}
    assert found == dataclasses.asdict(FisherState())


def test_what_cannot_be_shown_is_said(view):
    with pytest.raises(SettingError, match="one of tasep"):
        FisherExplorer("klein_bottle")
    with pytest.raises(SettingError, match="unknown parameter"):
        view.from_parameters({"colour": "red"})
    view.state = view.state.but(start="a,b")
    assert "two numbers" in view.status.text


def test_a_slice_of_a_model_is_zoomed_until_rounding_takes_over(view):
    view.state = view.state.but(space="slice", model="fashion_latent", latents="decoder", corners="0;1;2")
    assert view.wait()
    assert view.answer.own_length == pytest.approx(view.result.distance.value, rel=0.1)
    assert "in the model" in view.facts.value
    assert view.controls["zoom"].layout.display is None
    assert "phase boundary" in [trace.name for trace in view.map.figure.data]
    assert "resolved" in view.bar.figure.layout.title.text
    assert "FLIPD at end" in view.facts.value
    assert "of 16: not on the data" in view.facts.value  # in a plane between samples the score is large
    assert len(view.answer.dimensions) == 2
    view.controls["measure"].value = "learned"
    assert view.wait()
    assert "learned Hessian" in view.result.metric
    assert view.answer.own_length == pytest.approx(view.result.distance.value, rel=0.1)
    view.controls["measure"].value = "features"
    view.controls["zoom"].value = 24
    assert view.wait()
    assert view.session.space.x[1] - view.session.space.x[0] == pytest.approx(2.0**-24)
    assert "below rounding" in view.facts.value
    assert "below rounding" in [shape.name for shape in view.map.figure.layout.shapes]
    assert "finer than rounding" in view.bar.figure.layout.title.text
    drag(view, "end", 0.5, 0.5, kind="move")
    assert view.answer.speed == "coarse"
    view.controls["corners"].value = "0;1"
    assert "three points" in view.status.text


def test_a_model_from_a_file_is_cut_too(view, tmp_path):
    model, facts = load_model("ring"), read_card(find_card("ring"))
    path = save_model(model.net, {**facts, "name": "own"}, tmp_path)
    view.state = view.state.but(space="slice", model=str(path.parent))
    assert view.wait()
    assert "picture pullback of" in view.result.metric
    view.state = view.state.but(model="nothing_of_that_name")
    assert "nothing_of_that_name" in view.status.text


@pytest.fixture
def bare(monkeypatch):
    """A slice without a sampler, whose features are counted by rows."""
    rows = []

    def features(pictures):
        rows.append(len(pictures))
        return torch.tanh(3.0 * pictures)

    plane = LatentSlice(None, features, torch.tensor([[0.0, 0.0], [1.0, 0.2], [-0.1, 1.0]]))
    monkeypatch.setattr("widgets.sessions.fisher_state._open_plane", lambda *cut: plane)
    return rows


def asked(session, state, *, speed="full", cancel=None, progress=lambda share, words: None):
    return session.solve(state, speed, cancel or threading.Event(), progress)


def test_the_full_field_is_one_batched_evaluation(bare):
    state = FisherState(space="slice", resolution=256)
    answer = asked(FisherSession(state), state, speed="full")
    assert answer.field.matrices.shape == (256, 256, 2, 2)
    assert bare[:2] == [PROBE, 65536]
    assert max(bare[2:]) < 2000  # nothing but the length of the curve afterwards
    bare.clear()
    asked(FisherSession(state), state, speed="coarse")
    assert bare[0] == 144


def test_a_field_is_cancelled_between_the_steps_of_its_flow(monkeypatch):
    corners = torch.tensor([[-1.5, -1.5], [1.5, -1.5], [-1.5, 1.5]])
    plane = replace(latent_slice(load_world("g3"), corners=corners, steps=6, dtype=torch.float64), model=None)
    monkeypatch.setattr("widgets.sessions.fisher_state._open_plane", lambda *cut: plane)
    state = FisherState(space="slice")
    session, cancel, said = FisherSession(state), threading.Event(), []

    def tell(share, words):
        said.append(words)
        if words.startswith("step 3 of 6"):
            cancel.set()

    with pytest.raises(Cancelled, match="measurement of the field was cancelled"):
        asked(session, state, cancel=cancel, progress=tell)
    assert said[-1] == "step 3 of 6 of the flow"
    coarse = asked(session, state, speed="coarse")
    cancel.clear()
    stopped = asked(session, state, cancel=cancel, progress=tell)
    assert stopped.field is coarse.field
    cancel.clear()
    assert asked(session, state).field.indefinite.shape == (16, 16)
    assert not any(words.startswith("step 4") for words in said)


def test_the_flow_of_two_gaussians_shows_its_exact_steepness_and_is_zoomed(view):
    view.controls["space"].value = "two_gaussians"
    assert view.wait()
    exact = 0.5 * math.exp(2.0)
    assert view.answer.slope == pytest.approx(exact, rel=1e-4)
    assert "s exp(1 / 2s²)" in [trace.name for trace in view.bar.figure.data]
    assert "phase boundary" in [trace.name for trace in view.map.figure.data]
    shown = (view.map.figure, view.lengths.figure, view.bar.figure)
    early = unmeasured(view.answer)
    view._deliver(Outcome(early.state, "coarse", early, "", stopped=False, seconds=0.0))
    assert view.answer is early
    assert "iteration limit reached" in view.status.text
    assert (view.map.figure, view.lengths.figure, view.bar.figure) == shown
    assert view.controls["width"].layout.display is None
    assert view.controls["zoom"].layout.display is None
    assert view.controls["model"].layout.display == "none"
    view.controls["zoom"].value = 8
    assert view.wait()
    assert view.session.space.x == pytest.approx((-(2.0**-7), 2.0**-7))
    assert float(view.answer.field.largest.min()) ** 0.5 == pytest.approx(exact, rel=1e-2)  # level: smooth
