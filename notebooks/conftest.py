"""``pytest --nbval notebooks`` compares records by their tolerances, and refuses what was never run."""

from workbench.headless.nbval import pytest_collection_modifyitems

__all__ = ["pytest_collection_modifyitems"]
