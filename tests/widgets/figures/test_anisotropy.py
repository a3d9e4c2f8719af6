"""Figures of directions and of their test, as data: traces, names, titles, what is said of null spaces."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from widgets.figures.anisotropy import confidence_figure, figure, gallery_figure, rayleigh_figure
from widgets.figures.trials import comparison_figure, curves_figure, linear_figure, track_figure
from widgets.figures.turns import alignment_figure, turns_figure
from workbench.anisotropy.alignment import align
from workbench.anisotropy.closed_forms import colour_geometry, exact_geometry, transformer_geometry
from workbench.anisotropy.comparison import compare_trials
from workbench.anisotropy.distances import Baselines, SlicedDistance
from workbench.anisotropy.linear_theory import linear_diffusion
from workbench.anisotropy.neighbours import NeighbourDirections
from workbench.anisotropy.tracking import Track
from workbench.anisotropy.trials import Trial
from workbench.lenses.anisotropy import directions_of, find_directions


@pytest.fixture
def exact():
    return directions_of(transformer_geometry((1, 8, 8), 2, 32))


@pytest.fixture
def drawn():
    return find_directions("unet8", networks=60, seed=0, tol=1.0)


def trial(eigenvalue: float, distance: float, seed: int) -> Trial:
    distances = torch.tensor([4 * distance, distance])
    anchors = Baselines(*(SlicedDistance(level, 3 * level, 10) for level in (1.0, 0.63, 0.1)))
    rest = (distances, distances, 2 * distances, distances, distances, distances / 10, torch.ones(2))
    return Trial(seed, eigenvalue, torch.tensor([10, 20]), *rest, baselines=anchors)


def titled(drawing):
    return drawing.layout.title.text, drawing.layout.title.subtitle.text


def notes(drawing):
    return {a.name: a.text for a in drawing.layout.annotations}


def test_a_spectrum_ascends_and_names_what_its_groups_are_worth(exact):
    drawing = figure(exact)
    assert [t.name for t in drawing.data] == [
        "eigenvalues",
        "eigenvalues, degenerate block",
        "eigenvalues, null space",
    ]
    assert "λ_min left" in drawing.layout.xaxis.title.text
    assert drawing.layout.yaxis.type == "log"
    assert list(drawing.data[0].y) == sorted(drawing.data[0].y)
    null = drawing.data[-1]
    assert len(null.x) == 36 // 4
    assert null.marker.opacity < 0.5
    assert "36-dimensional null space" in null.customdata[0]


def test_an_estimate_has_its_error_and_its_trust(drawn):
    drawing = figure(drawn)
    names = [t.name for t in drawing.data]
    assert "eigenvalues, error" in names
    assert "blind to the noise level" in titled(drawing)[1]
    assert "60 model calls" in notes(drawing)["status"]


def test_two_architectures_share_the_axes(exact, drawn):
    names = {t.name for t in figure({"a": exact, "b": drawn}).data}
    assert {"a", "b", "a, null space", "b, error"} <= names


def test_confidence_draws_both_overlaps(drawn):
    drawing = confidence_figure(drawn)
    assert [t.name for t in drawing.data] == ["single direction", "with four neighbours either side"]
    assert_close(torch.tensor(drawing.data[0].y), drawn.spectrum.overlaps)
    assert drawing.layout.yaxis.range == (0, 1.05)


def test_a_gallery_says_where_a_picture_means_nothing(exact):
    drawing = gallery_figure(exact, indices=[0, 63])
    assert [i.name for i in drawing.layout.images] == ["direction 0", "direction 63"]
    assert "null space<br>of 36" in notes(drawing)["note 0"]
    assert "λ 0<br>" in notes(drawing)["note 0"]
    assert "block of 4" in notes(drawing)["note 63"]
    assert "predicted best on the left" in titled(drawing)[1]


def test_neighbours_carry_their_own_sign():
    other = NeighbourDirections(
        "neural anisotropy directions",
        "input",
        "descending",
        "large eigenvalues are preferred (opposite to score directions)",
        torch.arange(16.0).flip(0),
        torch.eye(16),
        torch.zeros(16),
    )
    drawing = gallery_figure(other, indices=[0, 15], shape=(1, 4, 4))
    assert "opposite to score directions" in titled(drawing)[1]


def test_points_get_a_sentence_instead_of_pictures():
    points = directions_of(exact_geometry(torch.diag(torch.arange(1.0, 5.0)), shape=(4,)))
    assert "no pictures" in notes(gallery_figure(points))["sentence"]
    assert "no map" in notes(rayleigh_figure(points.geometry))["sentence"]


@pytest.mark.parametrize(("side", "count"), [(4, 5), (6, 3)])
def test_maps_leave_out_bases_that_do_not_fit(side, count):
    drawing = rayleigh_figure(colour_geometry(torch.eye(side**2), (1, side, side)))
    assert len(drawing.layout.images) == count


def test_a_comparison_shows_the_trivial_generators():
    trials = [trial(e, d, s) for e, d in ((1.0, 0.2), (10.0, 3.0)) for s in range(3)]
    drawing = comparison_figure(compare_trials(trials), trials)
    assert {t.name for t in drawing.data} == {
        "seeds",
        "all zeros",
        "standard normal",
        "real against real",
        "median of seeds",
    }
    assert titled(drawing)[0] == "Rank correlation +1.00"
    assert "1 of 2 directions worse than zeros" in titled(drawing)[1]
    assert drawing.layout.xaxis.type == "log"
    null = [replace(t, eigenvalue=0.0, meaning="an arbitrary vector") for t in trials[:3]]
    drawing = comparison_figure(compare_trials(null + trials[3:]), null + trials[3:])
    assert drawing.layout.xaxis.type != "log"
    assert "λ_min: an arbitrary vector" in titled(drawing)[1].replace("<br>", " ")


def test_learning_curves_have_the_trivial_generators():
    drawing = curves_figure({"λ_min": trial(1.0, 0.2, 0), "λ_max": trial(9.0, 2.0, 0)})
    anchors = ["all zeros", "standard normal", "real against real"]
    assert [t.name for t in drawing.data] == ["λ_min", "λ_max", *anchors]
    assert list(drawing.data[0].x) == [10, 20]


def test_turned_data_stand_beside_the_trivial_generators():
    turned = {
        name: [trial(1.0, distance + 0.1 * seed, seed) for seed in range(3)]
        for name, distance in (("own", 2.0), ("w_min", 0.2), ("w_max", 3.0))
    }
    drawing = turns_figure(turned)
    lines = {t.name: t for t in drawing.data}
    assert list(lines["median of seeds"].x) == ["as they are", "W_min", "W_max"]
    assert list(lines["all zeros"].x) == ["as they are", "W_min", "W_max"]  # beside every one
    assert len(lines["all zeros"].y) == 3
    assert lines["median of seeds"].y == pytest.approx((2.1, 0.3, 3.1))
    heights = {"all zeros": 1.0, "standard normal": 0.63, "real against real": 0.1}
    assert {name: lines[name].y[0] for name in heights} == pytest.approx(heights)
    assert "as they are; W_max: worse than zeros; 3 seeds a basis" in titled(drawing)[1]
    alone = turns_figure({name: trials[:1] for name, trials in turned.items()})
    assert "1 seed a basis; the order is not decided" in titled(alone)[1]


def test_linear_theory_is_drawn_as_it_is():
    found = linear_diffusion(steps=20)
    drawing = linear_figure(found)
    assert_close(torch.tensor(drawing.data[0].y), found.distances)
    assert drawing.data[1].y[0] == pytest.approx(8**0.5)
    assert {"0.2", "0.5", "1", "2"} <= set(drawing.layout.xaxis.ticktext)  # whole numbers, no digits alone


def test_a_track_starts_at_no_angle():
    angles = torch.tensor([[0.0, 0.0], [0.1, 0.5]])
    track = Track(torch.tensor([0, 50]), torch.zeros(2, 4, 4), angles, 2 * angles, torch.ones(2), 3)
    drawing = track_figure(track)
    assert [t.name for t in drawing.data] == ["largest eigenvalues", "smallest eigenvalues", "along the data"]
    assert drawing.data[0].y == pytest.approx((0.0, 28.6479), abs=1e-3)
    assert "degrees" in drawing.layout.yaxis.title.text


def test_alignment_lies_between_its_bounds(exact):
    drawing = alignment_figure({"white": align(exact.geometry, torch.diag(torch.arange(1.0, 65.0)))})
    assert 0 <= drawing.data[0].x[0] <= 1
    assert drawing.layout.xaxis.range == (0, 1)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes_serialise(exact, theme):
    assert "null space" in figure(exact, theme=theme).to_json()
