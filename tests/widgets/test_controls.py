"""Controls: the figure that waits for its front end, the status line, and sliders that hold any value."""

import plotly.graph_objects as go
import pytest

from widgets.controls import FigureBox, StatusBar, noise_slider, number_slider


def line(values, *, title, name="a"):
    figure = go.Figure(go.Scatter(y=values, name=name))
    figure.update_layout(title_text=title)
    return figure


def drawn(box):
    """What the front end sends once it has drawn."""
    box.widget._js2py_traceDeltas = {"trace_deltas": [], "trace_edit_id": 0}


def shown(box):
    return box.widget.layout.title.text, list(box.widget.data[0].y)


def test_the_first_figure_is_in_the_widget_from_the_start():
    box = FigureBox(line([0], title="nothing yet"))
    assert box.widget is None
    box.show(line([1, 2], title="first"))
    assert shown(box) == ("first", [1, 2])


def test_figures_that_come_before_the_front_end_has_drawn_wait_and_the_last_one_is_shown():
    box = FigureBox(go.Figure())
    box.show(line([1], title="first"))
    widget = box.widget
    box.show(line([2], title="second"))
    box.show(line([3], title="third"))
    assert shown(box) == ("first", [1])
    assert box.figure.layout.title.text == "third"
    drawn(box)
    assert shown(box) == ("third", [3])
    assert box.widget is widget


def test_once_drawn_the_widget_follows_and_stays_the_same():
    box = FigureBox(go.Figure())
    box.show(line([1], title="first"))
    drawn(box)
    widget, trace = box.widget, box.widget.data[0].uid
    box.show(line([5, 6], title="next"))
    assert shown(box) == ("next", [5, 6])
    assert (box.widget, box.widget.data[0].uid) == (widget, trace)


def test_what_a_new_figure_leaves_out_does_not_stay():
    box = FigureBox(go.Figure())
    first = line([1], title="first")
    first.update_layout(margin=dict(t=5), annotations=[dict(text="old")])
    box.show(first)
    drawn(box)
    box.show(line([2], title="next"))
    assert box.widget.layout.margin.t is None
    assert not box.widget.layout.annotations


def test_other_traces_need_another_widget():
    box = FigureBox(go.Figure())
    box.show(line([1], title="first"))
    drawn(box)
    before = box.widget
    box.show(line([1], title="other", name="b"))
    assert box.widget is not before
    assert box.children == (box.widget,)


def test_a_subtitle_becomes_a_second_line_because_it_would_overlap():
    box, figure = FigureBox(go.Figure()), line([1], title="first")
    figure.update_layout(title_subtitle_text="below")
    box.show(figure)
    assert box.widget.layout.title.text.startswith("first<br><span")
    assert "below" in box.widget.layout.title.text
    assert box.widget.layout.title.subtitle.text is None
    assert figure.layout.title.text == "first"


def test_the_status_shows_text_and_no_markup():
    bar = StatusBar(lambda: None)
    bar.say("<script>alert(1)</script>", kind="error")
    assert "<script>" not in bar.line.value
    assert 'role="alert"' in bar.line.value


def test_the_cancel_button_works_while_something_is_done():
    pressed = []
    bar = StatusBar(lambda: pressed.append(True))
    bar.start()
    assert not bar.cancel.disabled
    bar.cancel.click()
    bar.rest()
    assert pressed == [True]
    assert bar.cancel.disabled


@pytest.mark.parametrize(("value", "kind"), [(500, int), (0.5, float), (99.0, float)])
def test_a_slider_is_widened_to_hold_its_value(value, kind):
    slider = number_slider("n", value, 5, 161, step=1)
    assert slider.value == value
    assert isinstance(slider.value, kind)


def test_a_noise_slider_starts_with_the_data_and_has_equal_ratios():
    slider = noise_slider(0.01, 10.0, None)
    levels = [level for _, level in slider.options]
    assert levels[0] == slider.value == 0.0
    assert (levels[1], levels[-1]) == pytest.approx((0.01, 10.0))
    assert levels[2] / levels[1] == pytest.approx(levels[-1] / levels[-2])


def test_a_noise_slider_keeps_its_value_exactly():
    assert noise_slider(0.01, 10.0, 0.1234).value == 0.1234
