"""Where the points of a sweep run: on this machine, at a running dask scheduler, or in batch jobs."""

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import workbench
from workbench.errors import MissingExtra, SettingError


@contextmanager
def local_cluster(jobs: int) -> Iterator[Any]:
    """A cluster on this machine with one process for each point at a time.

    Args:
        jobs: Number of workers.

    Yields:
        A dask cluster.
    """
    try:
        from distributed import LocalCluster
    except ImportError as error:
        raise MissingExtra.of(error.name or "distributed", "dist") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    nowhere: Any = None  # no dashboard
    with (
        tempfile.TemporaryDirectory(prefix="workbench-dask-", ignore_cleanup_errors=True) as scratch,
        LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=nowhere,
            local_directory=scratch,
            silence_logs=logging.CRITICAL,
            memory_limit=0,  # the points run in processes of their own
        ) as cluster,
    ):
        yield cluster


@contextmanager
def cluster_for(
    *, scheduler: str = "", jobs: int = 1, system: str = "", options: Mapping[str, str] | None = None
) -> Iterator[Any]:
    """Where a sweep runs: at the address of a scheduler, in jobs of a batch system, or on this machine.

    Args:
        scheduler: Address of a running dask scheduler; wins over the others.
        jobs: Workers.
        system: ``slurm``, ``pbs``, or "" for this machine.
        options: Of ``queue_cluster``.

    Yields:
        What ``sweep`` takes.
    """
    if scheduler:
        check_address(scheduler)
        yield scheduler
    elif system:
        with queue_cluster(system, options or {}) as cluster:
            cluster.scale(jobs=jobs)
            yield cluster
    else:
        with local_cluster(jobs) as cluster:
            yield cluster


def check_address(scheduler: str) -> None:
    """Refuse what cannot be the address of a scheduler, on which a client would never give up.

    Args:
        scheduler: Such as ``tcp://127.0.0.1:8786``.

    Raises:
        SettingError: If it has no known scheme, host or port.
    """
    try:
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise MissingExtra.of(error.name or "distributed", "dist") from None
    try:
        get_address_host_port(scheduler)
    except (ValueError, OSError) as error:
        raise SettingError(
            f"--scheduler {scheduler!r} ({error})", "an address with a port, such as tcp://127.0.0.1:8786"
        ) from None


def queue_cluster(system: str, options: Mapping[str, str]) -> Any:
    """A cluster of batch jobs with one worker each, none of which is submitted yet.

    Args:
        system: ``slurm`` or ``pbs``.
        options: Of dask-jobqueue's cluster for it: queue, account, walltime, cores, memory, ….

    Returns:
        A dask cluster; its ``job_script()`` is what will be submitted.

    Raises:
        MissingExtra: If dask-jobqueue is not installed.
        SettingError: If it does not know an option.
    """
    try:
        from dask_jobqueue.pbs import PBSCluster
        from dask_jobqueue.slurm import SLURMCluster
    except ImportError:
        raise MissingExtra.of("dask_jobqueue", "slurm") from None
    kinds = {"slurm": SLURMCluster, "pbs": PBSCluster}
    given: dict[str, Any] = {"cores": 1, "memory": "4GB", "walltime": "01:00:00", **options}
    root = Path(workbench.__file__).resolve().parent.parent
    prologue = ["export OMP_WAIT_POLICY=passive", f"export PYTHONPATH={root}:$PYTHONPATH"]
    try:
        given["cores"] = int(given["cores"])
        return kinds[system](processes=1, job_script_prologue=prologue, dashboard_address=None, **given)
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].split(". ")[0]
        raise SettingError(
            f"--{system} {dict(options)} ({reason})", f"options of dask_jobqueue.{kinds[system].__name__}"
        ) from None


def job_script(system: str, options: Mapping[str, str]) -> str:
    """The script that the batch system would get.

    Args:
        system: As for ``queue_cluster``.
        options: As for ``queue_cluster``.
    """
    with queue_cluster(system, options) as cluster:
        return cluster.job_script()
