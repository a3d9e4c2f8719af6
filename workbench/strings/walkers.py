r"""Principal curves by walkers: each image is the mean of a swarm that samples its own Voronoi cell.

At temperature T the walkers of image i sample :math:`p^{1/T}` by Langevin steps
:math:`x + h\,s(x) + \sqrt{2hT}\,\xi`, and a step that leaves the cell of the image is refused. Images
follow the running mean of their walkers and are spaced equally again; walkers left outside their moved
cell restart at their image. In cells thinner than a step nearly every step would be refused and nothing
would spread; there every other step is one across the string alone. (Trying the part across only after a
refusal is not reversible, and shifts the curve.) The limit is the principal curve :math:`\phi(s) = E[X
\mid X \text{ projects to } s]`, which an entropic shift sets apart from the path of least energy.

The iteration is unstable where images stand closer than two transverse standard deviations: a ripple of
wave number k grows once :math:`k\sigma_\perp > 1`. More images make it worse; keeping only the first
:math:`L/(\pi\sigma_\perp)` sine modes of the string about its chord removes exactly those ripples.

References:
    Vanden-Eijnden, Venturoli, "Revisiting the finite temperature string method", 2009,
        https://doi.org/10.1063/1.3130083
    Hastie, Stuetzle, "Principal curves", 1989, https://doi.org/10.1080/01621459.1989.10478797
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.curves import Curve, respace
from workbench.draws import draw_normal, seeded
from workbench.errors import SettingError
from workbench.integrators import Cancel, Progress
from workbench.report import SolveReport, Status
from workbench.splines import arc_knots, chords, tangents_at_nodes
from workbench.strings.meter import Meter
from workbench.types import Nodes, Points, Vectors

_LOOK_EVERY = 10  # rounds between two looks at widths and spacings, each a look at the device


def inside_cells(x: Tensor, images: Nodes) -> Tensor:
    """Which walkers are nearest to their own image, in a form that float32 can decide.

    Differences to the own image are compared, not squared distances to far points:
    2 (x - phi_i).(phi_j - phi_i) < |phi_j - phi_i|^2 for all j.

    Args:
        x: Walkers, shape (*batch, nodes, walkers, dim).
        images: Images, shape (*batch, nodes, dim).

    Returns:
        Shape (*batch, nodes, walkers), boolean.
    """
    apart = images.unsqueeze(-3) - images.unsqueeze(-2)  # (*batch, i, j, dim): phi_j - phi_i
    offset = x - images.unsqueeze(-2)
    return (2.0 * offset @ apart.mT <= apart.square().sum(-1).unsqueeze(-2)).all(-1)


def sine_filter(nodes: int, modes: int, like: Tensor) -> Tensor:
    """Projection of interior deviations from the chord onto the first sine modes, shape (nodes - 2, nodes
    - 2)."""
    i = torch.arange(1, nodes - 1, dtype=like.dtype, device=like.device)[:, None]
    k = torch.arange(1, min(modes, nodes - 2) + 1, dtype=like.dtype, device=like.device)
    waves = torch.sin(math.pi * i * k / (nodes - 1))
    return 2.0 / (nodes - 1) * waves @ waves.T


def smooth(points: Nodes, modes: int) -> Nodes:
    """The string with only the first sine modes of its deviation from the chord; ends untouched."""
    nodes = points.shape[-2]
    u = torch.linspace(0.0, 1.0, nodes, dtype=points.dtype, device=points.device).unsqueeze(-1)
    chord = torch.lerp(points[..., :1, :], points[..., -1:, :], u)
    inner = chord[..., 1:-1, :] + sine_filter(nodes, modes, points) @ (points - chord)[..., 1:-1, :]
    return torch.cat([points[..., :1, :], inner, points[..., -1:, :]], dim=-2)


class Swarm:
    """Walkers of one or several strings, and what they have been through.

    Attributes:
        walkers: Shape (*batch, nodes, walkers, dim).
        asked: Relaxation effort asked for.
        undone: Part of it that a limit on sub-steps left undone.
    """

    def __init__(self, walkers: Tensor) -> None:
        self.walkers = walkers
        self.asked = self.undone = 0.0
        self._kept = torch.zeros((), dtype=torch.float64, device=walkers.device)
        self._reset = torch.zeros_like(self._kept)
        self._moves = 0
        self._modes: int | None = None
        self._since = 0
        self._thin = False
        self._kept_modes = 0
        self._own = seeded(None)

    @classmethod
    def at(cls, images: Nodes, count: int) -> "Swarm":
        """Walkers that start at their images."""
        return cls(images.unsqueeze(-2).expand(*images.shape[:-1], count, images.shape[-1]).clone())

    def advance(
        self,
        images: Nodes,
        force: Callable[[Points], Vectors],
        h: float,
        temperature: float,
        *,
        steps: int = 1,
        eta: float = 0.1,
        modes: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Nodes:
        """Walk, average, respace, reset.

        Args:
            images: The string, shape (*batch, nodes, dim).
            force: Score at points (*any, dim).
            h: Langevin step.
            temperature: T.
            steps: Langevin steps before the images follow.
            eta: Share of the walkers' mean that images take over.
            modes: Sine modes to keep; None decides by the measured width, 0 keeps all.
            generator: Draws the noise; the swarm's own of seed 0 if None.

        Returns:
            The new string; its ends are untouched.
        """
        mean = torch.zeros_like(images)
        tangent = tangents_at_nodes(images, arc_knots(images)).unsqueeze(-2)
        stride = math.sqrt(2.0 * h * temperature)
        if self._since % _LOOK_EVERY == 0:
            self._thin = float(chords(images).mean()) < 2.0 * stride
        for _ in range(steps):
            x = self.walkers
            noise = draw_normal(x.shape, x, self._own if generator is None else generator)
            move = h * force(x) + stride * noise
            if self._thin and self._moves % 2:
                move = move - (move * tangent).sum(-1, keepdim=True) * tangent
            inside = inside_cells(x + move, images)
            self.walkers = torch.where(inside.unsqueeze(-1), x + move, x)
            self._kept += inside.double().mean()
            self._moves += 1
            mean = mean + self.walkers.mean(-2) / steps
        inner = torch.lerp(images[..., 1:-1, :], mean[..., 1:-1, :], eta)
        new = torch.cat([images[..., :1, :], inner, images[..., -1:, :]], dim=-2)
        keep = self._kept_modes = self._modes_to_keep(new) if modes is None else modes
        self._since += 1
        if keep and keep < new.shape[-2] - 2:
            new = smooth(new, keep)
        new = respace(new)
        outside = ~inside_cells(self.walkers, new)
        self._reset += outside.double().mean()
        self.walkers = torch.where(outside.unsqueeze(-1), new.unsqueeze(-2), self.walkers)
        return new

    def _modes_to_keep(self, images: Nodes) -> int:
        """Modes that the measured width allows, looked at every few rounds; 0 for all.

        Width and length are those of the string without its ripples, which would lengthen it.
        """
        if self._since % _LOOK_EVERY == 0 and images.shape[-2] > 5:
            plain = smooth(images, 3)
            width = self.width(plain)
            length = float(chords(plain).sum(-1).max())
            crowded = self._since > 0 and length / (images.shape[-2] - 1) < 2.0 * width
            self._modes = max(1, int(length / (math.pi * width))) if crowded else 0
        return self._modes or 0

    def width(self, images: Nodes) -> float:
        """Transverse standard deviation of the walkers about their own mean, one direction's worth.

        The mean over images of the widest direction in few dimensions, the root mean square over
        directions in many. One look at the device.
        """
        if images.shape[-2] < 3:
            return 0.0
        tangent = tangents_at_nodes(images, arc_knots(images))[..., 1:-1, None, :]
        inner = self.walkers[..., 1:-1, :, :]
        count, dim = inner.shape[-2], inner.shape[-1]
        centre = inner.mean(-2, keepdim=True) if count > 2 else images[..., 1:-1, None, :]
        offset = inner - centre
        offset = (offset - (offset * tangent).sum(-1, keepdim=True) * tangent).double()
        freedom = count - 1.0 if count > 2 else count
        if dim <= 16:
            spread = torch.linalg.eigvalsh(offset.mT @ offset)[..., -1].mean() / freedom
        else:
            spread = offset.square().sum((-2, -1)).mean() / freedom / (dim - 1)
        return math.sqrt(max(0.0, float(spread)))

    @property
    def modes(self) -> int:
        """Sine modes kept in the last round, 0 for all."""
        return self._kept_modes

    @property
    def acceptance(self) -> float:
        """Share of moves that stayed in their cell."""
        return float(self._kept) / max(self._moves, 1)

    @property
    def reset_rate(self) -> float:
        """Share of walkers restarted at their image in a round."""
        return float(self._reset) / max(self._moves, 1)

    def warnings(self, images: Nodes) -> tuple[str, ...]:
        """What a reader should know about the run."""
        said = []
        plain = smooth(images, 3) if images.shape[-2] > 5 else images
        width, spacing = self.width(plain), float(chords(plain).mean())
        if spacing < 2.0 * width:
            said.append(
                f"images stand {spacing / width:.2f} transverse widths apart, below 2: "
                f"ripples are filtered to the first {self._kept_modes or 'few'} sine modes; "
                "take fewer images to see the curve unfiltered"
            )
        if self.acceptance < 0.3:
            said.append(
                f"only {self.acceptance:.0%} of the walkers' moves stay in their cells: take smaller steps"
            )
        if self.undone > 0.01 * self.asked > 0:
            said.append(
                f"{self.undone / self.asked:.0%} of the asked effort was left undone by the limit on "
                "sub-steps: the curve lies between transport and the converged principal curve"
            )
        return tuple(said)


@dataclass(frozen=True, slots=True)
class PrincipalCurve:
    """A principal curve at one landscape.

    Attributes:
        curve: Mean of the string over the rounds after the first ones, points (*batch, nodes, dim).
        spread: Standard error of the images, by means over ten blocks of rounds, shape (*batch, nodes).
        walkers: Walkers at the end, shape (*batch, nodes, walkers, dim).
        acceptance: Share of moves that stayed in their cell.
        resets: Share of walkers reset a round.
        width: Measured transverse standard deviation of the walkers.
        modes: Sine modes kept at the end, 0 for all.
        report: Status and calls; the residual is the largest standard error over the length.
    """

    curve: Curve
    spread: Tensor
    walkers: Tensor
    acceptance: float
    resets: float
    width: float
    modes: int
    report: SolveReport


@torch.no_grad()
def find_principal_curve(
    force: Callable[[Points], Vectors],
    curve: Curve,
    *,
    temperature: float = 1.0,
    step: float,
    rounds: int = 500,
    steps: int = 10,
    discard: float = 0.25,
    walkers: int = 16,
    eta: float = 0.05,
    modes: int | None = None,
    tol: float = 1e-2,
    memory_budget: int | None = None,
    meter: Meter | None = None,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> PrincipalCurve:
    """The principal curve of p^(1/T) between fixed ends, by walkers in Voronoi cells.

    Args:
        force: grad log p at points (rows, dim).
        curve: First string, points (*batch, nodes, dim).
        temperature: T.
        step: Langevin step h, in the unit of 1 / curvature; keep its product with the curvature below 0.1.
        rounds: Rounds of `steps` Langevin steps, after each of which the images follow.
        steps: Langevin steps a round.
        discard: Share of the rounds left out of the mean.
        walkers: Walkers an image.
        eta: Share of the walkers' mean that an image takes over each round.
        modes: Sine modes to keep; None decides by the measured width, 0 keeps all.
        tol: Standard error over the length above which the curve counts as not converged.
        memory_budget: Bytes a call may take.
        meter: A meter to count on.
        generator: Draws the noise.
        progress: Called every few rounds.
        cancel: Asked every round.

    Returns:
        The curve with its statistical error. Not differentiable.

    Raises:
        SettingError: If a setting cannot be used.

    Cost: rounds x steps x nodes x walkers force evaluations.
    """
    if not (step > 0 and temperature >= 0 and rounds >= 10 and steps >= 1 and 0 <= discard < 1):
        raise SettingError(
            f"step={step}, temperature={temperature}, rounds={rounds}, steps={steps}, discard={discard}",
            "step > 0, T >= 0, 10 rounds, a step each, and 0 <= discard < 1",
        )
    meter = Meter(memory_budget) if meter is None else meter
    before = meter.points
    images, swarm = curve.points, Swarm.at(curve.points, walkers)
    first = int(discard * rounds)
    sums, counts = torch.zeros(10, *images.shape, dtype=images.dtype, device=images.device), [0] * 10
    status, done = Status.CONVERGED, 0
    for done in range(1, rounds + 1):
        if cancel is not None and cancel.is_set():
            status = Status.CANCELLED
            break
        images = swarm.advance(
            images,
            lambda rows: meter(force, rows),
            step,
            temperature,
            steps=steps,
            eta=eta,
            modes=modes,
            generator=generator,
        )
        if done > first:
            block = (done - first - 1) * 10 // (rounds - first)
            sums[block] += images
            counts[block] += 1
        if progress is not None and done % 10 == 0:
            progress(done / rounds, f"walkers, round {done} of {rounds}")
    used = [k for k in range(10) if counts[k]]
    if not used:
        sums[0], counts[0], used = images, 1, [0]
    means = torch.stack([sums[k] / counts[k] for k in used])
    mean = means.mean(0)
    deviation = (means - mean).square().sum(-1).sum(0) / max(len(used) - 1, 1) / len(used)
    spread = deviation.sqrt()
    residual = float((spread.amax(-1) / chords(mean).sum(-1)).max())
    warnings = list(swarm.warnings(images))
    if status is Status.CONVERGED and not residual < tol:
        status = Status.DIVERGED if residual != residual else Status.MAX_ITERATIONS
    return PrincipalCurve(
        curve=Curve.through(
            torch.cat([curve.points[..., :1, :], mean[..., 1:-1, :], curve.points[..., -1:, :]], -2)
        ),
        spread=spread,
        walkers=swarm.walkers,
        acceptance=swarm.acceptance,
        resets=swarm.reset_rate,
        width=swarm.width(images),
        modes=swarm.modes,
        report=SolveReport(
            status,
            done,
            residual,
            meter.points - before,
            (),
            tuple(warnings),
            f"largest standard error of an image over the length {residual:.2e}, tol {tol:g}",
        ),
    )
