"""Strings on molecules and surfaces: the pass of alanine dipeptide, and the hop of gold on aluminium."""

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import molecules as oracle
from workbench.adapters.conformations import align_nodes, dihedral_angles, kabsch_align, torsion_start
from workbench.adapters.molecules import alanine_dipeptide, find_basins, gold_on_aluminium
from workbench.curves import Curve
from workbench.lenses.paths import find_path
from workbench.minima import find_minimum
from workbench.strings.precondition import CurvaturePreconditioner
from workbench.strings.profile import spline_profile
from workbench.strings.saddles import polish
from workbench.strings.static import relax_string

pytest.importorskip("openmm")
pytest.importorskip("ase")

VIA = (-60.0, -60.0, -90.0)
"""Degrees of phi, psi and the methyl group: the route turns psi down first and phi through 0 after it."""


@pytest.fixture(scope="module")
def dipeptide():
    return alanine_dipeptide()


@pytest.fixture(scope="module")
def basins(dipeptide):
    torch.set_default_dtype(torch.float64)
    return find_basins(dipeptide, tol=1e-4)


@pytest.fixture(scope="module")
def strings(dipeptide, basins):
    """The path C7eq to C7ax at 21 images, and refined to 41.

    At 41 images it first rests: the coarse string enters C7eq along its second softest mode, and takes some
    200 iterations to tip over to the softest.
    """
    via = torch.tensor([VIA]).deg2rad()
    curve = Curve.through(torsion_start(basins[0].x, basins[1].x, dipeptide.torsions, nodes=21, via=via))
    found = {}
    for nodes in (21, 41):
        precondition = CurvaturePreconditioner(dipeptide.force)
        found[nodes] = relax_string(
            dipeptide.force,
            curve.resample(nodes),
            levels=(nodes,),
            tol=3e-4,
            patience=2000,
            align=align_nodes,
            precondition=precondition,
        )
        curve = found[nodes].curve
    return found


def profile(landscape, string):
    return spline_profile(string.curve, landscape.energy(string.curve.points), string.force)


def top(landscape, string):
    """The point of the splined path with the highest energy on the profile."""
    dense = profile(landscape, string)
    place = dense.arc[dense.energy.argmax()] / dense.arc[-1]
    return string.curve(place[None])[0]


def test_the_path_is_a_fixed_point(strings):
    for string in strings.values():
        assert string.report.converged
        along = string.force.norm(dim=-1).max()
        assert float(string.force_perp.max()) < 0.5 * float(along)
    assert float(strings[41].force_perp.max()) < 0.1 * float(strings[41].force.norm(dim=-1).max())


def test_the_ends_are_the_basins_up_to_a_rigid_motion(dipeptide, basins, strings):
    for string in strings.values():
        points = string.curve.points
        assert torch.equal(points[0], basins[0].x)
        assert_close(kabsch_align(points[-1], basins[1].x), basins[1].x, atol=1e-9, rtol=0)
        for energy, known in zip(dipeptide.energy(points[[0, -1]]), (oracle.C7EQ, oracle.C7AX), strict=True):
            assert float(energy) == pytest.approx(known["energy"], abs=0.01)


def test_neighbours_are_aligned(strings):
    points = strings[41].curve.points
    assert_close(align_nodes(points), points, atol=1e-4, rtol=0)


def test_the_barrier_does_not_depend_on_the_number_of_images(dipeptide, strings):
    barriers = [float(profile(dipeptide, string).energy.max()) for string in strings.values()]
    assert barriers[0] == pytest.approx(barriers[1], abs=0.5)
    assert barriers[1] == pytest.approx(33.4155, abs=0.01)


def test_no_methyl_group_turns_on_its_own(strings):
    """With hydrogens labelled otherwise the path is 0.2 nm longer: it turns a methyl group in C7eq first."""
    assert float(strings[41].curve.length()) == pytest.approx(1.18, abs=0.02)


def test_the_route_goes_down_in_psi_and_then_through_phi_zero(dipeptide, strings):
    points = strings[41].curve.points
    phi, psi = dihedral_angles(points, dipeptide.torsions[:2]).rad2deg().T
    assert float(phi.abs().max()) < 80  # never the way round over phi = 180
    assert float(psi.max()) < 80  # nor over psi = 180
    assert float(psi[phi > -50].max()) < -30  # psi has come down before phi begins
    at_top = dihedral_angles(top(dipeptide, strings[41]), dipeptide.torsions[:2]).rad2deg()
    assert_close(at_top, torch.tensor([-6.5, -64.6]), atol=1.0, rtol=0)


def test_the_saddle_has_one_way_down(dipeptide, basins, strings):
    saddle = polish(dipeptide.force, top(dipeptide, strings[41]), ignore=6, max_move=0.05)
    assert saddle.converged
    assert saddle.index == 1
    assert float(dipeptide.force(saddle.point).norm()) < 1e-5
    assert float(dipeptide.energy(saddle.point)) - basins[0].energy == pytest.approx(33.4155, abs=1e-3)
    size = saddle.eigenvalues.abs().sort().values
    assert float(size[5]) < 1e-2  # six rigid motions
    assert float(size[6]) > 100  # and nothing else is soft
    assert_close(saddle.eigenvalues[0], torch.tensor(-1471.5), atol=1.0, rtol=0)


@pytest.mark.parametrize("nodes", [5, 9])
def test_gold_hops_over_the_known_barrier(nodes):
    landscape, start, end = gold_on_aluminium()
    ends = [find_minimum(landscape, x, tol=1e-4) for x in (start, end)]
    straight = torch.lerp(ends[0].x, ends[1].x, torch.linspace(0, 1, nodes)[:, None])
    found = relax_string(landscape.force, Curve.through(straight), levels=(nodes,), tol=1e-2)
    assert found.report.converged
    assert float(profile(landscape, found).energy.max()) == pytest.approx(oracle.GOLD_HOP, abs=1e-3)
    saddle = polish(landscape.force, top(landscape, found))
    assert saddle.index == 1
    assert float(landscape.energy(saddle.point)) - ends[0].energy == pytest.approx(0.374464, abs=1e-5)


def test_the_path_lens_passes_alignment_and_preconditioner_on():
    landscape, start, end = gold_on_aluminium()
    ends = [find_minimum(landscape, x, tol=1e-4).x for x in (start, end)]
    aligned = []

    def align(nodes):
        aligned.append(nodes.shape)
        return nodes

    precondition = CurvaturePreconditioner(landscape.force)
    found = find_path(
        landscape,
        *ends,
        nodes=5,
        tol=1e-2,
        align=align,
        precondition=precondition,
        measure_share=False,
    )
    assert found.report.converged
    assert found.energy_unit == "eV"
    assert found.barrier.value == pytest.approx(oracle.GOLD_HOP, abs=1e-3)
    assert [barrier.hessian_index for barrier in found.barriers] == [1, 1]
    assert set(aligned) == {(1, 5, 15)}
    assert precondition.evaluations > 0
