"""The network for few directions: exact for a normal law, corrections where they belong, true derivatives."""

import pytest
import torch

from workbench.errors import ShapeError
from workbench.nets import Denoiser
from workbench.principal import PrincipalMlp
from workbench.training import TrainSettings, fit_denoiser
from workbench.zoo import build_net

DIM, AXES = 12, 3


@pytest.fixture
def data(generator: torch.Generator) -> torch.Tensor:
    """Points around a mean, wide in three directions and thin in the others."""
    basis = torch.linalg.qr(torch.randn(DIM, DIM, generator=generator)).Q
    spread = torch.tensor([2.0, 1.0, 0.5, *[0.05] * (DIM - AXES)])
    return 0.3 + (torch.randn(4000, DIM, generator=generator) * spread) @ basis.T


@pytest.fixture
def net(data: torch.Tensor) -> Denoiser:
    inner = PrincipalMlp(DIM, AXES, 16, 1, 2).double()
    inner.fit_axes(data, 0.5)
    return Denoiser(inner, classes=2, data_std=0.5)


@pytest.mark.parametrize("sigma", [0.01, 0.3, 5.0, 80.0])
def test_fresh_network_is_the_posterior_mean_of_the_normal_law(
    net: Denoiser, data: torch.Tensor, sigma: float
):
    y = data[:50] + sigma * torch.randn(50, DIM)
    mean, covariance = data.mean(0), torch.cov(data.T)
    values, vectors = torch.linalg.eigh(covariance)
    values[: DIM - AXES] = values[: DIM - AXES].mean()  # the rest has one deviation
    gain = vectors @ torch.diag(values / (values + sigma**2)) @ vectors.T
    expected = mean + (y - mean) @ gain
    found = net(y, torch.full((50,), sigma), torch.zeros(50, dtype=torch.long))
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)


def test_correction_stays_in_the_leading_directions(net: Denoiser, data: torch.Tensor):
    y, sigma, labels = data[:20] + 0.4, torch.full((20,), 0.4), torch.ones(20, dtype=torch.long)
    before = net(y, sigma, labels)
    with torch.no_grad():
        net.inner.core.leave.weight.normal_()
    change = net(y, sigma, labels) - before
    basis = net.inner.basis
    assert float(change.detach().norm()) > 0.1
    torch.testing.assert_close(change, change @ basis.T @ basis, rtol=1e-9, atol=1e-9)


def test_derivatives_are_true(net: Denoiser, data: torch.Tensor):
    with torch.no_grad():
        net.inner.core.leave.weight.normal_()
    sigma, labels = torch.full((3,), 0.4), torch.zeros(3, dtype=torch.long)
    y, tangent = data[:3].clone(), torch.randn(3, DIM)
    _, push = torch.func.jvp(lambda y: net(y, sigma, labels), (y,), (tangent,))
    step = 1e-6
    central = (net(y + step * tangent, sigma, labels) - net(y - step * tangent, sigma, labels)) / (2 * step)
    torch.testing.assert_close(push, central, rtol=1e-6, atol=1e-7)


def test_training_learns_what_no_normal_law_has(generator: torch.Generator):
    """Points on a circle in twelve dimensions: the trained network beats the normal law at moderate noise."""
    angle = torch.rand(2000, generator=generator) * 2 * torch.pi
    plane = torch.linalg.qr(torch.randn(DIM, 2, generator=generator)).Q
    circle = torch.stack([angle.cos(), angle.sin()], 1) @ plane.T
    inner = PrincipalMlp(DIM, 2, 32, 2, 0).double()
    inner.fit_axes(circle, 0.25)
    fresh = Denoiser(inner, classes=0, data_std=0.25)
    y = circle[:500] + 0.4 * torch.randn(500, DIM, generator=generator)
    sigma, labels = torch.full((500,), 0.4), torch.zeros(500, dtype=torch.long)
    with torch.no_grad():
        before = float((fresh(y, sigma, labels) - circle[:500]).square().mean())
    settings = TrainSettings(steps=300, batch=128, rate=5e-3, sigma_mean=-1.0, sigma_std=0.8, null_share=1.0)
    trained = fit_denoiser(fresh, circle, settings=settings, generator=generator).net
    assert float((trained(y, sigma, labels) - circle[:500]).square().mean()) < 0.8 * before


def test_a_card_describes_it():
    net = build_net(
        {
            "kind": "principal",
            "dim": DIM,
            "axes": AXES,
            "width": 16,
            "depth": 1,
            "classes": 2,
            "data_std": 0.5,
        }
    )
    assert isinstance(net.inner, PrincipalMlp)
    assert net.state_dict()["inner.basis"].shape == (AXES, DIM)


def test_too_few_points_are_one_sentence():
    with pytest.raises(ShapeError, match=r"^got data of shape \(3, 12\); expected more than 3 points of 12"):
        PrincipalMlp(DIM, AXES).fit_axes(torch.zeros(3, DIM), 0.5)


def test_as_many_directions_as_entries_leave_no_rest(data: torch.Tensor):
    inner = PrincipalMlp(DIM, DIM, 16, 1).double()
    inner.fit_axes(data, 0.5)
    found = Denoiser(inner, data_std=0.5)(data[:4], torch.full((4,), 0.3), torch.zeros(4, dtype=torch.long))
    assert bool(torch.isfinite(found).all())
    assert 0.0 < float(inner.rest) < 1e-3
