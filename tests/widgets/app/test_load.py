"""Several visitors at once: everybody is answered, nobody sees an error. Counts, not times."""

import asyncio
import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("panel")


@pytest.mark.slow
def test_visitors_drag_at_the_same_time_without_an_error():
    path = Path(__file__).parents[3] / "benchmarks" / "page_load.py"
    spec = importlib.util.spec_from_file_location("page_load", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    seen, memory = asyncio.run(module.load(30.0, 4))
    assert seen.errors == []
    assert seen.opened == 4
    assert len(seen.coarse) >= 4
    assert max(memory) < 1.2 * memory[0]
