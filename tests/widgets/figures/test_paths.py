"""Figures of paths as data: traces, names, titles, ranges, and the lines that say whether to trust them."""

import base64
import dataclasses
import io
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.testing import assert_close

from widgets.figures.images import field_uri, pixels_of, png_uri
from widgets.figures.paths import (
    DECIBELS,
    figure,
    map_figure,
    profile_figure,
    projection_of,
    regimes_figure,
)
from widgets.figures.status import spaced, status_line
from widgets.figures.tables import COLUMNS, table_figure, table_rows
from workbench.embeddings import Identity, Slice
from workbench.errors import SettingError, ShapeError
from workbench.fields import Field, Window
from workbench.report import Status
from workbench.worlds import load_world

FIELD = Field(torch.linspace(0, 1, 64).reshape(8, 8), Window((-7.0, 7.0), (-8.0, 6.0)), "−log p", "nats")


def named(drawing):
    return {trace.name: trace for trace in drawing.data}


def status_of(drawing):
    return next(note.text for note in drawing.layout.annotations if note.name == "status")


def test_a_preview_is_named_after_the_regime_that_was_asked_for(valley):
    assert "mep path, preview, in" in str(profile_figure(valley, preview="mep").to_dict())
    assert "preview" not in str(profile_figure(valley).to_dict())


def test_the_profile_has_its_traces_titles_and_range(valley):
    drawing = profile_figure(valley, exact=1.587)
    assert [t.name for t in drawing.data] == [
        "profile",
        "nodes",
        "highest barrier",
        "barriers",
        "exact barrier",
    ]
    assert drawing.layout.xaxis.title.text == "arc length s from the start, data units"
    assert drawing.layout.yaxis.title.text == "−log p + log p(start), nats"
    assert drawing.layout.xaxis.range == pytest.approx((0.0, float(valley.profile.arc[-1])))


def test_the_profile_draws_the_numbers_of_the_result(valley):
    traces = named(profile_figure(valley))
    assert_close(torch.tensor(traces["profile"].y), valley.profile.energy.double())
    assert_close(torch.tensor(traces["nodes"].y), valley.energy.double())
    assert traces["highest barrier"].y[0] == pytest.approx(float(valley.barrier.value), abs=1e-4)


def test_nodes_lie_on_the_profile(valley):
    traces = named(profile_figure(valley))
    on_curve = np.interp(traces["nodes"].x, traces["profile"].x, traces["profile"].y)
    assert np.abs(on_curve - traces["nodes"].y).max() < 0.02


def test_decibels_are_the_likelihood_and_point_the_other_way(valley):
    traces = named(profile_figure(valley, scale="decibels"))
    expected = -10 / np.log(10) * np.asarray(valley.profile.energy) / 2
    np.testing.assert_allclose(traces["profile"].y, expected, rtol=1e-12)
    assert pytest.approx(10 * np.log10(np.e)) == DECIBELS


def test_decibels_of_an_energy_are_refused(valley):
    with pytest.raises(SettingError, match="an energy in nats"):
        profile_figure(dataclasses.replace(valley, energy_unit="kJ/mol"), scale="decibels")


def test_an_unknown_scale_is_refused(valley):
    with pytest.raises(SettingError, match="'energy' or 'decibels'"):
        profile_figure(valley, scale="log")


def test_every_barrier_is_marked_by_a_stroke_of_its_height(valley):
    traces = named(profile_figure(valley))
    marked = sum(len(traces[name].x or ()) // 3 for name in ("highest barrier", "barriers"))
    assert marked == len(valley.barriers)
    assert "Hessian index 1" in traces["highest barrier"].customdata[0]


def test_the_map_has_its_curves_and_titles(valley):
    world = load_world("v_mixture")
    drawing = map_figure(valley, field=FIELD, exact=world.reference_path())
    names = set(named(drawing))
    assert {"straight line", "exact path", "path", "saddles", "start", "end"} <= names
    assert (drawing.layout.xaxis.title.text, drawing.layout.yaxis.title.text) == ("x₁", "x₂")
    assert drawing.layout.xaxis.range == (-7.0, 7.0)
    assert drawing.layout.yaxis.scaleanchor == "x"
    assert "projection: the plane itself" in drawing.layout.title.subtitle.text


def test_the_field_is_one_picture_under_the_curves_and_no_numbers(valley):
    drawing = map_figure(valley, field=FIELD)
    (image,) = drawing.layout.images
    assert image.layer == "below"
    assert image.source.startswith("data:image/png;base64,")
    assert (image.x, image.y, image.sizex, image.sizey) == (-7.0, 6.0, 14.0, 14.0)
    assert "heatmap" not in {trace.type for trace in drawing.data}


def test_curves_go_through_their_nodes_as_they_are(valley):
    path = named(map_figure(valley))["path"]
    assert path.line.shape == "linear"
    assert_close(torch.tensor(np.stack([path.x, path.y], axis=1)), valley.curve.points.double())


def test_walkers_fade_and_do_not_hide_the_path(valley):
    walkers = valley.curve.points[:, None] + 0.1 * torch.ones(33, 4, 2)
    traces = named(map_figure(dataclasses.replace(valley, walkers=walkers)))
    assert len(traces["walkers"].x) == 33 * 4
    assert traces["walkers"].opacity < 0.6


def test_a_map_in_many_dimensions_names_its_slice_and_how_much_it_shows(valley):
    frame = torch.linalg.qr(torch.randn(5, 2, generator=torch.Generator().manual_seed(0))).Q

    def turned(curve):
        return dataclasses.replace(curve, points=curve.points @ frame.T)

    lifted = dataclasses.replace(
        valley, curve=turned(valley.curve), lerp=turned(valley.lerp), slerp=turned(valley.slerp), barriers=()
    )
    drawing = map_figure(lifted)
    assert "slice through start, end" in drawing.layout.title.subtitle.text
    assert "of their distance" in drawing.layout.title.subtitle.text
    assert isinstance(projection_of(lifted), Slice)
    assert isinstance(projection_of(valley), Identity)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_figure_is_json_without_latex_and_without_arrays_of_two_axes(valley, flow, theme):
    results = {"static": valley, "transport": flow}
    drawings = [
        figure(valley, theme=theme, field=FIELD),
        profile_figure(valley, theme=theme),
        regimes_figure(results, theme=theme),
        table_figure(results, theme=theme),
    ]
    for drawing in drawings:
        text = json.dumps(json.loads(drawing.to_json()))
        assert "$" not in text
        assert "https:" not in text
        assert '"shape"' not in text.replace('"shape": "linear"', "")


def test_the_status_line_says_whether_to_trust_and_where_from(valley, flow):
    line = status_line(flow.report, flow.provenance)
    assert "relative residual" in line
    assert f"{spaced(flow.report.model_calls)} model calls" in line
    assert "seed 3" in line
    assert "no guidance" in line
    guided = dataclasses.replace(flow.provenance, model="fashion given 3, guidance 1.5")
    assert "guidance 1.5" in status_line(flow.report, guided)
    assert status_line(valley.report, valley.provenance) == status_of(profile_figure(valley))


def test_a_result_that_did_not_converge_looks_like_it(valley):
    report = dataclasses.replace(valley.report, status=Status.MAX_ITERATIONS)
    failed = dataclasses.replace(valley, report=report)
    bad, good = profile_figure(failed), profile_figure(valley)
    assert status_of(bad).startswith("▲ iteration limit reached")
    assert status_of(good).startswith("● converged")
    assert bad.layout.annotations[-1].font.color != good.layout.annotations[-1].font.color


def test_regimes_share_one_axis_and_carry_their_barriers(valley, flow):
    drawing = regimes_figure({"static": valley, "transport": flow})
    assert [trace.name.split(":")[0] for trace in drawing.data] == ["static", "transport"]
    assert all(trace.x[-1] == pytest.approx(1.0) for trace in drawing.data)
    assert len({trace.line.color for trace in drawing.data}) == 2
    assert len({trace.line.dash for trace in drawing.data}) == 2


def test_regimes_of_two_units_are_refused(valley):
    with pytest.raises(SettingError, match="one unit"):
        regimes_figure({"a": valley, "b": dataclasses.replace(valley, energy_unit="eV")})


def test_no_regimes_are_refused():
    with pytest.raises(SettingError, match="one path at least"):
        regimes_figure({})


def test_the_table_has_a_row_a_path(valley, flow):
    rows = table_rows({"static": valley, "transport": flow})
    assert [row["path"] for row in rows] == ["static", "transport"]
    assert set(rows[0]) == set(COLUMNS)
    assert rows[0]["barrier"] == str(valley.barrier)
    (table,) = table_figure({"static": valley}).data
    assert len(table.cells.values) == len(COLUMNS)


def decoded(uri):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_a_picture_survives_its_address(rows, columns, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (rows, columns, 3), dtype=np.uint8)
    np.testing.assert_array_equal(decoded(png_uri(pixels)), pixels)


def test_a_field_has_its_lowest_row_at_the_bottom_and_holes_transparent():
    field = Field(torch.tensor([[0.0, 0.0], [1.0, float("nan")]]), FIELD.window, "V")
    picture = decoded(field_uri(field, limits=(0.0, 1.0)))
    assert picture[1, 0, 2] < picture[0, 0, 2] or picture[1, 0].sum() < picture[0, 0].sum()
    assert picture[0, 1, 3] == 0
    assert picture[0, 0, 3] == 255


def test_samples_become_pixels_by_the_value_range():
    pixels = pixels_of(torch.tensor([[-1.0, 1.0, 0.0, 3.0]]), (1, 2, 2), (-1.0, 1.0))
    assert pixels.tolist() == [[[0, 255], [128, 255]]]


def test_samples_that_are_no_pictures_are_refused():
    with pytest.raises(ShapeError, match="pictures"):
        pixels_of(torch.zeros(1, 2), (2,))
