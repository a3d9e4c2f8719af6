"""Texts around a figure fit into it."""

import plotly.graph_objects as go
import pytest

from widgets.figures.status import dress, in_lines
from widgets.theme import SIZES


@pytest.mark.parametrize("width", [200, 660, 1200])
def test_lines_fit_and_lose_no_word(width):
    text = (
        "projection: slice through start, end and the farthest node; pairs shown at 0.75 of their distance "
        * 3
    )
    lines = in_lines(text, width)
    assert " ".join(lines) == text.strip()
    assert all(len(line) * SIZES.letter <= width - SIZES.left for line in lines)


def test_lines_break_between_clauses():
    text = "a slice through three points; " + "pairs shown at one half of their distance " * 2
    assert in_lines(text.strip(), 560)[0] == "a slice through three points;"
    assert in_lines("a<br>b", 660) == ["a", "b"]
    assert in_lines("", 660) == []


def test_a_long_subtitle_gets_the_room_that_it_takes():
    short = dress(go.Figure(), title="t", subtitle="short", height=400)
    long = dress(go.Figure(), title="t", subtitle="clause; " * 40, height=400)
    further = long.layout.height - short.layout.height
    assert further == SIZES.leading * long.layout.title.subtitle.text.count("<br>") > 0
    assert long.layout.margin.t - SIZES.top == further
