"""The embedding as a picture, coloured by what is known of the frames, and the losses of its training.

The embedding is drawn on its two leading principal axes, whose share of its variance every title states.
"""

import numpy as np
import plotly.graph_objects as go
import torch
from plotly.colors import sample_colorscale
from torch import Tensor

from widgets.figures.status import dress, status_line
from widgets.theme import SIZES, Theme, theme_of
from workbench.embeddings import Identity, Pca, fit_pca
from workbench.errors import ShapeError
from workbench.lenses.conda import CondaFit, TraceResult

SHADES = 24
"""Bands of a continuous variable's colours."""
MOST_POINTS = 20_000
"""Frames that a figure draws; more are thinned evenly, and the subtitle says so."""

_SCALE = "Cividis"  # reads alike with and without colour vision
_SPAN = {"light": (0.0, 0.9), "dark": (0.2, 1.0)}  # the part of it that stands out from the paper


def projection_of(points: Tensor) -> Identity | Pca:
    """The plane in which an embedding is drawn: itself if it has two axes, else its leading two.

    Args:
        points: The embedding, shape (count, dim).
    """
    if points.shape[1] == 2:
        return Identity(("c₁", "c₂"))
    if points.shape[1] == 1:
        return Pca(
            torch.zeros(1, dtype=points.dtype),
            torch.tensor([[1.0], [0.0]], dtype=points.dtype),
            (1.0, 0.0),
        )
    return fit_pca(points, axes=2)


def shades_of(values: Tensor, theme: str | Theme = "light") -> tuple[tuple[str, ...], Tensor]:
    """Colours for a variable: one a class for whole numbers, else bands over its range.

    Args:
        values: One number a frame, shape (count,); those that are not finite take the lowest colour.
        theme: Name or theme.

    Returns:
        Colours as "#rrggbb", and each frame's row among them, shape (count,).
    """
    look = theme_of(theme)
    if not values.is_floating_point():
        classes, rows = torch.unique(values, return_inverse=True)
        if len(classes) <= len(look.series):
            return look.series[: len(classes)], rows
        values = rows.double()
    values = torch.nan_to_num(values.double(), nan=float("-inf"))
    finite = values[torch.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    share = ((values - low) / ((high - low) or 1.0)).clamp(0.0, 1.0)
    rows = (share * SHADES).long().clamp(max=SHADES - 1)
    first, last = _SPAN[look.name]
    places = [first + (last - first) * (k + 0.5) / SHADES for k in range(SHADES)]
    return tuple(_hex(str(colour)) for colour in sample_colorscale(_SCALE, places)), rows


def colours_of(fit: CondaFit) -> dict[str, Tensor]:
    """What frames can be coloured by, by name: time, and of variables, labels, trajectories what differs.

    Args:
        fit: The embedding.
    """
    context = fit.context
    found: dict[str, Tensor] = {"time": context.times}
    if context.variables is not None:
        columns = context.variables.unbind(dim=1)
        found |= {f"variable {k + 1}" if len(columns) > 1 else "variable": c for k, c in enumerate(columns)}
    if context.labels is not None:
        found["label"] = context.labels
    if int(context.groups.max()) > 0:
        found["trajectory"] = context.groups
    return {name: v for name, v in found.items() if name == "time" or bool((v != v[0]).any())}


def figure(
    fit: CondaFit,
    *,
    colour: str | None = None,
    values: Tensor | None = None,
    path: TraceResult | None = None,
    theme: str | Theme = "light",
    width: int | None = None,
) -> go.Figure:
    """Frames in the embedding, coloured by a variable, with a curve through them.

    Args:
        fit: The embedding.
        colour: Name of a variable of `colours_of`, or of `values`; the last of the fit's own if None.
        values: Another variable, shape (count,).
        path: A curve drawn on top, its unsupported points as crosses.
        theme: Name or theme.
        width: Pixels.

    Returns:
        Traces "frames", and with a curve "curve" and "off support".

    Raises:
        ShapeError: If the values are not one a frame.
    """
    look = theme_of(theme)
    known = colours_of(fit)
    name = colour or (list(known)[-1] if values is None else "variable")
    shown = known[name] if values is None else values
    if shown.shape != (len(fit.points),):
        raise ShapeError(f"values of shape {tuple(shown.shape)}", f"({len(fit.points)},), one a frame")
    view = projection_of(fit.points)
    stride = -(-len(fit.points) // MOST_POINTS)
    place = view.encode(fit.points[::stride]).double().numpy()
    drawing = go.Figure(
        go.Scattergl(
            x=place[:, 0],
            y=place[:, 1],
            mode="markers",
            name="frames",
            showlegend=False,
            marker=_markers(shown[::stride], name, look),
            customdata=np.stack([np.arange(0, len(fit.points), stride), shown[::stride].numpy()], axis=1),
            hovertemplate="frame %{customdata[0]}, " + name + " %{customdata[1]:.4g}<extra></extra>",
        )
    )
    if path is not None:
        _draw_curve(drawing, view.encode(path.points), path, look)
    drawing.update_xaxes(title_text=view.axes[0])
    drawing.update_yaxes(title_text=view.axes[1], scaleanchor="x", scaleratio=1.0)
    drawing.update_layout(legend=dict(orientation="h", y=1.0, yanchor="bottom", x=1.0, xanchor="right"))
    thinned = "" if stride == 1 else f", every {stride}th frame"
    gap = fit.control_gap
    return dress(
        drawing,
        title=f"Frames in the embedding, by {name}",
        subtitle=f"{len(fit.points)} frames, {fit.points.shape[1]} dimensions, {view.name}{thinned}; "
        f"{fit.bits:.2f} bits, control {gap:.2f} nats worse",
        status=_trust(fit),
        theme=look,
        width=width,
        height=SIZES.map_height,
        trusted=fit.report.converged and not fit.topology.folded,
    )


def loss_figure(fit: CondaFit, *, theme: str | Theme = "light", width: int | None = None) -> go.Figure:
    """Losses of every copy in training, of the control with shuffled context, and of knowing nothing.

    Args:
        fit: The embedding.
        theme: Name or theme.
        width: Pixels.

    Returns:
        Traces "chosen copy", "other copies", "shuffled control", "held out" and "knowing nothing".
    """
    look = theme_of(theme)
    training = fit.training
    losses, chosen = training.losses.double(), training.chosen
    steps = np.arange(len(losses))
    stride = max(1, len(losses) // 400)
    drawing = go.Figure()
    others = [k for k in range(losses.shape[1]) if k != chosen]
    x, y = [], []
    for k in others:
        x += [*steps[::stride].tolist(), None]
        y += [*_smooth(losses[:, k])[::stride].tolist(), None]
    rows = [
        ("other copies", x, y, look.grid if look.name == "light" else look.muted, "solid", 1.2),
        ("shuffled control", steps[::stride], _smooth(training.control_losses.double())[::stride],
         look.straight, "dash", SIZES.line),
        ("chosen copy", steps[::stride], _smooth(losses[:, chosen])[::stride],
         look.path, "solid", SIZES.line),
        ("knowing nothing", [0, len(losses)], [np.log(training.negatives)] * 2, look.ink, "dot", 1.2),
    ]  # fmt: skip
    for name, xs, ys, colour, dash, thick in rows:
        drawing.add_scatter(
            x=xs, y=ys, mode="lines", name=name, line=dict(color=colour, dash=dash, width=thick),
            hovertemplate="step %{x}, %{y:.3f} nats<extra>" + name + "</extra>",
        )  # fmt: skip
    drawing.add_scatter(
        x=[len(losses), len(losses)],
        y=[training.loss, training.control_loss],
        mode="markers",
        name="held out",
        marker=dict(color=[look.path, look.straight], size=SIZES.marker + 2, symbol="diamond"),
        hovertemplate="held out, %{y:.3f} nats<extra></extra>",
    )
    drawing.update_xaxes(title_text="optimiser step")
    drawing.update_yaxes(title_text="InfoNCE / nats")
    return dress(
        drawing,
        title="Loss, beside a control with shuffled context",
        subtitle=f"held out: {training.loss:.3f} nats, {training.bits:.2f} bits; control "
        f"{training.control_loss:.3f} nats, {training.control_bits:.2f} bits",
        theme=look,
        width=width,
        height=SIZES.height - 40,
    )


def _draw_curve(drawing: go.Figure, place: Tensor, path: TraceResult, look: Theme) -> None:
    off = path.lifted.off_support
    points, off = place.double().numpy(), off.numpy()
    drawing.add_scatter(
        x=points[:, 0],
        y=points[:, 1],
        mode="lines",
        name="curve",
        line=dict(color=look.path, width=SIZES.line + 0.6),
        hovertemplate="point %{pointNumber} of the curve<extra></extra>",
    )
    drawing.add_scatter(
        x=points[off, 0],
        y=points[off, 1],
        mode="markers",
        name="off support",
        marker=dict(color=look.warning, size=SIZES.marker + 2, symbol="x"),
        hoverinfo="skip",
        showlegend=bool(off.any()),
    )


def _markers(values: Tensor, name: str, look: Theme) -> dict:
    colours, rows = shades_of(values, look)
    if not values.is_floating_point() and len(colours) <= len(look.series):
        return dict(size=4, opacity=0.75, color=[colours[k] for k in rows.tolist()])
    bar = dict(title=dict(text=name, side="right"), thickness=12, outlinewidth=0)
    return dict(size=4, opacity=0.75, color=values.double().numpy(), colorscale=list(colours), colorbar=bar)


def _smooth(losses: Tensor, width: int = 9) -> np.ndarray:
    """A running mean that leaves the ends and unknown numbers alone."""
    series = losses.numpy()
    if len(series) < 3 * width:
        return series
    kernel = np.ones(width) / width
    inner = np.convolve(series, kernel, mode="valid")
    return np.concatenate([series[: width // 2], inner, series[len(series) - width // 2 :]])


def _trust(fit: CondaFit) -> str:
    topology = fit.topology
    loops = (
        f"loop {topology.loops[0] if topology.loops else 0.0:.2f} of the diameter, in the latents "
        f"{topology.latent_loops[0] if topology.latent_loops else 0.0:.2f}"
        if topology.folded is not None
        else f"mixing {topology.mixing:.2f}"
    )
    line = status_line(fit.report, fit.provenance)
    for words in (" · 0 model calls", " · no guidance"):  # no generative model was asked
        line = line.replace(words, "")
    return f"{line} · {loops}"


def _hex(colour: str) -> str:
    """ "rgb(1, 2, 3)" as "#010203"."""
    parts = colour.removeprefix("rgb(").removesuffix(")").split(",")
    return "#" + "".join(f"{round(float(part)):02x}" for part in parts)
