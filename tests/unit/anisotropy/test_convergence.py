"""How many networks an estimate needs: 120 of the combined estimator do what a million plain ones do."""

import pytest
import torch
from torch.testing import assert_close

from workbench.anisotropy.geometry import Geometry, average_geometry, relative_error
from workbench.anisotropy.spectrum import find_score_spectrum
from workbench.architectures import load_architecture

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reference() -> Geometry:
    return average_geometry(load_architecture("unet16"), networks=5000, seed=1_000_000, dtype=torch.float32)


def test_120_networks_are_enough(reference):
    errors = [
        relative_error(average_geometry(load_architecture("unet16"), networks=120, seed=seed), reference)
        for seed in range(5)
    ]
    assert sorted(errors)[2] <= 0.075, errors


@pytest.mark.parametrize(
    ("estimator", "published", "spread"),
    [
        ("combined", (0.098, 0.049, 0.025), 1.35),
        ("weighted", (0.879, 0.437, 0.217), 1.35),
        ("rao_blackwell", (1.14, 0.72, 0.41), 2.5),
        ("plain", (4.12, 3.23, 2.10), 6.0),
    ],
)
def test_convergence_table(reference, estimator, published, spread):
    """The uniform draws of the noise level are heavy-tailed: one run of theirs only has the size."""
    errors, parts, weight = [], None, 0
    for first, networks in ((0, 50), (50, 150), (200, 600)):
        part = average_geometry(
            load_architecture("unet16"), networks=networks, first=first, seed=7, estimator=estimator
        )
        parts = part.core * networks if parts is None else parts + part.core * networks
        weight += networks
        errors.append(float((parts / weight - reference.core).norm() / reference.core.norm()))
    for error, known in zip(errors, published, strict=True):
        assert known / spread < error < known * spread, errors


def test_spectrum_of_the_published_network(reference):
    spectrum = find_score_spectrum(reference)
    found = torch.stack([spectrum.values[-1], spectrum.values[128], spectrum.values[0]])
    assert_close(found, torch.tensor([133.50, 1.808, 0.0977]), rtol=0.02, atol=0)
    assert_close(reference.trace.value, 968.0, rtol=0.01, atol=0)
    assert spectrum.overlaps[-1] > 0.999
    assert spectrum.band_overlaps.min() > 0.95
