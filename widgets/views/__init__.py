"""Views: one box of controls, map and figures a lens. A new view is one more entry here."""

from widgets.views.anisotropy import AnisotropyExplorer
from widgets.views.bench import BenchExplorer
from widgets.views.conda import ConDAExplorer
from widgets.views.fisher import FisherExplorer
from widgets.views.paths import PathExplorer

VIEWS: tuple[type, ...] = (PathExplorer, FisherExplorer, AnisotropyExplorer, ConDAExplorer, BenchExplorer)

__all__ = ["VIEWS", "AnisotropyExplorer", "BenchExplorer", "ConDAExplorer", "FisherExplorer", "PathExplorer"]
