"""Landscapes of OpenMM and ASE: forces are gradients, reference minima, laws of a landscape, refusals."""

import sys

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import molecules as oracle
from workbench.adapters import molecules
from workbench.adapters.conformations import dihedral_angles, kabsch_align, torsion_start
from workbench.errors import MissingExtra, SettingError, ShapeError
from workbench.minima import find_minimum
from workbench.models import Landscape

pytest.importorskip("openmm")
pytest.importorskip("ase")


@pytest.fixture(scope="module")
def dipeptide():
    return molecules.alanine_dipeptide()


@pytest.fixture(scope="module")
def basins(dipeptide):
    torch.set_default_dtype(torch.float64)
    return molecules.find_basins(dipeptide)


@pytest.fixture(scope="module")
def gold():
    torch.set_default_dtype(torch.float64)
    return molecules.gold_on_aluminium()


@pytest.fixture(params=["dipeptide", "gold"])
def landscape(request):
    found = request.getfixturevalue(request.param)
    return found[0] if isinstance(found, tuple) else found


def test_force_is_minus_the_gradient(landscape, generator):
    x = landscape.positions + 0.01 * torch.randn(landscape.dim, generator=generator)
    direction = torch.randn(3, landscape.dim, generator=generator)
    reach = 1e-5
    slope = (landscape.energy(x + reach * direction) - landscape.energy(x - reach * direction)) / (2 * reach)
    assert_close(direction @ landscape.force(x), -slope, rtol=1e-5, atol=1e-5)


def test_a_batch_equals_its_rows_bit_by_bit(landscape, generator):
    x = landscape.positions + 0.01 * torch.randn(2, 2, landscape.dim, generator=generator)
    energy, force = landscape.energy(x), landscape.force(x)
    assert isinstance(landscape, Landscape)
    assert energy.shape == (2, 2)
    assert torch.equal(energy[1, 0], landscape.energy(x[1, 0]))
    assert torch.equal(force[1, 0], landscape.force(x[1, 0]))


def test_single_precision_in_and_out(landscape):
    x = landscape.positions.float()
    assert landscape.energy(x).dtype is torch.float32
    assert_close(landscape.force(x), landscape.force(x.double()).float())


@pytest.mark.parametrize("bad", [torch.zeros(4), torch.full((66,), torch.nan)])
def test_bad_points_are_refused(dipeptide, bad):
    with pytest.raises(ShapeError, match="points"):
        dipeptide.energy(bad)


def test_energy_ignores_rigid_motions(dipeptide):
    rotation, shift = (torch.as_tensor(part) for part in oracle.random_motion(0))
    x = dipeptide.positions
    moved = (x.reshape(-1, 3) @ rotation.T + shift).flatten()
    assert_close(dipeptide.energy(moved), dipeptide.energy(x), rtol=0, atol=1e-9)
    assert_close(dipeptide.force(moved).reshape(-1, 3) @ rotation, dipeptide.force(x).reshape(-1, 3))


@pytest.mark.parametrize(("place", "known"), [(0, oracle.C7EQ), (1, oracle.C7AX)])
def test_the_basins_of_alanine_dipeptide(dipeptide, basins, place, known):
    found = basins[place]
    assert found.report.converged
    assert found.energy == pytest.approx(known["energy"], abs=0.01)
    assert found.energy == pytest.approx(float(dipeptide.energy(found.x)), abs=1e-9)
    phi, psi = dihedral_angles(found.x, dipeptide.torsions[:2]).rad2deg().tolist()
    assert (phi, psi) == pytest.approx((known["phi"], known["psi"]), abs=0.1)
    assert float(dipeptide.force(found.x).abs().max()) <= 1e-3


def test_torsions_turn_what_lies_behind_their_bond(dipeptide):
    assert [(t.name, t.moving[0], t.moving[-1], len(t.moving)) for t in dipeptide.torsions] == [
        ("phi", 9, 21, 13),
        ("psi", 15, 21, 7),
        ("methyl", 19, 21, 3),
    ]


def test_the_first_curve_avoids_the_clash_of_the_straight_line(dipeptide, basins):
    start, end = (found.x for found in basins)
    via = torch.tensor([[-60.0, -60.0, -90.0]]).deg2rad()
    curve = torsion_start(start, end, dipeptide.torsions, nodes=21, via=via)
    straight = torch.lerp(start, kabsch_align(end, start), torch.linspace(0, 1, 21)[:, None])
    assert float((dipeptide.energy(curve) - basins[0].energy).max()) < 120
    assert float((dipeptide.energy(straight) - basins[0].energy).max()) > 1000
    assert dipeptide.energy(curve[-1]).item() == pytest.approx(basins[1].energy, abs=1e-6)


def test_both_hollow_sites_of_the_face_are_alike(gold):
    landscape, start, end = gold
    found = [find_minimum(landscape, x) for x in (start, end)]
    assert landscape.dim == 15
    assert found[0].energy == pytest.approx(3.31425, abs=1e-4)
    assert found[1].energy == pytest.approx(found[0].energy, abs=1e-5)


def test_only_what_no_constraint_holds_is_free():
    from ase import Atoms
    from ase.calculators.emt import EMT
    from ase.constraints import FixAtoms

    atoms = Atoms(
        "Cu3", positions=[[0, 0, 0], [2.4, 0, 0], [0, 2.6, 0]], constraint=FixAtoms([1]), calculator=EMT()
    )
    assert molecules.ase_landscape(atoms).free == (0, 2)
    assert molecules.ase_landscape(atoms, free=[False, True, True]).free == (1, 2)
    moved = molecules.ase_landscape(atoms)
    moved.energy(moved.positions + 0.1)
    assert_close(
        moved.positions, torch.tensor([0.0, 0.0, 0.0, 0.0, 2.6, 0.0])
    )  # the structure stays as it was
    with pytest.raises(SettingError, match="no free atom"):
        molecules.ase_landscape(atoms, free=[])
    atoms.calc = None
    with pytest.raises(SettingError, match="atoms without a calculator"):
        molecules.ase_landscape(atoms)


def test_constraints_are_refused():
    import openmm

    system = openmm.System()
    system.addParticle(1.0)
    system.addParticle(1.0)
    system.addConstraint(0, 1, 0.1)
    with pytest.raises(
        SettingError, match="a system with 1 constraints; expected none; try constraints=None"
    ):
        molecules.openmm_landscape(system, torch.zeros(2, 3), name="rod")


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("openmm", molecules.alanine_dipeptide),
        ("ase", molecules.gold_on_aluminium),
    ],
)
def test_a_missing_package_names_its_extra(monkeypatch, package, call):
    for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"'{package}'.*\[molecules\]"):
        call()
