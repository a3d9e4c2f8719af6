"""Networks along several directions of a spectrum, and how a data set lies for a learner."""

import threading
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from workbench.anisotropy.alignment import align, second_moment
from workbench.anisotropy.comparison import doubtful
from workbench.anisotropy.denoising import DenoisingSettings
from workbench.anisotropy.geometry import average_geometry
from workbench.anisotropy.pairs import find_lay, train_pairs, train_turns
from workbench.anisotropy.spectrum import RESOLVED, find_score_spectrum
from workbench.anisotropy.trials import train_rotated
from workbench.architectures import load_architecture
from workbench.errors import SettingError

SHORT = DenoisingSettings(steps=4, batch=8, levels=10)


def learner():
    architecture = load_architecture("dit8-2")
    return architecture, find_score_spectrum(average_geometry(architecture, networks=2, seed=0))


def test_pairs_go_from_the_smallest_to_the_largest_eigenvalue_with_the_same_seeds():
    architecture, spectrum = learner()
    shares = []
    trials = train_pairs(
        architecture,
        spectrum,
        seeds=2,
        seed=5,
        settings=SHORT,
        samples=8,
        progress=lambda share, words: shares.append(share),
    )
    ends = [spectrum.eigenvalue(0)] * 2 + [spectrum.eigenvalue(63)] * 2
    assert [t.eigenvalue for t in trials] == ends
    assert [t.seed for t in trials] == [5, 6, 5, 6]
    assert all(t.steps.tolist() == [1, 2, 4] for t in trials)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert [t.meaning for t in trials[::2]] == [spectrum.meaning(0), spectrum.meaning(63)]
    assert doubtful(trials) == (
        "λ_min: an arbitrary vector of the 36-dimensional null space; "
        "λ_max: an arbitrary vector of a 4-dimensional block"
    )
    assert doubtful([replace(t, meaning=RESOLVED) for t in trials]) == doubtful([]) == ""


def test_a_cancelled_plan_keeps_the_trials_so_far():
    cancel = threading.Event()
    trials = train_pairs(
        *learner(),
        settings=SHORT,
        samples=8,
        progress=lambda share, words: cancel.set() if share >= 0.5 else None,
        cancel=cancel,
    )
    assert len(trials) == 1
    with pytest.raises(SettingError, match="at least 2 and 1"):
        train_pairs(*learner(), directions=1)


def test_a_trial_that_was_cut_short_is_left_out():
    """Less training looks like a harder direction."""
    cancel = threading.Event()
    trials = train_pairs(
        *learner(),
        settings=SHORT,
        samples=8,
        progress=lambda share, words: cancel.set() if share > 0.5 else None,
        cancel=cancel,
    )
    assert [int(t.steps[-1]) for t in trials] == [SHORT.steps]


def test_a_lay_is_the_alignment_of_the_data(generator):
    points = torch.randn(40, 64, generator=generator, dtype=torch.float64)
    lay = find_lay(load_architecture("dit8-2"), points, name="noise", networks=4, seed=1)
    geometry = average_geometry(load_architecture("dit8-2"), networks=4, seed=1)
    assert_close(lay.alignment.value, align(geometry, second_moment(points)).value)
    assert (lay.name, lay.points.shape, lay.shape) == ("noise", (9, 64), (1, 8, 8))
    with pytest.raises(SettingError, match="noise of 9 pixels"):
        find_lay(load_architecture("dit8-2"), points[:, :9], name="noise")


def test_turned_data_are_learnt_in_their_three_bases_with_the_same_seeds(generator):
    points = torch.randn(60, 64, generator=generator, dtype=torch.float64) * torch.linspace(0.1, 2, 64)
    architecture = load_architecture("dit8-2")
    lay = align(average_geometry(architecture, networks=2, seed=0), second_moment(points))
    shares, options = [], dict(settings=SHORT, samples=8)
    turned = train_turns(
        architecture, points, lay, seeds=2, seed=5, progress=lambda share, _: shares.append(share), **options
    )
    assert list(turned) == ["own", "w_min", "w_max"]
    assert shares == sorted(shares)
    for name, rotation, value in (
        ("own", None, lay.value),
        ("w_min", lay.w_min, lay.minimum),
        ("w_max", lay.w_max, lay.maximum),
    ):
        assert [t.seed for t in turned[name]] == [5, 6]
        assert [t.eigenvalue for t in turned[name]] == [value] * 2
        assert turned[name][0].steps.tolist() == [1, 2, 4]
        alone = train_rotated(architecture, points, rotation=rotation, seed=6, stops=[1, 2], **options)
        assert_close(turned[name][1].sliced, alone.sliced)
    with pytest.raises(SettingError, match="0 seeds"):
        train_turns(architecture, points, lay, seeds=0)
