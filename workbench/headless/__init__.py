"""Notebooks run without a person: parameters, records, runs, reports, regression, sweeps.

The top layer of the package: it may use everything below it, and nothing below imports it.
The notebook packages (papermill, nbclient, dask) are imported inside the functions that need them,
so that ``workbench.record`` costs nothing where there is no notebook.
"""
