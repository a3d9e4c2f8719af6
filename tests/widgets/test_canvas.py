"""The canvas: buffers, gestures from outside, and a front end that asks nobody for anything."""

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from widgets.canvas.canvas import MODULE, STYLE, Canvas
from widgets.canvas.scene import (
    CELLS,
    GESTURES,
    Cloud,
    Handle,
    Stroke,
    cloud_traits,
    field_traits,
    gesture_of,
    handle_traits,
    stroke_traits,
    theme_traits,
    thumb_traits,
)
from widgets.canvas.standalone import canvas_html
from workbench.errors import ShapeError
from workbench.fields import Field, Window

FIELD = Field(torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]), Window((0.0, 1.0), (0.0, 1.0)), "V", "nats")


def test_a_field_travels_as_float32_with_its_lowest_row_first():
    traits = field_traits(FIELD, limits=(0.0, 5.0))
    assert np.frombuffer(traits["field"], np.float32).tolist() == [0, 1, 2, 3, 4, 5]
    assert traits["field_shape"] == [2, 3]
    assert traits["field_limits"] == [0.0, 5.0]
    assert traits["field_title"] == "V, nats"


def test_no_field_clears_the_ground():
    assert field_traits(None)["field"] == b""


def test_strokes_share_one_buffer():
    strokes = [
        Stroke("a", torch.tensor([[0.0, 1.0], [2.0, 3.0]]), "#000000"),
        Stroke("b", torch.tensor([[4.0, 5.0]]), "#ffffff", "dots"),
    ]
    traits = stroke_traits(strokes)
    assert np.frombuffer(traits["vertices"], np.float32).tolist() == [0, 1, 2, 3, 4, 5]
    assert [(c["name"], c["offset"], c["count"]) for c in traits["curves"]] == [("a", 0, 2), ("b", 2, 1)]


def test_strokes_of_points_in_space_are_refused():
    with pytest.raises(ShapeError, match=r"\(count, 2\)"):
        stroke_traits([Stroke("a", torch.zeros(4, 3), "#000000")])


@pytest.fixture
def cloud():
    points = torch.randn(2000, 2, generator=torch.Generator().manual_seed(1))
    points[7] = torch.nan
    return Cloud("latents", points, ("#ff0000", "#0000ff"), (points[:, 0] > 0).long())


def test_a_cloud_is_sorted_by_cell_and_keeps_every_finite_point_with_its_label(cloud):
    traits = cloud_traits([cloud])
    (entry,) = traits["clouds"]
    places = np.frombuffer(traits["cloud_points"], np.float32).reshape(-1, 2)
    labels = np.frombuffer(traits["cloud_labels"], np.uint8)
    cells = np.frombuffer(traits["cloud_cells"], np.uint32)
    assert entry["count"] == len(places) == len(labels) == 1999
    assert (labels == (places[:, 0] > 0)).all()
    wanted = cloud.coords[torch.isfinite(cloud.coords).all(1)].float().numpy()
    assert sorted(map(tuple, places)) == sorted(map(tuple, wanted))
    (low, high), (floor, roof) = entry["box"]
    column = np.clip((places[:, 0] - low) / (high - low) * CELLS, 0, CELLS - 1).astype(int)
    row = np.clip((places[:, 1] - floor) / (roof - floor) * CELLS, 0, CELLS - 1).astype(int)
    owner = np.searchsorted(cells, np.arange(1999), side="right") - 1
    assert (abs(owner - (row * CELLS + column)) <= 1).mean() > 0.99  # float32 edges may fall either side
    assert len(cells) == CELLS * CELLS + 1


def test_the_second_cloud_follows_the_first_in_the_buffers(cloud):
    traits = cloud_traits([cloud, Cloud("one", torch.tensor([[1.0, 2.0]]), ("#00ff00",))])
    second = traits["clouds"][1]
    cells = np.frombuffer(traits["cloud_cells"], np.uint32)[second["cell"] :]
    assert (cells[0], cells[-1]) == (1999, 2000)
    assert second["box"] == [[1.0, 1.0], [2.0, 2.0]]


def test_no_cloud_clears_the_sky():
    assert cloud_traits([]) == {"clouds": [], "cloud_points": b"", "cloud_labels": b"", "cloud_cells": b""}


@pytest.mark.parametrize("labels", [[0, 2], [-1, 0], [0]])
def test_labels_that_name_no_colour_are_refused(labels):
    made = Cloud("bad", torch.zeros(2, 2), ("#ff0000", "#0000ff"), torch.tensor(labels))
    with pytest.raises(ShapeError, match="2 whole numbers from 0 to 1"):
        cloud_traits([made])


def test_a_page_of_its_own_holds_the_buffers_and_requests_nothing(cloud):
    canvas = Canvas()
    canvas.show(**cloud_traits([cloud]), caption="</script>")
    text = canvas_html(canvas, title="a <b>")
    assert "<title>a &lt;b&gt;</title>" in text
    assert text.count("</script>") == 2
    assert set(re.findall(r"https?://[^\"' )<]+", text)) == {"http://www.w3.org/2000/svg"}


def test_thumbnails_travel_as_bytes():
    traits = thumb_traits(np.arange(8, dtype=np.uint8).reshape(2, 2, 2), "path", ["frame 0", "frame 7"])
    assert traits["thumb_names"] == ["frame 0", "frame 7"]
    assert traits["thumbs"] == bytes(range(8))
    assert traits["thumb_shape"] == [2, 2, 2]


@pytest.mark.parametrize("kind", GESTURES)
def test_a_gesture_is_read(kind):
    gesture = gesture_of({"kind": kind, "id": "start", "x": 1, "y": -2.5, "seq": 7})
    assert (gesture.kind, gesture.id, gesture.x, gesture.y, gesture.seq) == (kind, "start", 1.0, -2.5, 7)


@pytest.mark.parametrize("x", [float("nan"), float("inf"), True, None, "1"])
def test_a_gesture_without_a_finite_place_is_none(x):
    assert gesture_of({"kind": "move", "id": "start", "x": x, "y": 0.0, "seq": 1}) is None


JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers())


@given(st.dictionaries(st.sampled_from(["kind", "id", "x", "y", "seq", "other"]), JSON))
def test_any_message_is_a_gesture_with_finite_numbers_or_none(message):
    gesture = gesture_of(message)
    if gesture is not None:
        assert math.isfinite(gesture.x)
        assert math.isfinite(gesture.y)
        assert gesture.kind in GESTURES


def test_a_gesture_reaches_its_listener_and_is_answered():
    canvas, heard = Canvas(), []
    canvas.on_gesture(heard.append)
    canvas.gesture = {"kind": "move", "id": "end", "x": 0.5, "y": 0.25, "seq": 3}
    assert [(g.id, g.x, g.y) for g in heard] == [("end", 0.5, 0.25)]
    assert canvas.answered == 3


def test_a_gesture_is_answered_even_when_its_listener_fails():
    canvas = Canvas()

    def fail(gesture):
        raise RuntimeError

    canvas.on_gesture(fail)
    with pytest.raises(RuntimeError):
        canvas.gesture = {"kind": "move", "id": "end", "x": 0.5, "y": 0.25, "seq": 4}
    assert canvas.answered == 4


def test_nonsense_from_the_front_end_is_ignored():
    canvas, heard = Canvas(), []
    canvas.on_gesture(heard.append)
    canvas.gesture = {"kind": "move", "id": "end", "x": "1; rm", "y": 0.25, "seq": 5}
    assert heard == []


def test_points_and_hidden_curves_can_be_read_and_set():
    canvas = Canvas()
    canvas.show(**handle_traits([Handle("start", "start", 1.0, 2.0, "start")]), hidden=["slerp"])
    assert canvas.handles[0]["x"] == 1.0
    assert canvas.hidden == ["slerp"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_new_theme_brings_its_palette(theme):
    canvas = Canvas()
    canvas.theme = theme
    assert canvas.palette == theme_traits(theme)["palette"]


def test_the_module_is_one_file_that_imports_and_requests_nothing():
    text = MODULE
    assert not re.search(
        r"^\s*import\s|\bimport\(|\brequire\(|\bfetch\(|XMLHttpRequest|WebSocket", text, re.MULTILINE
    )
    addresses = set(re.findall(r"https?://[^\"' )]+", text + STYLE.read_text(encoding="utf-8")))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert "url(" not in STYLE.read_text(encoding="utf-8")


def test_every_trait_that_the_module_reads_exists_in_both_hosts():
    panel = pytest.importorskip("panel")
    assert panel
    from widgets.canvas.panel import PageCanvas

    read = set(re.findall(r'(?:get|model\.set)\("(\w+)"', MODULE))
    assert read
    assert read <= set(Canvas.class_trait_names(sync=True))
    assert read <= set(PageCanvas.param)


def test_both_hosts_have_the_same_traits():
    pytest.importorskip("panel")
    from widgets.canvas.panel import PageCanvas

    own = set(Canvas.class_traits(sync=True)) - set(__import__("anywidget").AnyWidget.class_traits(sync=True))
    assert {name for name in own if not name.startswith("_")} <= set(PageCanvas.param)


def test_a_gesture_on_a_page_is_not_held_back():
    from bokeh.document import Document

    from widgets.canvas.panel import PageCanvas

    class Recorded(Document):
        session_context = object()  # as on a served page

        def add_next_tick_callback(self, callback):
            asked.append("next tick")

        def add_timeout_callback(self, callback, timeout_milliseconds):
            asked.append("held back")

    asked: list[str] = []
    canvas = PageCanvas()
    gesture = {"kind": "move", "id": "end", "x": 0.1, "y": 0.2, "seq": 1}
    canvas._server_change(Recorded(), "ref", "", "gesture", {}, gesture)
    assert asked == ["next tick"]
