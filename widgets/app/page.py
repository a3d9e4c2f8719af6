"""One visitor's page: tabs, a sidebar with the open tab's settings, a status line, and the address."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import panel as pn
from panel.theme import DarkTheme, DefaultTheme

from widgets.app.host import Host
from widgets.app.link import read_query, write_query
from widgets.app.offer import Offer
from widgets.app.rail import Rail
from widgets.app.tabs import TABS, Tab
from widgets.app.turns import Turns
from widgets.theme import theme_of
from workbench.errors import WorkbenchError

HERE = Path(__file__).parent

_log = logging.getLogger(__name__)


class Page:
    """Everything that one visitor sees.

    Args:
        offer: What visitors may ask for.
        turns: Turns that all visitors share.
        arguments: The address's query: name to values, as a web server gives them.
        document: The document that the page is made for; None without a server.
    """

    def __init__(
        self,
        offer: Offer,
        turns: Turns,
        arguments: Mapping[str, Any] | None = None,
        *,
        document: Any = None,
    ) -> None:
        self._kinds = {kind.name: kind for kind in TABS}
        tab, self.theme, self._states = read_query(arguments or {}, tuple(self._kinds))
        self.look = theme_of(self.theme)
        self.tabs: dict[str, Tab] = {}
        self._hosts = {"": Host(self.look, offer, turns, self._remember)}
        self._shown = ""
        if document is not None:
            self.host.adopt(document)
        self.rail = Rail(self.look, names=[[kind.name, kind.title] for kind in TABS], chosen=tab)
        self.side = pn.Column(sizing_mode="stretch_width", margin=0)
        self.main = pn.Column(sizing_mode="stretch_width", margin=0)
        self.rail.param.watch(lambda event: self.open(event.new), "chosen")
        self.open(tab)

    @property
    def host(self) -> Host:
        """The services of the tab that is looked at."""
        return self._hosts[self._shown]

    def open(self, name: str) -> None:
        """Show a tab; it is made when it is first asked for."""
        if name not in self._kinds:
            return
        self._shown = name
        if name not in self._hosts:
            self._hosts[name] = self._hosts[""].of(name)
        self.host.show()
        if name not in self.tabs:
            self.host.say("Opening …")
            try:
                self.tabs[name] = self._make(name)
            except Exception as error:  # the outermost door: a page without this tab says why
                self._say(name, error)
                return
            # controls stay and are hidden: panel forgets the dark theme of those that it puts back
            self.side.append(pn.Column(*self.tabs[name].side, sizing_mode="stretch_width", margin=0))
        tab = self.tabs[name]
        for controls, kept in zip(self.side.objects, self.tabs.values(), strict=True):
            controls.visible = kept is tab
        self.main.objects = [tab.main]
        self._remember(name, tab.values())

    def _make(self, name: str) -> Tab:
        """A tab in the state of the address; in its first state if that one cannot be shown."""
        values = self._states.get(name)
        try:
            return self._kinds[name](self.host, values)
        except Exception as error:  # the outermost door: whatever an address holds, a page opens
            if not values:
                raise
            made = self._kinds[name](self.host, None)
            self._say(name, error)
            return made

    def _say(self, name: str, error: Exception) -> None:
        """Show a sentence; what nobody foresaw is in the server's log as well."""
        if not isinstance(error, WorkbenchError | OSError):
            _log.error("the tab %s could not be opened", name, exc_info=error)
        self.host.fail(error)

    def close(self) -> None:
        """Stop computing."""
        self.host.close()

    def _remember(self, name: str, values: Mapping[str, Any]) -> None:
        self._states[name] = dict(values)
        self.rail.query = write_query(self.rail.chosen, self.theme, self._states)

    def template(self) -> pn.Template:
        """The page around it all."""
        style = (HERE / "shell.css").read_text(encoding="utf-8")
        for name in ("paper", "ink", "muted", "grid", "start"):
            style = style.replace(f" {name.upper()};", f" {getattr(self.look, name)};")
        made = pn.Template(
            (HERE / "shell.html").read_text(encoding="utf-8"),
            theme=DarkTheme if self.theme == "dark" else DefaultTheme,
        )
        made.add_variable("style", style)
        made.add_variable("scheme", self.theme)
        made.add_variable("other", "light" if self.theme == "dark" else "dark")
        for name, root in (
            ("rail", self.rail), ("side", self.side), ("status", self.host.status), ("main", self.main),
        ):  # fmt: skip
            made.add_panel(name, root)
        return made
