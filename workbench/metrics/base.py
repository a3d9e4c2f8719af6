r"""What a metric is, and everything that follows from its inner product.

A metric gives lengths to small steps in a chart: :math:`\langle u, v\rangle_x = u^\top g(x)\, v`. The inner
product is the primitive, so that no dim x dim matrix is ever required; where dim is small the matrix is built
from it, and from its eigenvalues :math:`\lambda_i`

.. math::
    \text{magnification} = \sqrt{\det g},\quad \text{condition} = \lambda_{\max}/\lambda_{\min},\quad
    \text{anisotropy} = \sqrt{\tfrac{d}{d-1}}\,\|\lambda - \bar\lambda\| / \|\lambda\| \in [0, 1].

A metric is positive semidefinite by construction or it is refused where it is used (`check_positive`);
eigenvalues are never clipped.

References:
    Amari, "Information Geometry and Its Applications", 2016, chapter 1
    Basser, Pierpaoli, "Microstructural and physiological features of tissues", 1996 (fractional anisotropy)
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from workbench.errors import SettingError, ShapeError
from workbench.forward import jvp
from workbench.types import Matrices, Points, Scalars, Vectors

DENSE_LIMIT = 16
"""Largest dimension in which dim x dim matrices are built."""


@dataclass(frozen=True, slots=True)
class Chart:
    """The coordinates that a metric is written in.

    Attributes:
        name: Their name, as figures print it; a Hessian metric is one only in its natural coordinates.
        dim: Number of coordinates.
        axes: Name of each coordinate; empty where there are too many to name.
    """

    name: str
    dim: int
    axes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.dim < 1:
            raise SettingError(f"a chart of {self.dim} coordinates", "at least one")
        if self.axes and len(self.axes) != self.dim:
            raise SettingError(
                f"{len(self.axes)} axis names for {self.dim} coordinates", "one name a coordinate"
            )


@runtime_checkable
class Metric(Protocol):
    """The role: an inner product at every point of a chart.

    `calls` is the cost of one inner product at one point, in forward evaluations of the underlying model (a
    Jacobian-vector product counts 2, a vector-Jacobian product 3); 0 for closed forms.
    """

    @property
    def name(self) -> str:
        """Its name, as figures print it."""
        ...

    @property
    def chart(self) -> Chart:
        """The coordinates it is written in."""
        ...

    @property
    def calls(self) -> float:
        """Model calls for one inner product at one point."""
        ...

    def inner(self, x: Points, u: Vectors, v: Vectors) -> Scalars:
        """u^T g(x) v; differentiable in x, u and v."""
        ...


@runtime_checkable
class DenseMetric(Protocol):
    """A metric that knows a shorter way to its matrix than dim^2 inner products."""

    def matrix(self, x: Points) -> Matrices:
        """g(x); differentiable in x."""
        ...


@runtime_checkable
class Bounded(Protocol):
    """A metric that is defined on a part of its chart only."""

    def inside(self, x: Points) -> Tensor:
        """True where x lies in the domain, shape (*batch)."""
        ...


@runtime_checkable
class Solvable(Protocol):
    """A metric whose inverse is known without its matrix, at any dimension."""

    def raise_index(self, x: Points, w: Vectors) -> Vectors:
        """g(x)^-1 w; differentiable."""
        ...


def inner(metric: Metric, x: Points, u: Vectors, v: Vectors) -> Scalars:
    """u^T g(x) v, one number a point; `metric.calls` model calls."""
    return metric.inner(x, u, v)


def norm(metric: Metric, x: Points, u: Vectors) -> Scalars:
    """Length of the step u at x, in the metric's unit; NaN where the metric is indefinite along u."""
    return torch.sqrt(metric.inner(x, u, u))


def inside(metric: Metric, x: Points) -> Tensor:
    """True where x lies in the metric's domain, shape (*batch); true everywhere for an unbounded one."""
    if isinstance(metric, Bounded):
        return metric.inside(x)
    return torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)


def matrix(metric: Metric, x: Points) -> Matrices:
    """The matrix g(x) at small dimension.

    Args:
        metric: The metric.
        x: Points of its chart, shape (*batch, dim).

    Returns:
        Symmetric matrices, shape (*batch, dim, dim). Differentiable in x. Up to dim^2 inner products a point.

    Raises:
        SettingError: If dim exceeds `DENSE_LIMIT`.
    """
    dim = x.shape[-1]
    if dim > DENSE_LIMIT:
        raise SettingError(
            f"the matrix of {metric.name} in {dim} dimensions",
            f"at most {DENSE_LIMIT}",
            "inner and norm, top_directions of its Jacobian, or a slice of few axes",
        )
    if isinstance(metric, DenseMetric):
        return metric.matrix(x)
    eye = torch.eye(dim, dtype=x.dtype, device=x.device)
    spread = x[..., None, None, :].expand(*x.shape[:-1], dim, dim, dim)
    rows, columns = eye[:, None, :].expand_as(spread), eye[None, :, :].expand_as(spread)
    g = metric.inner(spread, rows, columns)
    return 0.5 * (g + g.mT)


def lower(metric: Metric, x: Points, v: Vectors) -> Vectors:
    """g(x) v without the matrix: the gradient of u^T g(x) v in u, at any dimension.

    Args:
        metric: The metric.
        x: Points, shape (*batch, dim).
        v: Vectors at them.

    Returns:
        Covectors of v's shape. Differentiable. One inner product and its gradient.
    """
    with torch.enable_grad():
        u = torch.zeros_like(v, requires_grad=True)
        value = metric.inner(x, u, v).sum()
        (answer,) = torch.autograd.grad(value, u, create_graph=x.requires_grad or v.requires_grad)
    return answer


def spectrum(metric: Metric, x: Points) -> tuple[Points, Matrices]:
    """Eigenvalues of g(x), ascending, and its eigenvectors in columns; dim at most `DENSE_LIMIT`."""
    return torch.linalg.eigh(matrix(metric, x))


def magnification(metric: Metric, x: Points) -> Scalars:
    """sqrt(det g): volume in the metric's unit that a unit volume of the chart holds; NaN where det g < 0."""
    return torch.exp(log_magnification(metric, x))


def log_magnification(metric: Metric, x: Points) -> Scalars:
    """Half the log determinant of g; -inf where g is singular, NaN where its determinant is negative."""
    sign, log_det = torch.linalg.slogdet(matrix(metric, x))
    return torch.where(sign < 0, torch.full_like(log_det, torch.nan), 0.5 * log_det)


def condition(metric: Metric, x: Points) -> Scalars:
    """Largest over smallest eigenvalue of g: 1 isotropic, inf singular, negative if indefinite."""
    values = torch.linalg.eigvalsh(matrix(metric, x))
    return values[..., -1] / values[..., 0]


def anisotropy(metric: Metric, x: Points) -> Scalars:
    """Fractional anisotropy of g: 0 if all directions are equal, 1 if only one has length."""
    return anisotropy_of(torch.linalg.eigvalsh(matrix(metric, x)))


def anisotropy_of(values: Points) -> Scalars:
    """Fractional anisotropy of given eigenvalues (last axis); 0 in one dimension."""
    dim = values.shape[-1]
    if dim == 1:
        return torch.zeros_like(values[..., 0])
    centred = values - values.mean(dim=-1, keepdim=True)
    size = torch.linalg.vector_norm(values, dim=-1).clamp_min(torch.finfo(values.dtype).tiny)
    return math.sqrt(dim / (dim - 1)) * torch.linalg.vector_norm(centred, dim=-1) / size


def derivatives(metric: Metric, x: Points) -> Tensor:
    """All first derivatives of the matrix: entry [..., k, i, j] is d g_ij / d x_k.

    Args:
        metric: The metric, at most `DENSE_LIMIT` dimensions.
        x: Points, shape (*batch, dim).

    Returns:
        Shape (*batch, dim, dim, dim). Costs dim forward derivatives of the matrix.
    """
    dim = x.shape[-1]
    eye = torch.eye(dim, dtype=x.dtype, device=x.device).reshape(dim, *(1,) * (x.ndim - 1), dim)
    spread = x.expand(dim, *x.shape)
    tangents = jvp(
        lambda y: matrix(metric, y), (spread.contiguous(),), (eye.expand_as(spread).contiguous(),)
    )[1]
    return tangents.movedim(0, -3)


def hessian_residual(metric: Metric, x: Points) -> Scalars:
    """How far the metric is from being a Hessian in this chart: 0 if it is locally one, up to about 1.

    In given coordinates g is locally the Hessian of a potential if and only if d_k g_ij is symmetric in all
    three indices; the number is the size of what is not, relative to all of it.

    Args:
        metric: The metric, at most `DENSE_LIMIT` dimensions.
        x: Points, shape (*batch, dim).

    Returns:
        One number a point; 0 where the metric is constant.

    References:
        Amari, Armstrong, "Curvature of Hessian manifolds", 2014, https://arxiv.org/abs/1312.1103
    """
    slope = derivatives(metric, x)
    symmetric = (slope + slope.transpose(-3, -2) + slope.transpose(-3, -1)) / 3.0  # already symmetric in i, j
    size = torch.linalg.vector_norm(slope, dim=(-3, -2, -1))
    rest = torch.linalg.vector_norm(slope - symmetric, dim=(-3, -2, -1))
    return torch.where(size > 0.0, rest / size.clamp_min(torch.finfo(x.dtype).tiny), torch.zeros_like(size))


def check_positive(metric: Metric, x: Points, *, strict: bool = True) -> None:
    """Refuse a metric that is not positive at one of the points, and name the point.

    Args:
        metric: The metric, at most `DENSE_LIMIT` dimensions.
        x: Points, shape (*batch, dim).
        strict: Ask for positive definite; False allows a singular metric (up to rounding).

    Raises:
        ShapeError: If the points do not fit the chart.
        SettingError: If a point lies outside the domain, or the metric is indefinite, singular or not finite
            there.
    """
    if x.shape[-1] != metric.chart.dim:
        raise ShapeError(
            f"points of {x.shape[-1]} coordinates", f"the {metric.chart.dim} of chart {metric.chart.name!r}"
        )
    flat = x.detach().reshape(-1, x.shape[-1])
    out = ~inside(metric, flat)
    if bool(out.any()):
        raise SettingError(
            f"the point {point_in_words(flat[out][0])} outside the domain of {metric.name}",
            f"points of the chart {metric.chart.name!r} inside it",
            "ends that lie inside",
        )
    g = matrix(metric, flat)
    bad = ~torch.isfinite(g).flatten(1).all(dim=1)
    if bool(bad.any()):
        raise SettingError(
            f"a metric {metric.name} that is not finite at {point_in_words(flat[bad][0])}", "finite entries"
        )
    values = torch.linalg.eigvalsh(g)
    floor = flat.shape[-1] * torch.finfo(x.dtype).eps * values.abs().amax(dim=-1)
    bad = values[:, 0] <= floor if strict else values[:, 0] < -floor
    if bool(bad.any()):
        smallest, largest = float(values[bad][0, 0]), float(values[bad][0, -1])
        kind = "an indefinite" if smallest < -float(floor[bad][0]) else "a singular"
        where = f"{point_in_words(flat[bad][0])}, eigenvalues {smallest:.3g} to {largest:.3g}"
        raise SettingError(
            f"{kind} metric {metric.name} at {where}",
            "positive definite" if strict else "positive semidefinite",
            "Sum(metric, Scaled(Euclidean(chart), eps)), or another region of the chart",
        )


def point_in_words(point: Tensor) -> str:
    """A point as a sentence names it: its first four coordinates."""
    shown = ", ".join(f"{float(value):.4g}" for value in point[:4])
    return f"({shown}{', ...' if point.numel() > 4 else ''})"
