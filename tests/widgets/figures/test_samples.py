"""Samples before and after the flow, and likelihoods along paths, as data."""

import torch
from PIL import Image

from widgets.figures.likelihood import likelihood_figure
from widgets.figures.samples import samples_figure
from workbench.flows import invert, log_likelihood
from workbench.models import Frame
from workbench.report import DB_PER_NAT
from workbench.worlds import load_world

FRAME = Frame("tiny", (1, 4, 4), 0.01, 10.0, (-1.0, 1.0))


def test_each_picture_has_its_panel_and_its_original(tmp_path):
    Image.new("RGB", (30, 20), (200, 0, 0)).save(tmp_path / "a.png")
    points = {"start": torch.zeros(16), "end": torch.ones(16)}
    figure = samples_figure(points, FRAME, originals={"start": tmp_path / "a.png"})
    labels = [note.text for note in figure.layout.annotations[:3]]
    assert labels == ["start,<br>as given", "start,<br>fitted", "end"]
    assert len(figure.layout.images) == 3
    assert all(image.source.startswith("data:image/png") for image in figure.layout.images)


def test_points_of_a_plane_are_written_with_their_return():
    world = load_world("v_mixture")
    ends = torch.stack([world.facts.start, world.facts.end])
    figure = samples_figure({"start": ends[0], "end": ends[1]}, world.frame, invert(world, ends, steps=20))
    labels, texts = figure.data[0].cells.values
    assert len(labels) == 4
    assert "returned" in labels[1]
    assert texts[2].startswith("3, ")


def test_likelihoods_are_drawn_in_decibels_with_their_errors():
    world = load_world("v_mixture")
    points = torch.stack([world.facts.start, world.facts.end])
    found = log_likelihood(world, points, steps=20)
    figure = likelihood_figure({"two points": found})
    torch.testing.assert_close(torch.tensor(figure.data[0].y), found.nats * DB_PER_NAT / 2)
    torch.testing.assert_close(torch.tensor(figure.data[0].error_y.array), found.error * DB_PER_NAT / 2)
    assert "dB per dimension" in figure.layout.yaxis.title.text


def test_where_there_is_no_likelihood_one_sentence_says_so():
    figure = likelihood_figure({})
    assert len(figure.data) == 0
    assert "no flow" in figure.layout.annotations[0].text
