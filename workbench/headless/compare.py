"""When two recorded numbers agree: |now − old| ≤ atol + rtol·|old|, for each element of a vector.

The distance is told in units of the tolerance, so that 1 is the limit everywhere. NaN never agrees, not
even with itself: a number that is not one cannot say that nothing has changed.
"""

import math
from typing import Any

from workbench.headless.record import Record


def distance(old: Any, now: Any, *, rtol: float, atol: float) -> float:
    """How far apart two recorded values are, in units of the tolerance.

    Args:
        old: A float or a list of floats.
        now: The same, of a later run.
        rtol: Relative tolerance, of ``old``.
        atol: Absolute tolerance.

    Returns:
        0 if equal, 1 at the limit, inf if they cannot be compared.
    """
    if isinstance(old, list) or isinstance(now, list):
        if not (isinstance(old, list) and isinstance(now, list) and len(old) == len(now)):
            return math.inf
        return max((distance(o, n, rtol=rtol, atol=atol) for o, n in zip(old, now, strict=True)), default=0.0)
    if isinstance(old, str) or isinstance(now, str):
        return 0.0 if old == now else math.inf
    if math.isnan(old) or math.isnan(now):
        return math.inf
    if old == now:
        return 0.0
    tolerance = atol + rtol * abs(old)
    apart = abs(now - old)
    return apart / tolerance if tolerance > 0 and math.isfinite(apart) else math.inf


def disagreement(old: Record, now: Record) -> str:
    """Why a record does not agree with its reference, by the reference's own tolerances; "" if it does.

    Args:
        old: The reference.
        now: The record of a later run.

    Returns:
        One sentence or "".
    """
    if old.name != now.name:
        return f"record {now.name!r} where {old.name!r} was expected"
    if old.unit != now.unit:
        return f"{old.name} in {now.unit!r} where {old.unit!r} was expected"
    apart = distance(old.value, now.value, rtol=old.rtol, atol=old.atol)
    if apart <= 1:
        return ""
    return f"{old.name}: {now.value} where {old.value} was expected: {apart:.3g} tolerances apart"
