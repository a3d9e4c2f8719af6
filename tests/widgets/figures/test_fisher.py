"""Figures of the Fisher lens as data: traces, names, axis titles, and what is left blank."""

import math

import pytest
import torch

from tests.unit.geodesics.cases import TORUS
from widgets.figures import fisher as draw
from widgets.figures.fisher import (
    certificate_line,
    figure,
    lengths_figure,
    map_figure,
    reading_of,
    sensitivity_figure,
    slopes_figure,
)
from workbench.fields import Window
from workbench.lenses.fisher import find_frozen_metric_curve, find_geodesic, measure_metric_field
from workbench.logpartition import PUBLISHED
from workbench.metrics import families, half_plane, hessian
from workbench.phases import exact_slope, measure_sensitivity


@pytest.fixture(scope="module")
def torus():
    with torch.random.fork_rng():
        return find_geodesic(
            TORUS, torch.tensor([0.0, 0.0]).double(), torch.tensor([0.0, 2.5]).double(), starts=1, levels=2
        )


@pytest.fixture(scope="module")
def plane():
    return measure_metric_field(
        half_plane(), Window((-1.0, 1.0), (-0.5, 2.0)), columns=24, rows=30, residual=True
    )


def names(drawing):
    return [trace.name for trace in drawing.data]


def test_map_shows_minima_saddle_and_the_straight_line(torus):
    drawing = figure(torus)
    assert names(drawing) == [
        "straight in the chart",
        "other geodesic",
        "saddle curve",
        "geodesic",
        "start",
        "end",
    ]
    assert drawing.layout.xaxis.title.text == "u"
    assert drawing.layout.yaxis.title.text == "v"
    assert "distance 6.79178" in drawing.layout.title.text
    best = drawing.data[3]
    assert list(best.x) == pytest.approx(torus.shortest.curve.points[:, 0].tolist())
    assert "negative directions 0" in best.hovertemplate
    assert any(note.name == "status" for note in drawing.layout.annotations)


def test_field_is_a_picture_with_ellipses_inside_their_cells(plane):
    drawing = map_figure(field=plane, reading="anisotropy", ellipses=6)
    assert names(drawing) == ["equal steps"]
    assert drawing.layout.images[0].source.startswith("data:image/png")
    assert "blank: no metric" in drawing.layout.title.subtitle.text
    x = [v for v in drawing.data[0].x if v is not None]
    y = [v for v in drawing.data[0].y if v is not None]
    assert min(y) > 0.0  # none where the metric is not defined
    assert -1.2 < min(x) < max(x) < 1.2
    assert None in drawing.data[0].x


def test_ellipses_are_steps_of_equal_length():
    field = measure_metric_field(families.gaussian(), Window((0.0, 1.0), (1.0, 2.0)), columns=9, rows=9)
    drawing = map_figure(field=field, ellipses=3)
    x, y = drawing.data[0].x, drawing.data[0].y
    ring = torch.tensor([[x[k], y[k]] for k in range(33)])
    centre = 0.5 * (ring.amax(dim=0) + ring.amin(dim=0))
    aspect = (ring[:, 0].max() - ring[:, 0].min()) / (ring[:, 1].max() - ring[:, 1].min())
    assert float(aspect) == pytest.approx(math.sqrt(2.0), rel=1e-6)  # ds costs sqrt(2) times d mu
    assert bool(torch.isfinite(centre).all())


def test_readings(plane):
    for reading in ("log_magnification", "largest", "anisotropy", "residual"):
        values = reading_of(plane, reading).values
        assert bool((torch.isnan(values) == plane.indefinite).all())
    with pytest.raises(ValueError, match="expected one of"):
        reading_of(plane, "colour")


def test_phase_boundary_marks():
    field = measure_metric_field(families.gaussian(), Window((0.0, 1.0), (1.0, 2.0)), columns=8, rows=8)
    labels = (torch.arange(8) >= 4).long().expand(8, 8)
    drawing = map_figure(field=field, labels=labels, ellipses=0)
    assert names(drawing) == ["phase boundary"]
    assert list(drawing.data[0].x) == pytest.approx([0.5] * 8)


def test_a_frozen_metric_curve_is_called_that():
    found = find_frozen_metric_curve(
        hessian.burg(), torch.tensor([0.2, 3.0]), torch.tensor([2.0, 0.5]), levels=1, nodes=17
    )
    drawing = figure(found, theme="dark")
    assert "frozen-metric curve" in names(drawing)
    assert "geodesic" not in names(drawing)
    assert "frozen metric" in drawing.layout.title.text


def test_lengths_table(torus):
    drawing = lengths_figure({"torus": torus})
    cells = drawing.data[0].cells.values
    assert list(cells[1][:3]) == ["levi-civita", "levi-civita", "saddle, index 1"]
    assert cells[2][0].startswith("6.79178")
    assert "speed spread" in certificate_line(torus.shortest)


def test_sensitivity_greys_what_is_rounding():
    single = torch.tensor([0.3, 0.4], dtype=torch.float32)
    found = measure_sensitivity(torch.sin, single, levels=40, control=torch.sin)
    drawing = sensitivity_figure(found)
    assert names(drawing) == ["sensitivity", "below rounding", "float64 control"]
    assert drawing.layout.xaxis.type == "log"
    assert max(drawing.data[1].x) <= found.limit < min(drawing.data[0].x)
    assert len(drawing.layout.shapes) == 1
    assert "float32" in drawing.layout.title.subtitle.text


def test_slopes():
    drawing = slopes_figure([0.25, 0.5, 0.8], [exact_slope(s) * 1.001 for s in (0.25, 0.5, 0.8)])
    assert names(drawing) == ["s exp(1 / 2s²)", "integrated flow"]
    assert "1.0e-03" in drawing.layout.title.subtitle.text


def test_what_cannot_be_drawn_says_so():
    flat = find_geodesic(
        families.gaussian(2), torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0.6, 0.8, 2.0]), starts=1, levels=1
    )
    assert "two coordinates" in figure(flat).layout.annotations[0].text
    assert "no geodesic" in map_figure().layout.annotations[0].text


def test_the_resolution_bar_says_what_is_rounding():
    fine = draw.resolution_figure(Window((0.0, 1e-7), (0.0, 1e-7)), 64, 3.8e-6)
    assert "finer than rounding" in fine.layout.title.text
    assert [shape.name for shape in fine.layout.shapes] == ["rounding"]
    assert fine.layout.shapes[0].x1 == pytest.approx(3.8e-6)
    coarse = draw.resolution_figure(Window((0.0, 1.0), (0.0, 1.0)), 65, 3.8e-6)
    assert coarse.data[0].x == pytest.approx((1.0 / 64.0, 1.0))
    assert "resolved" in coarse.layout.title.text


def test_our_errors_stand_beside_the_published_ones():
    drawing = draw.published_figure({"8 sites": (0.03, 0.07, 0.08)}, PUBLISHED["tasep"])
    assert [trace.name for trace in drawing.data] == ["8 sites", "published"]
    assert tuple(drawing.data[1].y) == (0.0112, 0.1165, 0.1135)
    assert "128 sites" in drawing.layout.title.subtitle.text


def test_the_staircase_is_drawn_along_the_row_with_most_phases():
    gradient = torch.zeros(8, 8, 2, dtype=torch.float64)
    gradient[:, 4:, 0] = 1.0
    labels = (torch.arange(8) > 3).long().expand(8, 8)
    drawing = draw.staircase_figure(gradient, Window((0.0, 1.0), (0.0, 1.0)), labels=labels)
    assert tuple(drawing.data[0].y) == (-0.5,) * 4 + (0.5,) * 4
    assert [shape.name for shape in drawing.layout.shapes] == ["phase boundary"]
    assert drawing.layout.shapes[0].x0 == pytest.approx(0.5)
    assert "b = 0.571" in drawing.layout.title.subtitle.text  # the middle one where all are alike
    labels = torch.zeros(8, 8, dtype=torch.long)
    labels[1, 2:5] = 1
    drawing = draw.staircase_figure(gradient + 7.0, Window((0.0, 1.0), (0.0, 1.0)), labels=labels)
    assert [shape.name for shape in drawing.layout.shapes] == ["phase boundary"] * 2
    assert tuple(drawing.data[0].y) == (-0.5,) * 4 + (0.5,) * 4  # a potential's affine part means nothing
    assert "b = 0.143" in drawing.layout.title.subtitle.text


def test_every_row_of_the_table_of_lengths_has_room():
    result = find_geodesic(
        hessian.burg(), *torch.tensor([[0.2, 3.0], [2.0, 0.5]], dtype=torch.float64), starts=1
    )
    short, long = (
        draw.lengths_figure({label: result}) for label in ("Burg", "a metric whose name is long " * 3)
    )
    assert long.layout.height > short.layout.height + 40
