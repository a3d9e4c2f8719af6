"""What each lens says at two points, against formulas; and what it says when it has nothing to say."""

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import bench as oracle
from workbench.bench import BENCH_LENSES, Bench, BenchState, ContentCache, answer
from workbench.bench.geodesics import metric_of
from workbench.bench.lenses import lens_named
from workbench.bench.places import Place, place_of, subject_of_state
from workbench.embeddings import Identity
from workbench.errors import SettingError
from workbench.fields import Window
from workbench.models import Frame
from workbench.report import Status
from workbench.subjects import Subject
from workbench.worlds.mixture import GaussianMixture


def _mixture(c1, c2, a):
    return GaussianMixture(
        "pair",
        torch.ones(2),
        torch.tensor([[-a, 0.0], [a, 0.0]]),
        torch.diag(torch.tensor([c1, c2])).expand(2, 2, 2).contiguous(),
    )


def _place(model, start, end):
    subject = Subject(model, model.frame, "start", "end", None, {"start": start, "end": end}, None)
    return Place(subject, Identity(), Window((-4.0, 4.0), (-4.0, 4.0)), None)


def test_the_posterior_ellipse_is_the_posterior_covariance():
    model = _mixture(0.25, 2.0, 1.0)
    place = _place(model, torch.zeros(2), torch.tensor([3.0, 0.0]))
    said = answer(lens_named("anisotropy"), BenchState(sigma=0.7, lenses="anisotropy"), place)
    first, second = oracle.posterior_variances(0.25, 2.0, 1.0, 0.7)
    root = said.ellipses[0].root
    assert_close(root @ root, torch.diag(torch.tensor([first, second])), rtol=1e-10, atol=1e-12)
    assert said.ellipses[0].kind == "posterior"


def test_a_density_geodesic_through_a_gaussian_has_its_integral_as_length():
    model = GaussianMixture("round", torch.ones(1), torch.zeros(1, 2), torch.eye(2)[None] * 0.49)
    place = _place(model, torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 0.0]))
    state = BenchState(metric="density", lenses="fisher", nodes=33)
    said = answer(lens_named("fisher"), state, place)
    straight = oracle.gaussian_density_length(0.7, 1.0, 0.5)
    assert said.lines[0].solved.value <= straight * (1 + 1e-6)
    assert said.lines[0].solved.value == pytest.approx(straight, rel=1e-4)


def test_the_metric_ball_is_the_inverse_root_of_the_metric():
    model = GaussianMixture("round", torch.ones(1), torch.zeros(1, 2), torch.eye(2)[None])
    place = _place(model, torch.tensor([2.0, 0.0]), torch.tensor([0.0, 1.0]))
    said = answer(lens_named("fisher"), BenchState(metric="score", weight=0.5, lenses="fisher"), place)
    # score (-2, 0): g = diag(1 + 0.5 * 4, 1)
    wanted = torch.diag(torch.tensor([1.0 / math.sqrt(3.0), 1.0]))
    assert_close(said.ellipses[0].root, wanted, rtol=1e-9, atol=1e-12)


def test_the_score_metric_measures_a_graph():
    model = GaussianMixture("round", torch.ones(1), torch.zeros(1, 2), torch.eye(2)[None])
    subject = _place(model, torch.zeros(2), torch.ones(2)).subject
    metric = metric_of("score", subject, 0.0, 0.5)
    step = torch.tensor([[0.3, 0.0]])
    speed = float(metric.inner(torch.tensor([[2.0, 0.0]]), step, step).sqrt())
    assert speed == pytest.approx(oracle.graph_length(2.0, 0.3, 0.5))


def test_paths_reach_the_known_barrier(valley):
    said = valley.answer("paths")
    assert {line.kind for line in said.lines} == {"straight", "slerp", "path", "exact"}
    assert dict(said.facts)["own barrier, static"].value == pytest.approx(1.587018, abs=1e-4)
    assert said.report.converged
    assert said.provenance.seed == 0


def test_a_geodesic_comes_with_its_certificate(valley):
    facts = dict(valley.answer("fisher").facts)
    assert facts["energy gap"].value < 1e-5
    assert facts["negative directions"].value == 0


def test_a_formula_has_no_architecture_and_a_network_has(valley, ring):
    assert "no architecture" in valley.answer("anisotropy").notes[0]
    said = ring.answer("anisotropy")
    assert {along.line for along in said.readings} == {"straight line", "path, mep"}
    assert "x = 0" in said.notes[-1]
    assert all(bool((along.values > 0).all()) for along in said.readings)


@pytest.mark.parametrize(
    ("state", "lens", "words"),
    [
        (BenchState(world="muller_brown"), "fisher", "energy without a density"),
        (BenchState(world="muller_brown", metric="euclidean"), "anisotropy", "an energy"),
        (BenchState(world="muller_brown"), "conda", "No context"),
        (BenchState(model="ring", metric="density"), "fisher", "without a density"),
        (BenchState(model="ring"), "conda", "No context"),
    ],
)
def test_a_lens_with_nothing_to_say_says_one_sentence_and_draws_nothing(state, lens, words):
    said = answer(lens_named(lens), state)
    assert words in said.sentence
    assert said.sentence.endswith(".")
    assert "\n" not in said.sentence
    assert not said.says_something
    assert said.lines == said.ellipses == said.facts == ()


def test_the_same_question_is_computed_once_and_shared_between_lenses():
    cache = ContentCache()
    state = BenchState(world="two_wells", regimes="static", lenses="paths")
    place = place_of(state, subject_of_state(state))
    one = answer(lens_named("paths"), state, place, resolution="coarse", cache=cache)
    before = cache.use
    again = answer(
        lens_named("paths"), state.but(background="score"), place, resolution="coarse", cache=cache
    )
    assert cache.use.misses == before.misses
    assert cache.use.hits > before.hits
    assert_close(one.lines[2].points, again.lines[2].points, rtol=0.0, atol=0.0)


def test_another_guidance_is_another_model():
    state = BenchState(model="digits", condition="3", guidance=1.5)
    opened = subject_of_state(state)
    assert opened.frame.guidance == 1.5
    assert opened.frame.condition == "3"
    with pytest.raises(SettingError, match="guidance"):
        subject_of_state(BenchState(world="ring", guidance=1.0))


def test_equal_ends_are_refused():
    with pytest.raises(SettingError, match="equal ends"):
        answer(lens_named("paths"), BenchState(world="two_wells", start="1,0", end="1,0"))


def test_every_name_of_a_state_has_its_lens():
    assert [lens.name for lens in BENCH_LENSES] == list(BenchState().lens_names)


@pytest.mark.parametrize("projection", ["plane", "pca", "slice"])
def test_a_projection_that_a_subject_lacks_is_refused_or_made(projection):
    state = BenchState(model="ring", projection=projection)
    subject = replace(subject_of_state(state), choices=None)
    if projection == "pca":
        with pytest.raises(SettingError, match="principal"):
            place_of(state, subject)
    else:
        assert (
            place_of(state, subject)
            .says(torch.randn(5, 2, dtype=subject.dtype))
            .startswith("the plane itself" if projection == "plane" else "slice")
        )


@pytest.mark.slow
def test_the_contrastive_trajectory_follows_the_arc_of_the_mixture():
    bench = Bench(world="v_mixture", lenses="conda")
    coarse = bench.ask(resolution="coarse").answer("conda")
    assert "on release" in coarse.sentence
    said = bench.ask().answer("conda")
    assert dict(said.facts)["off the known path"].value < 1.0  # the straight line is 4.4 off
    assert said.notes[0].startswith("context: component and arc parameter")
    assert bench.ask(bench.state.but(start="-2.5,0"), resolution="coarse").answer("conda").lines
    far = bench.ask(bench.state.but(start="30,30", end="30.5,30"), resolution="coarse").answer("conda")
    assert far.report.status is Status.MAX_ITERATIONS  # a curve between other points
    assert any("off an end, more than the two ends are apart (0.5)" in text for text in far.report.warnings)
    assert bench.ask().answer("conda").report.converged


def test_a_frame_names_the_guidance():
    assert str(Frame("m", (2,), 0.0, 1.0, guidance=2.0)) == "m, guidance 2"
