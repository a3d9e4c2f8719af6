"""Every committed notebook in JupyterLab: run all, no error on the page, and a slider that can be moved."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
PATIENCE = 600_000
"""Milliseconds that a notebook may take on a busy machine."""


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
    handle = page.locator(".widget-hslider .noUi-handle:visible").first  # others mean nothing in this regime
    if handle.count():
        before = handle.get_attribute("aria-valuenow")
        handle.focus()
        for key in ("ArrowRight", "ArrowLeft"):  # one of them, wherever it stands
            page.keyboard.press(key)
            if handle.get_attribute("aria-valuenow") != before:
                break
        assert handle.get_attribute("aria-valuenow") != before
    shoot(f"lab-notebook-{path.stem}")
    assert page.outside == []
    assert not page.problems, "\n".join(page.problems)
