"""The state of a page in its address, so that a reload, a bookmark or a link shows the same again.

Only what differs from the defaults is written. Everything that is read comes from outside: what is no small
JSON object of plain values is left out.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

LONGEST = 4000
"""Characters of one tab's state; a longer one is not kept."""


def differences(state: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults."""
    return {
        field.name: getattr(state, field.name)
        for field in dataclasses.fields(state)
        if getattr(state, field.name) != field.default
    }


def write_query(tab: str, theme: str, states: Mapping[str, Mapping[str, Any]]) -> str:
    """The query of an address.

    Args:
        tab: Name of the tab that is open.
        theme: "light" or "dark".
        states: Values by name for every tab that has been opened.
    """
    parts = {"tab": tab, "theme": theme}
    for name, values in states.items():
        text = json.dumps(dict(values), separators=(",", ":"), ensure_ascii=False)
        if len(text) <= LONGEST:
            parts[name] = text
    return urlencode(parts)


def read_query(arguments: Mapping[str, Any], tabs: tuple[str, ...]) -> tuple[str, str, dict[str, dict]]:
    """The tab, the theme and the states of an address.

    Args:
        arguments: Name to values, as a web server gives them.
        tabs: Names of tabs; the first is opened if none is asked for.

    Returns:
        As the arguments of `write_query`; a state that cannot be read is left out.
    """
    tab, theme = _last(arguments, "tab"), _last(arguments, "theme")
    states = {}
    for name in tabs:
        text = _last(arguments, name)
        if not text or len(text) > LONGEST:
            continue
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(values, dict) and all(isinstance(v, str | int | float | None) for v in values.values()):
            states[name] = values
    return tab if tab in tabs else tabs[0], theme if theme in ("light", "dark") else "light", states


def _last(arguments: Mapping[str, Any], name: str) -> str:
    values = arguments.get(name) or [""]
    value = values[-1]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
