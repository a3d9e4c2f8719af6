r"""Phases on a slice: labels, the boundary between them, how it scales, and where rounding takes over.

A boundary is where a reading of the output jumps. Three readings of it: cells whose label differs from a
neighbour's; the ridge of the metric's largest eigenvalue; and the finite-difference sensitivity

.. math::
    S(t, h) = \max_d |E(G(t + h d)) - E(G(t))| / h, \qquad h = 2^{-k},

whose slope in log h is 0 where the map is smooth and -1 at a jump. No claim about small scales counts below
the rounding limit of the arithmetic that made it, nor without a control in float64.

References:
    Lobashev, Guskov, Larchenko, Tamm, "Hessian Geometry of Latent Space in Generative Models", 2025,
        section 4.3, https://arxiv.org/abs/2506.10632
    Falconer, "Fractal Geometry", 2003, section 3.1 (box counting)
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.checks import check_count, check_number
from workbench.draws import draw_integers, draw_uniform, seeded
from workbench.errors import SettingError, ShapeError
from workbench.models import check_points
from workbench.report import Estimate


def label_phases(
    features: Tensor, count: int, *, iterations: int = 50, generator: torch.Generator | None = None
) -> Tensor:
    """Labels of a field of features by k-means, numbered by the size of their clusters.

    Args:
        features: Readings of the output (a judge's features, or grad psi), shape (*grid, features).
        count: Number of phases.
        iterations: Rounds at most.
        generator: Source of the spread-out first centres; None for one of seed 0.

    Returns:
        Integer labels, shape (*grid); 0 is the largest phase.

    Raises:
        SettingError: If there are fewer points, or fewer different ones, than phases.
    """
    flat = features.reshape(-1, features.shape[-1])
    if not 1 <= count <= len(flat):
        raise SettingError(f"{count} phases of {len(flat)} points", "1 or more, at most one a point")
    generator = seeded(generator)
    centres = flat[draw_integers(len(flat), (1,), flat, generator)]
    while len(centres) < count:  # each further centre with probability by its squared distance
        gap = torch.cdist(flat, centres).amin(dim=1).square()
        if not bool(gap.sum() > 0.0):
            raise SettingError(f"fewer than {count} different features", "at most as many phases as readings")
        reached = gap.cumsum(dim=0) / gap.sum()
        pick = torch.searchsorted(reached, draw_uniform((1,), reached, generator), right=True)
        centres = torch.cat((centres, flat[pick.clamp_max(len(flat) - 1)]))
    labels = torch.cdist(flat, centres).argmin(dim=1)
    for _ in range(iterations):
        one_hot = torch.nn.functional.one_hot(labels, count).to(flat.dtype)
        size = one_hot.sum(dim=0)
        centres = torch.where((size > 0)[:, None], one_hot.mT @ flat / size.clamp_min(1.0)[:, None], centres)
        fresh = torch.cdist(flat, centres).argmin(dim=1)
        if torch.equal(fresh, labels):
            break
        labels = fresh
    order = torch.bincount(labels, minlength=count).argsort(descending=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(count, device=order.device)
    return rank[labels].reshape(features.shape[:-1])


def find_boundary(labels: Tensor) -> Tensor:
    """Cells whose label differs from that of a neighbour to the right or above, shape (rows, columns).

    Raises:
        ShapeError: If the labels are no grid.
    """
    if labels.ndim != 2:
        raise ShapeError(f"labels of shape {tuple(labels.shape)}", "(rows, columns)")
    edge = torch.zeros_like(labels, dtype=torch.bool)
    edge[:, :-1] |= labels[:, :-1] != labels[:, 1:]
    edge[:-1] |= labels[:-1] != labels[1:]
    return edge


def find_ridges(matrices: Tensor, *, prominence: float = 1.5) -> Tensor:
    """Grid points on a ridge of the largest eigenvalue: higher than both neighbours across it.

    Args:
        matrices: A metric on a grid, shape (rows, columns, 2, 2), columns along the first coordinate.
        prominence: How many times the median of the field a ridge must reach.

    Returns:
        Mask, shape (rows, columns); the rim is never on a ridge. Points without a finite matrix are off it.
    """
    finite = torch.isfinite(matrices).flatten(2).all(dim=2)
    clean = torch.where(finite[..., None, None], matrices, torch.zeros_like(matrices))
    values, vectors = torch.linalg.eigh(clean)
    height, way = values[..., 1], vectors[..., 1]
    level = prominence * height[finite].median() if bool(finite.any()) else torch.inf
    ridge = torch.zeros_like(finite)
    inner = (slice(1, -1), slice(1, -1))
    across = way[..., 0].abs() >= way[..., 1].abs()  # the steep direction decides the neighbours
    beside = (height[1:-1, :-2], height[1:-1, 2:])
    above = (height[:-2, 1:-1], height[2:, 1:-1])
    low = torch.where(across[inner], beside[0], above[0])
    high = torch.where(across[inner], beside[1], above[1])
    here = height[inner]
    ridge[inner] = (here > low) & (here >= high) & (here > level) & finite[inner]
    return ridge


def box_dimension(mask: Tensor, *, smallest: int = 1, largest: int | None = None) -> Estimate:
    """Box-counting dimension of the marked cells of a square grid, over dyadic boxes.

    Args:
        mask: Marked cells, shape (n, n) with n a power of two.
        smallest: Side of the smallest box, in cells.
        largest: Side of the largest; n / 4 if None.

    Returns:
        Slope of log count against log (1 / side), with the standard error of the fit. A fit over two decades
        or fewer cannot tell a fractal from a curve by itself; compare with the control.

    Raises:
        ShapeError: If the grid is no square of a power of two.
        SettingError: If nothing is marked, or fewer than three sizes are left.
    """
    n = mask.shape[-1]
    if mask.ndim != 2 or mask.shape[0] != n or n & (n - 1) or n < 8:
        raise ShapeError(f"a grid of shape {tuple(mask.shape)}", "(n, n) with n = 8, 16, 32, ...")
    if not bool(mask.any()):
        raise SettingError("a grid without a marked cell", "a boundary", "another slice or number of phases")
    largest = n // 4 if largest is None else largest
    sides, counts = [], []
    side = 1
    while side <= largest:
        if side >= smallest:
            boxes = mask.reshape(n // side, side, n // side, side).any(dim=3).any(dim=1)
            sides.append(float(side))
            counts.append(float(boxes.sum()))
        side *= 2
    if len(sides) < 3:
        raise SettingError(f"{len(sides)} box sizes", "three or more", "a finer grid")
    x = -torch.log(torch.tensor(sides, dtype=torch.float64))
    y = torch.log(torch.tensor(counts, dtype=torch.float64))
    centred = x - x.mean()
    slope = (centred * y).sum() / centred.square().sum()
    rest = y - y.mean() - slope * centred
    error = torch.sqrt(rest.square().sum() / max(1, len(sides) - 2) / centred.square().sum())
    return Estimate(
        float(slope), float(error), "", f"log-log fit over boxes of {sides[0]:g} to {sides[-1]:g} cells"
    )


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Finite-difference sensitivity across zoom levels at one point of a slice.

    Attributes:
        steps: h of each level, descending, shape (levels,).
        values: S(t, h), shape (levels,).
        limit: Step below which rounding of the inputs dominates.
        trusted: True for levels above the limit, shape (levels,).
        slope: Slope of log S against log h over the trusted levels: 0 smooth, -1 a jump.
        control: The same in float64, if a control was given, shape (levels,).
        dtype: Arithmetic that made the values.
    """

    steps: Tensor
    values: Tensor
    limit: float
    trusted: Tensor
    slope: float
    control: Tensor | None
    dtype: str


def measure_sensitivity(
    read: Callable[[Tensor], Tensor],
    point: Tensor,
    *,
    levels: int = 24,
    largest: float = 0.25,
    directions: int = 8,
    control: Callable[[Tensor], Tensor] | None = None,
) -> Sensitivity:
    """How the output's change scales with the step, from coarse to below rounding.

    Args:
        read: From points of the slice (count, 2) to features (count, features), in the model's own
            arithmetic.
        point: Where, shape (2,); its dtype is that of the arithmetic.
        levels: Steps largest / 2^k, k = 0 .. levels - 1.
        largest: Largest step.
        directions: Directions tried at each step.
        control: The same map in float64, for the control; None leaves it out.

    Returns:
        Values with the rounding limit: 32 units in the last place of the point's size. All levels in one
        batch.

    Raises:
        ShapeError: If the point is not one of a plane.
        SettingError: If levels, directions or the largest step are not positive.
    """
    check_points(point, 2, name="point")
    if point.ndim != 1:
        raise ShapeError(f"point of shape {tuple(point.shape)}", "(2,)", "point[0]")
    check_count("levels", levels)
    check_count("directions", directions)
    check_number("largest", largest, above=0.0)
    steps = largest * 0.5 ** torch.arange(levels, dtype=torch.float64, device=point.device)
    angle = torch.arange(directions, dtype=torch.float64, device=point.device) * (2.0 * torch.pi / directions)
    around = torch.stack((torch.cos(angle), torch.sin(angle)), dim=-1)
    offsets = steps[:, None, None] * around  # (levels, directions, 2)

    def changes(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
        moved = (at.double() + offsets).to(at.dtype).reshape(-1, 2)
        features = function(torch.cat((at[None], moved))).double()
        size = torch.linalg.vector_norm(features[1:] - features[0], dim=-1).reshape(levels, directions)
        return size.amax(dim=1) / steps

    values = changes(read, point)
    scale = max(1.0, float(point.abs().max()))
    limit = 32.0 * torch.finfo(point.dtype).eps * scale
    trusted = steps > limit
    usable = trusted & (values > 0.0)
    slope = float("nan")
    if int(usable.sum()) >= 2:
        x, y = torch.log(steps[usable]), torch.log(values[usable])
        centred = x - x.mean()
        slope = float((centred * y).sum() / centred.square().sum())
    doubled = None if control is None else changes(control, point.double())
    return Sensitivity(steps, values, limit, trusted, slope, doubled, str(point.dtype).removeprefix("torch."))
