"""Figures of contrastive maps as data: what each trace holds, what titles say, and what is flagged."""

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import conda as oracle
from widgets.figures import conda as figures
from workbench.conda.context import make_context
from workbench.conda.gaps import hide_gaps, measure_gaps
from workbench.errors import ShapeError
from workbench.lenses.conda import fit_conda, trace


@pytest.fixture(scope="module")
def turning():
    torch.set_default_dtype(torch.float64)
    latents, angle = oracle.ring(count=200, dim=16, seed=0, period=29.3)
    labels = (torch.arange(200) // 50) % 4
    context = make_context(200, angle.cos(), labels)
    fit = fit_conda(latents, context, positives="time", iterations=60, batch=48, rate=5e-3, restarts=2)
    return fit, trace(fit, list(range(20, 33)), steps=25)


def names(figure):
    return [trace.name for trace in figure.data]


def test_frames_are_drawn_in_a_plane_that_the_figure_names(turning):
    fit, path = turning
    drawn = figures.figure(fit, path=path)
    assert names(drawn) == ["frames", "curve", "off support"]
    assert len(drawn.data[0].x) == 200
    plane = figures.projection_of(fit.points)
    assert_close(torch.tensor(drawn.data[1].x), plane.encode(path.points)[:, 0].double())
    assert "component 1" in drawn.layout.xaxis.title.text
    subtitle = drawn.layout.title.subtitle.text
    assert "PCA" in subtitle
    assert "bits" in subtitle
    assert "loop" in drawn.layout.annotations[0].text


def test_frames_take_the_colours_of_what_is_known(turning):
    fit, _ = turning
    assert list(figures.colours_of(fit)) == ["time", "variable", "label"]
    assert len(set(figures.figure(fit, colour="label").data[0].marker.color)) == 4
    by_time = figures.figure(fit, colour="time")
    assert_close(torch.tensor(by_time.data[0].marker.color), torch.arange(200.0))
    assert "by time" in by_time.layout.title.text
    with pytest.raises(ShapeError, match="one a frame"):
        figures.figure(fit, values=torch.zeros(3))


def test_shades_cover_the_range_in_order():
    colours, rows = figures.shades_of(torch.linspace(-3, 5, 100))
    assert len(colours) == figures.SHADES
    assert all(len(colour) == 7 and colour.startswith("#") for colour in colours)
    assert (rows.diff() >= 0).all()
    assert rows[0] == 0
    assert rows[-1] == figures.SHADES - 1


def test_losses_stand_beside_chance_and_the_control(turning):
    fit, _ = turning
    drawn = figures.loss_figure(fit)
    assert names(drawn) == ["other copies", "shuffled control", "chosen copy", "knowing nothing", "held out"]
    assert_close(torch.tensor(drawn.data[4].y), torch.tensor([fit.training.loss, fit.training.control_loss]))
    assert_close(drawn.data[3].y[0], torch.tensor(48.0).log().item())
    assert drawn.layout.yaxis.title.text == "InfoNCE / nats"


def test_support_turns_the_light_off(turning):
    fit, near = turning
    assert "all 25 points near frames" in figures.support_figure(near).layout.title.subtitle.text
    far = trace(fit, torch.stack([fit.points[0], fit.points[0] + 50.0]), kind="line", steps=9)
    drawn = figures.support_figure(far)
    assert "off support" in drawn.layout.title.subtitle.text
    assert drawn.layout.yaxis.type == "log"
    assert len(set(drawn.data[0].marker.color)) == 2


def test_films_lie_one_above_the_other(turning):
    _, path = turning
    films = {"curve": path.latents, "straight": path.lerp_z, "spherical": path.slerp_z}
    off = torch.zeros(25, dtype=torch.bool)
    off[0] = True
    drawn = figures.films_figure(films, (4, 4), times=path.times, off_support=off, frames=6)
    assert len(drawn.layout.images) == 18
    assert list(drawn.layout.yaxis.ticktext) == list(films)
    assert len(drawn.layout.shapes) == 1
    assert "1 of 25 points off support" in drawn.layout.title.subtitle.text
    assert len(figures.films_figure(films, (16,)).data) == 0


def test_gap_errors_are_bars_with_their_gaps_as_dots():
    latents, _ = oracle.travelling_wave()
    context = make_context(len(latents))
    score = measure_gaps(latents, context, hide_gaps(context), lambda z: z[:, :2])
    drawn = figures.gaps_figure(score)
    assert_close(torch.tensor(drawn.data[0].y), torch.tensor(list(score.errors.values())))
    assert len(drawn.data[1].y) == 5 * 6
    assert "quarter cycle" in drawn.layout.title.subtitle.text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_of_both_papers_use_their_colours(turning, theme):
    fit, path = turning
    assert figures.figure(fit, path=path, theme=theme).layout.template.layout.paper_bgcolor in (
        "#ffffff" if theme == "light" else "#14181d",
    )
