r"""The path lens: which way leads from one sample to another through what a model finds likely?

Four answers, the regimes of the string method:

- *transport*: the image of an arc in noise under the probability flow. Every image is a plausible sample;
- *mep*: a path of least energy :math:`V = -\log p`, over the lowest pass. Its images are likelier than
  samples are, simplified like cartoons;
- *principal*: the mean of walkers that sample :math:`p^{1/T}` around the path, with the walkers themselves;
- *static*: a path of least energy at one fixed noise level, or of any landscape with a force.

The first three ride the model's noise levels from noise to data on a clock of their own; the ends are the
caller's points, carried there and back by the flow alone.

References:
    E, Ren, Vanden-Eijnden, "String method for the study of rare events", 2002,
        https://doi.org/10.1103/PhysRevB.66.052301
    Moreau, Coeurdoux, Ferre, Vanden-Eijnden, "Probing the Geometry of Diffusion Models with the String
        Method", 2026, https://arxiv.org/abs/2602.22122
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from workbench.checks import check_choice, check_model, check_switch
from workbench.curves import Curve, slerp, straight
from workbench.errors import SettingError
from workbench.flows import noise_range
from workbench.flows.transport import progress_part
from workbench.integrators import Cancel, Progress
from workbench.models import ExactScore, Landscape, ScoreModel
from workbench.report import Status, provenance_of
from workbench.schedules import LINEAR, Schedule
from workbench.strings.clock import Gamma
from workbench.strings.descent import Align, Precondition
from workbench.strings.ground import ground_of
from workbench.strings.meter import Meter
from workbench.strings.reading import Reading, deviation_between, read_string
from workbench.strings.results import PathResult, StartVerdict
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
    refine_energies: bool = True,
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
        refine_energies: Look between the images too: where only a score is known, integrate it there until
            the energies stand still, else find where they turn. Without it the images alone give a preview,
            which in a network is far off on a string that winds.
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
    image. Energies of a network: 4 to 40 an image.
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
        "refine_energies": refine_energies,
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
            refine=refine_energies,
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
        min(1.0, meter.replay(repeats=3) / spent)
        if measure_share and report.status is not Status.CANCELLED
        else None
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
