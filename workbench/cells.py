"""Parameters cells of notebooks as frozen values, for views whose state is their own script.

A view's state is a frozen dataclass of plain values with the names of its notebook's parameters. These
functions turn it into the text of a parameters cell and back; nothing in a text is ever evaluated.
"""

import ast
import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any, TypeVar, cast, get_args

from workbench.errors import SettingError

State = TypeVar("State")


def write_cell(state: Any) -> str:
    """The parameters cell of a state: one line `name: kind = value` a field."""
    fields = dataclasses.fields(state)
    return "\n".join(f"{f.name}: {_kind(f)} = {getattr(state, f.name)!r}" for f in fields)


def read_cell(kind: type[State], text: str) -> State:
    """The state of a parameters cell.

    Args:
        kind: The dataclass.
        text: Lines `name: kind = value` or `name = value`; comments are allowed.

    Returns:
        The state; names that are missing keep their defaults.

    Raises:
        SettingError: If the text holds anything else, an unknown name or a value of the wrong kind.
    """
    values = {}
    try:
        for line in ast.parse(text).body:
            name, value = _assignment(line)
            values[name] = ast.literal_eval(value)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise SettingError("text that is no parameters cell", "lines of the form name = value") from error
    return read_values(kind, values)


def read_values(kind: type[State], values: Mapping[str, Any]) -> State:
    """The state of plain values, as JSON gives them; arguments as in `read_cell`.

    A whole number where a float is meant becomes one; infinities and NaN are refused.
    """
    known = {field.name: field for field in dataclasses.fields(cast(Any, kind))}
    checked = {}
    for name, value in values.items():
        if name not in known:
            raise SettingError(f"unknown parameter {name!r}", f"one of {', '.join(known)}")
        wanted = _wanted(known[name])
        whole = isinstance(value, int) and not isinstance(value, bool)
        if float in wanted and int not in wanted and whole and value.bit_length() < 1024:
            value = float(value)
        fits = type(value) in wanted and not (isinstance(value, float) and not math.isfinite(value))
        if not fits:
            words = " or ".join("None" if one is types.NoneType else one.__name__ for one in wanted)
            raise SettingError(f"{name} = {_short(value)}", f"a value of kind {words}")
        checked[name] = value
    return kind(**checked)


def _wanted(field: dataclasses.Field) -> tuple[type, ...]:
    """The plain types that a field admits: those of its annotation, else that of its default."""
    if isinstance(field.type, types.UnionType):
        return get_args(field.type)
    return (field.type,) if isinstance(field.type, type) else (type(field.default),)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:60]}..."


def _assignment(line: ast.stmt) -> tuple[str, ast.expr]:
    """Name and value of one line; ValueError if it is no assignment of one name."""
    targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
    value = line.value if isinstance(line, ast.Assign | ast.AnnAssign) else None
    if len(targets) != 1 or not isinstance(targets[0], ast.Name) or value is None:
        raise ValueError("no assignment")
    return targets[0].id, value


def _kind(field: dataclasses.Field) -> str:
    return getattr(field.type, "__name__", str(field.type))
