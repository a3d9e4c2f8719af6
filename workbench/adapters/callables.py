"""Any network or function in memory as a score model, by what it is said to predict."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from workbench.adapters.settings import Settings, class_index, said
from workbench.adapters.wrap import WrappedModel, wrap
from workbench.errors import SettingError


def open_callable(source: Any, settings: Settings) -> WrappedModel:
    """Open a network or a function (x, t, condition) -> F, or one without a condition.

    Args:
        source: The callable; x of shape (n, *shape), t of shape (n,).
        settings: What was asked for; prediction, schedule and shape have no default here.

    Returns:
        The model.

    Raises:
        SettingError: If it cannot be called, or one of the three settings is missing.
    """
    if not callable(source):
        raise SettingError(
            f"a source of type {type(source).__name__}", "a path, a network, a pipeline or a function"
        )
    needed = {"prediction": "'velocity'", "schedule": "LINEAR", "shape": "(1, 28, 28)"}
    missing = {name: one for name, one in needed.items() if getattr(settings, name) is None}
    if missing:
        raise SettingError(
            f"a {type(source).__name__} without {', '.join(missing)}",
            "what it predicts, on which schedule, and the shape of a point",
            ", ".join(f"{name}={one}" for name, one in missing.items()),
        )
    prediction, schedule, shape = settings.prediction, settings.schedule, settings.shape
    assert prediction is not None
    assert schedule is not None
    assert shape is not None
    module = settings.ready(source, own=False) if isinstance(source, nn.Module) else source
    condition = class_index(settings.condition, settings.classes)
    return wrap(
        accepting_condition(module),
        prediction=prediction,
        schedule=schedule,
        shape=shape,
        sigma_range=settings.sigma_range,
        name=settings.name or getattr(source, "__name__", type(source).__name__),
        data_std=settings.data_std or 1.0,
        value_range=settings.value_range,
        classes=settings.classes,
        dtype=settings.dtype if isinstance(source, nn.Module) else None,
        null=settings.null,
        batch=settings.batch,
    ).given(condition, said(condition, settings.classes), guidance=settings.guidance)


@dataclass(frozen=True, slots=True)
class Alone:
    """A callable of (x, t) as one of (x, t, condition) that refuses any condition.

    Attributes:
        network: The network or function.
    """

    network: Callable[..., Any]

    def __call__(self, x: Tensor, t: Tensor, condition: Any) -> Tensor:
        if condition is not None:
            raise SettingError(f"condition {condition!r} for a network of (x, t)", "None", "condition=None")
        return self.network(x, t)


def accepting_condition(module: Callable[..., Any]) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """A callable of (x, t) or (x, t, condition) as one of (x, t, condition).

    Args:
        module: The callable.

    Returns:
        A callable of three arguments; one of two refuses any condition but None.
    """
    function = module.forward if isinstance(module, nn.Module) else module
    try:
        inspect.signature(function).bind(None, None, None)
        return module
    except TypeError:
        pass
    except ValueError:  # builtins have no signature
        return module

    return Alone(module)
