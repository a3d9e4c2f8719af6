r"""The lift C -> Z: a point of the embedding becomes a weighted sum of the latents of its neighbours.

:math:`\ell(c) = \sum_{i \in N_k(c)} w_i(c)\, z_i`, with weights that sum to one:

============ ========================================================= ============ ===================
weights      formula                                                   exact at data error, n points in m
============ ========================================================= ============ ===================
nearest      the nearest alone                                         yes          n^(-1/m)
uniform      1/k                                                       no           n^(-1/m)
inverse      distance^(-power), Shepard                                yes          n^(-1/m)
softmax      a Gaussian half as wide as the farthest neighbour         no           n^(-1/m)
tapered      1 - distance / distance of neighbour k + 1; continuous    no           n^(-1/m)
barycentric  least squares of c by its neighbours, as in LLE           if k <= m+1  n^(-2/m)
linear       local linear regression on the leading local axes         up to width  n^(-2/m)
============ ========================================================= ============ ===================

The first five are convex: the result stays inside the hull of the neighbours, whatever c is. A mean of k
unrelated latents is shorter than they are by a root of k, which `norm_ratio` shows and `renorm` repairs. Away
from data no lift means anything: `distance` counts usual spacings to the nearest frame, and above 3 the light
goes out. Where the query may leave the curve or surface of the data, the two linear lifts need few axes:
`rank` caps them, and by itself it is the number of axes along which neighbourhoods are not thin.

References:
    Contrastive Diffusion Alignment (Sandilya et al., 2025), https://arxiv.org/abs/2510.14190
    Roweis, Saul, "Nonlinear dimensionality reduction by locally linear embedding", 2000,
        https://doi.org/10.1126/science.290.5500.2323
    Shepard, "A two-dimensional interpolation function for irregularly-spaced data", 1968,
        https://doi.org/10.1145/800186.810616
    Fan, Gijbels, "Local Polynomial Modelling and Its Applications", 1996
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import Tensor

from workbench.checks import check_choice, check_count, check_number, check_switch
from workbench.conda.latents import Latents
from workbench.errors import SettingError, ShapeError

WEIGHTS = ("nearest", "uniform", "inverse", "softmax", "tapered", "barycentric", "linear")
"""The lifts to choose from."""

OFF_SUPPORT = 3.0
"""Usual spacings from the nearest frame above which a lift is not to be believed."""

_TREE = 12  # dimensions up to which a k-d tree is the fastest exact search
_THIN = 0.05  # share of the thickest local variance below which most neighbourhoods are thin along an axis
_ASKED = 5000  # points from which the usual spacing is found
_NEIGHBOURHOODS = 500  # neighbourhoods from which the local dimension is found
_THREADED = 256  # queries from which the search runs on all processors; starting threads takes longer
_BLOCK = 256  # queries that are compared with all points at once where there is no tree
_BUDGET = 256 * 2**20  # bytes of neighbours' latents that are held at once


class NeighbourIndex:
    """Points of an embedding, ready to be searched.

    Args:
        points: The embedding, shape (count, dim).

    Attributes:
        points: The same, on the CPU.
        spacing: Median distance of a point to its nearest other one, zeros left out.
    """

    def __init__(self, points: Tensor, *, spacing: float | None = None) -> None:
        self.points = points.detach().cpu()
        self._tree = None
        if points.shape[1] <= _TREE:
            self._tree = KDTree(self.points.double().numpy())
        self.spacing = self._usual_spacing() if spacing is None else spacing
        self._ranks: dict[int, int] = {}

    def find(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k nearest points of each query, nearest first.

        Args:
            queries: Shape (q, dim).
            k: How many.

        Returns:
            Distances and rows, shapes (q, k).
        """
        queries = queries.detach().cpu()
        if self._tree is not None:
            found, rows = self._tree.query(
                queries.double().numpy(), k=k, workers=-1 if len(queries) > _THREADED else 1
            )
            distances, rows = (np.asarray(part).reshape(len(queries), k) for part in (found, rows))
            return torch.from_numpy(distances).to(queries), torch.from_numpy(rows.astype(np.int64))
        parts = [
            torch.cdist(part, self.points.to(part), compute_mode="donot_use_mm_for_euclid_dist").topk(
                k, largest=False
            )
            for part in queries.split(_BLOCK)
        ]
        return torch.cat([part.values for part in parts]), torch.cat([part.indices for part in parts])

    def local_rank(self, k: int) -> int:
        """Axes along which a neighbourhood of k points is usually not thin: the data's own dimension."""
        if k not in self._ranks:
            stride = max(1, len(self.points) // _NEIGHBOURHOODS)
            around = self.points[self.find(self.points[::stride], k)[1]].double()
            values = _local_axes(around)[0]
            shares = (values / values[:, -1:].clamp_min(torch.finfo(values.dtype).tiny)).median(dim=0).values
            self._ranks[k] = max(1, int((shares >= _THIN).sum()))
        return self._ranks[k]

    def _usual_spacing(self) -> float:
        stride = max(1, len(self.points) // _ASKED)
        found = self.find(self.points[::stride], 2)[0][:, 1]
        apart = found[found > 0]
        return float(apart.median()) if len(apart) else 0.0


@dataclass(frozen=True, slots=True)
class Lift:
    """Latents of points of the embedding, and whether to believe them.

    Attributes:
        latents: l(c), shape (q, latent dim).
        neighbours: Rows of the frames used, shape (q, k), nearest first.
        weights: Their weights, shape (q, k), rows summing to one.
        distance: Distance to the nearest frame in units of the usual spacing, shape (q,).
        norm_ratio: Length of the lift over the weighted mean length of its neighbours, shape (q,).
        off_support: Whether the distance is above `OFF_SUPPORT`, shape (q,).
        warning: One sentence if any is, else "".
    """

    latents: Tensor
    neighbours: Tensor
    weights: Tensor
    distance: Tensor
    norm_ratio: Tensor
    off_support: Tensor
    warning: str


def lift(
    index: NeighbourIndex,
    table: Latents,
    queries: Tensor,
    *,
    k: int = 8,
    weights: str = "linear",
    rank: int | None = None,
    ridge: float = 1e-3,
    power: float = 2.0,
    renorm: bool = False,
) -> Lift:
    """Bring points of the embedding back to latents.

    Args:
        index: The embedded frames.
        table: Their latents, in the same order; only neighbours are read.
        queries: Points of the embedding, shape (q, dim).
        k: Neighbours; 1 for "nearest".
        weights: One of `WEIGHTS`.
        rank: Local axes of the two linear lifts; None for `NeighbourIndex.local_rank`.
        ridge: Regularisation of the two linear lifts, in units of their mean local variance.
        power: Exponent of "inverse".
        renorm: Whether each lift is scaled to the weighted mean length of its neighbours.

    Returns:
        The lift, with its diagnostics.

    Raises:
        SettingError: If k is larger than the number of frames or another setting is out of range.
        ShapeError: If the queries have another dimension than the embedding.
    """
    check_choice("weights", weights, WEIGHTS)
    check_count("k", k)
    check_count("rank", rank, none=True)
    check_number("ridge", ridge, least=0.0)
    check_number("power", power, above=0.0)
    check_switch("renorm", renorm)
    count, dim = index.points.shape
    if len(table) != count:
        raise ShapeError(f"{len(table)} latents", f"{count}, one for each embedded frame")
    if queries.ndim != 2 or queries.shape[1] != dim:
        raise ShapeError(f"points of shape {tuple(queries.shape)}", f"(any, {dim})", "fit.points[:1]")
    if not bool(torch.isfinite(queries).all()):
        raise SettingError("points that are not finite", "finite points of the embedding")
    k = 1 if weights == "nearest" else k
    extra = 1 if weights == "tapered" else 0
    if k + extra > count:
        raise SettingError(
            f"k={k} for {count} frames", f"at most {count - extra}", f"k={min(8, count - extra)}"
        )
    queries = queries.detach().to(index.points)
    found, rows = index.find(queries, k + extra)
    local = index.points[rows[:, :k]].double()
    if rank is None and weights in ("barycentric", "linear"):
        rank = index.local_rank(k)
    w = _weights(weights, queries.double(), local, found.double(), rank, ridge, power)
    rows = rows[:, :k]
    latents, ratio = _sum(table, rows, w, renorm)
    usual = index.spacing
    distance = found[:, 0] / usual if usual > 0 else torch.where(found[:, 0] > 0, torch.inf, 0.0)
    off = distance > OFF_SUPPORT
    warning = (
        f"{int(off.sum())} of {len(off)} points lie more than {OFF_SUPPORT:g} usual spacings from any frame"
        if bool(off.any())
        else ""
    )
    return Lift(latents, rows, w.to(latents), distance.to(latents), ratio, off, warning)


def _sum(table: Latents, rows: Tensor, w: Tensor, renorm: bool) -> tuple[Tensor, Tensor]:
    """Weighted sums of neighbours, a block of queries at a time, and their norm ratios."""
    block = max(1, _BUDGET // max(1, rows.shape[1] * table.dim * 8))
    latents, ratios = [], []
    for part, share in zip(rows.split(block), w.split(block), strict=True):
        z = table.rows(part)
        share = share.to(z)
        made = (share[..., None] * z).sum(dim=1)
        size = (share * z.norm(dim=-1)).sum(dim=1)
        tiny = torch.finfo(z.dtype).tiny
        ratio = made.norm(dim=-1) / size.abs().clamp_min(tiny)
        latents.append(made / ratio.clamp_min(tiny)[:, None] if renorm else made)
        ratios.append(ratio)
    return torch.cat(latents), torch.cat(ratios)


def _weights(
    kind: str, c: Tensor, local: Tensor, found: Tensor, rank: int | None, ridge: float, power: float
) -> Tensor:
    """Weights of the neighbours, shape (q, k), summing to one."""
    k = local.shape[1]
    if kind in ("nearest", "uniform"):
        return torch.full(local.shape[:2], 1.0 / k, dtype=c.dtype)
    tiny = torch.finfo(c.dtype).tiny
    if kind == "inverse":
        return torch.softmax(-power * found.clamp_min(tiny).log(), dim=1)
    if kind == "softmax":
        width = 0.5 * found[:, -1:].clamp_min(tiny)
        return torch.softmax(-0.5 * (found / width).square(), dim=1)
    if kind == "tapered":
        w = (1.0 - found[:, :k] / found[:, -1:].clamp_min(tiny)).clamp_min(0.0)
        w = torch.where(w.sum(1, keepdim=True) > 0, w, torch.ones_like(w))
        return w / w.sum(1, keepdim=True)
    offset = _on_local_axes(local - c[:, None], local, rank)
    if kind == "barycentric":
        gram = offset @ offset.mT
        level = gram.diagonal(dim1=-2, dim2=-1).mean(-1)
        eye = torch.eye(k, dtype=c.dtype)
        w = torch.linalg.solve(gram + (ridge * level + tiny)[:, None, None] * eye, torch.ones_like(found))
        return w / w.sum(dim=1, keepdim=True)
    return _regression(offset, found, ridge)


def _on_local_axes(offset: Tensor, local: Tensor, rank: int | None) -> Tensor:
    """Offsets on the leading principal axes of the neighbours."""
    return offset @ _local_axes(local)[1][..., -(rank or local.shape[-1]) :]


def _local_axes(local: Tensor) -> tuple[Tensor, Tensor]:
    """Variances and principal axes of neighbourhoods, shape (q, k, dim), the leading ones last."""
    centred = local - local.mean(dim=1, keepdim=True)
    return torch.linalg.eigh(centred.mT @ centred)


def _regression(offset: Tensor, found: Tensor, ridge: float) -> Tensor:
    """Weights of the value at the query in a linear regression whose far neighbours count less."""
    tiny = torch.finfo(offset.dtype).tiny
    kernel = torch.exp(-2.0 * (found / found[:, -1:].clamp_min(tiny)).square())
    design = torch.cat([torch.ones_like(offset[..., :1]), offset], dim=-1)
    weighted = design * kernel[..., None]
    normal = weighted.mT @ design
    level = (kernel[..., None] * offset.square()).sum((-1, -2)) / offset.shape[-1]
    penalty = (ridge * level + tiny)[:, None].expand(-1, normal.shape[1]).clone()
    penalty[:, 0] = 0.0
    normal = normal + torch.diag_embed(penalty)
    first = torch.zeros_like(normal[:, 0])
    first[:, 0] = 1.0
    return (weighted @ torch.linalg.solve(normal, first)[..., None])[..., 0]
