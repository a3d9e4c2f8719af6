"""The regression: agreement, every kind of difference, updates with a reason, budget and resumption."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest
import torch

from workbench.errors import DataError, SettingError
from workbench.headless.baselines import (
    Baseline,
    Expected,
    Tolerance,
    expect,
    judge,
    read_baseline,
    with_class,
)
from workbench.headless.catalog import find_notebooks, open_notebook
from workbench.headless.regress import parse_budget, plan_cases, regress, tolerance_class, update
from workbench.headless.run import Settings, execute, plan_run
from workbench.headless.verdicts import html_page, junit, text_table, write_reports

from .making import RECORD, write_notebook

ROOT = Path(__file__).resolve().parents[2]
CELL = 'scale: float = 1.0\nseed: int = 0\ndevice: str = "cpu"'
CELLS = (
    f"import os\nimport random\nimport plotly.graph_objects as go\n{RECORD}\n"
    "shift = float(os.environ.get('SHIFT', '0'))",
    "record('barrier', scale * 2.0 + shift, unit='nats', rtol=1e-6)\n"
    "record('draw', random.Random(seed).random(), rtol=1e-9)",
    "go.Figure(go.Scatter(y=[1, 2, 3]))",
)
METRIC = {"value": 2.0, "error": None, "unit": "nats", "rtol": 1e-6, "atol": 0.0}


@pytest.fixture(scope="module")
def baseline_folder(tmp_path_factory) -> Path:
    """A notebook with a preset, and the baselines of both."""
    folder = tmp_path_factory.mktemp("notebooks")
    path = write_notebook(folder, *CELLS, parameters=CELL)
    (folder / "presets").mkdir()
    (folder / "presets" / "tiny.yaml").write_text(
        "twice: {regress: true, parameters: {scale: 2}}\nlong: {}\n"
    )
    cases = plan_cases([open_notebook(path)], Settings(threads=1), folder / "first")
    done = regress(cases)
    assert [c.state for c in done.cases] == ["differs", "differs"]  # there is no baseline yet
    update(done.cases[0], "first numbers")
    update(done.cases[1], "first numbers", spread=False)
    return folder


@pytest.fixture
def folder(baseline_folder, tmp_path, monkeypatch) -> Path:
    """A copy of the notebook with its baselines; the working directory. Its two runs lie in ``out``."""
    shutil.copytree(baseline_folder, tmp_path / "nb")
    (tmp_path / "nb" / "first").rename(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "nb"


def cases_of(folder: Path):
    """The cases whose runs are done; only judging is left."""
    return plan_cases([open_notebook(folder / "tiny.ipynb")], Settings(threads=1), Path("out"))


def shifted(folder: Path, shift: float) -> None:
    path = folder / "metrics.json"
    metrics = json.loads(path.read_text())
    metrics["barrier"]["value"] += shift
    path.write_text(json.dumps(metrics))


def command(*arguments: object, **variables: str) -> tuple[int, str, str]:
    line = [sys.executable, "-m", "workbench", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_baseline_holds_truth_tolerances_reasons_and_spread(folder):
    baseline = read_baseline(folder / "baselines" / "tiny-default.json")
    barrier, draw = baseline.metrics["barrier"], baseline.metrics["draw"]
    assert barrier.value == 2.0
    assert barrier.tolerances == {"cpu/float64": Tolerance(1e-6, 0.0, "declared rtol 1e-06, atol 0")}
    assert barrier.spread == {"threads": 0.0, "seeds": 0.0}
    seeds = [random.Random(s).random() for s in range(3)]
    spread = max(abs(s - seeds[0]) for s in seeds)
    assert draw.spread["seeds"] == pytest.approx(spread)
    assert draw.tolerances["cpu/float64"].atol == pytest.approx(3 * spread)
    assert "3 times the spread" in draw.tolerances["cpu/float64"].reason
    (entry,) = baseline.updates
    assert entry["reason"] == "first numbers"
    assert entry["changed"] == ["barrier", "draw"]


def test_an_unchanged_notebook_agrees_and_leaves_its_reports(folder):
    done = regress(cases_of(folder))
    assert [c.state for c in done.cases] == ["agrees", "agrees"]
    assert done.exit_code == 0
    write_reports(done)
    page = (done.folder / "regress.html").read_text()
    assert page.count("<p>before</p>") == page.count("<p>now</p>") == 2
    assert page.count("Plotly.newPlot('figure-") == 4
    suites = xml.parse(done.folder / "junit.xml").getroot()
    assert [s.get("failures") for s in suites] == ["0", "0"]
    assert [t.get("name") for t in suites[0]] == ["run", "barrier", "draw"]
    assert "tiny-default: agrees" in text_table(done.cases)


def test_a_difference_exits_1_and_stands_in_every_report(folder):
    shifted(Path("out/tiny-default"), 1e-5)
    done = regress(cases_of(folder)[:1])
    assert done.exit_code == 1
    (barrier, draw) = done.cases[0].verdicts
    assert barrier.apart == pytest.approx(5.0, rel=1e-6)
    assert draw.agrees
    assert re.search(r"barrier +2 +2.00001 +5 +<--", text_table(done.cases))
    assert xml.fromstring(junit(done.cases).encode()).find(".//failure").get("message").startswith("2.00001,")
    assert ">differs<" in html_page(done.cases)


@pytest.mark.slow
def test_an_update_keeps_its_reason_and_shows_what_moved(folder):
    code, out, _ = command(
        "regress",
        folder / "tiny.ipynb",
        "--update",
        "--reason",
        "a better solver",
        "--no-spread",
        SHIFT="0.5",
    )
    assert code == 0
    assert "2.5" in out
    baseline = read_baseline(folder / "baselines" / "tiny-default.json")
    assert baseline.metrics["barrier"].value == 2.5
    assert [u["reason"] for u in baseline.updates] == ["first numbers", "a better solver"]
    assert baseline.updates[-1]["changed"] == ["barrier"]


def test_an_update_needs_a_reason():
    code, _, errors = command("regress", "--update")
    assert code == 2
    assert errors == "workbench: got --update without a reason; expected --reason TEXT\n"


@pytest.mark.parametrize(
    ("metrics", "note"),
    [
        ({}, "missing from the run"),
        ({"a": METRIC, "b": METRIC}, "not in the baseline"),
        ({"a": {**METRIC, "value": "nan"}}, ""),
        ({"a": {**METRIC, "unit": "bits"}}, "unit 'bits', was 'nats'"),
        ({"a": {**METRIC, "value": [2.0]}}, ""),
        ({"a": {**METRIC, "value": 2.00001}}, ""),
    ],
    ids=["missing", "extra", "nan", "unit", "vector", "moved"],
)
def test_each_kind_of_difference_is_one(metrics, note):
    baseline = Baseline("n", "p", expect({"a": METRIC}, "cpu/float64", threads={}, seeds={}))
    different = [v for v in judge(baseline, metrics, "cpu/float64") if not v.agrees]
    assert [v.note for v in different] == [note]


def test_a_nan_never_becomes_a_baseline():
    with pytest.raises(DataError, match="finite numbers in a baseline"):
        expect({"a": {**METRIC, "value": "nan"}}, "cpu/float64", threads={}, seeds={})


def test_a_class_that_was_never_measured_borrows_and_says_so():
    expected = Expected(2.0, "nats", {"cpu/float64": Tolerance(1e-6, 0.0, "declared")})
    assert expected.tolerance("cuda/float64").rtol == pytest.approx(1e-5)
    assert expected.tolerance("cuda/float32").rtol == 1e-3
    assert "not measured on cuda/float32" in expected.tolerance("cuda/float32").reason


def test_a_device_gets_its_class_from_its_difference_and_the_truth_stays():
    baseline = Baseline("n", "p", expect({"a": METRIC}, "cpu/float64", threads={}, seeds={}))
    own = with_class(baseline, {"a": {**METRIC, "value": 2.0001}}, "cuda/float64")["a"]
    assert own.value == 2.0
    assert own.tolerances["cuda/float64"].atol == pytest.approx(3e-4)
    assert own.tolerances["cpu/float64"].atol == 0.0


@pytest.mark.parametrize("damage", ["conflict", "json", "schema", "tolerance"])
def test_a_damaged_baseline_fails_its_case_alone_in_one_sentence(folder, damage):
    path = folder / "baselines" / "tiny-default.json"
    content = json.loads(path.read_text())
    if damage == "schema":
        content["schema"] = "other"
    if damage == "tolerance":
        content["metrics"]["draw"]["tolerances"] = {}
    text = json.dumps(content, indent=1)
    if damage == "conflict":
        text = f"<<<<<<< ours\n{text}\n=======\n{text}\n>>>>>>> theirs\n"
    path.write_text(text[:-9] if damage == "json" else text)
    with pytest.raises(DataError) as caught:
        read_baseline(path)
    assert "\n" not in str(caught.value)
    if damage == "conflict":
        done = regress(cases_of(folder))
        assert [c.state for c in done.cases] == ["failed", "agrees"]
        assert "with a conflict marker" in done.cases[0].message
        assert done.exit_code == 2


def test_a_run_that_fails_exits_2_and_the_others_go_on(folder):
    path = write_notebook(folder, "1 / 0", name="broken")
    cases = plan_cases([open_notebook(path), open_notebook(folder / "tiny.ipynb")], Settings(threads=1))
    Path("out/tiny-default").rename(cases[1].folder)
    done = regress(cases[:2])
    assert [c.state for c in done.cases] == ["failed", "agrees"]
    assert done.cases[0].message == "notebook error: ZeroDivisionError in cell 2: division by zero"
    assert done.exit_code == 2


def test_a_budget_stops_in_time_and_the_next_call_goes_on(folder):
    slow = write_notebook(
        folder, f"import time\n{RECORD}\ntime.sleep(float(open('delay').read()))\nrecord('a', 1)", name="slow"
    )
    Path("delay").write_text("60")
    books = [open_notebook(folder / "tiny.ipynb"), open_notebook(slow)]
    cases = plan_cases(books, Settings(threads=1))
    cases = [cases[0], cases[-1]]
    Path("out/tiny-default").rename(cases[0].folder)
    started = json.loads((cases[0].folder / "run.json").read_text())["started"]
    stopped = regress(cases, budget=6.0)
    assert [c.state for c in stopped.cases] == ["agrees", "not reached"]
    assert stopped.exit_code == 4
    Path("delay").write_text("0")
    again = plan_cases(books, Settings(threads=1))
    assert again[0].folder == cases[0].folder  # an incomplete folder is taken up
    went_on = regress([again[0], again[-1]])
    assert [c.state for c in went_on.cases] == ["agrees", "differs"]
    assert went_on.cases[0].run["started"] == started  # finished runs are not repeated


def test_a_folder_of_other_sources_is_refused(folder):
    write_notebook(folder, *CELLS, "1", parameters=CELL)
    with pytest.raises(SettingError, match="other sources"):
        cases_of(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\x00"])
def test_a_damaged_regression_folder_is_refused_by_name_and_passed_over_by_default(
    tmp_path, monkeypatch, text
):
    monkeypatch.chdir(tmp_path)
    books = [open_notebook(write_notebook(tmp_path, *CELLS, parameters=CELL))]
    (first,) = plan_cases(books, Settings(threads=1))
    (first.folder.parent / "regress.json").write_text(text)
    with pytest.raises(DataError, match=r"regress\.json, which `workbench regress` did not write"):
        plan_cases(books, Settings(threads=1), first.folder.parent)
    (second,) = plan_cases(books, Settings(threads=1))
    assert second.folder.parent.name == f"{first.folder.parent.name}-2"


@pytest.mark.slow
def test_jobs_run_in_processes_of_their_own(folder):
    shutil.rmtree("out")
    done = regress(cases_of(folder), jobs=2)
    assert [c.state for c in done.cases] == ["agrees", "agrees"]
    assert [c.run["preset"] for c in done.cases] == ["default", "twice"]


@pytest.mark.parametrize(("text", "seconds"), [("8m", 480), ("90s", 90), ("1.5h", 5400), ("90", 90)])
def test_a_budget_is_a_time(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-3", "0", "8 minutes"])
def test_a_budget_that_is_not_one_is_refused(text):
    with pytest.raises(SettingError, match="a time such as 8m"):
        parse_budget(text)


def test_two_runs_agree_bit_for_bit_on_the_cpu(tmp_path):
    """Matrix products, reductions and random draws on two threads: every recorded bit is the same."""
    work = (
        f"import torch\n{RECORD}\n"
        "x = torch.randn(300, 300)\n"
        "for _ in range(5): x = torch.tanh(x @ x.T / 300 + torch.randn(300, 300))\n"
        "record('sum', x.sum()); record('rows', x.mean(1)[:50]); record_artifact('x', x)"
    )
    plan = plan_run(write_notebook(tmp_path, work), settings=Settings(threads=2))
    first, second = (execute(plan, out=tmp_path / name).folder for name in ("a", "b"))
    for name in ("metrics.json", "artifacts/x.safetensors"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    run = json.loads((first / "run.json").read_text())
    assert run["determinism"] == {
        "asked": True,
        "deterministic_algorithms": True,
        "tf32": False,
        "cublas_workspace": ":4096:8",
        "hash_seed": "0",
    }
    assert tolerance_class(run) == "cpu/float64" if run["dtype"] == "float64" else "cpu/float32"


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device: the regression set against the CPU baselines"
)
def test_the_shipped_notebooks_agree_on_cuda(tmp_path):
    cases = plan_cases(
        [open_notebook(p) for p in find_notebooks()], Settings(device="cuda"), tmp_path / "cuda"
    )
    done = regress([replace(c) for c in cases])
    assert done.exit_code == 0, text_table(done.cases, only_differences=True)
