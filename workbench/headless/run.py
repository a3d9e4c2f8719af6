"""One headless run: a notebook with checked parameters becomes a folder that explains itself.

The folder holds ``notebook.ipynb`` (as executed), ``report.html`` (opens offline), ``metrics.json`` (the
recorded numbers), ``run.json`` (parameters, versions, device, times, status) and, if any, ``artifacts/``.
A run that fails leaves the same folder, with what was reached and the reason.

Exit codes: 0 completed; 2 bad parameters or settings, nothing was run; 3 an error in the notebook; 4
time-out; 5 the kernel died; 6 out of memory; 7 disk full; 130 cancelled.
"""

import contextlib
import copy
import hashlib
import json
import logging
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.errors import MissingExtra, SettingError
from workbench.headless.catalog import Notebook, open_notebook
from workbench.headless.folder import free_name, is_disk_full, new_folder, write_json, write_whole
from workbench.headless.parameters import declared, gather
from workbench.headless.record import code_number, metrics_of, records_of
from workbench.headless.watch import Listener, Steps, live, ticking

BAD_SETTINGS = 2
EXIT_CODES = {
    "completed": 0,
    "notebook error": 3,
    "time-out": 4,
    "kernel died": 5,
    "out of memory": 6,
    "disk full": 7,
    "cancelled": 130,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run, as opposed to what.

    Attributes:
        device: As for ``workbench.devices.resolve_device``; "" leaves it to the notebook's own parameter.
        dtype: ``float32`` or ``float64`` as torch's default; "" leaves torch's.
        threads: Threads of torch and OpenMP; None leaves the machine's.
        timeout: Seconds for the whole notebook.
        cell_timeout: Seconds for one cell.
        deterministic: Seeds set, deterministic kernels where they exist, TF32 off.
    """

    device: str = ""
    dtype: str = ""
    threads: int | None = None
    timeout: float | None = None
    cell_timeout: float | None = None
    deterministic: bool = True

    def __post_init__(self) -> None:
        if self.dtype not in ("", "float32", "float64"):
            raise SettingError(f"dtype {self.dtype!r}", "float32 or float64", "float64")
        for name in ("threads", "timeout", "cell_timeout"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise SettingError(f"{name}={value!r}", "a number above 0")


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that has passed every check and can start.

    Attributes:
        notebook: The notebook.
        preset: Name of the preset.
        parameters: A value for every declared name.
        settings: With the device resolved.
    """

    notebook: Notebook
    preset: str
    parameters: Mapping[str, Any]
    settings: Settings

    def digest(self, length: int = 8) -> str:
        """Hexadecimal digits that change with the notebook, a parameter or the arithmetic."""
        what = [self.notebook.fingerprint(), dict(self.parameters), self.settings.device, self.settings.dtype]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:length]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run left.

    Attributes:
        folder: Its folder.
        status: ``completed`` or how it failed.
        message: One sentence if it failed.
        metrics: The content of ``metrics.json``.
    """

    folder: Path
    status: str
    message: str
    metrics: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return EXIT_CODES[self.status]


def plan_run(
    notebook: str | Path | Notebook,
    *,
    arguments: Mapping[str, Any] | None = None,
    preset: str = "",
    settings: Settings | None = None,
    environment: Mapping[str, str] | None = None,
) -> Plan:
    """Check everything that can be checked before a kernel starts.

    Args:
        notebook: Name, path or opened notebook.
        arguments: Parameters of this call; ``preset`` among them names the preset, unless the notebook
            declares a parameter of that name.
        preset: Name of a preset, or a YAML file.
        settings: How to run.
        environment: Where ``WORKBENCH_P_*`` is looked up; the process's by default.

    Returns:
        The plan.

    Raises:
        SettingError: For anything unknown, ill-typed or not there.
    """
    settings = settings or Settings()
    book = notebook if isinstance(notebook, Notebook) else open_notebook(notebook)
    declaration = declared(book)
    arguments = dict(arguments or {})
    if "preset" in arguments and "preset" not in declaration:
        named = str(arguments.pop("preset"))
        if preset and preset != named:
            raise SettingError(f"presets {preset!r} and {named!r}", "one preset")
        preset = named
    chosen = book.preset(preset or "default")
    values = gather(declaration, preset=chosen.parameters, arguments=arguments, environment=environment)
    device = settings.device or str(values.get("device", "cpu"))
    if "device" in declaration:
        if settings.device and str(arguments.get("device", settings.device)) != settings.device:
            raise SettingError(
                f"--device {settings.device} and -p device={arguments['device']}", "one device"
            )
        device = values["device"] = _resolved(device)
    elif _resolved(device) != "cpu":
        raise SettingError(f"--device {device} for {book.name}, which has no parameter 'device'", "cpu")
    if "dtype" in declaration and settings.dtype:
        values.update(declaration.check({"dtype": settings.dtype}, source="--dtype"))
    return Plan(book, chosen.name, values, replace(settings, device=device))


def execute(plan: Plan, *, out: str | Path | None = None, listener: Listener | None = None) -> RunResult:
    """Run a plan and leave its folder.

    Args:
        plan: From ``plan_run``.
        out: The folder, which must not exist; ``runs/NOTEBOOK-HASH`` by default.
        listener: Told where the run is.

    Returns:
        What the run left; a failure is a value here.

    Raises:
        SettingError: If the folder exists or another run is writing to it.
        MissingExtra: If the packages that run notebooks are not installed.
    """
    try:
        import papermill

        from workbench.headless.engine import NAME, Outcome, Session, Stopped
    except ImportError as error:
        raise MissingExtra.of(error.name or "papermill", "run") from None
    for noisy in ("papermill", "traitlets"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    target = Path(out) if out else free_name(Path("runs") / f"{plan.notebook.name}-{plan.digest()}")
    began = datetime.now(UTC)
    with new_folder(target) as folder:
        session = Session(
            environment=_environment(plan, folder),
            timeout=plan.settings.timeout,
            cell_timeout=plan.settings.cell_timeout,
            log=folder / "kernel.log",
        )
        session.on_cell = Steps(session, folder, listener)
        status, message, interrupted = Outcome.COMPLETED, "", False
        try:
            with live(session), ticking(session.on_cell):
                # the node and not its path: papermill would read braces in a path as a format
                papermill.execute_notebook(
                    copy.deepcopy(plan.notebook.node),
                    None,
                    parameters=dict(plan.parameters),
                    engine_name=NAME,
                    kernel_name="python3",
                    language="python",
                    progress_bar=False,
                    session=session,
                )
        except Stopped as stop:
            status, message = stop.outcome, str(stop)
            interrupted = isinstance(stop.__cause__, KeyboardInterrupt)
        except KeyboardInterrupt:
            status, message, interrupted = Outcome.CANCELLED, "cancelled", True
        except OSError as error:
            if not is_disk_full(error):
                raise
            status, message = Outcome.DISK_FULL, f"{folder} cannot hold the run ({error.strerror})"
        except RuntimeError as error:  # a kernel that does not start
            status = Outcome.CANCELLED if session.cancelled else Outcome.KERNEL_DEATH
            message = "cancelled" if session.cancelled else f"the kernel did not start ({error})"
        facts = _facts(plan, session, began, status, message)
        status, message, metrics = _finish(folder, session.notebook or plan.notebook.node, facts)
    if interrupted:
        raise KeyboardInterrupt
    return RunResult(target, status, message, metrics)


def _resolved(device: str) -> str:
    """The device's full name; torch is asked, and imported, only for others than the CPU."""
    if device == "cpu":
        return device
    from workbench.devices import resolve_device

    return str(resolve_device(device))


def _finish(folder: Path, notebook: Any, facts: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Write what is still to be written; a full disk costs the report, never the reason."""
    import nbformat

    from workbench.headless.report import report_html

    records = {r.name: r for cell in notebook.cells for r in records_of(cell.get("outputs", []))}
    metrics = metrics_of(records)
    facts["share_in_model"] = metrics.get("share_in_model", {}).get("value")
    log = folder / "kernel.log"
    if facts["status"] == "completed" or not (log.is_file() and log.stat().st_size):
        log.unlink(missing_ok=True)
    try:
        write_whole(folder / "notebook.ipynb", nbformat.writes(notebook))
        write_json(folder / "metrics.json", metrics)
        write_json(folder / "run.json", facts)
        write_whole(folder / "report.html", report_html(notebook, facts, records))
    except OSError as error:
        if not is_disk_full(error):
            raise
        facts["message"] = facts["message"] or f"{folder} cannot hold the run ({error.strerror})"
        if facts["status"] == "completed":
            facts.update(status="disk full", exit_code=EXIT_CODES["disk full"])
        (folder / ".reserve").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            write_json(folder / "run.json", facts)
            write_json(folder / "metrics.json", metrics)
    return facts["status"], facts["message"], metrics


def _facts(plan: Plan, session: Any, began: datetime, status: str, message: str) -> dict[str, Any]:
    """The content of ``run.json``."""
    cells = (session.notebook or plan.notebook.node).cells
    said = dict(session.facts)
    failed = [
        {"number": code_number(session.notebook, i), "source": c.source}
        for i, c in enumerate(cells)
        if c.metadata.get("papermill", {}).get("status") == "failed"
    ]
    return {
        "schema": "workbench.run/1",
        "notebook": plan.notebook.name,
        "notebook_sha256": plan.notebook.fingerprint(),
        "preset": plan.preset,
        "parameters": dict(plan.parameters),
        "settings": asdict(plan.settings),
        "status": str(status),
        "exit_code": EXIT_CODES[status],
        "message": message,
        "failed_cell": failed[0] if failed else None,
        "started": began.isoformat(timespec="seconds"),
        "duration": round((datetime.now(UTC) - began).total_seconds(), 3),
        "cells": [
            {k: c.metadata.get("papermill", {}).get(k) for k in ("status", "duration")}
            for c in cells
            if c.cell_type == "code"
        ],
        "device": {
            "name": said.pop("device_name", "cpu"),
            "resolved": plan.settings.device,
            "driver": said.pop("driver", ""),
        },
        "memory": {k: said.pop(k, None) for k in ("peak_resident_mb", "peak_device_mb")},
        "determinism": {"asked": plan.settings.deterministic, **said.pop("determinism", {})},
        "threads": said.pop("threads", plan.settings.threads),
        "dtype": said.pop("dtype", plan.settings.dtype),
        "versions": said.pop("versions", {"python": platform.python_version()}),
        "machine": {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()},
    }


def _environment(plan: Plan, folder: Path) -> dict[str, str]:
    """What the kernel is told through its environment."""
    settings = plan.settings
    told = {
        "WORKBENCH_ARTIFACTS": str(folder.resolve() / "artifacts"),
        "WORKBENCH_PROGRESS": str(folder.resolve() / ".progress"),
        "WORKBENCH_DEVICE": settings.device,
        "WORKBENCH_DTYPE": settings.dtype,
        "WORKBENCH_DETERMINISTIC": "1" if settings.deterministic else "0",
    }
    if settings.deterministic:
        told |= {"PYTHONHASHSEED": "0", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    if settings.threads:
        count = str(settings.threads)
        told |= {"WORKBENCH_THREADS": count, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}
    return told
