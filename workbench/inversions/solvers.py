"""The solvers by name, and what can be set in each."""

from dataclasses import fields, replace
from typing import Any

from workbench.checks import shown
from workbench.errors import SettingError
from workbench.inversions.exact import Bdia, Belm, Edict, Reversible
from workbench.inversions.steps import Ddim, FixedPoint, Heun, Solver

SOLVERS: dict[str, Solver] = {
    solver.name: solver for solver in (Ddim(), FixedPoint(), Heun(), Edict(), Bdia(), Belm(), Reversible())
}
"""The solvers by name, each with its default settings."""

_FIXED = ("name", "exact", "partner", "calls")


def solver_of(solver: str | Solver, **settings: Any) -> Solver:
    """A solver by name, with settings of its own.

    Args:
        solver: A name in `SOLVERS`, or a solver.
        **settings: What to change in it, e.g. p of "edict", step and zeta of "reversible".

    Returns:
        The solver.

    Raises:
        SettingError: For an unknown name or setting, or one out of range.
    """
    if isinstance(solver, str):
        if solver not in SOLVERS:
            raise SettingError(f"solver {solver!r}", f"one of {', '.join(SOLVERS)}", "solver='belm'")
        solver = SOLVERS[solver]
    elif not isinstance(solver, Solver):
        raise SettingError(shown("solver", solver), f"one of {', '.join(SOLVERS)}", "solver='belm'")
    known = settings_of(solver)
    strange = sorted(settings.keys() - known.keys())
    if strange:
        text = ", ".join(known) or "no settings"
        raise SettingError(f"setting {strange[0]!r} of solver {solver.name!r}", text)
    return replace(solver, **settings) if settings else solver  # pyright: ignore[reportArgumentType]  # dataclasses


def settings_of(solver: Solver) -> dict[str, Any]:
    """What can be set in a solver, with its values."""
    return {
        field.name: getattr(solver, field.name)
        for field in fields(solver)  # pyright: ignore[reportArgumentType]  # all of them are dataclasses
        if field.name not in _FIXED
    }
