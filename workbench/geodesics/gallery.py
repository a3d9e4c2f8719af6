"""Spaces with known metrics by name: where notebooks and views start, and what their ends are by default."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.fields import Window
from workbench.geodesics.known import torus, two_gaussians_plane
from workbench.metrics import Metric, families, half_plane, hessian
from workbench.worlds.ising import Ising
from workbench.worlds.tasep import Tasep, phase_of

SPACES = ("tasep", "ising", "two_gaussians", "torus", "half_plane", "gaussian", "burg", "slice")
"""Names that `open_space` knows."""
ZOOMED = ("two_gaussians", "slice")
"""Those whose boundaries are looked at closely."""


@dataclass(frozen=True, slots=True)
class Space:
    """A metric of two coordinates with a window to look at it through.

    Attributes:
        name: Its name in `SPACES`.
        metric: The metric.
        x: Lowest and highest first coordinate of the window.
        y: Lowest and highest second coordinate.
        start: Default start, shape (2,), float64.
        end: Default end.
        phases: Labels of known phases at points (count, 2); None if it has none.
    """

    name: str
    metric: Metric
    x: tuple[float, float]
    y: tuple[float, float]
    start: Tensor
    end: Tensor
    phases: Callable[[Tensor], Tensor] | None = None

    def point(self, text: str, default: Tensor) -> Tensor:
        """The point that a text "x,y" names; the default if it is empty.

        Raises:
            SettingError: If it is no pair of numbers.
        """
        if not text.strip():
            return default
        try:
            values = [float(part) for part in text.split(",")]
        except ValueError as error:
            raise SettingError(f"the point {text!r}", 'two numbers "x,y"') from error
        if len(values) != 2:
            raise SettingError(f"the point {text!r}", 'two numbers "x,y"')
        return torch.tensor(values, dtype=default.dtype, device=default.device)

    def zoomed(self, middle: str, zoom: int) -> "Space":
        """The space with its window halved about a point, and default ends where they were in the window.

        Args:
            middle: The point "x,y"; the middle of the window if empty.
            zoom: How often it is halved; 0 leaves the space as it is.

        Raises:
            SettingError: If the middle is no pair of numbers.
        """
        spans = self.start.new_tensor([self.x, self.y])
        centre = self.point(middle, spans.mean(dim=1)).tolist()
        if zoom <= 0:
            return self
        window = Window(self.x, self.y).zoomed(centre[0], centre[1], zoom)
        fresh = self.start.new_tensor([window.x, window.y])
        share = (fresh[:, 1] - fresh[:, 0]) / (spans[:, 1] - spans[:, 0])
        start, end = (fresh[:, 0] + share * (point - spans[:, 0]) for point in (self.start, self.end))
        return replace(self, x=window.x, y=window.y, start=start, end=end)


def open_space(
    name: str,
    *,
    sites: int = 60,
    size: int = 4,
    width: float = 0.5,
    plane: Metric | None = None,
    device: torch.device | str = "cpu",
) -> Space:
    """The space of that name.

    Args:
        name: One of `SPACES`.
        sites: Sites of the driven chain ("tasep").
        size: Side of the lattice ("ising").
        width: Width of each Gaussian ("two_gaussians").
        plane: Metric of a plane through latents with corners (0, 0), (1, 0) and (0, 1) ("slice").
        device: Where its default ends lie.

    Returns:
        The space with its window and default ends.

    Raises:
        SettingError: If no space has that name, or it lacks its metric.
    """
    makers: dict[str, Callable[[], tuple]] = {
        "tasep": lambda: (
            Tasep(sites).rate_metric(),
            (0.05, 0.95),
            (0.05, 0.95),
            (0.15, 0.6),
            (0.6, 0.15),
            phase_of,
        ),
        "ising": lambda: (Ising(size, size).metric(), (0.1, 0.7), (-0.5, 0.5), (0.2, -0.3), (0.5, 0.3)),
        "two_gaussians": lambda: (
            two_gaussians_plane(width),
            (-2.0, 2.0),
            (-2.0, 2.0),
            (-1.0, -0.8),
            (1.2, 0.8),
            lambda z: (z[:, 0] > 0.0).long(),
        ),
        "torus": lambda: (torus(), (-3.2, 3.2), (-0.5, 3.0), (0.0, 0.0), (0.0, 2.5)),
        "half_plane": lambda: (half_plane(), (-1.0, 4.0), (0.05, 3.0), (0.0, 1.0), (3.0, 0.5)),
        "gaussian": lambda: (families.gaussian(), (-2.0, 4.0), (0.1, 3.0), (-1.0, 0.5), (3.0, 0.5)),
        "burg": lambda: (hessian.burg(), (0.1, 2.5), (0.2, 3.5), (0.2, 3.0), (2.0, 0.5)),
    }
    if plane is not None:
        makers["slice"] = lambda: (plane, (0.0, 1.0), (0.0, 1.0), (0.1, 0.1), (0.8, 0.7))
    if name not in makers:
        known = SPACES if plane is not None else SPACES[:-1]
        raise SettingError(f"space {name!r}", f"one of {', '.join(known)}", "open_space('tasep')")
    metric, x, y, start, end, *rest = makers[name]()
    first, last = (torch.tensor(point, dtype=torch.float64, device=device) for point in (start, end))
    return Space(name, metric, x, y, first, last, *rest)
