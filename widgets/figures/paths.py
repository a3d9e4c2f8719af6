"""Figures of the path lens: profile, map and comparison of regimes.

Every figure names its projection, carries axis titles with units, and ends with a status line. Curves are
drawn through their nodes as they are, without smoothing.
"""

from collections.abc import Mapping

import plotly.graph_objects as go
from torch import Tensor

from widgets.figures.images import add_picture
from widgets.figures.status import dress, length_unit, spaced, status_line
from widgets.theme import SIZES, Theme, theme_of
from workbench.embeddings import Embedding, Identity, Slice, measure_distortion
from workbench.errors import SettingError
from workbench.fields import Field, frame_window
from workbench.lenses.paths import PathResult
from workbench.report import with_error

DECIBELS = 4.342944819032518
"""10 log10(e): decibels in a nat."""


def figure(
    result: PathResult, *, projection: Embedding | None = None, theme: str | Theme = "light", **options
) -> go.Figure:
    """The figure of a path: its map. See `map_figure` for the arguments."""
    return map_figure(result, projection=projection, theme=theme, **options)


def profile_figure(
    result: PathResult,
    *,
    scale: str | None = None,
    theme: str | Theme = "light",
    exact: float | None = None,
    width: int | None = None,
    preview: str = "",
) -> go.Figure:
    """Energy, or likelihood, along the arc of a path, with every barrier marked.

    Args:
        result: The path with its profile.
        scale: "energy" for V - V(start) in the energy's unit, "decibels" for 10 log10 of the density relative
            to the start, per dimension; the latter by default where energies are nats in more than eight
            dimensions.
        theme: Name or theme.
        exact: The true barrier where it is known, drawn as a line; in the energy's unit.
        width: Pixels.
        preview: The regime that was asked for, where the path is a preview of it; empty for an answer.

    Returns:
        Traces "profile", "nodes", "highest barrier", "barriers" and, with `exact`, "exact barrier".

    Raises:
        SettingError: If scale is unknown, or decibels are asked of an energy that is no log density.
    """
    look = theme_of(theme)
    dim = result.curve.points.shape[-1]
    if scale is None:
        scale = "decibels" if result.energy_unit == "nats" and dim > 8 else "energy"
    factor, title = _scale(scale, result.energy_unit, dim)
    drawing = go.Figure()
    arc, energy = _listed(result.profile.arc), _listed(result.profile.energy, factor)
    drawing.add_scatter(
        x=arc,
        y=energy,
        mode="lines",
        name="profile",
        line=dict(color=look.path, width=SIZES.line),
        hovertemplate="arc %{x:.4g}<br>%{y:.5g}<extra></extra>",
    )
    if result.energy is not None:
        drawing.add_scatter(
            x=_listed(result.curve.t, arc[-1]),
            y=_listed(result.energy, factor),
            mode="markers",
            name="nodes",
            marker=dict(color=look.path, size=SIZES.marker - 2),
            customdata=list(range(len(result.curve.t))),
            hovertemplate="node %{customdata}<br>arc %{x:.4g}<br>%{y:.5g}<extra></extra>",
        )
    _add_barriers(drawing, result, factor, look)
    if exact is not None:
        drawing.add_scatter(
            x=[arc[0], arc[-1]],
            y=[factor * exact] * 2,
            mode="lines",
            name="exact barrier",
            line=dict(color=look.exact, width=1, dash="dot"),
            hovertemplate="exact barrier %{y:.6g}<extra></extra>",
        )
    along = f"arc length s from the start, {length_unit(result.provenance)}"
    drawing.update_xaxes(title_text=along, range=[arc[0], arc[-1]])
    drawing.update_yaxes(title_text=title)
    drawing.update_layout(legend=dict(orientation="h", x=1, xanchor="right", y=1.0, yanchor="bottom"))
    return dress(
        drawing,
        title=_profile_title(result, scale, factor),
        subtitle=describe(result, preview),
        status=status_line(result.report, result.provenance),
        trusted=result.report.converged,
        theme=look,
        width=width,
    )


def _profile_title(result: PathResult, scale: str, factor: float) -> str:
    """The number that the profile is drawn for, in the scale's own unit first."""
    if scale == "energy":
        return f"Barrier {result.barrier}"
    error = result.barrier.error
    lowest = with_error(factor * result.barrier.value, None if error is None else abs(factor) * error)
    return f"Lowest likelihood {lowest.replace('-', '−')} dB per dimension"


def _scale(scale: str, unit: str, dim: int) -> tuple[float, str]:
    """Factor on energies and title of their axis."""
    if scale == "energy":
        symbol = "−log p + log p(start)" if unit == "nats" else "V − V(start)"
        return 1.0, f"{symbol}, {unit}" if unit else symbol
    if scale == "decibels":
        if unit != "nats":
            raise SettingError(
                f"decibels of an energy in {unit or 'its own unit'}", "an energy in nats", "'energy'"
            )
        return -DECIBELS / dim, "likelihood against the start, dB per dimension"
    raise SettingError(f"scale {scale!r}", "'energy' or 'decibels'", "leaving it out")


def _add_barriers(drawing: go.Figure, result: PathResult, factor: float, look: Theme) -> None:
    """Mark every (minimum, maximum) pair: a vertical stroke of the barrier's height under each maximum."""
    ranked = sorted(result.barriers, key=lambda barrier: -float(barrier.maximum_energy))
    for name, chosen in (("highest barrier", ranked[:1]), ("barriers", ranked[1:])):
        x, y, notes = [], [], []
        for barrier in chosen:
            top, foot = factor * float(barrier.maximum_energy), factor * float(barrier.minimum_energy)
            x += [float(barrier.maximum_arc), float(barrier.maximum_arc), None]
            y += [top, foot, None]
            notes += [_barrier_note(barrier, result.energy_unit), "foot of the barrier", ""]
        highest = name == "highest barrier"
        drawing.add_scatter(
            x=x,
            y=y,
            mode="lines+markers",
            name=name,
            showlegend=bool(chosen),
            line=dict(color=look.ink if highest else look.muted, width=1.2, dash="dot"),
            marker=dict(
                symbol=["x", "line-ew-open", "circle"] * len(chosen),
                size=SIZES.marker + (2 if highest else 0),
                color=look.ink if highest else look.muted,
            ),
            customdata=notes,
            hovertemplate="%{customdata}<extra></extra>",
        )


def _barrier_note(barrier, unit: str) -> str:
    """What a pair of minimum and maximum says when pointed at."""
    index = "index unknown" if barrier.hessian_index is None else f"Hessian index {barrier.hessian_index}"
    polished = "on the path" if barrier.polished is None else f"{barrier.polished:.8g} at the saddle"
    return f"barrier {float(barrier.height):.6g} {unit}<br>{index}, {polished}"


def describe(result: PathResult, preview: str = "") -> str:
    """One line on what was computed: regime, model, noise level, nodes and the regime's own settings.

    A preview may be found in a cheaper way: it is named after the regime that was asked for.
    """
    settings = result.provenance.settings
    kind = f"{preview} path, preview," if preview else f"{result.regime} path"
    parts = [f"{kind} in {result.provenance.model}"]
    if result.regime in ("mep", "principal") and settings.get("gamma") is not None:
        parts.append(f"γ = {settings['gamma']:g}")
    if settings.get("temperature"):
        parts.append(f"T = {settings['temperature']:g}")
    parts.append(f"{result.curve.points.shape[-2]} nodes")
    return " · ".join(parts)


def map_figure(
    result: PathResult,
    *,
    projection: Embedding | None = None,
    field: Field | None = None,
    exact: Tensor | None = None,
    theme: str | Theme = "light",
    width: int | None = None,
    height: int | None = None,
) -> go.Figure:
    """The path in a plane, over a field if there is one.

    Args:
        result: The path.
        projection: How points become coordinates; the plane itself in two dimensions, else the slice through
            the ends and the node farthest from their line.
        field: A field measured on the same plane, drawn as a picture below the curves.
        exact: Nodes of a reference path, shape (count, dim).
        theme: Name or theme.
        width: Pixels.
        height: Pixels.

    Returns:
        Traces, where present: "straight line", "slerp", "exact path", "walkers", "path", "saddles", "start",
        "end".
    """
    look = theme_of(theme)
    projection = projection or projection_of(result)
    points = result.curve.points
    drawing = go.Figure()
    window = frame_window(projection.encode(points), aspect=1.2) if field is None else field.window
    if field is not None:
        add_picture(drawing, field, window, look)
    for name, curve, style in (
        ("straight line", result.lerp, dict(color=look.straight, dash="dash", width=1.6)),
        ("slerp", result.slerp, dict(color=look.slerp, dash="dot", width=1.8)),
    ):
        if curve is not None:
            _add_curve(drawing, projection, curve.points, name, style)
    if exact is not None:
        _add_curve(drawing, projection, exact, "exact path", dict(color=look.exact, width=1.6))
    if result.walkers is not None:
        flat = result.walkers.reshape(-1, points.shape[-1])
        _add_marks(drawing, projection.encode(flat), "walkers", color=look.walkers, size=4, opacity=0.45)
    coords = projection.encode(points)
    drawing.add_scatter(
        x=_listed(coords[:, 0]),
        y=_listed(coords[:, 1]),
        mode="lines+markers",
        name="path",
        line=dict(color=look.path, width=SIZES.line, shape="linear"),
        marker=dict(color=look.path, size=SIZES.marker - 3),
        customdata=list(range(len(points))),
        hovertemplate="node %{customdata}<br>(%{x:.4g}, %{y:.4g})<extra></extra>",
    )
    saddles = [barrier for barrier in result.barriers if barrier.saddle is not None]
    if saddles:
        notes = [_barrier_note(barrier, result.energy_unit) for barrier in saddles]
        places = projection.encode(_stack([barrier.saddle for barrier in saddles], points))
        _add_marks(
            drawing, places, "saddles", color=look.saddle, size=SIZES.marker + 2, symbol="x", notes=notes
        )
    for name, row, colour, symbol in (("start", 0, look.start, "circle"), ("end", -1, look.end, "square")):
        _add_marks(drawing, coords[row][None], name, color=colour, size=SIZES.marker + 4, symbol=symbol)
    drawing.update_xaxes(
        title_text=projection.axes[0], range=list(window.x), constrain="domain", showgrid=field is None
    )
    drawing.update_yaxes(
        title_text=projection.axes[1], range=list(window.y), constrain="domain", showgrid=field is None
    )
    drawing.update_yaxes(scaleanchor="x", scaleratio=1)
    drawing.update_layout(legend=dict(orientation="v", x=1.02, y=1))
    ground = "" if field is None else f" over {field.title}" + (f" ({field.unit})" if field.unit else "")
    return dress(
        drawing,
        title=describe(result),
        subtitle=f"projection: {projection_line(projection, points)}{ground}",
        status=status_line(result.report, result.provenance),
        trusted=result.report.converged,
        theme=look,
        width=width,
        height=height or SIZES.map_height,
    )


def projection_line(projection: Embedding, points: Tensor) -> str:
    """The projection's name and, where it loses something, how much of the distances it shows."""
    if isinstance(projection, Identity):
        return projection.name
    return f"{projection.name}; {measure_distortion(projection, points)}"


def projection_of(result: PathResult) -> Embedding:
    """The projection a map takes if none is given."""
    points = result.curve.points
    if points.shape[-1] == 2:
        return Identity()
    start, end = points[0], points[-1]
    along = (end - start) / (end - start).norm()
    off = points - start
    off = off - (off @ along)[:, None] * along
    farthest = points[off.norm(dim=-1).argmax()]
    return Slice.through(
        start, end, farthest, name="slice through start, end and the node farthest from their line"
    )


def regimes_figure(results: Mapping[str, PathResult], *, theme: str | Theme = "light") -> go.Figure:
    """Profiles of several paths between the same ends on one axis of relative arc length.

    Args:
        results: Label to path; all with the same unit of energy.
        theme: Name or theme.

    Returns:
        One trace a path, named by its label with its barrier.

    Raises:
        SettingError: If the mapping is empty or the units differ.
    """
    units = {result.energy_unit for result in results.values()}
    if len(units) != 1:
        raise SettingError(
            f"paths with units {sorted(units)}", "one path at least, and one unit", "one figure a unit"
        )
    look = theme_of(theme)
    first = next(iter(results.values()))
    dim = first.curve.points.shape[-1]
    factor, title = _scale("decibels" if units == {"nats"} and dim > 8 else "energy", first.energy_unit, dim)
    drawing = go.Figure()
    for k, (label, result) in enumerate(results.items()):
        arc = result.profile.arc
        drawing.add_scatter(
            x=_listed(arc, 1.0 / float(arc[-1])),
            y=_listed(result.profile.energy, factor),
            mode="lines",
            name=f"{label}: {result.barrier}",
            line=dict(
                color=look.series[k % len(look.series)],
                width=SIZES.line,
                dash=("solid", "dash", "dot", "dashdot")[k % 4],
            ),
        )
    drawing.update_xaxes(title_text="share of the arc length", range=[0, 1])
    drawing.update_yaxes(title_text=title)
    drawing.update_layout(legend=dict(x=1.02, y=1))
    calls = sum(result.report.model_calls for result in results.values())
    trusted = all(result.report.converged for result in results.values())
    states = "; ".join(f"{label} {result.report.status}" for label, result in results.items())
    return dress(
        drawing,
        title="Profiles of the regimes",
        subtitle=f"{first.provenance.model} · {first.curve.points.shape[-2]} nodes · barriers in the legend",
        status=f"{'●' if trusted else '▲'} {states} · {spaced(calls)} model calls in all",
        trusted=trusted,
        theme=look,
        width=SIZES.width + 160,
    )


def _add_curve(drawing: go.Figure, projection: Embedding, points: Tensor, name: str, line: dict) -> None:
    coords = projection.encode(points)
    drawing.add_scatter(
        x=_listed(coords[:, 0]), y=_listed(coords[:, 1]), mode="lines", name=name, line=line, hoverinfo="name"
    )


def _add_marks(
    drawing: go.Figure, coords: Tensor, name: str, *, color, size, opacity=1.0, symbol="circle", notes=None
):
    drawing.add_scatter(
        x=_listed(coords[:, 0]),
        y=_listed(coords[:, 1]),
        mode="markers",
        name=name,
        opacity=opacity,
        marker=dict(color=color, size=size, symbol=symbol, line=dict(width=0)),
        customdata=notes,
        hovertemplate="%{customdata}<extra></extra>"
        if notes
        else f"{name} (%{{x:.4g}}, %{{y:.4g}})<extra></extra>",
    )


def _listed(values: Tensor, factor: float = 1.0):
    """One axis of numbers as plotly takes it in binary."""
    return (values.detach().cpu().double() * factor).numpy()


def _stack(points, like: Tensor) -> Tensor:
    return like.new_tensor([[float(v) for v in point] for point in points])
