"""How many points go into one batch: what lives is counted, and the budget alone cuts."""

import pytest
import torch

from workbench.memory import PROBE, SMALL, Live, points_together

WIDE = 1000


def chain(points):
    """Two tensors of a thousand doubles a point live at once: 16 kB."""
    wide = points[:, :1].expand(-1, WIDE) + 1.0
    return (wide * 2.0).sum(dim=1)


def counted(rows):
    def evaluate(points):
        rows.append(len(points))
        return chain(points)

    return evaluate


def test_what_lives_at_once_is_counted_and_freed():
    with Live() as counter:
        chain(torch.zeros(10, 2))
        chain(torch.zeros(10, 2))
    assert counter.peak == pytest.approx(2 * 10 * WIDE * 8, rel=0.05)
    assert counter.live <= 200


@pytest.mark.parametrize(("budget", "parts"), [(2**30, 1), (PROBE * 2 * WIDE * 8, 64)])
def test_the_budget_alone_cuts(budget, parts):
    rows = []
    together = points_together(counted(rows), torch.zeros(4096, 2), budget=budget)
    assert rows == [PROBE]
    assert -(-4096 // together) == pytest.approx(parts, rel=0.05)
    assert together * 2 * WIDE * 8 <= 1.05 * budget


def test_few_points_go_untried():
    rows = []
    assert points_together(counted(rows), torch.zeros(SMALL, 2), budget=1) == SMALL
    assert rows == []
    assert points_together(counted(rows), torch.zeros(0, 2)) == 1


def test_what_was_there_before_is_not_counted():
    weight, points = torch.zeros(2000, 100), torch.zeros(10000, 100)
    with Live() as counter:
        weight.t().contiguous()
        held = points[:3].mT.reshape(-1) @ points[3:6].flatten()
        assert counter.live == held.nbytes
    assert counter.peak == weight.nbytes


@pytest.mark.parametrize("dim", [2, 256])
def test_neither_all_points_nor_a_layers_weights_cut_a_batch(dim):
    layer = torch.nn.Linear(dim, WIDE, dtype=torch.float64)

    def evaluate(points):
        return layer(points[:, :dim]).sum(dim=1)

    points = torch.zeros(2**22 // dim, dim)
    assert points.nbytes > 2 * PROBE * WIDE * 8  # more than a trial makes
    together = points_together(evaluate, points, budget=1000 * WIDE * 8)
    assert together == pytest.approx(1000, rel=0.1)
