"""Views in JupyterLab: an end dragged, a slider moved, frames enclosed, the right numbers."""

import re

import pytest

from tests.oracles import fisher as oracle

PATIENCE = 240_000
"""Milliseconds that an answer may take on a busy machine."""
END = ".wb-point[data-id=end]"


def fact(page, name):
    text = page.locator(f".wb-facts tr:has(th:text-is('{name}')) td").first.text_content()
    return float(re.match(r"[-+\d.e]+", text).group(0))


def test_a_geodesic_follows_a_dragged_end(lab, page, run_notebook, shoot):
    cells = [
        "from widgets.views import FisherExplorer",
        "view = FisherExplorer('half_plane')\nview",
        "print('ALL', 'DONE')",
    ]
    page.set_default_timeout(PATIENCE)
    run_notebook(lab("fisher", cells))
    page.locator(".wb-facts td", has_text="full").wait_for()
    page.locator(".jupyter-widgets .js-plotly-plot .gtitle").first.wait_for(state="attached")
    assert fact(page, "length") == pytest.approx(oracle.half_plane_distance((0.0, 1.0), (3.0, 0.5)), rel=1e-4)
    box = page.locator(f"{END} .wb-dot").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(1, 9):
        page.mouse.move(x - 6 * k, y - 8 * k)
    page.locator(".wb-facts td", has_text="coarse").wait_for()
    page.mouse.up()
    page.locator(".wb-facts td", has_text="full").wait_for()
    page.evaluate("() => 0")
    point = page.locator(END).get_attribute("aria-valuetext").replace("−", "-")
    end = tuple(float(number) for number in re.findall(r"-?\d+\.?\d*", point)[-2:])
    exact = oracle.half_plane_distance((0.0, 1.0), end)
    assert fact(page, "length") == pytest.approx(exact, rel=1e-2)  # the label has four digits
    shoot("lab-fisher")
    assert page.outside == []
    assert not page.problems, "\n".join(page.problems)


@pytest.mark.slow
def test_directions_follow_a_slider(lab, page, run_notebook, shoot):
    cells = [
        "from widgets.views import AnisotropyExplorer",
        "view = AnisotropyExplorer('unet8-time', 'dit8-2', networks=24)\nview",
        "print('ALL', 'DONE')",
    ]
    page.set_default_timeout(PATIENCE)
    run_notebook(lab("anisotropy", cells))
    page.locator("[role=status]", has_text="24 model calls").wait_for()
    page.locator(".jupyter-widgets .js-plotly-plot .gtitle").first.wait_for(state="attached")
    slider = page.locator(".widget-hslider", has_text="networks").locator(".noUi-handle")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.locator("[role=status]", has_text="32 model calls").wait_for()
    shoot("lab-anisotropy")
    assert "Traceback" not in page.inner_text(".jp-Notebook")
    assert page.outside == []
    assert not page.problems, "\n".join(page.problems)


@pytest.mark.slow
def test_frames_open_behind_a_bar_and_are_pointed_at_enclosed_and_dragged(lab, page, run_notebook, shoot):
    from playwright.sync_api import expect

    cells = [
        "from widgets.views import ConDAExplorer",
        "view = ConDAExplorer('wake', iterations=300, restarts=1)\nview",
        "print('ALL', 'DONE')",
    ]
    page.set_default_timeout(PATIENCE)
    page.set_viewport_size({"width": 1280, "height": 1800})
    run_notebook(lab("conda", cells))
    bar = page.locator(".jupyter-widgets .progress").first
    bar.wait_for()
    assert bar.bounding_box()["height"] >= 4  # it is there to be seen, while other cells have run
    page.locator(".wb-facts td", has_text="held out").wait_for()
    page.locator("[role=status]", has_text="converged").wait_for()
    field = page.locator(".wb-svg").bounding_box()
    start = page.locator(".wb-point[data-id=c0] .wb-dot").bounding_box()
    x, y = start["x"] + start["width"] / 2, start["y"] + start["height"] / 2
    page.mouse.move(x, y + 26)  # beside the point, on the ring of frames
    shoot("lab-conda-pointed")
    page.keyboard.down("Shift")
    page.mouse.move(x - 60, y + 30)
    page.mouse.down()
    for dx, dy in ((60, 30), (60, 130), (-60, 130), (-60, 30)):
        page.mouse.move(x + dx, y + dy, steps=5)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.locator(".wb-facts td", has_text=re.compile(r"[1-9]\d* of \d+ frames selected")).wait_for()
    length = page.locator(".wb-facts tr:has(th:text-is('length in c')) td")
    before = length.inner_text()
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(field["x"] + 0.75 * field["width"], field["y"] + 0.5 * field["height"], steps=8)
    page.mouse.up()
    expect(length).not_to_have_text(before, timeout=PATIENCE)
    page.locator(".wb-facts td", has_text=re.compile(r"▲ \d+ of 33 points off")).wait_for()
    shoot("lab-conda")
    assert "Traceback" not in page.inner_text(".jp-Notebook")
    assert page.outside == []
    assert not page.problems, "\n".join(page.problems)
