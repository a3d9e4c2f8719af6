"""How long a gesture takes until it is seen, in a real browser: coarse answers, clouds of points, fields.

Coarse answers are timed on the served page, from the pointer's move to the curves on the screen; clouds and
fields on the canvas alone. Software rendering, as on a machine without a graphics card.

Run as `python benchmarks/interaction.py [--moves N]`; two to three minutes.
"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import torch
from playwright.sync_api import Browser, Page, TimeoutError, sync_playwright

from widgets.canvas.canvas import Canvas
from widgets.canvas.scene import Cloud, cloud_traits, window_traits
from widgets.canvas.standalone import canvas_html
from workbench.fields import Window

FLAGS = ["--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
DRAGS = {
    "V-mixture, static": ('{"world":"v_mixture","regime":"static"}', 100),
    "V-mixture, mep": ('{"world":"v_mixture","regime":"mep"}', 100),
    "8×8 digits, mep": ('{"model":"digits","regime":"mep"}', 100),
    "Fashion-MNIST, mep": ('{"model":"fashion","regime":"mep"}', 300),
}
"""State of the tab of paths, and the budget of its coarse answer in milliseconds."""
START = ".wb-point[data-id=start]"
WATCH = """() => {
  const inside = (e) => [e, ...(e.shadowRoot ? deep(e.shadowRoot) : [])];
  const deep = (root) => [...root.querySelectorAll("*")].flatMap(inside);
  const curves = deep(document).find((e) => e.matches?.(".wb-svg g[clip-path]"));
  window.drawn = 0;
  new MutationObserver(() => { window.drawn = performance.now(); }).observe(curves, {childList: true});
}"""
"""Note when the curves are drawn."""
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


def show(name: str, times: list[float], budget: float) -> None:
    """One row: percentiles in milliseconds, the budget, and whether the 95th percentile keeps it."""
    ordered = sorted(times)
    p50, p95 = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.95))
    kept = "kept" if p95 <= budget else "missed"
    print(f"{name:34s}{len(times):5d}{p50:9.0f}{p95:9.0f}{budget:9.0f}  {kept}", flush=True)


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


def drag(page: Page, address: str, state: str, moves: int) -> list[float]:
    """Milliseconds from each move of the start to the curves of its coarse answer."""
    page.goto(f"{address}?tab=paths&theme=light&paths={state}")
    page.locator(".wb-facts td", has_text="full").wait_for(timeout=300_000)
    page.evaluate(WATCH)
    box = page.locator(f"{START} .wb-dot").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    times = []
    for k in range(moves):
        began = page.evaluate("performance.now()")
        page.mouse.move(x + 23 * (1 + k % 8), y - 17 * (1 + k % 7))
        try:
            page.wait_for_function("(began) => window.drawn > began", arg=began, timeout=5_000)
        except TimeoutError:
            continue  # the nearest sample is the same as before: nothing to draw
        times.append(page.evaluate("window.drawn") - began)
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
        if count == 100_000:
            show("field of 256×256, ms an update", page.evaluate(FIELDS, 40), 50.0)
        page.close()


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=40, help="moves of each drag")
    asked = parser.parse_args(arguments)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("no Chromium on this machine: apt-get install chromium")
        return 1
    print(f"{'':34s}{'count':>5s}{'p50':>9s}{'p95':>9s}{'budget':>9s}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)
        clouds(browser)
        with serving() as address:
            for name, (state, budget) in DRAGS.items():
                page = browser.new_page(viewport={"width": 1280, "height": 1000})
                show(f"coarse answer: {name}", drag(page, address, state, asked.moves), budget)
                page.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
