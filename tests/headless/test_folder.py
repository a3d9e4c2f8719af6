"""Run folders: what already lies where a run wants to write is kept."""

from pathlib import Path

import pytest

from workbench.errors import SettingError
from workbench.headless.folder import new_folder


def write_run(target: Path) -> None:
    with new_folder(target) as folder:
        (folder / "new").touch()


def break_off(target: Path, name: str) -> None:
    with new_folder(target) as folder:
        (folder / name).touch()
        raise ZeroDivisionError


def test_a_folder_of_the_partial_name_is_moved_aside_and_kept(tmp_path: Path):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "precious").write_text("mine")
    write_run(tmp_path / "out")
    assert (tmp_path / "out.partial-2" / "precious").read_text() == "mine"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["new"]
    assert not (tmp_path / "out.partial").exists()


def test_every_unfinished_run_is_kept(tmp_path: Path):
    for number in "012":
        with pytest.raises(ZeroDivisionError):
            break_off(tmp_path / "out", number)
    kept = {path.parent.name for path in tmp_path.glob("out.partial*/[0-9]")}
    assert kept == {"out.partial", "out.partial-2", "out.partial-3"}


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_of_the_partial_name_is_refused_in_a_sentence(tmp_path: Path, kind: str):
    partial = tmp_path / "out.partial"
    if kind == "file":
        partial.write_text("mine")
    else:
        partial.symlink_to(tmp_path / "nowhere")
    with pytest.raises(
        SettingError, match=r"^got existing file .*out\.partial; expected .*; try another --out"
    ):
        write_run(tmp_path / "out")
    assert partial.is_symlink() or partial.read_text() == "mine"
    assert not (tmp_path / "out").exists()
