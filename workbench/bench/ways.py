"""Paths at the bench: the same two ends in the regimes that the state names, and the plain curves beside."""

from typing import Any

import torch

from workbench.bench.answers import Along, Inquiry, LensAnswer, Line, together
from workbench.bench.hints import hint_settings
from workbench.curves import Curve, slerp, straight
from workbench.lenses.paths import PathResult, find_path
from workbench.models import ExactScore, Landscape
from workbench.strings.settings import usual_gamma
from workbench.worlds.answers import known_answer

USUAL_STEPS = (50, 25)
"""Steps of the flow where the state says nothing: with an exact score, with a network."""

METHODS = {
    "mep": ("diffusion strings", "string method"),
    "transport": ("diffusion strings", "string method"),
    "principal": ("diffusion strings", "finite temperature strings"),
    "static": ("string method",),
}
"""Methods of each regime, as citations name them."""


def ask_paths(inquiry: Inquiry) -> LensAnswer:
    """Paths in their regimes, the straight line and the arc; in a world the exact path between the ends."""
    state, subject = inquiry.state, inquiry.place.subject
    start, end = inquiry.ends()
    nodes = max(state.nodes, 3)
    lines = [
        Line("straight line", "straight", straight(start, end, nodes).points, inquiry.level),
        Line("slerp", "slerp", slerp(start, end, nodes).points, inquiry.level),
    ]
    wanted = [regime for regime in state.regime_names if regime in subject.regimes]
    refused = [regime for regime in state.regime_names if regime not in subject.regimes]
    notes = [f"{subject.frame} has no noise levels, so no {regime} path" for regime in refused]
    if not subject.regimes:
        return LensAnswer(
            "paths",
            inquiry.speed,
            sentence=f"{subject.frame} is {subject.lacking}: a path needs noise levels or an energy.",
        )
    if not wanted:
        wanted = [subject.regimes[0]]
    results = {}
    for number, regime in enumerate(wanted):
        if number and inquiry.cancel is not None and inquiry.cancel.is_set():
            break
        results[regime] = path_of(inquiry, regime)
    for regime, result in results.items():
        line = Line(_name(regime), "path", result.curve.points, result.sigma, result.report, result.barrier)
        lines.append(line)
    lines.extend(_exact_lines(inquiry, results))
    reports = [result.report for result in results.values()]
    first = next(iter(results.values()))
    facts = []
    for regime, result in results.items():
        facts += [(f"own barrier, {regime}", result.barrier), (f"length, {regime}", result.length)]
        if result.energy_sigma != inquiry.level:
            notes.append(
                f"own barrier: of its solver, at σ = {result.energy_sigma:.3g}, where the path was found; "
                f"the table's highest barrier compares all curves at σ = {inquiry.level:.3g}"
            )
    readings = [
        Along(_name(regime), "energy", result.profile.energy, result.energy_unit, result.profile.arc)
        for regime, result in results.items()
    ]
    return LensAnswer(
        "paths",
        inquiry.speed,
        first.sigma,
        tuple(lines),
        readings=tuple(readings),
        facts=tuple(facts),
        notes=tuple(dict.fromkeys(notes)),
        report=together(reports, message=f"{len(results)} paths"),
        provenance=first.provenance,
        methods=tuple(dict.fromkeys(name for regime in results for name in METHODS[regime])),
    )


def path_of(inquiry: Inquiry, regime: str) -> PathResult:
    """The path in a regime, solved once for the same ends and settings."""
    state, subject = inquiry.state, inquiry.place.subject
    start, end = inquiry.ends()
    via = subject.points(state.via)
    settings = _settings(inquiry, regime)
    if not inquiry.full:
        settings = hint_settings(subject, (start, end), settings, _near(inquiry, regime))
    seed = state.seed if regime == "principal" else None  # the others draw nothing
    return inquiry.once(
        "path",
        (start, end, via, settings, seed),
        make=lambda: find_path(
            subject.model,
            start,
            end,
            via=via,
            measure_share=False,
            generator=torch.Generator(start.device).manual_seed(state.seed),
            progress=inquiry.progress,
            cancel=inquiry.cancel,
            **settings,
        ),
    )


def _settings(inquiry: Inquiry, regime: str) -> dict[str, Any]:
    """Settings of the solver."""
    state, subject = inquiry.state, inquiry.place.subject
    bare = isinstance(subject.model, Landscape)
    settings: dict[str, Any] = {"regime": regime, "nodes": max(state.nodes, 3)}
    settings["sigma"] = None if bare or not state.sigma else state.sigma
    if regime != "static":
        settings["steps"] = (
            USUAL_STEPS[not isinstance(subject.model, ExactScore)] if state.steps is None else state.steps
        )
    if regime in ("mep", "principal"):
        settings["gamma"] = usual_gamma(subject.model) if state.gamma is None else state.gamma
    return settings


def _near(inquiry: Inquiry, regime: str) -> Curve | None:
    """The path in a regime that was found last, for ends close by and the same via points."""
    return next(
        (
            Curve.through(line.points)
            for answer in inquiry.near
            for line in answer.lines
            if line.name == _name(regime)
        ),
        None,
    )


def _name(regime: str) -> str:
    return f"path, {regime}"


def _exact_lines(inquiry: Inquiry, results: dict[str, PathResult]) -> list[Line]:
    """The known path between the ends, where a world knows it at zero noise and the ends are its minima.

    Not looked for while a point moves: it is between minima that there is one.
    """
    world = inquiry.place.subject.world
    if world is None or not results or inquiry.state.sigma or not inquiry.full:
        return []
    nearest = next(iter(results.values())).curve.points
    known = inquiry.once(
        "known answer",
        nearest[0],
        nearest[-1],
        make=lambda: known_answer(world, nearest[0], nearest[-1], near=nearest),
    )
    if known is None or not known.between_minima:
        return []
    route = world.reference_path(known.route.name).to(nearest)
    route = route.flip(0) if known.reversed else route
    return [Line("exact path", "exact", route[::8], 0.0)]
