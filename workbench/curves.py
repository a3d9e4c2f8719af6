r"""Curves in a flat space, discretised by nodes: lengths, energies, spacing, and the usual starts.

A curve is :math:`\phi: [0, 1] \to \mathbb{R}^d`, given by nodes :math:`\phi_i = \phi(t_i)` and the
not-a-knot cubic spline through them.

Spacing is by chord length: knots :math:`a_i` are cumulative chords, new nodes lie at equal fractions of
their sum (optionally weighted). One cubic pass makes the chords nearly equal; repeated passes converge.

References:
    E, Ren, Vanden-Eijnden, "Simplified and improved string method", 2007, section III,
        https://doi.org/10.1063/1.2720838
    Shoemake, "Animating rotation with quaternion curves", 1985 (slerp), https://doi.org/10.1145/325165.325242
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.draws import draw_normal
from workbench.errors import SettingError, ShapeError
from workbench.splines import Kind, arc_knots, chords, in_float64, slope_matrix, spline_weights
from workbench.types import Nodes, Points, Scalars, Vectors

_GAUSS = ((0.06943184420297371, 0.17392742256872693), (0.33000947820757187, 0.32607257743127307))
_RULE = _GAUSS + tuple((1.0 - x, w) for x, w in reversed(_GAUSS))  # four Gauss-Legendre points on [0, 1]


def respace(
    points: Nodes,
    nodes: int | None = None,
    *,
    kind: Kind = "cubic",
    weights: Float[Tensor, "*batch nodes"] | None = None,
    passes: int = 1,
) -> Float[Tensor, "*batch count dim"]:
    """Nodes at equal (weighted) arc length along the spline: the inner loop of every string.

    Args:
        points: Nodes, shape (*batch, nodes, dim).
        nodes: Their new number; None keeps it.
        kind: Interpolation, "cubic" or "linear".
        weights: Relative density of nodes wanted along the curve, one a node; None for equal arc length.
        passes: Times to repeat; with weights only the first pass uses them.

    Returns:
        New nodes with ends bit-equal to the old ones. Differentiable. No host synchronisation: coincident
        nodes are only guarded here, `Curve.resample` merges them.
    """
    count = points.shape[-2] if nodes is None else nodes
    ends = points[..., :1, :], points[..., -1:, :]
    for turn in range(passes):
        knots = arc_knots(points, weights if turn == 0 else None)
        share = torch.linspace(0.0, 1.0, count, dtype=knots.dtype, device=knots.device)[1:-1]
        inner = spline_weights(knots, knots[..., -1:] * share, kind=kind).to(points.dtype) @ points
        points = torch.cat([ends[0], inner, ends[1]], dim=-2)
        if weights is not None:
            break
    return points


def _merge(points: Tensor) -> Tensor:
    """One curve without nodes that coincide with their predecessor; at least two nodes remain."""
    steps = chords(points)
    keep = torch.ones(points.shape[0], dtype=torch.bool, device=points.device)
    keep[1:] = steps > 1e-7 * steps.mean()
    keep[0] = True
    kept = points[keep]
    if not bool(keep[-1]):
        kept = torch.cat([kept[:-1] if kept.shape[0] > 1 else kept, points[-1:]])
    return kept if kept.shape[0] > 1 else points[[0, -1]]


@dataclass(frozen=True, slots=True)
class Curve:
    """Discretised curves with the cubic spline through their nodes.

    Attributes:
        points: Nodes, shape (*batch, nodes, dim), in the data's unit.
        t: Parameter at the nodes, shape (nodes,), increasing from 0 to 1, shared by the batch.
    """

    points: Nodes
    t: Float[Tensor, " parameters"]

    def __post_init__(self) -> None:
        if self.points.ndim < 2 or self.points.shape[-2] < 2:
            raise ShapeError(
                f"nodes of shape {tuple(self.points.shape)}", "(*batch, nodes, dim) with two nodes or more"
            )
        if self.t.shape != self.points.shape[-2:-1]:
            raise ShapeError(f"parameters of shape {tuple(self.t.shape)}", f"({self.points.shape[-2]},)")

    @classmethod
    def through(cls, points: Nodes) -> "Curve":
        """The curve through nodes, at uniform parameters."""
        t = torch.linspace(0.0, 1.0, points.shape[-2], dtype=points.dtype, device=points.device)
        return cls(points, t)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.points.shape[-2]

    def _weights(self, s: Tensor, derivative: bool = False, slopes: Tensor | None = None) -> Tensor:
        at, knots = in_float64(s).clamp(0.0, 1.0), in_float64(self.t)
        return spline_weights(knots, at, derivative=derivative, slopes=slopes).to(self.points.dtype)

    def __call__(self, s: Float[Tensor, " m"]) -> Float[Tensor, "*batch m dim"]:
        """Points of the spline at parameters s in [0, 1], shape (*batch, m, dim). Differentiable."""
        return self._weights(s) @ self.points

    def velocity(self, s: Float[Tensor, " m"]) -> Float[Tensor, "*batch m dim"]:
        """First derivative of the spline in its parameter, shape (*batch, m, dim). Differentiable."""
        return self._weights(s, derivative=True) @ self.points

    def moving(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """Points and first derivatives at parameters s, for many calls: slopes are solved for once."""
        slopes = slope_matrix(in_float64(self.t))

        def at(s: Tensor) -> tuple[Tensor, Tensor]:
            return self._weights(s, slopes=slopes) @ self.points, self._weights(s, True, slopes) @ self.points

        return at

    def tangents(self) -> Nodes:
        """Unit tangents at the nodes; zero where the curve stands still."""
        direction = self.velocity(self.t)
        size = torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
        return direction / size.clamp_min(torch.finfo(self.points.dtype).tiny)

    def _quadrature(self) -> tuple[Tensor, Tensor]:
        dt = self.t.diff()
        s = torch.cat([self.t[:-1] + x * dt for x, _ in _RULE])
        w = torch.cat([w * dt for _, w in _RULE])
        return s, w

    def length(self) -> Scalars:
        """Arc length of the spline, by four Gauss points a segment. Differentiable."""
        s, w = self._quadrature()
        return torch.linalg.vector_norm(self.velocity(s), dim=-1) @ w

    def energy(self) -> Scalars:
        """Integral of the squared speed over the parameter; length² at constant speed, more otherwise."""
        s, w = self._quadrature()
        return self.velocity(s).square().sum(dim=-1) @ w

    def arc(self) -> Float[Tensor, "*batch nodes"]:
        """Arc length of the spline from the start to each node. Differentiable."""
        s, w = self._quadrature()
        pieces = (
            (torch.linalg.vector_norm(self.velocity(s), dim=-1) * w).unflatten(-1, (len(_RULE), -1)).sum(-2)
        )
        return torch.cat([torch.zeros_like(pieces[..., :1]), pieces.cumsum(-1)], dim=-1)

    def arc_at(self, s: Float[Tensor, " m"]) -> Float[Tensor, "*batch m"]:
        """Arc length of the spline from the start to parameters s in [0, 1]. Differentiable."""
        s = s.clamp(0.0, 1.0)
        right = torch.searchsorted(self.t.contiguous(), s.contiguous(), right=True)
        left = (right - 1).clamp(0, self.nodes - 2)
        reach = s - self.t[left]
        places = torch.cat([self.t[left] + x * reach for x, _ in _RULE])
        speeds = torch.linalg.vector_norm(self.velocity(places), dim=-1).unflatten(-1, (len(_RULE), -1))
        weights = torch.tensor([w for _, w in _RULE], dtype=speeds.dtype, device=speeds.device)
        return self.arc()[..., left] + reach * (weights[:, None] * speeds).sum(-2)

    def spacing_ratio(self) -> Scalars:
        """Largest chord over smallest: 1 for equally spaced nodes, infinite if two coincide."""
        steps = chords(self.points)
        return steps.amax(-1) / steps.amin(-1)

    def resample(
        self,
        nodes: int | None = None,
        *,
        kind: Kind = "cubic",
        weights: Float[Tensor, "*batch nodes"] | None = None,
        passes: int = 1,
    ) -> "Curve":
        """The same curve with nodes at equal arc length.

        Coincident nodes are merged first. One cubic pass is not idempotent, since equal arcs are not equal
        chords; repeated passes converge to equal chords.

        Args:
            nodes: New number of nodes; None keeps it.
            kind: "cubic" or "linear".
            weights: Relative density of nodes along the curve (say, growing with the energy); None for
                equal arc length.
            passes: Number of passes.

        Returns:
            A curve at uniform parameters; its ends are bit-equal to the old ones. Differentiable.

        Raises:
            SettingError: If fewer than two nodes or no pass is asked for.
        """
        count = self.nodes if nodes is None else nodes
        if count < 2 or passes < 1:
            raise SettingError(f"nodes={count}, passes={passes}", "at least 2 nodes and 1 pass")
        steps = chords(self.points)
        if weights is None and bool((steps <= 1e-7 * steps.mean(-1, keepdim=True)).any()):
            flat = self.points.reshape(-1, *self.points.shape[-2:])
            merged = [respace(_merge(points), count, kind=kind, passes=passes) for points in flat]
            points = torch.stack(merged).reshape(*self.points.shape[:-2], count, -1)
        else:
            points = respace(self.points, count, kind=kind, weights=weights, passes=passes)
        return Curve.through(points)

    def reverse(self) -> "Curve":
        """The same curve run from its end to its start."""
        return Curve(self.points.flip(-2), 1.0 - self.t.flip(0))


def _line(start: Tensor, nodes: int) -> Tensor:
    if nodes < 2:
        raise SettingError(f"nodes={nodes}", "at least 2 nodes")
    return torch.linspace(0.0, 1.0, nodes, dtype=start.dtype, device=start.device).unsqueeze(-1)


def _pin(points: Tensor, start: Tensor, end: Tensor) -> Tensor:
    return torch.cat([start.unsqueeze(-2), points[..., 1:-1, :], end.unsqueeze(-2)], dim=-2)


def straight(start: Points, end: Points, nodes: int = 33) -> Curve:
    """The straight segment (lerp) with equally spaced nodes; ends bit-equal."""
    u = _line(start, nodes)
    return Curve.through(_pin(torch.lerp(start.unsqueeze(-2), end.unsqueeze(-2), u), start, end))


def normal_direction(start: Points, end: Points, generator: torch.Generator | None = None) -> Vectors:
    """A unit vector orthogonal to the chord.

    Args:
        start: Starts, shape (*batch, dim), dim at least 2.
        end: Ends of the same shape.
        generator: Draws the direction; None takes the quarter turn of the chord in two dimensions, else the
            coordinate axis most nearly orthogonal to it, made orthogonal.

    Returns:
        Unit vectors of start's shape.

    Raises:
        SettingError: In one dimension, where nothing is orthogonal.
    """
    if start.shape[-1] < 2:
        raise SettingError(
            "a curve in one dimension", "two dimensions or more for a bend", "a straight start"
        )
    chord = end - start
    size = torch.linalg.vector_norm(chord, dim=-1, keepdim=True)
    first = torch.zeros_like(chord)
    first[..., 0] = 1.0
    along = torch.where(size > 0, chord / size.clamp_min(torch.finfo(chord.dtype).tiny), first)
    if generator is not None:
        seed = draw_normal(chord.shape, chord, generator)
    elif start.shape[-1] == 2:
        seed = torch.stack([-along[..., 1], along[..., 0]], dim=-1)
    else:
        seed = torch.nn.functional.one_hot(along.abs().argmin(-1), start.shape[-1]).to(chord)
    seed = seed - (seed * along).sum(-1, keepdim=True) * along
    return seed / torch.linalg.vector_norm(seed, dim=-1, keepdim=True)


def bumped(
    start: Points,
    end: Points,
    nodes: int = 33,
    *,
    amplitude: float = 0.5,
    direction: Vectors | None = None,
    waves: int = 1,
    generator: torch.Generator | None = None,
) -> Curve:
    """The straight segment bent aside: + amplitude sin(pi waves u) along a direction.

    Args:
        start: Starts, shape (*batch, dim).
        end: Ends.
        nodes: Number of nodes.
        amplitude: Height of the bump in the data's unit; its sign picks the side.
        direction: Where to bend; None for `normal_direction`.
        waves: Number of half-waves.
        generator: Draws the direction where none is given.

    Returns:
        A curve with nodes at equal arc length; ends bit-equal.
    """
    u = _line(start, nodes)
    aside = normal_direction(start, end, generator) if direction is None else direction
    bend = amplitude * torch.sin(math.pi * waves * u) * aside.unsqueeze(-2)
    points = _pin(torch.lerp(start.unsqueeze(-2), end.unsqueeze(-2), u) + bend, start, end)
    return Curve.through(points).resample(passes=3)


def via(start: Points, end: Points, points: Nodes, nodes: int = 33) -> Curve:
    """The polygon from start through via points to end, at equal arc length.

    Args:
        start: Start, shape (*batch, dim).
        end: End.
        points: Via points in order, shape (*batch, count, dim).
        nodes: Number of nodes.

    Returns:
        A curve; ends bit-equal. Via points guide the start, a solver may leave them.
    """
    _line(start, nodes)
    corners = torch.cat([start.unsqueeze(-2), points, end.unsqueeze(-2)], dim=-2)
    dense = Curve.through(corners).resample(max(nodes, 16 * corners.shape[-2]), kind="linear")
    return dense.resample(nodes, kind="linear")


def slerp(start: Points, end: Points, nodes: int = 33) -> Curve:
    """The spherical arc with the real angle between the ends and linearly interpolated norm.

    Parallel or identical ends and a zero end fall back to the straight segment; antipodal ends turn
    through an explicit orthogonal direction (`normal_direction` of the chord), so that the arc never
    collapses through the origin.

    Args:
        start: Starts, shape (*batch, dim).
        end: Ends.
        nodes: Number of nodes, equally spaced in angle.

    Returns:
        The arc; ends bit-equal. No model calls.
    """
    u = _line(start, nodes)
    a, b = start.unsqueeze(-2), end.unsqueeze(-2)
    tiny = torch.finfo(start.dtype).tiny
    size_a = torch.linalg.vector_norm(a, dim=-1, keepdim=True)
    size_b = torch.linalg.vector_norm(b, dim=-1, keepdim=True)
    unit_a, unit_b = a / size_a.clamp_min(tiny), b / size_b.clamp_min(tiny)
    # the angle from half-chords is accurate at 0 and at pi, where the arc cosine is not
    apart = torch.linalg.vector_norm(unit_b - unit_a, dim=-1, keepdim=True)
    together = torch.linalg.vector_norm(unit_b + unit_a, dim=-1, keepdim=True)
    angle = 2.0 * torch.atan2(apart, together)
    near = math.sqrt(torch.finfo(start.dtype).eps)
    opposite = together < near
    if start.shape[-1] > 1:
        aside = normal_direction(-start, start).unsqueeze(-2)
    else:
        aside, opposite = torch.zeros_like(a), torch.zeros_like(opposite)
    inward = unit_b - (unit_a * unit_b).sum(-1, keepdim=True) * unit_a
    inward = inward / torch.linalg.vector_norm(inward, dim=-1, keepdim=True).clamp_min(tiny)
    inward = torch.where(opposite, aside, inward)
    turned = torch.cos(u * angle) * unit_a + torch.sin(u * angle) * inward
    arc = torch.lerp(size_a, size_b, u) * turned
    flat = (apart < near) | (size_a == 0) | (size_b == 0) | ((start.shape[-1] == 1) & (together < near))
    points = torch.where(flat, torch.lerp(a, b, u), arc)
    return Curve.through(_pin(points, start, end))
