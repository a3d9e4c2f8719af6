"""Regression: every notebook at its presets, against its committed numbers.

``workbench regress`` leaves one folder with a run for each case (``NOTEBOOK-PRESET/``), ``regress.html``
(figures of the baseline and of the run side by side) and ``junit.xml``. It can stop within a budget of
time and go on later: finished runs of the same sources and settings are taken as they are.

Exit codes: 0 all agree; 1 at least one difference; 2 at least one run or baseline that failed; 4 the
budget is spent before the end (run it again to go on); 130 cancelled.
"""

import contextlib
import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import workbench
from workbench.errors import DataError, SettingError
from workbench.headless.apart import command_line, run_apart
from workbench.headless.baselines import (
    Baseline,
    Verdict,
    expect,
    judge,
    measure_spread,
    read_baseline,
    with_class,
)
from workbench.headless.catalog import Notebook
from workbench.headless.folder import put_aside, write_json
from workbench.headless.report import figures_of
from workbench.headless.run import Plan, Settings, execute, plan_run

LEAST = 3.0  # seconds of a budget below which no further run is started
_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|)")
_LARGEST_FIGURE, _LARGEST_FIGURES = 60_000, 200_000  # bytes kept beside a baseline


@dataclass(frozen=True, slots=True)
class Case:
    """A notebook at a preset, and how it went.

    Attributes:
        plan: What is run.
        folder: Where.
        state: ``agrees``, ``differs``, ``failed``, ``not reached`` or "" before.
        message: One sentence if it failed.
        verdicts: One for each metric.
        run: The content of ``run.json``.
    """

    plan: Plan
    folder: Path
    state: str = ""
    message: str = ""
    verdicts: Sequence[Verdict] = ()
    run: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """``NOTEBOOK-PRESET``."""
        return f"{self.plan.notebook.name}-{self.plan.preset}"

    @property
    def baseline_path(self) -> Path:
        """Its baseline file."""
        return self.plan.notebook.path.parent / "baselines" / f"{self.name}.json"


@dataclass(frozen=True, slots=True)
class Regression:
    """A regression that has come to an end, or to the end of its budget."""

    folder: Path
    cases: Sequence[Case]

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        states = {case.state for case in self.cases}
        if "cancelled" in states:
            return 130
        codes = {"failed": 2, "differs": 1, "not reached": 4}
        return next((code for state, code in codes.items() if state in states), 0)


def parse_budget(text: str) -> float:
    """Seconds of ``8m``, ``90s``, ``1.5h`` or ``90``.

    Raises:
        SettingError: If it is none of these.
    """
    match = _BUDGET.fullmatch(text.strip())
    if not match or float(match[1]) <= 0:
        raise SettingError(f"budget {text!r}", "a time such as 8m, 90s or 1.5h")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600, "": 1}[match[2]]


def plan_cases(notebooks: Sequence[Notebook], settings: Settings, folder: Path | None = None) -> list[Case]:
    """All cases of some notebooks: each preset that is marked for the regression.

    Args:
        notebooks: Opened notebooks.
        settings: How to run.
        folder: Where; by default a folder of ``runs/`` named by the sources and settings, which is taken
            up again if it is incomplete.

    Returns:
        The cases.

    Raises:
        SettingError: If a preset does not fit its notebook, or the folder holds other sources.
    """
    plans = [
        plan_run(book, preset=preset.name, settings=settings, environment={})
        for book in notebooks
        for preset in book.presets().values()
        if preset.regress
    ]
    digest = _digest(plans)
    if folder is None:
        folder = _folder_of(Path("runs") / f"regress-{settings.device or 'cpu'}-{digest[:8]}")
    state = folder / "regress.json"
    if state.is_file() and _read_state(state)["digest"] != digest:
        raise SettingError(f"{folder} of other sources or settings", "a folder of its own", "another --out")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(state, {"digest": digest, "complete": False})
    return [Case(plan, folder / f"{plan.notebook.name}-{plan.preset}") for plan in plans]


def regress(
    cases: Sequence[Case],
    *,
    jobs: int = 1,
    budget: float | None = None,
    listener: Callable[[Case, Any], None] = lambda case, moment: None,
) -> Regression:
    """Run what is not yet run, and judge everything.

    Args:
        cases: From ``plan_cases``.
        jobs: Runs at a time; more than one go into processes of their own.
        budget: Seconds after which no run goes on.
        listener: Told of (case, moment of its run or None at its end).

    Returns:
        The judged cases.
    """
    end = None if budget is None else time.monotonic() + budget
    cancelled = False  # by a signal during a run: no further one is started

    def work(case: Case) -> Case:
        nonlocal cancelled
        done = replace(case, state="not reached") if cancelled else _run_case(case, end, jobs > 1, listener)
        cancelled = cancelled or done.state == "cancelled"
        listener(done, None)
        return done

    if jobs > 1:
        with ThreadPoolExecutor(jobs) as pool:
            judged = list(pool.map(work, cases))
    else:
        judged = [work(case) for case in cases]
    folder = cases[0].folder.parent if cases else Path()
    if cases and not {"not reached", "cancelled"} & {c.state for c in judged}:
        state = _read_state(folder / "regress.json")
        write_json(folder / "regress.json", {**state, "complete": True})
    return Regression(folder, judged)


def update(case: Case, reason: str, *, spread: bool = True) -> tuple[Baseline, list[Verdict]]:
    """Make the numbers of a run the baseline's, or add the tolerance class of another device.

    Runs the case again with 1 and 2 threads and with two further seeds, in folders beside its own.

    Args:
        case: A case that has run.
        reason: Why the numbers may change; kept in the file.
        spread: False takes the declared tolerances without those runs.

    Returns:
        The new baseline, written, and how far each number moved from the old one.

    Raises:
        DataError: If a run failed or a number is not finite.
        SettingError: If a device's class does not come from a float64 run.
    """
    if not case.run or case.run["status"] != "completed":
        raise DataError(f"{case.name}: {case.message}", "a run that completed")
    metrics, kind = _metrics(case.folder), tolerance_class(case.run)
    old = read_baseline(case.baseline_path) if case.baseline_path.is_file() else None
    name, preset = case.plan.notebook.name, case.plan.preset
    moved = judge(old or Baseline(name, preset, {}), metrics, kind)
    if kind.startswith("cpu"):
        threads = _others(case, "threads", metrics) if spread else {}
        seeds = _others(case, "seeds", metrics) if spread else {}
        expected = expect(metrics, kind, threads=threads, seeds=seeds)
        _keep_figures(case)
    else:
        if old is None or not kind.endswith("float64"):
            raise SettingError(
                f"an update of {case.name} from {kind}",
                "a CPU baseline, and a float64 run",
                "--dtype float64",
            )
        expected = with_class(old, metrics, kind)
    entry = {
        "reason": reason,
        "date": datetime.now(UTC).date().isoformat(),
        "class": kind,
        "versions": dict(case.run["versions"]),
        "changed": [v.name for v in moved if v.apart > 0],
    }
    baseline = Baseline(name, preset, expected, (*(old.updates if old else ()), entry))
    case.baseline_path.parent.mkdir(exist_ok=True)
    write_json(case.baseline_path, baseline.to_json())
    return baseline, moved


def tolerance_class(run: Mapping[str, Any]) -> str:
    """The class of a run, such as ``cpu/float64``."""
    dtype = run["parameters"].get("dtype") or run["dtype"] or "float64"
    return f"{run['device']['resolved'].split(':')[0]}/{dtype}"


def baseline_figures(case: Case) -> list[Mapping[str, Any]]:
    """The figures kept beside a case's baseline."""
    path = case.baseline_path.with_suffix(".figures.json")
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    return []


def _run_case(case: Case, end: float | None, apart: bool, listener: Callable[[Case, Any], None]) -> Case:
    """Run a case unless it has run, and judge it."""
    if not _finished(case.folder):
        put_aside(case.folder)
        left = None if end is None else end - time.monotonic()
        if left is not None and left < LEAST:
            return replace(case, state="not reached", message="the budget is spent")
        own = case.plan.settings.timeout
        limit = min((t for t in (own, left) if t is not None), default=None)
        plan = replace(case.plan, settings=replace(case.plan.settings, timeout=limit))
        if apart:
            code, said = run_apart(command_line(plan, case.folder))
            if not (case.folder / "run.json").is_file():
                return replace(case, state="failed", message=said or f"exit code {code}")
        else:
            execute(plan, out=case.folder, listener=lambda moment: listener(case, moment))
        if limit == left and _run(case.folder)["status"] == "time-out":
            shutil.rmtree(case.folder)
            return replace(case, state="not reached", message="the budget was spent in it")
    run = _run(case.folder)
    case = replace(case, run=run)
    if run["status"] != "completed":
        state = "cancelled" if run["status"] == "cancelled" else "failed"
        return replace(case, state=state, message=f"{run['status']}: {run['message']}")
    try:
        baseline = read_baseline(case.baseline_path)
    except FileNotFoundError:
        baseline = Baseline(case.plan.notebook.name, case.plan.preset, {})
        if not _metrics(case.folder):
            return replace(case, state="failed", message="nothing was recorded and there is no baseline")
    except DataError as error:
        return replace(case, state="failed", message=str(error))
    verdicts = judge(baseline, _metrics(case.folder), tolerance_class(run))
    state = "agrees" if all(v.agrees for v in verdicts) else "differs"
    return replace(case, state=state, verdicts=verdicts)


def _others(case: Case, over: str, metrics: Mapping[str, Any]) -> dict[str, float]:
    """The spread of a case's metrics over 1 and 2 threads, or over three seeds."""
    plan = case.plan
    if over == "threads":
        counts = [n for n in (1, 2) if n != plan.settings.threads]
        plans = {f"threads{n}": replace(plan, settings=replace(plan.settings, threads=n)) for n in counts}
    else:
        seed = plan.parameters.get("seed")
        if not isinstance(seed, int):
            return {}
        plans = {
            f"seed{seed + n}": replace(plan, parameters={**plan.parameters, "seed": seed + n}) for n in (1, 2)
        }
    found = []
    for label, other in plans.items():
        folder = case.folder.with_name(f"{case.name}.{label}")
        if not _finished(folder):
            put_aside(folder)
            result = execute(other, out=folder)
            if result.exit_code:
                raise DataError(f"{case.name} with {label}: {result.message}", "a run that completes")
        found.append(_metrics(folder))
    return measure_spread(metrics, found)


def _keep_figures(case: Case) -> None:
    """Keep the figures of a run beside its baseline, without templates, if they are small."""
    node = json.loads((case.folder / "notebook.ipynb").read_text(encoding="utf-8"))
    kept, total = [], 0
    for figure in figures_of(node):
        layout = {k: v for k, v in figure.get("layout", {}).items() if k != "template"}
        small = {"data": _rounded(figure.get("data", [])), "layout": _rounded(layout)}
        size = len(json.dumps(small))
        total += size
        fits = size <= _LARGEST_FIGURE and total <= _LARGEST_FIGURES
        kept.append(small if fits else {"omitted": size})
    path = case.baseline_path.with_suffix(".figures.json")
    path.parent.mkdir(exist_ok=True)
    if kept:
        write_json(path, kept)
    else:
        path.unlink(missing_ok=True)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return value


def _digest(plans: Sequence[Plan]) -> str:
    """Changes with the sources of the package, a notebook, a preset or a setting."""
    found = hashlib.sha256(json.dumps([p.digest() for p in plans]).encode())
    for plan in plans:
        found.update(repr((plan.preset, plan.settings.threads, plan.settings.deterministic)).encode())
    found.update(_sources().encode())
    return found.hexdigest()


@cache
def _sources() -> str:
    """Digest of the package's sources, as they were when this process first asked."""
    found = hashlib.sha256()
    for path in sorted(Path(workbench.__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def _folder_of(first: Path) -> Path:
    """The first of ``first``, ``first-2``, … that is not complete."""
    number, folder = 1, first
    while (folder / "regress.json").is_file():
        with contextlib.suppress(DataError):  # a damaged one is left as it is
            if not _read_state(folder / "regress.json")["complete"]:
                break
        number += 1
        folder = first.with_name(f"{first.name}-{number}")
    return folder


def _read_state(path: Path) -> dict[str, Any]:
    """The content of ``regress.json``."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        return {"digest": str(state["digest"]), "complete": bool(state["complete"])}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise DataError(
            f"{path}, which `workbench regress` did not write", "its folder as it left it", "another --out"
        ) from None


def _finished(folder: Path) -> bool:
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):  # a damaged one runs again
        return _run(folder)["status"] == "completed"
    return False


def _run(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def _metrics(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
