"""Points of a state by their handles, "start", "end" and "via 0", "via 1", ...: moved, added, taken away.

A state is anything with texts `start`, `end` and `via`, the parts of `via` as `vias`, and `but`.
"""

from typing import Any

from workbench.errors import SettingError
from workbench.subjects import Subject


def put_point(state: Any, handle: str, text: str) -> Any:
    """The state with one of its points at another place.

    Args:
        state: The state.
        handle: Which point.
        text: The place, as a subject names it.

    Raises:
        SettingError: If there is no such point.
    """
    if handle in ("start", "end"):
        return state.but(**{handle: text})
    vias = list(state.vias)
    vias[_row(handle, vias)] = text
    return state.but(via="; ".join(vias))


def add_via(state: Any, subject: Subject, text: str) -> Any:
    """The state with one more via point; all of them sorted along the line between the ends.

    Args:
        state: The state.
        subject: Whose points they are.
        text: The place, as the subject names it.

    Raises:
        SettingError: If a text names no point.
    """
    start, end = subject.ends(state.start, state.end)
    texts = sorted((*state.vias, text), key=lambda one: float((subject.point(one) - start) @ (end - start)))
    return state.but(via="; ".join(texts))


def drop_via(state: Any, handle: str) -> Any:
    """The state without one of its via points.

    Raises:
        SettingError: If there is no such point.
    """
    vias = list(state.vias)
    del vias[_row(handle, vias)]
    return state.but(via="; ".join(vias))


def _row(handle: str, vias: list[str]) -> int:
    """Which via point a handle is."""
    names = [f"via {k}" for k in range(len(vias))]
    if handle not in names:
        raise SettingError(f"no point {handle!r}", f"one of {', '.join(('start', 'end', *names))}")
    return names.index(handle)
