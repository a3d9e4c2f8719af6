"""Figures of inversions: two errors that say different things, and what is left of a factor at a depth."""

from collections.abc import Mapping

import plotly.graph_objects as go

from widgets.figures.status import dress
from widgets.theme import SIZES, Theme, theme_of
from workbench.inversions.accuracy import RoundTrip
from workbench.inversions.depth import DepthProbe

_FLOOR = 1e-17  # below rounding; where an error of zero is drawn


def round_trip_figure(
    trips: Mapping[str, RoundTrip], *, theme: str | Theme = "light", width: int | None = None
) -> go.Figure:
    """Each sample's round-trip error against its latent's deviation from the flow, solver by solver.

    Args:
        trips: Name of each solver to its round trip.
        theme: Name or theme.
        width: Pixels.

    Returns:
        One trace a solver, on logarithmic axes.
    """
    look = theme_of(theme)
    drawing = go.Figure()
    for name, trip in trips.items():
        drawing.add_scatter(
            x=trip.deviations.double().clamp_min(_FLOOR).flatten().tolist(),
            y=trip.errors.double().clamp_min(_FLOOR).flatten().tolist(),
            mode="markers",
            name=name,
            marker=dict(size=SIZES.marker, opacity=0.7),
            hovertemplate="off the flow %{x:.2g}, round trip %{y:.2g}<extra>" + name + "</extra>",
        )
    drawing.update_xaxes(
        title_text="deviation of the latent from the flow / its norm",
        type="log",
        exponentformat="power",
        dtick=1,
    )
    drawing.update_yaxes(
        title_text="round-trip error / norm of the frame", type="log", exponentformat="power", dtick=1
    )
    first = next(iter(trips.values()))
    return dress(
        drawing,
        title="An exact return is no true latent",
        subtitle=f"{first.errors.numel()} frames, {len(first.latent.levels) - 1} steps to sigma "
        f"{first.latent.sigma:g}; a dot a frame",
        theme=look,
        width=width,
    )


def depth_figure(probe: DepthProbe, *, theme: str | Theme = "light", width: int | None = None) -> go.Figure:
    """How much of each factor a reader finds in the latents, depth by depth.

    Args:
        probe: The probe.
        theme: Name or theme.
        width: Pixels.

    Returns:
        Two traces a factor: a linear reader and nearest neighbours.
    """
    look = theme_of(theme)
    colours = (look.path, look.straight, look.slerp, look.ink)
    drawing = go.Figure()
    for i, name in enumerate(probe.names):
        for reader, values, dash in (
            ("linear", probe.linear, "solid"),
            ("neighbours", probe.neighbours, "dot"),
        ):
            drawing.add_scatter(
                x=probe.depths.tolist(),
                y=values[:, i].clamp_min(-0.1).tolist(),
                mode="lines+markers",
                name=f"{name}, {reader}",
                line=dict(color=colours[i % len(colours)], dash=dash, width=SIZES.line),
                hovertemplate="sigma %{x:.3g}: R² %{y:.4f}<extra>" + f"{name}, {reader}" + "</extra>",
            )
    drawing.update_xaxes(title_text="depth σ, data units", type="log", dtick=1)
    drawing.update_yaxes(title_text="held-out R²", range=[-0.12, 1.04])
    return dress(
        drawing,
        title="What a latent still knows",
        subtitle="R² on held-out blocks; values below −0.1 are drawn there",
        theme=look,
        width=width,
    )
