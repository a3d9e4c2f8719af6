"""Waiting for other threads: as long as a busy machine needs, and no longer than that."""

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """Return as soon as a condition holds; fail if it does not within so many seconds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds:g} s"
        time.sleep(0.002)
