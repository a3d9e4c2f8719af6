"""The papermill engine of the workbench: checked parameters, honest cell status, no widget source.

Registered under the name ``workbench`` (entry point ``papermill.engine``), so that
``papermill --engine workbench in.ipynb out.ipynb`` gains the same three things; ``workbench run`` uses it
with a ``Session``, through which the runner sees each cell, sets limits and can stop the kernel.

papermill calls a cell completed after a time-out or a dead kernel, and those that never ran too. Here
the cell that was running is failed, later ones stay pending, and the reason stands in the metadata.
"""

import ast
import json
import math
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines
from traitlets import default

import workbench
from workbench.errors import SettingError, WorkbenchError
from workbench.headless.catalog import Notebook
from workbench.headless.parameters import declared
from workbench.headless.record import code_number, read_records

NAME = "workbench"


class Outcome(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    ERROR = "notebook error"
    TIMEOUT = "time-out"
    KERNEL_DEATH = "kernel died"
    OUT_OF_MEMORY = "out of memory"
    DISK_FULL = "disk full"
    CANCELLED = "cancelled"


class Stopped(WorkbenchError):
    """A run that did not reach its end: how it ended, and one sentence."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        self.outcome = outcome
        super().__init__(message)


@dataclass(slots=True, eq=False)
class Session:
    """The runner's hold on one execution.

    Attributes:
        environment: Variables added to the kernel's environment.
        timeout: Seconds for the whole notebook, None for no limit.
        cell_timeout: Seconds for one cell, None for no limit.
        log: File that receives what the kernel process itself prints.
        on_cell: Called with (notebook, index, "start" | "end").
        notebook: The notebook being executed.
        facts: What the kernel said about itself at the end.
        pid: Process of the kernel; 0 before it starts.
        cancelled: True once the runner has asked for the end.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    cell_timeout: float | None = None
    log: Path | None = None
    on_cell: Callable[[Any, int, str], None] = lambda notebook, index, event: None
    notebook: Any = None
    facts: dict[str, Any] = field(default_factory=dict)
    pid: int = 0
    cancelled: bool = False
    started: float = field(default_factory=time.monotonic)

    def cancel(self) -> None:
        """Stop: the kernel and what it started are killed, and the execution ends as cancelled."""
        self.cancelled = True
        kill_group(self.pid)

    def seconds_for_cell(self) -> float | None:
        """What the limits leave for the next cell."""
        limits = [] if self.cell_timeout is None else [self.cell_timeout]
        if self.timeout is not None:
            limits.append(max(self.seconds_left(), 0.01))
        return min(limits, default=None)

    def seconds_left(self) -> float:
        """What is left of the limit for the whole notebook."""
        return math.inf if self.timeout is None else self.timeout - (time.monotonic() - self.started)


def kill_group(pid: int) -> None:
    """SIGKILL a kernel with its children; a kernel leads its own process group. 0 does nothing."""
    if pid > 0:
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return


class _ThisInterpreter(KernelSpecManager):
    """Kernels run in the interpreter that runs us, whatever kernelspecs are installed."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python", name=kernel_name)


class _Manager(AsyncKernelManager):
    @default("kernel_spec_manager")
    def _this_interpreter(self) -> KernelSpecManager:
        return _ThisInterpreter(parent=self)


class WorkbenchClient(PapermillNotebookClient):
    """Executes the cells of one notebook under a ``Session``."""

    def __init__(self, manager: Any, session: Session, **options: Any) -> None:
        limit = {"timeout_func": lambda cell: session.seconds_for_cell()}
        super().__init__(manager, kernel_manager_class=_Manager, **limit, **options)
        self.session = session
        self.shutdown_kernel = "immediate"
        self.shell_timeout_interval = 1

    def execute(self, **options: Any) -> Any:
        """Run all cells; raises ``Stopped`` where the end was not reached."""
        self.reset_execution_trackers()
        session = self.session
        environment = {**kernel_environment(), **session.environment}
        out = open(session.log, "wb") if session.log else None  # noqa: SIM115 - outlives this block's branches
        streams = {"stdout": out, "stderr": out} if out else {}
        ooms = _oom_kills()
        try:
            with self.setup_kernel(env=environment, **streams, **options):
                kernel: Any = self.km
                session.pid = kernel.provisioner.process.pid
                self._silently("import workbench.headless.kernel as _k; _k.prepare(); del _k")
                for index, cell in enumerate(self.nb.cells):
                    self._run_cell(index, cell, ooms)
                self._ask_facts()
                self.set_widgets_metadata()
                self.nb.metadata["language_info"] = {"name": "python"}
        except DeadKernelError as error:
            raise self._explained(error, None, ooms) from error
        finally:
            if out:
                out.close()
            kill_group(session.pid)  # children that the kernel left behind
            session.pid = 0
        return self.nb

    def _run_cell(self, index: int, cell: Any, ooms: int) -> None:
        manager, session = self.nb_man, self.session
        manager.cell_start(cell, index)
        session.on_cell(self.nb, index, "start")
        try:
            if session.cancelled:
                raise Stopped(Outcome.CANCELLED, "cancelled")
            self.execute_cell(cell, index)
            read_records(self.nb)
        except BaseException as error:
            manager.cell_exception(cell, cell_index=index, exception=error)
            raise self._explained(error, index, ooms) from error
        finally:
            manager.cell_complete(cell, cell_index=index)
            session.on_cell(self.nb, index, "end")

    def _explained(self, error: BaseException, index: int | None, ooms: int) -> BaseException:
        """What an exception in a cell, or outside of one, means for the run."""
        session, where = self.session, "preparation"
        if index is not None:
            where = f"cell {code_number(self.nb, index)}"
        if isinstance(error, CellExecutionError):
            message = f"{error.ename} in {where}: {error.evalue}".removesuffix(": ")
            return Stopped(_kind_of_error(error.ename, error.evalue), message)
        if session.cancelled or isinstance(error, KeyboardInterrupt):
            return Stopped(Outcome.CANCELLED, f"cancelled in {where}")
        if isinstance(error, CellTimeoutError):
            whole = session.seconds_left() <= 0.02
            limit = (
                f"{session.timeout:g} s for a notebook" if whole else f"{session.cell_timeout:g} s for a cell"
            )
            return Stopped(Outcome.TIMEOUT, f"time-out in {where}: the limit of {limit} is spent")
        if isinstance(error, DeadKernelError):
            code = self._exit_code()
            if code == -signal.SIGKILL and _oom_kills() > ooms:
                return Stopped(Outcome.OUT_OF_MEMORY, f"the system killed the kernel in {where} for memory")
            how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
            return Stopped(Outcome.KERNEL_DEATH, f"the kernel died in {where} ({how})")
        if isinstance(error, SettingError):
            return Stopped(Outcome.ERROR, f"{error} (after {where})")
        return error

    def _exit_code(self) -> int | None:
        process = getattr(getattr(self.km, "provisioner", None), "process", None)
        return None if process is None else process.poll()

    def _silently(self, code: str, expressions: dict[str, str] | None = None) -> dict[str, Any]:
        client: Any = self.kc
        message = client.execute(code, silent=True, store_history=False, user_expressions=expressions or {})
        reply = self.wait_for_reply(message)
        if reply is None or reply["content"]["status"] != "ok":
            raise Stopped(Outcome.ERROR, f"the kernel could not be prepared: {(reply or {}).get('content')}")
        return reply["content"].get("user_expressions", {})

    def _ask_facts(self) -> None:
        answer = self._silently(
            "import workbench.headless.kernel as _k; _facts = _k.facts(); del _k", {"facts": "_facts"}
        )
        self.session.facts = json.loads(ast.literal_eval(answer["facts"]["data"]["text/plain"]))


class WorkbenchEngine(NBClientEngine):
    """papermill's door to ``WorkbenchClient``."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> Any:
        """Check the parameters, run the cells, strip widget source; the reason of a bad end is kept.

        Args:
            nb_man: papermill's execution manager.
            kernel_name: Ignored but for its language: the kernel is this interpreter's.
            **options: papermill's options; ``session`` is ours.

        Raises:
            SettingError: For unknown or ill-typed parameters, before a kernel starts.
            Stopped: If the end was not reached.
        """
        session = options.get("session") or Session(cell_timeout=options.get("execution_timeout"))
        session.notebook = nb_man.nb
        given = nb_man.nb.metadata.papermill.get("parameters") or {}
        declared(Notebook("notebook", Path("notebook.ipynb"), nb_man.nb)).check(given)
        client = WorkbenchClient(
            nb_man,
            session,
            kernel_name=kernel_name,
            startup_timeout=max(options.get("start_timeout") or 60, 180),
            log_output=bool(options.get("log_output")),
        )
        try:
            return client.execute()
        except BaseException as error:
            nb_man.nb.metadata.papermill["exception"] = True
            nb_man.nb.metadata.papermill["reason"] = f"{type(error).__name__}: {error}"[:300]
            raise
        finally:
            strip_widget_source(nb_man.nb)


papermill_engines.register(NAME, WorkbenchEngine)


def strip_widget_source(notebook: Any) -> None:
    """Drop ``_esm`` and ``_css`` from saved widget state: 5 MB for each plotly FigureWidget.

    Args:
        notebook: Changed in place.
    """
    widgets = notebook.metadata.get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {})
    for widget in widgets.get("state", {}).values():
        for name in ("_esm", "_css"):
            widget.get("state", {}).pop(name, None)


def kernel_environment() -> dict[str, str]:
    """The environment of a kernel: ours, idle OpenMP threads asleep, and this package importable."""
    root = Path(workbench.__file__).resolve().parent.parent
    own = "" if root.name == "site-packages" else str(root)
    path = os.pathsep.join(filter(None, (own, os.environ.get("PYTHONPATH", ""))))
    return {
        **os.environ,
        "OMP_WAIT_POLICY": "passive",
        "PYTHONPATH": path,
        "PYTHONFAULTHANDLER": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


def _kind_of_error(name: str, text: str) -> Outcome:
    """Memory and disk are told apart from other errors of a cell."""
    if name.endswith(("MemoryError", "OutOfMemoryError")) or re.search("allocate memory|out of memory", text):
        return Outcome.OUT_OF_MEMORY
    if any(f"[Errno {number}]" in text for number in (27, 28, 122)):
        return Outcome.DISK_FULL
    return Outcome.ERROR


def _oom_kills() -> int:
    """How often this machine's kernel has killed a process for memory; 0 where it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0
