"""Run folders: whole or absent, never overwritten, one writer at a time.

A run writes into ``NAME.partial`` beside its target, under a lock that the operating system drops when
the process ends, and renames the folder when it is whole. What a killed runner leaves behind is thus a
``NAME.partial`` with the notebook up to its last finished cell. The next run of that name moves it to
``NAME.partial-2``, ``-3``, …; nothing is ever deleted.
"""

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.errors import SettingError

RESERVE = 64 * 1024  # bytes held back, so that a full disk still takes the report of the failure
_FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}


def is_disk_full(error: BaseException) -> bool:
    """True for the errors of a full disk, a quota or a file-size limit."""
    return isinstance(error, OSError) and error.errno in _FULL


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is the old one or the new one, never a torn one.

    Args:
        path: The file.
        text: Its content.

    Raises:
        OSError: If it cannot be written; the old file is kept.
    """
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any) -> None:
    """``write_whole`` of strict JSON (no NaN), indented, in the order given."""
    write_whole(path, json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to write into, which becomes ``target`` when the block ends; an exception leaves it partial.

    Args:
        target: Must not exist.

    Yields:
        The partial folder.

    Raises:
        SettingError: If the target exists, cannot be made, or another run is writing to it.
    """
    if target.exists() or target.is_symlink():
        raise SettingError(f"existing folder {target}", "a folder that does not exist", "another --out")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = target.with_name(f".{target.name}.lock")
        held = lock_file(lock)
    except OSError as error:
        raise SettingError(
            f"folder {target} that cannot be made ({error.strerror})", "a place to write", "--out"
        ) from None
    if held is None:
        raise SettingError(
            f"folder {target} that another run is writing", "one run for each folder", "another --out"
        )
    try:
        if target.exists():
            raise SettingError(f"existing folder {target}", "a folder that does not exist", "another --out")
        partial = target.with_name(f"{target.name}.partial")
        _move_aside(partial)
        partial.mkdir()
        with contextlib.suppress(OSError):
            (partial / ".reserve").write_bytes(b"\0" * RESERVE)
        yield partial
        (partial / ".reserve").unlink(missing_ok=True)
        partial.rename(target)
    finally:
        lock.unlink(missing_ok=True)
        os.close(held)


def _move_aside(partial: Path) -> None:
    """Keep what lies where a run wants to write, whoever left it: rename a folder, refuse a file."""
    if not partial.exists() and not partial.is_symlink():
        return
    if partial.is_symlink() or not partial.is_dir():
        raise SettingError(f"existing file {partial}", "a free name for the unfinished run", "another --out")
    try:
        partial.rename(free_name(partial))
    except OSError as error:
        raise SettingError(
            f"unfinished folder {partial} that cannot be moved aside ({error.strerror})",
            "a place to write",
            "another --out",
        ) from None


def put_aside(folder: Path) -> None:
    """Give what a failed run left another name, ``NAME.failed-1``, …, so that it can run again.

    Args:
        folder: Of the run; nothing happens if it does not exist.
    """
    number = 1
    while folder.exists():
        aside = folder.with_name(f"{folder.name}.failed-{number}")
        number += 1
        if not aside.exists():
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                folder.rename(aside)


def free_name(target: Path) -> Path:
    """``target``, or the first of ``target-2``, ``target-3``, … that does not exist."""
    number, candidate = 1, target
    while candidate.exists():
        number += 1
        candidate = target.with_name(f"{target.name}-{number}")
    return candidate


def lock_file(path: Path) -> int | None:
    """A lock that the operating system drops when this process ends.

    Args:
        path: The file that stands for it.

    Returns:
        A descriptor to be closed, or None if another process holds the lock.
    """
    while True:
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        try:
            if os.stat(path).st_ino == os.fstat(handle).st_ino:
                return handle
        except FileNotFoundError:
            pass  # its last holder removed it between our open and our lock
        os.close(handle)
