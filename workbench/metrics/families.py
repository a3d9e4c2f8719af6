r"""Fisher metrics of families of distributions in closed form.

They serve twice: as curved spaces whose distances are known, and as the metric of an output space
(`Pullback(decoder, chart, onto=...)`), which makes the Fisher metric of any decoder's distribution. Entries
act on the last axis: the product families treat every output as its own distribution and add their metrics.

References:
    Atkinson, Mitchell, "Rao's distance measure", 1981
    Miyamoto, Meneghetti, Pinele, Costa, "On closed-form expressions for the Fisher-Rao distance", 2024,
        https://arxiv.org/abs/2304.14885
"""

import math

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.metrics.base import Chart
from workbench.metrics.plain import MatrixMetric


def _diagonal(*entries: Tensor) -> Tensor:
    return torch.diag_embed(torch.stack(torch.broadcast_tensors(*entries), dim=-1))


def _symmetric(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.stack((torch.stack((a, b), dim=-1), torch.stack((b, c), dim=-1)), dim=-2)


def gaussian(dim: int = 1) -> MatrixMetric:
    """N(mu, s^2 I) in coordinates (mu_1 .. mu_dim, s), s > 0: (|d mu|^2 + 2 dim ds^2) / s^2.

    Distance sqrt(2 dim) arcosh(1 + (|mu - mu'|^2 / (2 dim) + (s - s')^2) / (2 s s')); not Hessian in this
    chart.
    """

    def function(x: Tensor) -> Tensor:
        precision = x[..., -1] ** -2
        return _diagonal(*([precision] * dim), 2.0 * dim * precision)

    means = ("mu",) if dim == 1 else tuple(f"mu{i + 1}" for i in range(dim))
    chart = Chart("mean and standard deviation", dim + 1, (*means, "s"))
    return MatrixMetric(function, chart, "Fisher of a Gaussian", 0.0, lambda x: x[..., -1] > 0.0)


def covariance(dim: int) -> MatrixMetric:
    """N(0, S) in the dim (dim + 1) / 2 entries of S, row by row from the diagonal: 1/2 tr(S^-1 dS S^-1 dS).

    Distance sqrt(1/2 sum ln^2 of the eigenvalues of S^-1 S').
    """
    rows, columns = torch.triu_indices(dim, dim)
    size = rows.numel()
    basis = torch.zeros(size, dim, dim)
    basis[torch.arange(size), rows, columns] = 1.0
    basis[torch.arange(size), columns, rows] = 1.0

    def assemble(x: Tensor) -> Tensor:
        return torch.einsum("...k,kij->...ij", x, basis.to(x))

    def function(x: Tensor) -> Tensor:
        scaled = torch.linalg.solve(assemble(x).unsqueeze(-3), basis.to(x))
        return 0.5 * torch.einsum("...aij,...bji->...ab", scaled, scaled)

    def positive(x: Tensor) -> Tensor:
        return torch.linalg.cholesky_ex(assemble(x.detach())).info == 0

    axes = tuple(f"S{int(i) + 1}{int(j) + 1}" for i, j in zip(rows, columns, strict=True))
    return MatrixMetric(
        function, Chart("covariance entries", size, axes), "Fisher of a covariance", 0.0, positive
    )


def categorical(count: int) -> MatrixMetric:
    """A categorical over `count` outcomes in the first count - 1 probabilities.

    g_ij = delta_ij / p_i + 1 / p_last; distance 2 arccos sum sqrt(p q).
    """
    if count < 2:
        raise SettingError(f"{count} outcomes", "two or more")

    def function(x: Tensor) -> Tensor:
        last = 1.0 - x.sum(dim=-1)
        return torch.diag_embed(1.0 / x) + (1.0 / last)[..., None, None]

    def domain(x: Tensor) -> Tensor:
        return (x > 0.0).all(dim=-1) & (x.sum(dim=-1) < 1.0)

    axes = tuple(f"p{i + 1}" for i in range(count - 1)) if count <= 17 else ()
    return MatrixMetric(
        function, Chart("probabilities", count - 1, axes), "Fisher of a categorical", 0.0, domain
    )


def _product(entry, dim: int, chart: str, axis: str, name: str, low: float, high: float) -> MatrixMetric:
    axes = (axis,) if dim == 1 else ()
    return MatrixMetric(
        lambda x: torch.diag_embed(entry(x)),
        Chart(chart, dim, axes),
        name,
        0.0,
        lambda x: ((x > low) & (x < high)).all(dim=-1),
    )


def bernoulli(dim: int = 1) -> MatrixMetric:
    """Independent Bernoulli outputs in their probabilities: 2 |asin sqrt p - asin sqrt q| for each."""
    return _product(
        lambda p: 1.0 / (p * (1.0 - p)), dim, "probability", "p", "Fisher of a Bernoulli", 0.0, 1.0
    )


def bernoulli_logits(dim: int = 1) -> MatrixMetric:
    """Independent Bernoulli outputs in their logits, where the log partition function is softplus."""
    return _product(
        lambda e: torch.sigmoid(e) * torch.sigmoid(-e),
        dim,
        "logit",
        "eta",
        "Fisher of a Bernoulli",
        -math.inf,
        math.inf,
    )


def categorical_logits(count: int) -> MatrixMetric:
    """A categorical in its `count` logits: diag(p) - p p^T, singular along the shift of all logits."""

    def function(x: Tensor) -> Tensor:
        p = torch.softmax(x, dim=-1)
        return torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)

    return MatrixMetric(function, Chart("logits", count), "Fisher of a categorical")


def poisson(dim: int = 1) -> MatrixMetric:
    """Independent Poisson outputs in their rates; distance 2 |sqrt a - sqrt b| for each."""
    return _product(lambda a: 1.0 / a, dim, "rate", "rate", "Fisher of a Poisson", 0.0, math.inf)


def exponential(dim: int = 1) -> MatrixMetric:
    """Independent exponential outputs in their rates; distance |ln(a / b)| for each."""
    return _product(lambda a: a**-2, dim, "rate", "rate", "Fisher of an exponential", 0.0, math.inf)


def gaussian_outputs(dim: int, deviation: float = 1.0) -> MatrixMetric:
    """Independent Gaussian outputs of one fixed deviation, in their means: I / deviation^2."""
    return _product(
        lambda m: torch.full_like(m, deviation**-2),
        dim,
        "mean",
        "mu",
        "Fisher of a Gaussian mean",
        -math.inf,
        math.inf,
    )


def beta() -> MatrixMetric:
    """Beta(a, b) in (a, b): the Hessian of ln B, from trigamma functions."""

    def function(x: Tensor) -> Tensor:
        a, b = x[..., 0], x[..., 1]
        both = torch.special.polygamma(1, a + b)
        return _symmetric(torch.special.polygamma(1, a) - both, -both, torch.special.polygamma(1, b) - both)

    chart = Chart("natural", 2, ("a", "b"))
    return MatrixMetric(function, chart, "Fisher of a Beta", 0.0, lambda x: (x > 0.0).all(dim=-1))


def gamma() -> MatrixMetric:
    """Gamma in (shape k, rate r): [[trigamma k, -1/r], [-1/r, k/r^2]]."""

    def function(x: Tensor) -> Tensor:
        k, r = x[..., 0], x[..., 1]
        return _symmetric(torch.special.polygamma(1, k), -1.0 / r, k / r**2)

    chart = Chart("shape and rate", 2, ("k", "r"))
    return MatrixMetric(function, chart, "Fisher of a Gamma", 0.0, lambda x: (x > 0.0).all(dim=-1))


def gamma_mean() -> MatrixMetric:
    """Gamma in (shape k, mean m): diag(trigamma k - 1/k, k/m^2); the space of `gamma`."""

    def function(x: Tensor) -> Tensor:
        k, m = x[..., 0], x[..., 1]
        return _diagonal(torch.special.polygamma(1, k) - 1.0 / k, k / m**2)

    chart = Chart("shape and mean", 2, ("k", "m"))
    return MatrixMetric(function, chart, "Fisher of a Gamma", 0.0, lambda x: (x > 0.0).all(dim=-1))
