r"""What a string says: energies, barriers with their saddles, length, and how far each number can be trusted.

Errors are differences between two ways to the same number. The barrier on the spline is held against the
energy of the saddle that Newton's method finds from its top, against the spline through every second image,
and, where energies are integrals of forces, against the integral over half as many points and along the
straight line; the length against every second image, and against another solution where the solver has one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.curves import Curve, straight
from workbench.errors import ModelOutputError
from workbench.report import Estimate
from workbench.splines import arc_knots, tangents_at_nodes
from workbench.strings.ground import Ground
from workbench.strings.meter import Meter
from workbench.strings.profile import (
    FINEST,
    PER_SEGMENT,
    Extremum,
    Profile,
    find_extrema,
    integrate_forces,
    refine_extrema,
    spline_profile,
)
from workbench.strings.saddles import Stationary, climb, cluster, descend, hessian_products, polish
from workbench.types import Nodes, Points, Vectors

VAGUE = 0.25
"""Share of a barrier from which its error makes it vague."""

_SAME_PLACE = 0.05  # of the string's length: how far a polished saddle may lie from the string's top


@dataclass(frozen=True, slots=True)
class Barrier:
    """A minimum and a neighbouring maximum of the energy along a string.

    Attributes:
        minimum_arc: Arc length of the minimum from the start.
        minimum_energy: Energy there, relative to the start.
        maximum_arc: Arc length of the maximum.
        maximum_energy: Energy there on the spline.
        height: What has to be climbed from the minimum to the maximum.
        saddle: The stationary point polished from the maximum, shape (dim,); None if none was found close by.
        hessian_index: Number of directions in which the energy falls there; None without a saddle.
        polished: Height with the saddle's own energy; None without it or without energies.
    """

    minimum_arc: float
    minimum_energy: float
    maximum_arc: float
    maximum_energy: float
    height: float
    saddle: Points | None
    hessian_index: int | None
    polished: float | None


@dataclass(frozen=True, slots=True)
class Reading:
    """Numbers read off one string.

    Attributes:
        energy: V at the images relative to the start, shape (nodes,).
        profile: Dense profile.
        barriers: Every neighbouring (minimum, maximum) pair along the string, both ways over each maximum.
        barrier: Largest V on the splined string minus V at the start.
        length: Arc length of the spline.
        force_perp: Force across the string at the images, shape (nodes,).
        modes: Minima found from the dips along the string, shape (count, dim).
        mode_energies: Their energies relative to the start, shape (count,).
        warnings: What a reader should know.
    """

    energy: Tensor
    profile: Profile
    barriers: tuple[Barrier, ...]
    barrier: Estimate
    length: Estimate
    force_perp: Tensor
    modes: Nodes | None
    mode_energies: Tensor | None
    warnings: tuple[str, ...]


def _every_second(nodes: int) -> Tensor | None:
    """Rows of every second node and of both ends; None where they are too few for a spline."""
    if nodes < 4:
        return None
    return torch.tensor(sorted({*range(0, nodes, 2), nodes - 1}))


def _top(extrema: tuple[Extremum, ...]) -> float:
    return max(point.energy for point in extrema)


@torch.no_grad()
def read_string(
    curve: Curve,
    ground: Ground,
    meter: Meter,
    *,
    forces: Nodes | None = None,
    prominence: float | None = None,
    polish_saddles: bool = True,
    refine: bool = True,
    other: Curve | None = None,
    other_says: str = "",
    tol: float = 0.0,
) -> Reading:
    """Read energies, barriers and length off one string.

    Args:
        curve: One string, points (nodes, dim).
        ground: The landscape.
        meter: Where calls are counted.
        forces: Forces at the images, if they are at hand.
        prominence: Energy below which a dip or bump is noise; None for 1e-6 of the range, or 1e-3 of it where
            energies are integrated forces.
        polish_saddles: Look for the stationary points at maxima and minima.
        refine: Look between the images too: integrate forces there until the energies settle, or find where
            known energies turn. Without it, a preview.
        other: Another solution for the same string; its length and barrier enter the errors.
        other_says: How it was obtained, in words.
        tol: Relative accuracy at which the string was solved; the length's error is no smaller.

    Returns:
        The reading.

    Cost: nodes, 40 times as many at most where only forces are known, + about 10 evaluations an extremum, and
    with polishing some 2 dim to 80 a Newton step.
    """
    pulls: Tensor = meter(ground.force, curve.points) if forces is None else forces
    tangent = tangents_at_nodes(curve.points, arc_knots(curve.points))
    across = torch.linalg.vector_norm(pulls - (pulls * tangent).sum(-1, keepdim=True) * tangent, dim=-1)
    along = _profile(curve, ground, meter, pulls, prominence, refine)
    profile, extrema = along.profile, along.extrema
    rows = _every_second(curve.nodes)
    half = rough = None
    if rows is not None:
        half = Curve(curve.points[rows], curve.t[rows])
        rough = _top(_profile(half, ground, meter, pulls[rows], prominence, refine).extrema)
    warnings = []
    found: dict[int, Stationary] = {}
    if polish_saddles:
        found = _polish_tops(curve, ground, meter, extrema)
    gains = _gains(found, ground, curve, meter)
    barriers = _pairs(extrema, found, gains)
    top = max(extrema, key=lambda point: point.energy)
    drift = _drift(curve, ground, meter, along) if refine and ground.energy is None else 0.0
    barrier = _barrier_estimate(top, extrema, gains, ground, curve, rough, other, meter, along.error, drift)
    for k, point in found.items():
        if point.index > 1 and extrema[k].kind == "maximum":
            warnings.append(
                f"the string passes a stationary point of index {point.index} at arc {extrema[k].arc:.4g}: "
                "a symmetric trap, no transition state; try a bumped start"
            )
    warnings += _no_minimum("start", extrema, profile, ground.unit)
    span = float(profile.energy.max() - profile.energy.min())
    mirrored = tuple(reversed([replace(point, t=1.0 - point.t) for point in extrema]))
    warnings += _no_minimum("end", mirrored, profile, ground.unit)
    if (
        barrier.error is not None
        and barrier.error > VAGUE * abs(barrier.value)
        and barrier.error > 1e-2 * span
    ):
        warnings.append(
            f"the barrier {barrier.value:.4g} is uncertain by {barrier.error:.4g} {ground.unit}: "
            "more images resolve it"
        )
    modes = mode_energies = None
    if polish_saddles:
        modes, mode_energies = _modes(curve, ground, meter, extrema)
    return Reading(
        energy=along.energy,
        profile=profile,
        barriers=barriers,
        barrier=barrier,
        length=_length_estimate(curve, half, other, other_says, tol),
        force_perp=across,
        modes=modes,
        mode_energies=mode_energies,
        warnings=tuple(warnings),
    )


def _no_minimum(end: str, extrema: Sequence[Extremum], profile: Profile, unit: str) -> list[str]:
    """A sentence if the energy falls from the first extremum, an end, by much and at once."""
    if len(extrema) < 2 or extrema[0].kind != "maximum":
        return []
    drop = extrema[0].energy - extrema[1].energy
    if drop <= 0.05 * float(profile.energy.max() - profile.energy.min()) or extrema[1].t >= 0.25:
        return []
    return [f"the {end} is no minimum: the energy falls by {drop:.4g} {unit} from it"]


def _check_energies(values: Tensor, ground: Ground) -> None:
    """Name the first image whose energy is not finite."""
    bad = ~torch.isfinite(values)
    if bool(bad.any()):
        raise ModelOutputError(
            f"an energy that is not finite from {ground.name} at image {int(bad.nonzero()[0])}",
            "finite energies at every image",
            "ends nearer to the model's minima",
        )


@dataclass(frozen=True, slots=True)
class _Energies:
    """What a landscape says along a string."""

    energy: Tensor  # at the images, relative to the start, (nodes,)
    profile: Profile
    extrema: tuple[Extremum, ...]
    error: float  # of the energies, where they are integrals of forces


def _profile(curve, ground, meter, forces, prominence, refine) -> "_Energies":
    if ground.energy is None:
        found = integrate_forces(
            curve, forces, lambda x: meter(ground.force, x), finest=FINEST if refine else 1
        )
        _check_energies(found.at_nodes, ground)
        profile = spline_profile(
            found.curve, found.energy, found.forces, per_segment=max(2, PER_SEGMENT // found.finer)
        )
        span = float(profile.energy.max() - profile.energy.min())
        extrema = find_extrema(profile, prominence=1e-3 * span if prominence is None else prominence)
        return _Energies(found.at_nodes, profile, extrema, found.error)
    values = meter(ground.energy, curve.points)
    _check_energies(values, ground)
    profile = spline_profile(curve, values, forces)
    span = float(profile.energy.max() - profile.energy.min())
    extrema = find_extrema(profile, prominence=1e-6 * span if prominence is None else prominence)
    if refine:
        extrema = refine_extrema(
            curve,
            extrema,
            lambda x: meter(ground.force, x),
            lambda x: meter(ground.energy, x) - values[0],
        )
    return _Energies(values - values[0], profile, extrema, 0.0)


def _drift(curve: Curve, ground: Ground, meter: Meter, along: _Energies) -> float:
    """How far the energy of the end along the string is from that along the straight line.

    A score that is learned is no gradient: its integral depends on the way. This is the part of an error that
    no refinement takes away; it is taken to grow evenly along the string.
    """
    line = straight(curve.points[0], curve.points[-1], curve.nodes)
    here = meter(ground.force, line.points)
    direct = integrate_forces(line, here, lambda x: meter(ground.force, x))
    return abs(float(direct.energy[-1]) - float(along.energy[-1]))


def _polish_tops(curve, ground, meter, extrema) -> dict[int, Stationary]:
    """Stationary points near inner maxima, where Newton's method finds one close by."""
    length = float(curve.length())

    def force(rows: Points) -> Vectors:
        return meter(ground.force, rows)

    products = hessian_products(force, how="vjp" if ground.smooth else "difference")
    found = {}
    for k, point in enumerate(extrema):
        if point.kind != "maximum" or not 0.0 < point.t < 1.0:
            continue
        at = torch.tensor([point.t], dtype=curve.points.dtype, device=curve.points.device)
        x, v = curve(at)[0], curve.velocity(at)[0]
        tangent = v / torch.linalg.vector_norm(v)
        reach = _SAME_PLACE * length
        stationary = polish(force, x, products=products, direction=tangent, max_move=reach)
        if (
            not stationary.converged or stationary.index == 0
        ):  # a flat top: climb out of reach of the dip beside it
            nearer = climb(force, x[None], tangent[None], tol=1e-6, max_iterations=100)[0][0]
            if bool(torch.isfinite(nearer).all()) and float(torch.linalg.vector_norm(nearer - x)) < reach:
                stationary = polish(force, nearer, products=products, direction=tangent, max_move=reach)
        if stationary.converged and stationary.index > 0:
            found[k] = stationary
    return found


def _gains(found: dict[int, Stationary], ground: Ground, curve: Curve, meter: Meter) -> dict[int, float]:
    """Energy of every saddle above the start; empty where only forces are known."""
    if not found or ground.energy is None:
        return {}
    places = torch.stack([curve.points[0], *(saddle.point for saddle in found.values())])
    start, *values = meter(ground.energy, places).tolist()
    return {k: value - start for k, value in zip(found, values, strict=True)}


def _pairs(
    extrema: Sequence[Extremum], found: dict[int, Stationary], gains: dict[int, float]
) -> tuple[Barrier, ...]:
    barriers = []
    for k, top in enumerate(extrema):
        if top.kind != "maximum" or not 0.0 < top.t < 1.0:
            continue
        saddle = found.get(k)
        gain = gains.get(k)
        for dip in (extrema[k - 1], extrema[k + 1]):
            barriers.append(
                Barrier(
                    minimum_arc=dip.arc,
                    minimum_energy=dip.energy,
                    maximum_arc=top.arc,
                    maximum_energy=top.energy,
                    height=top.energy - dip.energy,
                    saddle=None if saddle is None else saddle.point,
                    hessian_index=None if saddle is None else saddle.index,
                    polished=None if gain is None else gain - dip.energy,
                )
            )
    return tuple(barriers)


def _barrier_estimate(top, extrema, gains, ground, curve, rough, other, meter, integrated, drift) -> Estimate:
    parts, how = [], []
    if drift > 0:
        parts.append(drift * top.t)
        how.append("the end by the straight line")
    if 0 < integrated < math.inf:
        parts.append(integrated)
        how.append("the integral against half as many points")
    span = max(point.energy for point in extrema) - min(point.energy for point in extrema)
    floor = 64 * torch.finfo(curve.points.dtype).eps * (abs(span) + 1.0)
    gain = gains.get(extrema.index(top))
    if gain is not None:
        parts.append(abs(top.energy - gain))
        how.append("against the polished saddle")
    if rough is not None:
        # with the saddle at hand the spline through half the images overstates what is left by its order
        parts.append(abs(top.energy - rough) / (8.0 if gain is not None else 1.0))
        how.append("against every second image")
    if other is not None and gain is None and ground.energy is not None:
        values = meter(ground.energy, other(torch.linspace(0, 1, 8 * other.nodes).to(other.points)))
        parts.append(abs(top.energy - float(values.max() - values[0])))
        how.append("against the other solution")
    error = math.sqrt(sum(part**2 for part in parts)) + floor if parts else None
    return Estimate(top.energy, error, ground.unit, ", ".join(how))


def _length_estimate(curve, half, other, other_says, tol) -> Estimate:
    value = float(curve.length())
    parts, how = [tol * value], []
    if half is not None:
        parts.append(abs(value - float(half.length())))
        how.append("against every second image")
    if other is not None:
        parts.append(abs(value - float(other.length())))
        how.append(other_says)
    error = max(parts) + 64 * torch.finfo(curve.points.dtype).eps * value if how else None
    return Estimate(value, error, "", ", ".join(how))


def _modes(curve, ground, meter, extrema) -> tuple[Nodes | None, Tensor | None]:
    """Minima below the dips of the string, each once, in order along it."""
    places = [point.t for point in extrema if point.kind == "minimum"]
    if not places:
        return None, None
    x = curve(torch.tensor(places, dtype=curve.points.dtype, device=curve.points.device))

    def force(rows: Points) -> Vectors:
        return meter(ground.force, rows)

    x, _ = descend(force, x, tol=1e-6, max_iterations=300)
    products = hessian_products(force, how="vjp" if ground.smooth else "difference")
    settled = [polish(force, point, products=products, max_move=0.1 * float(curve.length())) for point in x]
    points = [s.point if s.converged and s.index == 0 else p for s, p in zip(settled, x, strict=True)]
    kept, _ = cluster(torch.stack(points), 1e-3 * float(curve.length()))
    if ground.energy is None:
        return kept, None
    values = meter(ground.energy, torch.cat([curve.points[:1], kept]))
    return kept, values[1:] - values[0]


def deviation_between(
    points: Float[Tensor, "count dim"], path: Float[Tensor, "corners dim"]
) -> Float[Tensor, " count"]:
    """Distance of each point to a polyline.

    Args:
        points: Shape (count, dim).
        path: Corners, shape (corners, dim).

    Returns:
        Distances, shape (count,).
    """
    start, edge = path[:-1], path[1:] - path[:-1]
    size = edge.square().sum(-1).clamp_min(torch.finfo(points.dtype).tiny)
    offset = points[:, None] - start
    share = ((offset * edge).sum(-1) / size).clamp(0.0, 1.0)
    return torch.linalg.vector_norm(offset - share[..., None] * edge, dim=-1).amin(-1)
