"""A second bench beside the first with one setting different, for notebooks and pages alike."""

from typing import Any

from widgets.figures.comparison import comparison_rows
from workbench.bench.bench import Bench
from workbench.bench.results import BenchEvent

BESIDE = (
    "sigma",
    "metric",
    "regimes",
    "guidance",
    "condition",
    "gamma",
    "nodes",
    "seed",
    "probe",
    "background",
)
"""Settings that a second panel can have of its own."""


def value_of(name: str, text: str) -> Any:
    """The value of a setting from text, of the kind that the state wants.

    Raises:
        ValueError: If it is no such value.
    """
    if name in ("nodes", "seed"):
        return int(text)
    if name in ("sigma", "guidance", "gamma"):
        return None if text.lower() in ("none", "own") else float(text)
    return text


class Beside:
    """A second bench that follows the first with one setting different.

    Args:
        first: The bench that is followed.
        setting: Entry of the state that differs.
        value: Its value in the second.

    Raises:
        WorkbenchError: If the value cannot be used.
    """

    def __init__(self, first: Bench, setting: str, value: Any) -> None:
        self.first, self.setting, self.value = first, setting, value
        self.second = first.twin(**{setting: value})
        self.second.place.subject.ends(self.second.state.start, self.second.state.end)  # refused here
        self._leave = first.subscribe(self._follow)
        self.second.refresh()

    def _follow(self, event: BenchEvent) -> None:
        if event.what == "state":
            self.second.look_at(event.state.but(**{self.setting: self.value}), speed=event.speed)

    def changed(self) -> frozenset[str]:
        """Curves whose numbers differ between the two tables, or that only one of them has."""
        mine, theirs = self.first.table, self.second.table
        if mine is None or theirs is None:
            return frozenset()
        one = {row["line"]: row for row in comparison_rows(mine)}
        other = {row["line"]: row for row in comparison_rows(theirs)}
        return frozenset(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))

    def leave(self) -> None:
        """Follow no more."""
        self._leave()

    def close(self) -> None:
        """Follow no more, and stop computing."""
        self.leave()
        self.second.close()
