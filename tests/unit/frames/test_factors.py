"""Two known factors: where frames are sums of one part by each, a change of one part is exact."""

import math

import pytest
import torch
from torch.testing import assert_close

from workbench.errors import SettingError, ShapeError
from workbench.frames import factors
from workbench.frames.glyphs import load_glyphs, write_sample

LETTERS, STYLES = 7, 5


@pytest.fixture
def sums():
    """Frames that are the sum of a letter's part and a style's."""
    draws = torch.Generator().manual_seed(0)
    letter = torch.arange(LETTERS).repeat(STYLES)
    style = torch.arange(STYLES).repeat_interleave(LETTERS)
    parts = [torch.randn(n, 9, generator=draws, dtype=torch.float64) for n in (LETTERS, STYLES)]
    return parts[0][letter] + parts[1][style], letter, style


def test_pairs_are_hidden_evenly(sums):
    _, letter, style = sums
    hidden = factors.hide_pairs(letter, style, every=4)
    assert 0.2 < float(hidden.double().mean()) < 0.3
    for factor in (letter, style):
        left = torch.bincount(factor[~hidden])
        assert int(left.min()) > 0
        assert int(left.max() - left.min()) <= 1


def test_a_swap_begins_at_the_same_letter_in_another_style(sums):
    _, letter, style = sums
    hidden = factors.hide_pairs(letter, style, every=4)
    plan = factors.plan_swaps(letter, style, hidden)
    assert len(plan) == int(hidden.sum())
    assert_close(letter[plan.start], letter[plan.truth])
    assert not bool((style[plan.start] == style[plan.truth]).any())
    assert not bool(hidden[plan.start].any())
    assert bool(hidden[plan.truth].all())


def test_where_factors_add_up_the_change_of_one_is_exact(sums):
    """Every style has each letter here, so that means of styles differ by the styles' parts alone."""
    points, letter, style = sums
    start, target = torch.tensor([0, 9, 30]), torch.tensor([3, 0, 2])
    moved = factors.change_factor(points, style, start, target)
    assert_close(moved, points[target * LETTERS + letter[start]], rtol=1e-12, atol=1e-12)
    errors = factors.measure_swaps(
        {"moved": moved, "mean": points.mean(0).expand(3, -1)}, moved, points.mean(0)
    )
    assert errors == {"moved": 0.0, "mean": 1.0}


def test_maps_side_by_side_count_alike(sums):
    points, _, _ = sums
    joined = factors.join_maps([points, 1000 * points[:, :2] + 1e4])  # wherever the middle of a map lies
    assert joined.shape == (LETTERS * STYLES, 11)
    spreads = (joined - joined.mean(0)).square()
    assert_close(spreads[:, :9].mean(), spreads[:, 9:].mean())


def test_factors_that_cannot_be_hidden_or_changed_are_one_sentence(sums):
    points, letter, style = sums
    with pytest.raises(ShapeError, match=r"^got factors of shape \(35,\) and \(3,\)"):
        factors.hide_pairs(letter, style[:3])
    with pytest.raises(SettingError, match=r"^got every=2 for 2 frames .* try a larger every"):
        factors.hide_pairs(torch.tensor([0, 1]), torch.tensor([0, 0]), every=2)
    with pytest.raises(SettingError, match=r"^got every=99 .* try a smaller every"):
        factors.hide_pairs(letter, style, every=99)
    with pytest.raises(SettingError, match=r"^got class 9; expected a class that has frames"):
        factors.change_factor(points, style, torch.tensor([0]), torch.tensor([9]))
    alone = torch.zeros(3, dtype=torch.bool)
    alone[0] = True
    with pytest.raises(SettingError, match=r"^got hidden frames alone in their kept factor"):
        factors.plan_swaps(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 2]), alone)


def test_the_glyphs_of_the_package_are_whole_and_written_as_they_are_read(tmp_path):
    found = load_glyphs()
    assert found.points.shape == (26 * 22, 256)
    assert found.shape == (1, 16, 16)
    assert "".join(found.classes) == "abcdefghijklmnopqrstuvwxyz"
    assert found.labels is not None
    assert torch.bincount(found.labels).tolist() == [22] * 26
    assert torch.bincount(found.groups).tolist() == [26] * 22
    assert math.isclose(float(found.points.min()), -1.0)
    write_sample(found, tmp_path / "glyphs.npz")
    assert (tmp_path / "glyphs.npz").stat().st_size < 100_000
