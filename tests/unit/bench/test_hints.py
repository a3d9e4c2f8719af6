"""Hints: cheap, close to the full answer where the last one was, and never a part of a full answer."""

import math
import threading

import pytest
import torch
from torch.testing import assert_close

from workbench.bench import BenchState, ContentCache, answer
from workbench.bench.bench import Bench
from workbench.bench.hints import carried, hint_settings
from workbench.bench.lenses import lens_named
from workbench.curves import Curve, straight
from workbench.lenses.paths import find_path
from workbench.report import Status
from workbench.subjects import open_subject
from workbench.worlds import deviation

pytestmark = pytest.mark.filterwarnings("ignore::workbench.errors.ConvergenceWarning")  # hints may stop early

FULL = {"regime": "mep", "sigma": None, "nodes": 33, "steps": None, "gamma": 7.0}


def test_a_carried_curve_has_the_new_ends_and_keeps_its_shape():
    a, b = torch.tensor([0.0, 0.0]).double(), torch.tensor([4.0, 2.0]).double()
    moved = (torch.tensor([1.0, -1.0]).double(), torch.tensor([2.0, 5.0]).double())
    assert_close(carried(straight(a, b, 9), moved, 5).points, straight(*moved, 5).points)
    bent = Curve.through(torch.tensor([[0.0, 0.0], [1.0, 3.0], [4.0, 2.0]]).double())
    assert_close(carried(bent, (a, b), 3).points, bent.points)
    assert_close(carried(bent, (a + 1.0, b + 1.0), 3).points, bent.points + 1.0)


@pytest.mark.parametrize(
    ("world", "start"),
    [
        pytest.param("v_mixture", "-2.8,0.2", marks=pytest.mark.slow),  # solved three times along the noise
        ("muller_brown", "-0.5,1.3"),
    ],
)
def test_a_hint_from_the_last_path_is_close_to_the_full_answer_at_a_twentieth_of_its_calls(world, start):
    subject = open_subject(world=world)
    first, end = subject.ends()
    settings = FULL | {"regime": subject.regimes[0]}
    last = find_path(subject.model, first, end, measure_share=False, **settings)
    ends = (subject.point(start), end)
    hint = find_path(
        subject.model, *ends, measure_share=False, **hint_settings(subject, ends, settings, last.curve)
    )
    full = find_path(subject.model, *ends, measure_share=False, **settings)
    assert float(deviation(hint.curve.points, full.curve.points).max()) < 0.1
    assert hint.barrier.value == pytest.approx(full.barrier.value, abs=0.05, rel=5e-3)  # between 13 images
    assert hint.report.model_calls < 500
    assert hint.curve.points[0].tolist() == ends[0].tolist()


@pytest.mark.parametrize("regime", ["mep", "transport", "principal"])
def test_a_hint_in_a_network_takes_a_dozen_batches(regime):
    subject = open_subject(model="digits")
    ends = subject.ends("0", "9")
    settings = FULL | {"regime": regime}
    hint = find_path(subject.model, *ends, measure_share=False, **hint_settings(subject, ends, settings))
    assert hint.report.model_calls < 40
    assert hint.curve.nodes == 5


def test_hints_start_from_the_last_answers_only_between_the_same_via_points():
    bench = Bench(world="two_wells", regimes="static", lenses="paths")
    bench.refresh()
    assert bench.wait()
    state = bench.state
    assert [said.lens for said in bench._near(state.but(start="-1.9,0.2"))] == ["paths"]
    assert bench._near(state.but(via="0,1")) == ()
    assert bench._near(state.but(sigma=0.3)) == ()
    bench.close()


def test_what_was_looked_at_before_does_not_change_the_full_answer():
    asked = {"world": "two_wells", "regimes": "static", "lenses": "paths", "start": "-1.8,0.3"}
    fresh = Bench(**asked)
    dragged = Bench(**{**asked, "start": "-2.2,-0.4"})
    dragged.refresh()
    assert dragged.wait()
    dragged.change(speed="coarse", start="-1.9,0.1")
    assert dragged.wait()
    dragged.change(start="-1.8,0.3")
    fresh.refresh()
    assert dragged.wait()
    assert fresh.wait()
    one, other = (bench.answers["paths"].lines[2].points for bench in (fresh, dragged))
    assert_close(one, other, rtol=0.0, atol=0.0)
    fresh.close()
    dragged.close()


def test_a_first_sight_of_a_geodesic_says_where_it_is_ends_when_asked_and_is_then_not_kept():
    state = BenchState(world="v_mixture", metric="density", lenses="fisher")
    said, stop, cache = [], threading.Event(), ContentCache()
    asked = {"resolution": "coarse", "cache": cache, "progress": lambda share, words: said.append(words)}
    stop.set()
    cut = answer(lens_named("fisher"), state, cancel=stop, **asked)
    assert cut.report.status is Status.CANCELLED
    assert cut.report.iterations == 1
    assert said == ["relaxing the geodesic at first sight"]
    stop.clear()
    whole = answer(lens_named("fisher"), state, cancel=stop, **asked)
    assert whole.report.iterations > 1


def test_a_first_sight_in_a_network_goes_through_the_via_points():
    state = BenchState(model="digits", metric="score", lenses="fisher", start="0", end="9", via="3")
    subject = open_subject(model="digits")
    seen = answer(lens_named("fisher"), state, resolution="coarse").lines[0]
    points, via = seen.points.double(), subject.points("3").double()
    assert seen.name == "straight line through the via points, not relaxed"
    assert int((points == via).all(dim=1).sum()) == 1
    bent = answer(lens_named("fisher"), state.but(via="3;5"), resolution="coarse").lines[0]
    assert bent.solved.value != seen.solved.value
    assert math.isfinite(bent.solved.value)
