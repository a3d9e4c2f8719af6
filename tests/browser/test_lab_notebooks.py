"""Every committed notebook in JupyterLab: run all, no error on the page; its view by hand follows the pointer."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
PATIENCE = 600_000
"""Milliseconds that a notebook may take on a busy machine."""


def by_hand(page):
    """Move a slider and drag a point of a notebook's view: what it says changes each time."""
    handle = page.locator(".widget-hslider .noUi-handle:visible").first  # others mean nothing in this regime
    handle.scroll_into_view_if_needed()
    before = handle.get_attribute("aria-valuenow")
    handle.focus()
    for key in ("ArrowRight", "ArrowLeft"):  # one of them, wherever it stands
        page.keyboard.press(key)
        if handle.get_attribute("aria-valuenow") != before:
            break
    assert handle.get_attribute("aria-valuenow") != before
    dot = page.locator(".wb-point .wb-dot").first
    if not dot.count():
        return  # spectra have no points
    said = page.locator(".wb-facts:visible, .wb-bench-table:visible").first
    said.wait_for()
    before = said.inner_text()
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 50, steps=8)
    page.mouse.up()
    expect(said).not_to_have_text(before, timeout=PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_jupyterlab(lab, page, run_notebook, shoot, path):
    node = json.loads(path.read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in node["cells"] if cell["cell_type"] == "code"]
    page.set_default_timeout(PATIENCE)
    run_notebook(lab(path.stem, [*cells, "print('ALL', 'DONE')"]))
    page.locator(".jp-OutputArea-output", has_text="ALL DONE").wait_for()
    errors = page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']")
    assert "Traceback" not in page.inner_text(".jp-Notebook"), errors.all_inner_texts()
    if "Explorer" in cells[-1] + cells[-2]:
        by_hand(page)
    shoot(f"lab-notebook-{path.stem}")
    assert page.outside == []
    assert not page.problems, "\n".join(page.problems)
