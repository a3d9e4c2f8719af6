"""The report: self-contained, safe against its own content, drawn in a browser without a network."""

import re

import nbformat
import plotly.graph_objects as go
import pytest

from workbench.headless.console import describe
from workbench.headless.record import MIME, Record
from workbench.headless.report import figure_html, figures_of, markdown, report_html
from workbench.headless.watch import Moment

FACTS = {
    "notebook": "10_paths",
    "preset": "default",
    "status": "completed",
    "message": "",
    "duration": 12.34,
    "parameters": {"nodes": 33, "model": "<b>"},
    "memory": {"peak_resident_mb": 350.4, "peak_device_mb": None},
    "device": {"resolved": "cpu", "name": "cpu", "driver": ""},
    "threads": 2,
    "dtype": "float64",
    "started": "2026-01-01T00:00:00+00:00",
    "versions": {"python": "3.11.7"},
    "share_in_model": 0.93,
}
RECORDS = {"barrier": Record("barrier", 1.587, "nats", error=0.01), "v": Record("v", [1.0, 2.0])}


def notebook(*outputs):
    node = nbformat.v4.new_notebook()
    node.cells = [nbformat.v4.new_markdown_cell("# Paths\n\nWhere? <script>alert(1)</script>")]
    node.cells += [nbformat.v4.new_code_cell("x = 1  # </pre>", outputs=[output]) for output in outputs]
    return node


def shown(data) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", data)


@pytest.fixture(scope="module")
def page() -> str:
    figure = go.Figure(
        go.Scatter(y=[1, 3, 2], text="</script><script>alert(2)</script>"), layout={"height": 300}
    )
    plot = shown({"application/vnd.plotly.v1+json": figure.to_plotly_json(), "text/html": "<script>cdn"})
    others = [
        nbformat.v4.new_output("stream", name="stdout", text="<b>\x1b[31mred\x1b[0m"),
        nbformat.v4.new_output("error", ename="E", evalue="v", traceback=["\x1b[0;31mE\x1b[0m: <v>"]),
        shown({"image/png": "iVBORw0KGgo=\n"}),
        shown({"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "VBox()"}),
        shown({"text/html": "<table><tr><td>7</td></tr></table>", "text/plain": "7"}),
        shown({"text/html": "<script src='https://cdn'></script>", "text/plain": "plain instead"}),
        shown({MIME: RECORDS["barrier"].payload(), "text/plain": RECORDS["barrier"].line()}),
    ]
    return report_html(notebook(plot, plot, *others), FACTS, RECORDS)


def test_the_page_holds_plotly_once_and_asks_for_nothing(page):
    body = page.rsplit("</head>", 1)[1]
    assert page.count("plotly.js v") >= 1
    assert page.count("<script>/**") == 1
    assert body.count("Plotly.newPlot('figure-") == 2
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=[\"']?https?:", page)
    assert "default-src 'none'" in page


def test_content_cannot_become_markup(page):
    body = page.rsplit("</head>", 1)[1]
    assert "<script>alert" not in body
    assert "&lt;b&gt;red" in body
    assert "x = 1  # &lt;/pre&gt;" in body
    assert "E: &lt;v&gt;" in body


def test_every_kind_of_output_is_shown(page):
    for text in (
        "data:image/png;base64,iVBORw0KGgo=",
        "An interactive view stood here",
        "<table><tr><td>7</td></tr></table>",
        "plain instead",
        "barrier = 1.587 ± 0.01 nats",
        "share of time in the model",
        "resident 350 MB",
        "completed after 12.3 s",
    ):
        assert text in page


def test_a_page_without_figures_is_small():
    assert len(report_html(notebook(), FACTS, {})) < 6000


def test_a_failure_comes_first():
    text = report_html(
        notebook(), {**FACTS, "status": "kernel died", "message": "the kernel died in cell 3"}, {}
    )
    assert text.index("kernel died after") < text.index("the kernel died in cell 3") < text.index("<h1>")


def test_figures_are_found_in_order():
    plots = [shown({"application/vnd.plotly.v1+json": {"data": [], "layout": {"height": h}}}) for h in (1, 2)]
    assert [f["layout"]["height"] for f in figures_of(notebook(*plots))] == [1, 2]


def test_numbers_that_are_none_become_gaps():
    text = figure_html({"data": [{"y": [1.0, float("nan"), [float("inf")]]}]}, 0)
    assert '"y": [1.0, null, [null]]' in text


def test_markdown_keeps_tables_and_shows_raw_html():
    assert "<td>1</td>" in markdown("| a |\n|-|\n| 1 |")
    assert "&lt;script&gt;" in markdown("<script>")


def test_a_moment_is_one_line():
    moment = Moment(3, 12, "find_path(model)", 4.25, 0.48, "residual 3e-5")
    assert describe(moment) == "[ 3/12]    4.2 s   48% residual 3e-5 | find_path(model)"


@pytest.mark.browser
def test_a_browser_draws_it_without_a_network(page, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api")
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    flags = ["--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path="/usr/bin/chromium", args=flags)
        tab = browser.new_page()
        asked, said = [], []
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto(path.as_uri())
        tab.wait_for_selector("#figure-1 .main-svg", timeout=120_000)
        heights = tab.eval_on_selector_all(".figure", "all => all.map(f => f.getBoundingClientRect().height)")
        browser.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert said == []
    assert all(height >= 300 for height in heights)
