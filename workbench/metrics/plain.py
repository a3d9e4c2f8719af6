r"""Metrics that need no Jacobian: Euclidean, sums and multiples, conformal, and matrices given as a function.

A conformal metric stretches all directions alike, :math:`g = e^{2 f(x)} I`. With :math:`f = -b \log p` it is
the density (Fermat) metric :math:`p^{-2b} I`, whose geodesics prefer where data are dense; b = 1/dim keeps
distances of the order of the data's own spacing.

References:
    Sorrenson, Behrend-Uriarte, Schnoerr, Koethe, "Learning Distances from Data with Normalizing Flows and
        Score Matching", 2025, https://arxiv.org/abs/2407.09297
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.metrics.base import Chart, Metric, inside, matrix
from workbench.models import ExactScore
from workbench.types import Matrices, Points, Scalars, Vectors


def _identity(x: Tensor) -> Tensor:
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    return eye.expand(*x.shape[:-1], *eye.shape)


@dataclass(frozen=True, slots=True)
class Euclidean:
    """The flat metric of a chart: g = I."""

    chart: Chart
    name: str = "Euclidean"
    calls: float = 0.0

    def inner(self, x: Points, u: Vectors, v: Vectors) -> Scalars:
        """u . v, whatever x."""
        return (u * v).sum(dim=-1)

    def matrix(self, x: Points) -> Matrices:
        """The identity at every point."""
        return _identity(x)

    def raise_index(self, x: Points, w: Vectors) -> Vectors:
        """w itself."""
        return w


@dataclass(frozen=True, slots=True)
class Scaled:
    """A positive multiple of a metric: lengths are sqrt(factor) times as long."""

    metric: Metric
    factor: float

    def __post_init__(self) -> None:
        if not self.factor > 0.0:
            raise SettingError(f"factor {self.factor}", "a positive number")

    @property
    def name(self) -> str:
        """Factor and name."""
        return f"{self.factor:g} {self.metric.name}"

    @property
    def chart(self) -> Chart:
        """The chart of the metric."""
        return self.metric.chart

    @property
    def calls(self) -> float:
        """The cost of the metric."""
        return self.metric.calls

    def inner(self, x: Points, u: Vectors, v: Vectors) -> Scalars:
        """The multiple of its inner product."""
        return self.factor * self.metric.inner(x, u, v)

    def matrix(self, x: Points) -> Matrices:
        """The multiple of its matrix."""
        return self.factor * matrix(self.metric, x)

    def inside(self, x: Points) -> Tensor:
        """The same domain."""
        return inside(self.metric, x)


@dataclass(frozen=True, slots=True)
class Sum:
    """Two metrics of one chart added; with `Scaled(Euclidean(chart), eps)` a visible regularisation."""

    first: Metric
    second: Metric

    def __post_init__(self) -> None:
        if self.first.chart.dim != self.second.chart.dim:
            raise SettingError(
                f"charts of {self.first.chart.dim} and {self.second.chart.dim} coordinates",
                "metrics of one chart",
            )

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.first.name} + {self.second.name}"

    @property
    def chart(self) -> Chart:
        """The chart of the first."""
        return self.first.chart

    @property
    def calls(self) -> float:
        """Both costs."""
        return self.first.calls + self.second.calls

    def inner(self, x: Points, u: Vectors, v: Vectors) -> Scalars:
        """Sum of the inner products."""
        return self.first.inner(x, u, v) + self.second.inner(x, u, v)

    def matrix(self, x: Points) -> Matrices:
        """Sum of the matrices."""
        return matrix(self.first, x) + matrix(self.second, x)

    def inside(self, x: Points) -> Tensor:
        """Inside both domains."""
        return inside(self.first, x) & inside(self.second, x)


@dataclass(frozen=True, slots=True)
class Conformal:
    """g = exp(2 f) I for a log factor f of position.

    Attributes:
        log_factor: f, from points (*batch, dim) to one number each; differentiable.
        chart: The coordinates.
        name: Its name.
        calls: Model calls of one evaluation of f.
        domain: True inside the domain; None for everywhere.
    """

    log_factor: Callable[[Tensor], Tensor]
    chart: Chart
    name: str = "conformal"
    calls: float = 1.0
    domain: Callable[[Tensor], Tensor] | None = None

    def inner(self, x: Points, u: Vectors, v: Vectors) -> Scalars:
        """exp(2 f(x)) u . v."""
        return torch.exp(2.0 * self.log_factor(x)) * (u * v).sum(dim=-1)

    def matrix(self, x: Points) -> Matrices:
        """exp(2 f(x)) I: one evaluation of f."""
        return torch.exp(2.0 * self.log_factor(x))[..., None, None] * _identity(x)

    def raise_index(self, x: Points, w: Vectors) -> Vectors:
        """exp(-2 f(x)) w."""
        return torch.exp(-2.0 * self.log_factor(x)).unsqueeze(-1) * w

    def inside(self, x: Points) -> Tensor:
        """Inside the domain, if there is one."""
        if self.domain is None:
            return torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)
        return self.domain(x)


def density_metric(model: ExactScore, sigma: float, *, power: float | None = None) -> Conformal:
    """The density (Fermat) metric p^(-2 b) I of a model whose log density is known.

    Args:
        model: A model with `log_prob`.
        sigma: Noise level at which its density is taken, in the data's unit.
        power: b; None for 1/dim.

    Returns:
        The conformal metric; one model call an inner product.
    """
    dim = model.frame.dim
    b = 1.0 / dim if power is None else power
    return Conformal(
        lambda x: -b * model.log_prob(x, sigma),
        Chart(f"data space of {model.frame.name}", dim),
        f"density metric, b = {b:.3g}, sigma = {sigma:g}",
    )


def half_plane() -> Conformal:
    """The hyperbolic half-plane (dx^2 + dy^2) / y^2, y > 0: distance arcosh(1 + |a - b|^2 / (2 y_a y_b))."""
    return Conformal(
        lambda x: -torch.log(x[..., 1]),
        Chart("half-plane", 2, ("x", "y")),
        "hyperbolic half-plane",
        0.0,
        lambda x: x[..., 1] > 0.0,
    )


@dataclass(frozen=True, slots=True)
class MatrixMetric:
    """A metric given by its matrix as a function; refused where that is not positive (`check_positive`).

    Attributes:
        function: From points (*batch, dim) to symmetric matrices (*batch, dim, dim); differentiable.
        chart: The coordinates.
        name: Its name.
        calls: Model calls of one evaluation.
        domain: True inside the domain; None for everywhere.
    """

    function: Callable[[Tensor], Tensor]
    chart: Chart
    name: str = "matrix"
    calls: float = 0.0
    domain: Callable[[Tensor], Tensor] | None = None

    def inner(self, x: Points, u: Vectors, v: Vectors) -> Scalars:
        """u^T g(x) v."""
        return torch.einsum("...i,...ij,...j->...", u, self.function(x), v)

    def matrix(self, x: Points) -> Matrices:
        """g(x) as given."""
        return self.function(x)

    def inside(self, x: Points) -> Tensor:
        """Inside the domain, if there is one."""
        if self.domain is None:
            return torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)
        return self.domain(x)
