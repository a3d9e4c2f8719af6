"""From a pair of ends to strings: first guesses, and the solver that each regime takes."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.curves import Curve, normal_direction, slerp, straight
from workbench.curves import via as polygon
from workbench.errors import SettingError, ShapeError
from workbench.models import Landscape, ScoreModel, check_points
from workbench.report import SolveReport, Status
from workbench.strings.evolution import evolve_string
from workbench.strings.ground import Ground
from workbench.strings.settings import PathSettings
from workbench.strings.static import relax_string
from workbench.strings.walkers import find_principal_curve
from workbench.types import Points


@dataclass(frozen=True, slots=True)
class Strings:
    """What a solver returns to the door.

    Attributes:
        points: Strings of all starts, shape (starts, nodes, dim).
        sigma: Noise level at which they lie.
        round_trip: Relative round trip of the ends, shape (starts, 2).
        walkers: Walkers, shape (starts, nodes, walkers, dim); None without temperature.
        others: Another solution for each string, against which its length can be held, or None.
        other_says: How those were obtained, in words.
        report: How the solve went.
    """

    points: Tensor
    sigma: float
    round_trip: Tensor
    walkers: Tensor | None
    others: tuple[Curve | None, ...]
    other_says: str
    report: SolveReport


_BENT = "the straight start meets a point without a finite force and was bent aside"


def solver_of(model: ScoreModel | Landscape, regime: str) -> Callable[..., Strings]:
    """The solver of a regime: (model, ground, start, end, first strings, meter, settings) -> Strings."""
    if regime == "static":
        return solve_static
    return solve_principal if isinstance(model, Landscape) else solve_evolution


def first_strings(regime, start, end, nodes, starts, via, generator) -> tuple[list[Curve], list[str]]:
    """First strings in the data's unit, as a static solve takes them, and their names.

    An evolution bends its own arcs in the same way at the noise end.
    """
    if not isinstance(starts, int):
        if not starts:
            raise SettingError("no start", "at least one curve", "starts=1")
        for curve in starts:
            if curve.points.ndim != 2 or curve.points.shape[-1] != start.shape[-1]:
                raise ShapeError(
                    f"a start of shape {tuple(curve.points.shape)}", f"one curve, (nodes, {start.shape[-1]})"
                )
        curves = [curve if curve.nodes == nodes else curve.resample(nodes) for curve in starts]
        return curves, [f"curve {k + 1}" for k in range(len(curves))]
    if starts < 1 or (starts > 1 and start.shape[-1] < 2):
        raise SettingError(
            f"starts={starts} in {start.shape[-1]} dimensions", "1, or more in a plane", "starts=1"
        )
    if via is not None:
        check_points(via, start.shape[-1], name="via")
        if via.ndim != 2:
            raise ShapeError(f"via of shape {tuple(via.shape)}", "points of shape (count, dim)", "via[None]")
    first = straight(start, end, nodes) if via is None else polygon(start, end, via, nodes)
    plain = "via points" if via is not None else "straight" if regime == "static" else "arc"
    names = [plain] + [f"{plain}, bent {'left' if k % 2 else 'right'}" for k in range(1, starts)]
    if regime != "static":
        return [first] * starts, names
    return [
        Curve.through(points) for points in bend_aside(first.points.expand(starts, -1, -1), generator)
    ], names


def solve_static(model, ground: Ground, start, end, curves, meter, settings: PathSettings) -> Strings:
    """Strings relaxed at one landscape, all starts in one batch."""
    points = torch.stack([curve.points for curve in curves])
    aside = False
    if len(curves) == 1 and not settings.given and points.shape[-1] > 1:
        forces = meter(ground.force, points)
        aside = not bool(torch.isfinite(forces).all())
        if aside:  # a singular point on the straight start, say: a bent one passes it
            points = bend_aside(points.expand(2, -1, -1), settings.generator)[1:]
    tol = 1e-5 if settings.tol is None else settings.tol
    found = relax_string(
        ground.force,
        Curve.through(points),
        tol=tol,
        max_iterations=settings.max_iterations,
        patience=200 if settings.precondition is None else settings.max_iterations,
        align=settings.align,
        precondition=settings.precondition,
        meter=meter,
        where="" if isinstance(model, Landscape) else f", sigma {ground.sigma:.4g}",
        progress=settings.progress,
        cancel=settings.cancel,
    )
    coarse = [None] * len(curves) if found.coarse is None else [Curve.through(p) for p in found.coarse.points]
    return Strings(
        found.curve.points,
        ground.sigma,
        torch.zeros(len(curves), 2, dtype=points.dtype, device=points.device),
        None,
        tuple(coarse),
        "against half the images",
        replace(found.report, warnings=(*found.report.warnings, _BENT)) if aside else found.report,
    )


def solve_principal(model, ground: Ground, start, end, curves, meter, settings: PathSettings) -> Strings:
    """Walkers around the relaxed strings of a landscape, T in its energy unit."""
    strings = solve_static(model, ground, start, end, curves, meter, settings)
    temperature = 1.0 if settings.temperature is None else settings.temperature
    span = torch.linalg.vector_norm(strings.points.diff(dim=-2), dim=-1).mean()
    probe = strings.points.reshape(-1, strings.points.shape[-1])
    reach = (
        1e-4
        * span
        * torch.nn.functional.normalize(
            torch.randn(probe.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(
                probe
            ),
            dim=-1,
        )
    )
    bend = meter(ground.force, probe) - meter(ground.force, probe + reach)
    stiffness = float(
        (torch.linalg.vector_norm(bend, dim=-1) / torch.linalg.vector_norm(reach, dim=-1)).max()
    )
    found = find_principal_curve(
        ground.force,
        Curve.through(strings.points),
        temperature=temperature,
        step=0.1 / stiffness,
        walkers=16 if settings.walkers is None else settings.walkers,
        modes=settings.modes,
        meter=meter,
        generator=settings.generator,
        progress=settings.progress,
        cancel=settings.cancel,
    )
    return replace(
        strings,
        points=found.curve.points,
        walkers=found.walkers,
        others=(None,) * len(curves),
        report=found.report,
    )


def solve_evolution(
    model: ScoreModel, ground: Ground, start, end, curves, meter, settings: PathSettings
) -> Strings:
    """Strings of all starts through the noise levels, in one batch."""
    count, regime, generator = len(curves), settings.regime, settings.generator
    small = start.shape[-1] <= 16
    walkers = settings.walkers
    walkers = (8 if small else 2) if walkers is None else walkers
    limit = settings.most_substeps
    limit = (None if small else 10) if limit is None else limit
    temperature = 0.0
    if regime == "principal":
        temperature = 1.0 if settings.temperature is None else settings.temperature
    given, via = settings.given, settings.via

    def arc(here: Points, there: Points, nodes: int) -> Curve:
        if given:  # the caller's curves at the noise end, moved so that their ends meet the latents
            points = torch.stack([curve.points for curve in curves])
            u = torch.linspace(0.0, 1.0, nodes, dtype=points.dtype, device=points.device).unsqueeze(-1)
            gap = torch.lerp((here - points[:, 0]).unsqueeze(-2), (there - points[:, -1]).unsqueeze(-2), u)
            return Curve.through(points + gap)
        return Curve.through(bend_aside(slerp(here, there, nodes).points, generator))

    steps = settings.steps
    steps = (50 if ground.energy is not None else 25) if steps is None else steps
    quench = settings.quench
    quench = (1.0 if ground.energy is not None else 0.7) if quench is None else quench
    found = evolve_string(
        model,
        start.expand(count, -1),
        end.expand(count, -1),
        nodes=settings.nodes,
        gamma=0.0 if regime == "transport" else settings.gamma,
        window=(settings.window[0], settings.window[1]),
        quench=quench,
        schedule=settings.schedule,
        steps=steps,
        solver=settings.solver,
        sigma=settings.sigma,
        arc=arc,
        via=None if via is None else via.expand(count, -1, -1),
        temperature=temperature,
        walkers=walkers,
        eta=settings.eta,
        modes=settings.modes,
        most_substeps=limit,
        tol=1e-3 if settings.tol is None else settings.tol,
        meter=meter,
        generator=generator,
        progress=settings.progress,
        cancel=settings.cancel,
    )
    others: tuple[Curve | None, ...] = (None,) * count
    if regime == "mep" and ground.energy is not None and found.report.status is not Status.CANCELLED:
        still = relax_string(
            ground.force, found.curve, levels=(settings.nodes,), tol=1e-4, max_iterations=60, meter=meter
        )
        others = tuple(Curve.through(points) for points in still.curve.points)
    return Strings(
        found.curve.points,
        found.sigma,
        found.round_trip,
        found.walkers,
        others,
        "against the string relaxed at this level",
        found.report,
    )


def bend_aside(points: Tensor, generator: torch.Generator | None) -> Tensor:
    """Starts (starts, nodes, dim) bent aside, the first one not, the others to alternating sides, ever
    farther."""
    count, nodes = points.shape[:2]
    if count == 1:
        return points
    here, there = points[0, 0], points[0, -1]
    chord = torch.linalg.vector_norm(there - here)
    u = torch.linspace(0.0, 1.0, nodes, dtype=points.dtype, device=points.device)
    bends = [torch.zeros_like(points[0])]
    for k in range(1, count):
        size = (1 if k % 2 else -1) * 0.25 * (1 + (k - 1) // 2)
        aside = normal_direction(here, there, None if here.shape[-1] == 2 else generator)
        bends.append(size * chord * torch.sin(math.pi * u).unsqueeze(-1) * aside)
    return points + torch.stack(bends)
