"""Forward derivatives that several threads may ask for at once.

torch keeps the level of its forward mode, and the depth of nested `torch.func.jvp`, once for the whole
process: two threads inside `jvp` at the same time end each other's level, and both fail. Every forward
derivative of the workbench therefore goes through `jvp` here, which lets one thread in at a time. Nested
calls of one thread pass. Where derivatives are in a hot loop that threads share, use reverse mode instead;
its levels belong to the thread.
"""

import threading
from collections.abc import Callable
from typing import Any

from torch import func

LOCK = threading.RLock()
"""Held while a forward derivative is taken."""


def jvp(function: Callable[..., Any], primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    """Value and derivative of a function along a direction, one thread at a time.

    Args:
        function: A differentiable function of tensors, or of pytrees of them.
        primals: Its arguments.
        tangents: The direction, of the arguments' structure.

    Returns:
        (value, derivative along the direction). Costs about two to three calls of the function; another
        thread's forward derivative waits until this one is done.
    """
    with LOCK:
        value, derivative = func.jvp(function, primals, tangents)[:2]
    return value, derivative
