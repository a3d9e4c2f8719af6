"""Minima of landscapes: where a string begins and ends.

References:
    Liu, Nocedal, "On the limited memory BFGS method for large scale optimization", 1989,
        https://doi.org/10.1007/BF01589116
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize

from workbench.errors import SettingError
from workbench.models import Landscape, check_points
from workbench.report import SolveReport, Status
from workbench.types import Points


@dataclass(frozen=True, slots=True)
class MinimumResult:
    """A minimum of a landscape.

    Attributes:
        x: The point, shape (dim,).
        energy: V(x) in the landscape's unit.
        force: Largest component of the force left.
        report: How the search ended; its residual is `force` over the tolerance.
    """

    x: Points
    energy: float
    force: float
    report: SolveReport


def find_minimum(
    landscape: Landscape, x: Points, *, tol: float = 1e-3, max_iterations: int = 2000
) -> MinimumResult:
    """Slide down from a point to the minimum of its basin.

    Limited-memory BFGS with a long memory, which copes with stiff bonds beside soft torsions.

    Args:
        landscape: An energy with its force.
        x: Where to begin, shape (dim,).
        tol: Stop when no component of the force is larger, in the landscape's unit of force.
        max_iterations: Limit of iterations.

    Returns:
        The minimum with its report; the report counts points, each costs one energy and one force. Warns if
        the limit came first, or if the landscape returned something that is not finite: then the status is
        diverged and the point the lowest finite one.

    Raises:
        ShapeError: If x is no finite floating point.
        SettingError: If tol is not positive.

    References:
        Liu, Nocedal, "On the limited memory BFGS method for large scale optimization", 1989.
    """
    check_points(x, x.shape[-1] if x.ndim else 1, name="x")
    if not tol > 0:
        raise SettingError(f"tol = {tol}", "a positive tolerance")
    calls, history = 0, []
    lowest = (math.inf, x.detach().clone(), math.inf)  # energy, point, largest force component; finite ones

    def descend(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal calls, lowest
        point = torch.as_tensor(flat).to(x).reshape(x.shape)
        calls += 1
        force = landscape.force(point)
        energy, left = float(landscape.energy(point)), float(force.abs().max())
        history.append(left)
        if math.isfinite(left) and energy < lowest[0]:
            lowest = (energy, point, left)
        return energy, -force.detach().cpu().double().numpy().ravel()

    options = {
        "maxiter": max_iterations,
        "maxfun": 4 * max_iterations,
        "maxcor": 30,
        "gtol": tol,
        "ftol": 0.0,
    }
    found = minimize(
        descend, x.detach().cpu().double().numpy().ravel(), jac=True, method="L-BFGS-B", options=options
    )
    end, energy, left = (
        torch.as_tensor(found.x).to(x).reshape(x.shape),
        float(found.fun),
        np.abs(found.jac).max(),
    )
    status = Status.CONVERGED if left <= tol else Status.MAX_ITERATIONS
    if not (math.isfinite(energy) and math.isfinite(left) and bool(torch.isfinite(end).all())):
        status, (energy, end, left) = Status.DIVERGED, lowest
    left = float(left)
    report = SolveReport(
        status,
        int(found.nit),
        left / tol,
        calls,
        tuple(history),
        message=f"largest force component {left:.2e}",
    )
    report.warn_if_failed()
    return MinimumResult(end, energy, left, report)
