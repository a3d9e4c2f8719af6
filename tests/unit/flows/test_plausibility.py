"""Points are judged against held-out data: too unlikely and too likely ones are both named."""

import pytest
import torch

from workbench.errors import SettingError
from workbench.flows.plausibility import measure_plausibility
from workbench.models import score
from workbench.worlds import load_world


def test_typical_points_lie_within_and_strange_ones_outside(generator):
    world = load_world("v_mixture").rotated(12, generator=generator)
    samples = world.sample(40, generator=generator)
    mode = samples[0]
    for _ in range(300):
        mode = mode + 0.2 * score(world, mode, 0.0)
    points = torch.stack([world.sample(1, generator=generator)[0], mode, samples[1] + 8.0])
    found = measure_plausibility(world, points, samples, steps=20)
    assert found.outside.tolist() == [False, True, True]
    exact = world.log_prob(points, 0.0)
    torch.testing.assert_close(found.points.nats, exact, atol=1.0, rtol=0.05)
    within, likely, far = found.sentences(("a", "b", "c"))
    assert "within" in within
    assert "no typical sample" in likely
    assert far.startswith("c: log p = ")


def test_one_held_out_sample_spans_no_range():
    world = load_world("v_mixture")
    with pytest.raises(SettingError, match="two at least"):
        measure_plausibility(world, torch.zeros(1, 2), torch.zeros(1, 2))
