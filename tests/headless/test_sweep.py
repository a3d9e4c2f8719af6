"""Sweeps: points from a grid, survival of lost workers and drivers, one tidy table. Real clusters."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas
import psutil
import pytest

from workbench.errors import DataError, SettingError
from workbench.headless.catalog import open_notebook
from workbench.headless.clusters import job_script
from workbench.headless.grid import read_points
from workbench.headless.run import execute, plan_run
from workbench.headless.sweep import plan_sweep, run_point, state_of
from workbench.headless.tables import collect, write_table

from .making import RECORD, write_notebook

ROOT = Path(__file__).resolve().parents[2]
CELL = "n: int = 1  # 1..99\nseed: int = 0\nnap: float = 0.0"
WORK = f"{RECORD}\nimport time\ntime.sleep(nap)\nrecord('y', 1.5 * n + seed, error=0.1, unit='nats')"


def start(*arguments: object) -> subprocess.Popen:
    line = [sys.executable, "-m", "workbench", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(line, cwd=ROOT, **streams)


def grid_file(folder: Path, text: str) -> Path:
    path = folder / "grid.yaml"
    path.write_text(text)
    return path


def wait_for(condition, seconds: float = 240.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not happen")


def completed(folder: Path) -> int:
    return sum(state_of(path) == "completed" for path in (folder / "points").glob("*"))


def workers_of(process: subprocess.Popen) -> list[psutil.Process]:
    """The dask workers that have a point running: parents of runs below the driver."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            line = child.cmdline()
            if "workbench" in line and "run" in line:
                found.append(child.parent())
        except psutil.NoSuchProcess:
            continue
    return [worker for worker in found if worker is not None]


def no_kernels_below(text: str) -> bool:
    return not any(text in " ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"]))


@pytest.fixture
def finished(tmp_path) -> Path:
    """A sweep of three points of which one failed and one never ran, made without a cluster."""
    path = write_notebook(tmp_path, WORK, "assert n != 2", parameters=CELL)
    planned = plan_sweep(open_notebook(path), [{"n": 1}, {"n": 2}, {"n": 3}], tmp_path / "sweep")
    for point in planned.points[:2]:
        execute(plan_run(path, arguments=point.parameters, environment={}), out=point.folder)
    return tmp_path / "sweep"


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("grid: {n: [1, 2], seed: [0, 1]}", [(1, 0), (1, 1), (2, 0), (2, 1)]),
        ("fixed: {seed: 5}\ngrid: {n: [1, 2]}\nlist: [{n: 9, seed: 7}]", [(1, 5), (2, 5), (9, 7)]),
        ("list: [{n: 3, seed: 1}]", [(3, 1)]),
    ],
)
def test_points_come_from_grids_and_lists(tmp_path, text, points):
    assert [(p["n"], p["seed"]) for p in read_points(grid_file(tmp_path, text))] == points


def test_a_random_sample_is_the_same_every_time(tmp_path):
    draw = "{n: {low: 1, high: 9}, nap: {low: 0.01, high: 10, log: true}, seed: [0, 7]}"
    text = f"random: {{count: 50, seed: 3, draw: {draw}}}"
    points = read_points(grid_file(tmp_path, text))
    assert points == read_points(tmp_path / "grid.yaml")
    assert {p["seed"] for p in points} == {0, 7}
    assert all(1 <= p["n"] <= 9 and 0.01 <= p["nap"] <= 10 for p in points)
    assert 0.2 < sum(p["nap"] < 0.316 for p in points) / 50 < 0.8  # log-uniform: half lie below the middle


@pytest.mark.parametrize(
    "text",
    ["grids: {n: [1]}", "grid: {n: 1}", "grid: {n: []}", "list: {n: 1}", "random: {count: 0, draw: {}}",
     "random: {count: 2, draw: {n: {low: 1}}}", "[1]", "grid: [",
     "random: {count: 2, seed: [1], draw: {n: [1]}}", "random: {count: 2, seed: null, draw: {n: [1]}}",
     f"random: {{count: 1, draw: {{n: {{low: 0.5, high: {10**400}}}}}}}", "fixed: {n: 2020-13-45}",
     f"grid: {{a: {[*range(50)]}, b: {[*range(50)]}, c: {[*range(50)]}}}"],
)  # fmt: skip
def test_a_grid_that_is_not_one_is_refused_in_one_sentence(tmp_path, text):
    with pytest.raises((SettingError, DataError)) as caught:
        read_points(grid_file(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_every_point_is_checked_before_anything_runs(tmp_path):
    book = open_notebook(write_notebook(tmp_path, WORK, parameters=CELL))
    with pytest.raises(SettingError, match="got n=100"):
        plan_sweep(book, [{"n": 1}, {"n": 100}], tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize(
    "text",
    ["grid: {1: [2]}", "fixed: {1: 2}", "list: [{1: 2}]", "random: {count: 1, draw: {1: [2]}}"],
)
def test_a_number_for_a_name_is_refused_in_every_part(tmp_path, text):
    with pytest.raises(DataError, match=r"got parameter 1 in .*grid\.yaml; expected names"):
        read_points(grid_file(tmp_path, text))


def test_a_sweep_can_grow_and_equal_points_are_one(tmp_path):
    book = open_notebook(write_notebook(tmp_path, WORK, parameters=CELL))
    first = plan_sweep(book, [{"n": 1}, {"n": 1, "seed": 0}], tmp_path / "sweep")
    assert len(first.points) == 1
    plan_sweep(book, [{"n": 2}], tmp_path / "sweep")
    assert [row["n"] for row in collect(tmp_path / "sweep")] == [1, 2]


def test_a_completed_point_is_skipped_and_a_failed_one_is_put_aside(finished):
    done, failed = sorted((finished / "points").iterdir(), key=lambda p: state_of(p) != "completed")
    before = (done / "run.json").stat().st_mtime_ns
    assert run_point(str(done), ["never"]) == "completed"
    assert (done / "run.json").stat().st_mtime_ns == before
    assert run_point(str(failed), ["list", "no-such-notebook"]).startswith("exit code 2: workbench: got")
    assert state_of(failed.with_name(f"{failed.name}.failed-1")) == "notebook error"


def test_the_table_has_a_row_for_every_point(finished):
    files = write_table(finished, metric="y", x="n")
    parquet, csv = pandas.read_parquet(files[0]), pandas.read_csv(files[1])
    for frame in (parquet, csv):
        assert list(frame["status"]) == ["completed", "notebook error", "not run"]
        assert list(frame["n"]) == [1, 2, 3]
        assert frame["y"][0] == 1.5
        assert frame["y.error"][0] == 0.1
        assert frame["y"].isna()[2]
    page = files[2].read_text()
    assert "y over n" in page
    assert "Plotly.newPlot('figure-0'" in page
    with pytest.raises(SettingError, match="column 'z'; expected one of point, status"):
        write_table(finished, metric="z")


def test_a_table_needs_a_sweep(tmp_path):
    with pytest.raises(DataError, match="which is not a sweep"):
        collect(tmp_path)


@pytest.mark.parametrize(
    ("system", "lines"),
    [
        ("slurm", ["#SBATCH -p gpu", "#SBATCH --cpus-per-task=2", "#SBATCH -t 00:10:00"]),
        ("pbs", ["#PBS -q gpu", "#PBS -l select=1:ncpus=2:mem=3815MB", "#PBS -l walltime=00:10:00"]),
    ],
)
def test_a_job_script_is_written_as_asked(system, lines):
    script = job_script(system, {"queue": "gpu", "cores": "2", "walltime": "00:10:00"}).splitlines()
    for line in (*lines, "export OMP_WAIT_POLICY=passive"):
        assert line in script
    assert "dask_worker" in script[-1]


def test_an_unknown_option_of_a_batch_system_is_refused(tmp_path):
    grid = grid_file(tmp_path, "grid: {n: [1]}")
    process = start("sweep", "any", "--grid", grid, "--show-script", "--slurm", "quueue=gpu")
    out, errors = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert "unexpected keyword argument 'quueue'" in errors
    assert errors.endswith("expected options of dask_jobqueue.SLURMCluster\n")
    assert errors.count("\n") == 1


def test_a_sweep_over_a_local_cluster_completes_and_says_so(tmp_path):
    path = write_notebook(tmp_path, WORK, "assert n != 2", parameters=CELL)
    grid = grid_file(tmp_path, "grid: {n: [1, 2, 3]}")
    process = start(
        "sweep", path, "--grid", grid, "--out", tmp_path / "sweep", "--jobs", "2", "--retries", "1"
    )
    out, errors = process.communicate()
    assert process.returncode == 3, errors
    assert "2 of 3 points completed" in out
    assert "notebook error {'n': 2" in errors
    assert completed(tmp_path / "sweep") == 2
    assert len(list((tmp_path / "sweep" / "points").glob("*failed*"))) == 0  # an error would come again


@pytest.mark.slow
def test_a_killed_worker_costs_no_point_of_24(tmp_path):
    path = write_notebook(tmp_path, WORK, parameters=CELL)
    grid = grid_file(tmp_path, f"fixed: {{nap: 0.5}}\ngrid: {{n: {list(range(1, 13))}, seed: [0, 1]}}")
    process = start("sweep", path, "--grid", grid, "--out", tmp_path / "sweep", "--jobs", "2")
    wait_for(lambda: completed(tmp_path / "sweep") >= 3)
    worker = wait_for(lambda: workers_of(process))[0]
    worker.send_signal(signal.SIGKILL)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "24 of 24 points completed" in out
    write_table(tmp_path / "sweep")
    frame = pandas.read_parquet(tmp_path / "sweep" / "table.parquet")
    assert len(frame) == 24
    assert list(frame["y"]) == [1.5 * n + seed for n, seed in zip(frame["n"], frame["seed"], strict=True)]
    assert no_kernels_below(str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path, number):
    path = write_notebook(tmp_path, WORK, parameters=CELL)
    grid = grid_file(tmp_path, "fixed: {nap: 1}\ngrid: {n: [1, 2, 3, 4, 5, 6]}")
    arguments = ("sweep", path, "--grid", grid, "--out", tmp_path / "sweep", "--jobs", "2")
    process = start(*arguments)
    wait_for(lambda: completed(tmp_path / "sweep") >= 2)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == (130 if number == signal.SIGINT else -9)
    wait_for(lambda: no_kernels_below(str(tmp_path / "sweep" / "points")))
    before = {p.name: (p / "run.json").stat().st_mtime_ns for p in (tmp_path / "sweep" / "points").glob("*")
              if state_of(p) == "completed"}  # fmt: skip
    again = start(*arguments)
    out, errors = again.communicate()
    assert again.returncode == 0, errors
    assert "6 of 6 points completed" in out
    assert f"{len(before)} of 6 points were completed before" in errors
    for name, stamp in before.items():
        assert (tmp_path / "sweep" / "points" / name / "run.json").stat().st_mtime_ns == stamp


@pytest.mark.slow
def test_points_that_lose_their_kernel_are_tried_again_and_then_reported(tmp_path):
    die = "import os\nif n == 1: os._exit(9)"
    path = write_notebook(tmp_path, WORK, die, parameters=CELL)
    grid = grid_file(tmp_path, "grid: {n: [1, 2]}")
    process = start("sweep", path, "--grid", grid, "--out", tmp_path / "sweep", "--retries", "2")
    out, errors = process.communicate()
    assert process.returncode == 3
    assert "1 of 2 points completed" in out
    assert errors.count("kernel died") == 4  # three attempts and the summary
    assert len(list((tmp_path / "sweep" / "points").glob("*.failed-*"))) == 2
    assert json.loads((tmp_path / "sweep" / "sweep.json").read_text())["points"]


@pytest.mark.slow
def test_a_running_scheduler_can_be_used(tmp_path):
    """An address instead of a local cluster: the workers are whoever is connected."""
    from distributed import LocalCluster

    path = write_notebook(tmp_path, WORK, parameters=CELL)
    grid = grid_file(tmp_path, "grid: {n: [1, 2]}")
    os.environ["PYTHONPATH"] = str(ROOT)
    with LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        process = start("sweep", path, "--grid", grid, "--out", tmp_path / "sweep", "--scheduler", address)
        out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "2 of 2 points completed" in out
