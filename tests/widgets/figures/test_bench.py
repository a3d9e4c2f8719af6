"""Figures of the bench as data: curves, ellipses, marks, bars, table and badge."""

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from widgets.figures.bench import (
    badge_html,
    ellipse_coords,
    ellipse_scale,
    field_limits,
    map_figure,
)
from widgets.figures.comparison import comparison_columns, comparison_figure, comparison_html, comparison_rows
from widgets.figures.scrubber import scrubber_figure
from widgets.figures.strips import strip_figure
from widgets.theme import theme_of
from workbench.bench import Bench, BenchState, Ellipse, Line, Scrub, filmstrip_of, strip_of, trust_of
from workbench.bench.events import LevelEvent
from workbench.bench.outlines import distortion_outlines
from workbench.metrics import Chart, Euclidean

LOOK = theme_of("light")


@pytest.fixture(scope="module")
def view():
    torch.set_default_dtype(torch.float64)
    state = BenchState(
        world="v_mixture", metric="density", regimes="static", nodes=17, lenses="paths,fisher,anisotropy"
    )
    return Bench(state).ask(resolution="coarse")


def test_the_map_has_every_curve_by_its_name_as_it_is(view):
    drawing = map_figure(view)
    names = [trace.name for trace in drawing.data]
    assert {"straight line", "slerp", "path, static", "geodesic", "start", "end"} <= set(names)
    path = next(trace for trace in drawing.data if trace.name == "path, static")
    line = next(line for line in view.lines if line.name == "path, static")
    assert list(path.x) == line.points[:, 0].tolist()
    assert path.line.shape == "linear"


def test_the_map_names_its_projection_field_and_trust(view):
    drawing = map_figure(view)
    assert "projection: the plane itself; pairs shown at 1.00" in drawing.layout.title.subtitle.text
    assert "log p" in drawing.layout.title.subtitle.text
    status = next(note for note in drawing.layout.annotations if note.name == "status")
    assert "coarse" in status.text
    assert "model calls" in status.text


def test_an_ellipse_is_its_matrix_on_the_circle():
    one = Ellipse("e", "posterior", torch.tensor([1.0, 2.0]), torch.diag(torch.tensor([3.0, 0.5])))
    coords = ellipse_coords(one)
    assert_close(((coords - one.centre) / torch.tensor([3.0, 0.5])).norm(dim=-1), torch.ones(73))
    assert_close(coords[0], coords[-1])


def test_metric_balls_share_one_scale_and_posteriors_are_true_to_scale():
    big = Ellipse("b", "metric", torch.zeros(2), 4.0 * torch.eye(2))
    small = replace(big, root=torch.eye(2))
    posterior = replace(big, kind="posterior", root=100.0 * torch.eye(2))
    scale = ellipse_scale([big, small, posterior], 10.0)
    assert scale == pytest.approx(0.07 * 10.0 / 4.0)
    assert ellipse_scale([posterior], 10.0) == 1.0


def test_in_the_plane_itself_distortion_ellipses_are_circles(view):
    rings = distortion_outlines(view)
    assert rings
    radii = [(ring - ring[:-1].mean(0)).norm(dim=-1) for ring in rings]
    for radius in radii:
        assert_close(radius, radius[0].expand_as(radius), rtol=1e-6, atol=1e-9)


def test_a_curve_that_leaves_the_plane_squeezes_its_ellipses():
    torch.set_default_dtype(torch.float64)
    bench = Bench(BenchState(model="digits", lenses="paths", background="none"))
    result = bench.ask(resolution="coarse")
    out = torch.zeros(9, 64, dtype=bench.place.subject.dtype)
    off = torch.randn(64, generator=torch.Generator().manual_seed(0), dtype=out.dtype)
    directions = bench.place.section.directions
    off = off - (off @ directions.T) @ directions  # perpendicular to the plane
    out += torch.linspace(0, 1, 9, dtype=out.dtype)[:, None] * (directions[0] + off / off.norm())
    said = replace(result.answers[0], lines=(Line("leaving", "path", out, 0.0),))
    rings = distortion_outlines(replace(result, answers=(said,)), count=3)
    extents = rings[1].amax(0) - rings[1].amin(0)
    assert float(extents[0] / extents[1]) == pytest.approx(1 / math.sqrt(2), abs=1e-3)


def test_the_table_has_the_chosen_length_first_and_the_signs_of_trust(view):
    columns, rows = comparison_columns(view.table), comparison_rows(view.table)
    assert list(columns)[:2] == ["line", "length density"]
    assert "errors" not in columns  # exact answers are not looked for while a point moves
    solved = next(row for row in rows if row["line"] == "path, static")
    assert solved["residual"].startswith(("●", "▲"))
    assert next(row for row in rows if row["line"] == "straight line")["residual"] == "–"
    figure = comparison_figure(view.table)
    assert figure.data[0].name == "comparison"
    assert len(figure.data[0].cells["values"]) == len(columns)


def test_the_html_table_marks_what_differs_and_escapes(view):
    text = comparison_html(view.table, LOOK, changed=frozenset({"slerp"}))
    assert text.count("wb-differs") == 2  # the style and one row
    assert '<th scope="row">slerp</th>' in text
    row = replace(view.table.rows[0], line="<script>")
    assert "<script>" not in comparison_html(replace(view.table, rows=(row, *view.table.rows[1:])), LOOK)
    assert "No lens has drawn" in comparison_html(replace(view.table, rows=()), LOOK)


def test_the_scrubber_marks_events_on_a_logarithmic_axis(view):
    event = LevelEvent(0.5, 1e-6, "modes merge", 2, 1, "modes of v_mixture")
    twin = LevelEvent(0.5001, 1e-6, "saddle vanishes", 1, 0, "saddles of v_mixture")
    drawing = scrubber_figure(Scrub((0.1, 1.0), (view, view), (event, twin)), current=0.3)
    marks = next(trace for trace in drawing.data if trace.name == "events")
    assert list(marks.x) == [0.5]  # two events at one place have one mark
    assert marks.text[0] == "modes merge, saddle −"
    assert drawing.layout.xaxis.type == "log"
    heights = next(trace for trace in drawing.data if trace.name == "path, static")
    assert list(heights.y) == [view.table.row("path, static").barrier.value] * 2
    assert "No noise level" in scrubber_figure(Scrub((), (), ())).layout.annotations[0].text


def test_the_strip_has_a_bar_for_each_step():
    torch.set_default_dtype(torch.float64)
    subject = Bench(BenchState(model="digits")).place.subject
    start, end = subject.ends()
    points = torch.lerp(start, end, torch.linspace(0, 1, 9, dtype=start.dtype)[:, None] ** 2)
    strip = filmstrip_of(Line("a", "path", points, 0.0), Euclidean(Chart("pixels", 64)), frames=5)
    drawing = strip_figure(strip, subject)
    assert list(drawing.data[0].y) == pytest.approx(strip.plain.tolist())
    assert list(drawing.data[0].customdata) == pytest.approx(strip.steps.tolist())
    assert len(drawing.layout.images) == 5
    assert "equal metric steps" in drawing.layout.title.text
    assert "Euclidean" in drawing.layout.title.subtitle.text


def test_points_have_no_strip(view):
    text = strip_figure(strip_of(view, frames=3), view.place.subject).layout.annotations[0].text
    assert "points, not pictures" in text


def test_the_badge_is_green_only_where_all_converged(view):
    trust = trust_of(view.answers, view.state, view.place.subject.frame)
    good = badge_html(replace(trust, converged=True), LOOK)
    bad = badge_html(replace(trust, converged=False, status="diverged", failed=("paths",)), LOOK)
    assert LOOK.good in good
    assert LOOK.warning in bad
    assert "▲ diverged (paths)" in bad
    assert "guidance 2: no score" in badge_html(replace(trust, guidance=2.0), LOOK)


def test_limits_hide_the_tails_of_a_density(view):
    first, last = field_limits(view)
    assert first == pytest.approx(float(view.background.values.max()))  # dark, as a low energy is
    assert first > last > float(view.background.values.min())
    assert field_limits(replace(view, background=None)) is None
