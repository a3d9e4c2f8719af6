"""The linked view in JupyterLab: all lenses follow a drag; what is saved is repeated headless, exactly."""

import re
import time

import pytest
import torch

from workbench.bench import Bench, load_view
from workbench.headless.run import execute, plan_run

SHOW = (
    "from widgets.views import BenchExplorer\n"
    "view = BenchExplorer('v_mixture', '-3,0', '3,0', metric='density', lenses='paths,fisher,anisotropy')\n"
    "view.file.value = {path!r}\nview"
)
PATIENCE = 180_000
DROP = """(node, text) => {
  const carried = new DataTransfer();
  carried.items.add(new File([text], "view.yaml", {type: "application/yaml"}));
  for (const kind of ["dragover", "drop"])
    node.dispatchEvent(new DragEvent(kind, {dataTransfer: carried, bubbles: true, cancelable: true}));
}"""
"""Drop a file with this text on the picture."""
START = ".wb-point[data-id=start]"


def cell(page, curve, column):
    """A number of the table: its row by the curve, its column by the heading."""
    heads = page.locator(".wb-bench-table thead th").all_text_contents()
    row = page.locator(f".wb-bench-table tbody tr:has(th:text-is('{curve}'))").first
    texts = [curve, *row.locator("td").all_text_contents()]
    found = next(text for head, text in zip(heads, texts, strict=True) if head.startswith(column))
    return float(re.match(r"[-+\d.e]+", found).group(0))


def settled(page, before):
    """Wait until the full answer to another start than `before` is on the screen; returns its text."""
    start = page.locator(".widget-text input").first
    end = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < end:
        badge = page.locator(".wb-badge")
        done = page.locator(".jupyter-widgets [role=status]", has_text="answered").count() > 0
        if (
            done
            and badge.count()
            and "coarse" not in badge.first.text_content()
            and start.input_value() != before
        ):
            return start.input_value()
        page.wait_for_timeout(100)
    raise AssertionError(f"no full answer to a start other than {before}")


@pytest.mark.parametrize("headless", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_all_lenses_follow_a_drag_and_a_saved_view_is_repeated(
    lab, page, run_notebook, shoot, tmp_path, headless
):
    saved = tmp_path / "view.yaml"
    run_notebook(lab(f"bench-{headless}", [SHOW.format(path=str(saved)), "print('ALL', 'DONE')"]))
    settled(page, "nothing yet")
    assert "ALL DONE" in page.inner_text(".jp-Notebook")
    assert cell(page, "straight line", "length, euclidean") == pytest.approx(6.0, abs=1e-6)
    shoot("lab-bench")

    start = page.locator(".widget-text input").first
    before = start.input_value()
    box = page.locator(f"{START} .wb-dot").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(1, 9):
        page.mouse.move(x + 3 * k, y - 4 * k)
        page.wait_for_timeout(30)
    page.wait_for_function(
        "document.querySelector('.wb-badge')?.innerText.includes('coarse')", timeout=PATIENCE
    )
    shoot("lab-bench-dragging", of=".wb-canvas")
    page.mouse.up()
    dragged = settled(page, before)
    point = torch.tensor([float(part) for part in dragged.split(",")])
    straight = float((torch.tensor([3.0, 0.0]) - point).norm())
    assert cell(page, "straight line", "length, euclidean") == pytest.approx(straight, abs=1e-3)
    shoot("lab-bench-dragged")

    page.locator("button:has-text('Save view')").click()
    page.locator(".jupyter-widgets [role=status]", has_text="saved").wait_for(timeout=PATIENCE)
    state = load_view(saved)
    assert state.start == dragged
    view = Bench(state).ask()
    assert cell(page, "geodesic", "length, density") == pytest.approx(
        view.table.row("geodesic").lengths["density"].value, rel=1e-4
    )

    start.fill("-2.5,0.5")
    start.press("Enter")
    settled(page, dragged)
    page.locator(".wb-canvas").first.evaluate(DROP, saved.read_text(encoding="utf-8"))
    assert settled(page, "-2.5,0.5") == dragged

    assert page.outside == []
    assert page.problems == []
    if headless:
        result = execute(plan_run("90_side_by_side", preset=str(saved)), out=tmp_path / "run")
        assert result.exit_code == 0, result.message
        for name, number in view.numbers().items():
            assert result.metrics[name]["value"] == number.value, name  # exactly
