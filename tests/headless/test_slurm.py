"""A sweep through Slurm itself: controller, node and munge started for the test, where they are installed.

Debian: ``apt-get install slurmctld slurmd slurm-client munge``. They need root here, since a Slurm daemon
that runs jobs for others does.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .making import RECORD, write_notebook

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory=2500 State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return asked.getsockname()[1]


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A Slurm of one node on this machine; its configuration is in the environment."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and Slurm ({', '.join(missing) or 'present'})")
    folder = tmp_path / "slurm"
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    text = CONFIGURATION.format(
        host=socket.gethostname(),
        port=free_port(),
        node_port=free_port(),
        folder=folder,
        cores=os.cpu_count(),
    )
    (folder / "slurm.conf").write_text(text)
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "log", "pid", "seed")]
    try:
        subprocess.run(["munged", "--force", f"--socket={folder}/munge.sock", *files], check=True)
        subprocess.run(["slurmctld", "-c"], check=True)
        time.sleep(1)
        subprocess.run(["slurmd"], check=True)
        end = time.monotonic() + 60
        while "idle" not in subprocess.run(["sinfo", "-h"], capture_output=True, text=True).stdout:
            if time.monotonic() > end:
                pytest.skip("Slurm is installed but its node does not come up here")
            time.sleep(0.5)
        yield folder
    finally:
        for name in ("slurmd", "slurmctld", "munge"):
            path = folder / f"{name}.pid"
            if path.is_file():
                os.kill(int(path.read_text()), signal.SIGTERM)


@pytest.mark.slow
def test_a_sweep_runs_as_slurm_jobs(slurm, tmp_path):
    work = f"{RECORD}\nimport os\nrecord('y', 2.0 * n)\nrecord('job', float(os.environ['SLURM_JOB_ID']))"
    path = write_notebook(tmp_path, work, parameters="n: int = 1")
    (tmp_path / "grid.yaml").write_text("grid: {n: [1, 2, 3]}")
    line = [sys.executable, "-m", "workbench", "sweep", str(path), "--grid", str(tmp_path / "grid.yaml")]
    line += [
        "--out",
        str(tmp_path / "sweep"),
        "--jobs",
        "2",
        "--slurm",
        "memory=1GB",
        "--slurm",
        "queue=debug",
    ]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=540)
    assert done.returncode == 0, done.stderr
    assert "3 of 3 points completed" in done.stdout
    table = [sys.executable, "-m", "workbench", "table", str(tmp_path / "sweep")]
    subprocess.run(table, cwd=ROOT, check=True, capture_output=True)
    rows = (tmp_path / "sweep" / "table.csv").read_text().splitlines()
    names = rows[0].split(",")
    values = [dict(zip(names, row.split(","), strict=True)) for row in rows[1:]]
    assert [float(v["y"]) for v in values] == [2.0, 4.0, 6.0]
    assert all(float(v["job"]) >= 1 for v in values)
