"""Every committed notebook reads like a short paper and holds nothing volatile."""

import ast
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "notebooks"
RECORD = "application/vnd.workbench.record+json"
NOTEBOOKS = sorted(ROOT.glob("*.ipynb"))
MACHINE_WORDS = (str(Path.home()) + "/", "/home/", "/Users/", "/tmp/", "site-packages")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request) -> dict:
    return json.loads(request.param.read_text())


def code_cells(notebook: dict) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source(cell: dict) -> str:
    return "".join(cell["source"])


def test_there_are_notebooks():
    assert {"00_tour", "10_paths"} <= {path.stem for path in NOTEBOOKS}


def test_it_opens_with_a_title_and_a_question(notebook):
    first = notebook["cells"][0]
    assert first["cell_type"] == "markdown"
    assert source(first).startswith("# ")
    assert "?" in source(first)


def test_one_cell_is_tagged_parameters(notebook):
    tagged = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    assert len(tagged) == 1


def test_cells_are_short_and_define_nothing(notebook):
    for cell in code_cells(notebook):
        text = source(cell)
        if "parameters" not in cell["metadata"].get("tags", []):
            assert len(text.splitlines()) <= 14, text
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        assert not any(isinstance(node, kinds) for node in ast.walk(ast.parse(text))), text


def test_it_was_run_from_top_to_bottom(notebook):
    counts = [cell["execution_count"] for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))


def test_it_records_numbers_in_two_cells_or_more(notebook):
    recording = [c for c in code_cells(notebook) if any(RECORD in o.get("data", {}) for o in c["outputs"])]
    assert len(recording) >= 2


def test_committed_outputs_are_records_and_nothing_else(notebook):
    for cell in code_cells(notebook):
        for output in cell["outputs"]:
            assert set(output["data"]) <= {RECORD, "text/plain"}
            assert RECORD in output["data"]


def test_nothing_volatile_is_kept(notebook):
    assert "widgets" not in notebook["metadata"]
    assert "papermill" not in notebook["metadata"]
    text = json.dumps(notebook)
    assert len(text) < 100_000
    assert not any(word in text for word in MACHINE_WORDS)
