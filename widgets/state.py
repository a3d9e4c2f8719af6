"""The state of the path view: a small frozen value that is its own script.

What a user set by dragging and sliding is exactly the parameters cell of the notebook `10_paths`, so that a
gesture becomes a run and a run becomes a view again.
"""

import ast
import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.checks import shown
from workbench.errors import SettingError


@dataclass(frozen=True, slots=True)
class PathState:
    """What to find a path in, between what, and how. JSON-able.

    Attributes:
        world: A world's name; overrides the model.
        model: A shipped model's name or a folder.
        start: First end: an index into the real test images, coordinates such as "-3,0", or a picture file;
            empty for the default.
        end: Last end.
        via: Points to lead the start string through, separated by semicolons.
        regime: "mep", "transport", "principal" or "static"; empty for the subject's first.
        sigma: Noise level of the static string, in the data's unit; None for the regime's own.
        nodes: Images on the string.
        steps: Steps of the flow.
        gamma: Weight of the relaxation against the flow; None for what is usual for the subject.
        temperature: T of a principal curve, 1 for the density itself; 0 for the regime's own.
        compare: Whether the notebook finds the other regimes too; the view does not.
        device: Device to compute on.
        dtype: "float32", "float64", or empty for the subject's own.
        seed: Seed of whatever draws.
    """

    world: str = ""
    model: str = "fashion"
    start: str = ""
    end: str = ""
    via: str = ""
    regime: str = ""
    sigma: float | None = None
    nodes: int = 33
    steps: int = 20
    gamma: float | None = None
    temperature: float = 0.0
    compare: bool = True
    device: str = "cpu"
    dtype: str = ""
    seed: int = 0

    def but(self, **changes: Any) -> "PathState":
        """The state with some entries changed."""
        return state_from({**self.as_dict(), **changes})

    def as_dict(self) -> dict[str, Any]:
        """Name to value, in order."""
        return dataclasses.asdict(self)

    @property
    def vias(self) -> tuple[str, ...]:
        """The via points, one text each."""
        return tuple(part.strip() for part in self.via.split(";") if part.strip())


_KINDS = {field.name: field.type for field in dataclasses.fields(PathState)}


def state_from(values: Mapping[str, Any]) -> PathState:
    """A state from plain values, as JSON or a notebook gives them.

    Args:
        values: Name to value; names that are missing keep their defaults.

    Returns:
        The state, whole numbers turned into floats where floats are meant.

    Raises:
        SettingError: For an unknown name or a value of the wrong kind.
    """
    known = {}
    for name, value in values.items():
        if name not in _KINDS:
            raise SettingError(f"unknown parameter {name!r}", f"one of {', '.join(_KINDS)}")
        kind = _KINDS[name]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if (whole or isinstance(value, float)) and not abs(value) <= sys.float_info.max:
            raise SettingError(shown(name, value), "a finite number")
        if kind in (str, bool):
            fits = isinstance(value, kind)
        elif kind is int:
            fits = whole
        else:
            fits = whole or isinstance(value, float) or (value is None and kind is not float)
        if not fits:
            raise SettingError(f"{name} = {value!r}", f"a value of kind {getattr(kind, '__name__', kind)}")
        known[name] = float(value) if isinstance(value, int) and kind not in (int, bool) else value
    return PathState(**known)


def cell_of(state: PathState, names: tuple[str, ...] = tuple(_KINDS)) -> str:
    """The parameters cell of the notebook `10_paths` for a state.

    Args:
        state: The state.
        names: Parameters that the notebook has, in its order.

    Returns:
        One line of Python a parameter.
    """
    kinds = {name: getattr(kind, "__name__", str(kind)) for name, kind in _KINDS.items()}
    return "\n".join(f"{name}: {kinds[name]} = {getattr(state, name)!r}" for name in names)


def state_of_cell(text: str) -> PathState:
    """The state of a parameters cell. Nothing is evaluated: values are literals or the text is refused.

    Args:
        text: Lines of the form `name: kind = value` or `name = value`; comments are allowed.

    Returns:
        The state.

    Raises:
        SettingError: If the text holds anything else.
    """
    values = {}
    try:
        for line in ast.parse(text).body:
            target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
            value = getattr(line, "value", None)
            if not isinstance(target, ast.Name) or not isinstance(value, ast.expr):
                raise ValueError
            values[target.id] = ast.literal_eval(value)
    except (SyntaxError, ValueError, TypeError) as error:
        raise SettingError("text that is no parameters cell", "lines of the form name = value") from error
    return state_from(values)
