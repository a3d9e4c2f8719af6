"""All points of a sweep as one tidy table: a row for each point, a column for each parameter and metric.

Written as Parquet and CSV, and as a page that plots a chosen metric over the parameters that vary.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import DataError, MissingExtra, SettingError
from workbench.headless.folder import write_whole
from workbench.headless.record import decode
from workbench.headless.report import figure_html, page, table
from workbench.headless.sweep import read_sweep, state_of


def collect(folder: Path) -> list[dict[str, Any]]:
    """The rows of a sweep, in the order in which its points were asked for.

    Args:
        folder: What `workbench sweep` left, finished or not.

    Returns:
        For each point its hash, status, seconds, device, parameters, metrics, and errors of metrics
        (``NAME.error``); elements of vectors are ``NAME.0``, ``NAME.1``, …. A parameter and a metric of
        one name are told apart as ``parameter.NAME``.

    Raises:
        DataError: If the folder is not a sweep's.
    """
    rows = []
    for key, parameters in read_sweep(folder)["points"].items():
        place = folder / "points" / key
        run, metrics = _read(place / "run.json"), _read(place / "metrics.json")
        row: dict[str, Any] = {"point": key, "status": state_of(place) or "not run"}
        row["seconds"] = run.get("duration")
        row |= {(f"parameter.{n}" if n in metrics else n): v for n, v in parameters.items()}
        for name, metric in metrics.items():
            row |= _columns(name, decode(metric["value"]))
            if metric["error"] is not None:
                row |= _columns(f"{name}.error", decode(metric["error"]))
        rows.append(row)
    return rows


def write_table(folder: Path, *, metric: str = "", x: str = "", colour: str = "") -> list[Path]:
    """Write ``table.parquet``, ``table.csv`` and ``table.html`` into a sweep's folder.

    Args:
        folder: Of the sweep.
        metric: What is plotted; the first metric by default.
        x: Over which parameter; the first that varies by default.
        colour: One line for each value of this; the second that varies by default.

    Returns:
        The three files.

    Raises:
        SettingError: If a named column does not exist.
        DataError: If no point has a metric to plot.
    """
    try:
        import pandas
    except ImportError:
        raise MissingExtra.of("pandas", "dist") from None
    rows = collect(folder)
    names = list(dict.fromkeys(name for row in rows for name in row))
    frame = pandas.DataFrame(rows, columns=names)
    files = [folder / f"table.{suffix}" for suffix in ("parquet", "csv", "html")]
    for name in names:  # Parquet wants one type in a column
        kinds = {type(row.get(name)) for row in rows} - {type(None)}
        if (kinds - {int, float} and len(kinds) > 1) or list in kinds:
            frame[name] = [None if row.get(name) is None else str(row[name]) for row in rows]
    frame.to_parquet(files[0].with_suffix(".parquet.new"), index=False)
    files[0].with_suffix(".parquet.new").replace(files[0])
    write_whole(files[1], frame.to_csv(index=False))
    write_whole(files[2], _page(folder, rows, metric, x, colour))
    return files


def _page(folder: Path, rows: Sequence[Mapping[str, Any]], metric: str, x: str, colour: str) -> str:
    parameters = list(next(iter(read_sweep(folder)["points"].values())))
    names = list(dict.fromkeys(name for row in rows for name in row))
    own = [f"parameter.{n}" if f"parameter.{n}" in names else n for n in parameters]
    metrics = [n for n in names if n not in (*own, "point", "status", "seconds") and not n.endswith(".error")]
    for asked in filter(None, (metric, x, colour)):
        if asked not in names:
            raise SettingError(f"column {asked!r}", f"one of {', '.join(names)}")
    if not metrics:
        raise DataError(f"no recorded number in {folder}", "at least one completed point")
    varying = [n for n in own if len({str(row.get(n)) for row in rows}) > 1] or own[:1] or ["point"]
    metric, x = metric or metrics[0], x or varying[0]
    colour = colour or next((n for n in varying if n != x), "")
    figure = _figure(rows, metric, x, colour)
    cells = [[_shown(row.get(name)) for name in names] for row in rows]
    states = {s: sum(row["status"] == s for row in rows) for s in dict.fromkeys(r["status"] for r in rows)}
    body = (
        f"<h1>{metric} over {x}</h1><p>{', '.join(f'{n} {s}' for s, n in states.items())}</p>"
        f"{figure_html(figure, 0)}{table(names, cells)}"
    )
    return page(f"{folder.name}: {metric}", body, with_plotly=True)


def _figure(rows: Sequence[Mapping[str, Any]], metric: str, x: str, colour: str) -> dict[str, Any]:
    """Lines of a metric over a parameter, one for each value of a second, with error bars if recorded."""
    traces = []
    for value in dict.fromkeys(row.get(colour) for row in rows) if colour else [None]:
        chosen = [r for r in rows if metric in r and (not colour or r.get(colour) == value)]
        chosen.sort(key=lambda r: (isinstance(r.get(x), str), r.get(x) if r.get(x) is not None else 0))
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines+markers",
            "x": [r.get(x) for r in chosen],
            "y": [r[metric] for r in chosen],
            "name": f"{colour} = {value}" if colour else metric,
        }
        if any(f"{metric}.error" in r for r in chosen):
            trace["error_y"] = {"type": "data", "array": [r.get(f"{metric}.error") for r in chosen]}
        traces.append(trace)
    layout = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": metric}}, "height": 480}
    return {"data": traces, "layout": layout}


def _columns(name: str, value: Any) -> dict[str, Any]:
    return {f"{name}.{i}": v for i, v in enumerate(value)} if isinstance(value, list) else {name: value}


def _shown(value: Any) -> Any:
    return "" if value is None else value


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
