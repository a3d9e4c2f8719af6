"""Controls that views share: end picker, noise slider, and the line that says what is going on."""

import html
import threading
import time
from collections.abc import Callable
from typing import Any

import ipywidgets
import plotly.graph_objects as go

from widgets.facts import host_colour
from widgets.theme import Theme, theme_of

STYLE = {"description_width": "104px"}
PULSE = 0.1
"""Seconds between two updates of a progress bar."""


def narrow() -> ipywidgets.Layout:
    """A layout of its own for one control of a column."""
    return ipywidgets.Layout(width="98%")


def end_picker(name: str, value: str, *, images: int | None) -> ipywidgets.Text:
    """A field for one end of a path.

    Args:
        name: What it is the end of, e.g. "start".
        value: Its text.
        images: How many samples there are to choose from; None where ends are coordinates.

    Returns:
        The field; it reports when the user has finished typing.
    """
    hint = end_hint(images)
    return ipywidgets.Text(
        value=value,
        description=name,
        placeholder=hint,
        tooltip=hint,
        continuous_update=False,
        layout=narrow(),
        style=STYLE,
    )


def end_hint(images: int | None) -> str:
    """What can be written for an end: coordinates, or one of so many images."""
    return "coordinates, e.g. -3,0" if images is None else f"image 0 to {images - 1}, or a file"


def number_slider(
    name: str, value: float, low: float, high: float, *, step: float
) -> ipywidgets.FloatSlider | ipywidgets.IntSlider:
    """A slider that reports when it is let go; whole numbers if its value is one.

    Args:
        name: What it sets.
        value: Where it stands; the range is widened to hold it.
        low: Smallest number.
        high: Largest.
        step: Distance of two stops.
    """
    make = ipywidgets.IntSlider if isinstance(value, int) else ipywidgets.FloatSlider
    return make(
        value=value,
        min=min(low, value),
        max=max(high, value),
        step=step,
        description=name,
        continuous_update=False,
        layout=narrow(),
        style=STYLE,
    )


def noise_slider(low: float, high: float, value: float | None) -> ipywidgets.SelectionSlider:
    """A slider over noise levels sigma at equal ratios, with the data themselves at its left end.

    Args:
        low: Smallest level, positive, in the data's unit.
        high: Largest.
        value: Where it stands; kept exactly, also between two stops. None for the data, which read 0.
    """
    ratio = (high / low) ** (1.0 / 40)
    levels = {low * ratio**k for k in range(41)} | ({value} if value else set())
    options = [("the data", 0.0), *((f"{level:.3g}", level) for level in sorted(levels))]
    return ipywidgets.SelectionSlider(
        options=options,
        value=value or 0.0,
        description="noise σ",
        continuous_update=False,
        layout=narrow(),
        style=STYLE,
    )


class StatusBar(ipywidgets.VBox):
    """What a view is doing: a sentence, a progress bar and a button to stop it.

    Args:
        on_cancel: Called when the user presses the button.
        theme: Name or theme.
    """

    def __init__(self, on_cancel: Callable[[], None], *, theme: str | Theme = "light") -> None:
        self._look = theme_of(theme)
        self._said = 0.0
        self.kind = "idle"
        self.text = ""
        self.line = ipywidgets.HTML()
        self.bar = ipywidgets.FloatProgress(
            min=0.0,
            max=1.0,
            layout=ipywidgets.Layout(  # ipywidgets keeps 8 px of the height free around the bar
                width="100%", height="14px", visibility="hidden", margin="0"
            ),
        )
        self.cancel = ipywidgets.Button(
            description="Cancel", icon="stop", disabled=True, tooltip="stop and keep the best so far"
        )
        self.cancel.on_click(lambda _: on_cancel())
        super().__init__([self.line, self.bar])

    def say(self, text: str, *, kind: str = "idle") -> None:
        """Show a sentence.

        Args:
            text: The sentence.
            kind: "idle", "warning" or "error", which decides its colour.
        """
        self.kind, self.text = kind, text
        colour = host_colour("muted" if kind == "idle" else "warning", self._look)
        weight = "600" if kind == "error" else "400"
        body = html.escape(text).replace("&lt;br&gt;", "<br>")
        self.line.value = (
            f'<div role="{"alert" if kind == "error" else "status"}" '
            f'style="color:{colour};font-weight:{weight};line-height:1.4;white-space:normal">{body}</div>'
        )

    def start(self) -> None:
        """Work begins."""
        self.bar.value = 0.0
        self.bar.layout.visibility = "visible"
        self.cancel.disabled = False

    def advance(self, share: float, words: str = "") -> None:
        """Work goes on; at most one update every tenth of a second is sent."""
        now = time.monotonic()
        if now - self._said < PULSE and share < 1.0:
            return
        self._said = now
        self.bar.value = min(max(share, 0.0), 1.0)

    def rest(self) -> None:
        """Nothing is being done any more."""
        self.bar.layout.visibility = "hidden"
        self.cancel.disabled = True


class FigureBox(ipywidgets.Box):
    """A figure on the screen that follows its latest version, and never loses one.

    What is sent to a plotly widget before its front end has drawn it for the first time is lost, and loading
    it takes a while (five megabytes of script). So the widget is made with its first figure in it, later
    figures wait until the front end has reported, and from then on each is one message.

    Args:
        figure: What to show first; made a widget only when `show` brings a real figure.
    """

    def __init__(self, figure: go.Figure) -> None:
        self.figure = _titled_in_one(figure)
        self.widget: go.FigureWidget | None = None
        self._shown: go.Figure | None = None
        self._drawn = False
        self._lock = threading.RLock()
        super().__init__([])

    def show(self, figure: go.Figure) -> None:
        """Show a figure as soon as the front end can."""
        with self._lock:
            self.figure = figure = _titled_in_one(figure)
            if self.widget is None or trace_names(self.widget) != trace_names(figure):
                self._make()
            elif self._drawn:
                self._follow()

    def _make(self) -> None:
        """A new widget with the figure in its first state."""
        old = self.widget
        made = go.FigureWidget(self.figure)
        made.observe(self._reported, ["_js2py_traceDeltas", "_js2py_layoutDelta"])
        self.widget, self._shown, self._drawn = made, self.figure, False
        self.children = [made]
        if old is not None:
            old.close()

    def _reported(self, change: dict) -> None:
        """The front end has drawn: catch up with what came meanwhile."""
        if change["new"] is None:
            return
        with self._lock:
            self._drawn = True
            if self._shown is not self.figure:
                self._follow()

    def _follow(self) -> None:
        if self.widget is not None:
            refresh(self.widget, self.figure)
        self._shown = self.figure


def _traces(figure: go.Figure | go.FigureWidget) -> tuple[Any, ...]:
    """The traces of a figure."""
    return tuple(figure.data)


def trace_names(figure: go.Figure | go.FigureWidget) -> list[str]:
    """The names of a figure's traces, in order."""
    return [trace.name for trace in _traces(figure)]


def _titled_in_one(figure: go.Figure) -> go.Figure:
    """The figure with its subtitle as a second line of its title.

    A figure widget is drawn before it is on the screen, where plotly cannot measure the title that its own
    subtitle should stand below.
    """
    subtitle = figure.layout.title.subtitle.text
    if not subtitle:
        return figure
    font = figure.layout.template.layout.title.subtitle.font
    merged = go.Figure(figure)
    line = f'<br><span style="font-size:{font.size or 11}px;color:{font.color or "grey"}">{subtitle}</span>'
    merged.update_layout(
        title=dict(text=f"{figure.layout.title.text}{line}", y=0.94, subtitle=dict(text=None))
    )
    return merged


def refresh(widget: go.FigureWidget, figure: go.Figure) -> None:
    """Make a figure widget show a figure with the same traces, in one message.

    Args:
        widget: What is on the screen; changed in place.
        figure: What it should show.
    """
    wanted = figure.layout.to_plotly_json()
    stale = {key: None for key in widget.layout.to_plotly_json() if key not in wanted}
    with widget.batch_update():
        for old, new in zip(_traces(widget), _traces(figure), strict=True):
            old.update(new.to_plotly_json(), overwrite=True)
        widget.layout.update({**stale, **wanted}, overwrite=True)
