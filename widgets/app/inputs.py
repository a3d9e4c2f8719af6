"""A slider and a file chooser for the page that say their names to a screen reader."""

import base64
import binascii
from pathlib import Path
from typing import Any

import param
from panel.custom import AnyWidgetComponent

from widgets.theme import Theme
from workbench.errors import DataError

HERE = Path(__file__).parent
SIDE = 296
"""Width of a control in the sidebar, in pixels."""
_STYLE = """
.wb-slider, .wb-file {{ font: 13px/1.4 system-ui, "Segoe UI", "DejaVu Sans", "Noto Sans", sans-serif;
  color: {ink}; margin: 4px 10px; }}
label {{ display: block; }}
output {{ font-weight: 600; font-variant-numeric: tabular-nums; }}
input {{ display: block; width: 100%; margin: 4px 0 0; box-sizing: border-box; accent-color: {start};
  color: {ink}; font: inherit; }}
input:focus-visible {{ outline: 2px solid {start}; outline-offset: 2px; }}
.wb-file label {{ border: 1px dashed {muted}; border-radius: 5px; padding: 6px 8px; }}
.wb-file > span {{ color: {warning}; }}
"""


def _style(look: Theme) -> str:
    return _STYLE.format(ink=look.ink, start=look.start, muted=look.muted, warning=look.warning)


class Slider(AnyWidgetComponent):
    """A slider that reports when it is let go.

    Args:
        look: Colours.
        label: What it sets.
        params: start, end and step, or stops: pairs of words and number.
    """

    _esm = (HERE / "slider.js").read_text(encoding="utf-8")

    label = param.String(default="")
    value = param.Number(default=0.0)
    start = param.Number(default=0.0)
    end = param.Number(default=1.0)
    step = param.Number(default=0.1)
    stops = param.List(default=[])

    def __init__(self, look: Theme, label: str, **params: Any) -> None:
        super().__init__(label=label, stylesheets=[_style(look)], width=SIDE + 20, margin=0, **params)


class FileField(AnyWidgetComponent):
    """A file to choose or to drop.

    Args:
        look: Colours.
        label: What it is for.
        accept: Endings and kinds that are offered, as HTML has them.
        most: Bytes that a file may have.
    """

    _esm = (HERE / "file.js").read_text(encoding="utf-8")

    label = param.String(default="")
    accept = param.String(default="")
    most = param.Integer(default=0)
    file = param.Dict(default={})

    def __init__(self, look: Theme, label: str, *, accept: str, most: int) -> None:
        super().__init__(
            label=label,
            accept=accept,
            most=most,
            stylesheets=[_style(look)],
            width=SIDE + 20,
            margin=0,
        )

    def content(self) -> bytes:
        """What the file holds.

        Raises:
            DataError: If the browser sent no file.
        """
        data = self.file.get("data")
        if not isinstance(data, str) or len(data) > 2 * self.most:
            raise DataError("no file", f"one of {self.most:,} bytes at most", "another file")
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise DataError("a file that arrived damaged", "the file again") from error
