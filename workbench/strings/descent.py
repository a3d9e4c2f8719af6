r"""One level of relaxation at a fixed landscape: descent across the string, sliding along it.

Two bounds hold the step h. The stiffest curvature :math:`\lambda` at the images:
:math:`h\lambda \le 0.8`. And the slide :math:`c = h|\tau\cdot F|`: a ripple of wave number k is multiplied by
:math:`e^{ikc} - ikc - h\lambda` each iteration, since it rides along the string and tilts the tangent, so
that the shortest ripples grow once c exceeds about half a segment. Images on steep slopes therefore take
smaller steps.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.curves import respace
from workbench.errors import ModelOutputError
from workbench.splines import arc_knots, slope_matrix, spline_weights
from workbench.strings.meter import Meter
from workbench.types import Nodes, Points, Vectors

Force = Callable[[Points], Vectors]
Align = Callable[[Nodes], Nodes]
Precondition = Callable[[Points, Vectors], Vectors]

_REACH = 0.5  # segments an image may slide along the string in one iteration, momentum included
_PROBE_EVERY = 8  # iterations between two power iterations for the curvature


@dataclass(slots=True)
class State:
    """Strings in motion, shape (strings, nodes, dim), and their memory."""

    points: Tensor
    along: Tensor  # displacement along the string in the last iteration, (strings, nodes)
    across: Tensor  # and across it, (strings, nodes, dim)
    probe: Tensor  # power-iteration vectors, (strings, nodes, dim)
    stiffness: Tensor  # largest curvature seen at the images, (strings,)
    moved: Tensor  # last displacements relative to length, (strings, 4), newest first

    def pick(self, rows: Tensor) -> "State":
        return State(*(getattr(self, name)[rows] for name in self.__slots__))


def _probe_like(points: Tensor) -> Tensor:
    """Fixed pseudo-random directions, the same for every string so that a batch equals a loop."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, *points.shape[1:])
    noise = torch.randn(shape, generator=generator, dtype=torch.float64).to(points)
    return noise.expand_as(points) / noise.square().sum(-1, keepdim=True).sqrt()


def _size(vectors: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vectors, dim=-1)


class Descent:
    """One level of relaxation over a batch of strings."""

    def __init__(
        self,
        force: Force,
        meter: Meter,
        *,
        step: float,
        momentum: float,
        free_ends: bool,
        align: Align | None,
        precondition: Precondition | None,
        density: Callable[[Nodes], Tensor] | None,
        stiffness: float | None,
    ) -> None:
        self.force, self.meter, self.step, self.momentum = force, meter, step, momentum
        self.free_ends, self.align, self.precondition, self.density = free_ends, align, precondition, density
        self.stiffness = stiffness
        self.spent = 0  # evaluations an image since the last look

    def begin(self, points: Tensor) -> State:
        state = State(
            points,
            torch.zeros_like(points[..., 0]),
            torch.zeros_like(points),
            _probe_like(points),
            torch.full_like(points[:, 0, 0], self.stiffness or 0.0),
            torch.full((points.shape[0], 4), torch.inf, dtype=points.dtype, device=points.device),
        )
        if self.stiffness is None:
            forces = self.evaluate(points)
            for _ in range(4):
                self._feel(state, forces)
        return state

    def evaluate(self, points: Tensor) -> Tensor:
        """Forces at the images that move; zero at fixed ends."""
        self.spent += 1
        inner = points if self.free_ends else points[:, 1:-1]
        forces = self.meter(self.force, inner.contiguous())
        return forces if self.free_ends else torch.nn.functional.pad(forces, (0, 0, 1, 1))

    def _feel(self, state: State, forces: Tensor) -> None:
        """One power iteration on force differences, at every image of every string."""
        scale = _size(state.points.diff(dim=-2)).mean(-1)
        reach = (torch.finfo(state.points.dtype).eps ** 0.4 * scale).clamp_min(1e-30)[:, None, None]
        bend = (forces - self.evaluate(state.points + reach * state.probe)) / reach
        if self.precondition is not None:
            bend = self.precondition(state.points, bend)
        size = _size(bend)
        state.probe = torch.where(
            size[..., None] > 0, bend / size.clamp_min(torch.finfo(size.dtype).tiny)[..., None], state.probe
        )
        state.stiffness = torch.maximum(size.amax(-1), 0.7 * state.stiffness)

    def advance(self, state: State, iteration: int) -> tuple[State, Tensor]:
        """One iteration; returns the new state and the forces at the old points."""
        points = state.points
        forces = self.evaluate(points)
        if self.stiffness is None and iteration % _PROBE_EVERY == _PROBE_EVERY - 1:
            self._feel(state, forces)
        knots = arc_knots(points)
        slopes = slope_matrix(knots)
        tangent = slopes.to(points.dtype) @ points
        tangent = tangent / _size(tangent).clamp_min(torch.finfo(points.dtype).tiny)[..., None]
        pull = (forces * tangent).sum(-1)
        aside = forces - pull[..., None] * tangent
        if self.precondition is not None:
            aside = self.precondition(points, aside)
            aside = aside - (aside * tangent).sum(-1, keepdim=True) * tangent
            pull = (self.precondition(points, forces) * tangent).sum(-1)
        spacing = knots[:, -1:].to(points.dtype) / (points.shape[-2] - 1)
        tiny = torch.finfo(points.dtype).tiny
        h = self.step / state.stiffness.clamp_min(tiny)[:, None]
        h = torch.minimum(h, _REACH * (1.0 - self.momentum) * spacing / pull.abs().clamp_min(tiny))
        along = self.momentum * state.along + h * pull
        across = self.momentum * state.across + h[..., None] * aside
        limit = 4.0 * spacing / _size(across).clamp_min(torch.finfo(points.dtype).tiny)
        across = across * limit.clamp_max(1.0)[..., None]
        if not self.free_ends:
            along = torch.nn.functional.pad(along[:, 1:-1], (1, 1))
            across = torch.nn.functional.pad(across[:, 1:-1], (0, 0, 1, 1))
        total = knots[:, -1:]
        # no image may pass an end or land on it, as it would beside an end that is no minimum
        at = (knots + along.to(knots.dtype)).maximum(0.1 * knots).minimum(total - 0.1 * (total - knots))
        new = spline_weights(knots, at, slopes=slopes).to(points.dtype) @ points + across
        if self.free_ends:  # the spline ends where its ends are: they slide on along their tangents
            slide = along[:, (0, -1), None] * tangent[:, (0, -1)]
            new = torch.cat([new[:, :1] + slide[:, :1], new[:, 1:-1], new[:, -1:] + slide[:, 1:]], dim=1)
        else:
            new = torch.cat([points[:, :1], new[:, 1:-1], points[:, -1:]], dim=1)
        if self.align is not None:
            new = self.align(new)
        new = respace(new, weights=None if self.density is None else self.density(new))
        change = _size(new - points).amax(-1) / knots[:, -1].to(points.dtype)
        moved = torch.cat([change[:, None], state.moved[:, :-1]], dim=1)
        return State(new, along, across, state.probe, state.stiffness, moved), forces

    def left(self, moved: Tensor) -> Tensor:
        """Estimated relative distance to the fixed point: the geometric tail of the last displacements."""
        rate = (moved[:, 0] / moved[:, 3]).clamp(1e-9, 0.98**3) ** (1.0 / 3.0)
        tail = moved[:, 0].maximum(moved[:, 1]) * rate / (1.0 - rate)
        tail = torch.where(moved[:, :2].amax(-1) == 0, 0.0, tail)
        return torch.where(moved[:, 3].isinf(), torch.inf, tail)


def check_forces(forces: Tensor, rows: Tensor, where: str = "") -> None:
    """Name the first string and image at which a force is not finite.

    Args:
        forces: Shape (strings, nodes, dim).
        rows: Index of each string in the user's batch.
        where: Words to end the sentence with, e.g. the noise level.

    Raises:
        ModelOutputError: If any force is not finite.
    """
    bad = ~torch.isfinite(forces).all(-1)
    if bool(bad.any()):
        string, image = (int(i) for i in bad.nonzero()[0])
        raise ModelOutputError(
            f"a non-finite force at image {image} of string {int(rows[string])}{where}",
            "finite forces at every image",
            "another start, or float64",
        )
