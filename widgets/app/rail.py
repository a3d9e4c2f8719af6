"""The tabs of a page, as a component with roles and keys that screen readers know, and the page's address."""

from pathlib import Path
from typing import Any

import param
from panel.custom import AnyWidgetComponent

from widgets.theme import Theme

_STYLE = """
.wb-rail {{ display: flex; flex-wrap: wrap; gap: 2px; }}
.wb-rail button {{ all: unset; cursor: pointer; padding: 8px 14px; color: {muted};
  border-bottom: 3px solid transparent;
  font: 14px/1.4 system-ui, "Segoe UI", "DejaVu Sans", "Noto Sans", sans-serif; }}
.wb-rail button:hover {{ color: {ink}; }}
.wb-rail button[aria-selected="true"] {{ color: {ink}; font-weight: 600; border-color: {start}; }}
.wb-rail button:focus-visible {{ outline: 2px solid {start}; outline-offset: -2px; }}
"""


class Rail(AnyWidgetComponent):
    """Tabs by name and title, which one is chosen, and the query that the browser's address shows.

    Args:
        look: Colours.
        params: Values of the parameters.
    """

    _esm = (Path(__file__).parent / "rail.js").read_text(encoding="utf-8")

    names = param.List(default=[])
    chosen = param.String(default="")
    query = param.String(default="")

    def __init__(self, look: Theme, **params: Any) -> None:
        style = _STYLE.format(ink=look.ink, muted=look.muted, start=look.start)
        super().__init__(stylesheets=[style], sizing_mode="stretch_width", **params)
