"""The bench: the same two points under all lenses, as one state with its answers, its table and its file."""

from workbench.bench.answers import BenchLens, Ellipse, Inquiry, LensAnswer, Line, answer
from workbench.bench.bench import Bench, BenchEvent, BenchResult
from workbench.bench.cache import CacheUse, ContentCache, content_key
from workbench.bench.compare import Comparison, Row, compare
from workbench.bench.lenses import BENCH_LENSES
from workbench.bench.state import BenchState, load_view, read_view, save_view, state_of, state_of_cell

__all__ = [
    "BENCH_LENSES",
    "Bench",
    "BenchEvent",
    "BenchLens",
    "BenchResult",
    "BenchState",
    "CacheUse",
    "Comparison",
    "ContentCache",
    "Ellipse",
    "Inquiry",
    "LensAnswer",
    "Line",
    "Row",
    "answer",
    "compare",
    "content_key",
    "load_view",
    "read_view",
    "save_view",
    "state_of",
    "state_of_cell",
]
