"""Figures of the anisotropy lens: spectra, direction galleries, Rayleigh maps.

Eigenvalues ascend from left to right: `lambda_min`, predicted best, is on the left. What lies in a null
space or an unresolved group is drawn faintly and named; a single picture from there says so under it.
"""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
import torch

from widgets.figures.images import is_picture, pixels_of, png_uri
from widgets.figures.status import dress, sentence, status_line
from widgets.theme import SIZES, Theme, colour_table, theme_of
from workbench.anisotropy.bases import BASES, rayleigh_map
from workbench.anisotropy.geometry import Geometry
from workbench.anisotropy.neighbours import NeighbourDirections
from workbench.lenses.anisotropy import DirectionsResult

CONJECTURE = "small eigenvalue (left): predicted better generated. A conjecture, not a law"
WORDS = {
    "simple": "resolved",
    "block": "degenerate block",
    "unresolved": "unresolved",
    "null": "null space",
}


def figure(
    result: DirectionsResult | Mapping[str, DirectionsResult], *, theme: str | Theme = "light", **options
) -> go.Figure:
    """The figure of directions: their spectrum. See `spectrum_figure` for the arguments."""
    return spectrum_figure(result, theme=theme, **options)


def spectrum_figure(
    result: DirectionsResult | Mapping[str, DirectionsResult],
    *,
    theme: str | Theme = "light",
    width: int | None = None,
) -> go.Figure:
    """Eigenvalues against ascending index, with one-sigma errors and what each group is worth.

    Args:
        result: One result, or several by label to be compared.
        theme: Name or theme.
        width: Pixels.

    Returns:
        For each label a line "LABEL", markers "LABEL, resolved", "LABEL, degenerate block" and so on for
        the kinds that occur, and "LABEL, error" where there is one. Zero eigenvalues lie on the floor of
        the logarithmic axis.
    """
    look = theme_of(theme)
    results = {"eigenvalues": result} if isinstance(result, DirectionsResult) else dict(result)
    drawing = go.Figure()
    positive = [r.spectrum.values[-r.spectrum.core_rank :] for r in results.values()]
    floor = 0.3 * float(min(v.min() for v in positive))
    for place, (label, found) in enumerate(results.items()):
        _add_spectrum(drawing, label, found, look.series[place % len(look.series)], floor)
    first = next(iter(results.values()))
    drawing.update_xaxes(title_text="ascending index of the direction (λ_min left, λ_max right)")
    drawing.update_yaxes(
        title_text="eigenvalue λ of the geometry", type="log", exponentformat="power", dtick=1
    )
    if len(results) == 1:
        drawing.update_layout(legend=dict(orientation="h", x=1, xanchor="right", y=1.0, yanchor="bottom"))
    title = f"λ_max {first.spectrum.lambda_max:.4g}, λ_min {first.spectrum.lambda_min:.3g}"
    if len(results) > 1:
        title = "Spectra of average geometries"
    return dress(
        drawing,
        title=title,
        subtitle=describe(first) if len(results) == 1 else CONJECTURE,
        status=status_line(first.report, first.provenance),
        trusted=all(r.report.converged for r in results.values()),
        theme=look,
        width=width,
    )


def _add_spectrum(
    drawing: go.Figure, label: str, result: DirectionsResult, colour: str, floor: float
) -> None:
    spectrum = result.spectrum
    copies = spectrum.copies
    index = (copies * torch.arange(spectrum.values.shape[0]) + (copies - 1) / 2).tolist()
    values = spectrum.values.clamp(min=floor)
    drawing.add_scatter(
        x=index,
        y=values.tolist(),
        mode="lines",
        name=label,
        line=dict(color=colour, width=1),
        hoverinfo="skip",
    )
    if float(spectrum.errors.max()) > 0:
        low, high = (values - spectrum.errors).clamp(min=floor), values + spectrum.errors
        drawing.add_scatter(
            x=[*index, *index[::-1]],
            y=[*high.tolist(), *low.flip(0).tolist()],
            fill="toself",
            mode="none",
            name=f"{label}, error",
            opacity=0.25,
            fillcolor=colour,
            hoverinfo="skip",
            showlegend=False,
        )
    for kind, words in WORDS.items():
        rows = [r for c in spectrum.clusters if c.kind == kind for r in range(c.start, c.start + c.size)]
        if rows:
            drawing.add_scatter(
                x=[index[r] for r in rows],
                y=[float(values[r]) for r in rows],
                mode="markers",
                name=f"{label}, {words}",
                marker=dict(
                    color=colour,
                    size=SIZES.marker - 2,
                    opacity=1.0 if kind in ("simple", "block") else 0.35,
                    symbol={"null": "line-ew-open", "block": "square"}.get(kind, "circle"),
                ),
                customdata=[spectrum.meaning(r * copies) for r in rows],
                hovertemplate="index %{x:.0f}<br>λ %{y:.4g}<br>%{customdata}<extra></extra>",
            )


def confidence_figure(
    result: DirectionsResult, *, theme: str | Theme = "light", width: int | None = None
) -> go.Figure:
    """Split-half overlap of every direction: how much of it other networks would find again.

    Returns:
        Traces "single direction" and "with four neighbours either side"; 1 is the same, 0 orthogonal.
    """
    look = theme_of(theme)
    spectrum = result.spectrum
    index = list(range(spectrum.values.shape[0]))
    drawing = go.Figure()
    for name, values, colour in (
        ("single direction", spectrum.overlaps, look.path),
        ("with four neighbours either side", spectrum.band_overlaps, look.other),
    ):
        drawing.add_scatter(
            x=index,
            y=values.tolist(),
            mode="lines+markers",
            name=name,
            line=dict(color=colour, width=1),
            marker=dict(size=SIZES.marker - 3),
        )
    drawing.update_xaxes(title_text="ascending index of the core's eigenvalue")
    drawing.update_yaxes(title_text="overlap between even and odd networks", range=[0, 1.05])
    drawing.update_layout(legend=dict(orientation="h", x=1, xanchor="right", y=1.0, yanchor="bottom"))
    kinds = [cluster.kind for cluster in spectrum.clusters]
    return dress(
        drawing,
        title=f"{kinds.count('simple')} of {len(index)} eigenvalues resolved",
        subtitle=describe(result),
        status=status_line(result.report, result.provenance),
        trusted=result.report.converged,
        theme=look,
        width=width,
    )


def gallery_figure(
    result: DirectionsResult | NeighbourDirections,
    *,
    indices: Sequence[int] | None = None,
    shape: tuple[int, ...] | None = None,
    theme: str | Theme = "light",
    width: int | None = None,
) -> go.Figure:
    """Directions as pictures, grey at zero, with eigenvalue and worth under each.

    Args:
        result: Score directions; or neighbouring ones, with `shape`.
        indices: Which; the ends and some between if None. Ascending for score directions, rows for others.
        shape: Shape of one sample, for neighbouring directions.
        theme: Name or theme.
        width: Pixels.

    Returns:
        One picture a direction, named "direction INDEX", and one annotation under each; a sentence where
        directions are no pictures.
    """
    look = theme_of(theme)
    own = isinstance(result, DirectionsResult)
    shape = result.spectrum.shape if own else shape or ()
    if not is_picture(shape):
        return sentence("These directions are no pictures: the spectrum shows their eigenvalues.", theme=look)
    count = result.spectrum.dim if own else result.vectors.shape[0]
    if indices is None:
        low = [0, 1, 2, count // 4, count // 2, 3 * count // 4, count - 3, count - 2, count - 1]
        indices = sorted({i for i in low if 0 <= i < count})
    if own:
        vectors = result.spectrum.directions(list(indices))
        notes = [(_value(result, i), _short(result, i)) for i in indices]
    else:
        vectors, notes = result.vectors[list(indices)], [(float(result.values[i]), "") for i in indices]
    drawing = go.Figure()
    for place, (index, vector, (value, worth)) in enumerate(zip(indices, vectors, notes, strict=True)):
        limit = float(vector.abs().max())
        drawing.add_layout_image(
            source=png_uri(pixels_of(vector[None], shape, (-limit, limit))[0]),
            name=f"direction {index}",
            xref="x",
            yref="y",
            x=place,
            y=1.0,
            sizex=0.92,
            sizey=0.92,
            xanchor="center",
            yanchor="top",
            sizing="contain",
        )
        drawing.add_annotation(
            name=f"note {index}",
            x=place,
            y=0.04,
            yanchor="top",
            showarrow=False,
            text=f"{index}<br>λ {value:.{3 if value < 1000 else 2}g}<br>{worth}",
            font=dict(size=SIZES.small, color=look.ink if worth in ("", "resolved") else look.warning),
        )
    drawing.update_xaxes(visible=False, range=[-0.5, len(indices) - 0.5])
    drawing.update_yaxes(visible=False, range=[-0.9, 1.02])
    order = "ascending: predicted best on the left" if own else f"{result.order}: {result.preferred}"
    return dress(
        drawing,
        title=f"Score directions of {result.geometry.architecture}"
        if own
        else result.kind[0].upper() + result.kind[1:],
        subtitle=f"grey is zero; {order}",
        status=status_line(result.report, result.provenance) if own else "",
        trusted=result.report.converged if own else True,
        theme=look,
        width=width or max(SIZES.width, 84 * len(indices)),
        height=SIZES.strip_height + 40,
    )


def _value(result: DirectionsResult, index: int) -> float:
    """Eigenvalue as it is shown: rounding in a null space is zero."""
    null = result.spectrum.cluster_of(index).kind == "null"
    return 0.0 if null else result.spectrum.eigenvalue(index)


def _short(result: DirectionsResult, index: int) -> str:
    cluster = result.spectrum.cluster_of(index)
    return {
        "simple": "resolved",
        "block": f"block of {cluster.dim}",
        "unresolved": f"1 of {cluster.dim}<br>unresolved",
        "null": f"null space<br>of {cluster.dim}",
    }[cluster.kind]


def rayleigh_figure(
    geometry: Geometry,
    *,
    bases: Sequence[str] = BASES,
    colour: int = 0,
    theme: str | Theme = "light",
    width: int | None = None,
) -> go.Figure:
    """Predicted difficulty of rank-one data along every vector of some bases, without training.

    Args:
        geometry: The geometry of image samples.
        bases: Names of bases; those that do not fit the size are left out.
        colour: Which channel.
        theme: Name or theme.
        width: Pixels.

    Returns:
        One picture a basis, named after it, on one logarithmic scale; first vector at the top left.
    """
    look = theme_of(theme)
    if len(geometry.shape) != 3:
        return sentence("Samples are points, not pictures: there is no map over image bases.", theme=look)
    powers = all(n & (n - 1) == 0 for n in geometry.shape[1:])
    names = [n for n in bases if powers or n not in ("hadamard", "haar")]
    maps = {name: rayleigh_map(geometry, name)[colour].clamp(min=1e-300).log10() for name in names}
    top = max(float(m.max()) for m in maps.values())
    low = max(min(float(m.min()) for m in maps.values()), top - 6.0)
    table = colour_table(look)
    drawing = go.Figure()
    for place, (name, values) in enumerate(maps.items()):
        share = ((values - low) / ((top - low) or 1.0)).clamp(0.0, 1.0)
        drawing.add_layout_image(
            source=png_uri(table[(share * (len(table) - 1)).round().long().numpy()]),
            name=name,
            xref="x",
            yref="y",
            x=place,
            y=1.0,
            sizex=0.92,
            sizey=0.92,
            xanchor="center",
            yanchor="top",
            sizing="contain",
        )
        drawing.add_annotation(
            name=f"note {name}", x=place, y=0.03, yanchor="top", showarrow=False, text=name
        )
    drawing.update_xaxes(visible=False, range=[-0.5, len(names) - 0.5])
    drawing.update_yaxes(visible=False, range=[-0.25, 1.02])
    return dress(
        drawing,
        title="Predicted difficulty along fixed bases",
        subtitle=f"v·Gv from {10**low:.2g} (first colour) to {10**top:.2g} (last), logarithmic",
        status=f"{geometry.architecture} · {geometry.networks} networks · probe {geometry.probe}",
        theme=look,
        width=width or max(SIZES.width, 150 * len(names)),
        height=SIZES.strip_height + 80,
    )


def describe(result: DirectionsResult) -> str:
    """Architecture, estimator, probe and number of networks in one line."""
    geometry = result.geometry
    blind = "; blind to the noise level" if geometry.blind else ""
    return (
        f"{geometry.architecture}, {geometry.estimator} estimate with {geometry.head} head from "
        f"{geometry.networks} networks at {geometry.probe}{blind}"
    )
