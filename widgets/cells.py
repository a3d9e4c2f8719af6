"""Parameters cells as frozen values, for the views; see `workbench.cells`."""

from workbench.cells import read_cell, read_values, write_cell

__all__ = ["read_cell", "read_values", "write_cell"]
