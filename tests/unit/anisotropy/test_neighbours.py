"""Neighbouring directions: classifiers, tangent kernels, harmonics of a trained denoiser."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from workbench.anisotropy.geometry import average_geometry
from workbench.anisotropy.levels import ddpm_levels
from workbench.anisotropy.neighbours import (
    classifier_directions,
    find_harmonics,
    harmonics_of,
    kernel_directions,
    kernel_matrix,
    kernel_product,
)
from workbench.architectures import architecture_of, load_architecture
from workbench.errors import Cancelled, SettingError, ShapeError
from workbench.subjects import open_subject
from workbench.worlds import load_world


def test_linear_classifier_has_no_preference_but_the_filter_before_it():
    scale = torch.diag(torch.tensor([3.0, 2.0, 1.0]))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, x):
            return self.layer(x @ scale)

    found = classifier_directions(Net, torch.zeros(3), networks=4000)
    assert (found.space, found.order) == ("input", "descending")
    assert "opposite" in found.preferred
    assert_close(found.values, torch.tensor([9.0, 4.0, 1.0]) / 9, rtol=0.08, atol=0)
    assert_close(found.vectors.abs(), torch.eye(3), rtol=0, atol=0.05)


def test_a_flat_classifier_gets_one_sentence():
    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1)

        def forward(self, x):
            return self.layer(x * 0.0)

    with pytest.raises(SettingError, match="gradient is zero"):
        classifier_directions(Flat, torch.zeros(2), networks=4)


def test_kernel_of_the_last_layer_is_that_of_its_features():
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))
    x = torch.randn(1, 3)
    features = net[1](net[0](x))[0].detach()
    expected = (features.square().sum() + 1.0) * torch.eye(4)
    assert_close(kernel_matrix(net, (x,), layer="2"), expected)


@pytest.mark.parametrize("layer", [None, "0"])
def test_kernel_products_agree_with_the_matrix(layer):
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))
    x, vector = torch.randn(1, 3), torch.randn(4)
    matrix = kernel_matrix(net, (x,), layer=layer)
    assert_close(matrix, matrix.T)
    assert_close(kernel_product(net, (x,), vector, layer=layer), matrix @ vector)
    with pytest.raises(SettingError, match="dotted name"):
        kernel_matrix(net, (x,), layer="9")


def test_harmonics_of_a_known_denoiser_are_the_posterior_covariance(generator):
    world = load_world("ring")
    point, sigma = torch.tensor([0.9, 0.2]), 0.3
    found = find_harmonics(world, point, sigma, count=2, generator=generator)
    jacobian = torch.func.jacrev(lambda y: world.denoise(y[None], sigma)[0])(point)
    values, columns = torch.linalg.eigh(0.5 * (jacobian + jacobian.T))
    assert_close(found.values, values.flip(0), rtol=1e-8, atol=1e-10)
    assert_close((found.vectors @ columns).abs(), torch.eye(2).flip(0), rtol=0, atol=1e-6)
    assert found.asymmetry < 1e-8
    assert found.residuals.max() < 1e-4
    with pytest.raises(ShapeError, match=r"\(2,\)"):
        find_harmonics(world, torch.zeros(3), sigma, generator=generator)


def test_kernel_of_the_last_layer_has_the_directions_of_the_geometry():
    architecture = load_architecture("unet8-time")
    found = kernel_directions(architecture, networks=24, seed=5)
    assert found.order == "descending"
    levels = ddpm_levels()
    exact = average_geometry(architecture, networks=200, seed=0, levels=levels.only(500), dtype=torch.float64)
    quotients = exact.rayleigh(found.vectors)
    assert float(quotients[:4].mean()) > 5.0 * float(quotients[-32:].mean())
    top = torch.linalg.eigh(exact.matrix())[1][:, -1]
    assert abs(float(top @ found.vectors[0])) > 0.9
    with pytest.raises(SettingError, match="last layer is not linear"):
        kernel_directions(architecture_of(lambda: Rectified(), shape=(4,)))


class Rectified(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x, t):
        return torch.relu(self.inner(x))


def test_harmonics_of_a_subject_are_those_of_its_denoiser():
    """On the ring's denoiser Cov[x0 | y] / sigma^2, from central differences of D."""
    subject = open_subject(world="ring")
    found = harmonics_of(subject, seed=3)
    sigma = subject.frame.data_std
    noise = torch.randn(2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    point = subject.ends()[0] + sigma * noise
    steps = 1e-5 * torch.eye(2, dtype=torch.float64)
    rows = (subject.model.denoise(point + steps, sigma) - subject.model.denoise(point - steps, sigma)) / 2e-5
    assert_close(found.values, torch.linalg.eigvalsh(rows).flip(0), rtol=1e-6, atol=1e-8)
    assert found.order == "descending"


def test_harmonics_are_cancelled_between_two_iterations():
    class Later:
        asked = 0

        def is_set(self):
            self.asked += 1
            return self.asked > 1

    cancel = Later()
    with pytest.raises(Cancelled, match="before they settled"):
        harmonics_of(open_subject(world="ring"), cancel=cancel)
    assert cancel.asked == 2


def test_what_denoises_nothing_has_no_harmonics():
    with pytest.raises(SettingError, match="an energy without a density; expected a denoiser"):
        harmonics_of(open_subject(world="muller_brown"))
