"""The second panel of the bench's tab: everything linked but one setting, and what differs is marked."""

import html
from collections.abc import Callable
from typing import Any

import panel as pn

from widgets.app.host import Host
from widgets.app.inputs import SIDE
from widgets.app.offer import bearable
from widgets.canvas.panel import PageCanvas
from widgets.sessions.bench import BenchSession
from widgets.sessions.beside import BESIDE, Beside, value_of
from workbench.bench.bench import Bench
from workbench.bench.results import BenchEvent
from workbench.errors import WorkbenchError


class SecondPanel(pn.Column):
    """Canvas, badge and table of a second bench; empty while no setting is chosen.

    Args:
        host: The page's services.
        bench: The first bench, which is followed.
        differs: Called in the page's turn when the second table has changed.
    """

    def __init__(self, host: Host, bench: Bench, differs: Callable[[], None]) -> None:
        super().__init__(sizing_mode="stretch_width", margin=0)
        self._host, self._bench, self._differs = host, bench, differs
        self.beside: Beside | None = None
        self.setting = pn.widgets.Select(
            label="second panel (A/B)",
            options={"none": ""} | {name: name for name in BESIDE},
            width=SIDE,
        )
        self.value = pn.widgets.TextInput(label="its value in B", placeholder="e.g. 0.5", width=SIDE)
        self.side = [self.setting, self.value]
        for control in self.side:
            control.param.watch(self._asked, "value")

    def changed(self) -> frozenset[str]:
        """Curves whose numbers differ between the two panels."""
        return frozenset() if self.beside is None else self.beside.changed()

    def _asked(self, _: Any) -> None:
        """Open, change or close the second panel."""
        if self.beside is not None:
            self.beside.leave()
            self._host.drop(self.beside.second)
            self.beside, self.objects = None, []
        name, text = self.setting.value, self.value.value.strip()
        if not name or not text:
            self._differs()
            return
        try:
            value = value_of(name, text)
            bearable({name: value})
            self._open(Beside(self._bench, name, value))
        except (WorkbenchError, LookupError, ValueError, OSError) as error:
            self._host.fail(error)

    def _open(self, beside: Beside) -> None:
        look = self._host.look
        self.beside, self._session = beside, BenchSession(beside.second, look)
        self._canvas = PageCanvas(theme=look.name, sizing_mode="stretch_width", max_width=680)
        self._badge, self._table = (pn.pane.HTML("", sizing_mode="stretch_width") for _ in range(2))
        self._table.styles = {"overflow-x": "auto", "max-width": "100%"}
        self._canvas.show(**self._session.frame() | {"can_add": False, "hint": "follows the first panel"})
        own = getattr(self._bench.state, beside.setting)
        title = (
            f"<h2>B: {beside.setting} = {html.escape(repr(beside.value))} (A: {html.escape(repr(own))})</h2>"
            "<p>Rows whose numbers differ are marked in both tables.</p>"
        )
        self.objects = [pn.pane.HTML(title), self._badge, self._canvas, self._table]
        self._host.keep(beside.second)
        beside.second.subscribe(lambda event: self._heard(beside, event))
        beside.second.refresh()

    def _heard(self, beside: Beside, event: BenchEvent) -> None:
        """Something of the second bench, from its worker's thread."""
        if event.what == "error":
            self._host.later(self._host.fail, f"panel B: {event.words}")
        elif event.what in ("state", "table") or self._session.draws(event):
            self._host.later(self._show, beside, event)

    def _show(self, beside: Beside, event: BenchEvent) -> None:
        if beside is not self.beside:
            return
        if event.what == "state":
            frame = event.speed == "full" and event.state == beside.second.state
            self._canvas.show(**self._session.frame() if frame else self._session.handles())
            return
        self._canvas.show(**self._session.scene())
        self._badge.object = self._session.badge()
        if event.what == "table":
            self._table.object = self._session.table(changed=self.changed())
            self._differs()
