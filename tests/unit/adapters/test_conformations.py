"""Rigid motions and torsions against scipy and plane geometry; laws of twisting and of the first curve."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.oracles import molecules as oracle
from workbench.adapters.conformations import (
    Torsion,
    align_nodes,
    dihedral_angles,
    kabsch_align,
    torsion_about,
    torsion_start,
    twist,
)
from workbench.errors import SettingError, ShapeError

CHAIN = [(i, i + 1) for i in range(6)] + [(2, 7)]  # a chain of seven atoms with a side atom
MIDDLE = torsion_about("middle", (1, 2, 3, 4), CHAIN)


def random_atoms(generator, *batch, atoms=8):
    return torch.randn(*batch, 3 * atoms, generator=generator)


def moved(x, seed):
    rotation, shift = (torch.as_tensor(part) for part in oracle.random_motion(seed))
    return (x.unflatten(-1, (-1, 3)) @ rotation.T + shift).flatten(-2)


def test_alignment_is_scipys(generator):
    x, reference = random_atoms(generator, 4), random_atoms(generator, 4)
    ours = kabsch_align(x, reference)
    for row, own, target in zip(ours, x, reference, strict=True):
        expected = oracle.superposed(own.reshape(-1, 3).numpy(), target.reshape(-1, 3).numpy())
        assert_close(row, torch.as_tensor(expected).flatten(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("seed", range(3))
def test_alignment_undoes_any_rigid_motion(generator, seed):
    x = random_atoms(generator)
    assert_close(kabsch_align(moved(x, seed), x), x, atol=1e-12, rtol=0)


def test_alignment_never_mirrors(generator):
    x = random_atoms(generator)
    mirrored = (x.reshape(-1, 3) * torch.tensor([1.0, 1.0, -1.0])).flatten()
    aligned = kabsch_align(mirrored, x)
    before, after = (dihedral_angles(p, [MIDDLE]) for p in (mirrored, aligned))
    assert_close(after, before)
    assert (aligned - x).norm() > 0.1


def test_alignment_along_a_string_is_neighbour_by_neighbour(generator):
    nodes = random_atoms(generator, 2, 5)
    expected = nodes.clone()
    for i in range(1, 5):
        expected[:, i] = kabsch_align(nodes[:, i], expected[:, i - 1])
    aligned = align_nodes(nodes)
    assert_close(aligned, expected, atol=1e-12, rtol=0)
    assert torch.equal(aligned[:, 0], nodes[:, 0])
    assert_close(align_nodes(aligned), aligned, atol=1e-12, rtol=0)


@pytest.mark.parametrize("seed", range(5))
def test_dihedral_is_the_angle_between_planes(seed):
    atoms = np.random.default_rng(seed).normal(size=(8, 3))
    angle = dihedral_angles(torch.as_tensor(atoms).flatten(), [MIDDLE])
    assert math.degrees(angle[0]) == pytest.approx(oracle.dihedral(*atoms[1:5]), abs=1e-6)


def test_dihedral_gradient_is_a_rigid_motions_null_vector(generator):
    x = random_atoms(generator).requires_grad_()
    (gradient,) = torch.autograd.grad(dihedral_angles(x, [MIDDLE])[0], x)
    along = gradient.reshape(-1, 3)
    assert_close(along.sum(dim=0), torch.zeros(3), atol=1e-12, rtol=0)
    assert_close(
        torch.linalg.cross(x.detach().reshape(-1, 3), along).sum(dim=0), torch.zeros(3), atol=1e-12, rtol=0
    )


def test_twisting_turns_the_angle_and_keeps_the_rest(generator):
    x = random_atoms(generator, 3)
    angle = torch.tensor([0.3, -1.1, 0.0])
    turned = twist(x, MIDDLE, angle)
    change = dihedral_angles(turned, [MIDDLE]) - dihedral_angles(x, [MIDDLE])
    assert_close(torch.remainder(change[:, 0] + math.pi, 2 * math.pi) - math.pi, angle)
    pairs = [*CHAIN, (0, 2), (1, 3), (2, 4), (3, 7)]  # bonds, and ends of bond angles
    first, second = (torch.tensor(side) for side in zip(*pairs, strict=True))
    lengths = [
        (p.unflatten(-1, (-1, 3))[:, first] - p.unflatten(-1, (-1, 3))[:, second]).norm(dim=-1)
        for p in (x, turned)
    ]
    assert_close(lengths[1], lengths[0])


def test_moving_part_lies_beyond_the_bond():
    assert Torsion("middle", (1, 2, 3, 4), (4, 5, 6)) == MIDDLE
    assert torsion_about("back", (4, 3, 2, 1), CHAIN).moving == (0, 1, 7)


def test_no_torsion_about_a_ring_bond():
    with pytest.raises(SettingError, match="ring bond 2-3"):
        torsion_about("ring", (1, 2, 3, 4), [*CHAIN, (7, 4)])


@pytest.mark.parametrize("nodes", [2, 7])
def test_first_curve_between_twisted_copies_is_the_twist_itself(generator, nodes):
    x = random_atoms(generator)
    end = twist(x, MIDDLE, torch.tensor(0.8))
    curve = torsion_start(x, moved(end, 1), [MIDDLE], nodes=nodes)
    assert torch.equal(curve[0], x)
    for node, share in zip(curve, torch.linspace(0, 1, nodes), strict=True):
        expected = twist(x, MIDDLE, 0.8 * share)
        assert_close(kabsch_align(node, expected), expected, atol=1e-10, rtol=0)


def test_via_points_send_the_first_curve_the_long_way_round(generator):
    x = random_atoms(generator)
    end, middle = twist(x, MIDDLE, torch.tensor(0.8)), dihedral_angles(x, [MIDDLE]) + 0.4 + math.pi
    angles = dihedral_angles(torsion_start(x, end, [MIDDLE], nodes=9, via=middle[None]), [MIDDLE])[:, 0]
    steps = torch.remainder(angles.diff() + math.pi, 2 * math.pi) - math.pi
    assert_close(steps, torch.full((8,), (0.8 - 2 * math.pi) / 8))


def test_settings_are_refused_in_one_sentence(generator):
    x = random_atoms(generator)
    with pytest.raises(SettingError, match="nodes = 1; expected at least 2"):
        torsion_start(x, x, [MIDDLE], nodes=1)
    with pytest.raises(ShapeError, match=r"via of shape \(2,\); expected shape \(points, 1\)"):
        torsion_start(x, x, [MIDDLE], via=torch.zeros(2))
    with pytest.raises(ShapeError, match="7 coordinates; expected three coordinates an atom"):
        kabsch_align(torch.zeros(7), torch.zeros(7))
