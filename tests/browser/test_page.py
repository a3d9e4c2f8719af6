"""The same canvas on a Panel page: a drag moves the end, the numbers follow, and no other host is asked."""

import re

import pytest
import torch

from workbench.worlds import load_world
from workbench.worlds.answers import known_answer

SCRIPT = "from widgets.app import page\n\npage({theme!r}).servable()\n"
PATIENCE = 120_000
"""Milliseconds that an answer may take on a busy machine."""

START = ".wb-point[data-id=start]"


def shown(page, name):
    text = page.locator(f".wb-facts tr:has(th:text-is('{name}')) td").first.text_content()
    return float(re.match(r"[-+\d.e]+", text).group(0))


@pytest.mark.parametrize("theme", ["dark"])
def test_the_canvas_works_on_a_page(page_server, page, shoot, theme):
    with page_server(SCRIPT.format(theme=theme)) as (address, log):
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        page.locator(START).wait_for(timeout=PATIENCE)
        page.locator(".wb-facts td", has_text="full").wait_for(timeout=PATIENCE)
        assert shown(page, "barrier") == pytest.approx(1.587018, abs=2e-3)
        box = page.locator(f"{START} .wb-dot").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        for k in range(1, 9):
            page.mouse.move(x - 3 * k, y - 4 * k)
        page.locator(".wb-facts td", has_text="coarse").wait_for(timeout=PATIENCE)
        page.mouse.up()
        page.locator(".wb-facts td", has_text="full").wait_for(timeout=PATIENCE)
        start = page.get_by_label("start", exact=True).and_(page.locator("input")).input_value()
        world = load_world("v_mixture")
        moved = torch.tensor([float(part) for part in start.split(",")])
        assert moved[0] < -3.3
        exact = known_answer(world, moved, world.facts.end).barrier
        assert shown(page, "barrier") == pytest.approx(exact, abs=2e-3)
        page.locator(".js-plotly-plot .gtitle").first.wait_for(state="attached", timeout=PATIENCE)
        shoot(f"page-paths-{theme}")
        assert "Error running application handler" not in log.read_text()
        assert "Traceback" not in log.read_text()
    assert page.outside == []
    assert not page.problems, "\n".join(page.problems)
