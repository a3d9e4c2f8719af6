"""A run in a process of its own, for programs that start many: it ends with the program that started it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import workbench
from workbench.headless.run import Plan


def command_line(plan: Plan, out: Path) -> list[str]:
    """The arguments of ``python -m workbench`` that run a plan.

    Args:
        plan: From ``plan_run``.
        out: The run's folder.
    """
    preset = plan.preset if plan.preset in plan.notebook.presets() else "default"
    line = ["run", str(plan.notebook.path), "--preset", preset, "--out", str(out), "--quiet"]
    for name, value in plan.parameters.items():
        text = "none" if value is None else str(value)
        line += ["-p", f"{name}={text}"]
    settings = plan.settings
    for option, value in (
        ("--dtype", settings.dtype),
        ("--threads", settings.threads),
        ("--timeout", settings.timeout),
        ("--cell-timeout", settings.cell_timeout),
    ):
        if value:
            line += [option, str(value)]
    return line if settings.deterministic else [*line, "--fast"]


def run_apart(arguments: Sequence[str]) -> tuple[int, str]:
    """Run the command in a child, which is cancelled when this process dies.

    Args:
        arguments: Of ``python -m workbench``.

    Returns:
        Its exit code and what it said on standard error.
    """
    root = str(Path(workbench.__file__).resolve().parent.parent)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WORKBENCH_P_")}
    environment["WORKBENCH_PARENT"] = str(os.getpid())
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH", ""))))
    environment["OMP_WAIT_POLICY"] = "passive"
    done = subprocess.run(
        [sys.executable, "-m", "workbench", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr.strip()
