r"""Velocity fields of flow matching, from flow_matching and torchcfm, on either clock.

Both libraries put the noise at t = 0 and the data at t = 1, and train on
:math:`x_t = \alpha_t x_1 + \sigma_t x_0` with the velocity :math:`\dot\alpha_t x_1 + \dot\sigma_t x_0`. A
field of the other clock belongs to `RECTIFIED`, which goes from noise at 1 to data at 0.

A path that adds noise of its own, :math:`N(t x_1 + (1 - t) x_0, \sigma^2)`, is the schedule with
:math:`s = \sqrt{(1-t)^2 + \sigma^2}`, whose velocity the same formula gives. Where noise and data are coupled
in pairs (mini-batch optimal transport, Schroedinger bridges), the velocity still carries one into the other,
but no formula turns it into a score, and such a model is refused.

References:
    Lipman, Havasi, Holderrieth et al., "Flow Matching Guide and Code", 2024, https://arxiv.org/abs/2412.06264
    Tong et al., "Improving and Generalizing Flow-Based Generative Models with Minibatch Optimal Transport",
        2024, table 1, https://arxiv.org/abs/2302.00482
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from workbench.adapters.settings import Settings, class_index, said
from workbench.adapters.wrap import WrappedModel, wrap
from workbench.errors import SettingError
from workbench.schedules import LINEAR, TRIGONOMETRIC, Schedule

_COUPLED = ("ExactOptimalTransportConditionalFlowMatcher", "SchrodingerBridgeConditionalFlowMatcher")


def open_field(source: Any, settings: Settings) -> WrappedModel:
    """Open a velocity field.

    Args:
        source: A network of (x, t), (t, x), (t, x, y) or of x with t as its last entry, a wrapper of either
            library, or any callable of those.
        settings: What was asked for. The schedule is `LINEAR` (noise at t = 0) by default and may be one of
            the workbench, a path or scheduler of flow_matching, or a matcher of torchcfm.

    Returns:
        The model.

    Raises:
        SettingError: If the shape is missing, the field cannot be called, or its noise and data are coupled.
    """
    if settings.shape is None:
        raise SettingError("a velocity field without shape", "the shape of one point", "shape=(2,)")
    if not callable(source):
        raise SettingError(f"a field of type {type(source).__name__}", "a network in memory")
    network: Any = settings.ready(source, own=False) if isinstance(source, nn.Module) else source
    condition = class_index(settings.condition, settings.classes)
    return wrap(
        _in_order(network, settings.shape),
        prediction=settings.prediction or "velocity",
        schedule=field_schedule(settings.schedule),
        shape=settings.shape,
        sigma_range=settings.sigma_range,
        name=settings.name or type(source).__name__,
        data_std=settings.data_std or 1.0,
        value_range=settings.value_range,
        classes=settings.classes,
        dtype=settings.dtype if isinstance(source, nn.Module) else None,
        null=settings.null,
        batch=settings.batch,
    ).given(condition, said(condition, settings.classes), guidance=settings.guidance)


def field_schedule(path: Any) -> Schedule:
    """The schedule that a path, a scheduler or a matcher trains on.

    Args:
        path: A schedule, a `flow_matching` path or scheduler, a `torchcfm` matcher, or None for `LINEAR`.

    Returns:
        The schedule, with the noise at t = 0 for the two libraries.

    Raises:
        SettingError: For a matcher that couples noise and data, or anything else.
    """
    if path is None:
        return LINEAR
    if isinstance(path, Schedule):
        return path
    name, home = type(path).__name__, type(path).__module__.split(".")[0]
    if home == "flow_matching":
        scheduler = getattr(path, "scheduler", path)

        def levels(t: Tensor) -> tuple[Tensor, Tensor]:
            made = scheduler(t)
            return made.alpha_t.to(t), made.sigma_t.to(t)

        return Schedule(f"flow_matching {type(scheduler).__name__}", levels, 0.0, 1.0)
    if home == "torchcfm":
        return _matched(name, float(path.sigma))
    raise SettingError(
        f"schedule of type {name}", "a Schedule, a path of flow_matching or a matcher of torchcfm", "LINEAR"
    )


def _matched(name: str, width: float) -> Schedule:
    """The schedule of a matcher of torchcfm."""
    if name in _COUPLED:
        raise SettingError(
            f"a field trained by {name}, which pairs noise with data",
            "independent noise: no formula turns a coupled velocity into a score",
            "a field trained by ConditionalFlowMatcher, or integrating this one with your own code",
        )
    if name == "TargetConditionalFlowMatcher":
        return Schedule("target matching", lambda t: (t, 1.0 - (1.0 - width) * t), 0.0, 1.0)
    if name == "VariancePreservingConditionalFlowMatcher":
        if width == 0.0:
            return TRIGONOMETRIC
        return Schedule("wide trigonometric", lambda t: _widened(*TRIGONOMETRIC(t), width), 0.0, 1.0)
    if width == 0.0:
        return LINEAR
    return Schedule("wide linear", lambda t: _widened(t, 1.0 - t, width), 0.0, 1.0)


def _widened(a: Tensor, s: Tensor, width: float) -> tuple[Tensor, Tensor]:
    """Coefficients with further independent noise of that width."""
    return a, torch.sqrt(s.square() + width**2)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of (x, t), (t, x), (t, x, y) or [x, t] as a callable (x, t, condition).

    Attributes:
        network: The field.
        names: Names of its positional arguments.
        shape: Shape of one point.
    """

    network: Callable[..., Tensor]
    names: tuple[str, ...]
    shape: tuple[int, ...]

    def __call__(self, x: Tensor, t: Tensor, condition: Any) -> Tensor:
        keywords = _keywords(condition, self.names, x)
        if len(self.names) < 2 and not keywords and "t" not in self.names:
            return self.network(torch.cat([x.flatten(1), t.unsqueeze(-1)], dim=-1)).reshape(-1, *self.shape)
        turned = self.names[:1] == ("t",)
        return self.network(t, x, **keywords) if turned else self.network(x, t, **keywords)


def _in_order(network: Callable[..., Tensor], shape: tuple[int, ...]) -> Field:
    """A field with its arguments told apart by their names."""
    function = network.forward if isinstance(network, nn.Module) else network
    names = tuple(
        name
        for name, one in inspect.signature(function).parameters.items()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    )
    return Field(network, names, shape)


def _keywords(condition: Any, names: tuple[str, ...], x: Tensor) -> dict[str, Any]:
    """The network's own arguments for a condition; a class number goes to `y`."""
    if condition is None:
        return {}
    if isinstance(condition, Mapping):
        return dict(condition)
    if isinstance(condition, int) and "y" in names:
        return {"y": torch.full((len(x),), condition, device=x.device)}
    raise SettingError(
        f"condition {condition!r} for a field of ({', '.join(names)})",
        "a class number where it takes y, or a mapping of its own arguments",
        "condition={'y': ...}",
    )
