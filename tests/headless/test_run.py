"""Headless runs: what a run leaves, and what each kind of failure leaves. Real kernels throughout."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from workbench.errors import DataError, SettingError
from workbench.headless import folder as folders
from workbench.headless.catalog import open_notebook
from workbench.headless.run import Settings, execute, plan_run

from .making import RECORD, write_notebook

ROOT = Path(__file__).resolve().parents[2]


def run_json(path: Path) -> dict:
    return json.loads((path / "run.json").read_text())


def statuses(path: Path) -> list[str]:
    node = json.loads((path / "notebook.ipynb").read_text())
    return [c["metadata"]["papermill"]["status"] for c in node["cells"] if c["cell_type"] == "code"]


def kernels_of(pid: int) -> list[psutil.Process]:
    """The kernels below a process."""
    try:
        children = psutil.Process(pid).children(recursive=True)
        return [c for c in children if "ipykernel_launcher" in " ".join(c.cmdline())]
    except psutil.NoSuchProcess:
        return []


def command(*arguments: object, **options) -> subprocess.Popen:
    """The command line as a process of its own."""
    line = [sys.executable, "-m", "workbench", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(line, cwd=ROOT, **streams, **options)


def wait_for_line(process: subprocess.Popen, text: str) -> None:
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"{text!r} never came; exit code {process.wait()}")


def test_a_completed_run_leaves_the_four_files(tmp_path):
    cells = (
        f"import torch\n{RECORD}\nimport plotly.graph_objects as go\nprint(text)",
        "fig = go.Figure(go.Scatter(y=[1, 2])); record_artifact('curve', fig); fig",
        "record('barrier', 1.5 * nodes, unit='nats', rtol=1e-4, error=0.1)\nrecord('bad', float('nan'))",
    )
    cell = 'nodes: int = 3  # 1..9\ntext: str = ""\ndevice: str = "cpu"'
    path = write_notebook(tmp_path, *cells, parameters=cell)
    code = '__import__("os").mkdir("injected")'
    plan = plan_run(path, arguments={"nodes": "7", "text": code}, settings=Settings(device="auto", threads=1))
    out = tmp_path / "out {with braces}"
    moments = []
    result = execute(plan, out=out, listener=moments.append)

    assert (result.status, result.exit_code, result.folder) == ("completed", 0, out)
    assert sorted(p.name for p in out.iterdir()) == [
        "artifacts", "metrics.json", "notebook.ipynb", "report.html", "run.json",
    ]  # fmt: skip
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["barrier"] == {"value": 10.5, "error": 0.1, "unit": "nats", "rtol": 1e-4, "atol": 0.0}
    assert metrics["bad"]["value"] == "nan"
    run = run_json(out)
    assert run["parameters"] == {"nodes": 7, "text": code, "device": plan.settings.device}
    assert run["threads"] == 1
    assert run["determinism"]["deterministic_algorithms"] is True
    assert run["determinism"]["tf32"] is False
    assert run["memory"]["peak_resident_mb"] > 10
    assert set(run["versions"]) >= {"python", "torch", "numpy", "workbench"}
    assert not (tmp_path / "injected").exists()
    assert code in (out / "notebook.ipynb").read_text().replace('\\"', '"').replace("\\\\", "")
    report = (out / "report.html").read_text()
    assert report.count("Plotly.newPlot(") >= 1
    assert "https://cdn" not in report.split("</script>")[-1]
    assert [m.cell for m in moments if m.fraction is None][-1] == 5
    assert (out / "artifacts" / "curve.plotly.json").is_file()


def test_an_error_keeps_what_ran_and_says_where(tmp_path):
    path = write_notebook(tmp_path, "print('reached')", "1 / 0", "print('never')")
    result = execute(plan_run(path), out=tmp_path / "out")
    assert (result.status, result.exit_code) == ("notebook error", 3)
    assert result.message == "ZeroDivisionError in cell 3: division by zero"
    assert statuses(result.folder) == ["completed", "completed", "failed", "pending"]
    assert run_json(result.folder)["failed_cell"] == {"number": 3, "source": "1 / 0"}
    assert "ZeroDivisionError" in (result.folder / "report.html").read_text()
    assert "reached" in (result.folder / "notebook.ipynb").read_text()


def test_a_killed_kernel_is_told_apart_and_later_cells_stay_pending(tmp_path):
    kill = "import os, signal, time\nos.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(9)"
    result = execute(plan_run(write_notebook(tmp_path, "1", kill, "2")), out=tmp_path / "out")
    assert (result.status, result.exit_code) == ("kernel died", 5)
    assert result.message == "the kernel died in cell 3 (SIGKILL)"
    assert statuses(result.folder) == ["completed", "completed", "failed", "pending"]


@pytest.mark.parametrize(
    ("settings", "limit"),
    [(Settings(cell_timeout=2.0), "2 s for a cell"), (Settings(timeout=6.0), "6 s for a notebook")],
    ids=["cell", "whole"],
)
def test_a_cell_that_never_ends_is_stopped(tmp_path, settings, limit):
    path = write_notebook(tmp_path, "import time", "while True: time.sleep(1)", "2")
    result = execute(plan_run(path, settings=settings), out=tmp_path / "out")
    assert (result.status, result.exit_code) == ("time-out", 4)
    assert re.fullmatch(rf"time-out in cell \d: the limit of {limit} is spent", result.message)
    assert run_json(result.folder)["duration"] < 45
    assert "failed" in statuses(result.folder)
    assert statuses(result.folder)[-1] == "pending"
    assert kernels_of(os.getpid()) == []


def test_out_of_memory_is_told_apart(tmp_path):
    hog = (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\nx = bytearray(4 << 30)"
    )
    result = execute(plan_run(write_notebook(tmp_path, hog)), out=tmp_path / "out")
    assert (result.status, result.exit_code) == ("out of memory", 6)
    assert result.message == "MemoryError in cell 2"


@pytest.fixture
def small_memory(tmp_path):
    """A control group of 200 MB; a process that joins it and takes more is killed by the system."""
    for root, limit in (("memory/", "memory.limit_in_bytes"), ("", "memory.max")):
        group = Path(f"/sys/fs/cgroup/{root}workbench-test-{os.getpid()}")
        try:
            group.mkdir()
            (group / limit).write_text("200M")
        except OSError:
            if group.is_dir():
                group.rmdir()
            continue
        yield group
        time.sleep(0.2)
        group.rmdir()
        return
    pytest.skip("needs the right to make a control group with a memory limit")


def test_a_kernel_that_the_system_kills_for_memory_is_told_apart(tmp_path, small_memory):
    hog = f"import os\nopen('{small_memory}/cgroup.procs', 'w').write(str(os.getpid()))\nx = b'x' * (1 << 30)"
    result = execute(plan_run(write_notebook(tmp_path, hog, "2")), out=tmp_path / "out")
    assert (result.status, result.exit_code) == ("out of memory", 6)
    assert result.message == "the system killed the kernel in cell 2 for memory"


def test_two_cells_with_one_record_name_are_refused(tmp_path):
    path = write_notebook(tmp_path, f"{RECORD}\nrecord('a', 1)", "record('a', 2)", "print('never')")
    result = execute(plan_run(path), out=tmp_path / "out")
    assert (result.status, result.exit_code) == ("notebook error", 3)
    assert "two records named 'a' (cells 2 and 3)" in result.message


def test_a_file_size_limit_costs_the_report_and_not_the_reason(tmp_path):
    """RLIMIT_FSIZE in the runner: the notebook grows beyond it in its second cell."""
    path = write_notebook(tmp_path, "print('kept')", "print('x' * 300_000)", "print('never')")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    process = command("run", path, "--out", tmp_path / "out", "-q", preexec_fn=limit)
    _, errors = process.communicate()
    assert process.returncode == 7
    assert errors.count("\n") == 1
    assert "disk full" in errors
    assert run_json(tmp_path / "out")["status"] == "disk full"
    assert "kept" in (tmp_path / "out" / "notebook.ipynb").read_text()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 400 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk_still_takes_the_reason(tmp_path, small_disk):
    path = write_notebook(tmp_path, "print('kept')", "print('x' * 500_000)", "print('never')")
    result = execute(plan_run(path), out=small_disk / "out")
    assert (result.status, result.exit_code) == ("disk full", 7)
    assert run_json(small_disk / "out")["status"] == "disk full"
    assert "kept" in (small_disk / "out" / "notebook.ipynb").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_a_readable_folder_and_no_orphan(tmp_path, number):
    child = "import subprocess\nprint('pid', subprocess.Popen(['sleep', '300']).pid)"
    path = write_notebook(tmp_path, child, "import time; time.sleep(300)", "2")
    process = command("run", path, "--out", tmp_path / "out")
    wait_for_line(process, "time.sleep(300)")
    time.sleep(0.3)
    kernels = kernels_of(process.pid)
    assert len(kernels) == 1
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "cancelled in cell 3" in errors
    assert statuses(tmp_path / "out") == ["completed", "completed", "failed", "pending"]
    assert run_json(tmp_path / "out")["exit_code"] == 130
    assert not kernels[0].is_running()
    text = (tmp_path / "out" / "notebook.ipynb").read_text()
    pid = int(text.split("pid ")[1].split("\\n")[0])
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_killed_runner_takes_its_kernel_along_and_leaves_the_partial_folder(tmp_path):
    path = write_notebook(tmp_path, "print('kept')", "import time; time.sleep(300)")
    process = command("run", path, "--out", tmp_path / "out")
    wait_for_line(process, "time.sleep(300)")
    time.sleep(0.3)
    (kernel,) = kernels_of(process.pid)
    process.kill()
    process.communicate()
    psutil.wait_procs([kernel], timeout=15)
    assert not kernel.is_running()
    assert not (tmp_path / "out").exists()
    assert "kept" in (tmp_path / "out.partial" / "notebook.ipynb").read_text()
    assert execute(plan_run(write_notebook(tmp_path, "1")), out=tmp_path / "out").status == "completed"
    assert not (tmp_path / "out.partial").exists()


def test_two_runs_into_one_folder_at_once(tmp_path):
    """One wins and one is refused before its kernel starts; nothing is overwritten."""
    plan = plan_run(write_notebook(tmp_path, "import time; time.sleep(2)"))
    ends = []

    def work() -> None:
        try:
            ends.append(execute(plan, out=tmp_path / "out").status)
        except SettingError as error:
            ends.append(str(error))

    with folders.new_folder(tmp_path / "out"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(ends) == 1
    assert "another run is writing" in ends[0]
    work()
    assert f"existing folder {tmp_path / 'out'}" in ends[1]


def test_locks_are_between_processes(tmp_path):
    path = write_notebook(tmp_path, "import time; time.sleep(300)")
    first = command("run", path, "--out", tmp_path / "out")
    wait_for_line(first, "time.sleep(300)")
    with pytest.raises(SettingError, match="another run is writing"):
        execute(plan_run(path), out=tmp_path / "out")
    first.terminate()
    first.communicate()
    assert run_json(tmp_path / "out")["status"] == "cancelled"


@pytest.mark.parametrize("text", ["not json", "{}", "[]", "<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> x", "\x00"])
def test_a_file_that_is_not_a_notebook_is_refused_in_one_sentence(tmp_path, text):
    path = tmp_path / "bad.ipynb"
    path.write_text(text)
    with pytest.raises(DataError, match="which is not a notebook") as caught:
        open_notebook(path)
    assert "\n" not in str(caught.value)


def test_refusals_on_the_command_line_are_one_sentence_and_code_2(tmp_path):
    path = write_notebook(tmp_path, "1", parameters="nodes: int = 3")
    process = command("run", path, "-p", "nodez=4", "--out", tmp_path / "out")
    out, errors = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert errors == "workbench: got unknown parameter 'nodez'; expected one of nodes; try 'nodes'\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        ({}, {"device": "tpu"}, "device 'tpu'"),
        ({}, {"device": "cuda:7"}, "cuda:7.*not there"),
        ({"device": "mps"}, {"device": "cpu"}, "one device"),
        ({"preset": "huge"}, {}, "preset 'huge'; expected one of default"),
    ],
)
def test_settings_are_checked_before_anything_runs(tmp_path, arguments, settings, message):
    path = write_notebook(tmp_path, "1", parameters='device: str = "cpu"')
    with pytest.raises(SettingError, match=message):
        plan_run(path, arguments=arguments, settings=Settings(**settings))


def test_presets_are_merged_and_named(tmp_path):
    path = write_notebook(tmp_path, "1", parameters="nodes: int = 3\ntol: float = 1.0")
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "tiny.yaml").write_text(
        "full:\n  about: long\n  parameters: {nodes: 9, tol: 1e-3}\n"
    )
    plan = plan_run(path, arguments={"preset": "full"})
    assert (plan.preset, plan.parameters) == ("full", {"nodes": 9, "tol": 0.001})
    assert plan.digest() != plan_run(path).digest()


def test_the_engine_serves_papermill_itself(tmp_path):
    """``papermill --engine workbench``: unknown parameters are refused, statuses are honest."""
    import papermill

    from workbench.headless.engine import NAME, Stopped

    path = write_notebook(tmp_path, "import os; os._exit(9)", "2", parameters="n: int = 1")
    options = {"engine_name": NAME, "progress_bar": False, "kernel_name": "python3"}
    with pytest.raises(SettingError, match="unknown parameter 'm'"):
        papermill.execute_notebook(str(path), str(tmp_path / "a.ipynb"), parameters={"m": 1}, **options)
    with pytest.raises(Stopped, match=r"the kernel died in cell 3 \(exit code 9\)"):
        papermill.execute_notebook(str(path), str(tmp_path / "a.ipynb"), parameters={"n": 2}, **options)
    node = json.loads((tmp_path / "a.ipynb").read_text())
    assert node["metadata"]["papermill"]["exception"] is True
    assert [c["metadata"]["papermill"]["status"] for c in node["cells"]][-2:] == ["failed", "pending"]
