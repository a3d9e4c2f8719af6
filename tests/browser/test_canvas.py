"""The canvas alone: magnified by buttons, moved by the pointer, many points as a sample while it moves."""

import numpy as np
import torch
from torch.testing import assert_close

from widgets.canvas.canvas import Canvas
from widgets.canvas.scene import (
    Cloud,
    Handle,
    Stroke,
    cloud_traits,
    handle_traits,
    stroke_traits,
    thumb_traits,
    window_traits,
)
from widgets.canvas.standalone import canvas_html
from workbench.fields import Window

COUNT = 1_000_000


def test_a_large_cloud_is_sampled_while_it_moves_and_whole_at_rest(page):
    points = torch.rand(COUNT, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
    canvas = Canvas()
    canvas.show(
        **cloud_traits([Cloud("latents", points, ("#d55e00",))]),
        **window_traits(Window((-1.0, 1.0), (-1.0, 1.0)), ("z1", "z2")),
        **handle_traits([Handle("start", "start", 0.1, 0.1, "start"), Handle("end", "end", 0.9, 0.9, "end")]),
    )
    page.set_content(canvas_html(canvas))
    stage = page.locator(".wb-stage")
    page.locator(f".wb-stage[data-drawn='{COUNT}']").wait_for()
    assert page.locator(".wb-point:visible").count() == 2
    page.evaluate(
        """() => { window.stage = document.querySelector('.wb-stage'); window.drawn = [];
        new MutationObserver(() => drawn.push(stage.dataset.drawn)).observe(stage, {attributes: true}) }"""
    )
    page.get_by_label("zoom in").click()
    inside = int(((points.abs() <= 0.5).all(1)).sum())
    page.wait_for_function("drawn.length > 1 && drawn.at(-1) === stage.dataset.inView")
    assert min(map(int, page.evaluate("drawn"))) < inside / 1.5  # a sample, for as long as it moved
    assert page.locator(".wb-point:visible").count() == 1  # the other lies outside now
    assert inside <= int(stage.get_attribute("data-in-view")) <= 1.15 * inside  # whole cells

    box = page.locator(".wb-svg").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 300)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + 300)
    page.mouse.up()
    page.wait_for_function("document.querySelector('.wb-axes').textContent.includes('0.6')")
    page.get_by_label("show everything").click()
    page.locator(f".wb-stage[data-drawn='{COUNT}']").wait_for()
    assert page.locator(".wb-point:visible").count() == 2
    assert page.outside == []
    assert not page.problems, "\n".join(page.problems)


PICTURES = """() => {
  const stage = document.querySelector('.wb-stage'), sky = document.querySelector('canvas.wb-sky');
  window.pictures = [];
  new MutationObserver(() => {
    const { data, width, height } = sky.getContext('2d').getImageData(0, 0, sky.width, sky.height);
    const sums = Array.from({length: 64}, () => [0, 0, 0, 0]);
    let far = 0;
    for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
      const at = 4 * (y * width + x), ink = data[at + 3] / 255;
      if (data[at + 2] > 2 * data[at] && x > 0.9 * width && y < 0.1 * height) far += 1;
      const sum = sums[8 * Math.floor(8 * y / height) + Math.floor(8 * x / width)];
      for (let k = 0; k < 3; k++) sum[k] += ink * data[at + k];
      sum[3] += ink;
    }
    pictures.push({drawn: +stage.dataset.drawn, held: +stage.dataset.inView, far, sums});
  }).observe(stage, {attributes: true, attributeFilter: ['data-in-view']});
}"""
"""Of every picture of the clouds: the colours of 8 × 8 blocks, and the blue pixels of the corner."""


def test_a_sample_keeps_the_farthest_point_and_the_colours_and_magnifying_draws_all(page):
    """A million points, red to the left and green to the right, and a single blue one far outside."""
    draw = torch.Generator().manual_seed(0)
    points = torch.rand(COUNT, 2, generator=draw) * 2 - 1
    labels = (points[:, 0] + 0.5 * torch.rand(COUNT, generator=draw) > 0.25).long()
    points[0], labels[0] = torch.tensor([1.4, 1.4]), 2
    canvas = Canvas()
    canvas.show(
        **cloud_traits([Cloud("latents", points, ("#cc0000", "#00aa00", "#0000ff"), labels, opacity=0.2)]),
        **window_traits(Window((-1.5, 1.5), (-1.5, 1.5)), ("z1", "z2")),
    )
    page.set_content(canvas_html(canvas))
    page.locator(f".wb-stage[data-drawn='{COUNT}']").wait_for()
    page.get_by_label("zoom in").click()
    page.evaluate(PICTURES)
    page.get_by_label("show everything").click()
    page.wait_for_function(f"pictures.length > 1 && pictures.at(-1).drawn === {COUNT}")
    sample, full = page.evaluate("pictures.slice(-2)")
    assert sample["drawn"] < 0.2 * COUNT
    assert sample["held"] == COUNT
    assert min(sample["far"], full["far"]) >= 1
    inked = [torch.tensor(picture["sums"], dtype=torch.float64) for picture in (sample, full)]
    dense = inked[1][:, 3] > 1000
    mixed = [sums[dense, :3] / sums[dense, 3:] for sums in inked]
    assert float((mixed[0] - mixed[1]).abs().max()) < 8.0  # of 255
    ink = [sums[dense, 3] for sums in inked]
    assert_close(ink[0] / ink[1], torch.ones_like(ink[0]), rtol=0, atol=0.1)  # as dark moving as at rest
    for _ in range(3):
        page.get_by_label("zoom in").click()
    page.wait_for_function("pictures.at(-1).held < 150000 && pictures.at(-1).drawn === pictures.at(-1).held")
    page.evaluate("pictures.length = 0")
    page.get_by_label("zoom in").click()
    page.wait_for_function("pictures.length > 0")
    assert page.evaluate("pictures.every(picture => picture.drawn === picture.held)")  # also while it moves
    assert not page.problems, "\n".join(page.problems)


def test_the_host_is_asked_a_few_times_a_picture_not_at_every_vertex(page):
    curve = Stroke("path", torch.rand(5_000, 2, generator=torch.Generator().manual_seed(0)), "#d55e00")
    canvas = Canvas()
    canvas.show(**stroke_traits([curve]), **window_traits(Window((0.0, 1.0), (0.0, 1.0)), ("x", "y")))
    page.set_content(canvas_html(canvas))
    page.locator(".wb-curve path").first.wait_for()
    asked = page.evaluate(
        """async () => {
          const get = model.get;
          let asked = 0;
          model.get = (name) => { asked += 1; return get(name); };
          model.set("vertices", get.call(model, "vertices"));
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          return asked;
        }"""
    )
    assert 0 < asked < 50
    page.evaluate("model.set('x_range', [0, 2])")
    page.wait_for_function("document.querySelector('.wb-axes').textContent.includes('2.0')")


def test_a_picture_under_the_pointer_keeps_its_proportions_and_its_name(page):
    curve = Stroke("path", torch.tensor([[0.5, 0.5], [0.9, 0.9]]), "#d55e00")
    pixels = np.zeros((2, 30, 60), dtype=np.uint8)
    canvas = Canvas()
    canvas.show(
        **stroke_traits([curve]),
        **window_traits(Window((0.0, 1.0), (0.0, 1.0)), ("x", "y")),
        **thumb_traits(pixels, "path", ["frame 12, t = 3", "frame 13, t = 4"]),
    )
    page.set_content(canvas_html(canvas))
    page.locator(".wb-curve path").first.wait_for()
    plot = page.locator(".wb-plot").bounding_box()
    page.mouse.move(plot["x"] + plot["width"] / 2, plot["y"] + plot["height"] / 2)
    page.get_by_text("frame 12, t = 3").wait_for()
    shown = page.locator(".wb-tip canvas").bounding_box()
    assert (round(shown["width"]), round(shown["height"])) == (84, 42)
