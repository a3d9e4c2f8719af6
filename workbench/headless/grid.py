"""The points of a sweep, from a YAML file: a grid, a list, a random sample, or all three together::

fixed: {model: digits}                  # in every point
grid: {nodes: [17, 33], seed: [0, 1]}   # every combination
list: [{nodes: 65, seed: 7}]            # these as they are
random:                                 # drawn once, from its own seed
  count: 20
  seed: 0
  draw:
    gamma: {low: 1, high: 100, log: true}
    regime: [mep, transport]
"""

import itertools
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.errors import SettingError
from workbench.headless.catalog import check_names, read_mapping, shown

_PARTS = ("fixed", "grid", "list", "random")
MOST = 100_000  # points of one sweep


def read_points(path: Path) -> list[dict[str, Any]]:
    """The points of a grid file, in order, each a mapping of parameters.

    Args:
        path: YAML.

    Returns:
        At least one point.

    Raises:
        SettingError: If a part cannot be read, or there are no points or too many.
        DataError: If the file is not a mapping.
    """
    content = read_mapping(path)
    if unknown := set(content) - set(_PARTS):
        raise SettingError(f"{sorted(unknown)} in {path}", f"some of {', '.join(_PARTS)}")
    fixed = _mapping(content, "fixed", path)
    grid = {name: _values(name, v, path) for name, v in _mapping(content, "grid", path).items()}
    size = math.prod(map(len, grid.values()))
    if size > MOST:
        raise SettingError(f"a grid of {size} points in {path}", f"at most {MOST}", "a random sample")
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    listed = content.get("list") or []
    if not (isinstance(listed, list) and all(isinstance(point, dict) for point in listed)):
        raise SettingError(f"list of {path} = {shown(listed)}", "a list of mappings")
    for point in listed:
        check_names(point, path)
    drawn = _draw(_mapping(content, "random", path), path)
    if not grid and (listed or drawn):
        points = []
    return [{**fixed, **point} for point in (*points, *listed, *drawn)]


def _draw(part: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
    """Random points; the same file gives the same ones."""
    if not part:
        return []
    count, draw = part.get("count"), part.get("draw")
    if set(part) - {"count", "seed", "draw"} or not isinstance(count, int) or not isinstance(draw, dict):
        raise SettingError(f"random of {path} = {shown(dict(part))}", "count, seed and draw")
    check_names(draw, path)
    if not 0 < count <= MOST:
        raise SettingError(f"count={count} in {path}", f"1 to {MOST}")
    seed = part.get("seed", 0)
    if not isinstance(seed, int | str):
        raise SettingError(f"seed of {path} = {shown(seed)}", "an integer")
    generator = random.Random(seed)
    return [{name: _one(name, how, generator, path) for name, how in draw.items()} for _ in range(count)]


def _one(name: str, how: Any, generator: random.Random, path: Path) -> Any:
    if isinstance(how, list) and how:
        return generator.choice(how)
    try:
        how = dict(how)
        low, high, log = how["low"], how["high"], how.get("log", False)
        if isinstance(low, int) and isinstance(high, int) and not log:
            return generator.randint(low, high)
        if log:
            return math.exp(generator.uniform(math.log(low), math.log(high)))
        return generator.uniform(float(low), float(high))
    except (TypeError, KeyError, ValueError, OverflowError):
        raise SettingError(
            f"draw of {name!r} in {path} = {shown(how)}", "a list of choices, or {low: 1, high: 9, log: true}"
        ) from None


def _mapping(content: Mapping[str, Any], part: str, path: Path) -> Mapping[str, Any]:
    found = content.get(part) or {}
    if not isinstance(found, dict):
        raise SettingError(f"{part} of {path} = {shown(found)}", "a mapping of parameters")
    check_names(found, path)
    return found


def _values(name: str, values: Any, path: Path) -> list[Any]:
    if not isinstance(values, list) or not values:
        raise SettingError(f"{name} in the grid of {path} = {shown(values)}", "a list of values")
    return values
