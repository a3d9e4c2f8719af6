"""Molecules and surfaces as energy landscapes, computed by OpenMM or by any calculator of ASE.

A landscape is an energy V(x) with its force -grad V(x) of flat positions x = (x1, y1, z1, x2, ...), one row a
conformation. The engines work on one conformation at a time and know nothing of automatic differentiation: a
batch is a loop, the answers are detached, and the force is the engine's own. Contexts and calculators are
made once and reused; a lock keeps two threads from sharing one at the same moment.

Units: OpenMM landscapes take nanometres and answer in kJ/mol and kJ/mol/nm; ASE landscapes take ångströms and
answer in eV and eV/ångström.

References:
    Eastman et al., "OpenMM 8: Molecular Dynamics Simulation with Machine Learning Potentials", 2024,
        https://arxiv.org/abs/2310.03121
    Hjorth Larsen et al., "The atomic simulation environment", 2017, https://doi.org/10.1088/1361-648X/aa680e
"""

import math
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from threading import Lock
from typing import Any

import numpy as np
import torch

from workbench.adapters.conformations import Torsion, dihedral_angles, kabsch_align, torsion_about, twist
from workbench.errors import MissingExtra, SettingError
from workbench.minima import MinimumResult, find_minimum
from workbench.models import check_points
from workbench.types import Points, Scalars, Vectors


@dataclass(frozen=True, slots=True, eq=False)
class MoleculeLandscape:
    """The potential energy of a molecule, by OpenMM.

    Attributes:
        name: The molecule and its force field, in words.
        positions: A conformation to begin with, shape (3 n,), nm.
        torsions: The bonds that turn, if they were named.
        context: The OpenMM context that computes; not to be used from outside.
    """

    name: str
    positions: Points
    torsions: tuple[Torsion, ...]
    context: Any = field(repr=False)
    _lock: Any = field(default_factory=Lock, repr=False, init=False)

    @property
    def unit(self) -> str:
        """Energies are in kJ/mol."""
        return "kJ/mol"

    @property
    def dim(self) -> int:
        """Number of coordinates, three an atom."""
        return self.positions.shape[-1]

    def energy(self, x: Points) -> Scalars:
        """V(x) in kJ/mol for positions in nm; detached; one engine call a point."""
        return self.evaluate(x)[0]

    def force(self, x: Points) -> Vectors:
        """-grad V(x) in kJ/mol/nm for positions in nm; detached; one engine call a point."""
        return self.evaluate(x)[1]

    def evaluate(self, x: Points) -> tuple[Scalars, Vectors]:
        """Energy and force of the same points at the price of one engine call a point.

        Args:
            x: Positions, shape (*batch, dim), nm.

        Returns:
            Energies (*batch,) in kJ/mol and forces (*batch, dim) in kJ/mol/nm, detached.

        Raises:
            ShapeError: If x has another last axis or is not finite.
        """
        check_points(x, self.dim)
        rows = x.detach().cpu().double().reshape(-1, self.dim // 3, 3).numpy()
        energies, forces = np.empty(len(rows)), np.empty(rows.shape)
        with self._lock:
            for i, row in enumerate(rows):
                self.context.setPositions(row)
                state = self.context.getState(getEnergy=True, getForces=True)
                energies[i] = state.getPotentialEnergy()._value  # kJ/mol, OpenMM's own unit system
                forces[i] = state.getForces(asNumpy=True)._value
        return (
            torch.as_tensor(energies).to(x).reshape(x.shape[:-1]),
            torch.as_tensor(forces).to(x).reshape(x.shape),
        )


@dataclass(frozen=True, slots=True, eq=False)
class AtomsLandscape:
    """The potential energy of the free atoms of an ASE structure, by its calculator.

    Attributes:
        name: Chemical formula and calculator, in words.
        atoms: The structure; its calculator computes.
        free: Indices of the atoms that move; the others stay where the structure has them.
    """

    name: str
    atoms: Any = field(repr=False)
    free: tuple[int, ...]
    _lock: Any = field(default_factory=Lock, repr=False, init=False)

    @property
    def unit(self) -> str:
        """Energies are in eV."""
        return "eV"

    @property
    def dim(self) -> int:
        """Number of coordinates, three a free atom."""
        return 3 * len(self.free)

    @property
    def positions(self) -> Points:
        """The free atoms' positions in the structure as it was given, shape (dim,), ångström."""
        return torch.as_tensor(self.atoms.get_positions()[list(self.free)]).flatten()

    def energy(self, x: Points) -> Scalars:
        """V(x) in eV for positions in ångström; detached; one calculator call a point."""
        return self.evaluate(x)[0]

    def force(self, x: Points) -> Vectors:
        """-grad V(x) in eV/ångström for positions in ångström; detached; one calculator call a point."""
        return self.evaluate(x)[1]

    def evaluate(self, x: Points) -> tuple[Scalars, Vectors]:
        """Energy and force of the same points at the price of one calculator call a point.

        Args:
            x: Positions of the free atoms, shape (*batch, dim), ångström.

        Returns:
            Energies (*batch,) in eV and forces (*batch, dim) in eV/ångström, detached.

        Raises:
            ShapeError: If x has another last axis or is not finite.
        """
        check_points(x, self.dim)
        rows = x.detach().cpu().double().reshape(-1, self.dim // 3, 3).numpy()
        free = list(self.free)
        energies, forces = np.empty(len(rows)), np.empty(rows.shape)
        with self._lock:
            trial = self.atoms.copy()
            trial.calc = self.atoms.calc
            for i, row in enumerate(rows):
                trial.positions[free] = row
                energies[i] = trial.get_potential_energy()
                forces[i] = trial.get_forces(apply_constraint=False)[free]
        return (
            torch.as_tensor(energies).to(x).reshape(x.shape[:-1]),
            torch.as_tensor(forces).to(x).reshape(x.shape),
        )


def openmm_landscape(
    system: Any, positions: Any, *, name: str, torsions: tuple[Torsion, ...] = (), platform: str = "Reference"
) -> MoleculeLandscape:
    """Any OpenMM system as a landscape.

    Args:
        system: An `openmm.System` without constraints.
        positions: A conformation to begin with, shape (atoms, 3) or (3 atoms,), nm.
        name: The molecule and its force field, in words.
        torsions: Bonds that turn.
        platform: OpenMM's platform; for some tens of atoms "Reference" is the fastest.

    Returns:
        The landscape. No engine call.

    Raises:
        MissingExtra: If OpenMM is not installed.
        SettingError: If the system has constraints: its forces would not be the gradient of its energy.
    """
    try:
        import openmm
    except ImportError as error:
        raise MissingExtra.of("openmm", "molecules") from error
    if system.getNumConstraints():
        raise SettingError(
            f"a system with {system.getNumConstraints()} constraints", "none", "constraints=None"
        )
    integrator = openmm.VerletIntegrator(0.001)  # a context needs one; nothing is ever integrated
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName(platform))
    flat = torch.as_tensor(np.asarray(positions, dtype=float)).flatten()
    return MoleculeLandscape(name, flat, torsions, context)


def alanine_dipeptide() -> MoleculeLandscape:
    """Alanine dipeptide in vacuum, 22 atoms: the usual small molecule with two basins.

    Amber force field, all pairs, no constraints, no cutoff. Its torsions are phi (C, N, CA, C), psi (N, CA,
    C, N) and that of the methyl group behind the second peptide bond, which turns with psi at a barrier of
    1.2 kJ/mol. The two basins are C7eq at (phi, psi) = (-74.4, 74.5) degrees and C7ax at (61.8, -65.4)
    degrees.

    Returns:
        The landscape in nm and kJ/mol, 66 coordinates, with the extended conformation to begin with. No
        engine call.

    Raises:
        MissingExtra: If OpenMM is not installed.
    """
    try:
        from openmm import app
    except ImportError as error:
        raise MissingExtra.of("openmm", "molecules") from error
    with as_file(files("workbench.adapters").joinpath("data", "alanine_dipeptide")) as folder:
        topology = app.AmberPrmtopFile(str(folder / "alanine-dipeptide.prmtop"))
        stored: Any = app.AmberInpcrdFile(str(folder / "alanine-dipeptide.crd"))
    system = topology.createSystem(nonbondedMethod=app.NoCutoff, constraints=None, removeCMMotion=False)
    bonds = [(bond.atom1.index, bond.atom2.index) for bond in topology.topology.bonds()]
    named = {"phi": (4, 6, 8, 14), "psi": (6, 8, 14, 16), "methyl": (14, 16, 18, 19)}
    torsions = tuple(torsion_about(name, atoms, bonds) for name, atoms in named.items())
    positions = stored.getPositions(asNumpy=True)._value  # nanometres, OpenMM's own unit
    return openmm_landscape(system, positions, name="alanine dipeptide, Amber, vacuum", torsions=torsions)


def find_basins(landscape: MoleculeLandscape, *, tol: float = 1e-3) -> tuple[MinimumResult, MinimumResult]:
    """The basins C7eq and C7ax of `alanine_dipeptide`, as ends of a string.

    The three hydrogens of a methyl group are alike, so each basin exists in 27 copies with permuted labels.
    The copies taken here are those that the pass near (phi, psi) = (-6.5, -64.6) degrees joins directly; with
    others a string has a kink in C7eq, where it first turns a methyl group over a barrier of 1.2 kJ/mol.

    Args:
        landscape: What `alanine_dipeptide` returned.
        tol: Largest component of the force left, kJ/mol/nm.

    Returns:
        C7eq (-119.471 kJ/mol) and C7ax (-111.647 kJ/mol), the second aligned to the first. About 1400 engine
        calls.

    Raises:
        ShapeError: If the landscape is another molecule.
    """
    check_points(landscape.positions, 66, name="landscape.positions")
    found = []
    for angles in ((-75.0, 75.0, 180.0), (62.0, -65.0, -60.0)):
        x = landscape.positions
        for torsion, degrees in zip(landscape.torsions, angles, strict=True):
            x = twist(x, torsion, math.radians(degrees) - dihedral_angles(x, [torsion])[0])
        found.append(find_minimum(landscape, x, tol=tol))
    eq, ax = found
    return eq, replace(ax, x=kabsch_align(ax.x, eq.x))


def ase_landscape(atoms: Any, *, free: Any = None) -> AtomsLandscape:
    """Any ASE structure with a calculator as a landscape.

    Args:
        atoms: An `ase.Atoms` with a calculator. It is copied; the calculator is shared.
        free: Which atoms move: indices or a boolean mask; by default all that no `FixAtoms` holds.

    Returns:
        The landscape in ångström and eV. No calculator call.

    Raises:
        MissingExtra: If ASE is not installed.
        SettingError: If there is no calculator or no free atom.
    """
    try:
        from ase.constraints import FixAtoms
    except ImportError as error:
        raise MissingExtra.of("ase", "molecules") from error
    if atoms.calc is None:
        raise SettingError("atoms without a calculator", "one", "atoms.calc = ase.calculators.emt.EMT()")
    if free is None:
        held = {int(i) for c in atoms.constraints if isinstance(c, FixAtoms) for i in c.index}
        free = [i for i in range(len(atoms)) if i not in held]
    mask = np.asarray(free)
    moving = tuple(int(i) for i in np.arange(len(atoms))[mask]) if mask.size else ()
    if not moving:
        raise SettingError("no free atom", "at least one", "free=None")
    own = atoms.copy()
    own.calc = atoms.calc
    return AtomsLandscape(f"{atoms.get_chemical_formula()}, {type(atoms.calc).__name__}", own, moving)


def gold_on_aluminium(*, size: tuple[int, int, int] = (2, 2, 3)) -> tuple[AtomsLandscape, Points, Points]:
    """A gold atom on the (100) face of aluminium, before and after its hop to the next hollow site.

    Effective-medium theory, periodic along the face; only the top layer and the gold atom move.

    Args:
        size: Atoms along the two directions of the face and number of layers.

    Returns:
        The landscape and both ends as they are set up, not yet relaxed, shape (dim,), ångström.

    Raises:
        MissingExtra: If ASE is not installed.

    References:
        The example "Diffusion of gold atom on Al(100) surface" of ASE's documentation.
    """
    try:
        from ase.build import add_adsorbate, fcc100
        from ase.calculators.emt import EMT
    except ImportError as error:
        raise MissingExtra.of("ase", "molecules") from error
    slab: Any = fcc100("Al", size=size)
    add_adsorbate(slab, "Au", 1.7, "hollow")
    slab.center(axis=2, vacuum=4.0)
    slab.calc = EMT()
    landscape = ase_landscape(slab, free=[i for i, layer in enumerate(slab.get_tags()) if layer <= 1])
    start = landscape.positions
    end = start.clone()
    end[-3] += float(slab.cell[0, 0]) / size[0]  # the gold atom is the last one
    return landscape, start, end
