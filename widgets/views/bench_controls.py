"""The controls of the linked view that say what its state is, and fit themselves to another subject."""

from typing import Any

import ipywidgets

from widgets.controls import STYLE, end_hint, end_picker, narrow, number_slider
from workbench.bench.geodesics import metrics_for
from workbench.bench.scrub import level_grid
from workbench.bench.state import BACKGROUNDS, LENS_NAMES, PROBES, REGIMES, BenchState
from workbench.cards import MODELS
from workbench.subjects import Subject
from workbench.worlds import WORLDS

OWN = -1.0
"""Where the noise slider stands while each lens takes its own level."""


class BenchControls:
    """One control an entry of the state.

    They are made once: another subject changes what they offer, so that nothing of an earlier one is left
    behind in the browser or in memory.

    Args:
        state: What they say first.
        subject: What it is about.
        own: Name of a model of one's own; empty for none.
    """

    def __init__(self, state: BenchState, subject: Subject, own: str) -> None:
        names = list(dict.fromkeys(filter(None, (state.world or state.model, own, *WORLDS, *MODELS))))
        drop: dict[str, Any] = {"layout": narrow(), "style": STYLE}
        self.controls: dict[str, Any] = {
            "subject": ipywidgets.Dropdown(options=names, description="model", **drop),
            "start": end_picker("start", state.start, images=_images(subject)),
            "end": end_picker("end", state.end, images=_images(subject)),
            "metric": ipywidgets.Dropdown(description="metric", **drop),
            "background": ipywidgets.Dropdown(options=BACKGROUNDS, description="background", **drop),
            "projection": ipywidgets.Dropdown(description="projection", **drop),
            "regimes": ipywidgets.SelectMultiple(rows=4, description="regimes", **drop),
            "lenses": ipywidgets.SelectMultiple(options=LENS_NAMES, rows=4, description="lenses", **drop),
            "probe": ipywidgets.Dropdown(options=PROBES, description="probe", **drop),
            "nodes": number_slider("nodes", state.nodes, 5, 101, step=2),
        }
        self.sigma = ipywidgets.SelectionSlider(options=[("own", OWN)], description="noise σ", **drop)
        self.fit(state, subject)

    def fit(self, state: BenchState, subject: Subject) -> None:
        """Offer what a subject has, and say what a state is."""
        controls, hint = self.controls, end_hint(_images(subject))
        for name in ("start", "end"):
            controls[name].placeholder = controls[name].tooltip = hint
        controls["metric"].options = list(dict.fromkeys((*metrics_for(subject), state.metric)))
        controls["projection"].options = [
            ("the subject's own", ""),
            *((one, one) for one in _planes(subject)),
        ]
        controls["regimes"].options = [one for one in REGIMES if one in subject.regimes]
        self.sigma.options = _stops(list(level_grid(subject)) if subject.flows else [])
        self.show(state)

    def show(self, state: BenchState) -> None:
        """Say what a state is."""
        for name, control in self.controls.items():
            value = getattr(state, name, None) if name != "subject" else state.world or state.model
            if name in ("regimes", "lenses"):
                names = state.regime_names if name == "regimes" else state.lens_names
                value = tuple(one for one in names if one in control.options)
            if control.value != value:
                control.value = value
        level = OWN if state.sigma is None else state.sigma
        if self.sigma.value != level:
            levels = {one for _, one in self.sigma.options if one != OWN} | {level} - {OWN}
            self.sigma.options = _stops(sorted(levels))
            self.sigma.value = level


def _stops(levels: list[float]) -> list[tuple[str, float]]:
    return [("own", OWN), *((f"{level:.3g}", level) for level in levels)]


def _images(subject: Subject) -> int | None:
    return None if subject.choices is None else len(subject.choices)


def _planes(subject: Subject) -> list[str]:
    plane = ["plane"] if subject.frame.dim == 2 else ["slice"]
    return [*plane, *(["pca"] if subject.choices is not None else [])]
