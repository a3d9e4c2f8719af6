"""Checks of settings at public doors: a wrong kind or value is refused in one sentence, before any work.

Zero, NaN and True are values like any other: none of them stands for a default.
"""

import math
from collections.abc import Callable
from numbers import Integral, Real

import torch

from workbench.errors import SettingError
from workbench.models import Landscape, ScoreModel
from workbench.schedules import SCHEDULES, Schedule

_LONGEST = 60  # characters of a value that a sentence quotes


def shown(name: str, value: object) -> str:
    """A setting as a sentence quotes it, on one line and short."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes no whole number of more than some thousand digits
        text = "a number of thousands of digits"
    return f"{name}={text if len(text) <= _LONGEST else text[:_LONGEST] + '...'}"


def check_count(
    name: str, value: object, *, least: int = 1, none: bool = False, hint: str = "", why: str = ""
) -> None:
    """Check that a setting is a whole number.

    Args:
        name: The setting's name.
        value: What came.
        least: Smallest value.
        none: Whether None stands for a default.
        hint: What to try.
        why: What the limit is for, appended to what was expected.

    Raises:
        SettingError: If it is anything else; True and 2.0 are no whole numbers.
    """
    if value is None and none:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise SettingError(shown(name, value), f"a whole number, at least {least}{_or_none(none)}{why}", hint)


def check_number(
    name: str,
    value: object,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
    none: bool = False,
    hint: str = "",
) -> None:
    """Check that a setting is a finite number in a range.

    Args:
        name: The setting's name.
        value: What came.
        above: Bound that is not itself in the range.
        least: Smallest value.
        below: Bound that is not itself in the range.
        most: Largest value.
        none: Whether None stands for a default.
        hint: What to try.

    Raises:
        SettingError: If it is anything else, NaN included.
    """
    if value is None and none:
        return
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not (math.isfinite(number) and above < number < below and least <= number <= most):
        bounds = [
            f"{word} {bound:g}"
            for word, bound in (("above", above), ("at least", least), ("below", below), ("at most", most))
            if math.isfinite(bound)
        ]
        raise SettingError(
            shown(name, value), " and ".join(["a finite number", *bounds]) + _or_none(none), hint
        )


def check_choice(name: str, value: object, choices: tuple[str, ...], *, none: bool = False) -> None:
    """Check that a setting is one of some names.

    Raises:
        SettingError: If it is not.
    """
    if not (value is None and none) and not (isinstance(value, str) and value in choices):
        raise SettingError(
            shown(name, value), f"one of {', '.join(choices)}{_or_none(none)}", f"{name}={choices[0]!r}"
        )


def check_switch(name: str, value: object, *, none: bool = False) -> None:
    """Check that a setting is True or False.

    Raises:
        SettingError: If it is not.
    """
    if not (value is None and none) and not isinstance(value, bool):
        raise SettingError(shown(name, value), f"True or False{_or_none(none)}")


def check_function(name: str, value: Callable[..., object] | object | None) -> None:
    """Check that a setting is a function or None.

    Raises:
        SettingError: If it is neither.
    """
    if value is not None and not callable(value):
        raise SettingError(shown(name, value), "a function, or None")


def check_schedule(schedule: object) -> None:
    """Check that a schedule is one, and say where to find the one that a name means.

    Raises:
        SettingError: If it is none.
    """
    if isinstance(schedule, Schedule):
        return
    known = isinstance(schedule, str) and schedule in [one.name for one in SCHEDULES]
    raise SettingError(
        shown("schedule", schedule),
        "a Schedule",
        f"workbench.schedules.schedule_of({schedule!r})" if known else "workbench.schedules.LINEAR",
    )


def check_run(generator: object, progress: object, cancel: object) -> None:
    """Check what a run draws from, reports to and is stopped by.

    Raises:
        SettingError: For a generator that is none of torch's, a progress that cannot be called, or a cancel
            that cannot be asked.
    """
    if generator is not None and not isinstance(generator, torch.Generator):
        raise SettingError(
            shown("generator", generator), "a torch.Generator", "torch.Generator().manual_seed(0)"
        )
    check_function("progress", progress)
    if cancel is not None and not callable(getattr(cancel, "is_set", None)):
        raise SettingError(shown("cancel", cancel), "something with is_set()", "threading.Event()")


def check_model(model: object, *, landscapes: bool = False) -> None:
    """Check that a model is a score model, or a landscape where those will do.

    Args:
        model: What came.
        landscapes: Whether a landscape will do.

    Raises:
        SettingError: If it is neither; names the likely slip.
    """
    if isinstance(model, ScoreModel) or (landscapes and isinstance(model, Landscape)):
        return
    wanted = "a score model or a landscape" if landscapes else "a score model"
    if isinstance(model, Landscape):
        raise SettingError(f"the landscape {model.name}", wanted, "its energy(x)")
    if isinstance(model, str):
        raise SettingError(shown("model", model), wanted, f"load_world({model!r}) or load_model({model!r})")
    inner = getattr(model, "model", None)
    hint = "its .model" if isinstance(inner, ScoreModel | Landscape) else "load_world('v_mixture')"
    raise SettingError(f"a model of type {type(model).__name__}", wanted, hint)


def _or_none(none: bool) -> str:
    return ", or None" if none else ""
