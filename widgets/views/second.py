"""The second panel of the linked view: everything linked but one setting."""

import html
from typing import Any

import ipywidgets

from widgets.canvas.canvas import Canvas
from widgets.sessions.bench import BenchSession
from widgets.sessions.beside import Beside
from workbench.bench.results import BenchEvent


class SecondPanel:
    """The canvas and table of a second bench, kept up to date.

    Args:
        view: The explorer whose `other` box holds it.
        beside: The second bench.
    """

    def __init__(self, view: Any, beside: Beside) -> None:
        self.view, self.beside = view, beside
        self.session = BenchSession(beside.second, view._look)
        self.canvas = Canvas(theme=view._look.name, layout=ipywidgets.Layout(width="100%"))
        self.title, self.badge, self.table = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML()
        picture = ipywidgets.Box([self.canvas], layout=ipywidgets.Layout(width="640px", max_width="100%"))
        view.other.children = [self.title, self.badge, picture, self.table]
        self.canvas.show(**{**self.session.frame(), "can_add": False, "hint": "follows the first panel"})
        beside.second.subscribe(self._heard)
        self._tell()

    def _tell(self) -> None:
        own, other = getattr(self.view.bench.state, self.beside.setting), self.beside.value
        self.title.value = (
            f"<h3>B: {self.beside.setting} = {html.escape(repr(other))} "
            f"<small>(A has {html.escape(repr(own))}; everything else is linked; "
            "rows that differ are marked)</small></h3>"
        )

    def _heard(self, event: BenchEvent) -> None:
        if event.what == "state":
            self._tell()
            self.canvas.show(**self.session.handles())
        elif self.session.draws(event):
            self.canvas.show(**self.session.scene())
        elif event.what == "table":
            self.canvas.show(**self.session.scene())
            changed = self.beside.changed()
            self.badge.value = self.session.badge()
            self.table.value = self.session.table(changed=changed)
            self.view.table.value = self.view.session.table(changed=changed)
        elif event.what == "error":
            self.title.value = f"<h3>B</h3><p role='alert'>{html.escape(event.words)}</p>"
