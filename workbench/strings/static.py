r"""Strings at a fixed landscape: minimum-energy paths by arc-following descent.

A minimum-energy path of V has :math:`(I - \tau\tau^T)\nabla V = 0` everywhere, with unit tangent
:math:`\tau`. Each iteration moves image i along its own spline by :math:`-h\,\tau\cdot\nabla V`, adds
:math:`-h\,(I - \tau\tau^T)\nabla V`, and spaces the images equally again. Following the spline instead of the
tangent line removes the Euler floor of the simplified string: the fixed point is the path itself for every
step h, even another one for every image, at one force evaluation an image and iteration. The tangential
motion keeps the method upwind, without it kinks grow. The step is bounded by the stiffest curvature at the
images, and both moves carry momentum.

A coarse string is relaxed first and refined, since most of the way to the path needs few images.

References:
    E, Ren, Vanden-Eijnden, "String method for the study of rare events", 2002,
        https://doi.org/10.1103/PhysRevB.66.052301
    E, Ren, Vanden-Eijnden, "Simplified and improved string method for computing the minimum energy paths in
        barrier-crossing events", 2007, https://doi.org/10.1063/1.2720838
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.curves import Curve, respace
from workbench.errors import SettingError
from workbench.integrators import Cancel, Progress
from workbench.report import SolveReport, Status
from workbench.splines import arc_knots, tangents_at_nodes
from workbench.strings.descent import Align, Descent, Force, Precondition, check_forces
from workbench.strings.meter import Meter
from workbench.types import Nodes, Scalars

_COARSEST = 9  # images below which a coarser string no longer resembles the finer one
_COARSE_TOL = 5e-4  # stopping estimate on coarse strings, relative to their length
_PATIENCE = 200  # iterations without progress after which a string, caught on a cusp say, is given up
_COARSE_MOST = 100  # iterations on coarse strings: one that has not settled by then is good enough a start


@dataclass(frozen=True, slots=True)
class StaticString:
    """Relaxed strings and what it took.

    Attributes:
        curve: The strings, points (*batch, nodes, dim) at equal arc length.
        force: Force at the images, shape of the points.
        force_perp: Size of its part across the string, shape (*batch, nodes); zero at fixed ends.
        coarse: The same strings at the last coarser level; None without levels.
        residual: Estimated distance that is left to the fixed point over the length, shape (*batch,).
        iterations: Iterations at the finest level, shape (*batch,).
        evaluations: Force evaluations an image of the finest string, all levels and probes counted,
            (*batch,).
        report: Status, worst residual, calls.
    """

    curve: Curve
    force: Nodes
    force_perp: Tensor
    coarse: Curve | None
    residual: Scalars
    iterations: Tensor
    evaluations: Scalars
    report: SolveReport


def coarse_levels(nodes: int, coarsest: int = _COARSEST) -> tuple[int, ...]:
    """Node counts from coarse to fine that end at `nodes`, each with about half the segments of the next."""
    levels = [nodes]
    while (levels[0] + 1) // 2 >= coarsest:
        levels.insert(0, (levels[0] + 1) // 2)
    return tuple(levels)


@dataclass(slots=True)
class _Level:
    """What one level of relaxation gave, one entry a string."""

    points: Tensor
    left: Tensor
    iterations: Tensor
    evaluations: Tensor
    status: Status
    history: list[float]


def _run_level(
    solver: Descent,
    points: Tensor,
    *,
    tol: float,
    max_iterations: int,
    patience: int,
    progress: Progress,
    cancel: Cancel | None,
    where: str,
) -> _Level:
    """Relax strings of one size until each has stopped by itself."""
    count, device = points.shape[0], points.device
    done = _Level(
        points.clone(),
        torch.full((count,), torch.inf, dtype=points.dtype, device=device),
        torch.zeros(count, dtype=torch.long, device=device),
        torch.zeros(count, dtype=points.dtype, device=device),
        Status.MAX_ITERATIONS,
        [],
    )
    solver.spent = 0
    rows, state = torch.arange(count, device=device), solver.begin(points)
    calm = torch.zeros(count, dtype=torch.bool, device=device)
    best, since = math.inf, 0
    look_every = 1 if device.type == "cpu" else 4  # looking costs a synchronisation
    for iteration in range(max_iterations):
        state, forces = solver.advance(state, iteration)
        if (iteration + 1) % look_every and iteration + 1 < max_iterations:
            continue
        left = solver.left(state.moved)
        finite = torch.isfinite(state.points).all(-1).all(-1)[:, None, None]
        done.points[rows] = torch.where(finite, state.points, done.points[rows])
        done.left[rows], done.iterations[rows] = left, iteration + 1
        done.evaluations[rows] = float(solver.spent)
        worst = float(done.left.max())
        done.history.append(worst)
        best, since = (worst, 0) if worst < 0.9 * best else (best, since + look_every)
        if since > patience:
            return done
        if worst != worst:
            check_forces(forces, rows, where)
            done.status = Status.DIVERGED
            done.left = done.left.nan_to_num(math.inf)
            return done
        if cancel is not None and cancel.is_set():
            done.status = Status.CANCELLED
            return done
        stop = (left < tol) & calm
        calm = left < tol
        if bool(stop.any()):
            rows, state, calm = rows[~stop], state.pick(~stop), calm[~stop]
        progress(min(1.0, _share_done(worst, tol)), f"{rows.numel()} of {count} strings moving")
        if rows.numel() == 0:
            done.status = Status.CONVERGED
            return done
    return done


def _share_done(left: float, tol: float) -> float:
    """A progress bar on the logarithm of what is left."""
    return max(0.0, math.log(max(left, tol)) / math.log(tol)) if 0 < left < math.inf and tol < 1 else 0.0


@torch.no_grad()
def relax_string(
    force: Force,
    curve: Curve,
    *,
    levels: tuple[int, ...] | None = None,
    step: float = 0.8,
    momentum: float = 0.5,
    tol: float = 1e-5,
    max_iterations: int = 2000,
    patience: int = _PATIENCE,
    stiffness: float | None = None,
    free_ends: bool = False,
    align: Align | None = None,
    precondition: Precondition | None = None,
    density: Callable[[Nodes], Tensor] | None = None,
    memory_budget: int | None = None,
    meter: Meter | None = None,
    where: str = "",
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> StaticString:
    """Relax strings to minimum-energy paths of a fixed landscape.

    All strings of the batch move together and each stops by itself: when the geometric tail of its last
    displacements is below `tol` of its length, twice in a row. A batch that makes no progress for some time
    stops unconverged.

    Args:
        force: -grad V at points (rows, dim); any callable, also without gradients.
        curve: Starts, points (*batch, nodes, dim).
        levels: Node counts from coarse to fine, the last one is the result's; None for `coarse_levels`,
            (nodes,) for a single level.
        step: Step in units of the inverse stiffness; above 0.8 some landscapes do not converge.
        momentum: Share of the last displacement that is kept.
        tol: Estimated remaining displacement over the length at which a string stops.
        max_iterations: Limit at the finest level; coarser ones get 100 at most.
        patience: Iterations without progress after which the batch is given up. A preconditioned string may
            rest near an unstable approach to a minimum before it tips over: give it more.
        stiffness: Largest curvature of V (after preconditioning) if it is known; None measures it by a power
            iteration now and then.
        free_ends: Let the ends fall into the minima of their basins; fixed ends stay bit-equal.
        align: Takes the strings (strings, nodes, dim) and returns them aligned, before every respacing (rigid
            motions of molecules).
        precondition: (points, vectors) -> vectors, a symmetric positive map applied to forces; the fixed
            point does not depend on it.
        density: Strings (strings, nodes, dim) -> positive relative density of images (strings, nodes); None
            for equal arc length.
        memory_budget: Bytes a call may take.
        meter: A meter to count on; made here if None.
        where: Words that end the sentence about a force that is not finite, e.g. the noise level.
        progress: Called with a fraction and a sentence.
        cancel: Anything with `is_set()`; a cancelled solve returns the best so far.

    Returns:
        The strings with residuals and a report; a string that diverged as it last was finite. Not
        differentiable.

    Raises:
        SettingError: If step, momentum or levels cannot be used.
        ModelOutputError: If the force is not finite; says at which string and image.

    Cost: one force evaluation an image and iteration, five more at the start of a level and one in eight for
    the stiffness.
    """
    if not (0 < step <= 1.5 and 0 <= momentum < 1):
        raise SettingError(f"step={step}, momentum={momentum}", "0 < step <= 1.5 and 0 <= momentum < 1")
    levels = coarse_levels(curve.nodes) if levels is None else levels
    if not levels or min(levels) < 2:
        raise SettingError(f"levels={levels}", "node counts of at least 2", f"levels=({curve.nodes},)")
    meter = Meter(memory_budget) if meter is None else meter
    before = meter.points
    solver = Descent(
        force,
        meter,
        step=step,
        momentum=momentum,
        free_ends=free_ends,
        align=align,
        precondition=precondition,
        density=density,
        stiffness=stiffness,
    )
    batch = curve.points.shape[:-2]
    points = curve.points.reshape(-1, *curve.points.shape[-2:])
    fixed = 0 if free_ends else 2
    evaluations, history, coarse = torch.zeros_like(points[:, 0, 0]), [], None
    level = None
    for place, nodes in enumerate(levels):
        last = place == len(levels) - 1
        coarse = None if place == 0 else points
        points = Curve.through(points).resample(nodes, passes=2).points

        def say(share: float, text: str, place: int = place) -> None:
            if progress is not None:
                progress((place + share) / len(levels), text)

        goal = tol if last else max(tol, _COARSE_TOL)
        level = _run_level(
            solver,
            points,
            tol=goal,
            max_iterations=max_iterations if last else min(max_iterations, _COARSE_MOST),
            patience=patience,
            progress=say,
            cancel=cancel,
            where=where,
        )
        points = level.points
        evaluations = evaluations + level.evaluations * max(nodes - fixed, 0) / max(levels[-1] - fixed, 1)
        history += level.history
        if level.status in (Status.DIVERGED, Status.CANCELLED):
            points = Curve.through(points).resample(levels[-1]).points
            break
    assert level is not None  # there is at least one level
    if density is None:
        points = respace(points, passes=2)
    forces = solver.evaluate(points)
    tangent = tangents_at_nodes(points, arc_knots(points))
    across = torch.linalg.vector_norm(forces - (forces * tangent).sum(-1, keepdim=True) * tangent, dim=-1)
    return StaticString(
        curve=Curve.through(points.reshape(*batch, *points.shape[-2:])),
        force=forces.reshape(*batch, *points.shape[-2:]),
        force_perp=across.reshape(*batch, -1),
        coarse=None if coarse is None else Curve.through(coarse.reshape(*batch, *coarse.shape[-2:])),
        residual=level.left.reshape(batch),
        iterations=level.iterations.reshape(batch),
        evaluations=(evaluations + 1.0).reshape(batch),
        report=SolveReport(
            status=level.status,
            iterations=int(level.iterations.max()),
            residual=float(level.left.max()),
            model_calls=meter.points - before,
            history=tuple(history),
            message="a string stopped being finite; the last finite one is returned"
            if level.status is Status.DIVERGED
            else f"estimated distance to the fixed point over the length, tol {tol:g}",
        ),
    )
