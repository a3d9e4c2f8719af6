"""Latent-geometry workbench: lenses on the geometry of generative models.

The names below are the public face; everything else is reached through its module. A name is imported
from its home when it is first asked for, so that neither the command line nor a recorded number waits
seconds for torch.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

_PUBLIC = {
    "adapters.open": ("open_model",),
    "cards": ("card",),
    "data": ("load_images",),
    "pictures": ("read_image",),
    "decoders": ("Decoder", "LatentModel"),
    "devices": ("resolve_device",),
    "doctor": ("examine",),
    "flows": ("generate", "invert", "log_likelihood", "transport"),
    "flows.plausibility": ("measure_plausibility",),
    "headless.progress": ("show_progress",),
    "headless.record": ("record", "record_artifact"),
    "lenses": ("LENSES",),
    "lenses.anisotropy": ("find_directions",),
    "lenses.conda": ("fit_conda", "trace"),
    "lenses.fisher": ("find_geodesic", "measure_metric_field"),
    "lenses.paths": ("find_path",),
    "models": ("Frame", "Landscape", "ScoreModel", "score"),
    "sampling": ("sample",),
    "schedules": ("Schedule",),
    "storage": ("load_result", "save_result"),
    "subjects": ("Subject", "open_subject"),
    "worlds": ("load_world",),
    "worlds.answers": ("known_answer", "measure_deviation"),
    "zoo": ("load_judge", "load_model"),
}
_HOMES = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"workbench.{_HOMES[name]}"), name)
    elif not name.startswith("_") and find_spec(f"workbench.{name}"):
        value = import_module(f"workbench.{name}")
    else:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
