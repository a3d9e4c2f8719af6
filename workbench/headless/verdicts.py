"""How a regression is told: a table for the terminal, JUnit XML for a server, a page with the figures."""

import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

from workbench.headless.baselines import Verdict
from workbench.headless.catalog import Notebook
from workbench.headless.folder import write_whole
from workbench.headless.regress import Case, Regression, baseline_figures
from workbench.headless.report import figure_html, figures_of, page, table


def number(value: Any) -> str:
    """A recorded value in a few characters."""
    if value is None:
        return "-"
    if isinstance(value, list):
        shown = ", ".join(f"{v:.6g}" for v in value[:3])
        return f"[{shown}{', …' if len(value) > 3 else ''}]"
    return f"{value:.10g}"


def apart(verdict: Verdict) -> str:
    """A distance in tolerances."""
    return "differs" if math.isinf(verdict.apart) else f"{verdict.apart:.3g}"


def text_table(cases: Sequence[Case], *, only_differences: bool = False) -> str:
    """The table of the terminal: name, baseline, now, difference in tolerances.

    Args:
        cases: Judged cases.
        only_differences: Leave out what agrees.
    """
    rows = [("metric", "baseline", "now", "tolerances apart", "")]
    for case in cases:
        rows.append((f"{case.name}: {case.state}", "", "", "", case.message))
        for v in case.verdicts:
            if not (only_differences and v.agrees):
                mark = "" if v.agrees else "<-- "
                rows.append((f"  {v.name}", number(v.old), number(v.now), apart(v), mark + v.note))
    widths = [max(len(row[i]) for row in rows[:1] + [r for r in rows if r[1]]) for i in range(4)]
    widths[0] = max(widths[0], 24)
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, (*widths, 0), strict=True)).rstrip()
        for row in rows
    )


def write_reports(regression: Regression) -> None:
    """Write ``junit.xml`` and ``regress.html`` into the regression's folder.

    Args:
        regression: What was judged.
    """
    write_whole(regression.folder / "junit.xml", junit(regression.cases))
    write_whole(regression.folder / "regress.html", html_page(regression.cases))


def junit(cases: Sequence[Case]) -> str:
    """JUnit XML: a suite for each case, a test for each metric and one for the run itself.

    Args:
        cases: Judged cases.
    """
    root = xml.Element("testsuites", name="workbench regress")
    for case in cases:
        suite = xml.SubElement(root, "testsuite", name=case.name, tests=str(len(case.verdicts) + 1))
        seconds = f"{case.run.get('duration', 0.0):.3f}"
        run = xml.SubElement(suite, "testcase", classname=case.name, name="run", time=seconds)
        if case.state in ("failed", "cancelled"):
            xml.SubElement(run, "error", message=case.message)
        elif case.state == "not reached":
            xml.SubElement(run, "skipped", message=case.message)
        for v in case.verdicts:
            test = xml.SubElement(suite, "testcase", classname=case.name, name=v.name, time="0")
            if not v.agrees:
                said = f"{number(v.now)}, baseline {number(v.old)}: {apart(v)} tolerances apart. {v.note}"
                xml.SubElement(test, "failure", message=said.strip())
        failures, errors = len(suite.findall(".//failure")), len(suite.findall(".//error"))
        suite.set("failures", str(failures))
        suite.set("errors", str(errors))
        suite.set("skipped", str(len(suite.findall(".//skipped"))))
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def html_page(cases: Sequence[Case]) -> str:
    """The page: for each case its table, and the figures of the baseline and of the run side by side.

    Args:
        cases: Judged cases.
    """
    body, drawn = ["<h1>Regression</h1>"], 0
    counts = {state: sum(c.state == state for c in cases) for state in dict.fromkeys(c.state for c in cases)}
    body.append(f"<p>{', '.join(f'{n} {state}' for state, n in counts.items())}</p>")
    for case in cases:
        mark = "ok" if case.state == "agrees" else "bad"
        body.append(f'<h2>{html.escape(case.name)} <span class="{mark}">{case.state}</span></h2>')
        if case.message:
            body.append(f'<pre class="bad">{html.escape(case.message)}</pre>')
        if case.verdicts:
            rows = [[v.name, number(v.old), number(v.now), v.apart, v.unit, v.note] for v in case.verdicts]
            body.append(table(["metric", "baseline", "now", "tolerances apart", "unit", ""], rows))
        before, after = baseline_figures(case), _figures(case.folder)
        for i in range(max(len(before), len(after))):
            pair = [_side(side, figures, i, drawn) for side, figures in (("before", before), ("now", after))]
            drawn += 1
            body.append(f'<div class="two">{"".join(pair)}</div>')
    return page("Regression", "\n".join(body), with_plotly=drawn > 0)


def _side(label: str, figures: Sequence[Any], index: int, count: int) -> str:
    if index >= len(figures):
        return f"<div><p>{label}: no such figure</p></div>"
    figure = figures[index]
    if "omitted" in figure:
        return f"<div><p>{label}: too large to be kept ({figure['omitted']} bytes)</p></div>"
    return f"<div><p>{label}</p>{figure_html(figure, f'{count}-{label}')}</div>"


def _figures(folder: Path) -> list[Any]:
    path = folder / "notebook.ipynb"
    if not path.is_file():
        return []
    import nbformat

    return figures_of(Notebook(folder.name, path, nbformat.read(path, as_version=4)).node)
