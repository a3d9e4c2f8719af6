"""How long a gesture takes until it is seen, in a real browser: coarse answers, clouds of points, fields.

Coarse answers are timed on the served page, from the pointer's move to the curves on the screen; clouds and
fields on the canvas alone. Software rendering, as on a machine without a graphics card. Before that, what an
answer takes of a processor, without a browser: on a busy machine the wall clock says little.

Run as `python benchmarks/interaction.py [--moves N] [--no-browser | --only-browser]`; some minutes.
"""

import argparse
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager

import torch
from playwright.sync_api import Browser, Page, sync_playwright

from widgets.canvas.canvas import Canvas
from widgets.canvas.scene import Cloud, cloud_traits, field_traits, window_traits
from widgets.canvas.standalone import canvas_html
from widgets.sessions.bench import BenchSession
from widgets.sessions.paths import PathSession
from widgets.state import state_from
from widgets.theme import Theme, theme_of
from workbench.bench.bench import Bench
from workbench.bench.results import BenchEvent
from workbench.fields import Field, Window

FLAGS = ["--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
DRAGS = {
    "V-mixture, static": ('{"world":"v_mixture","regime":"static"}', 100),
    "V-mixture, mep": ('{"world":"v_mixture","regime":"mep"}', 100),
    "8×8 digits, mep": ('{"model":"digits","regime":"mep"}', 100),
    "Fashion-MNIST, mep": ('{"model":"fashion","regime":"mep"}', 300),
}
"""State of the tab of paths, and the budget of its coarse answer in milliseconds."""
START = ".wb-point[data-id=start]"
FULL = {"paths": "full", "bench": re.compile("converged")}
"""What each tab says once the full answer is there."""
WATCH = """() => {
  const inside = (e) => [e, ...(e.shadowRoot ? deep(e.shadowRoot) : [])];
  const deep = (root) => [...root.querySelectorAll("*")].flatMap(inside);
  const curves = deep(document).find((e) => e.matches?.(".wb-svg g[clip-path]"));
  const seen = {moved: 0, drawn: 0, tabled: 0}, waiting = new Set();
  const note = (what) => () => { seen[what] = performance.now(); waiting.forEach((look) => look()); };
  document.addEventListener("pointermove", (event) => { seen.moved = event.timeStamp; }, true);
  new MutationObserver(note("drawn")).observe(curves, {childList: true});
  for (const box of deep(document).filter((e) => e.querySelector?.(":scope .wb-bench-table")))
    new MutationObserver(note("tabled")).observe(box, {childList: true, subtree: true});
  // milliseconds from the pointer's last move, as the browser got it, to what followed; -1 if nothing did
  window.answered = (what, since, patience) => new Promise((done) => {
    const look = () => {
      if (seen.moved > since && seen[what] > seen.moved) leave(seen[what] - seen.moved);
    };
    const timer = setTimeout(() => leave(-1), patience);
    const leave = (value) => { waiting.delete(look); clearTimeout(timer); done(value); };
    waiting.add(look);
    look();
  });
}"""
"""Note when the pointer moved, when the curves are drawn, and the table of all lenses, where there is one.
Nothing is polled: on a machine that renders in software, asking in every frame takes a tenth of a core."""
PAN = """async (frames) => {
  const svg = document.querySelector(".wb-svg"), box = svg.getBoundingClientRect(), times = [];
  svg.setPointerCapture = () => {};
  const point = (kind, x, y) => svg.dispatchEvent(
    new PointerEvent(kind, {pointerId: 1, button: 0, clientX: x, clientY: y, bubbles: true}));
  point("pointerdown", box.left + 300, box.top + 200);
  let last = performance.now();
  for (let k = 0; k < frames; k++) {
    point("pointermove", box.left + 300 + Math.round(60 * Math.sin(k / 4)), box.top + 200 + k % 40);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  point("pointerup", 0, 0);
  return times;
}"""
"""Move a magnified picture for so many frames; milliseconds of each."""
FIELDS = """async (count) => {
  const n = 256, times = [];
  model.set("clouds", []); model.set("field_shape", [n, n]); model.set("field_limits", [0, 1]);
  for (let k = 0; k < count; k++) {
    const field = Float32Array.from({length: n * n}, (_, i) => 0.5 + 0.5 * Math.sin(i / 300 + k));
    await new Promise(requestAnimationFrame);
    const began = performance.now();
    model.set("field", new DataView(field.buffer));
    await new Promise(requestAnimationFrame);
    times.push(performance.now() - began);
  }
  return times;
}"""
"""Show so many fields of 256×256; milliseconds of each."""


HEAD = f"{'':46s}{'count':>5s}{'p50':>9s}{'p95':>9s}{'budget':>9s}"


def show(name: str, times: list[float], budget: float) -> None:
    """One row: percentiles in milliseconds, the budget, and whether the 95th percentile keeps it."""
    ordered = sorted(times)
    p50, p95 = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.95))
    kept = "kept" if p95 <= budget else "missed"
    print(f"{name:46s}{len(times):5d}{p50:9.0f}{p95:9.0f}{budget:9.0f}  {kept}", flush=True)


def processor_times(moves: int) -> None:
    """Milliseconds of a processor for each coarse answer with its picture, on each tab, and for a field."""
    look = theme_of("light")
    with torch.no_grad():
        for name, (state, budget) in DRAGS.items():
            values = json.loads(state)
            show(f"processor, path: {name}", [*_path_times(values, moves, look)], budget)
            subject = {key: value for key, value in values.items() if key != "regime"}
            marks: dict[str, float] = {}
            bench = Bench(
                **subject, regimes=values["regime"], gate=lambda cancel, marks=marks: _begins(marks)
            )
            show(f"processor, all lenses: {name}", [*_bench_times(bench, marks, moves, look)], budget)
        field = Field(torch.rand(256, 256, dtype=torch.float64), Window((0.0, 1.0), (0.0, 1.0)), "field")
        times = []
        for _ in range(40):
            began = time.thread_time()
            field_traits(field)
            times.append(1000 * (time.thread_time() - began))
        show("processor, field of 256×256", times, 50.0)


def _places(start: tuple[float, float], width: float, moves: int):
    for k in range(4 * moves):  # a spiral: no place twice
        reach, turn = 0.16 * width * (1 + k) / (4 * moves), 2.4 * k
        yield start[0] + reach * math.cos(turn), start[1] + reach * math.sin(turn)


def _path_times(values: dict, moves: int, look: Theme):
    session = PathSession(state_from(values))
    session.solve(session.state, "full", threading.Event(), lambda share, words: None)
    window = session.stage.window
    seen: set[str] = set()
    for x, y in _places(session.stage.coords(session.state.start), window.x[1] - window.x[0], moves):
        began = time.thread_time()
        session.state = session.moved("start", x, y)
        if session.state.start in seen or len(seen) == moves:
            continue  # a sample that was there before is answered from memory
        seen.add(session.state.start)
        answer = session.solve(session.state, "coarse", threading.Event(), lambda share, words: None)
        session.scene(answer, look)
        yield 1000 * (time.thread_time() - began)


@contextmanager
def _begins(marks: dict[str, float]):
    """Note when the worker begins an answer."""
    marks["begin"] = time.thread_time()
    yield


def _bench_times(bench: Bench, marks: dict[str, float], moves: int, look: Theme):
    """What the worker spends on each coarse answer and on its pictures, badge and table."""
    session = BenchSession(bench, look)

    def heard(event: BenchEvent) -> None:
        if session.draws(event) or event.what == "table":
            session.scene(), session.badge()
        if event.what == "table":
            session.table()
            marks["end"] = time.thread_time()

    bench.subscribe(heard)
    bench.refresh()
    bench.wait(600)
    place = bench.place
    start = place.coords(bench.state.start or place.subject.start)
    seen: set[str] = set()
    for x, y in _places(start, place.window.x[1] - place.window.x[0], moves):
        began = time.thread_time()
        state = bench.moved("start", x, y)
        if state.start in seen or len(seen) == moves:
            continue
        seen.add(state.start)
        own = time.thread_time() - began
        bench.look_at(state, speed="coarse")
        bench.wait(60)
        yield 1000 * (own + marks["end"] - marks["begin"])


@contextmanager
def serving():
    """The page on a free port; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "widgets.app", "--port", str(port), "--no-browser"]
    server = subprocess.Popen(command, env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    try:
        for _ in range(240):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/static/js/bokeh.min.js", timeout=2):
                    break
            except OSError:
                time.sleep(0.25)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        server.wait(20)


def drag(page: Page, address: str, tab: str, state: str, moves: int) -> dict[str, list[float]]:
    """Milliseconds from each move of the start to the first curves of its coarse answer, and to its table."""
    page.goto(f"{address}?tab={tab}&theme=light&{tab}={state}")
    page.locator(".wb-facts td" if tab == "paths" else ".wb-status", has_text=FULL[tab]).first.wait_for(
        timeout=300_000
    )
    page.evaluate(WATCH)
    box = page.locator(f"{START} .wb-dot").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    times: dict[str, list[float]] = {"drawn": [], "tabled": []}
    for k in range(moves):
        since = page.evaluate("performance.now()")
        turn, reach = 2.4 * k, 12 + 110 * k / moves
        page.mouse.move(x + reach * math.cos(turn), y + reach * math.sin(turn))
        for what in ("drawn", "tabled") if tab == "bench" else ("drawn",):
            took = page.evaluate("([what, since]) => window.answered(what, since, 3000)", [what, since])
            if took < 0:
                break  # the nearest sample is the same as before: nothing to draw
            times[what].append(took)
    page.mouse.up()
    return times


def canvas_with(count: int) -> str:
    """A page of its own with so many points in five colours."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 5, (count,), generator=draw)
    centres = 2.0 * torch.stack([torch.cos(1.25 * labels), torch.sin(1.25 * labels)], dim=1)
    points = centres + 0.5 * torch.randn(count, 2, generator=draw)
    canvas = Canvas()
    colours = ("#d55e00", "#0072b2", "#009e73", "#b0558f", "#e69f00")
    canvas.show(
        **cloud_traits([Cloud("latents", points, colours, labels)]),
        **window_traits(Window((-4.0, 4.0), (-4.0, 4.0)), ("z1", "z2")),
    )
    return canvas_html(canvas)


def clouds(browser: Browser) -> None:
    """Frames of a moved cloud of a hundred thousand and of a million points, and fields."""
    for count in (100_000, 1_000_000):
        page = browser.new_page(viewport={"width": 700, "height": 640})
        page.set_content(canvas_with(count), timeout=120_000)
        page.wait_for_function(
            "(d => d?.drawn > 9e4 && d.drawn === d.inView)(document.querySelector('.wb-stage')?.dataset)",
            timeout=120_000,
        )
        page.get_by_label("zoom in").click()
        times = page.evaluate(PAN, 60)
        show(f"{count:,} points moved, ms a frame", times[5:], 100.0)
        print(f"{'':4s}{1000 * len(times[5:]) / sum(times[5:]):.0f} frames a second")
        if count == 100_000:
            show("field of 256×256, ms an update", page.evaluate(FIELDS, 40), 50.0)
        page.close()


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=40, help="moves of each drag")
    parser.add_argument("--no-browser", action="store_true", help="only what a processor takes")
    parser.add_argument("--only-browser", action="store_true", help="all but that")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(HEAD)
    if not asked.only_browser:
        processor_times(asked.moves)
    if asked.no_browser:
        return 0
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("no Chromium on this machine: apt-get install chromium")
        return 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)
        clouds(browser)
        with serving() as address:
            for name, (state, budget) in DRAGS.items():
                page = browser.new_page(viewport={"width": 1280, "height": 1000})
                show(
                    f"coarse path: {name}", drag(page, address, "paths", state, asked.moves)["drawn"], budget
                )
                every = drag(page, address, "bench", state.replace("regime", "regimes"), asked.moves)
                show(f"all lenses, first curves: {name}", every["drawn"], budget)
                show(f"all lenses, the table too: {name}", every["tabled"], budget)
                page.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
