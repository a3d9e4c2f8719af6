r"""A metric read off its field: smooth, positive, and as cheap as a table.

Where every product runs through a sampler, geodesics in the model's own metric take minutes. On a plane the
field is measured once; between its points the matrix logarithm is interpolated by cubics, so that

.. math::
    g(x) = \exp\Big(\sum_{kl} w_k w_l \log g_{kl}\Big)

is positive definite by construction and has continuous derivatives. It cannot see what happens between the
points of the grid: lengths under the model's own metric are measured afterwards, along the curve found.

References:
    Arsigny, Fillard, Pennec, Ayache, "Log-Euclidean metrics for fast and simple calculus on diffusion
        tensors", 2006, https://doi.org/10.1002/mrm.20965
    Keys, "Cubic convolution interpolation for digital image processing", 1981
"""

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.geodesics.metric_fields import MetricField
from workbench.metrics import MatrixMetric

_FLOOR = 1e-9


def interpolated_metric(field: MetricField) -> MatrixMetric:
    """The metric whose matrix logarithm interpolates a field.

    Args:
        field: A metric on a grid of 4 x 4 points or more.

    Returns:
        A metric of the field's chart, defined on its window. Eigenvalues below a billionth of the field's
        largest are raised to that: where a slice collapses, no step is quite free.

    Raises:
        SettingError: If the field has points without a metric, or is too small.
    """
    rows, columns = field.indefinite.shape
    if min(rows, columns) < 4 or not bool(torch.isfinite(field.matrices).all()):
        raise SettingError(
            f"a field of {rows} x {columns} points with {field.share_indefinite:.0%} without a metric",
            "4 x 4 points or more, finite everywhere",
            "another window",
        )
    values, vectors = torch.linalg.eigh(field.matrices.double())
    logs = torch.log(values.clamp_min(_FLOOR * float(values.max())))
    logarithm = (vectors * logs.unsqueeze(-2)) @ vectors.mT
    table = torch.stack((logarithm[..., 0, 0], logarithm[..., 0, 1], logarithm[..., 1, 1]), dim=-1)
    low = table.new_tensor([field.window.x[0], field.window.y[0]])
    high = table.new_tensor([field.window.x[1], field.window.y[1]])
    cells = table.new_tensor([columns - 1.0, rows - 1.0])

    def matrices(x: Tensor) -> Tensor:
        return _exponential(_interpolate(table, (x.to(table) - low) / (high - low) * cells)).to(x)

    def inside(x: Tensor) -> Tensor:
        return ((x >= low.to(x)) & (x <= high.to(x))).all(dim=-1)

    return MatrixMetric(matrices, field.chart, f"{field.metric}, interpolated", 0.0, inside)


def _interpolate(table: Tensor, at: Tensor) -> Tensor:
    """Cubic convolution of a table (rows, columns, entries) at grid coordinates (*batch, 2)."""
    rows, columns, _ = table.shape
    base = torch.floor(at.detach())
    base = torch.minimum(base.clamp_min(0.0), base.new_tensor([columns - 2.0, rows - 2.0]))
    share = at - base
    steps = torch.arange(-1, 3, device=table.device)
    place = base.long().unsqueeze(-1) + steps  # (*batch, 2, 4)
    across, up = place[..., 0, :].clamp(0, columns - 1), place[..., 1, :].clamp(0, rows - 1)
    weight = _cubic(share)  # (*batch, 2, 4)
    near = table[up.unsqueeze(-1), across.unsqueeze(-2)]  # (*batch, 4, 4, entries)
    return torch.einsum("...i,...j,...ije->...e", weight[..., 1, :], weight[..., 0, :], near)


def _cubic(s: Tensor) -> Tensor:
    """Weights of the points at -1, 0, 1, 2 for a place s in 0 .. 1."""
    return torch.stack(
        (
            ((-0.5 * s + 1.0) * s - 0.5) * s,
            (1.5 * s - 2.5) * s * s + 1.0,
            ((-1.5 * s + 2.0) * s + 0.5) * s,
            (0.5 * s - 0.5) * s * s,
        ),
        dim=-1,
    )


def _exponential(entries: Tensor) -> Tensor:
    """exp of symmetric 2 x 2 matrices given as (a, b, c); smooth where both eigenvalues agree."""
    a, b, c = entries.unbind(dim=-1)
    mean, half = 0.5 * (a + c), 0.5 * (a - c)
    size = torch.sqrt(half.square() + b.square() + 1e-24)
    grow, ratio = torch.cosh(size), torch.sinh(size) / size
    rows = torch.stack((grow + ratio * half, ratio * b, ratio * b, grow - ratio * half), dim=-1)
    return (torch.exp(mean).unsqueeze(-1) * rows).unflatten(-1, (2, 2))
