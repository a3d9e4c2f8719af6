"""The settings of a path, looked at once at the door."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

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
from workbench.errors import SettingError, ShapeError
from workbench.integrators import Cancel, Progress, check_solver
from workbench.models import ExactScore, Landscape, ScoreModel, check_points
from workbench.schedules import Schedule
from workbench.strings.clock import Gamma
from workbench.strings.relaxation import check_relaxation

EXACT_GAMMA = 7.0
"""Relaxation of a string that tracks the path of least energy of a known density."""

LEARNT_GAMMA = 3.0
"""Relaxation of a string in a network."""

_OF_THE_CALL = ("generator", "progress", "cancel", "given")  # say nothing about the answer


@dataclass(frozen=True, slots=True)
class PathSettings:
    """The settings of one path, checked; `workbench.find_path` says what each of them means.

    Attributes:
        given: Whether the first strings are the caller's own.
    """

    regime: str
    nodes: int
    gamma: Gamma
    temperature: float | None
    window: tuple[float, float] | list[float]
    quench: float | None
    schedule: Schedule
    steps: int | None
    solver: str
    walkers: int | None
    eta: float
    modes: int | None
    most_substeps: int | None
    sigma: float | None
    tol: float | None
    max_iterations: int
    align: Any
    precondition: Any
    via: Tensor | None
    polish: bool | None
    refine_energies: bool
    energy_sigma: float | None
    memory_budget: int | None
    given: bool
    generator: torch.Generator | None
    progress: Progress | None
    cancel: Cancel | None

    def as_header(self) -> dict[str, Any]:
        """Those that a file's header can hold, by name: functions by a word, tensors as lists."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__ if name not in _OF_THE_CALL}


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
    check_switch("refine_energies", options["refine_energies"])
    check_count(
        "memory_budget", options["memory_budget"], none=True, hint="memory_budget=2**30", why=" (bytes)"
    )
    check_run(options["generator"], options["progress"], options["cancel"])
    _check_starts(starts)


def _plain(value: object) -> object:
    """A setting as a header can hold it."""
    if isinstance(value, Schedule):
        return value.name
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, tuple):
        return list(value)
    return "a function" if callable(value) else value


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


def check_ends(model: ScoreModel | Landscape, start: Tensor, end: Tensor, nodes: int) -> None:
    """Check shape, finiteness, range and difference of the ends of a path.

    Args:
        model: What the path lies in.
        start: First end.
        end: Last end.
        nodes: Images between which the ends must be told apart.

    Raises:
        ShapeError: If an end is no finite vector of the model's dimension.
        SettingError: If the ends coincide or lie outside the model's range of values.
    """
    for name, point in (("start", start), ("end", end)):
        anything = point.shape[-1] if isinstance(point, Tensor) and point.ndim else 1
        check_points(point, anything if isinstance(model, Landscape) else model.frame.dim, name=name)
        if point.ndim != 1:
            raise ShapeError(
                f"{name} of shape {tuple(point.shape)}", "one point of shape (dim,)", f"{name}[0]"
            )
        if point.dtype not in (torch.float32, torch.float64):
            raise ShapeError(f"{name} of dtype {point.dtype}", "float32 or float64", f"{name}.float()")
    if start.shape != end.shape or start.dtype != end.dtype or start.device != end.device:
        raise ShapeError(
            f"a start of {tuple(start.shape)} {start.dtype} on {start.device} "
            f"and an end of {tuple(end.shape)} {end.dtype} on {end.device}",
            "two points alike",
            "end.to(start)",
        )
    if torch.equal(start, end):
        raise SettingError("a start equal to the end", "two different points", "another end")
    size = torch.maximum(torch.linalg.vector_norm(start), torch.linalg.vector_norm(end))
    apart = float(torch.linalg.vector_norm(end - start))
    least = 64.0 * nodes * torch.finfo(start.dtype).eps * float(size)
    if apart < least:
        raise SettingError(
            f"ends {apart:.2g} apart, which is round-off beside their size {float(size):.3g}",
            f"at least {least:.2g} for {nodes} images in {str(start.dtype).removeprefix('torch.')}",
            "another end",
        )
    bounds = None if isinstance(model, Landscape) else model.frame.value_range
    if bounds is not None:
        low, high = bounds
        margin = 0.1 * (high - low)
        for name, point in (("start", start), ("end", end)):
            least, most = float(point.min()), float(point.max())
            if least < low - margin or most > high + margin:
                raise SettingError(
                    f"a {name} with values from {least:.3g} to {most:.3g}",
                    f"values from {low:g} to {high:g}",
                    "scaling it to the model's range",
                )
