r"""Any callable as a score model: a network in its own frame, with its own clock and its own kind of output.

A network that was trained on :math:`x = a(t)\,x_0 + s(t)\,\varepsilon` is asked at :math:`x = a y` and at
the clock reading of :math:`\sigma = s/a`; its output F becomes the posterior mean by what it predicts:

=========  ==========================================  ==============================================
predicts   F                                           D
=========  ==========================================  ==============================================
eps        the noise                                   y - sigma F
v          a eps - s x0                                (a x - s F) / (a^2 + s^2)
x0         the clean sample                            F
velocity   dx/dt in the schedule's own clock           (s' x - s F) / (s' a - a' s)
score      gradient of log p_t at x                    y + (s^2/a) F
edm        the inner network of Karras et al.          data_std^2/(sigma^2 + data_std^2) y + c_out F
=========  ==========================================  ==============================================

with :math:`c_{out} = \sigma\,\mathrm{data\_std}/\sqrt{\sigma^2 + \mathrm{data\_std}^2}`. Data and noise may
be exchanged in the clock's direction only: a velocity "data minus noise" with noise at t = 0 belongs to the
schedule `LINEAR`, "noise minus data" with data at t = 0 to `RECTIFIED`.

References:
    Karras, Aittala, Aila, Laine, "Elucidating the Design Space of Diffusion-Based Generative Models", 2022,
        table 1, https://arxiv.org/abs/2206.00364
    Salimans, Ho, "Progressive Distillation for Fast Sampling of Diffusion Models", 2022, appendix D (v),
        https://arxiv.org/abs/2202.00512
    Lipman, Chen, Ben-Hamu, Nickel, Le, "Flow Matching for Generative Modeling", 2023,
        https://arxiv.org/abs/2210.02747
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from workbench.adapters.networks import asking, network_of
from workbench.errors import ModelOutputError, SettingError, ShapeError
from workbench.models import Frame, check_sigma
from workbench.schedules import SCHEDULES, Schedule, rates, sigma_of, time_of
from workbench.types import Points, Sigma

PREDICTIONS = ("eps", "v", "x0", "velocity", "score", "edm")
"""What a network's output can mean; see the table above."""

_LOWEST, _HIGHEST = 0.004, 160.0  # default range of noise in units of the data's standard deviation


@dataclass(frozen=True, slots=True, eq=False)
class WrappedModel:
    """A foreign network as a score model; made by `wrap`.

    Attributes:
        module: Callable (x, t, condition) -> F with x of shape (n, *shape) and t of shape (n,).
        frame: What the model declares.
        schedule: The noising that the network was trained on.
        prediction: What its output means.
        condition: Passed on to the module unread; None for the null condition.
        told: What the network is told as a function of the clock reading.
        scaling: Factor of the network's input as a function of the clock reading.
        dtype: Floating type that the module computes in; None for that of the points.
        null: Condition that stands for "none" in classifier-free guidance and where none is bound.
        batch: Most points to a module call; None for all at once.
    """

    module: Callable[[Tensor, Tensor, Any], Tensor]
    frame: Frame
    schedule: Schedule
    prediction: str
    condition: Any = None
    told: Callable[[Tensor], Tensor] | None = None
    scaling: Callable[[Tensor], Tensor] | None = None
    dtype: torch.dtype | None = None
    null: Any = None
    batch: int | None = None

    def denoise(self, y: Points, sigma: Sigma) -> Points:
        """E[x0 | y] for y = x0 + sigma eps.

        Args:
            y: Noisy points, shape (*batch, dim), in the data's unit.
            sigma: Noise level inside the frame's range, one for all or broadcastable to *batch.

        Returns:
            Points of y's shape and dtype. Differentiable if the module is. One module call for each
            `batch` points, two with guidance.

        Raises:
            SettingError: If sigma is a number outside the frame's range. Tensors are not looked into.
            ShapeError: If the module's output has another shape than its input.
            ModelOutputError: If it is no tensor of real numbers.
        """
        check_sigma(sigma, self.frame, in_range=True)
        batch, dim = y.shape[:-1], y.shape[-1]
        work = y.dtype if self.dtype is None else self.dtype
        level = torch.as_tensor(sigma, dtype=work, device=y.device).expand(batch).reshape(-1)
        flat = y.to(work).reshape(-1, dim)
        size = self.batch or max(1, len(flat))
        parts = [self._pass(*part) for part in zip(flat.split(size), level.split(size), strict=True)]
        return torch.cat(parts).to(y.dtype).reshape(y.shape)

    @property
    def network(self) -> nn.Module | None:
        """The torch network behind it, itself and not a copy; None where only a function is known."""
        return network_of(self.module)

    def ask_network(self, network: nn.Module, x: Tensor, t: Tensor) -> Tensor:
        """The raw output of another network of the same make, asked in the way of this one.

        Args:
            network: A copy of `network`, possibly with other weights.
            x: Inputs as the network sees them, shape (n, *shape).
            t: What the network is told, shape (n,); see `met_at`.

        Returns:
            What it predicts, of x's shape, under the condition that is bound or else the null one.
        """
        return asking(self.module, network)(x, t, self.null if self.condition is None else self.condition)

    def met_at(self, sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """How the network meets noise levels.

        Args:
            sigma: Noise levels in the data's unit, shape (levels,).

        Returns:
            What it is told, and a and s of its input a x0 + s eps, each of sigma's shape.
        """
        t = time_of(self.schedule, sigma)
        a = self._factor(t)
        return (t if self.told is None else self.told(t)), a, a * sigma

    def gain_at(self, sigma: Tensor) -> Tensor:
        """How much of the network's output the posterior mean holds: D = gain F + a part without F.

        Args:
            sigma: Noise levels in the data's unit, shape (levels,).

        Returns:
            The factor of the output, of sigma's shape.
        """
        column = sigma.unsqueeze(-1)
        nothing = torch.zeros_like(column)
        return self._clean(nothing, column, time_of(self.schedule, sigma), nothing + 1.0).squeeze(-1)

    def given(self, condition: Any, words: str | None = None, *, guidance: float = 0.0) -> "WrappedModel":
        """The same model with another condition bound.

        Args:
            condition: Passed on to the module unread; None for the null condition.
            words: How figures print it; the condition itself if None.
            guidance: Weight w of classifier-free guidance, D + w (D - D_null); with any but 0 the field is
                the score of no density: its Jacobian is not symmetric.

        Raises:
            SettingError: For guidance without a condition to guide to.
        """
        if guidance != 0.0 and condition is None:
            raise SettingError(f"guidance {guidance:g} without a condition", "a condition", "condition=0")
        said = None if condition is None else (words or str(condition))
        frame = replace(self.frame, condition=said, guidance=float(guidance))
        return replace(self, condition=condition, frame=frame)

    def _pass(self, y: Tensor, level: Tensor) -> Tensor:
        """The posterior mean of flat points, shape (n, dim), at levels (n,)."""
        t = time_of(self.schedule, level)
        sigma = level.unsqueeze(-1)
        if self.condition is None:
            return self._clean(y, sigma, t, self._ask(y, t, self.null))
        bound = self._clean(y, sigma, t, self._ask(y, t, self.condition))
        if self.frame.guidance == 0.0:
            return bound
        free = self._clean(y, sigma, t, self._ask(y, t, self.null))
        return bound + self.frame.guidance * (bound - free)

    def _factor(self, t: Tensor) -> Tensor:
        """Factor of y in the network's input at clock readings t."""
        a = self.schedule(t)[0]
        return a if self.scaling is None else self.scaling(t) * a

    def _ask(self, y: Tensor, t: Tensor, condition: Any) -> Tensor:
        """Raw output at flat points, shape (n, dim)."""
        x = (self._factor(t).unsqueeze(-1) * y).reshape(-1, *self.frame.shape)
        output = self.module(x, t if self.told is None else self.told(t), condition)
        if not isinstance(output, Tensor) or not output.is_floating_point():
            came = output.dtype if isinstance(output, Tensor) else type(output).__name__
            raise ModelOutputError(
                f"an output of {came} from the module of {self.frame}",
                f"a tensor of real floating numbers, shape {tuple(x.shape)}",
                "wrap(lambda x, t, c: ...) around it that picks or makes this tensor",
            )
        if output.shape[:1] != x.shape[:1]:
            raise ShapeError(
                f"an output of shape {tuple(output.shape)} for an input of shape {tuple(x.shape)}",
                "equal shapes",
                "a module that gives one output for each input of the batch",
            )
        if output.shape != x.shape:
            raise ShapeError(
                f"an output of shape {tuple(output.shape)} for an input of shape {tuple(x.shape)}",
                "equal shapes",
                "wrap(lambda x, t, c: module(x, t, c)[:, :channels], ...) where a learned variance follows",
            )
        return output.reshape(y.shape)

    def _clean(self, y: Tensor, sigma: Tensor, t: Tensor, output: Tensor) -> Tensor:
        """The posterior mean from the raw output; sigma of shape (n, 1)."""
        if self.prediction == "x0":
            return output
        if self.prediction == "eps":
            return y - sigma * output
        if self.prediction == "edm":
            std = self.frame.data_std
            total = sigma**2 + std**2
            return std**2 / total * y + sigma * std * total.rsqrt() * output
        a, s, a_rate, s_rate = (value.unsqueeze(-1) for value in rates(self.schedule, t))
        if self.prediction == "v":
            return (a**2 * y - s * output) / (a**2 + s**2)
        if self.prediction == "score":
            return y + s * sigma * output
        return (s_rate * a * y - s * output) / (s_rate * a - a_rate * s)


def wrap(
    module: Callable[[Tensor, Tensor, Any], Tensor],
    *,
    prediction: str,
    schedule: Schedule,
    shape: tuple[int, ...],
    sigma_range: tuple[float, float] | None = None,
    name: str = "wrapped",
    data_std: float = 1.0,
    value_range: tuple[float, float] | None = None,
    classes: tuple[str, ...] = (),
    condition: Any = None,
    told: Callable[[Tensor], Tensor] | None = None,
    scaling: Callable[[Tensor], Tensor] | None = None,
    dtype: torch.dtype | None = None,
    null: Any = None,
    guidance: float = 0.0,
    batch: int | None = None,
    notes: tuple[str, ...] = (),
) -> WrappedModel:
    """Use any callable as a score model.

    The module is asked in its own frame x = a y and at its own time; whatever it predicts becomes E[x0 | y].
    An output that was clipped, thresholded or guided is no posterior mean, and its field no score: switch
    that off first.

    Args:
        module: Callable (x, t, condition) -> F; x of shape (n, *shape), t of shape (n,), F of x's shape.
        prediction: What F means; see the module's table.
        schedule: The noising that it was trained on, (a, s) as functions of its own clock.
        shape: Shape of one sample.
        sigma_range: Smallest and largest noise level at which it may be asked, in the data's unit. By
            default what the schedule reaches, cut to 0.004 and 160 times `data_std`.
        name: Its name, as figures print it.
        data_std: Standard deviation of one entry of the data.
        value_range: Lowest and highest value of a sample's entries; None if unbounded.
        classes: Names of the classes that it can be conditioned on.
        condition: Passed on to the module unread.
        told: What the network is told in place of the clock reading, e.g. ``lambda t: 1000 * t``.
        scaling: Further factor of the network's input, e.g. ``lambda t: (1 + t**2).rsqrt()`` on `VE`; preset
            for "edm" together with `told`.
        dtype: Floating type that the module computes in; None for that of the points.
        null: What the module is given where no condition is bound, and by guidance.
        guidance: Weight w of classifier-free guidance, D + w (D - D_null); with any but 0 the field is the
            score of no density, and every figure says so.
        batch: Most points to a module call; None for all at once.
        notes: Sentences for the reader, kept in the frame.

    Returns:
        The model.

    Raises:
        SettingError: For a module that cannot be called, an unknown prediction, a schedule that is none, an
            empty shape or range, or "edm" on another schedule than `VE`.

    Example:
        >>> from workbench.schedules import VE
        >>> nothing = lambda x, t, c: 0 * x
        >>> model = wrap(nothing, prediction="x0", schedule=VE, shape=(2,), sigma_range=(0.1, 10.0))
        >>> model.denoise(torch.ones(1, 2), 1.0)
        tensor([[0., 0.]])
    """
    _check_settings(module, schedule, shape, data_std, value_range)
    if prediction not in PREDICTIONS:
        raise SettingError(f"prediction {prediction!r}", f"one of {', '.join(PREDICTIONS)}")
    if prediction == "edm":
        if schedule.name != "ve":
            raise SettingError(
                f"prediction 'edm' on schedule {schedule.name!r}", "the schedule 've'", "schedule=VE"
            )
        told = told or (lambda t: t.log() / 4.0)
        scaling = scaling or (lambda t: (t**2 + data_std**2).rsqrt())
    low, high = _reach(schedule, data_std) if sigma_range is None else _pair("sigma_range", sigma_range)
    if not 0.0 <= low < high < math.inf:
        raise SettingError(
            f"sigma_range ({low:g}, {high:g})",
            "0 <= smallest < largest, both finite",
            "sigma_range=(0.002, 80.0)",
        )
    frame = Frame(name, tuple(shape), low, high, value_range, data_std, tuple(classes), notes=tuple(notes))
    model = WrappedModel(
        module, frame, schedule, prediction, None, told, scaling, dtype, null=null, batch=batch
    )
    return model.given(condition, guidance=guidance)


def _check_settings(module: Any, schedule: Any, shape: Any, data_std: Any, value_range: Any) -> None:
    """Refuse at the door what would fail later, far from its cause."""
    if not callable(module):
        raise SettingError(f"module={module!r}", "a callable (x, t, condition) -> tensor", "your network")
    if not isinstance(schedule, Schedule):
        known = ", ".join(known.name for known in SCHEDULES)
        raise SettingError(
            f"schedule={schedule!r}", "a Schedule", f"schedule_of(NAME), which knows {known}, or your own"
        )
    whole = isinstance(shape, tuple | list) and all(isinstance(n, int) and n > 0 for n in shape)
    if not whole or not shape:
        raise SettingError(f"shape={shape!r}", "positive lengths of a sample's axes", "shape=(1, 28, 28)")
    if not isinstance(data_std, int | float) or not 0.0 < data_std < math.inf:
        raise SettingError(f"data_std={data_std!r}", "a finite number above 0", "data_std=1.0")
    if value_range is not None:
        lowest, highest = _pair("value_range", value_range)
        if not lowest < highest:
            raise SettingError(
                f"value_range ({lowest:g}, {highest:g})",
                "lowest < highest, or None",
                "value_range=(-1.0, 1.0)",
            )


def _pair(name: str, pair: Any) -> tuple[float, float]:
    """Two numbers, whatever holds them."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise SettingError(f"{name}={pair!r}", "a pair of numbers")
    if not all(isinstance(number, Real) for number in pair):
        raise SettingError(f"{name}={pair!r}", "a pair of numbers")
    return pair[0], pair[1]


def _reach(schedule: Schedule, data_std: float) -> tuple[float, float]:
    """The noise levels at the ends of a schedule's clock, cut to a range that a network can have learnt."""
    ends = torch.tensor([schedule.t_data, schedule.t_noise], dtype=torch.float64)
    clean, noisy = sigma_of(schedule, ends).nan_to_num(nan=math.inf, posinf=math.inf).tolist()
    return max(clean, _LOWEST * data_std), min(noisy, _HIGHEST * data_std)
