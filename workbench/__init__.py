"""Latent-geometry workbench: lenses on the geometry of generative models.

The public names are imported from their homes when they are first asked for, so that the command line
and a recorded number do not wait for torch.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "record": "headless.record",
    "record_artifact": "headless.record",
    "show_progress": "headless.progress",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    return getattr(import_module(f"workbench.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted((*globals(), *_HOMES))
