r"""Contrastive trajectories: a map of latents that follows the dynamics, curves in it, and the way back.

Frames have latents z of many dimensions, from which an untouched model renders them. `fit_conda` learns an
embedding c = h(z) of a few dimensions in which frames that belong together (in time, by a variable or a
label) are close. `trace` draws a curve among the c: a spline through observed frames, a straight line, a
forecast by linear dynamics, or a counterfactual shift; and lifts it to latents as weighted sums of
neighbours. Beside it stand the straight and the spherical interpolation of the latents themselves, which is
what one would have done without a map.

What says whether to believe it: the loss on held-out frames against that of a control with shuffled context;
the loops of the embedding against those of the latents; and for every lifted point the distance to the
nearest frame.

References:
    Contrastive Diffusion Alignment: Learning Structured Latents for Controllable Generation (Sandilya et al.,
    2025), https://arxiv.org/abs/2510.14190
    Learnable latent embeddings for joint behavioural and neural analysis (Schneider, Lee, Mathis, 2023),
    https://doi.org/10.1038/s41586-023-06031-6
"""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workbench.checks import check_choice, check_count, check_number, check_run, check_switch
from workbench.conda.context import Context, context_of
from workbench.conda.curves import (
    KINDS,
    draw_between,
    draw_forecast,
    draw_shift,
    find_anchors,
    interpolate_latents,
    variables_along,
)
from workbench.conda.encoders import Encoder, embed_table
from workbench.conda.fitting import LEARNT, Training, train
from workbench.conda.latents import Latents, check_finite, open_latents
from workbench.conda.lifts import NeighbourIndex, lift
from workbench.conda.positives import default_kind
from workbench.conda.results import CondaFit, TraceResult
from workbench.conda.settings import CondaConfig
from workbench.conda.topology import Topology, check_topology
from workbench.devices import resolve_device
from workbench.draws import seeded
from workbench.errors import SettingError
from workbench.integrators import Cancel, Progress
from workbench.report import SolveReport, Status, provenance_of

SOURCES = (
    "Contrastive Diffusion Alignment (Sandilya et al., 2025)",
    "Learnable latent embeddings for joint behavioural and neural analysis (Schneider et al., 2023)",
)

_CHECKED = 4000  # frames whose loops are compared


def fit_conda(
    latents: Latents | Tensor | np.ndarray | str | Path,
    context: object = None,
    *,
    config: CondaConfig | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: str = "cpu",
    topology: bool = True,
    chunk: int | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    **settings: Any,
) -> CondaFit:
    """Learn an embedding in which frames that belong together are close.

    Args:
        latents: Latents z, shape (count, latent dim), or the path of a `.npy` or `.safetensors` file of them,
            which is then never read whole into memory.
        context: What is known about the frames: a `Context`, an array of variables (floating point) or labels
            (whole numbers), a tuple of such arrays, or None for frames that follow each other in time.
        config: All settings at once.
        generator: Source of all draws; that of seed 0 if None.
        dtype: Precision of the network; float32, or float64 for latents of float64, if None.
        device: Where it is trained.
        topology: Whether loops are compared (a fraction of a second with the package `ripser`).
        chunk: Frames embedded together; None fits a memory budget. It changes the answer by rounding alone.
        progress: Called with a fraction and a sentence.
        cancel: An object whose `is_set()` stops early with what has been learnt.
        settings: Single settings of `CondaConfig`, in place of those of `config`.

    Returns:
        The fit; a `ConvergenceWarning` if nothing was learnt.

    Raises:
        SettingError: If a setting is out of range or does not fit the context.
        ShapeError: If latents and context differ in number.
        DataError: If latents are not finite or a file cannot be read.

    Cost:
        No calls of the generative model.
    """
    config = CondaConfig() if config is None else config
    unknown = sorted(set(settings) - set(asdict(config)))
    if unknown:
        raise SettingError(f"the setting {unknown[0]!r}", f"one of {', '.join(asdict(config))}")
    config = replace(config, **settings)
    config.check()
    check_run(generator, progress, cancel)
    check_switch("topology", topology)
    check_count("chunk", chunk, none=True)
    table = open_latents(latents)
    known = context_of(context, len(table))
    check_finite(table)
    generator = seeded(generator)
    if dtype is None:
        wide = isinstance(table.array, Tensor) and table.array.dtype == torch.float64
        dtype = torch.float64 if wide else torch.float32
    seed = generator.initial_seed()
    trained = train(
        table,
        known,
        config,
        generator=generator,
        dtype=dtype,
        device=resolve_device(device),
        progress=progress,
        cancel=cancel,
    )
    points = embed_table(trained.encoder, table, known, chunk=chunk)
    index = NeighbourIndex(points)
    loops = _loops(trained.encoder, table, points, topology, seed)
    report = _report(trained, loops, _unpaired(known, config))
    report.warn_if_failed()
    return CondaFit(
        points=points,
        context=known,
        training=trained,
        topology=loops,
        spacing=index.spacing,
        latents=None if table.source else torch.as_tensor(table.array),
        source=table.source,
        config=config,
        report=report,
        provenance=provenance_of(
            points,
            model=f"{config.architecture} encoder of {table.dim}-dimensional latents",
            settings=asdict(config),
            generator=generator,
            sources=SOURCES,
        ),
    )


def trace(
    fit: CondaFit,
    anchors: Tensor | list[int] | None = None,
    *,
    kind: str = "spline",
    times: Tensor | None = None,
    steps: int = 33,
    period: float | None = None,
    before: Tensor | float | int | None = None,
    after: Tensor | float | int | None = None,
    method: str = "ar",
    delays: int = 2,
    k: int = 8,
    weights: str = "linear",
    rank: int | None = None,
    ridge: float = 1e-3,
    renorm: bool = False,
    index: NeighbourIndex | None = None,
) -> TraceResult:
    """Draw a curve in the embedding and lift it to latents.

    Args:
        fit: The embedding.
        anchors: Rows of frames (whole numbers), or points of the embedding, shape (anchors, dim), that the
            curve goes through ("spline"), between ("line", "arc") or from ("forecast", one row; "shift").
        kind: One of `KINDS`.
        times: Times of the anchors for a spline, shape (anchors,); those of the frames if None.
        steps: Points of the curve, at equal lengths along a spline; for a forecast, steps after the anchor.
        period: Time after which a spline closes.
        before: For "shift": the label or variable that the anchor has; that of its frame if None.
        after: For "shift": the one it is given.
        method: For "forecast": "ar", "dmd" or "optimised".
        delays: For "forecast": points of history.
        k: Neighbours of the lift.
        weights: Its weights, see `workbench.conda.lifts`.
        rank: Its local axes.
        ridge: Its regularisation.
        renorm: Whether lifted latents are scaled to their neighbours' usual length.
        index: `fit.index()`, to be kept where many curves are drawn.

    Returns:
        The curve with its latents, and the straight and spherical interpolations of latents beside it.

    Raises:
        SettingError: If a spline is asked past its ends, an anchor does not exist, there are more or fewer
            than the kind needs, or k is larger than the number of frames.

    Cost:
        No calls of the generative model; k rows of latents for each point.
    """
    check_choice("kind", kind, KINDS)
    check_count("steps", steps, least=2)
    check_number("period", period, above=0.0, none=True)
    rows, held = find_anchors(fit.points, fit.context, anchors, kind)
    if kind == "forecast":
        at, points = draw_forecast(fit.points, fit.context, rows, steps, method, delays)
    elif kind == "shift":
        at, points = draw_shift(fit.points, fit.context, rows, held, steps, before, after)
    else:
        at, points = draw_between(fit.context, rows, held, kind, times, steps, period)
    index = fit.index() if index is None else index
    table = fit.table()
    lifted = lift(index, table, points, k=k, weights=weights, rank=rank, ridge=ridge, renorm=renorm)
    ends = torch.stack([held[0], points[-1]]) if kind == "shift" else held
    lerp_z, slerp_z = (
        (None, None) if kind == "forecast" else interpolate_latents(index, table, ends, steps, period)
    )
    step = points.diff(dim=0).double()
    bends = points.diff(n=2, dim=0).double().square().sum(-1) if steps > 2 else torch.zeros(1)
    even = step.square().sum(-1).mean().clamp_min(torch.finfo(torch.float64).tiny)
    settings = {
        "kind": kind,
        "steps": steps,
        "k": k,
        "weights": weights,
        "rank": rank,
        "ridge": ridge,
        "renorm": renorm,
        "period": period,
        "rows": rows.tolist() if rows is not None else None,
    }
    if kind == "forecast":
        settings |= {"method": method, "delays": delays}
    if kind == "shift":
        settings |= {"before": _said(before), "after": _said(after)}
    farthest = float(lifted.distance.max())
    return TraceResult(
        kind=kind,
        times=at,
        points=points,
        anchors=held,
        lifted=lifted,
        variables=variables_along(fit.context, lifted),
        lerp_z=lerp_z,
        slerp_z=slerp_z,
        length=float(step.norm(dim=-1).sum()),
        bending=float(bends.mean() / even),
        report=SolveReport(
            status=Status.CONVERGED,
            iterations=steps,
            residual=None,
            model_calls=0,
            warnings=(lifted.warning,) if lifted.warning else (),
            message=f"at most {farthest:.2g} usual spacings from a frame",
        ),
        provenance=provenance_of(points, model=fit.provenance.model, settings=settings, sources=SOURCES),
    )


def _loops(encoder: Encoder, table: Latents, points: Tensor, wanted: bool, seed: int) -> Topology:
    if not wanted or len(points) < 16:
        return Topology((), (), math.nan, None, "")
    rows = torch.arange(0, len(points), max(1, len(points) // _CHECKED))
    inputs = encoder.inputs(table.rows(rows).cpu())
    return check_topology(inputs, points[rows], generator=torch.Generator().manual_seed(seed))


def _report(trained: Training, loops: Topology, unpaired: str) -> SolveReport:
    nothing = math.log(trained.negatives)
    losses = trained.losses[:, trained.chosen].double()
    tail = max(1, len(losses) // 20)
    drift = abs(float(losses[-tail:].mean() - losses[-2 * tail : -tail].mean())) if len(losses) > 1 else 0.0
    notes = [*trained.warnings, *([unpaired] if unpaired else [])]
    if not trained.loss < nothing - LEARNT:
        notes.append(
            f"nothing was learnt: the held-out loss {trained.loss:.3f} is log N = {nothing:.3f}; "
            "try other positives, a longer offset or more iterations"
        )
    elif not trained.learnt:
        notes.append(
            f"the control with shuffled context does as well ({trained.control_loss:.3f} nats): "
            "the map does not follow the context"
        )
    if loops.warning:
        notes.append(loops.warning)
    status = Status.CONVERGED if trained.learnt else Status.MAX_ITERATIONS
    return SolveReport(
        status=Status.CANCELLED if trained.cancelled else status,
        iterations=len(losses),
        residual=drift / nothing,
        model_calls=0,
        history=tuple(losses[:: max(1, len(losses) // 100)].tolist()),
        warnings=tuple(notes),
        message=f"{trained.bits:.2f} bits on held-out frames, control {trained.control_bits:.2f}",
    )


def _unpaired(context: Context, config: CondaConfig) -> str:
    """A sentence on trajectories that are too short for a pair in time; "" if there is none."""
    kind = default_kind(context) if config.positives == "auto" else config.positives
    if kind != "time":
        return ""
    offset = max(config.offset) if isinstance(config.offset, tuple) else config.offset
    last = context.bounds()[1][context.rank]
    paired = context.groups[context.rank + offset <= last].unique()
    short = len(context.groups.unique()) - len(paired)
    return (
        f"too short for a pair at offset={offset}: {short} of {short + len(paired)} trajectories, "
        "whose frames are pushed apart and never together; try a smaller offset"
        if short
        else ""
    )


def _said(value: object) -> object:
    """A label or variable as provenance keeps it."""
    return value.tolist() if isinstance(value, Tensor) else value
