"""Shape annotations, the only ones in the project.

A leading ``*batch`` stands for any number of axes, also none; a batch of one keeps its axis. The
annotations are documentation at run time and checks in the tests
(``--jaxtyping-packages=workbench,beartype.beartype``). A different last axis is a different name.

References:
    jaxtyping, https://docs.kidger.site/jaxtyping/
"""

from jaxtyping import Float
from torch import Tensor

Points = Float[Tensor, "*batch dim"]
"""Positions in the flat space of a model, one row a point, in the data's own unit."""

Vectors = Float[Tensor, "*batch dim"]
"""Tangent vectors, scores or forces at points: the points' shape, another unit."""

Scalars = Float[Tensor, "*batch"]
"""One number a point."""

Matrices = Float[Tensor, "*batch dim dim"]
"""One square matrix a point; only where dim is small."""

Nodes = Float[Tensor, "*batch nodes dim"]
"""Discretised curves: node i of each curve in row i."""

Coords = Float[Tensor, "*batch axes"]
"""Coordinates for looking at points: an embedding's few axes."""

Scalar = float | Float[Tensor, ""]
"""One number, a Python float or a tensor without axes."""

Sigma = float | int | Float[Tensor, "*#batch"]
"""A noise level in the data's unit: one for all points, or one for each."""
