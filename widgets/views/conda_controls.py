"""Controls of the view of contrastive maps: what the curve is, how it is lifted, what colours the frames."""

from typing import Any

import ipywidgets

from widgets.controls import STYLE, narrow, number_slider
from widgets.figures.conda import colours_of
from widgets.sessions.conda import CondaSession
from widgets.sessions.conda_state import CondaState
from workbench.conda.lifts import WEIGHTS

CONTROLS = ("kind", "colour", "weights", "k", "rank", "steps", "closed", "renorm")
"""Entries of the state that have a control."""


def build_controls(session: CondaSession) -> dict[str, Any]:
    """One control for each of `CONTROLS`, with the session's values."""
    state, count = session.state, len(session.coords)
    choices = {
        "kind": (["spline", "line", "arc"], "curve"),
        "colour": (list(colours_of(session.scene.fit)), "colour by"),
        "weights": (list(WEIGHTS), "weights"),
    }
    made: dict[str, Any] = {
        name: ipywidgets.Dropdown(
            options=options, value=getattr(state, name), description=words, layout=narrow(), style=STYLE
        )
        for name, (options, words) in choices.items()
    }
    dim = session.scene.fit.points.shape[1]
    made |= {
        "k": number_slider("neighbours k", state.k, 1, min(64, count - 1), step=1),
        "rank": number_slider("axes (0: auto)", state.rank, 0, dim, step=1),
        "steps": number_slider("points", state.steps, 5, 121, step=4),
        "closed": ipywidgets.Checkbox(value=state.closed, description="closed", indent=False),
        "renorm": ipywidgets.Checkbox(value=state.renorm, description="keep length", indent=False),
    }
    for name in ("closed", "renorm"):
        made[name].layout.width = "140px"
    return made


def show_controls(controls: dict[str, Any], state: CondaState) -> None:
    """Set every control to the state, and hide those that mean nothing for it."""
    for name in CONTROLS:
        if controls[name].value != getattr(state, name):
            controls[name].value = getattr(state, name)
    for name, meant in (
        ("rank", state.weights in ("linear", "barycentric")),
        ("k", state.weights != "nearest"),
        ("closed", state.kind == "spline"),
    ):
        controls[name].layout.display = None if meant else "none"


def build_buttons() -> tuple[Any, ...]:
    """File name, save, copy, open again, compare conditions, and the field for a parameters cell."""
    layout = ipywidgets.Layout
    return (
        ipywidgets.Text(value="curve.gif", layout=layout(width="150px")),
        ipywidgets.Button(
            description="Save", icon="download", tooltip="the curve and its films: .gif, .mp4 or .npz",
            layout=layout(width="90px"),
        ),
        ipywidgets.Button(description="Copy as parameters", icon="copy", layout=layout(width="170px")),
        ipywidgets.Button(
            description="Open again", icon="refresh", layout=layout(width="130px", display="none")
        ),
        ipywidgets.Button(
            description="What the condition does", icon="exchange",
            tooltip="a curve from one condition to another, rendered with the condition following and held",
            layout=layout(width="210px"),
        ),
        ipywidgets.Textarea(layout=layout(width="98%", height="150px", display="none")),
    )  # fmt: skip
