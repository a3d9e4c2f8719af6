"""The page: every tab opens, drags move numbers to the right values, a reload keeps them, nobody is asked.

What the numbers should be is computed here by the core, or stands in an oracle.
"""

import re

import pytest
import torch
from PIL import Image

from tests.oracles import fisher as oracle
from widgets.figures.comparison import comparison_rows
from workbench.bench.bench import Bench
from workbench.bench.state import load_view
from workbench.worlds import load_world
from workbench.worlds.answers import known_answer

PATIENCE = 120_000
"""Milliseconds that an answer may take on a busy machine."""

START = ".wb-point[data-id=start]"
END = ".wb-point[data-id=end]"
UNNAMED = r"""() => {
  const inside = (e) => [e, ...(e.shadowRoot ? deep(e.shadowRoot) : [])];
  const deep = (root) => [...root.querySelectorAll("*")].flatMap(inside);
  const seen = (e) => e.getBoundingClientRect().width > 0 && getComputedStyle(e).visibility !== "hidden";
  const labels = (e) => [...(e.labels ?? [])].map((label) => label.textContent);
  const words = (e) => [e.getAttribute("aria-label"), ...labels(e), e.textContent, e.title];
  const wanted = "input, select, textarea, button, [role=slider], [role=tab], [role=group], [role=tablist]";
  return deep(document).filter((e) => e.matches(wanted) && seen(e) && !words(e).some((text) => text?.trim()))
    .map((e) => e.outerHTML.slice(0, 120));
}"""
"""Controls without a name that a screen reader could say, in every shadow root."""


@pytest.fixture
def visit(app, page):
    """Open the page at a query; afterwards nothing may have failed or left the machine."""
    address, log = app
    page.set_default_timeout(PATIENCE)

    def go(query=""):
        page.goto(f"{address}/?{query}")
        rested(page)

    yield go
    said = log.read_text()
    assert not re.search("Traceback|Error running application handler", said), said[-3000:]
    assert page.outside == []
    assert not page.problems, "\n".join(page.problems)


def rested(page):
    """Wait for the answer in the status line."""
    page.locator(".wb-status", has_text=re.compile("converged|Got")).wait_for()


def fact(page, name):
    text = page.locator(f".wb-facts tr:has(th:text-is('{name}')) td:visible").first.text_content()
    return float(re.match(r"[-+\d.e]+", text).group(0))


def control(page, label):
    """The control of this name on the open tab; the other tabs keep theirs, hidden."""
    return page.get_by_label(label, exact=True).and_(page.locator("input:visible, select:visible"))


def field(page, label):
    return control(page, label).input_value()


def drag(page, point, dx, dy):
    """Drag a point by so many pixels and let go once a coarse answer was seen."""
    box = page.locator(f"{point} .wb-dot").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(1, 9):
        page.mouse.move(x + dx * k / 8, y + dy * k / 8)
    page.locator(".wb-facts td:visible", has_text="coarse").wait_for()
    page.mouse.up()
    page.locator(".wb-facts td:visible", has_text="full").wait_for()


def test_a_dragged_end_moves_the_numbers_and_a_reload_keeps_them(visit, page, shoot):
    visit("tab=paths")
    page.locator(".wb-facts td:visible", has_text="full").wait_for()
    assert fact(page, "barrier") == pytest.approx(1.587018, abs=2e-3)
    drag(page, START, -24, -32)
    world, start = load_world("v_mixture"), field(page, "start")
    moved = torch.tensor([float(part) for part in start.split(",")])
    assert moved[0] < -3.3
    exact = known_answer(world, moved, world.facts.end).barrier
    assert fact(page, "barrier") == pytest.approx(exact, abs=2e-3)

    control(page, "nodes").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("location.search.includes('nodes%22%3A35')")
    rested(page)
    page.locator(".js-plotly-plot .gtitle").first.wait_for(state="attached")
    shoot("page-paths-light")
    page.reload()
    rested(page)
    page.locator(".wb-facts td:visible", has_text="full").wait_for()
    assert field(page, "start") == start
    assert control(page, "nodes").input_value() == "35"
    assert fact(page, "barrier") == pytest.approx(exact, abs=2e-3)

    control(page, "start").fill("/etc/hostname")
    page.keyboard.press("Enter")
    page.locator("[role=alert]").wait_for()
    assert "Got the point '/etc/hostname'" in page.inner_text("[role=alert]")


def test_the_fisher_tab_in_the_dark_is_reached_by_keys_and_measures_right(visit, page, shoot):
    visit("tab=paths&theme=dark")
    page.get_by_role("tab", name="Paths").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("tab", name="Fisher", selected=True).wait_for()
    control(page, "space").select_option("half_plane")
    page.locator(".wb-facts th", has_text="negative directions").wait_for()
    page.wait_for_function("location.search.includes('half_plane')")
    page.locator(".wb-axes", has_text="y").first.wait_for()
    page.locator(".wb-facts td:visible", has_text="full").wait_for()
    drag(page, END, -40, -60)
    end = tuple(float(part) for part in field(page, "end").split(","))
    exact = oracle.half_plane_distance((0.0, 1.0), end)
    assert fact(page, "length") == pytest.approx(exact, rel=1e-4)
    page.locator(".js-plotly-plot .gtitle").first.wait_for(state="attached")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    shoot("page-fisher-dark")


def test_a_view_of_all_lenses_is_saved_by_a_gesture_and_run_without_a_browser(visit, page, shoot, tmp_path):
    state = '{"world":"v_mixture","nodes":9,"steps":8,"lenses":"paths,fisher"}'
    visit(f"tab=bench&bench={state}")
    page.locator(".wb-bench-words p", has_text="fisher").wait_for()
    box = page.locator(f"{START} .wb-dot").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(1, 9):
        page.mouse.move(x - 3 * k, y - 4 * k)
    page.mouse.up()
    page.wait_for_function("location.search.includes('start')")
    rested(page)
    with page.expect_download() as download:
        page.get_by_text("Save view").click()
    download.value.save_as(tmp_path / "view.yaml")
    saved = load_view(tmp_path / "view.yaml")
    assert saved.start == field(page, "start")
    result = Bench.load(tmp_path / "view.yaml").ask()
    rows = {row["line"]: row for row in comparison_rows(result.table)}
    for line in ("straight line", "path, mep", "geodesic"):
        cells = page.locator(f"tr:has(th[scope=row]:text-is('{line}'))").inner_text().split("\t")
        assert rows[line]["length score"] in cells
        assert rows[line]["barrier"] in cells
    shoot("page-bench-light")


@pytest.mark.slow
def test_two_pictures_of_ones_own_come_under_all_lenses_and_a_second_panel_beside(
    visit, page, shoot, tmp_path
):
    visit('tab=bench&bench={"model":"digits","nodes":7,"steps":8,"networks":16}')
    page.locator(".wb-bench-words p", has_text="conda").wait_for()
    for k, name in enumerate(("one", "two")):
        Image.radial_gradient("L").resize((80, 80)).rotate(90 * k).point(lambda v: 255 - v).crop(
            (0, 20 * k, 80, 80)
        ).save(tmp_path / f"{name}.png")
        page.locator(".wb-file input").nth(k).set_input_files(tmp_path / f"{name}.png")
        page.wait_for_function(f"(location.search.match(/picture-/g) ?? []).length === {k + 1}")
        rested(page)
    assert field(page, "start").startswith("picture-")
    assert field(page, "end").startswith("picture-")
    page.locator(".js-plotly-plot .gtitle", has_text="at equal metric steps").wait_for(state="attached")
    control(page, "distortion ellipses of the projection").check()
    page.locator(".wb-legend", has_text="distortion").wait_for()
    control(page, "second panel (A/B)").select_option("sigma")
    control(page, "its value in B").fill("1.0")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="B: sigma = 1.0").wait_for()
    page.locator("tr.wb-differs").nth(3).wait_for()
    shoot("page-own-pictures")


@pytest.mark.parametrize(
    "tab", ["bench", "paths", "fisher", "anisotropy", pytest.param("conda", marks=pytest.mark.slow)]
)
def test_a_phone_shows_every_tab_without_scrolling_sideways_and_every_control_has_a_name(
    visit, page, shoot, tab
):
    page.set_viewport_size({"width": 390, "height": 844})
    visit(f"tab={tab}")
    first = ".wb-bench-words p" if tab == "bench" else ".js-plotly-plot .gtitle"
    page.locator(first).first.wait_for(state="attached")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(UNNAMED) == []
    assert page.get_by_role("navigation").count() == 1
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("heading", level=1).count() == 1
    shoot(f"page-{tab}-phone")
