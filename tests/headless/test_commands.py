"""The command line as a person meets it: every refusal is one sentence, none hangs, Ctrl-C always ends it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workbench.errors import SettingError
from workbench.headless import cli, commands
from workbench.headless.clusters import check_address

from .making import write_notebook

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def say(tmp_path, monkeypatch, capsys):
    """Run the command here in a folder with a notebook and a grid; gives (code, standard error)."""
    monkeypatch.chdir(tmp_path)
    write_notebook(tmp_path, "1", parameters="n: int = 1  # 1..9")
    (tmp_path / "g.yaml").write_text("grid: {n: [1]}")
    (tmp_path / "file").write_text("")
    kept = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def call(line: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["workbench", *line.split()])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, capsys.readouterr().err

    yield call
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("sweep tiny.ipynb --grid g.yaml --jobs 0", "--jobs 0; expected 1 or more"),
        ("sweep tiny.ipynb --grid g.yaml --retries -1", "--retries -1; expected 0 or more"),
        ("sweep tiny.ipynb --grid g.yaml --scheduler foo", "tcp://127.0.0.1:8786"),
        ("sweep tiny.ipynb --grid g.yaml --out file", "Not a directory"),
        ("regress tiny.ipynb --out file", "File exists"),
        ("lab --prepare-only --out file", "Not a directory"),
        ("lab --prepare-only --out /proc/nowhere", "/proc/nowhere"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_code_2(say, line, part):
    code, said = say(line)
    assert code == 2
    assert part in said
    assert said.startswith("workbench: got ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("address", ["foo", "tcp://foo", "tcp://a:b", "zz://a:1"])
def test_an_address_without_a_port_is_refused(address):
    with pytest.raises(SettingError, match=r"got --scheduler .*; expected an address with a port"):
        check_address(address)


@pytest.mark.parametrize("address", ["127.0.0.1:8786", "tcp://host:8786", "tls://[::1]:1"])
def test_an_address_with_a_port_is_taken(address):
    check_address(address)


def test_an_interrupt_that_the_command_line_swallows_still_has_a_sentence(say, monkeypatch):
    def interrupted() -> list[Path]:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "find_notebooks", interrupted)
    assert say("list") == (130, "workbench: cancelled\n")


def test_an_interrupt_during_the_imports_is_a_sentence_and_code_130(tmp_path):
    (tmp_path / "typer.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench", "list"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "workbench: cancelled before anything was run\n")
    assert time.monotonic() - began < 20
