"""Each notebook is executed once, at its regression presets; the baselines and nbval judge that execution."""

import os
from pathlib import Path

import pytest

from workbench.headless.catalog import find_notebooks, open_notebook
from workbench.headless.nbval import EXECUTED
from workbench.headless.regress import Regression, plan_cases, regress
from workbench.headless.run import Settings
from workbench.headless.verdicts import text_table, write_reports

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
    done = regress(cases)
    write_reports(done)
    return done


@pytest.mark.parametrize("name", CASES)
def test_it_completes_and_agrees_with_its_baseline(executed, name):
    (case,) = [case for case in executed.cases if case.name == name]
    assert case.state == "agrees", text_table([case], only_differences=True)


def test_nbval_agrees_with_that_same_execution(executed, capsys, monkeypatch):
    monkeypatch.setenv(EXECUTED, str(executed.folder))
    monkeypatch.setattr(os, "environ", os.environ.copy())
    plugins = ["-p", "no:cacheprovider", "-p", "no:jaxtyping"]
    files = [str(path) for path in NOTEBOOKS]
    code = pytest.main(["--nbval", "-q", "--color=no", *plugins, *files])
    assert code == 0, capsys.readouterr().out
