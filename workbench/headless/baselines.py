"""Baselines: the numbers that a notebook recorded when a person last looked, with the room they may move in.

One file for each notebook and preset, ``notebooks/baselines/NOTEBOOK-PRESET.json``. It holds one truth,
and a tolerance class for each device and dtype that was measured: a device's class comes from a float64
run on that device, judged against the same truth. A tolerance is what the notebook declared, or three
times the spread over threads and seeds, whichever is wider; spread and reason are stored beside it.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import DataError
from workbench.headless.compare import distance
from workbench.headless.record import decode, encode

SCHEMA = "workbench.baseline/1"
SPREADS = 3.0  # a tolerance is at least this many spreads
BORROWED = 10.0  # how much wider a class is that was never measured
LOOSE = 1e-3  # relative tolerance of float32 where it was never measured


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The room of one metric in one class.

    Attributes:
        rtol: Relative.
        atol: Absolute.
        reason: Why as much as this.
    """

    rtol: float
    atol: float
    reason: str


@dataclass(frozen=True, slots=True)
class Expected:
    """One metric of a baseline.

    Attributes:
        value: The truth, a float or a list of floats.
        unit: Its unit.
        tolerances: By class, such as ``cpu/float64``; the first is the truth's own.
        spread: Largest differences over ``threads`` and ``seeds``.
    """

    value: Any
    unit: str
    tolerances: Mapping[str, Tolerance]
    spread: Mapping[str, float] = field(default_factory=dict)

    def tolerance(self, kind: str) -> Tolerance:
        """The tolerance of a class; one that was never measured borrows from the truth's own."""
        if kind in self.tolerances:
            return self.tolerances[kind]
        own, base = next(iter(self.tolerances.items()))
        rtol, atol = base.rtol * BORROWED, base.atol * BORROWED
        if kind.endswith("float32") and not own.endswith("float32"):
            rtol = max(rtol, LOOSE)
        return Tolerance(rtol, atol, f"not measured on {kind}; {BORROWED:g} times that of {own}")


@dataclass(frozen=True, slots=True)
class Baseline:
    """A baseline file.

    Attributes:
        notebook: Name of the notebook.
        preset: Name of the preset.
        metrics: Name to what is expected.
        updates: What was changed when and why, oldest first.
    """

    notebook: str
    preset: str
    metrics: Mapping[str, Expected]
    updates: Sequence[Mapping[str, Any]] = ()

    def to_json(self) -> dict[str, Any]:
        """What stands in the file."""
        metrics = {
            name: {
                "value": encode(m.value),
                "unit": m.unit,
                "tolerances": {k: asdict(t) for k, t in m.tolerances.items()},
                "spread": dict(m.spread),
            }
            for name, m in self.metrics.items()
        }
        return {
            "schema": SCHEMA,
            "notebook": self.notebook,
            "preset": self.preset,
            "metrics": metrics,
            "updates": list(self.updates),
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """One compared metric.

    Attributes:
        name: Of the metric.
        old: In the baseline; None if it is new.
        now: In the run; None if it is missing.
        apart: Their difference in tolerances; above 1 is a difference.
        unit: Of both.
        note: Why they differ, or whose tolerance was borrowed.
    """

    name: str
    old: Any
    now: Any
    apart: float
    unit: str = ""
    note: str = ""

    @property
    def agrees(self) -> bool:
        """True within the tolerance."""
        return self.apart <= 1


def read_baseline(path: Path) -> Baseline:
    """Read a baseline file.

    Raises:
        FileNotFoundError: If there is none.
        DataError: If it is damaged, by a merge conflict or otherwise.
    """
    text = path.read_text(encoding="utf-8")
    if any(line.startswith(("<<<<<<< ", ">>>>>>> ")) for line in text.splitlines()):
        raise DataError(f"{path} with a conflict marker", "one side of the merge", "resolving it")
    try:
        content = json.loads(text)
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']!r}")
        metrics = {
            name: Expected(
                decode(m["value"]),
                m["unit"],
                {
                    k: Tolerance(float(t["rtol"]), float(t["atol"]), t["reason"])
                    for k, t in m["tolerances"].items()
                },
                {k: float(v) for k, v in m.get("spread", {}).items()},
            )
            for name, m in content["metrics"].items()
        }
        if not all(m.tolerances for m in metrics.values()):
            raise ValueError("a metric without a tolerance")
        return Baseline(content["notebook"], content["preset"], metrics, tuple(content.get("updates", ())))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}, which is not a baseline ({error})", "what `regress --update` writes"
        ) from None


def judge(baseline: Baseline, metrics: Mapping[str, Any], kind: str) -> list[Verdict]:
    """Compare the metrics of a run with a baseline. A missing metric, an extra one and a NaN are differences.

    Args:
        baseline: What is expected.
        metrics: The content of ``metrics.json``.
        kind: The run's tolerance class.

    Returns:
        One verdict for each name on either side.
    """
    verdicts = []
    for name in dict.fromkeys((*baseline.metrics, *metrics)):
        old, now = baseline.metrics.get(name), metrics.get(name)
        if old is None and now is not None:
            value, note = decode(now["value"]), "not in the baseline"
            verdicts.append(Verdict(name, None, value, math.inf, now["unit"], note))
        elif old is not None and now is None:
            verdicts.append(Verdict(name, old.value, None, math.inf, old.unit, "missing from the run"))
        elif old is not None and now is not None:
            tolerance = old.tolerance(kind)
            value = decode(now["value"])
            apart = distance(old.value, value, rtol=tolerance.rtol, atol=tolerance.atol)
            note = "" if kind in old.tolerances else tolerance.reason
            if now["unit"] != old.unit:
                apart, note = math.inf, f"unit {now['unit']!r}, was {old.unit!r}"
            verdicts.append(Verdict(name, old.value, value, apart, old.unit, note))
    return verdicts


def measure_spread(metrics: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The largest difference of each metric over other runs.

    Args:
        metrics: Of the run that sets the truth.
        others: Of runs with other threads, or other seeds.

    Returns:
        Name to spread; inf where a run lacks the metric or has another length.
    """
    return {
        name: max(
            (_apart(decode(m["value"]), decode(o[name]["value"]) if name in o else None) for o in others),
            default=0.0,
        )
        for name, m in metrics.items()
    }


def expect(
    metrics: Mapping[str, Any], kind: str, *, threads: Mapping[str, float], seeds: Mapping[str, float]
) -> dict[str, Expected]:
    """The baseline's metrics of a run that sets the truth.

    Args:
        metrics: The content of ``metrics.json``.
        kind: Its tolerance class.
        threads: Spread over numbers of threads, by name.
        seeds: Spread over seeds, by name.

    Returns:
        Name to what is expected.

    Raises:
        DataError: If a metric is not finite, or cannot be compared over the runs.
    """
    expected = {}
    for name, m in metrics.items():
        value = decode(m["value"])
        spread = {"threads": threads.get(name, 0.0), "seeds": seeds.get(name, 0.0)}
        numbers = [*(value if isinstance(value, list) else [value]), *spread.values()]
        if not all(math.isfinite(n) for n in numbers):
            raise DataError(f"{name} = {value} with spread {spread}", "finite numbers in a baseline")
        declared = m["atol"] + m["rtol"] * min(
            abs(n) for n in (value if isinstance(value, list) else [value])
        )
        wide = SPREADS * max(spread.values())
        text = f"declared rtol {m['rtol']:g}, atol {m['atol']:g}"
        atol = m["atol"]
        if wide > declared:
            atol, text = wide, f"{SPREADS:g} times the spread over threads and seeds; {text}"
        expected[name] = Expected(value, m["unit"], {kind: Tolerance(m["rtol"], atol, text)}, spread)
    return expected


def with_class(baseline: Baseline, metrics: Mapping[str, Any], kind: str) -> dict[str, Expected]:
    """The baseline's metrics with a tolerance class for another device; the truth stays.

    Args:
        baseline: What is expected.
        metrics: Of a float64 run on that device.
        kind: Its class.

    Returns:
        Name to what is expected.
    """
    changed = {}
    for name, old in baseline.metrics.items():
        base = next(iter(old.tolerances.values()))
        apart = _apart(old.value, decode(metrics[name]["value"]) if name in metrics else None)
        declared = base.atol + base.rtol * _smallest(old.value)
        wide = SPREADS * apart
        reason = (
            base.reason
            if wide <= declared
            else f"{SPREADS:g} times its difference from the truth, {apart:.3g}"
        )
        own = Tolerance(base.rtol, max(base.atol, wide if wide > declared else 0.0), reason)
        changed[name] = Expected(old.value, old.unit, {**old.tolerances, kind: own}, old.spread)
    return changed


def _smallest(value: Any) -> float:
    return min(abs(n) for n in (value if isinstance(value, list) else [value]))


def _apart(old: Any, now: Any) -> float:
    """The largest absolute difference of two values; inf if they cannot be compared."""
    apart = distance(old, now, rtol=0.0, atol=1.0) if now is not None else math.inf
    return apart
