"""Saved results come back equal, and a file can neither run code nor pass for another result."""

import pickle
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.errors import DataError, SettingError
from workbench.report import Estimate, Provenance, SolveReport, Status
from workbench.storage import load_result, read_header, save_result


@dataclass(frozen=True, slots=True)
class Sample:
    points: Tensor
    indices: Tensor
    barrier: Estimate
    parts: tuple[Estimate, ...]
    walkers: Tensor | None
    report: SolveReport
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Other:
    points: Tensor


def make_sample() -> Sample:
    return Sample(
        points=torch.randn(3, 2, dtype=torch.float64),
        indices=torch.arange(3),
        barrier=Estimate(1.5, None, "nats"),
        parts=(Estimate(float("nan"), float("inf")), Estimate(0.1)),
        walkers=None,
        report=SolveReport(Status.DIVERGED, 3, float("inf"), 12, (1.0, 2.0), ("a warning",), "why"),
        provenance=Provenance({"nodes": 33, "window": (0.1, 0.95), "deep": {"a": [1, None]}}, seed=4),
    )


def test_round_trip_is_exact(tmp_path):
    sample = make_sample()
    loaded = load_result(save_result(sample, tmp_path / "run"), Sample)
    assert torch.equal(loaded.points, sample.points)
    assert loaded.indices.dtype == torch.int64
    assert torch.equal(loaded.indices, sample.indices)
    assert loaded.barrier == sample.barrier
    assert np.isnan(loaded.parts[0].value)
    assert loaded.parts[0].error == float("inf")
    assert loaded.parts[1] == sample.parts[1]
    assert loaded.walkers is None
    assert loaded.report == sample.report
    assert isinstance(loaded.report.status, Status)
    assert loaded.provenance == sample.provenance


def test_header_is_readable_without_the_class(tmp_path):
    header = read_header(save_result(make_sample(), tmp_path / "run.npz"))
    assert header["result"]["fields"]["points"]["shape"] == [3, 2]


def test_another_class_is_refused(tmp_path):
    path = save_result(make_sample(), tmp_path / "run")
    with pytest.raises(DataError, match=r"got a saved Sample .* expected a saved Other"):
        load_result(path, Other)


def test_an_existing_file_is_never_overwritten(tmp_path):
    path = save_result(make_sample(), tmp_path / "run")
    before = path.read_bytes()
    with pytest.raises(SettingError, match="existing file"):
        save_result(make_sample(), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("code ran on load",))


@pytest.mark.parametrize("content", ["pickle", "pickled array", "text", "nothing"])
def test_foreign_files_are_refused_without_running_them(tmp_path, content):
    path = tmp_path / "bad.npz"
    if content == "pickle":
        path.write_bytes(pickle.dumps(Evil()))
    elif content == "pickled array":
        np.savez(path, header=np.array([Evil()], dtype=object))
    elif content == "text":
        path.write_text("not a result")
    with pytest.raises(DataError, match="got"):
        load_result(path, Sample)


def test_a_class_that_the_annotations_do_not_name_is_not_built(tmp_path):
    path = save_result(make_sample(), tmp_path / "run")
    with np.load(path) as file:
        arrays = dict(file)
    text = arrays["header"].tobytes().decode().replace('"Provenance"', '"Popen"')
    arrays["header"] = np.frombuffer(text.encode(), dtype=np.uint8)
    np.savez(tmp_path / "forged.npz", **arrays)
    with pytest.raises(DataError, match="Popen"):
        load_result(tmp_path / "forged.npz", Sample)


@pytest.mark.parametrize("value", [object(), torch.zeros(2, dtype=torch.bfloat16)])
def test_what_cannot_be_written_is_named(tmp_path, value):
    with pytest.raises(SettingError, match=r"Other\.points"):
        save_result(Other(value), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bytes_never_raise_from_the_depths(tmp_path, seed):
    data = bytearray(save_result(make_sample(), tmp_path / "run").read_bytes())
    rng = np.random.default_rng(seed)
    for position in rng.integers(0, len(data), 3):
        data[position] = rng.integers(256)
    kept = int(rng.integers(0, len(data))) if seed % 2 else len(data)
    (tmp_path / "bad.npz").write_bytes(data[:kept])
    with suppress(DataError):  # anything else fails the test
        load_result(tmp_path / "bad.npz", Sample)


def test_another_format_is_refused(tmp_path):
    path = save_result(make_sample(), tmp_path / "run")
    with np.load(path) as file:
        arrays = dict(file)
    text = arrays["header"].tobytes().decode().replace('"format": 1', '"format": 99')
    arrays["header"] = np.frombuffer(text.encode(), dtype=np.uint8)
    np.savez(tmp_path / "later.npz", **arrays)
    with pytest.raises(DataError, match="format 99"):
        load_result(tmp_path / "later.npz", Sample)


@pytest.mark.parametrize(
    "call",
    [
        lambda path: save_result("text", path),
        lambda path: save_result(Other(torch.zeros(1)), "/proc/x.npz"),
        lambda path: save_result(Other(torch.zeros(1)), path / ("x" * 300)),
        lambda path: load_result(path / "run.npz", Other, device="warp"),
    ],
)
def test_what_cannot_be_saved_or_loaded_is_one_sentence(tmp_path, call):
    with pytest.raises((SettingError, DataError), match="got"):
        call(tmp_path)
