"""The canvas as a component of a Panel page: the same module and the same traits as in the notebook."""

from collections.abc import Callable
from typing import Any, ClassVar

import param
from panel.custom import AnyWidgetComponent

from widgets.canvas.canvas import MODULE, STYLE
from widgets.canvas.scene import Gesture, gesture_of, theme_traits


class PageCanvas(AnyWidgetComponent):
    """A plane with a field, curves and draggable points; see `widgets.canvas.canvas.Canvas`."""

    _esm = MODULE
    _stylesheets = [STYLE.read_text(encoding="utf-8")]  # noqa: RUF012 - panel asks for a list
    _priority_changes: ClassVar[list[str]] = ["gesture"]  # panel holds every other change back for 50 ms

    field = param.Bytes(default=b"")
    field_shape = param.List(default=[0, 0])
    field_limits = param.List(default=[0.0, 1.0])
    field_title = param.String(default="")
    vertices = param.Bytes(default=b"")
    curves = param.List(default=[])
    clouds = param.List(default=[])
    cloud_points = param.Bytes(default=b"")
    cloud_labels = param.Bytes(default=b"")
    cloud_cells = param.Bytes(default=b"")
    hidden = param.List(default=[])
    handles = param.List(default=[])
    can_add = param.Boolean(default=False)
    thumbs = param.Bytes(default=b"")
    thumb_shape = param.List(default=[0, 0, 0])
    thumb_curve = param.String(default="")
    thumb_names = param.List(default=[])
    x_range = param.List(default=[0.0, 1.0])
    y_range = param.List(default=[0.0, 1.0])
    x_title = param.String(default="x")
    y_title = param.String(default="y")
    caption = param.String(default="map with movable points")
    plot_width = param.Integer(default=620)
    plot_height = param.Integer(default=480)
    theme = param.String(default="light")
    palette = param.Dict(default={})
    busy = param.Boolean(default=False)
    note = param.String(default="")
    hint = param.String(default="")
    clip = param.String(default="")
    gesture = param.Dict(default={})
    lasso = param.List(default=[])
    answered = param.Integer(default=0)
    takes_files = param.Boolean(default=False)
    dropped = param.Dict(default={})

    def __init__(self, **params: Any) -> None:
        super().__init__(**{**theme_traits(params.pop("theme", "light")), **params})
        self._listeners: list[Callable[[Gesture], None]] = []
        self.param.watch(self._gestured, "gesture")
        self.param.watch(self._rethemed, "theme")

    def show(self, **params: Any) -> None:
        """Set several traits in one message."""
        self.param.update(**params)

    def on_gesture(self, listener: Callable[[Gesture], None]) -> None:
        """Call a function at every gesture, in the order of registration."""
        self._listeners.append(listener)

    def _gestured(self, event: Any) -> None:
        gesture = gesture_of(event.new)
        if gesture is None:
            return
        try:
            for listener in self._listeners:
                listener(gesture)
        finally:
            self.answered = gesture.seq

    def _rethemed(self, event: Any) -> None:
        self.palette = theme_traits(event.new)["palette"]
