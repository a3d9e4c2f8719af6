"""Loops and mixing: a ring is seen, a fold is warned of, and two fits are compared."""

import math
import sys

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import conda as oracle
from workbench.conda import topology
from workbench.conda.consistency import linear_r2, measure_consistency
from workbench.conda.topology import check_topology, find_loops, measure_mixing
from workbench.errors import MissingExtra, SettingError, ShapeError


def _ring(count: int = 1500) -> tuple[torch.Tensor, torch.Tensor]:
    angle = 2 * math.pi * torch.rand(count)
    return torch.stack([angle.cos(), angle.sin()], dim=1), angle


def test_a_circle_has_one_loop_of_known_strength():
    loops = find_loops(_ring()[0])
    assert_close(loops[0], oracle.STRONG_RING, rtol=0.05, atol=0)
    assert all(other < 0.1 for other in loops[1:])


def test_an_arc_and_a_cloud_have_none():
    _, angle = _ring()
    arc = torch.stack([(angle / 2.5).cos(), (angle / 2.5).sin()], dim=1)
    for points in (arc, torch.randn(1000, 2)):
        loops = find_loops(points)
        assert not loops or loops[0] < 0.25


def test_a_folded_ring_is_warned_of():
    ring, angle = _ring()
    latents = torch.cat([ring, 0.1 * torch.randn(len(ring), 4)], dim=1)
    good, folded = check_topology(latents, ring), check_topology(latents, ring[:, :1].expand(-1, 2))
    assert good.folded is False
    assert good.warning == ""
    assert good.mixing < 0.05
    assert folded.folded is True
    assert "folded" in folded.warning
    assert folded.mixing > 0.3
    assert angle.numel() == len(ring)


def test_without_ripser_mixing_alone_warns(monkeypatch):
    ring, _ = _ring()
    monkeypatch.setattr(topology, "find_spec", lambda name: None)
    found = check_topology(ring, ring[:, :1])
    assert found.folded is None
    assert "may be folded" in found.warning


def test_ripser_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ripser", None)
    with pytest.raises(MissingExtra, match=r"\[conda\]"):
        find_loops(_ring()[0])


def test_mixing_of_unrelated_points_is_one():
    assert_close(measure_mixing(torch.randn(2000, 5), torch.randn(2000, 2)), 1.0, rtol=0.05, atol=0)


def test_affine_copies_agree_fully_and_unrelated_ones_not_at_all():
    points = torch.randn(800, 3)
    turned = points @ torch.randn(3, 3) + 2.0
    found = measure_consistency([points, turned, torch.randn(800, 3)])
    assert found.report.message == "3 embeddings compared at 800 frames"
    assert found.provenance.settings["between"] == "runs"
    assert_close(found.table[0, 1].item(), 1.0)
    assert_close(found.table[1, 0].item(), 1.0)
    assert found.table[0, 2] < 0.02
    assert_close(found.score, float((found.table.sum() - 3) / 6))


def test_a_coarser_embedding_is_explained_but_does_not_explain():
    points = torch.randn(3000, 2)
    found = measure_consistency([points, points[:, :1]])
    assert_close(found.table[0, 1].item(), 1.0)
    assert_close(found.table[1, 0].item(), 0.5, rtol=0, atol=0.05)


def test_data_sets_are_matched_on_their_shared_variable():
    a, b = torch.rand(4000), torch.rand(3000) + 0.2
    curves = [torch.stack([v.square(), (3 * v).sin()], dim=1) for v in (a, b)]
    found = measure_consistency([curves[0], -2 * curves[1] + 1], variables=[a, b], bins=40)
    assert found.between == "datasets"
    assert found.score > 0.999


def test_held_out_regression_is_scored_on_other_rows():
    x, y = torch.randn(60, 40), torch.randn(60, 1)
    train = torch.arange(60) < 45
    assert linear_r2(x[:45], y[:45]) > 0.8  # what fitting noise looks like
    assert linear_r2(x, y, train=train) < 0.2


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: measure_consistency([torch.randn(3, 2)]), SettingError, "1 embeddings"),
        (lambda: measure_consistency([torch.randn(3, 2), torch.randn(4, 2)]), ShapeError, "3 and 4 frames"),
        (
            lambda: measure_consistency(
                [torch.randn(3, 2)] * 2, variables=[torch.arange(3.0), torch.arange(3.0) + 9]
            ),
            SettingError,
            "do not overlap",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_sentence(call, error, says):
    with pytest.raises(error, match=says):
        call()
