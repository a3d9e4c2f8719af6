"""`workbench app`: the page is started as a front end of its own; what cannot be served is one sentence."""

import subprocess
import sys

import pytest

from workbench.errors import MissingExtra
from workbench.headless import page


@pytest.fixture
def started(monkeypatch):
    """What would have been started: the command and its environment."""
    calls = []

    def run(command, env):
        calls.append((command, env))
        return subprocess.CompletedProcess(command, 7)

    monkeypatch.setattr(page.subprocess, "run", run)
    return calls


def test_the_page_is_started_in_a_process_of_its_own_with_its_settings(started, tmp_path):
    code = page.open_page(model=tmp_path, port=0, computations=3, browser=False)
    assert code == 7
    command, _ = started[0]
    assert command == [
        sys.executable, "-m", "widgets.app", "--port=0", "--address=127.0.0.1",
        f"--model={tmp_path}", "--computations=3", "--no-browser",
    ]  # fmt: skip


def test_the_token_travels_where_other_users_cannot_read_it(started):
    page.open_page(address="0.0.0.0", token="a token of good length")
    command, environment = started[0]
    assert environment["WORKBENCH_TOKEN"] == "a token of good length"
    assert not any("good length" in word for word in command)


def test_without_panel_the_extra_is_named(monkeypatch, started):
    monkeypatch.setattr(page, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"latent-workbench\[panel\]"):
        page.open_page()
    assert started == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--address", "0.0.0.0"], "got the address 0.0.0.0 without a token"),
        (["--token", "short"], "16 or more"),
        (["--model", "/no/such/model"], "no file or folder"),
    ],
)
def test_what_cannot_be_served_is_one_sentence_and_code_2(arguments, sentence, capsys):
    pytest.importorskip("panel")
    from widgets.app.__main__ import main

    assert main(["--no-browser", "--port=0", *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.strip().splitlines()) == 1
