"""Records: the numbers of a notebook that a machine reads back.

A record is a name, a number (or a short vector, or a named file) and the tolerance within which a
later run must agree: |new − old| ≤ atol + rtol·|old|. In a notebook it is one output whose
``text/plain`` is the readable line and whose ``application/vnd.workbench.record+json`` is what the
runner collects into ``metrics.json`` and nbval compares. Everywhere else it is just the line.

Numbers that JSON cannot hold are written as the words "nan", "inf" and "-inf", and read back as floats.
"""

import hashlib
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workbench.errors import SettingError

MIME = "application/vnd.workbench.record+json"
SCHEMA = "workbench.record/1"
LONGEST = 64  # numbers in a vector; more belongs into an artefact
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,79}")
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, slots=True)
class Record:
    """One recorded number, vector or file.

    Attributes:
        name: Unique within its notebook.
        value: A float, a list of floats, or the file name of an artefact.
        unit: Its unit in words.
        rtol: Relative tolerance of a later comparison.
        atol: Absolute tolerance, in the unit.
        error: Error bar of the value itself; None if unknown.
        sha256: Digest of an artefact's bytes; "" for numbers.
    """

    name: str
    value: Any
    unit: str = ""
    rtol: float = 1e-6
    atol: float = 0.0
    error: Any = None
    sha256: str = ""

    @property
    def is_artifact(self) -> bool:
        """True for a named file, False for numbers."""
        return isinstance(self.value, str)

    def line(self) -> str:
        """The readable line."""
        if self.is_artifact:
            return f"{self.name} -> {self.value}"
        values = self.value if isinstance(self.value, list) else [self.value]
        text = ", ".join(f"{v:.6g}" for v in values[:8]) + (", …" if len(values) > 8 else "")
        text = f"[{text}]" if isinstance(self.value, list) else text
        bar = f" ± {self.error:.2g}" if isinstance(self.error, float) else ""
        return f"{self.name} = {text}{bar}{' ' + self.unit if self.unit else ''}"

    def payload(self) -> dict[str, Any]:
        """The JSON that stands in the notebook."""
        fields = {"schema": SCHEMA, **asdict(self)}
        return {k: encode(v) for k, v in fields.items() if not (k == "sha256" and not v)}

    @classmethod
    def parse(cls, payload: Mapping[str, Any]) -> "Record":
        """The record of a payload.

        Raises:
            SettingError: If it is not one of ours.
        """
        if payload.get("schema") != SCHEMA or not isinstance(payload.get("name"), str):
            raise SettingError(f"a record with schema {payload.get('schema')!r}", repr(SCHEMA))
        known = {k: payload[k] for k in cls.__slots__ if k in payload}
        if payload.get("sha256"):
            return cls(**known)
        return cls(**{k: v if k in ("name", "unit") else decode(v) for k, v in known.items()})


def record(
    name: str, value: Any, *, unit: str = "", rtol: float = 1e-6, atol: float = 0.0, error: Any = None
) -> None:
    """Record a number under a name: print it, and emit it for the runner, the regression and nbval.

    Running the cell again replaces the record; two cells may not use one name. The reference that a
    recorded error is measured against comes from another route than the value itself.

    Args:
        name: A letter, then letters, digits, ``_`` and ``.``.
        value: A number, a vector of at most 64 numbers (list, numpy, torch) or an ``Estimate``, which
            brings its own error and unit.
        unit: Unit in words, "" for a pure number.
        rtol: Relative tolerance within which a later run must agree.
        atol: Absolute tolerance, in the unit, added to the relative one.
        error: The value's own error bar, if known.

    Raises:
        SettingError: If the name or the value cannot be recorded.
    """
    reports = sys.modules.get("workbench.report")  # whoever holds an Estimate has imported it, and torch
    if reports is not None and isinstance(value, reports.Estimate):
        unit = unit or value.unit
        error = value.error if error is None else error
        value = value.value
    for label, tolerance in (("rtol", rtol), ("atol", atol)):
        if not (isinstance(tolerance, int | float) and 0 <= tolerance <= sys.float_info.max):
            raise SettingError(f"{label}={str(tolerance)[:40]} for record {name!r}", "a finite number ≥ 0")
    value = _numbers(name, value)
    error = None if error is None else _numbers(name, error)
    publish(Record(_checked(name), value, unit, float(rtol), float(atol), error))


def publish(item: Record) -> None:
    """Print a record, and emit its structured output where there is a notebook kernel.

    Args:
        item: What to show.
    """
    if _in_kernel():
        from IPython.display import publish_display_data

        publish_display_data({MIME: item.payload(), "text/plain": item.line()})
    else:
        print(item.line())


def record_artifact(name: str, thing: Any) -> Path | None:
    """Keep a figure or tensors beside the run: plotly figures as JSON, tensors as safetensors.

    Where no runner collects artefacts (an open notebook, a script) nothing is written.

    Args:
        name: As for ``record``.
        thing: A plotly figure, a tensor, or a mapping of names to tensors.

    Returns:
        The file, or None if nothing was written.

    Raises:
        SettingError: If the thing is neither.
    """
    data, suffix = _artifact_bytes(_checked(name), thing)
    folder = os.environ.get("WORKBENCH_ARTIFACTS", "")
    path = Path(folder) / f"{name}{suffix}" if folder else None
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    publish(Record(name, f"artifacts/{name}{suffix}", sha256=hashlib.sha256(data).hexdigest()))
    return path


def records_of(outputs: Iterable[Mapping[str, Any]]) -> list[Record]:
    """The records among the outputs of one cell, in order.

    Args:
        outputs: ``cell.outputs`` of a notebook.

    Returns:
        One entry for each structured output.
    """
    found = (output.get("data", {}).get(MIME) for output in outputs)
    return [Record.parse(payload) for payload in found if payload is not None]


def read_records(notebook: Any) -> dict[str, Record]:
    """All records of an executed notebook.

    Args:
        notebook: A notebook node, or the path of one.

    Returns:
        Name to record, in the order of the cells.

    Raises:
        SettingError: If two cells, or one cell twice, record the same name.
    """
    if isinstance(notebook, str | Path):
        notebook = json.loads(Path(notebook).read_text(encoding="utf-8"))
    records: dict[str, Record] = {}
    where: dict[str, int] = {}
    for index, cell in enumerate(notebook["cells"]):
        here = code_number(notebook, index)
        for item in records_of(cell.get("outputs", [])):
            if item.name in records:
                raise SettingError(
                    f"two records named {item.name!r} (cells {where[item.name]} and {here})",
                    "one record for each name",
                    "another name",
                )
            records[item.name], where[item.name] = item, here
    return records


def code_number(notebook: Any, index: int) -> int:
    """The number of a cell as JupyterLab shows it: code cells counted from one, others left out.

    Args:
        notebook: A notebook node.
        index: Of the cell among all cells.
    """
    return sum(cell["cell_type"] == "code" for cell in notebook["cells"][: index + 1])


def metrics_of(records: Mapping[str, Record]) -> dict[str, dict[str, Any]]:
    """The content of ``metrics.json``: numbers and vectors only, not artefacts.

    Args:
        records: Name to record.

    Returns:
        ``{name: {"value": number, "error": number or None, "unit": text, "rtol": x, "atol": y}}``.
    """
    fields = ("value", "error", "unit", "rtol", "atol")
    return {
        name: {field: encode(getattr(item, field)) if field != "unit" else item.unit for field in fields}
        for name, item in records.items()
        if not item.is_artifact
    }


def encode(value: Any) -> Any:
    """A value with its non-finite floats as words, so that strict JSON can hold it."""
    if isinstance(value, list | tuple):
        return [encode(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def decode(value: Any) -> Any:
    """The inverse of ``encode``; integers become floats."""
    if isinstance(value, list):
        return [decode(v) for v in value]
    if isinstance(value, str):
        return _WORDS.get(value, value)
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _in_kernel() -> bool:
    """True inside an IPython kernel. Looks, but never imports."""
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


def _checked(name: object) -> str:
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise SettingError(
            f"record name {name!r}", "a letter, then at most 79 letters, digits, '_' or '.'", "'barrier'"
        )
    return name


def _numbers(name: str, value: Any) -> float | list[float]:
    """A float or a flat list of floats; refuses everything else by name."""
    for method in ("detach", "cpu", "tolist"):
        value = getattr(value, method, lambda kept=value: kept)()
    if isinstance(value, tuple):
        value = list(value)
    items = value if isinstance(value, list) else [value]
    items = [i.tolist() if callable(getattr(i, "tolist", None)) else i for i in items]
    if not all(isinstance(i, int | float) for i in items):
        raise SettingError(
            f"{type(value).__name__} for record {name!r}",
            "a number or a flat vector of numbers",
            "record_artifact for tensors, figures and tables",
        )
    if not 0 < len(items) <= LONGEST:
        raise SettingError(
            f"a vector of {len(items)} for record {name!r}", f"1 to {LONGEST} numbers", "record_artifact"
        )
    try:
        floats = [float(i) for i in items]
    except OverflowError:
        raise SettingError(
            f"a whole number beyond every float for record {name!r}",
            "numbers up to 1.8e308",
            "recording its logarithm",
        ) from None
    return floats if isinstance(value, list) else floats[0]


def _artifact_bytes(name: str, thing: Any) -> tuple[bytes, str]:
    if callable(getattr(thing, "to_plotly_json", None)):
        return thing.to_json().encode(), ".plotly.json"
    tensors = thing if isinstance(thing, Mapping) else {name: thing}
    import torch
    from safetensors.torch import save

    if not tensors or not all(isinstance(t, torch.Tensor) for t in tensors.values()):
        raise SettingError(
            f"{type(thing).__name__} for artefact {name!r}", "a plotly figure, a tensor or a dict of tensors"
        )
    return save({k: t.detach().cpu().contiguous() for k, t in tensors.items()}), ".safetensors"
