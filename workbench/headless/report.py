"""The page that a run leaves: one HTML file that opens without a network and shows the figures.

Written by hand rather than by a converter, because the usual ones fetch scripts at view time: plotly.js
stands in the page once, pictures are inline, and the page's own policy forbids every outside request.
"""

import html
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from workbench.headless.record import MIME, Record

PLOTLY = "application/vnd.plotly.v1+json"
WIDGET = "application/vnd.jupyter.widget-view+json"
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob:; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; worker-src blob:"
)
_STYLE = """
:root{color-scheme:light dark;--fg:#1c2128;--bg:#fff;--soft:#f3f4f6;--line:#d5d9df;--accent:#3d5a98;
--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--fg:#e4e7ec;--bg:#15181d;--soft:#1f242b;--line:#3a414b;
--accent:#9db7ef;--bad:#f2a49e}}
body{font:16px/1.55 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:62rem;
margin:2rem auto;padding:0 1rem}
h1,h2,h3{line-height:1.25;margin-top:1.8em}
table{border-collapse:collapse;font-size:.92rem;margin:.6rem 0;display:block;overflow-x:auto}
th,td{border-bottom:1px solid var(--line);padding:.25rem .7rem;text-align:left;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
pre{background:var(--soft);padding:.6rem .8rem;font-size:.84rem;border-radius:4px}
pre{overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}
pre.bad,.bad{color:var(--bad)}.ok{color:var(--accent)}
details{margin:.5rem 0}summary{cursor:pointer;color:var(--accent);font-size:.85rem}
img{max-width:100%}.figure{background:#fff;margin:.8rem 0}
.two{display:grid;grid-template-columns:1fr 1fr;gap:1rem}
.muted{opacity:.7;font-size:.9rem}
"""
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def report_html(notebook: Any, facts: Mapping[str, Any], records: Mapping[str, Record]) -> str:
    """The report of a run.

    Args:
        notebook: The executed notebook.
        facts: The content of ``run.json``.
        records: Its records.

    Returns:
        A page of HTML.
    """
    body = [_verdict(facts), _records_table(records)]
    figures = 0
    for cell in notebook["cells"]:
        if "injected-parameters" in cell["metadata"].get("tags", []):
            continue
        if cell["cell_type"] == "markdown":
            body.append(markdown(cell["source"]))
        elif cell["cell_type"] == "code" and cell["source"].strip():
            body.append(f"<details><summary>code</summary><pre>{html.escape(cell['source'])}</pre></details>")
            for output in cell.get("outputs", []):
                text, drawn = _output(output, figures)
                body.append(text)
                figures += drawn
    body.append(_facts_table(facts))
    title = f"{facts['notebook']} ({facts['status']})"
    return page(title, "\n".join(body), with_plotly=figures > 0)


def page(title: str, body: str, *, with_plotly: bool) -> str:
    """A self-contained page.

    Args:
        title: Of the window.
        body: HTML.
        with_plotly: Put plotly.js into it, once.

    Returns:
        HTML.
    """
    script = ""
    if with_plotly:
        from plotly.offline import get_plotlyjs

        script = f"<script>{get_plotlyjs()}</script>"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>{script}</head><body>\n{body}\n</body></html>\n"
    )


def figure_html(figure: Mapping[str, Any], number: int | str) -> str:
    """A plotly figure as an element and the call that draws it.

    Args:
        figure: Plotly JSON with ``data`` and ``layout``.
        number: Makes the element's id unique in the page.

    Returns:
        HTML; the page needs ``with_plotly``.
    """
    drawing = _finite({"data": figure.get("data", []), "layout": figure.get("layout", {})})
    text = json.dumps(drawing, ensure_ascii=False, allow_nan=False, default=str).replace("<", "\\u003c")
    height = drawing["layout"].get("height") or 450
    return (
        f'<div class="figure" id="figure-{number}" style="min-height:{height}px"></div>'
        f"<script>(f=>Plotly.newPlot('figure-{number}',f.data,f.layout,"
        f"{{responsive:true,displaylogo:false}}))({text})</script>"
    )


def figures_of(notebook: Any) -> list[Mapping[str, Any]]:
    """The plotly figures among the outputs of a notebook, in order.

    Args:
        notebook: An executed notebook.
    """
    return [
        output["data"][PLOTLY]
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if PLOTLY in output.get("data", {})
    ]


def markdown(text: str) -> str:
    """Markdown as HTML; raw HTML in it is shown, not obeyed."""
    import mistune

    return str(mistune.create_markdown(escape=True, plugins=["table", "strikethrough"])(text))


def table(header: list[str], rows: list[list[Any]]) -> str:
    """A table; numbers are right-aligned, text is escaped."""
    head = "".join(f"<th>{html.escape(h)}</th>" for h in header)
    lines = []
    for row in rows:
        cells = (
            f'<td class="n">{c:.6g}</td>'
            if isinstance(c, int | float) and not isinstance(c, bool)
            else f"<td>{html.escape(str(c))}</td>"
            for c in row
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _verdict(facts: Mapping[str, Any]) -> str:
    good = facts["status"] == "completed"
    text = f"{facts['notebook']}, preset {facts['preset']}: {facts['status']} after {facts['duration']:.1f} s"
    reason = (
        f"<pre class='bad'>{html.escape(_ANSI.sub('', facts['message']))}</pre>" if facts["message"] else ""
    )
    return f'<p class="{"ok" if good else "bad"}"><strong>{html.escape(text)}</strong></p>{reason}'


def _records_table(records: Mapping[str, Record]) -> str:
    rows = [
        [r.name, r.value if isinstance(r.value, float) else r.line().split(" = ")[-1],
         r.error if isinstance(r.error, float) else "", r.unit]
        for r in records.values()
        if not r.is_artifact
    ]  # fmt: skip
    return table(["recorded", "value", "± error", "unit"], rows) if rows else ""


def _facts_table(facts: Mapping[str, Any]) -> str:
    rows = [[name, value] for name, value in facts["parameters"].items()]
    memory = ", ".join(f"{k.split('_')[1]} {v:.0f} MB" for k, v in facts["memory"].items() if v)
    device = " ".join(
        filter(None, (facts["device"]["resolved"], facts["device"]["name"], facts["device"]["driver"]))
    )
    about = [
        ["started", facts["started"]],
        ["device", device],
        ["threads, dtype", f"{facts['threads'] or 'default'}, {facts['dtype'] or 'default'}"],
        ["peak memory", memory or "unknown"],
        ["versions", ", ".join(f"{k} {v}" for k, v in facts["versions"].items())],
    ]
    share = facts.get("share_in_model")
    if isinstance(share, float):
        about.append(["share of time in the model", share])
    return f"<h2>How it was run</h2>{table(['parameter', 'value'], rows)}{table(['', ''], about)}"


def _output(output: Mapping[str, Any], number: int) -> tuple[str, int]:
    """One output as HTML, and how many figures it drew."""
    kind = output["output_type"]
    if kind == "stream":
        return f"<pre>{html.escape(_ANSI.sub('', _text(output['text'])))}</pre>", 0
    if kind == "error":
        trace = "\n".join(output.get("traceback", [])) or f"{output['ename']}: {output['evalue']}"
        return f'<pre class="bad">{html.escape(_ANSI.sub("", trace))}</pre>', 0
    data = output.get("data", {})
    if PLOTLY in data:
        return figure_html(data[PLOTLY], number), 1
    for mime in ("image/png", "image/jpeg"):
        if mime in data:
            return f'<img alt="figure" src="data:{mime};base64,{_text(data[mime]).strip()}">', 0
    if "image/svg+xml" in data:
        return _text(data["image/svg+xml"]), 0
    if WIDGET in data:
        return '<p class="muted">An interactive view stood here: open notebook.ipynb in JupyterLab.</p>', 0
    if MIME in data:
        return f"<pre>{html.escape(_text(data.get('text/plain', '')))}</pre>", 0
    if "text/html" in data and "<script" not in _text(data["text/html"]):
        return _text(data["text/html"]), 0
    if "text/markdown" in data:
        return markdown(_text(data["text/markdown"])), 0
    return f"<pre>{html.escape(_text(data.get('text/plain', '')))}</pre>", 0


def _finite(value: Any) -> Any:
    """Numbers that JSON cannot hold become gaps."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    return value


def _text(value: Any) -> str:
    return "".join(value) if isinstance(value, list) else str(value)
