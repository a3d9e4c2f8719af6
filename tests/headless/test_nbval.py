"""nbval judges records by their tolerances and cannot pass vacuously; one execution can serve it too."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from workbench.errors import DataError
from workbench.headless import refresh
from workbench.headless.catalog import open_notebook
from workbench.headless.compare import distance
from workbench.headless.record import MIME

from .making import RECORD, write_notebook

ROOT = Path(__file__).resolve().parents[2]
CELLS = (
    f"import os, time\n{RECORD}\nshift = float(os.environ.get('SHIFT', '0'))",
    "print('volatile', time.time(), '%.4f' % (1.587 + shift))",
    "from IPython.display import display\n"
    "display({'application/vnd.jupyter.widget-view+json': {'model_id': str(time.time())},"
    " 'image/png': 'AAAA'}, raw=True)",
    "record('barrier', 1.587 + shift, unit='nats', rtol=1e-5)",
    "record('profile', [0.0, 2.0 + shift], atol=1e-3)",
)


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    """A folder with a notebook in its committed form and the conftest of ours."""
    folder = tmp_path_factory.mktemp("reference")
    path = write_notebook(folder, *CELLS)
    assert refresh.refresh(path) is True
    shutil.copy(ROOT / "notebooks" / "conftest.py", folder)
    return folder


@pytest.fixture
def folder(reference, tmp_path) -> Path:
    """A copy of the reference, with a copy of its execution beside it."""
    shutil.copytree(reference, tmp_path / "notebooks")
    (tmp_path / "executed" / "tiny-default").mkdir(parents=True)
    shutil.copy(reference / "tiny.ipynb", tmp_path / "executed" / "tiny-default" / "notebook.ipynb")
    return tmp_path


@pytest.fixture
def nbval(folder, capsys):
    """Run pytest with nbval over the copy; returns its exit code and what it printed.

    Executions are judged in this process; a real kernel gets a pytest of its own.
    """

    def judge(*, replay: bool = True, mode: str = "--nbval", **variables: str) -> tuple[int, str]:
        arguments = ["-p", "nbval.plugin", mode, str(folder / "notebooks"), "-q", "--color=no"]
        arguments += ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder)]
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables}
        if not replay:
            (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
            line = [sys.executable, "-m", "pytest", *arguments, "-c", str(folder / "pytest.ini")]
            environment["PYTHONPATH"] = str(ROOT)
            done = subprocess.run(line, env=environment, capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr
        before = dict(os.environ)
        os.environ.update(environment, WORKBENCH_EXECUTED=str(folder / "executed"))
        try:
            code = pytest.main([*arguments, "--import-mode=importlib"])
        finally:
            os.environ.clear()
            os.environ.update(before)
        said = capsys.readouterr()
        return code, said.out + said.err

    return judge


def change(path: Path, edit) -> None:
    node = nbformat.read(path, as_version=4)
    edit(node)
    nbformat.write(node, path)


def barrier(node) -> dict:
    return node.cells[5].outputs[0].data[MIME]


def test_the_committed_form_holds_records_and_counts_only(reference):
    node = open_notebook(reference / "tiny.ipynb").node
    assert refresh.find_volatile(node) == []
    assert [c.execution_count for c in node.cells if c.cell_type == "code"] == [1, 2, 3, 4, 5, 6]
    assert [len(c.outputs) for c in node.cells if c.cell_type == "code"] == [0, 0, 0, 0, 1, 1]
    assert (reference / "tiny.ipynb").stat().st_size < 6000


@pytest.mark.slow
def test_a_refresh_of_a_fresh_notebook_changes_nothing(reference, tmp_path):
    path = shutil.copy(reference / "tiny.ipynb", tmp_path)
    assert refresh.refresh(Path(path)) is False


def test_a_real_kernel_agrees_with_its_reference(folder, nbval):
    code, text = nbval(replay=False)
    assert code == 0, text
    assert "6 passed" in text


def test_a_change_of_1e_4_in_a_real_kernel_fails(folder, nbval):
    code, text = nbval(replay=False, SHIFT="1e-4")
    assert code == 1, text
    assert "1 failed, 5 passed" in text
    assert "barrier: 1.5871 where 1.587 was expected: 6.3 tolerances apart" in text


@pytest.mark.parametrize("mode", ["--nbval", "--nbval-lax"])
@pytest.mark.parametrize(("tolerances", "code"), [(2.0, 1), (0.5, 0), (0.0, 0)])
def test_two_tolerances_fail_and_half_of_one_passes(folder, nbval, tolerances, code, mode):
    def shift(node):
        barrier(node)["value"] += tolerances * 1e-5 * 1.587

    change(folder / "executed" / "tiny-default" / "notebook.ipynb", shift)
    got, text = nbval(mode=mode)
    assert got == code, text


def _nan(node):
    barrier(node)["value"] = "nan"


def _unit(node):
    barrier(node)["unit"] = "bits"


def _renamed(node):
    barrier(node)["name"] = "barriere"


def _missing(node):
    node.cells[5].outputs = []


def _twice(node):
    node.cells[5].outputs *= 2


def _source(node):
    node.cells[5].source += "  # edited"


def _pending(node):
    node.cells[5].metadata["papermill"] = {"status": "pending"}


@pytest.mark.parametrize("edit", [_nan, _unit, _renamed, _missing, _twice, _source, _pending])
def test_what_is_not_the_same_record_fails(folder, nbval, edit):
    change(folder / "executed" / "tiny-default" / "notebook.ipynb", edit)
    code, text = nbval()
    assert code == 1, text


def _widget(node):
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "another"}, "image/png": "BBBB"}
    node.cells[4].outputs = [nbformat.v4.new_output("display_data", view)]


def _printed(node):
    node.cells[3].outputs = [nbformat.v4.new_output("stream", name="stdout", text="other text")]


@pytest.mark.parametrize("edit", [_widget, _printed])
@pytest.mark.parametrize("where", ["notebooks/tiny.ipynb", "executed/tiny-default/notebook.ipynb"])
def test_ids_pictures_and_printed_text_are_not_compared(folder, nbval, edit, where):
    change(folder / where, edit)
    code, text = nbval()
    assert code == 0, text


@pytest.mark.parametrize("mode", ["--nbval", "--nbval-lax"])
def test_a_reference_that_was_never_run_is_an_error_at_collection(folder, nbval, mode):
    def strip(node):
        for cell in node.cells:
            if cell.cell_type == "code":
                cell.execution_count, cell.outputs = None, []

    change(folder / "notebooks" / "tiny.ipynb", strip)
    code, text = nbval(mode=mode)
    assert code == pytest.ExitCode.USAGE_ERROR, text
    assert "never executed" in text


def test_a_reference_without_a_record_is_an_error_at_collection(folder, nbval):
    def strip(node):
        for cell in node.cells:
            cell.pop("outputs", None)
            if cell.cell_type == "code":
                cell.outputs = []

    change(folder / "notebooks" / "tiny.ipynb", strip)
    code, text = nbval()
    assert code == pytest.ExitCode.USAGE_ERROR, text
    assert "without a recorded number" in text


@pytest.mark.parametrize(
    ("edit", "thing"),
    [
        (_widget, "an output (display_data) that is not a record in cell 5"),
        (lambda n: n.cells[2].metadata.update(execution={}), "metadata 'execution' in cell 3"),
        (lambda n: n.metadata.update(widgets={}), "notebook metadata 'widgets'"),
        (lambda n: n.cells[2].update(execution_count=9), "execution count 9 in code cell 2"),
        (lambda n: n.metadata.language_info.update(version="3.11"), "language_info beyond its name"),
        (lambda n: barrier(n).update(sha256="0"), "a digest in cell 6"),
    ],
    ids=["output", "timing", "widgets", "count", "version", "digest"],
)
def test_each_volatile_thing_is_found(folder, edit, thing):
    path = folder / "notebooks" / "tiny.ipynb"
    change(path, edit)
    assert refresh.check([path]) == [f"tiny.ipynb: {thing}"]


def test_a_notebook_that_fails_is_not_written_back(tmp_path):
    path = write_notebook(tmp_path, "1 / 0")
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"tiny.ipynb: notebook error: ZeroDivisionError in cell 2"):
        refresh.refresh(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("old", "now", "apart"),
    [
        (2.0, 2.0, 0.0),
        (2.0, 2.003, 1.0),
        ([1.0, 2.0], [1.0, 2.006], 2.0),
        (0.0, 0.001, 1.0),
        (float("inf"), float("inf"), 0.0),
        (2.0, float("inf"), float("inf")),
        (float("nan"), float("nan"), float("inf")),
        ([1.0], [1.0, 1.0], float("inf")),
        ([1.0], 1.0, float("inf")),
        ("artifacts/a.json", "artifacts/a.json", 0.0),
    ],
)
def test_the_distance_is_told_in_tolerances(old, now, apart):
    assert distance(old, now, rtol=1e-3, atol=1e-3) == pytest.approx(apart, rel=1e-9)
