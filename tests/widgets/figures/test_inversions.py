"""Figures of inversions, read as data."""

import pytest
import torch

from widgets.figures.inversions import depth_figure, round_trip_figure
from workbench.inversions import measure_round_trip, probe_depths
from workbench.worlds import GaussianMixture


@pytest.fixture
def world() -> GaussianMixture:
    covariances = 0.05 * torch.eye(3).expand(2, 3, 3)
    return GaussianMixture("two modes", torch.ones(2), torch.tensor([[1.0, 0, 0], [-1.0, 0, 0]]), covariances)


def test_round_trips_show_both_errors_on_logarithmic_axes(world: GaussianMixture):
    x = world.sample(6, generator=torch.Generator().manual_seed(0))
    trips = {n: measure_round_trip(world, x, solver=n, depth=2.0, steps=6) for n in ("ddim", "belm")}
    drawing = round_trip_figure(trips)
    assert [trace.name for trace in drawing.data] == ["ddim", "belm"]
    assert drawing.layout.xaxis.type == drawing.layout.yaxis.type == "log"
    assert "norm of the frame" in drawing.layout.yaxis.title.text
    assert list(drawing.data[0].y) == pytest.approx(trips["ddim"].errors.tolist())
    assert min(drawing.data[1].y) > 0  # an error of zero has a place on the axis
    assert "6 frames, 6 steps to sigma 2" in drawing.layout.title.subtitle.text


def test_probe_has_a_line_for_each_factor_and_reader(world: GaussianMixture):
    x = world.sample(60, generator=torch.Generator().manual_seed(0))
    found = probe_depths(world, x, x[:, :2], names=("first", "second"), depths=[0.5, 2.0], steps=4)
    drawing = depth_figure(found)
    assert [trace.name for trace in drawing.data] == [
        f"{name}, {reader}" for name in ("first", "second") for reader in ("linear", "neighbours")
    ]
    assert len(drawing.data[0].x) == 3
    assert drawing.layout.xaxis.title.text == "depth σ, data units"
    assert list(drawing.layout.yaxis.range) == [-0.12, 1.04]
