"""What is known about a world without solving anything: the answers that every lens is held against."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from workbench.models import ExactScore, Landscape
from workbench.types import Nodes, Points


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """A minimum-energy path between the default ends of a world.

    Attributes:
        name: What tells it from the other routes of the same world.
        minima: Minima in the order in which the path visits them, ends included, shape (count, dim).
        saddles: Saddles of index 1 between them, shape (count - 1, dim); no rows where the path is level.
        barrier: Largest energy along the path minus the energy at its start.
        length: Euclidean length of the path.
    """

    name: str
    minima: Tensor
    saddles: Tensor
    barrier: float
    length: float

    def turned(self, frame: Tensor, name: str | None = None) -> "Route":
        """The same route with every point multiplied by an isometry, frame of shape (new dim, dim)."""
        return Route(
            name or self.name, self.minima @ frame.T, self.saddles @ frame.T, self.barrier, self.length
        )


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Known answers of a world at zero noise.

    Attributes:
        minima: All minima of the energy (modes of the density), shape (count, dim).
        saddles: Its saddles of index 1, shape (count, dim).
        start: Default start of a path, shape (dim,).
        end: Default end.
        routes: The known minimum-energy paths from start to end; the first one is the reference.
        window: What a picture should show of the first two coordinates: (x low, x high, y low, y high).
        levels: Smallest and largest noise level worth looking at; None where noise has no meaning.
    """

    minima: Tensor
    saddles: Tensor
    start: Tensor
    end: Tensor
    routes: tuple[Route, ...]
    window: tuple[float, float, float, float]
    levels: tuple[float, float] | None = None

    @property
    def barrier(self) -> float:
        """Barrier of the reference route, in the energy's unit."""
        return self.routes[0].barrier

    @property
    def length(self) -> float:
        """Length of the reference route."""
        return self.routes[0].length

    def turned(self, frame: Tensor) -> "Facts":
        """The facts after an isometry, frame of shape (new dim, dim) with orthonormal columns."""
        return Facts(
            self.minima @ frame.T,
            self.saddles @ frame.T,
            frame @ self.start,
            frame @ self.end,
            tuple(route.turned(frame) for route in self.routes),
            self.window,
            self.levels,
        )


@runtime_checkable
class KnownWorld(Protocol):
    """What every world offers, whether it is a density or a landscape."""

    @property
    def name(self) -> str:
        """Its name in `WORLDS`."""
        ...

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        ...

    @property
    def facts(self) -> Facts:
        """What is known about it."""
        ...

    def reference_path(self, route: str | None = None, *, nodes: int = 2001) -> Nodes:
        """A known minimum-energy path from start to end as a fine polyline of equal steps."""
        ...

    def hessian(self, x: Points) -> Tensor:
        """Second derivatives of the energy (a landscape) or of the log density (a density)."""
        ...


@runtime_checkable
class DensityWorld(KnownWorld, ExactScore, Protocol):
    """A score model whose answers are known."""


@runtime_checkable
class LandscapeWorld(KnownWorld, Landscape, Protocol):
    """An energy whose answers are known."""


World = DensityWorld | LandscapeWorld
"""A model or a landscape whose answers are known; `isinstance` takes it."""
