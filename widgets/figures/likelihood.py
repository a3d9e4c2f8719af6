"""Likelihood along a path by the probability flow, in decibels per dimension."""

from collections.abc import Mapping

import plotly.graph_objects as go
from torch import Tensor

from widgets.figures.status import dress, sentence, spaced
from widgets.theme import SIZES, Theme, theme_of
from workbench.flows import LikelihoodResult
from workbench.report import DB_PER_NAT


def likelihood_figure(
    results: Mapping[str, LikelihoodResult],
    arcs: Mapping[str, Tensor] | None = None,
    *,
    theme: str | Theme = "light",
) -> go.Figure:
    """Log likelihoods of the nodes of several paths with their error bars.

    Args:
        results: Label to densities of shape (nodes,).
        arcs: Label to share of the arc length at the nodes, shape (nodes,), 0 to 1; equal steps if None.
        theme: Name or theme.

    Returns:
        One trace a path; one sentence where there is no likelihood.
    """
    look = theme_of(theme)
    if not results:
        return sentence("An energy without noise levels has no flow, and so no likelihood.", theme=look)
    drawing = go.Figure()
    for k, (label, result) in enumerate(results.items()):
        count = result.nats.shape[-1]
        shares = arcs[label] if arcs else [i / (count - 1) for i in range(count)]
        drawing.add_scatter(
            x=[float(share) for share in shares],
            y=result.db_per_dim.detach().cpu().double().numpy(),
            error_y=_bars(result),
            mode="lines+markers",
            name=label,
            line=dict(
                color=look.series[k % len(look.series)],
                width=SIZES.line,
                dash=("solid", "dash", "dot", "dashdot")[k % 4],
            ),
            marker=dict(size=SIZES.marker - 2),
        )
    drawing.update_xaxes(title_text="share of the arc length", range=[-0.02, 1.02])
    drawing.update_yaxes(title_text="log₁₀ p × 10 / dim, dB per dimension")
    drawing.update_layout(legend=dict(x=1.02, y=1))
    first = next(iter(results.values()))
    trusted = all(result.report.converged for result in results.values())
    calls = sum(result.report.model_calls for result in results.values())
    return dress(
        drawing,
        title="Likelihood along the paths",
        subtitle=f"{first.provenance.model} · σ = {first.sigma:.3g} · {first.solver} · {first.divergence}",
        status=f"{'●' if trusted else '▲'} bars: steps and probes together · {spaced(calls)} model calls",
        theme=look,
        trusted=trusted,
        width=SIZES.width + 160,
    )


def _bars(result: LikelihoodResult) -> dict | None:
    """Error bars in decibels; none where the error is unknown."""
    if result.error is None:
        return None
    bars = (DB_PER_NAT / result.dim * result.error).detach().cpu().double().numpy()
    return dict(type="data", array=bars, thickness=1, width=2)
