"""The Fisher and the anisotropy view in JupyterLab: an end dragged, a slider moved, the right numbers."""

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
