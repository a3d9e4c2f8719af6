"""Fields: a scalar measured on a grid over a plane of the space, the ground that paths are drawn on.

Row 0 is the lowest ordinate and column 0 the lowest abscissa; values sit at the grid's points, the first and
last of which lie on the window's edges.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.embeddings import Section
from workbench.errors import SettingError
from workbench.types import Coords, Points, Scalars


@dataclass(frozen=True, slots=True)
class Window:
    """A rectangle of a picture's coordinates.

    Attributes:
        x: Lowest and highest abscissa.
        y: Lowest and highest ordinate.
    """

    x: tuple[float, float]
    y: tuple[float, float]

    def holds(self, x: float, y: float) -> bool:
        """Whether a point of the picture lies inside."""
        return self.x[0] <= x <= self.x[1] and self.y[0] <= y <= self.y[1]

    def zoomed(self, x: float, y: float, times: int) -> "Window":
        """The window halved a number of times about a point, which becomes its middle; itself for 0."""
        if times == 0:
            return self
        half = [0.5 * (side[1] - side[0]) * 0.5**times for side in (self.x, self.y)]
        return Window((x - half[0], x + half[0]), (y - half[1], y + half[1]))


@dataclass(frozen=True, slots=True)
class Field:
    """A scalar on a regular grid over a window.

    Attributes:
        values: Shape (rows, columns); row 0 at the lowest ordinate.
        window: Where the grid lies.
        title: What the scalar is.
        unit: Its unit in words.
    """

    values: Tensor
    window: Window
    title: str
    unit: str = ""

    def limits(self, share: float = 0.6) -> tuple[float, float]:
        """A range for colours: from the lowest value to the quantile `share`, blind to non-finite values.

        Energies have walls that would use up the whole scale; what lies beyond them is drawn in the last
        colour.
        """
        finite = self.values[torch.isfinite(self.values)].double()
        if finite.numel() == 0:
            return 0.0, 1.0
        low, high = float(finite.min()), float(torch.quantile(finite, share))
        return low, high if high > low else low + 1.0


def frame_window(coords: Coords, *, margin: float = 0.25, aspect: float | None = None) -> Window:
    """The rectangle that holds points of a picture with a margin.

    Args:
        coords: Shape (count, 2).
        margin: Empty share on each side, of the larger side.
        aspect: Width over height that the shorter side is widened to; None leaves it.

    Returns:
        The window; a single point gets a square of side 1.
    """
    low, high = coords.min(0).values.double(), coords.max(0).values.double()
    size = high - low
    pad = margin * (float(size.max()) or 0.5)
    centre, size = 0.5 * (low + high), size + 2.0 * pad
    width, height = float(size[0]), float(size[1])
    if aspect is not None:
        width, height = max(width, aspect * height), max(height, width / aspect)
    (a, b) = (float(centre[0]), float(centre[1]))
    return Window((a - width / 2, a + width / 2), (b - height / 2, b + height / 2))


def measure_field(
    energy: Callable[[Points], Scalars],
    section: Section,
    window: Window,
    *,
    columns: int = 128,
    rows: int = 128,
    title: str,
    unit: str = "",
    like: Tensor | None = None,
    chunk: int = 65536,
) -> Field:
    """Evaluate a scalar on a grid of a section.

    Args:
        energy: Points (count, dim) to scalars (count,).
        section: The plane, with two axes.
        window: The part of the plane.
        columns: Grid points along the abscissa.
        rows: Grid points along the ordinate.
        title: What the scalar is.
        unit: Its unit in words.
        like: A tensor whose dtype and device the grid takes; default dtype on the CPU if None.
        chunk: Points to a batch.

    Returns:
        The field. Cost: rows * columns evaluations.

    Raises:
        SettingError: If the section has not two axes or the grid fewer than two points a side.
    """
    if len(section.axes) != 2 or min(columns, rows) < 2:
        raise SettingError(
            f"{len(section.axes)} axes and a grid of {rows} x {columns}", "two axes, at least 2 x 2"
        )
    like = torch.empty(0, dtype=torch.get_default_dtype()) if like is None else like
    x = torch.linspace(*window.x, columns, dtype=like.dtype, device=like.device)
    y = torch.linspace(*window.y, rows, dtype=like.dtype, device=like.device)
    grid = torch.cartesian_prod(y, x).flip(-1)
    values = torch.cat([energy(section.decode(part)) for part in grid.split(chunk)])
    return Field(values.reshape(rows, columns), window, title, unit)
