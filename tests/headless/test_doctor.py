"""The command `workbench doctor`: its text, and the exit codes 0 sound, 1 faulty, 2 unreadable."""

import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from workbench.headless import cli


@pytest.fixture
def say(monkeypatch, capsys):
    """Run the command here; gives (code, standard output, standard error)."""
    monkeypatch.setattr("workbench.headless.watch.cancel_on_signals", lambda: None)

    def call(*line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["workbench", "doctor", *line])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return call


def test_a_shipped_model_is_sound(say):
    code, out, err = say("ring", "--count", "32")
    assert code == 0
    assert out.startswith("ring: sound")
    assert "transport, 17 nodes" in out
    assert "100% done" in err


def test_data_of_another_scale_are_a_fault(say, tmp_path):
    generator = np.random.default_rng(0)
    angle = generator.integers(8, size=64) * np.pi / 4
    ring = 0.8 * np.stack([np.cos(angle), np.sin(angle)], -1) + 0.06 * generator.standard_normal((64, 2))
    np.save(tmp_path / "mine.npy", 5.5 * ring)
    code, out, err = say("ring", "--count", "48", "--data", str(tmp_path / "mine.npy"), "--quiet")
    assert code == 1
    assert "the data need a factor of 0.1" in out
    assert err == ""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("nowhere",), "no file or folder"),
        (("ring", "--data", "nowhere.npy"), "got data 'nowhere.npy'"),
        (("ring", "--count", "1"), "--count 1; expected 2 or more"),
        (("ring", "--dtype", "int8"), "dtype='int8'"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_and_code_2(say, line, words):
    code, _, err = say(*line, "--quiet")
    assert code == 2
    assert words in err
    assert err.count("\n") == 1


def test_files_that_are_no_model_are_one_sentence_and_code_2(say, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "readme.txt").write_text("no model")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "whole.pt")
    save_file({"weight": torch.zeros(1000)}, tmp_path / "cut.safetensors")
    whole = (tmp_path / "cut.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[:600])
    said = {
        str(tmp_path / "folder"): "expected model_index.json or config.json of diffusers",
        str(tmp_path / "whole.pt"): "a pickle that would run code on loading",
        str(tmp_path / "cut.safetensors"): "unreadable weights",
        "google/ddpm-cifar10-32": "looks like a name on a hub",
    }
    for source, words in said.items():
        code, out, err = say(source, "--quiet")
        assert (code, out, err.count("\n")) == (2, "", 1), source
        assert words in err
