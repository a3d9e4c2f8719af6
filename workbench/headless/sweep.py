"""Sweeps: a notebook at many points, through dask.distributed, each point a run in a process of its own.

A sweep is a folder: ``sweep.json`` (the points that were asked for) and ``points/HASH/`` (one run folder
each). A point is found again by the hash of its notebook, parameters and settings, so that a sweep that
was interrupted, or given a larger grid, runs only what is missing. A worker that dies, a kernel that
dies, a full disk or a lack of memory costs the points in flight; those are tried again a set number of
times, then reported. An error in the notebook is not: it would come again.

Exit codes: 0 all points completed; 2 bad settings; 3 some points failed; 130 interrupted.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import DataError, MissingExtra, SettingError
from workbench.headless.apart import command_line, run_apart
from workbench.headless.catalog import Notebook
from workbench.headless.folder import lock_file, put_aside, write_json
from workbench.headless.run import Settings, plan_run

SCHEMA = "workbench.sweep/1"
AGAIN = {"kernel died", "out of memory", "disk full", "time-out", "cancelled", "lost"}
_PATIENCE = 60.0  # seconds for the lock of a point whose runner died with its worker


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a sweep: its hash, parameters and the command that runs it."""

    key: str
    parameters: Mapping[str, Any]
    folder: Path
    arguments: Sequence[str]


@dataclass(slots=True)
class Sweep:
    """A sweep and how far it is.

    Attributes:
        folder: Where it lies.
        points: What was asked for, in order.
        states: Hash to ``completed`` or how the last attempt failed.
        attempts: Hash to the number of attempts in this call.
    """

    folder: Path
    points: Sequence[Point]
    states: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)

    @property
    def missing(self) -> list[Point]:
        """Points that have not completed."""
        return [p for p in self.points if self.states.get(p.key) != "completed"]


def plan_sweep(
    notebook: Notebook,
    points: Sequence[Mapping[str, Any]],
    folder: Path,
    *,
    settings: Settings | None = None,
    preset: str = "",
) -> Sweep:
    """Check every point and lay out the folder.

    Args:
        notebook: The notebook.
        points: Parameters of each point.
        folder: A new folder, or that of an earlier call, which is continued and may grow.
        settings: How to run each point.
        preset: Preset under the points.

    Returns:
        The sweep, with the states of points that have run before.

    Raises:
        SettingError: If a point does not fit the notebook.
        DataError: If the folder holds something else.
    """
    folder = folder.resolve()
    found: dict[str, Point] = {}
    for parameters in points:
        plan = plan_run(notebook, arguments=parameters, preset=preset, settings=settings, environment={})
        key = plan.digest(12)
        place = folder / "points" / key
        found.setdefault(key, Point(key, dict(plan.parameters), place, command_line(plan, place)))
    if not found:
        raise SettingError("a sweep without points", "a grid, a list or a random sample")
    asked = {key: dict(point.parameters) for key, point in found.items()}
    path = folder / "sweep.json"
    if folder.exists() and not path.is_file() and any(folder.iterdir()):
        raise SettingError(
            f"folder {folder} without a sweep.json", "a new folder, or that of a sweep", "--out"
        )
    if path.is_file():
        before = read_sweep(folder)
        if before["notebook"] != notebook.name:
            raise SettingError(
                f"{folder}, a sweep of {before['notebook']}", f"one of {notebook.name}", "--out"
            )
        asked = {**before["points"], **asked}
    (folder / "points").mkdir(parents=True, exist_ok=True)
    write_json(path, {"schema": SCHEMA, "notebook": notebook.name, "points": asked})
    return Sweep(folder, list(found.values()), {key: state_of(p.folder) for key, p in found.items()})


def read_sweep(folder: Path) -> dict[str, Any]:
    """The content of ``sweep.json``.

    Raises:
        DataError: If it is not one.
    """
    path = folder / "sweep.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']!r}")
        return content
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}, which is not a sweep ({error})", "a folder left by `workbench sweep`"
        ) from None


def state_of(folder: Path) -> str:
    """``completed``, how a run failed, or "" if there is none."""
    try:
        return json.loads((folder / "run.json").read_text(encoding="utf-8"))["status"]
    except (OSError, ValueError, KeyError):
        return ""


def sweep(
    planned: Sweep,
    cluster: Any,
    *,
    retries: int = 2,
    devices: Sequence[str] = (),
    listener: Callable[[Point, str], None] = lambda point, state: None,
) -> Sweep:
    """Run what is missing.

    Args:
        planned: From ``plan_sweep``; its states are brought up to date.
        cluster: A dask cluster or the address of a scheduler.
        retries: Further attempts after a loss.
        devices: Devices to hand out in turn, one point each; () leaves the parameters alone.
        listener: Told the state of each attempt.

    Returns:
        The same sweep.
    """
    try:
        from distributed import as_completed
    except ImportError as error:
        raise MissingExtra.of(error.name or "distributed", "dist") from None
    if retries < 0:
        raise SettingError(f"retries={retries}", "0 or more")
    free = list(devices)
    with _driver(planned.folder), _client(cluster) as client:
        waiting = list(reversed(planned.missing))
        room = max(len(free), 1) if devices else len(waiting)
        running: dict[Any, tuple[Point, str]] = {}
        completed = as_completed(loop=client.loop)

        def start() -> None:
            while waiting and len(running) < room:
                point = waiting.pop()
                device = free.pop() if devices else ""
                attempt = planned.attempts[point.key] = planned.attempts.get(point.key, 0) + 1
                arguments = [
                    f"device={device}" if device and a.startswith("device=") else a for a in point.arguments
                ]
                future = client.submit(
                    run_point,
                    str(point.folder),
                    arguments,
                    key=f"{point.key}-{attempt}",
                    pure=False,
                    retries=0,
                )
                running[future] = (point, device)
                completed.add(future)

        start()
        for future in completed:
            point, device = running.pop(future)
            if devices:
                free.append(device)
            state = "lost" if future.status in ("error", "cancelled", "lost") else future.result()
            planned.states[point.key] = state
            listener(point, state)
            if state in AGAIN and planned.attempts[point.key] <= retries:
                waiting.append(point)
            start()
    return planned


def _client(cluster: Any) -> Any:
    """A client of a cluster; an address at which nothing answers is refused."""
    from distributed import Client

    try:
        return Client(cluster, set_as_default=False)
    except OSError as error:
        raise SettingError(f"no answer from {cluster} ({error})", "a running dask scheduler") from None


def run_point(folder: str, arguments: Sequence[str]) -> str:
    """What a worker does: run one point in a process of its own, unless it has completed before.

    Args:
        folder: Of the point.
        arguments: Of ``python -m workbench``.

    Returns:
        ``completed`` or how it failed.
    """
    path = Path(folder)
    end = time.monotonic() + _PATIENCE
    while True:
        if state_of(path) == "completed":
            return "completed"
        put_aside(path)
        code, said = run_apart(arguments)
        if code == 2 and "another run is writing" in said and time.monotonic() < end:
            time.sleep(1)  # the runner of a dead worker is still letting go
            continue
        return state_of(path) or ("disk full" if "No space" in said else f"exit code {code}: {said[-300:]}")


@contextmanager
def _driver(folder: Path) -> Iterator[None]:
    """One driver for each sweep at a time."""
    path = folder / ".driver"
    handle = lock_file(path)
    if handle is None:
        raise SettingError(f"sweep {folder} that another call is driving", "one driver for each sweep")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
