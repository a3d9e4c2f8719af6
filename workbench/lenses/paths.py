r"""The path lens: which way leads from one sample to another through what a model finds likely?

Four answers, the regimes of the string method:

- *transport*: the image of an arc in noise under the probability flow. Every image is a plausible sample;
- *mep*: a path of least energy :math:`V = -\log p`, over the lowest pass. Its images are likelier than
samples
  are, simplified like cartoons;
- *principal*: the mean of walkers that sample :math:`p^{1/T}` around the path, with the walkers themselves;
- *static*: a path of least energy at one fixed noise level, or of any landscape with a force.

The first three ride the model's noise levels from noise to data on a clock of their own; the ends are the
caller's points, carried there and back by the flow alone.

References:
    E, Ren, Vanden-Eijnden, "String method for the study of rare events", 2002,
        https://doi.org/10.1103/PhysRevB.66.052301
    Moreau, Coeurdoux, Ferre, Vanden-Eijnden, "Probing the Geometry of Diffusion Models with the String
    Method",
        2026, https://arxiv.org/abs/2602.22122
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.checks import check_choice, check_model, check_switch
from workbench.curves import Curve, slerp, straight
from workbench.errors import SettingError
from workbench.flows import noise_range
from workbench.flows.transport import progress_part
from workbench.integrators import Cancel, Progress
from workbench.models import ExactScore, Landscape, ScoreModel
from workbench.report import DB_PER_NAT, Estimate, Provenance, SolveReport, Status, provenance_of
from workbench.schedules import LINEAR, Schedule
from workbench.strings.clock import Gamma
from workbench.strings.descent import Align, Precondition
from workbench.strings.meter import Meter
from workbench.strings.profile import Profile
from workbench.strings.reading import Barrier, Reading, deviation_between, ground_of, read_string
from workbench.strings.settings import PathSettings, check_ends, check_path, usual_gamma
from workbench.strings.solve import first_strings, solver_of

REGIMES: tuple[str, ...] = ("transport", "mep", "principal", "static")
"""What `find_path` can look for."""

SAME_PATH = 0.02
"""Largest distance between two strings, over the length, at which they count as the same path."""

_SOURCES = (
    "Probing the Geometry of Diffusion Models with the String Method (Moreau and others 2026)",
    "String method for the study of rare events (E, Ren, Vanden-Eijnden 2002)",
    "Simplified and improved string method (E, Ren, Vanden-Eijnden 2007)",
)


@dataclass(frozen=True, slots=True)
class StartVerdict:
    """Where one start led.

    Attributes:
        name: The start in words.
        barrier: Its barrier, in the energy's unit.
        length: Its length.
        deviation: Largest distance of its images to the path returned, over that path's length.
        same: Whether it is the path returned.
    """

    name: str
    barrier: float
    length: float
    deviation: float
    same: bool


@dataclass(frozen=True, slots=True)
class PathResult:
    """A path between two points of a model, with the numbers to judge it by.

    Attributes:
        curve: The string, points (nodes, dim) in the data's unit at equal arc length; its ends are the
            caller's.
        regime: One of `REGIMES`.
        sigma: Noise level at which the string lies; 0 is clean data.
        schedule: Clock of the evolution; empty for a static string.
        energy: V at the images relative to the start, shape (nodes,): -log p where the model knows it,
            else the line integral of its score.
        energy_unit: "nats", or the landscape's unit.
        energy_sigma: Noise level at which the energies are taken. A network's score is too poor at its
            cleanest level, there energies are those of slightly blurred data.
        profile: Dense energy profile over arc length.
        barriers: Every neighbouring minimum and maximum along the string.
        barrier: Largest V on the splined string minus V(start).
        length: Arc length.
        spacing_ratio: Longest over shortest distance between neighbouring images.
        force_perp: Force across the string at the images, shape (nodes,); zero on a path of least energy.
        round_trip: Relative distance of each end to where the flow returns it, shape (2,); zeros for a static
            string, whose ends never move.
        walkers: Walkers of a principal curve, shape (nodes, walkers, dim); None otherwise.
        modes: Minima of V met along the string, shape (count, dim); None where they were not looked for.
        mode_energies: Their V relative to the start; None where V is not known.
        lerp: The straight segment between the ends.
        slerp: The arc between the ends about the origin.
        starts: Where each start led, in the order given.
        others: The strings of all starts, shape (starts, nodes, dim).
        same_path: Whether all starts led to the same path; None with a single start.
        trapped: Whether the string passes a stationary point of index above 1.
        share_in_model: Time of the same batched model calls alone over the time of the solve; None if not
            measured.
        report: How the solve went.
        provenance: Where the result came from.
    """

    curve: Curve
    regime: str
    sigma: float
    schedule: str
    energy: Tensor
    energy_unit: str
    energy_sigma: float
    profile: Profile
    barriers: tuple[Barrier, ...]
    barrier: Estimate
    length: Estimate
    spacing_ratio: float
    force_perp: Tensor
    round_trip: Tensor
    walkers: Tensor | None
    modes: Tensor | None
    mode_energies: Tensor | None
    lerp: Curve
    slerp: Curve
    starts: tuple[StartVerdict, ...]
    others: Tensor
    same_path: bool | None
    trapped: bool
    share_in_model: float | None
    report: SolveReport
    provenance: Provenance

    @property
    def db_per_dim(self) -> Tensor:
        """Log likelihood along the string relative to its start, in dB per dimension: -10 log10(e) V /
        dim.

        Raises:
            SettingError: If the energy is no negative log density, or not known.
        """
        if self.energy is None or self.energy_unit != "nats":
            raise SettingError(
                f"an energy in {self.energy_unit or 'no unit'}", "a log density, in nats", "result.energy"
            )
        return -DB_PER_NAT * self.energy / self.curve.points.shape[-1]


def find_path(
    model: ScoreModel | Landscape,
    start: Tensor,
    end: Tensor,
    *,
    regime: str | None = None,
    sigma: float | None = None,
    nodes: int = 33,
    gamma: Gamma | None = None,
    temperature: float | None = None,
    window: tuple[float, float] = (0.1, 0.95),
    quench: float | None = None,
    schedule: Schedule = LINEAR,
    steps: int | None = None,
    solver: str = "rk4",
    starts: int | Sequence[Curve] = 1,
    via: Tensor | None = None,
    walkers: int | None = None,
    eta: float = 0.1,
    modes: int | None = None,
    most_substeps: int | None = None,
    tol: float | None = None,
    max_iterations: int = 2000,
    align: Align | None = None,
    precondition: Precondition | None = None,
    polish: bool | None = None,
    energy_sigma: float | None = None,
    measure_share: bool = True,
    generator: torch.Generator | None = None,
    memory_budget: int | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> PathResult:
    """Find a path between two points of a model, or of a landscape.

    Args:
        model: A score model, or a landscape with energy and force (static regime only).
        start: Where the path starts, shape (dim,), in the data's unit.
        end: Where it ends.
        regime: "transport", "mep", "principal" or "static"; None for "mep", and "static" on a landscape.
        sigma: Noise level at which the ends and the path lie; None for the cleanest that the model offers,
            and for a static string in a network 0.05 of the data's deviation at least.
        nodes: Number of images.
        gamma: Strength of the relaxation ("mep", "principal"); 7 and above track the path of least energy.
            None for `usual_gamma` of the model.
        temperature: T of a principal curve; None for 1.
        window: Shares of the clock between which the string relaxes.
        quench: Share of the clock from which gamma falls to nothing at the data; None for 0.7 in a network,
            whose score gets poorer and stiffer there, and never in a model with an exact score.
        schedule: The evolution's own clock.
        steps: Its outer steps; None for 50, and 25 in a network.
        solver: Its transport solver: "rk4", "heun" or "euler".
        starts: Number of starts, the first one plain and the others bent to alternating sides; or curves
            in the data's unit (static) or at the noise end (otherwise).
        via: Points that the starts go through, shape (count, dim); the path may leave them.
        walkers: Walkers an image; None for 8, and 2 in more than 16 dimensions.
        eta: Share of the walkers' mean that an image takes over each sub-step.
        modes: Sine modes kept of a principal curve; None decides by the walkers' width.
        most_substeps: Limit of walker sub-steps an outer step; None for 10 in more than 16 dimensions.
        tol: Relative accuracy: estimated remaining displacement of a static string, None for 1e-5; round trip
            of the ends otherwise, None for 1e-3.
        max_iterations: Limit of a static string, each level.
        align: Rigid alignment of a static string's images before every respacing, as
            `workbench.adapters.conformations.align_nodes` for molecules.
        precondition: Preconditioner of a static string in a stiff landscape, as
            `workbench.strings.precondition.CurvaturePreconditioner`; it counts its own evaluations.
        polish: Polish saddles and modes; None for yes where energies are exact, no for networks.
        energy_sigma: Noise level of the energies; None for sigma, and for a network the level at which its
            window closes.
        measure_share: Replay the model calls alone at the end and state their share of the time.
        generator: Draws walkers' noise and the bends of further starts.
        memory_budget: Bytes a model call may take; the answer does not depend on it.
        progress: Called with the fraction done and a sentence.
        cancel: Asked at every step; a cancelled solve returns the best so far, and says so.

    Returns:
        The path of the start with the lowest barrier. Not differentiable.

    Raises:
        ShapeError: If an end is no finite vector of the model's dimension.
        SettingError: If a setting cannot be used, the ends coincide or lie outside the model's range of
        values.
        ModelOutputError: If the model returns something not finite; says at which image and noise level.

    Cost: counted in `report.model_calls`, points. Transport: 4 steps (nodes + 2) by rk4. Mep: besides,
    some 150 to 400 an image at gamma 7. Principal: besides, sub-steps times walkers. Static: about 50 an
    image.
    """
    begin = time.perf_counter()
    check_model(model, landscapes=True)
    check_choice("regime", regime, REGIMES, none=True)
    regime = _regime(model, regime)
    options = {
        "nodes": nodes,
        "gamma": usual_gamma(model) if gamma is None else gamma,
        "temperature": temperature,
        "window": window,
        "quench": quench,
        "schedule": schedule,
        "steps": steps,
        "solver": solver,
        "walkers": walkers,
        "eta": eta,
        "modes": modes,
        "most_substeps": most_substeps,
        "sigma": sigma,
        "tol": tol,
        "max_iterations": max_iterations,
        "align": align,
        "precondition": precondition,
        "via": via,
        "regime": regime,
        "polish": polish,
        "energy_sigma": energy_sigma,
        "memory_budget": memory_budget,
        "given": not isinstance(starts, int),
        "generator": generator,
        "progress": progress,
        "cancel": cancel,
    }
    check_path(options, starts)
    check_switch("measure_share", measure_share)
    check_ends(model, start, end, nodes)
    settings = PathSettings(**{**options, "progress": progress_part(progress, 0.0, 0.9)})
    meter = Meter(memory_budget)
    level = _energy_level(model, regime, sigma, energy_sigma, window, schedule)
    ground = ground_of(model, level)
    exact = ground.energy is not None
    polish = exact if polish is None else polish
    curves, names = first_strings(regime, start, end, nodes, starts, via, generator)
    solve = solver_of(model, regime)
    strings = solve(model, ground, start, end, curves, meter, settings)

    def read(k: int, closely: bool) -> Reading:
        return read_string(
            Curve.through(strings.points[k]),
            ground,
            meter,
            polish_saddles=closely,
            other=strings.others[k],
            other_says=strings.other_says,
            tol=1e-5 if tol is None else tol,
        )

    count = strings.points.shape[0]
    readings = [read(k, polish and count == 1) for k in range(count)]
    best = min(range(count), key=lambda k: readings[k].barrier.value)
    if polish and count > 1:
        readings[best] = read(best, True)
    reading = readings[best]
    verdicts = _verdicts(strings.points, readings, names, best)
    report = replace(
        strings.report, model_calls=meter.points, warnings=(*strings.report.warnings, *reading.warnings)
    )
    spent = time.perf_counter() - begin
    share = (
        meter.replay(repeats=3) / spent if measure_share and report.status is not Status.CANCELLED else None
    )
    if progress is not None:
        progress(1.0, report.message)
    report.warn_if_failed()
    curve = Curve.through(strings.points[best])
    return PathResult(
        curve=curve,
        regime=regime,
        sigma=strings.sigma,
        schedule="" if regime == "static" else settings.schedule.name,
        energy=reading.energy,
        energy_unit=ground.unit,
        energy_sigma=level,
        profile=reading.profile,
        barriers=reading.barriers,
        barrier=reading.barrier,
        length=reading.length,
        spacing_ratio=float(curve.spacing_ratio()),
        force_perp=reading.force_perp,
        round_trip=strings.round_trip[best],
        walkers=None if strings.walkers is None else strings.walkers[best],
        modes=reading.modes,
        mode_energies=reading.mode_energies,
        lerp=straight(start, end, settings.nodes),
        slerp=slerp(start, end, settings.nodes),
        starts=verdicts,
        others=strings.points,
        same_path=None if len(verdicts) == 1 else all(verdict.same for verdict in verdicts),
        trapped=any((barrier.hessian_index or 0) > 1 for barrier in reading.barriers),
        share_in_model=share,
        report=report,
        provenance=provenance_of(
            curve.points,
            model=ground.name,
            settings=settings.as_header()
            | {"starts": starts if isinstance(starts, int) else f"{len(starts)} curves"},
            generator=settings.generator,
            sources=_SOURCES if regime != "static" else _SOURCES[1:],
        ),
    )


def _regime(model: ScoreModel | Landscape, regime: str | None) -> str:
    energy_only = isinstance(model, Landscape)
    if regime is None:
        return "static" if energy_only else "mep"
    if energy_only and regime not in ("static", "principal"):
        raise SettingError(
            f"regime {regime!r} on the landscape {model.name}", "a model with noise levels", "regime='static'"
        )
    return regime


def _energy_level(model, regime, sigma, energy_sigma, window, schedule: Schedule) -> float:
    """The noise level at which energies are taken."""
    if isinstance(model, Landscape):
        return 0.0
    low, high = noise_range(model)
    asked = sigma if energy_sigma is None else energy_sigma
    if asked is not None:
        if not low * (1 - 1e-9) <= asked < high:
            raise SettingError(f"sigma={asked}", f"a level from {low:g} to {high:g}", "sigma=None")
        return float(asked)
    if isinstance(model, ExactScore):
        return low
    floor = 0.05 * model.frame.data_std
    if regime == "static" or not math.isfinite(schedule.t_noise):
        return max(low, floor)
    closes = schedule.t_noise + window[1] * (schedule.t_data - schedule.t_noise)
    a, s = schedule(torch.tensor(closes, dtype=torch.float64))
    return max(low, floor, float(s / a))


def _verdicts(
    points: Tensor, readings: list[Reading], names: list[str], best: int
) -> tuple[StartVerdict, ...]:
    length = readings[best].length.value
    verdicts = []
    for k, (reading, name) in enumerate(zip(readings, names, strict=True)):
        apart = max(
            float(deviation_between(points[k], points[best]).max()),
            float(deviation_between(points[best], points[k]).max()),
        )
        share = apart / length
        verdicts.append(
            StartVerdict(name, reading.barrier.value, reading.length.value, share, share < SAME_PATH)
        )
    return tuple(verdicts)
