"""The settings of a path, looked at once at the door."""

from collections.abc import Mapping
from typing import Any

from workbench.checks import (
    check_count,
    check_function,
    check_number,
    check_run,
    check_schedule,
    check_switch,
    shown,
)
from workbench.curves import Curve
from workbench.errors import SettingError
from workbench.integrators import check_solver
from workbench.models import ExactScore
from workbench.strings.evolution import check_relaxation

EXACT_GAMMA = 7.0
"""Relaxation of a string that tracks the path of least energy of a known density."""

LEARNT_GAMMA = 3.0
"""Relaxation of a string in a network."""


def usual_gamma(model: object) -> float:
    """How strongly a string relaxes in a model unless it is told.

    A learnt score of hundreds of dimensions has a pass beside every pass, and a string at gamma 7 takes the
    one that rounding picks: in the shipped Fashion-MNIST model the length of one and the same path is 206 on
    one thread and 181 on two. At gamma 3 both agree within 2e-4, and a string of 25 images has its shape.

    Args:
        model: What the string lies in.

    Returns:
        `EXACT_GAMMA` where the score is known, else `LEARNT_GAMMA`.
    """
    return EXACT_GAMMA if isinstance(model, ExactScore) else LEARNT_GAMMA


def check_path(options: Mapping[str, Any], starts: object) -> None:
    """Check every setting of a path by kind and value, before any work.

    Args:
        options: The settings by name, the regime with them.
        starts: Number of starts, or curves.

    Raises:
        SettingError: If a setting cannot be used; one sentence names it and what would do.
    """
    static = options["regime"] == "static"
    check_count("nodes", options["nodes"], least=2, hint="nodes=33")
    check_relaxation(*(options[name] for name in ("gamma", "window", "quench", "temperature", "eta")))
    check_schedule(options["schedule"])
    check_count("steps", options["steps"], none=True, hint="steps=50")
    check_solver(options["solver"], options["steps"] or 1)
    check_count("walkers", options["walkers"], none=True, hint="walkers=8")
    check_count("modes", options["modes"], least=0, none=True)
    check_count("most_substeps", options["most_substeps"], none=True, hint="most_substeps=10")
    for name in ("sigma", "energy_sigma"):
        check_number(name, options[name], none=True, hint=f"{name}=None")
    hint = "tol=1e-5" if static else "tol=1e-3"
    if static:
        check_number("tol", options["tol"], above=0.0, below=1.0, none=True, hint=hint)
    else:
        check_number("tol", options["tol"], above=0.0, none=True, hint=hint)
    check_count("max_iterations", options["max_iterations"], hint="max_iterations=2000")
    check_function("align", options["align"])
    check_function("precondition", options["precondition"])
    check_switch("polish", options["polish"], none=True)
    check_count(
        "memory_budget", options["memory_budget"], none=True, hint="memory_budget=2**30", why=" (bytes)"
    )
    check_run(options["generator"], options["progress"], options["cancel"])
    _check_starts(starts)


def _check_starts(starts: object) -> None:
    """A number of starts, or curves."""
    if isinstance(starts, list | tuple):
        odd = [one for one in starts if not isinstance(one, Curve)]
        if odd or not starts:
            what = shown("a start", odd[0]) if odd else "no start"
            raise SettingError(what, "at least one curve", "Curve.through(points), or starts=1")
        return
    if isinstance(starts, Curve):
        raise SettingError("starts as a bare curve", "a number, or a sequence of curves", "starts=[curve]")
    check_count("starts", starts, hint="starts=1, or a sequence of curves")
