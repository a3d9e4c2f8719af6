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
    "Shown inverted: {ends}, since the background is light and that of the model's images is dark. "
    "Take the word “{invert}” out of that field to see the picture as it is."
)


class PictureFields(pn.Column):
    """A field for each end that takes a picture.

    Args:
        host: The page's services.
        took: Called with an entry of the state, "start" or "end", and the picture's name.
    """

    def __init__(self, host: Host, took: Callable[[str, str], None]) -> None:
        self._host, self._took = host, took
        self.fields = {
            end: FileField(host.look, _label(end), accept=".png,.jpg,.jpeg", most=PICTURE_BYTES)
            for end in ENDS
        }
        for end, field in self.fields.items():
            field.param.watch(lambda _, end=end: self._taken(end), "file")
        self.note = pn.pane.HTML("", visible=False, width=SIDE)
        super().__init__(*self.fields.values(), self.note, margin=0)

    def show(self, opens: str, start: str, end: str) -> None:
        """Say what the state means for pictures.

        Args:
            opens: The model that a picture opens; empty where the present one takes it.
            start: The first end, as the state has it.
            end: The last end.
        """
        for name, field in self.fields.items():
            field.label = _label(name) + (f"; opens the model {opens}" if opens else "")
        inverted = [name for name, text in zip(ENDS, (start, end), strict=True) if text.startswith(INVERT)]
        self.note.object = INVERTED.format(ends=" and ".join(inverted), invert=INVERT)
        self.note.visible = bool(inverted)

    def _taken(self, end: str) -> None:
        try:
            self._took(end, self._host.offer.uploads.add(self.fields[end].content()))
        except (WorkbenchError, OSError) as error:
            self._host.fail(error)


def _label(end: str) -> str:
    return f"a picture of your own as {end} (PNG or JPEG, {PICTURE_BYTES // 1_000_000} MB at most)"


def pictured(subject: Any, offer: Any) -> str:
    """The model that a picture opens: none where the subject's samples are pictures themselves."""
    return "" if subject.pictures else offer.pictured
