r"""The lattice Boltzmann equation in the plane: populations of a channel with a cylinder, and their step.

Populations are stored as deviations from rest, and the equilibrium is linear in the six numbers
(rho - 1, m_x, m_y, m_x^2/rho, m_y^2/rho, m_x m_y/rho), so that one step of all flows is two small matrix
products and nine shifted copies.

References:
    Qian, d'Humières, Lallemand, "Lattice BGK Models for Navier-Stokes Equation", 1992,
        https://doi.org/10.1209/0295-5075/17/6/001
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

VELOCITIES = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
WEIGHTS = (4 / 9, *(1 / 9,) * 4, *(1 / 36,) * 4)
_OPPOSITE = (0, 3, 4, 1, 2, 7, 8, 5, 6)


@dataclass(frozen=True, slots=True)
class WakeGrid:
    """The channel, in lattice units.

    Attributes:
        columns: Nodes along the stream.
        rows: Nodes across it; the sides are periodic.
        diameter: Diameter D of the cylinder, whose centre lies at (columns / 5, rows / 2 - 0.2).
        speed: Speed U of the inflow; well below the lattice's speed of sound, 0.577.
    """

    columns: int = 180
    rows: int = 90
    diameter: float = 9.0
    speed: float = 0.1

    @property
    def centre(self) -> tuple[float, float]:
        """Centre of the cylinder; a little off the middle row, so that shedding begins by itself."""
        return self.columns / 5, self.rows / 2 - 0.2

    @property
    def probe(self) -> tuple[int, int]:
        """Node of the probe: three diameters downstream of the centre."""
        return round(self.centre[0] + 3 * self.diameter), round(self.centre[1])

    def relaxation(self, reynolds: float) -> float:
        """Relaxation time tau of a Reynolds number."""
        return 3.0 * self.speed * self.diameter / reynolds + 0.5


class Lattice:
    """Populations of several flows and their one step.

    Nodes of a flow lie in one row, columns of the channel one after another, each with a ghost node at both
    ends that repeats the other side; a shift by c_i is then a shift of the whole row.
    """

    def __init__(
        self, reynolds: tuple[float, ...], grid: WakeGrid, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.grid, flows = grid, len(reynolds)
        self.high = grid.rows + 2
        nodes = grid.columns * self.high
        options = {"dtype": dtype, "device": device}
        c = torch.tensor(VELOCITIES, **options)
        w = torch.tensor(WEIGHTS, **options)
        squares = w[:, None] * (4.5 * c.square() - 1.5)
        equilibrium = torch.cat(
            [w[:, None], 3 * w[:, None] * c, squares, (9 * w * c[:, 0] * c[:, 1])[:, None]], 1
        )
        relaxation = torch.tensor([1.0 / grid.relaxation(value) for value in reynolds], **options)
        kept = (1 - relaxation)[:, None, None] * torch.eye(9, **options)
        self.collide = torch.cat([kept, relaxation[:, None, None] * equilibrium], 2)  # (flows, 9, 15)
        moments = torch.stack([torch.ones_like(w), c[:, 0], c[:, 1]])
        self.moments = moments.expand(flows, 3, 9).contiguous()
        self.state = torch.zeros(flows, 15, nodes, **options)
        self.after = torch.zeros(flows, 9, nodes, **options)
        self.inverse = torch.empty(flows, nodes, **options)
        self.across = torch.empty_like(self.inverse)
        self.along = torch.empty_like(self.inverse)
        x, y = torch.meshgrid(
            torch.arange(grid.columns, device=device),
            torch.arange(-1, grid.rows + 1, device=device),
            indexing="ij",
        )
        offset = (x - grid.centre[0]).square() + (y - grid.centre[1]).square()
        self.solid = (offset < (grid.diameter / 2) ** 2).flatten().nonzero().squeeze(1)
        self.opposite = torch.tensor(_OPPOSITE, device=device)
        self.shifts = [a * self.high + b for a, b in VELOCITIES]
        self.probe = grid.probe[0] * self.high + grid.probe[1] + 1
        speed = torch.full((nodes,), grid.speed, **options)
        wave = 1e-3 * grid.speed * torch.sin(2 * math.pi * y.to(dtype) / grid.rows).flatten()
        self.state[:, :9] = equilibrium @ _features(speed, wave)
        self.inlet = equilibrium @ _features(speed[:1], torch.zeros_like(speed[:1]))

    def measure(self) -> tuple[Tensor, Tensor]:
        """Fill in the six numbers of every node; velocities along and across the stream, (flows, nodes)."""
        state = self.state
        state[:, 9:12] = torch.bmm(self.moments, state[:, :9])
        torch.add(state[:, 9], 1.0, out=self.inverse)
        self.inverse.reciprocal_()
        m_x, m_y = state[:, 10], state[:, 11]
        torch.mul(m_x, self.inverse, out=self.along)
        torch.mul(m_y, self.inverse, out=self.across)
        torch.mul(self.along, m_x, out=state[:, 12])
        torch.mul(self.across, m_y, out=state[:, 13])
        torch.mul(self.along, m_y, out=state[:, 14])
        return self.along, self.across

    def advance(self) -> None:
        """Collide, bounce back, stream, and set inlet and outlet; `measure` comes first."""
        populations, after = self.state[:, :9], self.after
        torch.bmm(self.collide, self.state, out=after)
        met = populations.index_select(2, self.solid).index_select(1, self.opposite)
        after.index_copy_(2, self.solid, met)
        shape = (len(after), 9, self.grid.columns, self.high)
        walls = after.view(shape)
        walls[..., 0], walls[..., -1] = walls[..., -2], walls[..., 1]
        for i, shift in enumerate(self.shifts):
            if shift > 0:
                populations[:, i, shift:] = after[:, i, :-shift]
            elif shift < 0:
                populations[:, i, :shift] = after[:, i, -shift:]
            else:
                populations[:, i] = after[:, i]
        channel = self.state.view(shape[0], 15, *shape[2:])[:, :9]
        channel[:, :, 0] = self.inlet
        channel[:, :, -1] = channel[:, :, -2]

    def picture(self, u: Tensor, v: Tensor, pool: int, shows: str) -> Tensor:
        """Pooled speed or vorticity, (flows, rows, columns) with the stream from left to right."""
        shape = (len(u), self.grid.columns, self.high)
        u, v = u.view(shape)[..., 1:-1] / self.grid.speed, v.view(shape)[..., 1:-1] / self.grid.speed
        if shows == "speed":
            field = torch.hypot(u, v)
        else:
            slope_v = F.pad((v[:, 2:] - v[:, :-2]) / 2, (0, 0, 1, 1))
            slope_u = (u.roll(-1, 2) - u.roll(1, 2)) / 2
            field = (slope_v - slope_u) * self.grid.diameter
        return F.avg_pool2d(field[:, self._first_column(pool) :].transpose(1, 2), pool)

    def picture_shape(self, pool: int) -> tuple[int, int]:
        """Rows and columns of a picture."""
        return self.grid.rows // pool, (self.grid.columns - self._first_column(pool)) // pool

    def _first_column(self, pool: int) -> int:
        front = self.grid.centre[0] - self.grid.diameter / 2
        return max(0, int(front // pool) * pool)


def _features(u: Tensor, v: Tensor) -> Tensor:
    """The six numbers of nodes at density one, shape (6, nodes)."""
    return torch.stack([torch.zeros_like(u), u, v, u * u, v * v, u * v])
