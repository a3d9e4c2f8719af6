"""The path view in JupyterLab: run all, drag an end, use the keyboard, read the right numbers, offline."""

import re
import time

import pytest
import torch

from workbench.worlds import load_world
from workbench.worlds.answers import known_answer

CELLS = [
    "from widgets.views import PathExplorer",
    "view = PathExplorer('v_mixture', regime='static')\nview",
    "print('ALL', 'DONE')",
]
PATIENCE = 120_000
"""Milliseconds that an answer may take on a busy machine."""

START = ".wb-point[data-id=start]"


def fact(page, name):
    """The number in the row of the facts table that has this name."""
    text = page.locator(f".wb-facts tr:has(th:text-is('{name}')) td").first.text_content()
    return float(re.match(r"[-+\d.e]+", text).group(0))


def settled(page, before):
    """Wait for the full answer to another start than `before`; its exact barrier says whose answer it is."""
    start = page.locator(".widget-text input").first
    end = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < end:
        text = start.input_value()
        full = page.locator(".wb-facts td", has_text="full").count() > 0
        if full and text != before and abs(fact(page, "exact barrier") - expected_barrier(text)) < 1e-4:
            return text
        page.wait_for_timeout(100)
    raise AssertionError(f"no full answer to a start other than {before}")


def expected_barrier(start_text):
    world = load_world("v_mixture")
    start = torch.tensor([float(part) for part in start_text.split(",")])
    return known_answer(world, start, world.facts.end).barrier


def test_paths_are_explored_in_jupyterlab(lab, page, run_notebook, shoot):
    run_notebook(lab("paths", CELLS))
    page.locator(".jupyter-widgets .js-plotly-plot .gtitle").first.wait_for(
        state="attached", timeout=PATIENCE
    )
    settled(page, "nothing yet")
    assert fact(page, "barrier") == pytest.approx(1.587018, abs=2e-3)
    assert "ALL DONE" in page.inner_text(".jp-Notebook")
    shoot("lab-paths")

    start = page.locator(".widget-text input").first
    before = start.input_value()
    box = page.locator(f"{START} .wb-dot").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(1, 9):
        page.mouse.move(x - 3 * k, y - 4 * k)
    page.wait_for_function(
        "document.querySelector('.wb-facts')?.innerText.includes('coarse')", timeout=PATIENCE
    )
    shoot("lab-paths-dragging", of=".wb-canvas")
    page.mouse.up()
    dragged = settled(page, before)
    assert float(dragged.split(",")[0]) < -3.3
    assert float(dragged.split(",")[1]) > 0.5
    assert fact(page, "barrier") == pytest.approx(expected_barrier(dragged), abs=2e-3)
    page.wait_for_function(
        """(barrier) => Math.abs(parseFloat(document.querySelector('.jupyter-widgets .gtitle').textContent
            .replace('Barrier ', '')) - barrier) < 2e-3""",
        arg=expected_barrier(dragged),
        timeout=PATIENCE,
    )

    page.locator(START).focus()
    page.keyboard.press("ArrowRight")
    nudged = settled(page, dragged)
    assert float(nudged.split(",")[0]) == pytest.approx(float(dragged.split(",")[0]) + 0.14, abs=1e-3)
    assert fact(page, "barrier") == pytest.approx(expected_barrier(nudged), abs=2e-3)

    page.locator(".wb-legend button", has_text="straight line").click()
    page.wait_for_selector(".wb-curve[data-name='straight line'][opacity='0.12']", state="attached")

    start.fill("somewhere")
    start.press("Enter")
    page.wait_for_selector("[role=alert]")
    assert "got the point 'somewhere'" in page.inner_text("[role=alert]").lower()
    assert "Traceback" not in page.inner_text(".jp-Notebook")
    shoot("lab-paths-error")
    assert page.outside == []
    assert not page.problems, "\n".join(page.problems)
