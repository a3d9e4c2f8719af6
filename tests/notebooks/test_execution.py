"""Each notebook is executed once, at its regression presets; the baselines and nbval judge that execution."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.headless.catalog import find_notebooks, open_notebook
from workbench.headless.nbval import EXECUTED
from workbench.headless.regress import Regression, plan_cases, regress
from workbench.headless.run import Settings
from workbench.headless.verdicts import text_table, write_reports

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = find_notebooks()
CASES = [
    f"{path.stem}-{preset.name}"
    for path in NOTEBOOKS
    for preset in open_notebook(path).presets().values()
    if preset.regress
]


@pytest.fixture(scope="module")
def executed(tmp_path_factory) -> Regression:
    """The one execution of every notebook. ``WORKBENCH_EXECUTED`` names a folder to take it from instead."""
    folder = Path(os.environ.get(EXECUTED) or tmp_path_factory.mktemp("executed"))
    cases = plan_cases([open_notebook(path) for path in NOTEBOOKS], Settings(device="cpu"), folder)
    done = regress(cases, jobs=2)  # one for each core that a small machine has
    write_reports(done)
    return done


@pytest.mark.parametrize("name", CASES)
def test_it_completes_and_agrees_with_its_baseline(executed, name):
    (case,) = [case for case in executed.cases if case.name == name]
    assert case.state == "agrees", text_table([case], only_differences=True)


def test_nbval_agrees_with_that_same_execution(executed):
    line = [sys.executable, "-m", "pytest", "--nbval", "-q", "--color=no", "-p", "no:cacheprovider"]
    line += ["-c", os.devnull, "--rootdir", str(ROOT), *map(str, NOTEBOOKS)]
    environment = {**os.environ, EXECUTED: str(executed.folder), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
