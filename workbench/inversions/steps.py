"""What a solver is, and the one-step methods, up and down the grid of noise levels; see the package.

A state is a pair: the points, and what exactness needs beside them (another copy, or the points one level
nearer to the data). `up` is the inverse of `down` exactly where the solver says so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from workbench.checks import check_count

Noise = Callable[[Tensor, Tensor], Tensor]
"""(points, level) -> expected noise, which is dy/dsigma."""

State = tuple[Tensor, Tensor]
"""Points and partner, both of shape (*batch, dim)."""


@runtime_checkable
class Solver(Protocol):
    """A way to climb from data to noise and back.

    A state at level i has its points there. `up` leads from level i to i + 1, `down` from i + 1 to i.
    """

    @property
    def name(self) -> str:
        """Its name in `SOLVERS`."""
        ...

    @property
    def exact(self) -> bool:
        """Whether `down` and `up` undo each other to rounding."""
        ...

    @property
    def partner(self) -> bool:
        """Whether the state needs its second tensor."""
        ...

    @property
    def calls(self) -> int:
        """Model calls of a step up, a point."""
        ...

    def begin(self, eps: Noise, y: Tensor, levels: Tensor) -> State:
        """Points and partner at the highest level of the grid for points that come without a past."""
        ...

    def scales(self, levels: Tensor, i: int) -> tuple[Tensor, Tensor] | None:
        """Factors from points and partner at level i to the state worked on; None for 1."""
        ...

    def up(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """From level i to level i + 1."""
        ...

    def down(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """From level i + 1 to level i."""
        ...


@dataclass(frozen=True, slots=True)
class Ddim:
    """Euler's step both ways, each with the noise seen where it starts; order 1."""

    name: str = "ddim"
    exact: bool = False
    partner: bool = False
    calls: int = 1

    def begin(self, eps: Noise, y: Tensor, levels: Tensor) -> State:
        """Nothing to add."""
        return y, y

    def scales(self, levels: Tensor, i: int) -> None:
        """The state is points and partner themselves."""
        return None

    def up(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """y + h eps(y) at the cleaner end."""
        y = state[0] + (levels[i + 1] - levels[i]) * eps(state[0], levels[i])
        return y, y

    def down(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """y - h eps(y) at the noisier end."""
        y = state[0] - (levels[i + 1] - levels[i]) * eps(state[0], levels[i + 1])
        return y, y


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """DDIM, its inverse solved by iteration: exact as far as the iteration contracts.

    Attributes:
        iterations: Evaluations after the first guess.
    """

    iterations: int = 5
    name: str = "fixed"
    exact: bool = False
    partner: bool = False

    def __post_init__(self) -> None:
        check_count("iterations", self.iterations)

    @property
    def calls(self) -> int:
        """The guess and the iterations."""
        return 1 + self.iterations

    def begin(self, eps: Noise, y: Tensor, levels: Tensor) -> State:
        """Nothing to add."""
        return y, y

    def scales(self, levels: Tensor, i: int) -> None:
        """The state is points and partner themselves."""
        return None

    def up(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """Solves z - h eps(z, noisier end) = y for z."""
        h = levels[i + 1] - levels[i]
        z = state[0] + h * eps(state[0], levels[i])
        for _ in range(self.iterations):
            z = state[0] + h * eps(z, levels[i + 1])
        return z, z

    def down(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """DDIM's sampler."""
        return Ddim().down(eps, state, levels, i)


@dataclass(frozen=True, slots=True)
class Heun:
    """The mean of the noise at both ends; order 2."""

    name: str = "heun"
    exact: bool = False
    partner: bool = False
    calls: int = 2

    def begin(self, eps: Noise, y: Tensor, levels: Tensor) -> State:
        """Nothing to add."""
        return y, y

    def scales(self, levels: Tensor, i: int) -> None:
        """The state is points and partner themselves."""
        return None

    def up(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """From the cleaner end."""
        y = state[0] + heun_increment(eps, state[0], levels[i], levels[i + 1])
        return y, y

    def down(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """The same from the noisier end."""
        y = state[0] + heun_increment(eps, state[0], levels[i + 1], levels[i])
        return y, y


def heun_increment(eps: Noise, y: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Heun's increment from level start to level end; two model calls a point."""
    first = eps(y, start)
    return 0.5 * (end - start) * (first + eps(y + (end - start) * first, end))
