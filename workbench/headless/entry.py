"""What papermill finds under the name ``workbench``: the engine, imported when a notebook is executed.

papermill loads every registered engine while it is itself being imported; a module that imports papermill
cannot be loaded then. This one imports nothing.
"""

from typing import Any


class WorkbenchEngine:
    """Stands for `workbench.headless.engine.WorkbenchEngine` until it is called."""

    @classmethod
    def execute_notebook(cls, *arguments: Any, **settings: Any) -> Any:
        """Execute with the real engine; arguments and result are papermill's own."""
        from workbench.headless.engine import WorkbenchEngine as Engine

        return Engine.execute_notebook(*arguments, **settings)
