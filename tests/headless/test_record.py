"""Records: what is printed, what is emitted, what is refused."""

import json
import math
import subprocess
import sys

import nbformat
import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from safetensors.torch import load

from workbench.errors import SettingError
from workbench.headless.record import MIME, Record, metrics_of, read_records, record, record_artifact
from workbench.report import Estimate


def notebook_of(*cells: list[Record]):
    """A notebook whose cells hold these records."""
    node = nbformat.v4.new_notebook()
    for records in cells:
        outputs = [nbformat.v4.new_output("display_data", {MIME: r.payload()}) for r in records]
        node.cells.append(nbformat.v4.new_code_cell("pass", outputs=outputs))
    return nbformat.from_dict(json.loads(nbformat.writes(node)))


def test_outside_a_notebook_a_record_is_one_printed_line(capsys):
    record("barrier", 1.587018, unit="nats", error=2e-4)
    assert capsys.readouterr().out == "barrier = 1.58702 ± 0.0002 nats\n"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2, 2.0),
        (np.float32(0.5), 0.5),
        (torch.tensor(0.25), 0.25),
        (True, 1.0),
        ([1, 2.5], [1.0, 2.5]),
        ((1, 2), [1.0, 2.0]),
        (np.arange(3), [0.0, 1.0, 2.0]),
        (torch.tensor([1.0, 2.0], requires_grad=True), [1.0, 2.0]),
        ([torch.tensor(1.0), np.float64(2)], [1.0, 2.0]),
    ],
    ids=lambda v: type(v).__name__,
)
def test_numbers_of_every_library_become_floats(value, expected, monkeypatch):
    kept = []
    monkeypatch.setattr("workbench.headless.record.publish", kept.append)
    record("x", value)
    assert kept[0].value == expected


def test_an_estimate_brings_its_error_and_unit(monkeypatch):
    kept = []
    monkeypatch.setattr("workbench.headless.record.publish", kept.append)
    record("barrier", Estimate(1.5, 0.1, "nats"))
    assert kept == [Record("barrier", 1.5, "nats", error=0.1)]


@pytest.mark.parametrize("value", ["text", None, [], [[1.0, 2.0]], {"a": 1}, list(range(65)), 1j], ids=repr)
def test_what_is_not_a_number_is_refused_in_one_sentence(value):
    with pytest.raises(SettingError, match="for record 'x'; expected") as caught:
        record("x", value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "1a", "a b", "a/b", "../a"], ids=repr)
def test_names_that_are_not_names_are_refused(name):
    with pytest.raises(SettingError, match="record name"):
        record(name, 1.0)


@pytest.mark.parametrize("tolerance", [-1e-6, math.nan, math.inf])
def test_tolerances_are_finite_and_not_negative(tolerance):
    with pytest.raises(SettingError, match="rtol"):
        record("x", 1.0, rtol=tolerance)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [1.0, math.nan]], ids=repr)
def test_non_finite_numbers_survive_strict_json(value):
    text = json.dumps(Record("x", value, error=math.nan).payload(), allow_nan=False)
    back = Record.parse(json.loads(text))
    assert str(back.value) == str(value)
    assert math.isnan(back.error)


def test_read_records_returns_them_in_order_with_their_tolerances():
    first, second = Record("b", 1.0, "nats", 1e-3, 0.5, 0.1), Record("a", [1.0, 2.0])
    assert list(read_records(notebook_of([first], [second])).values()) == [first, second]


@pytest.mark.parametrize("cells", [([Record("a", 1.0)], [Record("a", 1.0)]), ([Record("a", 1.0)] * 2,)])
def test_one_name_twice_is_refused_with_the_cells_named(cells):
    with pytest.raises(SettingError, match=r"two records named 'a' \(cells 1 and [12]\)"):
        read_records(notebook_of(*cells))


def test_metrics_hold_numbers_only_and_are_strict_json():
    records = {"a": Record("a", math.nan, "nats"), "f": Record("f", "artifacts/f.json", sha256="0" * 64)}
    assert metrics_of(records) == {
        "a": {"value": "nan", "error": None, "unit": "nats", "rtol": 1e-6, "atol": 0.0}
    }


def test_artefacts_are_files_where_a_runner_asks_for_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORKBENCH_ARTIFACTS", str(tmp_path / "kept"))
    figure = record_artifact("curve", go.Figure(go.Scatter(y=[1, 3, 2])))
    tensors = record_artifact("path", {"points": torch.eye(2)})
    assert json.loads(figure.read_text())["data"][0]["type"] == "scatter"
    torch.testing.assert_close(load(tensors.read_bytes())["points"], torch.eye(2))
    assert "curve -> artifacts/curve.plotly.json" in capsys.readouterr().out


def test_artefacts_are_only_named_where_no_runner_asks(monkeypatch):
    monkeypatch.delenv("WORKBENCH_ARTIFACTS", raising=False)
    assert record_artifact("path", torch.eye(2)) is None
    with pytest.raises(SettingError, match="a plotly figure"):
        record_artifact("path", "text")


def test_recording_imports_no_notebook_package():
    code = (
        "import sys; from workbench.headless.record import record; record('a', 1); "
        "print([m for m in ('IPython', 'papermill', 'nbformat', 'plotly', 'dask') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["a = 1", "[]"]


def test_a_whole_number_beyond_every_float_is_one_sentence():
    with pytest.raises(
        SettingError, match=r"^got a whole number beyond every float for record 'a'; expected"
    ):
        record("a", 10**400)
    with pytest.raises(SettingError, match="beyond every float for record 'a'"):
        record("a", [1, -(10**400)])
