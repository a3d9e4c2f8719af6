"""The tabs of a page, one a lens. A new tab is one more entry here."""

from typing import Any, Protocol

from widgets.app.host import Host
from widgets.app.tabs.anisotropy import AnisotropyTab
from widgets.app.tabs.bench import BenchTab
from widgets.app.tabs.conda import CondaTab
from widgets.app.tabs.fisher import FisherTab
from widgets.app.tabs.paths import PathsTab


class Tab(Protocol):
    """What a page needs of a tab.

    Attributes:
        name: Its name in the address.
        title: Its title.
        side: What stands in the sidebar.
        main: What stands beside it.
    """

    name: str
    title: str
    side: list[Any]
    main: Any

    def __init__(self, host: Host, values: dict[str, Any] | None) -> None: ...

    def values(self) -> dict[str, Any]:
        """What a reload needs."""
        ...


TABS: tuple[type[Tab], ...] = (BenchTab, PathsTab, FisherTab, AnisotropyTab, CondaTab)

__all__ = ["TABS", "AnisotropyTab", "BenchTab", "CondaTab", "FisherTab", "PathsTab", "Tab"]
