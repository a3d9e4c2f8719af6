r"""Shapes of molecules: rigid motions divided out, torsions read and turned, starts for a string.

A conformation of n atoms is a flat point of 3n coordinates, :math:`(x_1, y_1, z_1, x_2, \ldots)`. Its energy
does not change under a rigid motion :math:`r_a \mapsto Q r_a + c`, so a curve of conformations is only
determined up to one such motion at every node. The representative taken here puts every node as close as
possible to the node before it,

.. math::
    (Q_i, c_i) = \arg\min \sum_a \lvert Q r_a^{(i)} + c - r_a^{(i-1)}\rvert^2,

whose solution is a singular value decomposition of a 3 by 3 matrix. Every atom has the same weight: lengths
are those of the plain Cartesian metric, not mass-weighted ones. Lengths are in the unit of the coordinates,
angles in radians, and torsions follow the convention of IUPAC: 0 is cis, positive is clockwise looking from
atom 2 to atom 3.

References:
    Kabsch, "A solution for the best rotation to relate two sets of vectors", 1976,
        https://doi.org/10.1107/S0567739476001873
    Blondel, Karplus, "New formulation for derivatives of torsion angles", 1996 (the two-argument arctangent)
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.errors import SettingError, ShapeError
from workbench.types import Coords, Nodes, Points, Scalars


@dataclass(frozen=True, slots=True)
class Torsion:
    """A bond about which a part of a molecule turns.

    Attributes:
        name: Its name, e.g. "phi".
        atoms: The four atoms of the dihedral angle; the bond joins the middle two.
        moving: The atoms that follow when the angle grows; atoms[3] is one of them.
    """

    name: str
    atoms: tuple[int, int, int, int]
    moving: tuple[int, ...]


def torsion_about(name: str, atoms: tuple[int, int, int, int], bonds: Iterable[tuple[int, int]]) -> Torsion:
    """The torsion whose moving part is everything beyond the middle bond.

    Args:
        name: Its name.
        atoms: The four atoms of the dihedral angle.
        bonds: Pairs of bonded atoms.

    Returns:
        The torsion, its moving atoms in increasing order without the two of the bond.

    Raises:
        SettingError: If the middle bond lies in a ring, where nothing can turn about it.
    """
    neighbours: dict[int, set[int]] = {}
    for i, j in bonds:
        neighbours.setdefault(i, set()).add(j)
        neighbours.setdefault(j, set()).add(i)
    hinge, pivot = atoms[1], atoms[2]
    seen, front = {pivot}, [pivot]
    while front:
        here = front.pop()
        for other in neighbours.get(here, set()) - seen:
            if (here, other) == (pivot, hinge):
                continue
            seen.add(other)
            front.append(other)
    if hinge in seen:
        raise SettingError(f"a torsion about the ring bond {hinge}-{pivot}", "a bond outside every ring")
    return Torsion(name, atoms, tuple(sorted(seen - {pivot})))


def _as_atoms(x: Points) -> Tensor:
    """Points (*batch, 3 n) as (*batch, n, 3)."""
    if x.shape[-1] % 3:
        raise ShapeError(f"points of {x.shape[-1]} coordinates", "three coordinates an atom")
    return x.unflatten(-1, (-1, 3))


def _best_rotation(x: Tensor, reference: Tensor) -> Tensor:
    """Rotations Q (*batch, 3, 3) for which the rows x @ Q lie closest to reference; both centred."""
    u, _, vt = torch.linalg.svd(x.transpose(-1, -2) @ reference)
    proper = torch.ones_like(u[..., 0])
    proper[..., 2] = torch.linalg.det(u @ vt).sign()  # without it, mirror images would be "aligned"
    return (u * proper.unsqueeze(-2)) @ vt


def kabsch_align(x: Points, reference: Tensor) -> Points:
    """Move conformations rigidly as close as possible to a reference.

    Args:
        x: Conformations, shape (*batch, 3 n).
        reference: What to lie close to, shape broadcastable to x's, in the same unit.

    Returns:
        The moved conformations, x's shape. Mirror images are never made. Gradients pass through the singular
        value decomposition, which has none where the best rotation is not unique. No model call.

    Raises:
        ShapeError: If the last axis is no multiple of three.

    References:
        Kabsch, "A solution for the best rotation to relate two sets of vectors", 1976.
    """
    atoms, fixed = _as_atoms(x), _as_atoms(reference)
    centre = fixed.mean(dim=-2, keepdim=True)
    centred = atoms - atoms.mean(dim=-2, keepdim=True)
    return (centred @ _best_rotation(centred, fixed - centre) + centre).flatten(-2)


def align_nodes(nodes: Nodes) -> Nodes:
    """Move every node of a curve rigidly as close as possible to the node before it.

    The first node stays; the last one turns with the rest, since how it lies depends on the way that leads
    there. The rotation of node i is the product of the rotations between neighbours, so one batched
    decomposition is enough.

    Args:
        nodes: Curves of conformations, shape (*batch, nodes, 3 n).

    Returns:
        Curves of the same shape. Applying it again changes nothing. No model call.

    Raises:
        ShapeError: If the last axis is no multiple of three.
    """
    atoms = _as_atoms(nodes)
    centres = atoms.mean(dim=-2, keepdim=True)
    centred = atoms - centres
    steps = _best_rotation(centred[..., 1:, :, :], centred[..., :-1, :, :])
    turns = [torch.eye(3, dtype=nodes.dtype, device=nodes.device).expand(*steps.shape[:-3], 3, 3)]
    for i in range(steps.shape[-3]):
        turns.append(steps[..., i, :, :] @ turns[-1])
    moved = (centred @ torch.stack(turns, dim=-3) + centres[..., :1, :, :]).flatten(-2)
    return torch.cat([nodes[..., :1, :], moved[..., 1:, :]], dim=-2)


def dihedral_angles(x: Points, torsions: Sequence[Torsion]) -> Coords:
    """Torsion angles of conformations.

    Args:
        x: Conformations, shape (*batch, 3 n).
        torsions: Which angles.

    Returns:
        Angles in radians in (-pi, pi], shape (*batch, len(torsions)). Differentiable except where three of
        the four atoms lie on a line. No model call.

    References:
        Blondel, Karplus, "New formulation for derivatives of torsion angles", 1996.
    """
    atoms = _as_atoms(x)
    a, b, c, d = (
        atoms[..., torch.tensor([t.atoms[k] for t in torsions], device=x.device), :] for k in range(4)
    )
    first, axis, last = b - a, c - b, d - c
    before, after = torch.linalg.cross(first, axis), torch.linalg.cross(axis, last)
    sine = axis.norm(dim=-1) * (first * after).sum(dim=-1)
    return torch.atan2(sine, (before * after).sum(dim=-1))


def twist(x: Points, torsion: Torsion, angle: Scalars) -> Points:
    """Turn the moving part of conformations about a bond.

    Args:
        x: Conformations, shape (*batch, 3 n).
        torsion: The bond and what moves.
        angle: By how much its dihedral angle grows, in radians, shape (*batch,).

    Returns:
        The turned conformations; all bond lengths and bond angles are kept. Differentiable. No model call.
    """
    atoms = _as_atoms(x)
    pivot = atoms[..., torsion.atoms[2], :].unsqueeze(-2)
    axis = pivot - atoms[..., torsion.atoms[1], :].unsqueeze(-2)
    axis = axis / axis.norm(dim=-1, keepdim=True)
    moving = torch.tensor(torsion.moving, device=x.device)
    arm = atoms[..., moving, :] - pivot
    cosine, sine = angle.cos()[..., None, None], angle.sin()[..., None, None]
    along = (arm * axis).sum(dim=-1, keepdim=True) * axis
    turned = pivot + arm * cosine + torch.linalg.cross(axis.expand_as(arm), arm) * sine + along * (1 - cosine)
    return atoms.index_copy(-2, moving, turned).flatten(-2)


def torsion_start(
    start: Points, end: Points, torsions: Sequence[Torsion], *, nodes: int = 21, via: Tensor | None = None
) -> Nodes:
    """A first curve between two conformations that turns about bonds instead of crossing atoms.

    The torsion angles run along straight legs from the start's over the via points to the end's, each leg the
    shorter way round. A node at share s is the mean, weighted by 1 - s and s, of the start turned forward to
    its angles and of the end turned back to them. The two differ only by small strains, so their mean keeps
    the bonds, which the straight line between two conformations does not. The via points choose the route.

    Args:
        start: First conformation, shape (3 n,).
        end: Last conformation, shape (3 n,); the atoms in the same order.
        torsions: The bonds that turn.
        nodes: Number of nodes, equally spaced in angle.
        via: Angles to pass, in radians, shape (points, len(torsions)); none if None.

    Returns:
        Nodes, shape (nodes, 3 n), each aligned to the one before; the first is the start, the last is the end
        up to a rigid motion. No model call.

    Raises:
        ShapeError: If the via points do not have one angle for each torsion.
        SettingError: If there are fewer than two nodes.
    """
    if nodes < 2:
        raise SettingError(f"nodes = {nodes}", "at least 2")
    if via is not None and (via.ndim != 2 or via.shape[-1] != len(torsions)):
        raise ShapeError(f"via of shape {tuple(via.shape)}", f"shape (points, {len(torsions)})")
    first, last = dihedral_angles(start, torsions), dihedral_angles(end, torsions)
    corners = torch.stack([first, *([] if via is None else via.to(first)), last])
    legs = torch.remainder(corners.diff(dim=0) + math.pi, 2 * math.pi) - math.pi
    ends = torch.cat([torch.zeros_like(first[:1]), legs.norm(dim=-1).cumsum(dim=0)])
    share = torch.linspace(0, 1, nodes, dtype=start.dtype, device=start.device)
    place = share * ends[-1]
    leg = torch.searchsorted(ends[1:-1].contiguous(), place, right=True)
    within = (place - ends[leg]) / (ends[leg + 1] - ends[leg]).clamp_min(torch.finfo(start.dtype).tiny)
    course = (
        torch.cat([torch.zeros_like(legs[:1]), legs.cumsum(dim=0)])[leg] + within.unsqueeze(-1) * legs[leg]
    )
    forward, back = start.expand(nodes, -1), end.expand(nodes, -1)
    for torsion, on, off in zip(torsions, course.T, (course - legs.sum(dim=0)).T, strict=True):
        forward, back = twist(forward, torsion, on), twist(back, torsion, off)
    weight = share.unsqueeze(-1)
    blend = (1 - weight) * forward + weight * kabsch_align(back, forward)
    return align_nodes(torch.cat([start.unsqueeze(0), blend[1:]]))  # turning by 0 rounds; the start must not
