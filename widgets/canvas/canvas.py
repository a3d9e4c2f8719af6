"""The canvas as a notebook widget: a field, curves over it, and points that can be dragged.

The front end draws and reports gestures, one message an animation frame and none while the last is
unanswered; all geometry happens here. Traits are the whole interface and can be read and set from code.
"""

import pathlib
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from widgets.canvas.scene import Gesture, gesture_of, theme_traits

HERE = pathlib.Path(__file__).parent
SOURCES = (HERE / "points.js", HERE / "lasso.js", HERE / "drop.js", HERE / "canvas.js")
STYLE = HERE / "canvas.css"
MODULE = "\n".join(source.read_text(encoding="utf-8") for source in SOURCES)
"""The front end as one module; it imports nothing."""


class Canvas(anywidget.AnyWidget):
    """A plane with a field, curves and draggable points.

    Set traits from the functions of `widgets.canvas.scene`, several at once with `show`; listen with
    `on_gesture`.
    """

    _esm = MODULE
    _css = STYLE.read_text(encoding="utf-8")

    field = traitlets.Bytes(b"").tag(sync=True)
    field_shape = traitlets.List(traitlets.Int(), default_value=[0, 0]).tag(sync=True)
    field_limits = traitlets.List(traitlets.Float(), default_value=[0.0, 1.0]).tag(sync=True)
    field_title = traitlets.Unicode("").tag(sync=True)
    vertices = traitlets.Bytes(b"").tag(sync=True)
    curves = traitlets.List(traitlets.Dict()).tag(sync=True)
    clouds = traitlets.List(traitlets.Dict()).tag(sync=True)
    cloud_points = traitlets.Bytes(b"").tag(sync=True)
    cloud_labels = traitlets.Bytes(b"").tag(sync=True)
    cloud_cells = traitlets.Bytes(b"").tag(sync=True)
    hidden = traitlets.List(traitlets.Unicode()).tag(sync=True)
    handles = traitlets.List(traitlets.Dict()).tag(sync=True)
    can_add = traitlets.Bool(False).tag(sync=True)
    thumbs = traitlets.Bytes(b"").tag(sync=True)
    thumb_shape = traitlets.List(traitlets.Int(), default_value=[0, 0, 0]).tag(sync=True)
    thumb_curve = traitlets.Unicode("").tag(sync=True)
    thumb_names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    x_range = traitlets.List(traitlets.Float(), default_value=[0.0, 1.0]).tag(sync=True)
    y_range = traitlets.List(traitlets.Float(), default_value=[0.0, 1.0]).tag(sync=True)
    x_title = traitlets.Unicode("x").tag(sync=True)
    y_title = traitlets.Unicode("y").tag(sync=True)
    caption = traitlets.Unicode("map with movable points").tag(sync=True)
    plot_width = traitlets.Int(620).tag(sync=True)
    plot_height = traitlets.Int(480).tag(sync=True)
    theme = traitlets.Unicode("light").tag(sync=True)
    palette = traitlets.Dict().tag(sync=True)
    busy = traitlets.Bool(False).tag(sync=True)
    note = traitlets.Unicode("").tag(sync=True)
    hint = traitlets.Unicode("").tag(sync=True)
    clip = traitlets.Unicode("").tag(sync=True)
    gesture = traitlets.Dict().tag(sync=True)
    lasso = traitlets.List(traitlets.Float()).tag(sync=True)
    answered = traitlets.Int(0).tag(sync=True)
    takes_files = traitlets.Bool(False).tag(sync=True)
    dropped = traitlets.Dict().tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        super().__init__(**{**theme_traits(traits.pop("theme", "light")), **traits})
        self._listeners: list[Callable[[Gesture], None]] = []

    def show(self, **traits: Any) -> None:
        """Set several traits in one message."""
        with self.hold_sync(), self.hold_trait_notifications():
            for name, value in traits.items():
                setattr(self, name, value)

    def on_gesture(self, listener: Callable[[Gesture], None]) -> None:
        """Call a function at every gesture, in the order of registration."""
        self._listeners.append(listener)

    @traitlets.observe("gesture")
    def _gestured(self, change: Any) -> None:
        gesture = gesture_of(change["new"])
        if gesture is None:
            return
        try:
            for listener in self._listeners:
                listener(gesture)
        finally:
            self.answered = gesture.seq

    @traitlets.observe("theme")
    def _rethemed(self, change: Any) -> None:
        self.palette = theme_traits(change["new"])["palette"]

    def __repr__(self) -> str:
        return f"Canvas({len(self.curves)} curves, {len(self.handles)} points)"
