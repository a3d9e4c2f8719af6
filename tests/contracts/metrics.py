"""Every metric that the contract runs over, with points of its domain. A new metric adds one line here."""

import torch
from torch import Tensor

from workbench.metrics import (
    Chart,
    Euclidean,
    Pullback,
    RankOneScore,
    RiemannianVae,
    Scaled,
    Spacetime,
    Sum,
    decoder_metric,
    density_metric,
    families,
    feature_metric,
    half_plane,
    hessian,
    in_coordinates,
    score_jacobian_metric,
)
from workbench.worlds import GaussianMixture


def sphere_map(x: Tensor) -> Tensor:
    theta, phi = x[..., 0], x[..., 1]
    return torch.stack(
        (torch.sin(theta) * torch.cos(phi), torch.sin(theta) * torch.sin(phi), torch.cos(theta)), dim=-1
    )


def curved_map(z: Tensor) -> Tensor:
    return torch.stack((torch.sin(z[..., 0]), z[..., 0] * z[..., 1], torch.cos(z[..., 1])), dim=-1)


def spread(z: Tensor) -> Tensor:
    return torch.exp(0.3 * z)


def mixture() -> GaussianMixture:
    weights, means = torch.tensor([0.275, 0.45, 0.275]), torch.tensor([[-2.5], [0.5], [2.5]])
    return GaussianMixture(
        "three on a line", weights.double(), means.double(), torch.full((3, 1, 1), 0.5625).double()
    )


def normal(dim: int) -> GaussianMixture:
    return GaussianMixture("normal", torch.ones(1), torch.zeros(1, dim), torch.eye(dim).unsqueeze(0))


def metrics() -> dict[str, tuple[object, Tensor]]:
    """Name -> (metric, points (count, dim))."""
    flat = Chart("plane", 2, ("x", "y"))
    plane = torch.tensor([[0.3, -0.2], [1.1, 0.7], [-0.4, 0.9]])
    positive = torch.tensor([[0.3, 0.2], [0.2, 0.5], [0.6, 0.3]])
    vae = RiemannianVae(plane, torch.tril(torch.randn(3, 2, 2)) + torch.eye(2), 0.8, 0.1)
    angles = torch.tensor([[1.0, 0.5], [0.3, 0.2], [2.0, 1.0]])
    return {
        "euclidean": (Euclidean(flat), plane),
        "scaled": (Scaled(half_plane(), 2.0), positive),
        "sum": (Sum(Euclidean(flat), half_plane()), positive),
        "half-plane": (half_plane(), positive),
        "density": (density_metric(normal(2), 0.3), plane),
        "sphere": (Pullback(sphere_map, Chart("angles", 2, ("theta", "phi"))), angles),
        "sphere, twice backward": (Pullback(sphere_map, Chart("angles", 2), double_backward=True), angles),
        "decoder": (decoder_metric(curved_map, flat, deviation=spread), plane),
        "features": (feature_metric(curved_map, torch.sin, flat), plane),
        "bernoulli decoder": (
            Pullback(lambda z: torch.sigmoid(curved_map(z)), flat, families.bernoulli(3)),
            plane,
        ),
        "gaussian": (families.gaussian(2), torch.tensor([[0.1, 0.2, 0.5], [1.0, 0.0, 2.0]])),
        "covariance": (families.covariance(2), torch.tensor([[2.0, 0.5, 1.0], [1.0, -0.3, 3.0]])),
        "categorical": (families.categorical(3), positive),
        "poisson": (families.poisson(2), positive),
        "exponential": (families.exponential(2), positive),
        "beta": (families.beta(), positive),
        "gamma": (families.gamma(), positive),
        "gamma by mean": (families.gamma_mean(), positive),
        "rank-one score": (RankOneScore(normal(2), 0.3, 4.0), plane),
        "score Jacobian": (score_jacobian_metric(mixture(), 0.3, epsilon=0.1), plane[:, :1]),
        "Riemannian VAE": (vae, plane),
        "Burg": (hessian.burg(), positive),
        "one spin": (hessian.log_cosh(), plane[:, :1]),
        "natural Gaussian": (hessian.gaussian_natural(), torch.tensor([[1.0, -0.5], [0.2, -2.0]])),
        "natural categorical": (hessian.categorical_natural(3), plane),
        "Burg in logs": (in_coordinates(hessian.burg(), torch.exp, Chart("logs", 2)), plane),
        "spacetime": (Spacetime(mixture()), torch.tensor([[0.0, 0.0], [1.0, -2.0], [0.3, 2.0]])),
    }
