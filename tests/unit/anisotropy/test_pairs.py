"""Networks along several directions of a spectrum, and how a data set lies for a learner."""

import threading

import pytest
import torch
from torch.testing import assert_close

from workbench.anisotropy.alignment import align, second_moment
from workbench.anisotropy.denoising import DenoisingSettings
from workbench.anisotropy.geometry import average_geometry
from workbench.anisotropy.pairs import find_lay, train_pairs
from workbench.anisotropy.spectrum import find_score_spectrum
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


def test_a_lay_is_the_alignment_of_the_data(generator):
    points = torch.randn(40, 64, generator=generator, dtype=torch.float64)
    lay = find_lay(load_architecture("dit8-2"), points, name="noise", networks=4, seed=1)
    geometry = average_geometry(load_architecture("dit8-2"), networks=4, seed=1)
    assert_close(lay.alignment.value, align(geometry, second_moment(points)).value)
    assert (lay.name, lay.points.shape, lay.shape) == ("noise", (9, 64), (1, 8, 8))
    with pytest.raises(SettingError, match="noise of 9 pixels"):
        find_lay(load_architecture("dit8-2"), points[:, :9], name="noise")
