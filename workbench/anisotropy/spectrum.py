r"""Score anisotropy directions: eigenvectors of the average geometry, ascending, and how sure they are.

**Order.** Ascending: index 0 is `lambda_min`. The conjecture is that data along small-eigenvalue directions
are generated better. The literature's code stores them descending; every result here carries its `order`.

**What a single direction means.** Nothing inside a null space or a degenerate block, where any rotation is
as good, and little where its eigenvalue is not resolved from its neighbour's by the number of networks.
Eigenvalues are therefore grouped: neighbours whose gap is below their estimated error share a cluster, and
the subspace of a cluster, not a vector in it, is what may be compared.

References:
    On the Anisotropy of Score-Based Generative Models (Floros et al., 2025), definition 2 and conjecture 1,
    https://arxiv.org/abs/2510.22899
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.anisotropy.geometry import Geometry
from workbench.anisotropy.subspaces import index_overlaps, overlap, principal_angles
from workbench.errors import SettingError

BAND = 4
"""Half width, in indices, of the band whose split-half overlap is reported beside the single vector's."""


RESOLVED = "a direction of its own"
"""What a direction is worth that is neither one of a block nor unresolved."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A run of eigenvalues of the core that are not told apart.

    Attributes:
        start: First row of the core's ascending eigenvectors.
        size: Rows in it.
        dim: Dimension of its subspace of G, copies included.
        kind: "simple", "block" (equal by structure), "unresolved" (too few networks) or "null".
        value: Mean eigenvalue.
        overlap: Split-half overlap of the subspace, 0 to 1.
        angle: Largest principal angle between its two halves' subspaces, radians.
    """

    start: int
    size: int
    dim: int
    kind: str
    value: float
    overlap: float
    angle: float


@dataclass(frozen=True, slots=True)
class ScoreSpectrum:
    """Eigenvalues and eigenvectors of a geometry.

    Attributes:
        values: Eigenvalues of the core, ascending, clamped at zero, shape (m,); each counts `copies` times
            in G.
        errors: Their one-sigma errors from the two halves.
        vectors: Eigenvectors of the core as rows, in the same order; sign: largest entry positive.
        order: Always "ascending".
        copies: Multiplicity of every eigenvalue.
        layout: As in `Geometry`.
        shape: Shape of one sample.
        core_rank: Eigenvalues of the core above the tolerance.
        clusters: The groups, in order.
        overlaps: Split-half overlap |<u_i, u_i>| of each row.
        band_overlaps: The same against `BAND` rows on either side.
    """

    values: Tensor
    errors: Tensor
    vectors: Tensor
    order: str
    copies: int
    layout: Tensor
    shape: tuple[int, ...]
    core_rank: int
    clusters: tuple[Cluster, ...]
    overlaps: Tensor
    band_overlaps: Tensor

    @property
    def dim(self) -> int:
        """Number of directions."""
        return self.values.shape[0] * self.copies

    @property
    def rank(self) -> int:
        """Rank of G."""
        return self.core_rank * self.copies

    @property
    def nullity(self) -> int:
        """Dimension of the null space, whose directions have no meaning one by one."""
        return self.dim - self.rank

    @property
    def lambda_min(self) -> float:
        """Smallest eigenvalue: predicted best; zero if there is a null space."""
        return float(self.values[0])

    @property
    def lambda_min_positive(self) -> float:
        """Smallest eigenvalue outside the null space."""
        return float(self.values[self.values.shape[0] - self.core_rank])

    @property
    def lambda_max(self) -> float:
        """Largest eigenvalue: predicted worst."""
        return float(self.values[-1])

    def eigenvalue(self, index: int) -> float:
        """Eigenvalue of ascending index 0 .. dim - 1; negative indices count from lambda_max."""
        return float(self.values[self._row(index)[0]])

    def direction(self, index: int) -> Tensor:
        """Unit vector (dim,) of ascending index 0 .. dim - 1; `meaning` says what it is worth."""
        row, copy = self._row(index)
        flat = torch.zeros(self.dim, dtype=self.vectors.dtype)
        flat[self.layout.reshape(-1, self.copies)[:, copy]] = self.vectors[row]
        return flat

    def directions(self, indices: list[int]) -> Tensor:
        """Unit vectors (count, dim) of these ascending indices."""
        return torch.stack([self.direction(i) for i in indices])

    def cluster_of(self, index: int) -> Cluster:
        """The cluster that holds an ascending index."""
        row, _ = self._row(index)
        return next(c for c in self.clusters if c.start <= row < c.start + c.size)

    def meaning(self, index: int) -> str:
        """What a single direction of that index is worth, in words."""
        cluster = self.cluster_of(index)
        return {
            "simple": RESOLVED,
            "block": f"an arbitrary vector of a {cluster.dim}-dimensional block",
            "unresolved": f"not resolved among {cluster.dim} neighbours by this many networks",
            "null": f"an arbitrary vector of the {cluster.dim}-dimensional null space",
        }[cluster.kind]

    def subspace(self, cluster: Cluster) -> Tensor:
        """Orthonormal rows (cluster.dim, dim) of a cluster's subspace."""
        first = cluster.start * self.copies
        return self.directions(list(range(first, first + cluster.dim)))

    def _row(self, index: int) -> tuple[int, int]:
        if not -self.dim <= index < self.dim:
            raise SettingError(f"direction {index}", f"an ascending index from 0 to {self.dim - 1}")
        return divmod(index % self.dim, self.copies)


def find_score_spectrum(geometry: Geometry, *, tol: float | None = None) -> ScoreSpectrum:
    """Eigenvalues, eigenvectors, clusters and split-half overlaps of a geometry.

    Args:
        geometry: The geometry.
        tol: Eigenvalues below tol * lambda_max count as zero; None takes the precision of its networks
            (1e-10 for float64, 1e-7 for float32).

    Returns:
        The spectrum. No model calls.
    """
    rounding = 1e-10 if geometry.dtype == "float64" else 1e-7
    values, vectors = _ascending(geometry.core)
    halves = [_ascending(half)[1] for half in geometry.halves]
    floor = (rounding if tol is None else tol) * float(values[-1])
    core_rank = int((values > floor).sum())
    errors = _errors(values, vectors, geometry.halves, floor)
    clusters = []
    for start, stop in _runs(values, errors, floor, rounding):
        pair = [half[start:stop] for half in halves]
        null = stop <= values.shape[0] - core_rank
        size = stop - start
        exact = float(values[stop - 1] - values[start]) <= max(floor, 1e3 * rounding * float(values[start]))
        kind = "simple" if size == 1 else "block" if exact else "unresolved"
        if geometry.copies > 1 and kind == "simple":
            kind = "block"
        clusters.append(
            Cluster(
                start=start,
                size=size,
                dim=size * geometry.copies,
                kind="null" if null else kind,
                value=float(values[start:stop].mean()),
                overlap=overlap(*pair),
                angle=float(principal_angles(*pair)[-1]),
            )
        )
    return ScoreSpectrum(
        values=values,
        errors=errors,
        vectors=vectors,
        order="ascending",
        copies=geometry.copies,
        layout=geometry.layout,
        shape=geometry.shape,
        core_rank=core_rank,
        clusters=tuple(clusters),
        overlaps=index_overlaps(*halves),
        band_overlaps=index_overlaps(*halves, band=BAND),
    )


def _ascending(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Clamped ascending eigenvalues and row eigenvectors, the largest entry of each positive."""
    values, columns = torch.linalg.eigh(0.5 * (matrix + matrix.T))
    rows = columns.T
    largest = rows.gather(1, rows.abs().argmax(dim=1, keepdim=True))
    return values.clamp(min=0.0), rows * torch.where(largest < 0, -1.0, 1.0)


def _errors(values: Tensor, vectors: Tensor, halves: Tensor, floor: float, window: int = 8) -> Tensor:
    """One-sigma errors: half the halves' difference along each eigenvector, relative, over a window."""
    change = ((vectors @ (halves[0] - halves[1])) * vectors).sum(1) / 2
    relative = (change / values.clamp(min=floor or 1.0)).square()
    padded = torch.nn.functional.pad(relative, (window, window), value=float("nan"))
    return values * padded.unfold(0, 2 * window + 1, 1).nanmean(dim=1).sqrt()


def _runs(values: Tensor, errors: Tensor, floor: float, rounding: float) -> list[tuple[int, int]]:
    """Half-open ranges of eigenvalues whose gaps stay below their error; the null space is one range."""
    zero = values <= floor
    gaps = values.diff()
    close = gaps <= torch.maximum(errors[1:].hypot(errors[:-1]), rounding * 1e3 * values[1:])
    joined = torch.where(zero[1:] | zero[:-1], zero[1:] & zero[:-1], close)
    starts = [0, *(i + 1 for i, same in enumerate(joined.tolist()) if not same)]
    return list(zip(starts, [*starts[1:], values.shape[0]], strict=True))
