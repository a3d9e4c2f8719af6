"""Two pictures of a visitor's own, one for each end; limited in size and type."""

from collections.abc import Callable
from typing import Any

import panel as pn

from widgets.app.host import Host
from widgets.app.inputs import SIDE, FileField
from widgets.app.uploads import PICTURE_BYTES
from workbench.errors import WorkbenchError
from workbench.pictures import INVERT

ENDS = ("start", "end")
INVERTED = (
    "The picture is shown inverted, since its background is light and that of the model's images is dark. "
    "Take the word “{invert}” out of the field “{end}” to see it as it is."
)


class PictureFields(pn.Column):
    """A field for each end that takes a picture.

    Args:
        host: The page's services.
        took: Called with an entry of the state, "start" or "end", and the picture's name; returns the point
            that it became.
    """

    def __init__(self, host: Host, took: Callable[[str, str], str]) -> None:
        self._host, self._took = host, took
        self.fields = {
            end: FileField(host.look, _label(end), accept=".png,.jpg,.jpeg", most=PICTURE_BYTES)
            for end in ENDS
        }
        for end, field in self.fields.items():
            field.param.watch(lambda _, end=end: self._taken(end), "file")
        self.note = pn.pane.HTML("", visible=False, width=SIDE)
        super().__init__(*self.fields.values(), self.note, margin=0)

    def opens(self, model: str) -> None:
        """Say which model a picture opens; empty where the present one takes it."""
        for end, field in self.fields.items():
            field.label = _label(end) + (f"; opens the model {model}" if model else "")

    def _taken(self, end: str) -> None:
        try:
            taken = self._took(end, self._host.offer.uploads.add(self.fields[end].content()))
            self.note.visible = taken.startswith(INVERT)
            self.note.object = INVERTED.format(end=end, invert=INVERT)
        except (WorkbenchError, OSError) as error:
            self._host.fail(error)


def _label(end: str) -> str:
    return f"a picture of your own as {end} (PNG or JPEG, {PICTURE_BYTES // 1_000_000} MB at most)"


def pictured(subject: Any, offer: Any) -> str:
    """The model that a picture opens: none where the subject's samples are pictures themselves."""
    return "" if subject.pictures else offer.pictured
