r"""Embeddings: ways to look at points of many dimensions on a few axes, and how far to trust the look.

An embedding encodes points to a few coordinates. A *section* also decodes: its axes span a plane (or a line,
or a volume) of the space, with orthonormal directions :math:`e_k` through an origin :math:`o`,

.. math::
    c_k(x) = \langle x - o, e_k\rangle, \qquad x(c) = o + \sum_k c_k e_k,

so that lengths inside it are true lengths and the only loss is what lies off it. Every embedding carries a
name that figures print, because a picture whose projection is unknown cannot be read.

References:
    Jolliffe, "Principal Component Analysis", 2nd edition, 2002, chapter 2
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from workbench.errors import SettingError, ShapeError
from workbench.types import Coords, Matrices, Points, Vectors


@runtime_checkable
class Embedding(Protocol):
    """A way to look at points: encode them to a few named axes."""

    @property
    def name(self) -> str:
        """What it does, in words that a figure can print."""
        ...

    @property
    def axes(self) -> tuple[str, ...]:
        """Titles of its axes."""
        ...

    def encode(self, x: Points) -> Coords:
        """Coordinates of points, shape (*batch, axes)."""
        ...


@runtime_checkable
class Section(Protocol):
    """An embedding whose axes span a flat piece of the space, so that coordinates name points again."""

    @property
    def name(self) -> str:
        """What it does, in words that a figure can print."""
        ...

    @property
    def axes(self) -> tuple[str, ...]:
        """Titles of its axes."""
        ...

    def encode(self, x: Points) -> Coords:
        """Coordinates of the points' feet on the section."""
        ...

    def decode(self, coords: Coords) -> Points:
        """Points of the section at coordinates."""
        ...


@dataclass(frozen=True, slots=True)
class Identity:
    """The space itself, when it has no more axes than a picture.

    Attributes:
        axes: Titles of the axes, one a dimension.
    """

    axes: tuple[str, ...] = ("x₁", "x₂")

    @property
    def name(self) -> str:
        """Nothing is projected."""
        return "the plane itself" if len(self.axes) == 2 else "the space itself"

    def encode(self, x: Points) -> Coords:
        """The points as they are.

        Raises:
            ShapeError: If they have another number of axes.
        """
        if x.shape[-1] != len(self.axes):
            raise ShapeError(f"points of {x.shape[-1]} axes", f"{len(self.axes)}", "Slice.through or fit_pca")
        return x

    def decode(self, coords: Coords) -> Points:
        """The coordinates as they are."""
        return coords


@dataclass(frozen=True, slots=True)
class Slice:
    """A plane with orthonormal axes through an origin.

    Attributes:
        origin: A point of the plane, shape (dim,).
        directions: Orthonormal rows, shape (axes, dim).
        name: What the plane goes through.
        axes: Titles of the axes.
    """

    origin: Tensor
    directions: Tensor
    name: str = "slice"
    axes: tuple[str, ...] = ("along the slice", "across the slice")

    @classmethod
    def through(cls, first: Points, second: Points, third: Points, *, name: str = "") -> "Slice":
        """The plane through three points: from the first along the second, the third on the positive side.

        Args:
            first: Origin, shape (dim,).
            second: Where the first axis points, shape (dim,).
            third: What the second axis turns to, shape (dim,). If the three lie on one line, the axis with
                the smallest share in that line stands in for it, so that the plane is always defined and
                repeatable.
            name: What the points are, in words.

        Returns:
            The slice; lengths in it are lengths of the space.

        Raises:
            SettingError: If first and second are equal.
        """
        along = second - first
        length = along.norm()
        if not bool(length > 0):
            raise SettingError(
                "two equal points", "two different ones to lay the plane through", "another end"
            )
        along = along / length
        across = _off(third - first, along)
        if bool(across.norm() <= 1e-6 * length):
            across = _off(one_hot(along.abs().argmin(), len(along)).to(along), along)
        across = across / across.norm()
        return cls(
            origin=first,
            directions=torch.stack([along, _off(across, along)]),
            name=name or "slice through three points",
            axes=("along start → end", "across, towards the path"),
        )

    def encode(self, x: Points) -> Coords:
        """Coordinates of the points' feet on the plane."""
        return (x - self.origin) @ self.directions.mT

    def decode(self, coords: Coords) -> Points:
        """Points of the plane."""
        return self.origin + coords @ self.directions


def _off(vector: Vectors, unit: Vectors) -> Vectors:
    """The part of a vector that is perpendicular to a unit vector."""
    return vector - (vector @ unit) * unit


@dataclass(frozen=True, slots=True)
class Pca:
    """The directions of largest variance of a sample; a section through its mean.

    Attributes:
        origin: The sample's mean, shape (dim,).
        directions: Principal directions as rows, shape (axes, dim), by falling variance.
        shares: Share of the sample's variance along each.
    """

    origin: Tensor
    directions: Tensor
    shares: tuple[float, ...]

    @property
    def name(self) -> str:
        """PCA with the share of variance that it shows."""
        return f"PCA, {100 * sum(self.shares):.0f} % of the variance"

    @property
    def axes(self) -> tuple[str, ...]:
        """One title a component, with its share."""
        return tuple(f"component {k + 1} ({100 * share:.0f} %)" for k, share in enumerate(self.shares))

    def encode(self, x: Points) -> Coords:
        """Scores on the components."""
        return (x - self.origin) @ self.directions.mT

    def decode(self, coords: Coords) -> Points:
        """Points of the principal plane."""
        return self.origin + coords @ self.directions


def fit_pca(x: Points, *, axes: int = 2) -> Pca:
    """Principal directions of a sample.

    Each direction is signed so that its largest entry is positive, so that two fits of one sample agree.

    Args:
        x: Sample, shape (count, dim).
        axes: Number of directions.

    Returns:
        The projection with its shares of variance.

    Raises:
        ShapeError: If x is no (count, dim) array of at least two points and `axes` dimensions.

    References:
        Jolliffe 2002, chapter 2.
    """
    if x.ndim != 2 or len(x) < 2 or x.shape[1] < axes:
        raise ShapeError(
            f"a sample of shape {tuple(x.shape)}", f"(count >= 2, dim >= {axes})", "x.reshape(-1, dim)"
        )
    mean = x.mean(0)
    _, values, rows = torch.linalg.svd(x - mean, full_matrices=len(x) <= axes)
    rows = rows[:axes]
    largest = rows.gather(1, rows.abs().argmax(1, keepdim=True))
    variances = torch.zeros(axes, dtype=x.dtype, device=x.device)
    variances[: min(axes, len(values))] = values[:axes] ** 2
    total = float((values**2).sum()) or 1.0
    return Pca(mean, rows * largest.sign(), tuple(float(v) / total for v in variances))


@dataclass(frozen=True, slots=True)
class Distortion:
    """What a projection does to the distances of a set of points.

    Attributes:
        median: Median over pairs of (distance in the picture) / (distance in the space).
        worst: Smallest such ratio: the pair that looks closest for how far it is apart.
        off: Root mean square distance of the points from the section over their root mean square spread; nan
            for an embedding that is no section.
    """

    median: float
    worst: float
    off: float

    def __str__(self) -> str:
        return f"pairs shown at {self.median:.2f} of their distance (worst {self.worst:.2f})"


def measure_distortion(embedding: Embedding, x: Points) -> Distortion:
    """How far distances in the picture are from distances in the space.

    Args:
        embedding: The projection.
        x: Points, shape (count, dim); all pairs are compared, so a few hundred at most.

    Returns:
        The ratios over pairs of different points; 1 means true to scale. No model calls.

    Raises:
        ShapeError: If there are no two different points.
    """
    space, picture = torch.pdist(x), torch.pdist(embedding.encode(x))
    apart = space > 0
    if not bool(apart.any()):
        raise ShapeError(f"{len(x)} points without two different ones", "at least two different points")
    ratios = picture[apart] / space[apart]
    off = float("nan")
    if isinstance(embedding, Section):
        residual = (x - embedding.decode(embedding.encode(x))).norm(dim=-1)
        spread = (x - x.mean(0)).norm(dim=-1)
        off = float(residual.square().mean().sqrt() / spread.square().mean().sqrt())
    return Distortion(float(ratios.median()), float(ratios.min()), off)


def jacobian_of(embedding: Embedding, x: Points) -> Matrices | Tensor:
    """Derivative of the coordinates at each point, for ellipses that show how a projection stretches.

    Args:
        embedding: The projection; differentiable by torch.
        x: Points, shape (count, dim).

    Returns:
        Shape (count, axes, dim). Cost: one reverse pass an axis, no model calls.
    """
    return torch.func.vmap(torch.func.jacrev(embedding.encode))(x)
