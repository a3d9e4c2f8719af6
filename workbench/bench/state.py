"""The state of the bench: one small frozen value from which everything on the screen follows.

It is at the same time the content of a view file and the parameters cell of the notebook `90_side_by_side`,
so that a gesture becomes a script and a script becomes a view again. Nothing in a file is ever evaluated.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from workbench.cells import read_cell, read_values, write_cell
from workbench.errors import DataError, SettingError

NOTEBOOK = "90_side_by_side"
"""The notebook whose parameters a state is."""
VERSION = 1
"""Version of the view file."""

LENS_NAMES = ("paths", "fisher", "anisotropy", "conda")
"""Lenses that a state can ask for."""
REGIMES = ("mep", "transport", "principal", "static")
"""Regimes of path that it can ask for."""
METRICS = ("score", "density", "jacobian", "pullback", "euclidean")
"""Metrics under which lengths are measured and geodesics found."""
BACKGROUNDS = ("density", "magnification", "dimension", "score", "phase", "none")
"""Fields that can lie under the curves."""
PROJECTIONS = ("", "plane", "pca", "slice")
"""Planes that can be looked at; empty takes the subject's own."""
PROBES = ("zero", "gaussian", "data")
"""Inputs at which untrained networks are asked."""

_CHOICES = {"metric": METRICS, "background": BACKGROUNDS, "projection": PROJECTIONS, "probe": PROBES}
_LISTS = {"lenses": LENS_NAMES, "regimes": REGIMES}
_LOWEST = {"nodes": 3, "steps": 2, "gamma": 0.0, "networks": 2, "seed": 0, "sigma": 0.0}
_LONGEST = 65536  # bytes of a view file: ends given as coordinates are long, a file that is none is longer
_COMMENT = f"""# A saved view of the workbench.
# Reopen it: Bench.load("view.yaml"). Repeat its numbers: workbench run {NOTEBOOK} --preset view.yaml
"""


@dataclass(frozen=True, slots=True)
class BenchState:
    """What all lenses look at, between what, and how. JSON-able.

    Attributes:
        world: A world with known answers; overrides the model.
        model: A shipped model's name, or a folder that holds one.
        condition: Class to bind; empty for the null class.
        guidance: Weight of classifier-free guidance.
        start: First end: the number of a real sample, coordinates "x,y", or a picture file; empty for the
            default.
        end: Last end.
        via: Points to lead the curves through at first, with semicolons between.
        sigma: Noise level in the data's unit for every lens; None lets each take its own.
        lenses: Lenses that are asked, with commas between.
        regimes: Regimes of path, with commas between.
        nodes: Nodes of a curve.
        steps: Steps of the flow; None for 50 in worlds and 25 in networks.
        gamma: Effort of the relaxation of a path of least energy; None for what is usual for the subject.
        metric: Metric of the geodesic, of the filmstrip's steps and of the magnification factor.
        weight: Weight of the score in the metric "score", in squared data units; None for the noise level's
            square.
        projection: Plane that is looked at; empty for the subject's own.
        background: Field under the curves.
        probe: Inputs at which the untrained networks of the architecture are asked.
        networks: How many of them.
        device: Where to compute.
        dtype: "float32", "float64", or empty for the subject's own.
        seed: Seed of whatever draws.
    """

    world: str = ""
    model: str = "fashion"
    condition: str = ""
    guidance: float = 0.0
    start: str = ""
    end: str = ""
    via: str = ""
    sigma: float | None = None
    lenses: str = ",".join(LENS_NAMES)
    regimes: str = "mep"
    nodes: int = 17
    steps: int | None = None
    gamma: float | None = None
    metric: str = "score"
    weight: float | None = None
    projection: str = ""
    background: str = "density"
    probe: str = "zero"
    networks: int = 64
    device: str = "cpu"
    dtype: str = ""
    seed: int = 0

    def but(self, **changes: Any) -> "BenchState":
        """The state with some entries changed; checked."""
        return state_of({**self.as_dict(), **changes})

    def as_dict(self) -> dict[str, Any]:
        """Name to value, in order: the notebook's parameters."""
        return dataclasses.asdict(self)

    def as_cell(self) -> str:
        """The parameters cell of the notebook, one line a parameter."""
        return write_cell(self)

    @property
    def vias(self) -> tuple[str, ...]:
        """The via points, one text each."""
        return tuple(part.strip() for part in self.via.split(";") if part.strip())

    @property
    def lens_names(self) -> tuple[str, ...]:
        """The lenses that are asked."""
        return parts_of(self.lenses)

    @property
    def regime_names(self) -> tuple[str, ...]:
        """The regimes of path."""
        return parts_of(self.regimes)

    def differences(self, other: "BenchState") -> dict[str, tuple[Any, Any]]:
        """Entries in which two states differ: name to (own, other's)."""
        own, theirs = self.as_dict(), other.as_dict()
        return {name: (own[name], theirs[name]) for name in own if own[name] != theirs[name]}


def parts_of(text: str) -> tuple[str, ...]:
    """The words of a list written with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def state_of(values: Mapping[str, Any]) -> BenchState:
    """A state from plain values, as JSON, YAML or a notebook gives them.

    Args:
        values: Name to value; names that are missing keep their defaults.

    Returns:
        The state.

    Raises:
        SettingError: For an unknown name, a value of the wrong kind or out of its range.
    """
    state = read_values(BenchState, values)
    for name, choices in _CHOICES.items():
        if getattr(state, name) not in choices:
            raise SettingError(
                f"{name} {getattr(state, name)!r}", f"one of {', '.join(filter(None, choices))}", choices[0]
            )
    for name, choices in _LISTS.items():
        wrong = [part for part in parts_of(getattr(state, name)) if part not in choices]
        if wrong:
            raise SettingError(f"{name} {wrong[0]!r}", f"some of {', '.join(choices)}", repr(choices[0]))
    for name, least in _LOWEST.items():
        value = getattr(state, name)
        if value is not None and value < least:
            raise SettingError(f"{name}={value}", f"{least} or more")
    if state.weight is not None and not state.weight > 0:
        raise SettingError(f"weight={state.weight}", "above 0, or None")
    return state


def state_of_cell(text: str) -> BenchState:
    """The state of a parameters cell; nothing in it is evaluated.

    Raises:
        SettingError: If the text is no parameters cell of a state.
    """
    return state_of(read_cell(BenchState, text).as_dict())


def view_text(state: BenchState) -> str:
    """The text of a view file."""
    content = {"view": VERSION, "notebook": NOTEBOOK, "parameters": state.as_dict()}
    return _COMMENT + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)


def read_view(text: str | bytes, *, source: str = "the view file") -> BenchState:
    """The state in the text of a view file.

    Args:
        text: Its content.
        source: What to call it in messages.

    Returns:
        The state.

    Raises:
        DataError: If it is no view file of this version.
        SettingError: If a parameter in it is unknown or cannot be used.
    """
    return state_of(view_parameters(text, source=source))


class _PlainLoader(yaml.SafeLoader):
    """A safe loader without references, of which a few lines unfold into gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """As every loader's, but an alias is no node."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("a reference *name")
        return super().compose_node(parent, index)


def view_parameters(text: str | bytes, *, source: str = "the view file") -> dict[str, Any]:
    """The parameters in the text of a view file, not yet checked one by one; arguments as in `read_view`."""
    if len(text) > _LONGEST:
        raise DataError(f"{len(text)} bytes in {source}", f"at most {_LONGEST}", "a file that a view saved")
    try:
        plain = text.decode("utf-8") if isinstance(text, bytes) else text
        content = yaml.load(plain, Loader=_PlainLoader)
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
        raise DataError(f"{source}, which is not YAML ({reason})", "a file that a view saved") from None
    wanted = {"view", "notebook", "parameters"}
    if not isinstance(content, dict) or set(content) != wanted:
        found = ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise DataError(
            f"{source} with {found[:100]}", "view, notebook and parameters", "saving a view again"
        )
    if content["view"] != VERSION or isinstance(content["view"], bool):
        raise DataError(
            f"version {str(content['view'])[:20]} in {source}", f"version {VERSION}", "saving the view again"
        )
    if content["notebook"] != NOTEBOOK:
        raise DataError(f"a view of {str(content['notebook'])[:60]!r} in {source}", f"a view of {NOTEBOOK!r}")
    given = content["parameters"]
    if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
        raise DataError(
            f"parameters of type {type(given).__name__} in {source}", "a mapping of names to values"
        )
    return given


def save_view(state: BenchState, path: str | Path) -> Path:
    """Write a view file.

    Args:
        state: What to save.
        path: Where; ".yaml" is appended if it has no such ending. An existing file is replaced.

    Returns:
        The path written.

    Raises:
        SettingError: If it cannot be written.
    """
    path = Path(path)
    path = path if path.suffix in (".yaml", ".yml") else path.with_name(path.name + ".yaml")
    try:
        path.write_text(view_text(state), encoding="utf-8")
    except OSError as error:
        raise SettingError(
            f"{path}, which cannot be written ({error.strerror})", "a folder to write in"
        ) from error
    return path


def load_view(path: str | Path) -> BenchState:
    """The state of a view file on disk.

    Raises:
        DataError: If there is no such file, or it is no view file.
        SettingError: If a parameter in it is unknown or cannot be used.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST + 1)
    except OSError as error:
        raise DataError(f"{path}, which cannot be read ({error.strerror})", "a view file") from None
    return read_view(text, source=str(path))
