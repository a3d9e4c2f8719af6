"""Pairs of points whose distance is known: metric, start, end, distance."""

import math

import torch

from tests.contracts.metrics import mixture, normal, sphere_map
from tests.oracles import fisher as oracle
from workbench.metrics import (
    Chart,
    Pullback,
    RankOneScore,
    density_metric,
    families,
    half_plane,
    hessian,
    score_jacobian_metric,
)
from workbench.worlds import GaussianMixture

PI = math.pi


def torus_map(x):
    u, v = x[..., 0], x[..., 1]
    ring = 2.0 + torch.cos(u)
    return torch.stack((ring * torch.cos(v), ring * torch.sin(v), torch.sin(u)), dim=-1)


def roll_map(x):
    t = x[..., 0]
    return torch.stack((t * torch.cos(t), x[..., 1], t * torch.sin(t)), dim=-1)


def paraboloid_map(x):
    return torch.cat((x, x.square().sum(dim=-1, keepdim=True)), dim=-1)


SPHERE = Pullback(sphere_map, Chart("angles", 2, ("theta", "phi")), name="sphere")
TORUS = Pullback(torus_map, Chart("angles", 2, ("u", "v")), name="torus")
ROLL = Pullback(roll_map, Chart("roll", 2, ("t", "y")), name="Swiss roll")
PARABOLOID = Pullback(paraboloid_map, Chart("plane", 2, ("x", "y")), name="paraboloid")


def natural(mu, s):
    return (mu / s**2, -0.5 / s**2)


def wide_normal():
    return GaussianMixture(
        "wide normal", torch.ones(1), torch.zeros(1, 2), torch.tensor([[[2.0, 0.5], [0.5, 1.0]]])
    )


_S = torch.tensor([[2.0, 0.5], [0.5, 1.0]]).double()

CASES = {
    "gaussian, equal s": (families.gaussian, (0.0, 1.0), (1.0, 1.0), 0.980258143469),
    "gaussian, equal mu": (families.gaussian, (0.0, 1.0), (0.0, 2.0), 0.980258143469),
    "gaussian, far": (families.gaussian, (0.0, 1.0), (3.0, 0.5), 3.443183448602),
    "gaussian, narrow": (families.gaussian, (-1.0, 0.2), (1.0, 0.2), 5.587379156716),
    "gaussian, both": (families.gaussian, (0.0, 1.0), (1.0, 2.0), 1.189380931406),
    "gaussian in 2": (lambda: families.gaussian(2), (0.0, 0.0, 1.0), (0.6, 0.8, 2.0), 1.542614918346),
    "gaussian in 3": (
        lambda: families.gaussian(3),
        (0.0, 0.0, 0.0, 1.0),
        (1.0, 0.0, 0.0, 2.0),
        1.828105425393,
    ),
    "covariance": (lambda: families.covariance(2), (2.0, 0.5, 1.0), (1.0, -0.3, 3.0), 1.090853284123),
    "categorical": (lambda: families.categorical(3), (0.2, 0.3), (0.6, 0.3), 1.031119217363),
    "natural categorical": (
        lambda: hessian.categorical_natural(3),
        (math.log(0.4), math.log(0.6)),
        (math.log(6.0), math.log(3.0)),
        1.031119217363,
    ),
    "bernoulli": (families.bernoulli, (0.1,), (0.7,), 1.338812064069),
    "poisson": (families.poisson, (2.0,), (7.0,), 2.463075497383),
    "exponential": (families.exponential, (2.0,), (7.0,), math.log(3.5)),
    "Burg": (hessian.burg, (0.2, 3.0), (2.0, 0.5), 2.917584635627),
    "one spin": (hessian.log_cosh, (-1.0,), (2.0,), 2.167529819286),
    "natural Gaussian": (hessian.gaussian_natural, natural(0.0, 1.0), natural(1.0, 2.0), 1.189380931406),
    "natural Gaussian, narrow": (
        hessian.gaussian_natural,
        natural(-1.0, 0.2),
        natural(1.0, 0.2),
        5.587379156716,
    ),
    "beta": (families.beta, (1.0, 1.0), (2.0, 3.0), 0.818372588),
    "gamma": (families.gamma, (1.0, 1.0), (2.0, 3.0), 0.72004986),
    "gamma by mean": (families.gamma_mean, (1.0, 1.0), (2.0, 3.0), 1.36947416),
    "sphere, circle of latitude": (lambda: SPHERE, (1.0, 0.0), (1.0, 1.5), 1.221737318428),
    "sphere": (lambda: SPHERE, (0.5, 0.2), (2.0, 2.2), 2.149116950256),
    "torus": (lambda: TORUS, (0.5, 0.0), (2.5, 2.0), 3.866239782376),
    "torus, top to bottom": (lambda: TORUS, (PI / 2, 0.0), (1.5 * PI, 2.0), 4.021241887274),
    "torus, level": (lambda: TORUS, (PI / 3, 0.0), (PI / 3, 1.5), 3.438153948256),
    "torus, inner equator": (lambda: TORUS, (PI, 0.0), (PI, 1.5), 1.5),
    "Swiss roll": (lambda: ROLL, (1.5 * PI, 0.0), (4.5 * PI, 10.0), 89.930985941839),
    "paraboloid": (lambda: PARABOLOID, (1.0, 0.0), (0.0, 1.0), 1.537330418475),
    "paraboloid, meridian": (lambda: PARABOLOID, (0.5, 0.0), (2.0, 0.0), 4.072886975085),
    "half-plane": (half_plane, (0.0, 1.0), (3.0, 0.5), oracle.half_plane_distance((0.0, 1.0), (3.0, 0.5))),
    "half-plane, low": (
        half_plane,
        (0.0, 0.1),
        (2.0, 0.1),
        oracle.half_plane_distance((0.0, 0.1), (2.0, 0.1)),
    ),
    "score": (lambda: RankOneScore(normal(2), 0.0, 4.0), (1.0, 0.0), (0.0, 1.0), 1.537330418475),
    "score, radial": (lambda: RankOneScore(normal(2), 0.0, 4.0), (0.5, 0.0), (2.0, 0.0), 4.072886975085),
    "score, heavy": (lambda: RankOneScore(normal(2), 0.0, 100.0), (0.5, 0.0), (2.0, 0.0), 18.819082792488),
    "score Jacobian": (
        lambda: score_jacobian_metric(wide_normal(), 0.0),
        (1.0, 0.0),
        (-1.0, 2.0),
        float(torch.linalg.vector_norm(torch.linalg.solve(_S, torch.tensor([2.0, -2.0]).double()))),
    ),
    "density, radial": (
        lambda: density_metric(normal(2), 0.0, power=0.5),
        (0.0, 0.0),
        (2.0, 0.0),
        7.332648444459,
    ),
    "density": (lambda: density_metric(normal(2), 0.0, power=0.5), (1.0, 0.0), (0.0, 1.0), 4.153584270113),
}
"""Every distance of a closed form that the engine is held to."""

__all__ = ["CASES", "PARABOLOID", "ROLL", "SPHERE", "TORUS", "mixture", "natural"]
