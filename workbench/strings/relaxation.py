r"""Relaxation of a string along the score at one noise level, in steps that stiffness and spacing bound.

Relaxation is stiff: :math:`-\nabla s_t \le 1/s(t)^2` always, and almost every direction of an image has
just that curvature. An explicit Euler step beyond :math:`2/\lambda` does not fail but returns a smooth wrong
string; hence Chebyshev steps, and a measured margin.
"""

import math
from numbers import Real

import torch
from torch import Tensor

from workbench.checks import check_number, shown
from workbench.curves import respace
from workbench.errors import SettingError
from workbench.integrators import Cancel, take_step
from workbench.models import ExactScore, ScoreModel, fields_along
from workbench.splines import arc_knots, tangents_at_nodes
from workbench.strings.chebyshev import chebyshev_step, curvature_along, stable_reach, stages_for
from workbench.strings.clock import Clock, Gamma
from workbench.strings.meter import Meter

RELAXATIONS: dict[str, float] = {"euler": 2.0, "heun": 2.0, "rkc": math.inf}
"""Relaxation methods and the product of step and curvature at which they lose stability."""

_MOST_STAGES = 8  # Chebyshev stages between two respacings
_SLACK = 1.25  # a learned score may be stiffer than any true one can be
_MOST_SUBSTEPS = 1_000_000  # sub-steps of a whole run beyond which a gamma is taken for a slip
_USUAL_CURVATURE = 400.0  # 1/s^2 where the usual window closes; what such a count assumes beyond it


def longest_product(method: str, cap: float) -> float:
    """Largest product of step and curvature between two respacings, `cap` where a method has no stages."""
    return stable_reach(_MOST_STAGES) if method == "rkc" else cap


class Fields:
    """The model's fields in the clock's frame, one call for both."""

    def __init__(self, model: ScoreModel, clock: Clock, meter: Meter) -> None:
        self.model, self.clock, self.meter = model, clock, meter

    def _both(self, rows: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        return fields_along(self.model, rows, t, self.clock.stepped)

    def velocity(self, x: Tensor, t: Tensor) -> Tensor:
        """b at points (*batch, dim)."""
        return self.meter(self._both, x, t)[0]

    def score(self, x: Tensor, t: Tensor) -> Tensor:
        """s at points (*batch, dim)."""
        return self.meter(self._both, x, t)[1]

    def carry(self, x: Tensor, t: Tensor, end: Tensor, solver: str) -> Tensor:
        """One transport step."""
        return take_step(lambda at, state: (self.velocity(state[0], at),), (x,), t, end, solver)[0]


class Relaxation:
    """Moves interior images along the score, in steps that the stiffness and the spacing bound."""

    def __init__(self, fields: Fields, method: str, cap: float, substeps: int | None) -> None:
        self.fields, self.method, self.cap, self.substeps = fields, method, cap, substeps
        self.margins: list[Tensor] = []
        self.taken = 0  # sub-steps so far
        self.probe: Tensor | None = None

    def __call__(
        self, x: Tensor, effort: float, levels: tuple[float, float], t: Tensor, cancel: Cancel | None = None
    ) -> Tensor:
        """The strings after an effort, respaced after every step; each string has its own steps."""
        shape = x.shape
        x = x.reshape(-1, *shape[-2:])
        exact = isinstance(self.fields.model, ExactScore)
        bound = (1.0 if exact else _SLACK) / levels[1] ** 2 if levels[1] > 0 else math.inf
        if bound > 1e4 and exact:
            bound = self.bound(x, levels[1], t)
        longest = longest_product(self.method, self.cap)
        count = self.substeps or max(1, math.ceil(effort * bound / longest))
        left = [effort] * x.shape[0]
        while max(left) > 0 and not (cancel is not None and cancel.is_set()):
            self.taken += 1
            if self.taken > _MOST_SUBSTEPS:
                raise SettingError(
                    f"a relaxation of more than {_MOST_SUBSTEPS:,} sub-steps, now at noise {levels[1]:.3g}",
                    "a field that the images can follow",
                    "a smaller gamma, or a window that closes earlier",
                )
            moving = [k for k, rest in enumerate(left) if rest > 0]
            forces = self.fields.score(x[moving][:, 1:-1].contiguous(), t)
            steps = [effort / count] * len(moving)
            if self.substeps is None:
                steps = [
                    min(h, most) for h, most in zip(steps, _slide_bounds(x[moving], forces), strict=True)
                ]
            steps = [_even(left[k], h) for k, h in zip(moving, steps, strict=True)]
            stages = [min(_MOST_STAGES, stages_for(h * bound)) if self.method == "rkc" else 0 for h in steps]
            for same in sorted(set(stages)):
                rows = [k for k, number in enumerate(stages) if number == same]
                strings = [moving[k] for k in rows]
                h = torch.tensor([steps[k] for k in rows], dtype=x.dtype, device=x.device)[:, None, None]
                new = self._step(x[strings], forces[rows], h, same, t)
                x = x.index_copy(0, torch.tensor(strings, device=x.device), respace(new))
            for k, h in zip(moving, steps, strict=True):
                left[k] = max(0.0, left[k] - h) if left[k] - h > 1e-9 * effort else 0.0
        return x.reshape(shape)

    def _step(self, x: Tensor, first: Tensor, h: Tensor, stages: int, t: Tensor) -> Tensor:
        """Strings (rows, nodes, dim) after one step h, shape (rows, 1, 1), along the score."""

        def pull(inner: Tensor) -> Tensor:
            return self.fields.score(inner, t)

        inner = x[:, 1:-1]
        if self.method == "rkc":
            new, curvature = chebyshev_step(pull, inner, h, stages, first)
            limit = stable_reach(stages)
        elif self.method == "heun":
            second = pull(inner + h * first)
            curvature = curvature_along(inner, first, second, h * first)
            new, limit = inner + 0.5 * h * (first + second), RELAXATIONS["heun"]
        else:
            curvature = self._measured(x, t, 1)
            new, limit = inner + h * first, RELAXATIONS["euler"]
        self.margins.append((h[..., 0] * curvature).max() / limit)
        return torch.cat([x[:, :1], new, x[:, -1:]], dim=1)

    def bound(self, x: Tensor, s: float, t: Tensor) -> float:
        """Largest curvature to reckon with: 1/s^2, or what is measured where the model is cheap and exact."""
        bound = 1.0 / s**2 if s > 0 else math.inf
        if isinstance(self.fields.model, ExactScore):
            bound = min(bound, 1.5 * float(self._measured(x, t, 6 if self.probe is None else 2).max()))
        return bound

    def _measured(self, x: Tensor, t: Tensor, count: int) -> Tensor:
        """Curvature at the images by power iterations that go on from step to step."""
        inner = x[..., 1:-1, :]
        if self.probe is None or self.probe.shape != inner.shape:
            noise = torch.randn(inner.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
            self.probe = (noise / torch.linalg.vector_norm(noise, dim=-1, keepdim=True)).to(inner)
        force = self.fields.score(inner, t)
        reach = torch.finfo(x.dtype).eps ** 0.4 * torch.linalg.vector_norm(x.diff(dim=-2), dim=-1).mean()
        size = torch.zeros_like(inner[..., 0])
        for _ in range(count):
            after = self.fields.score(inner + reach * self.probe, t)
            size = curvature_along(inner, force, after, reach * self.probe)
            bend = (force - after) / reach
            # shifted so that a falling direction, however steep, does not hide the stiffest rising one
            bend = bend + torch.linalg.vector_norm(bend, dim=-1, keepdim=True) * self.probe
            norm = torch.linalg.vector_norm(bend, dim=-1, keepdim=True)
            self.probe = bend / norm.clamp_min(torch.finfo(x.dtype).tiny)
        return size

    def worst(self) -> float:
        """Largest measured share of the stable limit over the run."""
        return float(torch.stack(self.margins).max()) if self.margins else 0.0


def _slide_bounds(x: Tensor, forces: Tensor) -> list[float]:
    """For each string the step in which neighbouring images slide apart or together by a factor e at most."""
    knots = arc_knots(x)
    pull = (forces * tangents_at_nodes(x, knots)[:, 1:-1]).sum(-1)
    if pull.shape[-1] < 2:
        return [math.inf] * x.shape[0]
    rate = (pull.diff(dim=-1).abs() / knots[:, 1:-1].diff(dim=-1).to(pull.dtype)).amax(-1)
    return (1.0 / rate.clamp_min(torch.finfo(rate.dtype).tiny)).tolist()


def _even(left: float, step: float) -> float:
    """A step no longer than asked that divides what is left evenly."""
    return left / math.ceil(left / max(step, 1e-9 * left) - 1e-9)


def check_substeps(clock: Clock, efforts: list[float], longest: float, gamma: Gamma) -> None:
    """Refuse a strength whose relaxation would take forever, before it begins."""
    count = 0.0
    for step, effort in enumerate(efforts, start=1):
        s = clock.levels(step)[1]
        count += effort * min(1.0 / s**2 if s > 0 else math.inf, _USUAL_CURVATURE) / longest
    if count > _MOST_SUBSTEPS:
        name = "a gamma function" if callable(gamma) else f"gamma={gamma:g}"
        raise SettingError(
            f"{name}, which takes some {count:.1g} relaxation sub-steps",
            f"at most {_MOST_SUBSTEPS:,} in all",
            "gamma=7.0",
        )


def check_relaxation(gamma: object, window: object, quench: object, temperature: object, eta: object) -> None:
    """Check how strongly, when and how warm a string relaxes.

    Args:
        gamma: Strength, a number or a function of the clock's share.
        window: Shares of the clock.
        quench: Share of the clock; None for a default.
        temperature: T; None for a default.
        eta: Share of the walkers' mean.

    Raises:
        SettingError: If one of them cannot be used.
    """
    if not callable(gamma):
        check_number("gamma", gamma, least=0.0, hint="gamma=7.0")
    shares = list(window) if isinstance(window, tuple | list) else []
    numbers = [float(one) for one in shares if isinstance(one, Real) and not isinstance(one, bool)]
    if len(shares) != 2 or len(numbers) != 2 or not 0 <= numbers[0] < numbers[1] <= 1:
        raise SettingError(
            shown("window", window), "two rising shares of the clock from 0 to 1", "window=(0.1, 0.95)"
        )
    check_number("quench", quench, above=0.0, most=1.0, none=True, hint="quench=1.0")
    check_number("temperature", temperature, least=0.0, none=True, hint="temperature=1.0")
    check_number("eta", eta, above=0.0, most=1.0, hint="eta=0.1")
