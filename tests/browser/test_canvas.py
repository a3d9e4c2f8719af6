"""The canvas alone: magnified by buttons, moved by the pointer, many points as a sample while it moves."""

import torch

from widgets.canvas.canvas import Canvas
from widgets.canvas.scene import Cloud, Handle, cloud_traits, handle_traits, window_traits
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
