"""Force calls that paths on molecules and surfaces take, against ASE's chains and against plain descent.

Counts, not seconds: they do not depend on the machine, and for real calculators they are the price. The first
row of a table is its yardstick, with ratio 1.

- Gold on Al(100): the same ends, number of moving images and energies for everyone. The peers are ASE's
  elastic band and ASE's own string method with the optimiser of ASE's manual, stopped at the force named;
  ours stops by its own rule. Errors are against the polished saddle.
- Alanine dipeptide: the preconditioned string against the same solver without preconditioner, stopped after
  as many calls; both against the string relaxed a hundred times further.

Run as `python benchmarks/molecules.py`; about a minute.
"""

import torch

from workbench.adapters.conformations import align_nodes, kabsch_align, torsion_start
from workbench.adapters.molecules import AtomsLandscape, alanine_dipeptide, find_basins, gold_on_aluminium
from workbench.curves import Curve
from workbench.minima import find_minimum
from workbench.strings.precondition import CurvaturePreconditioner
from workbench.strings.profile import spline_profile
from workbench.strings.saddles import polish
from workbench.strings.static import StaticString, relax_string

Row = tuple[str, int, float, float, float]  # method, force calls, barrier, its error, last column


def show(title: str, last: str, rows: list[Row]) -> None:
    """Print a table whose first row is the yardstick."""
    header = ("method", "calls", "ratio", "barrier", "error", last)
    print(f"\n{title}")
    print("{:34s}{:>8s}{:>8s}{:>11s}{:>10s}{:>14s}".format(*header))
    for name, calls, barrier, error, across in rows:
        print(f"{name:34s}{calls:8d}{calls / rows[0][1]:8.2f}{barrier:11.4f}{error:10.4f}{across:14.3g}")


def barrier_of(landscape, string: StaticString) -> float:
    """Highest energy on the splined path over its start."""
    profile = spline_profile(string.curve, landscape.energy(string.curve.points), string.force)
    return float(profile.energy.max())


def chain(
    landscape: AtomsLandscape, ends: tuple[torch.Tensor, torch.Tensor], moving: int, method: str, fmax: float
) -> Row:
    """ASE's band or string between the same ends."""
    from ase.calculators.emt import EMT
    from ase.mep import NEB, NEBTools
    from ase.optimize import BFGS

    calls = 0

    class Counting(EMT):
        def calculate(self, *args, **kwargs):
            nonlocal calls
            calls += 1
            super().calculate(*args, **kwargs)

    from ase.constraints import FixAtoms

    free = list(landscape.free)
    held = FixAtoms([i for i in range(len(landscape.atoms)) if i not in free])
    images = []
    for k in range(moving + 2):
        image = landscape.atoms.copy()
        image.positions[free] = ends[min(k, 1)].reshape(-1, 3).numpy()
        image.set_constraint(held)
        image.calc = Counting() if 0 < k <= moving else EMT()
        images.append(image)
    images[-1].positions[free] = ends[1].reshape(-1, 3).numpy()
    band = NEB(images, method=method)
    band.interpolate()
    optimiser = BFGS(band, logfile=None)
    optimiser.run(fmax=fmax, steps=200)
    barrier = float(NEBTools(images).get_barrier(fit=True)[0])
    return f"ASE {method}, BFGS to {fmax:g}", calls, barrier, 0.0, float(band.get_residual())


def gold(moving: int) -> None:
    """The hop of a gold atom between hollow sites."""
    landscape, *sites = gold_on_aluminium()
    found = [find_minimum(landscape, x, tol=1e-4) for x in sites]
    ends = (found[0].x, found[1].x)
    rows = []
    for fmax in (0.05, 0.005):
        for method in ("aseneb", "string"):
            rows.append(chain(landscape, ends, moving, method, fmax))
    start = Curve.through(torch.lerp(*ends, torch.linspace(0, 1, moving + 2)[:, None]))
    for tol in (1e-2, 1e-3):
        string = relax_string(landscape.force, start, levels=(moving + 2,), tol=tol)
        height, across = barrier_of(landscape, string), float(string.force_perp.max())
        rows.append((f"static string, tol {tol:g}", string.report.model_calls, height, 0.0, across))
    middle = string.curve(torch.tensor([0.5]))[0]
    exact = float(landscape.energy(polish(landscape.force, middle).point)) - found[0].energy
    show(
        f"Gold hop on Al(100), {moving} moving images, eV",
        "force across",
        [(*r[:3], r[2] - exact, r[4]) for r in rows],
    )


def dipeptide(nodes: int) -> None:
    """C7eq to C7ax of alanine dipeptide through (phi, psi) = (-6.5, -64.6) degrees."""
    landscape = alanine_dipeptide()
    eq, ax = find_basins(landscape, tol=1e-4)
    via = torch.tensor([[-60.0, -60.0, -90.0]]).deg2rad()
    start = Curve.through(torsion_start(eq.x, ax.x, landscape.torsions, nodes=nodes, via=via))
    precondition = CurvaturePreconditioner(landscape.force)
    string = relax_string(
        landscape.force,
        start,
        levels=(nodes,),
        tol=3e-4,
        patience=2000,
        align=align_nodes,
        precondition=precondition,
    )
    top = spline_profile(string.curve, landscape.energy(string.curve.points), string.force)
    guess = string.curve((top.arc[top.energy.argmax()] / top.arc[-1])[None])[0]
    exact = float(landscape.energy(polish(landscape.force, guess, ignore=6).point)) - eq.energy
    calls = string.report.model_calls + precondition.evaluations
    plain = relax_string(
        landscape.force,
        start,
        levels=(nodes,),
        tol=1e-12,
        patience=10**6,
        align=align_nodes,
        max_iterations=calls // (nodes - 2),
    )
    final = relax_string(
        landscape.force,
        string.curve,
        levels=(nodes,),
        tol=3e-6,
        patience=2000,
        align=align_nodes,
        precondition=CurvaturePreconditioner(landscape.force),
    ).curve.points
    rows = []
    for name, result, spent in (
        ("preconditioned static string", string, calls),
        ("static string, plain descent", plain, plain.report.model_calls),
    ):
        height = barrier_of(landscape, result)
        apart = kabsch_align(result.curve.points, final) - final
        rows.append((name, spent, height, height - exact, float(apart.norm(dim=-1).max())))
    show(f"Alanine dipeptide, {nodes} images, kJ/mol", "distance, nm", rows)


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    gold(3)
    gold(5)
    dipeptide(21)
