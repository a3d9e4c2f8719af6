"""The lab opens on an executed copy of the tour, and the list names what can be run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.errors import SettingError
from workbench.headless.catalog import find_notebooks, open_notebook
from workbench.headless.lab import open_lab, prepare_lab
from workbench.headless.parameters import declared

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_tour_is_executed_into_a_copy_that_is_then_kept(tmp_path):
    before = {path: path.read_bytes() for path in find_notebooks()}
    tour = prepare_lab(tmp_path)
    node = json.loads(tour.read_text())
    code = [cell for cell in node["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
    assert any("application/vnd.plotly.v1+json" in o.get("data", {}) for c in code for o in c["outputs"])
    assert not any("injected-parameters" in c["metadata"].get("tags", []) for c in code)
    assert {p.name for p in tour.parent.glob("*.ipynb")} == {p.name for p in before}
    assert {path: path.read_bytes() for path in find_notebooks()} == before
    tour.write_text("mine")
    assert prepare_lab(tmp_path).read_text() == "mine"


def test_a_lab_without_its_notebook_is_refused(tmp_path):
    with pytest.raises(SettingError, match="missing notebook"):
        open_lab(tmp_path / "00_tour.ipynb")


def test_the_list_names_notebooks_presets_and_parameters():
    line = [sys.executable, "-m", "workbench", "list"]
    listed = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for path in find_notebooks():
        book = open_notebook(path)
        assert f"{book.name}: " in listed
        for name in (
            *(f"preset {p}" for p in book.presets()),
            *(f"-p {p}=" for p in declared(book).defaults),
        ):
            assert name in listed


@pytest.mark.parametrize("path", find_notebooks(), ids=lambda path: path.stem)
def test_presets_fit_their_notebook_and_every_parameter_is_explained(path):
    book = open_notebook(path)
    declaration = declared(book)
    for preset in book.presets().values():
        declaration.check(preset.parameters)
    assert [p.name for p in declaration.parameters if not p.about] == []
