"""Contrastive trajectories at the bench: the way that a declared context draws between two points.

Where samples have a context - a class for pictures, the component and the arc parameter in a bent mixture -
an embedding is learnt in which samples of like context are close. With a class the trajectory is the straight
line between the two embedded ends; with an arc parameter it is the curve of the mean embedding at each value
between the ends' own. It is lifted to the samples' neighbourhood, its ends too: how far they land from the
points that were asked for is one of its facts.

References:
    Contrastive Diffusion Alignment: Learning Structured Latents for Controllable Generation (Sandilya et al.,
    2025), https://arxiv.org/abs/2510.14190
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from workbench.bench.answers import Inquiry, LensAnswer, Line, together
from workbench.bench.cache import content_key
from workbench.conda.trajectories import conditional_mean
from workbench.data import load_images
from workbench.errors import SettingError
from workbench.lenses.conda import CondaFit, TraceResult, fit_conda, trace
from workbench.report import Estimate, Status
from workbench.subjects import Subject
from workbench.worlds import GaussianMixture
from workbench.worlds.reference import deviation

SAMPLES = 1500
"""Samples of a world whose context is learnt."""
FIT: dict[str, Any] = {"iterations": 500, "rate": 3e-3, "batch": 256, "restarts": 1}
"""Settings of the fit."""
NEIGHBOURS = {"variables": 32, "labels": 8}
"""Samples that a lifted point is made of, by kind of context."""
AXES = {"variables": 2, "labels": 3}
"""Dimensions of the embedding, by kind of context."""
STATIONS = 15
"""Values of the arc parameter at which the mean embedding is taken."""


@dataclass(frozen=True, slots=True)
class Declared:
    """Samples with what is known about each.

    Attributes:
        samples: Shape (count, dim).
        context: Labels (count,), variables (count, k), or both.
        words: What the context is.
        kind: "variables" or "labels": what leads the trajectory.
        path: Where variables are arc parameters, the path that they run along, shape (nodes, dim).
        digest: What tells it from another one; made once, since reading all samples takes a while.
    """

    samples: Tensor
    context: Tensor | tuple[Tensor, Tensor]
    words: str
    kind: str
    path: Tensor | None = None
    digest: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", content_key(self.samples, self.context))


def declared_context(subject: Subject, seed: int) -> Declared | None:
    """The context that a subject declares; None where there is none.

    Args:
        subject: The subject.
        seed: Seed of a world's samples.

    Returns:
        For the shipped pictures their classes; for a mixture with a known path the component and the arc
        parameter along the path.
    """
    model = subject.model
    if isinstance(model, GaussianMixture) and model.known is not None and len(model.means) > 1:
        samples = model.sample(SAMPLES, generator=torch.Generator().manual_seed(seed))
        path = model.reference_path()[::8]
        component = model.responsibilities(samples, 0.0).argmax(-1)
        arc = _arc_of(samples, path)[:, None]
        return Declared(samples, (arc, component), "component and arc parameter", "variables", path)
    if subject.choices is None or not subject.frame.classes:
        return None
    try:
        images = load_images(subject.shown.name, split="sample")
    except SettingError:
        return None
    if images.labels is None or len(images.labels) != len(subject.choices):
        return None
    return Declared(subject.choices, images.labels.long(), "class label", "labels")


def ask_conda(inquiry: Inquiry) -> LensAnswer:
    """A trajectory where a context is declared, else one sentence."""
    subject, state = inquiry.place.subject, inquiry.state
    declared = inquiry.once(
        "declared context", state.seed, make=lambda: declared_context(subject, state.seed)
    )
    if declared is None:
        return LensAnswer(
            "conda",
            inquiry.speed,
            sentence=f"No context is declared for {subject.frame}, so there is no trajectory to follow.",
        )
    parts = (declared.digest, state.seed, FIT)
    fit = inquiry.at_hand("conda fit", parts)
    if fit is None and not inquiry.full:
        return LensAnswer(
            "conda", inquiry.speed, sentence="The embedding is learnt on release; then it follows."
        )
    fit = inquiry.once("conda fit", parts, make=lambda: _fit(inquiry, declared))
    return _answer(inquiry, declared, fit)


def _fit(inquiry: Inquiry, declared: Declared) -> CondaFit:
    with torch.enable_grad():  # also on a worker that records no gradients
        return fit_conda(
            declared.samples,
            declared.context,
            generator=torch.Generator().manual_seed(inquiry.state.seed),
            topology=False,
            progress=inquiry.progress,
            cancel=inquiry.cancel,
            dim=AXES[declared.kind],
            **FIT,
        )


def _trace(inquiry: Inquiry, declared: Declared, fit: CondaFit, ends: Tensor) -> TraceResult:
    """The curve of the context between the embedded ends."""
    nodes, k = max(inquiry.state.nodes, 3), min(NEIGHBOURS[declared.kind], len(declared.samples) - 1)
    embedded = fit.embed(ends.to(declared.samples))
    if declared.kind == "labels" or declared.path is None or fit.context.variables is None:
        return trace(fit, embedded, kind="line", steps=nodes, k=k)
    arc = fit.context.variables
    first, last = _arc_of(ends.to(declared.path), declared.path).tolist()
    low, high = float(arc.min()), float(arc.max())
    stations = torch.linspace(first, last, STATIONS + 2, dtype=torch.float64)[1:-1].clamp(low, high)
    means = [conditional_mean(fit.points, fit.context, value[None]) for value in stations]
    anchors = torch.cat([embedded[:1], torch.stack(means).to(embedded), embedded[1:]])
    times = torch.linspace(0.0, 1.0, len(anchors), dtype=torch.float64)
    return trace(fit, anchors, kind="spline", times=times, steps=nodes, k=k)


def _arc_of(points: Tensor, path: Tensor) -> Tensor:
    """Share of a path at the place nearest to each point, shape (count,)."""
    return torch.cdist(points, path).argmin(-1).to(path.dtype) / (len(path) - 1)


def _answer(inquiry: Inquiry, declared: Declared, fit: CondaFit) -> LensAnswer:
    ends = torch.stack(inquiry.ends())
    found = _trace(inquiry, declared, fit, ends)
    lifted = found.latents.to(ends)
    gaps = (lifted[[0, -1]] - ends).norm(dim=-1)
    facts = [
        ("goodness of fit", Estimate(fit.bits, unit="bits", how="held-out samples")),
        ("above the shuffled control", Estimate(fit.control_gap, unit="nats", how="held-out samples")),
        ("lifted start off the start", Estimate(float(gaps[0]), unit="data units")),
        ("lifted end off the end", Estimate(float(gaps[1]), unit="data units")),
    ]
    world = inquiry.place.subject.world
    if world is not None:
        route = world.reference_path().to(lifted)
        facts.append(
            ("off the known path", Estimate(float(deviation(lifted, route).max()), unit="data units"))
        )
    report = together([fit.report, found.report], message=found.report.message)
    apart = float((ends[1] - ends[0]).norm())
    if float(gaps.max()) > apart:  # the numbers are those of a curve between other points
        off = f"the lifted curve is {float(gaps.max()):.3g} off an end"
        missed = f"{off}, more than the two ends are apart ({apart:.3g})"
        report = replace(report, status=Status.MAX_ITERATIONS, warnings=(*report.warnings, missed))
    line = Line("trajectory", "trajectory", lifted, 0.0, report)
    return LensAnswer(
        "conda",
        inquiry.speed,
        0.0,
        (line,),
        facts=tuple(facts),
        notes=(f"context: {declared.words}; {len(declared.samples)} samples",),
        report=report,
        provenance=fit.provenance,
        methods=("ConDA",),
    )
