r"""The honest score of a trajectory: frames that nothing has seen, in gaps too long to guess.

Frames next to each other are nearly the same, and a spline evaluated at its own knots returns the data, so
that only held-out stretches say anything. A gap has to span a quarter of a cycle: the time at which the
latents' autocorrelation first falls to zero. Hidden frames are hidden from the scaling, the embedding, the
neighbours and the curve alike.

Methods: `lerp_z`, `slerp_z` and `spline_z` work on latents from the visible frames alone; `lerp_c` and
`spline_c` draw in the embedding and lift. The error is the root of the summed squared error over that of
predicting the mean of the visible latents.

References:
    Contrastive Diffusion Alignment (Sandilya et al., 2025), https://arxiv.org/abs/2510.14190
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.checks import check_count
from workbench.conda.context import Context
from workbench.conda.latents import Latents
from workbench.conda.lifts import NeighbourIndex, lift
from workbench.conda.trajectories import fit_spline
from workbench.curves import slerp
from workbench.errors import SettingError, ShapeError
from workbench.report import Provenance, SolveReport, Status, provenance_of

SOURCES = ("Contrastive Diffusion Alignment (Sandilya et al., 2025)",)

METHODS = ("lerp_z", "slerp_z", "spline_z", "lerp_c", "spline_c")
"""What is compared."""


@dataclass(frozen=True, slots=True)
class GapScore:
    """Errors on hidden frames.

    Attributes:
        errors: Relative error of each method over all gaps.
        per_gap: The same gap by gap, shape (gaps,) each: what a paired test compares.
        predictions: Latents predicted for the hidden frames, in the order of `rows`, shape (hidden, dim).
        rows: The hidden rows, gap by gap.
        gaps: Number of the gap of each hidden row.
        quarter: A quarter of a cycle, in steps.
        span: Steps from one visible frame to the next across the shortest gap.
        report: What was scored.
        provenance: The lift's settings, versions.
    """

    errors: dict[str, float]
    per_gap: dict[str, Tensor]
    predictions: dict[str, Tensor]
    rows: Tensor
    gaps: Tensor
    quarter: float
    span: int
    report: SolveReport
    provenance: Provenance


def hide_gaps(context: Context, *, gap: int = 6, every: int = 41) -> Tensor:
    """A mask of frames to hide: gaps of one length at equal distances inside every run.

    Args:
        context: The frames.
        gap: Frames of a gap.
        every: Frames from one gap's beginning to the next one's; a run begins and ends visible.

    Returns:
        True where hidden, shape (count,).

    Raises:
        SettingError: If no run is long enough.
    """
    check_count("gap", gap)
    check_count("every", every, least=gap + 1)
    first, last = context.bounds()
    place = torch.arange(len(context))
    since = place - first
    inside = since % every >= every - gap
    start = place - (since % every - (every - gap))
    hidden = inside & (start + gap <= last)
    if not bool(hidden.any()):
        raise SettingError(
            f"gaps of {gap} every {every} frames",
            f"runs longer than {every} frames; the longest has {int((last - first).max()) + 1}",
            "a smaller every",
        )
    mask = torch.empty_like(hidden)
    mask[context.order] = hidden
    return mask


def quarter_cycle(latents: Tensor, context: Context) -> float:
    """Steps after which the latents' autocorrelation first reaches zero: a quarter of a cycle.

    Args:
        latents: Latents, shape (count, dim).
        context: The frames; the longest run counts.

    Returns:
        The steps, interpolated; the length of the run if it never does.
    """
    first, last = context.bounds()
    longest = int((last - first).argmax())
    rows = context.order[int(first[longest]) : int(last[longest]) + 1]
    z = latents[rows].double()
    z = z - z.mean(dim=0)
    spectrum = torch.fft.rfft(z, n=2 * len(z), dim=0).abs().square().sum(dim=1)
    correlation = torch.fft.irfft(spectrum, n=2 * len(z))[: len(z)]
    correlation = correlation / torch.arange(len(z), 0, -1)
    below = (correlation <= 0).nonzero()[:, 0]
    if not len(below):
        return float(len(z))
    lag = int(below[0])
    before, after = float(correlation[lag - 1]), float(correlation[lag])
    return lag - 1 + before / (before - after)


def measure_gaps(
    latents: Tensor,
    context: Context,
    hidden: Tensor,
    embed: Callable[[Tensor], Tensor],
    *,
    k: int = 8,
    weights: str = "linear",
    rank: int | None = None,
    ridge: float = 1e-3,
) -> GapScore:
    """Relative error of every method on hidden frames.

    Args:
        latents: All latents, shape (count, dim); hidden ones are read to score and for nothing else.
        context: All frames.
        hidden: True where a frame was hidden from the fit, shape (count,).
        embed: The embedding, fitted without hidden frames: latents (n, dim) to points (n, axes).
        k: Neighbours of the lift.
        weights: Its weights.
        rank: Its most local axes.
        ridge: Its regularisation.

    Returns:
        The score.

    Raises:
        SettingError: If a gap spans less than a quarter cycle, or has no visible frame on a side.
    """
    if hidden.shape != (len(latents),) or len(context) != len(latents):
        raise ShapeError(
            f"{tuple(hidden.shape)} flags and a context of {len(context)}", f"{len(latents)} of both"
        )
    gaps = _gaps(context, hidden)
    quarter = quarter_cycle(latents, context)
    span = min(len(gap) + 1 for gap, _ in gaps)
    if span < quarter - 0.5:
        raise SettingError(
            f"gaps that span {span} steps where a quarter cycle is {quarter:.1f}",
            "gaps of a quarter cycle at least: shorter ones reward standing still",
            f"gap={round(quarter)}",
        )
    visible = (~hidden).nonzero()[:, 0]
    known = latents[visible]
    points = embed(known)
    place = torch.full((len(latents),), -1)
    place[visible] = torch.arange(len(visible))
    index, table = NeighbourIndex(points), Latents(known)
    drawn: dict[str, list[Tensor]] = {name: [] for name in METHODS}
    for gap, run in gaps:
        times, shown = context.times[gap], run[~hidden[run]]
        left, right = _around(context, shown, gap)
        share = (times - context.times[left]) / (context.times[right] - context.times[left])
        share = share.to(latents)[:, None]
        a, b = latents[left], latents[right]
        drawn["lerp_z"].append(torch.lerp(a, b, share))
        drawn["slerp_z"].append(slerp(a, b, nodes=2 + len(gap)).points[1:-1])
        drawn["spline_z"].append(fit_spline(context.times[shown], latents[shown])(times))
        drawn["lerp_c"].append(torch.lerp(points[place[left]], points[place[right]], share.to(points)))
        drawn["spline_c"].append(fit_spline(context.times[shown], points[place[shown]])(times))
    rows = torch.cat([gap for gap, _ in gaps])
    number = torch.cat([torch.full((len(gap),), i) for i, (gap, _) in enumerate(gaps)])
    made = {name: torch.cat(parts) for name, parts in drawn.items()}
    for name in ("lerp_c", "spline_c"):
        made[name] = lift(index, table, made[name], k=k, weights=weights, rank=rank, ridge=ridge).latents.to(
            latents
        )
    truth = latents[rows]
    scale = (truth - known.mean(dim=0)).square().sum(dim=1)
    totals = torch.zeros(len(gaps), dtype=scale.dtype).index_add_(0, number, scale)
    errors, per_gap = {}, {}
    for name, guess in made.items():
        wrong = (guess - truth).square().sum(dim=1)
        parts = torch.zeros_like(totals).index_add_(0, number, wrong)
        errors[name] = float((parts.sum() / totals.sum()).sqrt())
        per_gap[name] = (parts / totals).sqrt()
    return GapScore(
        errors,
        per_gap,
        made,
        rows,
        number,
        quarter,
        span,
        report=SolveReport(
            status=Status.CONVERGED,
            iterations=0,
            residual=None,
            model_calls=0,
            message=f"{len(gaps)} gaps of {len(rows)} hidden frames; {quarter:.1f} steps are a quarter cycle",
        ),
        provenance=provenance_of(
            latents,
            model=f"latents of {latents.shape[1]} dimensions",
            settings={"k": k, "weights": weights, "rank": rank, "ridge": ridge},
            sources=SOURCES,
        ),
    )


def _gaps(context: Context, hidden: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Each gap's rows, and the rows of the run it lies in."""
    first, last = context.bounds()
    found = []
    for start in torch.unique(first).tolist():
        run = context.order[start : int(last[start]) + 1]
        flags = hidden[run].long()
        if not int(flags.sum()):
            continue
        if int(flags[0]) or int(flags[-1]):
            raise SettingError("a gap at the end of a run", "visible frames on both sides of every gap")
        edges = flags.diff()
        for begin, end in zip(
            (edges == 1).nonzero()[:, 0].tolist(), (edges == -1).nonzero()[:, 0].tolist(), strict=True
        ):
            found.append((run[begin + 1 : end + 1], run))
    if not found:
        raise SettingError("no hidden frame", "at least one gap", "hide_gaps(context)")
    return found


def _around(context: Context, shown: Tensor, gap: Tensor) -> tuple[int, int]:
    """The last visible row before a gap and the first one after it."""
    times = context.times[shown]
    left = int((times < context.times[gap[0]]).nonzero()[-1, 0])
    return int(shown[left]), int(shown[left + 1])
