"""Figures of predictions put to the test: measured distances, learning curves, linear theory, tracks.

No distance is drawn without the trivial generators beside it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import torch

from widgets.figures.status import dress
from widgets.theme import SIZES, Theme, theme_of
from workbench.anisotropy.comparison import Comparison, doubtful, undecided
from workbench.anisotropy.linear_theory import LinearDiffusion
from workbench.anisotropy.tracking import Track
from workbench.anisotropy.trials import Trial


def comparison_figure(
    comparison: Comparison,
    trials: Sequence[Trial] = (),
    *,
    theme: str | Theme = "light",
    width: int | None = None,
) -> go.Figure:
    """Predicted eigenvalue against measured distance, with the trivial generators as lines.

    Args:
        comparison: Medians over seeds with their intervals.
        trials: The trials themselves, drawn as points.
        theme: Name or theme.
        width: Pixels.

    Returns:
        Traces "median of seeds", "seeds", "all zeros", "standard normal", "real against real".
    """
    look = theme_of(theme)
    x = comparison.eigenvalues.tolist()
    median = [d.median for d in comparison.distances]
    drawing = go.Figure()
    if trials:
        drawing.add_scatter(
            x=[t.eigenvalue for t in trials],
            y=[float(t.sliced[-1]) for t in trials],
            mode="markers",
            name="seeds",
            marker=dict(color=look.muted, size=SIZES.marker - 2),
            customdata=[[t.seed, t.meaning] for t in trials],
            hovertemplate="λ %{x:.4g}<br>sliced W2 %{y:.3g}<br>seed %{customdata[0]}<br>%{customdata[1]}"
            "<extra></extra>",
        )
        add_anchors(drawing, trials, (min(x), max(x)), look)
    drawing.add_scatter(
        x=x,
        y=median,
        mode="markers",
        name="median of seeds",
        marker=dict(color=look.path, size=SIZES.marker + 2),
        error_y=dict(
            type="data",
            symmetric=False,
            array=[d.high - d.median for d in comparison.distances],
            arrayminus=[d.median - d.low for d in comparison.distances],
        ),
    )
    spread = max(x) > 5 * min(x) > 1e-6 * max(x)  # a null space has no place on a logarithmic axis
    ticks = _log_ticks(min(x), max(x)) if spread else {}
    drawing.update_xaxes(title_text="eigenvalue λ, predicted difficulty", **ticks)
    scale_distances(drawing, "sliced W2 after training, data units")
    worse = sum(not ok for ok in comparison.beats_zero)
    note = f"{worse} of {len(x)} directions worse than zeros" if worse else "all better than zeros"
    seeds = comparison.distances[0].seeds
    doubt = "; ".join(filter(None, (undecided(comparison), doubtful(trials))))
    said = f"positive: as conjectured; {note}; intervals: bootstrap of {seeds} seed{'s' * (seeds > 1)}"
    return dress(
        drawing,
        title=f"Rank correlation {comparison.rank_correlation:+.2f}",
        subtitle=f"{said}; {doubt}" if doubt else said,
        theme=look,
        width=width,
    )


def scale_distances(drawing: go.Figure, title: str) -> None:
    """Give a figure of distances a logarithmic axis, labelled over the range that they cover.

    Args:
        drawing: The figure, with all its traces.
        title: The axis's title.
    """
    traces: Any = drawing.data
    heights = [y for trace in traces for y in trace.y if 0.0 < y < math.inf]
    drawing.update_yaxes(title_text=title, **_log_ticks(min(heights), max(heights)))


def _log_ticks(low: float, high: float) -> dict[str, Any]:
    """Settings of a logarithmic axis whose labels are whole numbers, not digits of a decade."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) < 4 else (1,)
    values = [step * 10.0**decade for decade in decades for step in steps]
    return dict(type="log", tickvals=values, ticktext=[f"{value:g}" for value in values])


def add_anchors(drawing: go.Figure, trials: Sequence[Trial], span: Sequence[Any], look: Theme) -> None:
    """Draw the trivial generators of some trials, each a line at its median over them.

    Args:
        drawing: Where to.
        trials: The trials.
        span: Places along the horizontal axis that the lines join.
        look: Colours.
    """
    anchors = [t.baselines for t in trials]
    for name, values, dash in (
        ("all zeros", [b.zero.mean for b in anchors], "dash"),
        ("standard normal", [b.normal.mean for b in anchors], "dot"),
        ("real against real", [b.real.mean for b in anchors], "dashdot"),
    ):
        height = sorted(values)[len(values) // 2]
        drawing.add_scatter(
            x=list(span),
            y=[height] * len(span),
            mode="lines",
            name=name,
            line=dict(color=look.muted, dash=dash, width=1),
        )


def curves_figure(
    trials: Mapping[str, Trial],
    *,
    title: str = "Learning along directions",
    theme: str | Theme = "light",
    width: int | None = None,
) -> go.Figure:
    """Sliced distance over training steps for several trials, with the trivial generators as lines.

    Args:
        trials: Trials by label.
        title: The title.
        theme: Name or theme.
        width: Pixels.

    Returns:
        One trace a trial under its label, and "all zeros", "standard normal" and "real against real".
    """
    look = theme_of(theme)
    drawing = go.Figure()
    for place, (label, trial) in enumerate(trials.items()):
        drawing.add_scatter(
            x=trial.steps.tolist(),
            y=trial.sliced.tolist(),
            mode="lines+markers",
            name=label,
            line=dict(color=look.series[place % len(look.series)]),
            customdata=torch.stack([trial.along, trial.off_axis, trial.variance], dim=1).tolist(),
            hovertemplate="step %{x}<br>sliced W2 %{y:.3g}<br>along the axis %{customdata[0]:.3g}<br>"
            "off it %{customdata[1]:.3g}<br>variance ratio %{customdata[2]:.3g}<extra></extra>",
        )
    steps = [int(s) for t in trials.values() for s in t.steps]
    add_anchors(drawing, list(trials.values()), (min(steps), max(steps)), look)
    drawing.update_xaxes(title_text="optimiser steps")
    scale_distances(drawing, "sliced W2, data units")
    return dress(
        drawing,
        title=title,
        subtitle="above the dashed line: worse than zeros",
        theme=look,
        width=width,
    )


def linear_figure(
    found: LinearDiffusion, *, theme: str | Theme = "light", width: int | None = None
) -> go.Figure:
    """Exact W2 of a linear diffusion along each eigenvector; no randomness.

    Returns:
        Traces "exact W2" and "all zeros".
    """
    look = theme_of(theme)
    drawing = go.Figure()
    drawing.add_scatter(
        x=found.values.tolist(),
        y=found.distances.tolist(),
        mode="lines+markers",
        name="exact W2",
        line=dict(color=look.path),
    )
    drawing.add_scatter(
        x=[float(found.values[0]), float(found.values[-1])],
        y=[found.zero] * 2,
        mode="lines",
        name="all zeros",
        line=dict(color=look.muted, dash="dash", width=1),
    )
    best, worst = float(found.distances[0]), float(found.distances[-1])
    ticks = _log_ticks(float(found.values[0]), float(found.values[-1]))
    drawing.update_xaxes(title_text="eigenvalue λ of the direction of the data", **ticks)
    drawing.update_yaxes(title_text="exact W2 to the data, data units", rangemode="tozero")
    return dress(
        drawing,
        title=f"Linear theory: W2 {best:.3f} along λ_min, {worst:.3f} along λ_max",
        subtitle=f"{found.steps} gradient steps a noise level; sampler's covariance propagated exactly",
        theme=look,
        width=width,
    )


def track_figure(track: Track, *, theme: str | Theme = "light", width: int | None = None) -> go.Figure:
    """How far the leading and trailing subspaces turn while networks learn, and what happens along the data.

    Returns:
        Traces "largest eigenvalues" and "smallest eigenvalues" (largest principal angle from step 0, in
        degrees) and "along the data" (v·Gv over its mean over directions, on the right axis).
    """
    look = theme_of(theme)
    drawing = go.Figure()
    steps = track.steps.tolist()
    for name, angles, colour in (
        ("largest eigenvalues", track.largest_angles, look.path),
        ("smallest eigenvalues", track.smallest_angles, look.other),
    ):
        drawing.add_scatter(
            x=steps,
            y=angles[:, -1].rad2deg().tolist(),
            mode="lines+markers",
            name=name,
            line=dict(color=colour),
        )
    drawing.add_scatter(
        x=steps,
        y=track.rayleigh.tolist(),
        mode="lines+markers",
        name="along the data",
        yaxis="y2",
        line=dict(color=look.muted, dash="dot"),
    )
    drawing.update_xaxes(title_text="optimiser steps")
    drawing.update_yaxes(title_text="largest principal angle from step 0, degrees", range=[0, 92])
    drawing.update_layout(
        yaxis2=dict(
            title="v·Gv over its mean", overlaying="y", side="right", rangemode="tozero", showgrid=False
        ),
        legend=dict(orientation="h", x=1, xanchor="right", y=1.0, yanchor="bottom"),
    )
    return dress(
        drawing,
        title="Directions while networks learn",
        subtitle=f"subspaces of {track.largest_angles.shape[1]}, {track.networks} networks; 0: as before",
        theme=look,
        width=width,
    )
