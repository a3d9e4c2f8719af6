r"""Energies along a string: the spline profile, its extrema, and the barriers between them.

Along a curve with arc length s the energy has slope :math:`dV/ds = -F\cdot\tau`. Where V is known at the
images the profile is the cubic Hermite interpolant of values and slopes; where only the force is known (a
score), V is the line integral :math:`V(s) - V(0) = -\int_0^s F\cdot\tau\,ds'` of the spline through the
slopes: a preview that needs no further model call, and, refined between the nodes, the energy itself. The
largest value at the images alone is biased low; extrema are therefore located between them, on the landscape
itself when it can be asked.

References:
    Henkelman, Uberuaga, Jonsson, "A climbing image nudged elastic band method", 2000 (interpolation with
        slopes), https://doi.org/10.1063/1.1329672
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.curves import Curve
from workbench.splines import slope_matrix
from workbench.types import Nodes

PER_SEGMENT = 16  # dense points a segment: extrema are then located to a few per cent of a segment
FINEST = 16  # points a segment at which forces are integrated at most
_SETTLED = 0.01  # of the energies' range: change at the nodes below which an integral counts as settled


@dataclass(frozen=True, slots=True)
class Profile:
    """A dense energy profile along a curve.

    Attributes:
        arc: Arc length from the start, shape (m,), increasing.
        energy: V there, shape (m,), relative to the start.
    """

    arc: Float[Tensor, " m"]
    energy: Float[Tensor, " m"]


@dataclass(frozen=True, slots=True)
class Extremum:
    """A minimum or maximum of the energy along a curve.

    Attributes:
        t: Curve parameter.
        arc: Arc length from the start.
        energy: V relative to the start.
        kind: "minimum" or "maximum".
    """

    t: float
    arc: float
    energy: float
    kind: str


def slopes_along(curve: Curve, forces: Nodes) -> Float[Tensor, "*batch nodes"]:
    """dV/ds = -F . tau at the nodes, shape (*batch, nodes), in energy per length."""
    return -(forces * curve.tangents()).sum(-1)


def integrate_slopes(
    arc: Float[Tensor, "*batch nodes"], slope: Float[Tensor, "*batch nodes"]
) -> Float[Tensor, "*batch nodes"]:
    """Integral of the not-a-knot spline through slopes, from the first node to each.

    Args:
        arc: Arc length at the nodes, shape (*batch, nodes).
        slope: Slopes there.

    Returns:
        V - V(0) at the nodes, of the same shape; fourth order in the spacing. Differentiable.
    """
    bend = (slope_matrix(arc) @ slope.unsqueeze(-1)).squeeze(-1)
    ds = arc.diff(dim=-1)
    pieces = 0.5 * ds * (slope[..., 1:] + slope[..., :-1]) + ds**2 / 12.0 * (bend[..., :-1] - bend[..., 1:])
    return torch.cat([torch.zeros_like(pieces[..., :1]), pieces.cumsum(-1)], dim=-1)


def line_integral(curve: Curve, forces: Nodes) -> Float[Tensor, "*batch nodes"]:
    """Energy at the nodes relative to the start, from forces alone.

    Args:
        curve: The curve.
        forces: Force (score) at its nodes, shape (*batch, nodes, dim).

    Returns:
        V - V(start), shape (*batch, nodes), in the force's energy unit (nats for a score). No model calls.
    """
    return integrate_slopes(curve.arc().double(), slopes_along(curve, forces).double()).to(forces.dtype)


@dataclass(frozen=True, slots=True)
class Integrated:
    """Energies that follow from forces alone, on a spline that was refined until they settled.

    Attributes:
        curve: The spline with as many points a segment as it took, points (count, dim).
        energy: V there relative to the start, shape (count,).
        forces: Force there, shape (count, dim).
        finer: Points a segment.
        error: Largest change of V at the nodes in the last refinement.
    """

    curve: Curve
    energy: Float[Tensor, " count"]
    forces: Nodes
    finer: int
    error: float

    @property
    def at_nodes(self) -> Float[Tensor, " nodes"]:
        """V at the nodes of the curve that was asked for, shape (nodes,)."""
        return self.energy[:: self.finer]


def integrate_forces(
    curve: Curve, forces: Nodes, force: Callable[[Tensor], Tensor], *, finest: int = FINEST
) -> Integrated:
    """Energies along one curve from forces alone, whatever its images miss of what lies between them.

    A string of a network winds, and its score turns within a segment: an integral over the nodes alone can
    be wrong by more than all it integrates. Points are added between the old ones until the energies at the
    nodes stand still.

    Args:
        curve: One curve, points (nodes, dim).
        forces: Force at its nodes, shape (nodes, dim).
        force: The force, for the points between.
        finest: Points a segment at most, a power of two; 1 leaves it at the nodes, with an infinite error.

    Returns:
        The energies, with the change in the last refinement as their error.

    Cost: at least nodes - 1 evaluations, at most 15 times as many, in one to four batches.
    """
    fine, pulls = curve, forces
    energy = line_integral(curve, forces)
    finer, change = 1, math.inf
    while finer < finest and curve.nodes > 1:
        finer *= 2
        t = torch.linspace(
            0.0, 1.0, finer * (curve.nodes - 1) + 1, dtype=curve.t.dtype, device=curve.t.device
        )
        points = curve(t)
        between = force(points[1::2])
        pulls = torch.cat([torch.stack([pulls[:-1], between], dim=1).flatten(0, 1), forces[-1:]])
        fine = Curve(points, t)
        before, energy = energy[:: finer // 2], line_integral(fine, pulls)
        change = float((energy[::finer] - before).abs().max())
        if not change > _SETTLED * float(energy.max() - energy.min()):
            break
    return Integrated(fine, energy, pulls, finer, change)


def spline_profile(
    curve: Curve, energy: Float[Tensor, " nodes"], forces: Nodes, *, per_segment: int = PER_SEGMENT
) -> Profile:
    """The Hermite profile through energies and slopes at the nodes of one curve.

    Args:
        curve: One curve, points (nodes, dim).
        energy: V at its nodes, shape (nodes,).
        forces: Force there, shape (nodes, dim).
        per_segment: Points a segment.

    Returns:
        The profile, relative to the start. No model calls.
    """
    arc, slope = curve.arc(), slopes_along(curve, forces)
    u = torch.arange(per_segment, dtype=arc.dtype, device=arc.device) / per_segment
    ds = arc.diff()[:, None]
    rise = u * u * (3.0 - 2.0 * u)
    inner = (
        energy[:-1, None] * (1.0 - rise)
        + energy[1:, None] * rise
        + ds * (slope[:-1, None] * u * (1.0 - u) ** 2 + slope[1:, None] * u * u * (u - 1.0))
    )
    places = arc[:-1, None] + ds * u
    return Profile(
        torch.cat([places.reshape(-1), arc[-1:]]),
        torch.cat([inner.reshape(-1), energy[-1:]]) - energy[0],
    )


def find_extrema(profile: Profile, *, prominence: float = 0.0) -> tuple[Extremum, ...]:
    """Minima and maxima along a profile, alternating, ends included.

    Args:
        profile: The profile.
        prominence: Height below which a dip or bump is noise; neighbouring extrema that differ by less are
            removed in pairs, the smallest first.

    Returns:
        Extrema in order along the curve.
    """
    arc, energy = profile.arc.tolist(), profile.energy.tolist()
    last = len(energy) - 1
    turns = _alternating(list(range(last + 1)), energy)
    while len(turns) > 2:
        gaps = [abs(energy[b] - energy[a]) for a, b in itertools.pairwise(turns)]
        least = min(range(len(gaps)), key=gaps.__getitem__)
        if gaps[least] > prominence:
            break
        if least == 0:
            del turns[1]
        elif least == len(gaps) - 1:
            del turns[-2]
        else:
            del turns[least : least + 2]
        turns = _alternating(turns, energy)
    kinds = ["maximum" if _above(turns, energy, k) else "minimum" for k in range(len(turns))]
    return tuple(Extremum(i / last, arc[i], energy[i], kind) for i, kind in zip(turns, kinds, strict=True))


def _above(turns: list[int], energy: list[float], k: int) -> bool:
    return energy[turns[k]] > energy[turns[k + 1 if k == 0 else k - 1]]


def _alternating(turns: list[int], energy: list[float]) -> list[int]:
    """Drop inner points at which the direction does not change."""
    kept = turns[:1]
    for here, after in itertools.pairwise(turns[1:]):
        if (energy[here] - energy[kept[-1]]) * (energy[after] - energy[here]) < 0:
            kept.append(here)
    return [*kept, turns[-1]]


def refine_extrema(
    curve: Curve,
    extrema: tuple[Extremum, ...],
    force: Callable[[Tensor], Tensor],
    energy: Callable[[Tensor], Tensor],
    *,
    iterations: int = 6,
) -> tuple[Extremum, ...]:
    """Locate extrema on the spline with the landscape itself instead of the interpolated profile.

    Args:
        curve: One curve.
        extrema: Extrema of its profile.
        force: Force at points (rows, dim).
        energy: V at points (rows, dim), whose zero is the curve's start.
        iterations: Steps of the Illinois variant of false position on dV/dt within one segment's reach.

    Returns:
        The extrema, inner ones moved, with energies from the landscape; without those next to an end that the
        landscape does not confirm.

    Cost: (iterations + 2) force and 1 energy evaluations an inner extremum.
    """
    inner = [k for k, point in enumerate(extrema) if 0.0 < point.t < 1.0]
    if not inner:
        return extrema
    t = torch.tensor([extrema[k].t for k in inner], dtype=curve.points.dtype, device=curve.points.device)
    reach = 0.75 / (curve.nodes - 1)

    moving = curve.moving()

    def slope(at: Tensor) -> Tensor:
        points, velocities = moving(at)
        return -(force(points) * velocities).sum(-1)

    low, high = (t - reach).clamp_min(0.0), (t + reach).clamp_max(1.0)
    f_low, f_high = slope(low), slope(high)
    bracketed = f_low * f_high < 0
    for _ in range(iterations):
        at = (low * f_high - high * f_low) / torch.where(
            f_high == f_low, torch.ones_like(f_low), f_high - f_low
        )
        f_at = slope(at)
        left = f_at * f_high < 0  # the root lies between at and high
        low, f_low, f_high = (
            torch.where(left, high, low),
            torch.where(left, f_high, 0.5 * f_low),
            f_at,
        )
        high = at
    t = torch.where(bracketed & torch.isfinite(high), high, t)
    values = energy(curve(t))
    refined = list(extrema)
    for k, place, value, length in zip(
        inner, t.tolist(), values.tolist(), curve.arc_at(t).tolist(), strict=True
    ):
        refined[k] = Extremum(place, length, value, extrema[k].kind)
    refined = _without_ripple_at_start(refined, reach)
    return tuple(_without_ripple_at_start(refined[::-1], reach)[::-1])


def _without_ripple_at_start(extrema: list[Extremum], reach: float) -> list[Extremum]:
    """An end takes the place of its neighbour if that is close and goes no further down or up than the end.

    The interpolated profile dips by a hair next to an end that is a minimum; on the landscape there is no
    dip.
    """
    if len(extrema) < 3 or abs(extrema[1].t - extrema[0].t) > reach:
        return extrema
    end, near = extrema[0], extrema[1]
    beyond = near.energy < end.energy if near.kind == "minimum" else near.energy > end.energy
    return extrema if beyond else [replace(end, kind=near.kind), *extrema[2:]]
