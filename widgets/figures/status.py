"""The lines that every figure carries: what is shown, how it is projected, and whether to trust it."""

import re
import textwrap

import plotly.graph_objects as go

from widgets.theme import SIZES, Theme, template, theme_of
from workbench.report import Provenance, SolveReport


def status_line(report: SolveReport, provenance: Provenance) -> str:
    """Two lines on the trust and the origin of a result.

    Args:
        report: What the solver did.
        provenance: Where the result came from.

    Returns:
        Sign, status, relative residual, model calls; seed, guidance, dtype and device.
    """
    sign = "●" if report.converged else "▲"
    guidance = re.search(r"guidance ([-+.\de]+)", provenance.model)
    trust = [
        f"{sign} {report.status}",
        report.residual_in_words(1),
        f"{spaced(report.model_calls)} model calls",
    ]
    origin = [
        "no random draws" if provenance.seed is None else f"seed {provenance.seed}",
        f"guidance {guidance.group(1)}" if guidance else "no guidance",
        f"{provenance.dtype} on {provenance.device}".strip(),
    ]
    return f"{' · '.join(trust)}<br>{' · '.join(origin)}"


def length_unit(provenance: Provenance) -> str:
    """What lengths of a result are measured in: latents' own units where the model lives on latents."""
    return "latent units" if "latent space" in provenance.model else "data units"


def spaced(count: int) -> str:
    """A whole number with thin spaces between its thousands."""
    return f"{count:,}".replace(",", "\u202f")


def in_lines(text: str, width: int) -> list[str]:
    """Small text in lines that a figure of so many pixels shows whole, broken between clauses if it can be.

    Args:
        text: The text; lines that it has are kept.
        width: Pixels of the figure.

    Returns:
        The lines; none of an empty text.
    """
    fit = max(20, int((width - SIZES.left) / SIZES.letter))
    wrap = textwrap.TextWrapper(fit, break_long_words=False, break_on_hyphens=False)
    lines: list[str] = []
    for part in text.split("<br>"):
        line = ""
        for clause in re.split(r"(?<=;) | (?=· )", part):
            if line and len(line) + 1 + len(clause) > fit:
                lines += wrap.wrap(line)
                line = clause
            else:
                line = f"{line} {clause}".strip()
        lines += wrap.wrap(line)
    return lines


def dress(
    figure: go.Figure,
    *,
    title: str,
    subtitle: str = "",
    status: str = "",
    theme: str | Theme = "light",
    width: int | None = None,
    height: int | None = None,
    trusted: bool = True,
) -> go.Figure:
    """Give a figure the common look, its title, and its status line under the axes.

    Args:
        figure: What to dress; changed in place.
        title: What is shown.
        subtitle: Model, settings and projection.
        status: The status line; none if empty.
        theme: Name or theme.
        width: Pixels; the common width if None.
        height: Pixels; the common height if None.
        trusted: False draws the status in the colour of a warning.

    Returns:
        The same figure.
    """
    look = theme_of(theme)
    width, height = width or SIZES.width, height or SIZES.height
    lines = in_lines(subtitle, width)
    further = SIZES.leading * max(0, len(lines) - 1)
    figure.update_layout(
        template=template(look),
        title=dict(text=title, subtitle=dict(text="<br>".join(lines))),
        width=width,
        height=height + further,
    )
    if further:
        figure.update_layout(margin_t=SIZES.top + further)
    if status:
        figure.add_annotation(
            name="status",
            text=status,
            x=0,
            y=0,
            xref="paper",
            yref="paper",
            xanchor="left",
            yanchor="top",
            yshift=-58,
            showarrow=False,
            align="left",
            font=dict(size=SIZES.small, color=look.muted if trusted else look.warning),
        )
    return figure


def sentence(text: str, *, theme: str | Theme = "light", height: int | None = None) -> go.Figure:
    """A figure that draws nothing and says in one sentence why.

    Args:
        text: The sentence.
        theme: Name or theme.
        height: Pixels; a third of the common height if None.

    Returns:
        A figure without axes.
    """
    look = theme_of(theme)
    figure = go.Figure()
    figure.update_layout(
        template=template(look), width=SIZES.width, height=height or SIZES.height // 3, margin=dict(t=8, b=8)
    )
    figure.update_xaxes(visible=False, range=[0, 1])
    figure.update_yaxes(visible=False, range=[0, 1])
    figure.add_annotation(
        name="sentence",
        text=text,
        x=0.5,
        y=0.5,
        showarrow=False,
        font=dict(color=look.muted),
        width=SIZES.width - 96,
    )
    return figure
