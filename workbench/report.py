"""How a result says whether to trust it: a status, a residual, a cost, an error bar, and where it came from.

Failure is a value here: a solver that did not converge returns its last finite answer with a report
that says so, warns once, and raises only when asked to (``SolveReport.raise_if_failed``).

References:
    Status objects instead of bare flags: diffrax, https://docs.kidger.site/diffrax/api/solution/
"""

import math
import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

from workbench.errors import ConvergenceWarning, NotConverged

DB_PER_NAT = 10.0 * math.log10(math.e)
"""Decibels in a nat."""


class Status(StrEnum):
    """How a solve ended."""

    CONVERGED = "converged"
    MAX_ITERATIONS = "iteration limit reached"
    DIVERGED = "diverged"
    CANCELLED = "cancelled"


def with_error(value: float, error: float | None) -> str:
    """A number as text, with two digits of its error and none beyond these; alone where it has no error."""
    if error is None:
        return f"{value:.6g}"
    if math.isfinite(value) and 1e-4 <= error < 1e6:
        digits = 1 - math.floor(math.log10(error))
        if digits <= 0:
            return f"{round(value, digits):.0f} ± {round(error, digits):.0f}"
        return f"{value:.{digits}f} ± {error:.2g}"
    return f"{value:.6g} ± {error:.2g}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its error bar.

    Attributes:
        value: The number.
        error: One-sigma size of its numerical or statistical error in the same unit; None if unknown.
        unit: Its unit in words, "" for a pure number.
        how: How the error was obtained, e.g. "nodes against 2 nodes - 1".
    """

    value: float
    error: float | None = None
    unit: str = ""
    how: str = ""

    def __str__(self) -> str:
        return with_error(self.value, self.error) + (f" {self.unit}" if self.unit else "")


@dataclass(frozen=True, slots=True)
class SolveReport:
    """What a solver did.

    Attributes:
        status: How it ended.
        iterations: Outer iterations done.
        residual: Relative size of the last stopping criterion, so that a tolerance means the same in
            every world; None where none was measured.
        model_calls: Evaluations of the model, counted in points (a batch of 33 counts 33).
        history: The residual at each iteration, in order.
        warnings: Sentences for the reader, in the order in which they arose.
        message: One sentence on the end state.
    """

    status: Status
    iterations: int
    residual: float | None
    model_calls: int
    history: tuple[float, ...] = ()
    warnings: tuple[str, ...] = ()
    message: str = ""

    @property
    def converged(self) -> bool:
        """True if the solve met its own stopping rule."""
        return self.status is Status.CONVERGED

    def residual_in_words(self, digits: int = 2) -> str:
        """The residual as text, also where none was measured."""
        if self.residual is None:
            return "no residual measured"
        return f"relative residual {self.residual:.{digits}e}"

    def raise_if_failed(self) -> None:
        """Turn a solve that did not converge into an exception.

        Raises:
            NotConverged: If the status is anything but ``CONVERGED``.
        """
        if not self.converged:
            raise NotConverged(f"{self.status}: {self.message or self.residual_in_words()}")

    def warn_if_failed(self) -> None:
        """Emit one ``ConvergenceWarning`` if the solve did not converge and was not cancelled."""
        if self.status in (Status.MAX_ITERATIONS, Status.DIVERGED):
            warnings.warn(
                f"{self.status} after {self.iterations} iterations, {self.residual_in_words()}",
                ConvergenceWarning,
                stacklevel=3,
            )


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a result came from, enough to ask for it again.

    Attributes:
        settings: The arguments of the call, JSON-able.
        model: The model's name with its condition and guidance, in words.
        seed: Seed of the generator, None if the method draws nothing.
        device: Device of the tensors.
        dtype: Their dtype.
        versions: Versions of Python and of the packages that computed it.
        sources: Titles of the works whose method this is.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    seed: int | None = None
    device: str = "cpu"
    dtype: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()


def versions_in_use() -> dict[str, str]:
    """Versions of Python, torch, numpy and the workbench that are running.

    Returns:
        Name to version, JSON-able.
    """
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "workbench": _own_version(),
    }


@cache
def _own_version() -> str:
    """The installed version; read from the disk once."""
    try:
        return version("latent-workbench")
    except PackageNotFoundError:
        return "source tree"


def provenance_of(
    points: torch.Tensor,
    *,
    model: str,
    settings: Mapping[str, Any],
    generator: torch.Generator | None = None,
    sources: tuple[str, ...] = (),
) -> Provenance:
    """The provenance of a result computed from ``points``.

    Args:
        points: A tensor whose device and dtype the computation used.
        model: The model in words.
        settings: JSON-able arguments of the call.
        generator: The generator drawn from, if any.
        sources: Titles of the works whose method this is.

    Returns:
        The filled record.
    """
    return Provenance(
        settings=dict(settings),
        model=model,
        seed=None if generator is None else generator.initial_seed(),
        device=str(points.device),
        dtype=str(points.dtype).removeprefix("torch."),
        versions=versions_in_use(),
        sources=sources,
    )
