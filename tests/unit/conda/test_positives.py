"""Pairs: each sampler draws from its law, and none crosses the edge of a trajectory."""

import pytest
import torch
from torch.testing import assert_close

from workbench.conda.context import join_sessions, make_context
from workbench.conda.positives import make_positives
from workbench.errors import SettingError, ShapeError

COUNT = 400


def _three_trajectories():
    groups = torch.arange(COUNT) * 3 // COUNT
    return groups, torch.rand(COUNT, 2, generator=torch.Generator().manual_seed(0))


def _draw(positives, generator, count=4000):
    reference = positives.references.draw(count, generator)
    return reference, positives.draw(reference, generator)


def test_time_steps_by_the_offset_inside_its_trajectory(generator):
    groups, _ = _three_trajectories()
    reference, positive = _draw(
        make_positives(make_context(COUNT, groups=groups), "time", offset=8), generator
    )
    assert torch.equal(positive, reference + 8)
    assert torch.equal(groups[positive], groups[reference])


def test_rows_in_any_order_are_paired_by_their_times(generator):
    times = torch.randperm(COUNT, generator=generator).double()
    reference, positive = _draw(make_positives(make_context(COUNT, times=times), "time", offset=3), generator)
    assert torch.equal(times[positive], times[reference] + 3)


def test_a_hole_in_time_ends_a_run(generator):
    times = torch.arange(COUNT) + 50.0 * (torch.arange(COUNT) >= 200)
    reference, positive = _draw(make_positives(make_context(COUNT, times=times), "time", offset=5), generator)
    assert not bool(((reference < 200) & (positive >= 200)).any())


def test_several_offsets_are_mixed(generator):
    reference, positive = _draw(make_positives(make_context(COUNT), "time", offset=(1, 4)), generator)
    share = (positive - reference == 4).double().mean().item()
    assert set((positive - reference).tolist()) == {1, 4}
    assert_close(share, 0.5, rtol=0, atol=0.05)


def test_delta_has_the_spread_it_was_given(generator):
    y = torch.linspace(0, 1, 20_001)
    positives = make_positives(make_context(len(y), y), "delta", delta=0.02)
    reference = torch.full((20_000,), 10_000)
    shift = y[positives.draw(reference, generator)] - y[10_000]
    assert_close(shift.std().item(), 0.02, rtol=0.03, atol=0)
    assert_close(shift.mean().item(), 0.0, rtol=0, atol=1e-3)


def test_time_delta_moves_by_increments_of_the_data(generator):
    y = torch.arange(COUNT) * 0.5
    reference, positive = _draw(make_positives(make_context(COUNT, y), "time_delta", offset=3), generator)
    inside = reference < COUNT - 3
    assert torch.equal((positive - reference)[inside], torch.full_like(reference[inside], 3))


def test_discrete_draws_other_frames_of_the_label_alike(generator):
    labels = torch.tensor([0, 1, 1, 2, 2, 2])
    positives = make_positives(make_context(6, labels), "discrete")
    reference, positive = _draw(positives, generator)
    assert torch.equal(labels[reference], labels[positive])
    assert (reference != positive).all()
    assert 0 not in reference  # alone in its class
    drawn = torch.bincount(positive[reference == 3], minlength=6).double()
    assert_close(drawn[4] / drawn.sum(), torch.tensor(0.5), rtol=0, atol=0.06)


def test_balanced_references_take_classes_equally_often(generator):
    labels = (torch.arange(COUNT) < 20).long()
    positives = make_positives(make_context(COUNT, labels), "discrete", prior="balanced")
    share = (labels[positives.references.draw(4000, generator)] == 1).double().mean()
    assert_close(share, torch.tensor(0.5), rtol=0, atol=0.04)


def test_mixed_keeps_the_label_and_moves_the_variable(generator):
    labels = torch.arange(COUNT) % 2
    y = torch.arange(COUNT) * 1.0
    reference, positive = _draw(make_positives(make_context(COUNT, y, labels), "mixed", offset=4), generator)
    assert torch.equal(labels[reference], labels[positive])
    assert ((positive - reference)[reference < COUNT - 4] == 4).all()


@pytest.mark.parametrize("inner", ["time", "time_delta", "delta", "discrete", "mixed"])
def test_multi_never_leaves_a_trajectory_and_takes_all_alike(inner, generator):
    groups = (torch.arange(COUNT) < 40).long()
    _, y = _three_trajectories()
    context = make_context(COUNT, y, torch.arange(COUNT) % 3, groups=groups)
    reference, positive = _draw(make_positives(context, "multi", inner=inner, delta=0.3), generator)
    assert torch.equal(groups[reference], groups[positive])
    share = (groups[reference] == 1).double().mean().item()
    balanced = 0.5 if inner not in ("discrete", "mixed") else share  # there, label and trajectory together
    assert_close(share, balanced, rtol=0, atol=0.04)


@pytest.mark.parametrize("kind", ["time", "time_delta"])
def test_increments_never_cross_an_edge(kind, generator):
    groups, _ = _three_trajectories()
    y = torch.arange(COUNT) * 1.0 + 1000.0 * groups  # an increment across an edge would be seen
    reference, positive = _draw(
        make_positives(make_context(COUNT, y, groups=groups), kind, offset=2), generator
    )
    assert ((positive - reference).abs() <= 2).all()


def test_windows_stop_at_edges():
    groups = torch.tensor([0, 0, 0, 1, 1, 1])
    windows = make_context(6, groups=groups).windows(5)
    assert windows[2].tolist() == [0, 1, 2, 2, 2]
    assert windows[3].tolist() == [3, 3, 3, 4, 5]


def test_a_selection_remembers_what_was_taken_out(generator):
    context = make_context(COUNT).select(torch.cat([torch.arange(100), torch.arange(150, COUNT)]))
    reference, positive = _draw(make_positives(context, "time", offset=5), generator)
    assert not bool(((reference < 100) & (positive >= 100)).any())


def test_sessions_become_groups():
    table, groups = join_sessions([torch.zeros(3, 2), torch.ones(4, 2)])
    assert table.shape == (7, 2)
    assert groups.tolist() == [0] * 3 + [1] * 4


@pytest.mark.parametrize(
    ("kind", "indices", "options", "says"),
    [
        ("delta", (), {}, "no continuous variable"),
        ("discrete", (), {}, "no labels"),
        ("discrete", (torch.zeros(6, dtype=torch.long),), {}, "constant labels"),
        ("discrete", (torch.arange(6),), {}, "occur once each"),
        ("delta", (torch.ones(6),), {}, "a constant variable"),
        ("time", (), {"offset": 6}, "offset=6 where the longest trajectory has 6 frames"),
        ("time", (), {"offset": 0}, "offset=0"),
        ("nearest", (), {}, "positives='nearest'"),
        ("delta", (torch.arange(6.0),), {"delta": -1.0}, "delta=-1.0"),
    ],
)
def test_what_cannot_be_paired_is_refused_in_one_sentence(kind, indices, options, says):
    with pytest.raises(SettingError, match=says):
        make_positives(make_context(6, *indices), kind, **options)


def test_one_short_trajectory_is_named_by_multi():
    groups = torch.tensor([0] * 8 + [1] * 3)
    with pytest.raises(SettingError, match="trajectory 1 of 3 frames"):
        make_positives(make_context(11, groups=groups), "multi", offset=4)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"indices": (torch.zeros(5, dtype=torch.long),)}, ShapeError, "5 entries"),
        ({"indices": (torch.tensor([0.0, torch.nan, 1.0, 2.0, 3.0, 4.0]),)}, SettingError, "row 1"),
        ({"indices": (torch.arange(6), torch.arange(6))}, SettingError, "two arrays of labels"),
        ({"times": torch.tensor([0.0, 1, 1, 2, 3, 4])}, SettingError, "two frames at time 1"),
        ({"groups": torch.zeros(7)}, ShapeError, "groups with 7 entries"),
    ],
)
def test_bad_context_is_refused_in_one_sentence(given, error, says):
    indices = given.pop("indices", ())
    with pytest.raises(error, match=says):
        make_context(6, *indices, **given)
