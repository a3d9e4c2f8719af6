"""Blocks are held out whole, and accuracy is what a count by hand gives."""

import pytest
import torch

from workbench.decoding import measure_decoding, split_blocks
from workbench.errors import SettingError, ShapeError


def test_every_fifth_block_is_held_out_with_a_guard():
    groups = torch.tensor([0] * 50 + [1] * 50)
    split = split_blocks(groups, blocks=10, every=5, guard=2)
    assert split.test.nonzero().flatten().tolist() == [
        *range(20, 25),
        *range(45, 50),
        *range(70, 75),
        *range(95, 100),
    ]
    assert not bool((split.train & split.test).any())
    assert not bool(split.train[18:27].any())
    assert bool(split.train[17])
    assert len(split.blocks.unique()) == 20


def test_stretches_of_each_label_take_turns():
    labels = torch.tensor([0, 1, 2] * 4).repeat_interleave(5)
    split = split_blocks(torch.zeros(60, dtype=torch.long), labels=labels, every=2, guard=0)
    assert labels[split.test].bincount().tolist() == [10, 10, 10]
    assert split.blocks.max() == 11


def test_accuracy_is_balanced_over_classes():
    labels = torch.tensor([0] * 80 + [1] * 20).repeat(2)
    points = torch.zeros(200, 1)
    points[labels == 1] = 1.0
    points[180:190] = 0.0  # half of the rare class of the second half is misplaced
    split = split_blocks(torch.zeros(200, dtype=torch.long), blocks=2, every=2, guard=0)
    found = measure_decoding(points, labels, split, k=5)
    assert found.value == pytest.approx((1.0 + 0.5) / 2)
    assert found.error == 0.0  # one held-out block


def test_noise_decodes_at_chance(generator: torch.Generator):
    points = torch.randn(2000, 3, generator=generator)
    labels = torch.randint(4, (2000,), generator=generator)
    split = split_blocks(torch.zeros(2000, dtype=torch.long), blocks=40, every=5)
    found = measure_decoding(points, labels, split)
    assert found.error is not None
    assert abs(found.value - 0.25) < 4 * found.error + 0.02


def test_bad_requests_are_one_sentence():
    with pytest.raises(SettingError, match=r"^got blocks=4, every=5 for 10 windows; expected some held out"):
        split_blocks(torch.zeros(10, dtype=torch.long), blocks=4, every=5)
    split = split_blocks(torch.zeros(50, dtype=torch.long))
    with pytest.raises(ShapeError, match=r"^got 3 points and 3 labels; expected 50 of both"):
        measure_decoding(torch.zeros(3, 1), torch.zeros(3, dtype=torch.long), split)
