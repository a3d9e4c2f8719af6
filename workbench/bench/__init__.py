"""The bench: the same two points under all lenses, as one state with its answers, its table and its file.

Names are imported from their homes when they are first asked for, so that a view file can be read without
waiting for torch.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "BENCH_LENSES": "lenses",
    "Bench": "bench",
    "BenchEvent": "results",
    "BenchLens": "answers",
    "BenchResult": "results",
    "BenchState": "state",
    "CacheUse": "cache",
    "Comparison": "compare",
    "ContentCache": "cache",
    "Ellipse": "answers",
    "Filmstrip": "export",
    "Inquiry": "answers",
    "LensAnswer": "answers",
    "Line": "answers",
    "Row": "compare",
    "Scrub": "scrub",
    "Trust": "trust",
    "answer": "answers",
    "cite": "citations",
    "content_key": "cache",
    "export_filmstrip": "export",
    "filmstrip_of": "export",
    "load_view": "state",
    "metric_of": "geodesics",
    "read_view": "state",
    "save_view": "state",
    "scrub_levels": "scrub",
    "state_of": "state",
    "state_of_cell": "state",
    "strip_of": "export",
    "trust_of": "trust",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'workbench.bench' has no attribute {name!r}")
    value = getattr(import_module(f"workbench.bench.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
