"""What the path lens returns."""

from dataclasses import dataclass

from torch import Tensor

from workbench.curves import Curve
from workbench.errors import SettingError
from workbench.report import DB_PER_NAT, Estimate, Provenance, SolveReport
from workbench.strings.profile import Profile
from workbench.strings.reading import VAGUE, Barrier


@dataclass(frozen=True, slots=True)
class StartVerdict:
    """Where one start led.

    Attributes:
        name: The start in words.
        barrier: Its barrier, in the energy's unit.
        length: Its length.
        deviation: Largest distance of its images to the path returned, over that path's length.
        same: Whether it is the path returned.
    """

    name: str
    barrier: float
    length: float
    deviation: float
    same: bool


@dataclass(frozen=True, slots=True)
class PathResult:
    """A path between two points of a model, with the numbers to judge it by.

    Attributes:
        curve: The string, points (nodes, dim) in the data's unit at equal arc length; its ends are the
            caller's.
        regime: One of `REGIMES`.
        sigma: Noise level at which the string lies; 0 is clean data.
        schedule: Clock of the evolution; empty for a static string.
        energy: V at the images relative to the start, shape (nodes,): -log p where the model knows it,
            else the line integral of its score.
        energy_unit: "nats", or the landscape's unit.
        energy_sigma: Noise level at which the energies are taken. A network's score is too poor at its
            cleanest level, there energies are those of slightly blurred data.
        profile: Dense energy profile over arc length.
        barriers: Every neighbouring minimum and maximum along the string.
        barrier: Largest V on the splined string minus V(start).
        length: Arc length.
        spacing_ratio: Longest over shortest distance between neighbouring images.
        force_perp: Force across the string at the images, shape (nodes,); zero on a path of least energy.
        round_trip: Relative distance of each end to where the flow returns it, shape (2,); zeros for a static
            string, whose ends never move.
        walkers: Walkers of a principal curve, shape (nodes, walkers, dim); None otherwise.
        modes: Minima of V met along the string, shape (count, dim); None where they were not looked for.
        mode_energies: Their V relative to the start; None where V is not known.
        lerp: The straight segment between the ends.
        slerp: The arc between the ends about the origin.
        starts: Where each start led, in the order given.
        others: The strings of all starts, shape (starts, nodes, dim).
        same_path: Whether all starts led to the same path; None with a single start.
        trapped: Whether the string passes a stationary point of index above 1.
        share_in_model: Time of the same batched model calls alone over the time of the solve; None if not
            measured.
        report: How the solve went.
        provenance: Where the result came from.
    """

    curve: Curve
    regime: str
    sigma: float
    schedule: str
    energy: Tensor
    energy_unit: str
    energy_sigma: float
    profile: Profile
    barriers: tuple[Barrier, ...]
    barrier: Estimate
    length: Estimate
    spacing_ratio: float
    force_perp: Tensor
    round_trip: Tensor
    walkers: Tensor | None
    modes: Tensor | None
    mode_energies: Tensor | None
    lerp: Curve
    slerp: Curve
    starts: tuple[StartVerdict, ...]
    others: Tensor
    same_path: bool | None
    trapped: bool
    share_in_model: float | None
    report: SolveReport
    provenance: Provenance

    @property
    def db_per_dim(self) -> Tensor:
        """Log likelihood along the string relative to its start, in dB per dimension: -10 log10(e) V /
        dim.

        Raises:
            SettingError: If the energy is no negative log density, or not known.
        """
        if self.energy is None or self.energy_unit != "nats":
            raise SettingError(
                f"an energy in {self.energy_unit or 'no unit'}", "a log density, in nats", "result.energy"
            )
        return -DB_PER_NAT * self.energy / self.curve.points.shape[-1]

    @property
    def finding(self) -> str:
        """What the path says, in one sentence: regime, barrier and its place, length, and whether to believe
        it."""
        top = self.profile.energy.argmax()
        place = float(self.profile.arc[top] / self.profile.arc[-1].clamp_min(1e-300))
        rise = f"rises {self.barrier} above its start, at {place:.2f} of its length"
        if self.barrier.value <= 0:
            error = self.barrier.error
            rise = "never rises above its start" + (f" (± {error:.2g} {self.energy_unit})" if error else "")
        inner = max((barrier.height for barrier in self.barriers), default=0.0)
        if inner > 1.01 * max(self.barrier.value, 0.0):
            rise += f", and climbs {inner:.4g} {self.energy_unit} from one of its minima"
        straightness = self.length.value / max(float(self.lerp.length()), 1e-300)
        said = f"{self.regime}: {rise}; {self.length} long, {straightness:.3g} times the straight line"
        if not self.report.converged:
            return f"{said}; not to be relied on: {self.report.status}"
        error = self.barrier.error
        if error is not None and error > VAGUE * abs(self.barrier.value) > 0:
            return f"{said}; the barrier is vague: more nodes or steps sharpen it"
        return said
