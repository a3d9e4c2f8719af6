"""Solvers whose inverse undoes them to rounding, each with what that needs as the partner of its points."""

from dataclasses import dataclass

from torch import Tensor

from workbench.checks import check_choice, check_number
from workbench.inversions.steps import Ddim, Noise, State, heun_increment


@dataclass(frozen=True, slots=True)
class Edict:
    """Two copies, each moved by the noise that the other one shows, then mixed.

    As published, the second copy asks the model about the first one, already moved, at the level it came from
    and in the frame of constant variance.

    Attributes:
        p: Share of itself that a copy keeps in the mixing; undoing it divides by p, so that the copies run
            apart over many steps unless p is near 1.
        apart: Largest distance of the copies, relative to their size, that is accepted.
    """

    p: float = 0.99
    apart: float = 0.5
    name: str = "edict"
    exact: bool = True
    partner: bool = True
    calls: int = 2

    def __post_init__(self) -> None:
        check_number("p", self.p, above=0.5, most=1.0, hint="0.99")
        check_number("apart", self.apart, above=0.0)

    def begin(self, eps: Noise, y: Tensor, levels: Tensor) -> State:
        """Two equal copies."""
        return y, y

    def scales(self, levels: Tensor, i: int) -> None:
        """The state is points and partner themselves."""
        return None

    def up(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """Undo the mixing, then the second copy's move, then the first one's."""
        (first, second), h, top = state, levels[i + 1] - levels[i], levels[i + 1]
        second = (second - (1 - self.p) * first) / self.p
        first = (first - (1 - self.p) * second) / self.p
        second = second + h * eps(_seen(first, levels, i), top)
        return first + h * eps(second, top), second

    def down(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """Move both, then mix."""
        (first, second), h, top = state, levels[i + 1] - levels[i], levels[i + 1]
        first = first - h * eps(second, top)
        second = second - h * eps(_seen(first, levels, i), top)
        first = self.p * first + (1 - self.p) * second
        return first, self.p * second + (1 - self.p) * first


@dataclass(frozen=True, slots=True)
class Bdia:
    """Bi-directional integration approximation, in the frame of constant variance z = y / sqrt(1 + sigma^2).

    The partner is the state one level nearer to the data.

    Attributes:
        gamma: Weight of the difference of the two steps; 1 is the published choice for exact inversion.
    """

    gamma: float = 1.0
    name: str = "bdia"
    exact: bool = True
    partner: bool = True
    calls: int = 1

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, above=0.0, most=1.0, hint="1.0")

    def begin(self, eps: Noise, y: Tensor, levels: Tensor) -> State:
        """A DDIM step gives the partner."""
        return y, Ddim().down(eps, (y, y), levels, len(levels) - 2)[0]

    def scales(self, levels: Tensor, i: int) -> tuple[Tensor, Tensor]:
        """The state is z, whose size stays that of the data and keeps its digits in single precision."""
        frame = _shrink(levels)
        return frame[i], frame[max(i - 1, 0)]

    def up(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """The sampler's formula solved for the noisier state; DDIM's step at the first level."""
        z, below = state
        high, low = self._steps(eps, z, levels, i)
        return (high if i == 0 else high + (below - low) / self.gamma), z

    def down(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """To the partner, and from both to what lies below it."""
        above, z = state
        if i == 0:
            return z, z
        high, low = self._steps(eps, z, levels, i)
        return z, self.gamma * (above - high) + low

    @staticmethod
    def _steps(eps: Noise, z: Tensor, levels: Tensor, i: int) -> tuple[Tensor, Tensor]:
        """DDIM steps from level i up and down, in the frame of constant variance."""
        frame, under = _shrink(levels), max(i - 1, 0)
        slope = eps(z / frame[i], levels[i])
        high, low = (
            (frame[j] / frame[i]) * z + frame[j] * (levels[j] - levels[i]) * slope for j in (i + 1, under)
        )
        return high, low


@dataclass(frozen=True, slots=True)
class Belm:
    """The explicit two-step method of smallest local error that runs both ways (O-BELM).

    The partner is the state one level nearer to the data.
    """

    name: str = "belm"
    exact: bool = True
    partner: bool = True
    calls: int = 1

    def begin(self, eps: Noise, y: Tensor, levels: Tensor) -> State:
        """A DDIM step gives the partner."""
        return y, Ddim().down(eps, (y, y), levels, len(levels) - 2)[0]

    def scales(self, levels: Tensor, i: int) -> None:
        """The state is points and partner themselves."""
        return None

    def up(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """The sampler's formula solved for the noisier state; DDIM's step at the first level."""
        y, below = state
        if i == 0:
            return Ddim().up(eps, state, levels, 0)[0], y
        h, r = _gaps(levels, i)
        return (below - (1 - r**2) * y + h * (1 + r) * eps(y, levels[i])) / r**2, y

    def down(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """To the partner, and from both to what lies below it."""
        above, y = state
        if i == 0:
            return y, y
        h, r = _gaps(levels, i)
        return y, r**2 * above + (1 - r**2) * y - h * (1 + r) * eps(y, levels[i])


@dataclass(frozen=True, slots=True)
class Reversible:
    """Any one-step method made reversible by a second copy u, started at u = y.

    With Phi_h the increment of the method: y' = zeta y + (1 - zeta) u + Phi_h(u), u' = u - Phi_{-h}(y').

    Attributes:
        step: The method, "euler" or "heun".
        zeta: Coupling; the way back divides by it.
    """

    step: str = "heun"
    zeta: float = 0.999
    name: str = "reversible"
    exact: bool = True
    partner: bool = True

    def __post_init__(self) -> None:
        check_choice("step", self.step, ("heun", "euler"))
        check_number("zeta", self.zeta, above=0.5, most=1.0, hint="0.999")

    @property
    def calls(self) -> int:
        """Two increments."""
        return 2 if self.step == "euler" else 4

    def begin(self, eps: Noise, y: Tensor, levels: Tensor) -> State:
        """Two equal copies."""
        return y, y

    def scales(self, levels: Tensor, i: int) -> None:
        """The state is points and partner themselves."""
        return None

    def up(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """The pair's own step."""
        y, u = state
        y = self.zeta * y + (1 - self.zeta) * u + self._increment(eps, u, levels[i], levels[i + 1])
        return y, u - self._increment(eps, y, levels[i + 1], levels[i])

    def down(self, eps: Noise, state: State, levels: Tensor, i: int) -> State:
        """Its algebraic inverse."""
        y, u = state
        u = u + self._increment(eps, y, levels[i + 1], levels[i])
        move = self._increment(eps, u, levels[i], levels[i + 1])
        return (y - (1 - self.zeta) * u - move) / self.zeta, u

    def _increment(self, eps: Noise, y: Tensor, start: Tensor, end: Tensor) -> Tensor:
        if self.step == "heun":
            return heun_increment(eps, y, start, end)
        return (end - start) * eps(y, start)


def _shrink(levels: Tensor) -> Tensor:
    """1 / sqrt(1 + sigma^2): the data's share in the frame of constant variance."""
    return (1 + levels.square()).rsqrt()


def _seen(first: Tensor, levels: Tensor, i: int) -> Tensor:
    """A copy at level i as the model is shown it at level i + 1 in the frame of constant variance."""
    frame = _shrink(levels)
    return first * (frame[i] / frame[i + 1])


def _gaps(levels: Tensor, i: int) -> tuple[Tensor, Tensor]:
    """The gap below level i, and its ratio to the gap above."""
    h = levels[i] - levels[i - 1]
    return h, h / (levels[i + 1] - levels[i])
