"""Do two fits agree? Linear maps from one embedding to the other, both ways.

Embeddings are defined up to an affine map at best, so that agreement is the share of variance that one
explains of the other by a linear regression. Between runs the frames are the same; between data sets frames
are matched by means over bins of a shared variable.

References:
    Schneider, Lee, Mathis, "Learnable latent embeddings for joint behavioural and neural analysis", 2023,
        methods, https://doi.org/10.1038/s41586-023-06031-6
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.checks import check_count
from workbench.errors import SettingError, ShapeError
from workbench.report import Provenance, SolveReport, Status, provenance_of

SOURCE = "Learnable latent embeddings for joint behavioural and neural analysis (Schneider et al., 2023)"


@dataclass(frozen=True, slots=True)
class Consistency:
    """Agreement of several embeddings.

    Attributes:
        table: R2 of predicting embedding j from embedding i in row i, column j; 1 on the diagonal.
        score: Mean off the diagonal.
        between: "runs" or "datasets".
        report: How many embeddings and frames were compared.
        provenance: Settings and versions.
    """

    table: Tensor
    score: float
    between: str
    report: SolveReport
    provenance: Provenance


def linear_r2(source: Tensor, target: Tensor, *, train: Tensor | None = None) -> float:
    """Share of the variance of a target that a linear regression explains.

    Args:
        source: Predictors, shape (n, p).
        target: What is predicted, shape (n, q).
        train: Rows the regression is fitted on, a mask of shape (n,); it is then scored on the others. All
            rows for both if None.

    Returns:
        One minus residual over total variance, summed over the q columns.

    Raises:
        ShapeError: If they differ in length.
    """
    if len(source) != len(target):
        raise ShapeError(f"{len(source)} and {len(target)} frames", "the same frames in both")
    x = source.detach().cpu().double().reshape(len(source), -1)
    y = target.detach().cpu().double().reshape(len(target), -1)
    fitted = torch.ones(len(x), dtype=torch.bool) if train is None else train
    scored = fitted if train is None else ~train
    mean_x, mean_y = x[fitted].mean(0), y[fitted].mean(0)
    slope = torch.linalg.lstsq(x[fitted] - mean_x, y[fitted] - mean_y, driver="gelsd").solution
    rest = (y[scored] - mean_y) - (x[scored] - mean_x) @ slope
    total = (y[scored] - y[scored].mean(0)).square().sum()
    return float(1.0 - rest.square().sum() / total.clamp_min(torch.finfo(y.dtype).tiny))


def measure_consistency(
    embeddings: Sequence[Tensor], *, variables: Sequence[Tensor] | None = None, bins: int = 100
) -> Consistency:
    """Agreement of embeddings of the same frames, or of several data sets with a shared variable.

    Args:
        embeddings: Two or more, shapes (n_i, dim_i).
        variables: One variable a data set, shapes (n_i,); None if the frames are the same.
        bins: Bins of the shared variable whose means are compared.

    Returns:
        The agreement.

    Raises:
        SettingError: If there are fewer than two embeddings, or the data sets share no range.
        ShapeError: If runs differ in length.
    """
    if len(embeddings) < 2:
        raise SettingError(f"{len(embeddings)} embeddings", "at least 2")
    between = "runs" if variables is None else "datasets"
    tables = list(embeddings) if variables is None else _binned(embeddings, variables, bins)
    n = len(tables)
    found = torch.eye(n, dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            if i != j:
                found[i, j] = linear_r2(tables[i], tables[j])
    return Consistency(
        found,
        float((found.sum() - n) / (n * (n - 1))),
        between,
        report=SolveReport(
            status=Status.CONVERGED,
            iterations=0,
            residual=None,
            model_calls=0,
            message=f"{n} embeddings compared at {len(tables[0])} "
            + ("frames" if variables is None else "bins that all fill"),
        ),
        provenance=provenance_of(
            tables[0],
            model=f"{n} embeddings",
            settings={"between": between, "bins": bins},
            sources=(SOURCE,),
        ),
    )


def _binned(embeddings: Sequence[Tensor], variables: Sequence[Tensor], bins: int) -> list[Tensor]:
    check_count("bins", bins, least=2)
    if len(variables) != len(embeddings):
        raise ShapeError(f"{len(variables)} variables", f"{len(embeddings)}, one a data set")
    values = [torch.as_tensor(v).double().reshape(-1) for v in variables]
    low, high = max(float(v.min()) for v in values), min(float(v.max()) for v in values)
    if not high > low:
        raise SettingError("data sets whose variables do not overlap", "a shared range")
    edges = torch.linspace(low, high, bins + 1, dtype=torch.float64)
    sums, counts = [], []
    for points, value in zip(embeddings, values, strict=True):
        if len(points) != len(value):
            raise ShapeError(f"{len(value)} values for {len(points)} frames", "one a frame")
        inside = (value >= low) & (value <= high)
        number = torch.bucketize(value[inside], edges[1:-1], right=True)
        rows = points[inside].double().cpu()
        sums.append(torch.zeros(bins, rows.shape[1], dtype=rows.dtype).index_add_(0, number, rows))
        counts.append(torch.bincount(number, minlength=bins))
    met = torch.stack(counts).min(dim=0).values > 0
    if int(met.sum()) < 3:
        raise SettingError("fewer than 3 bins that all data sets fill", "fewer bins", "bins=10")
    return [s[met] / c[met, None] for s, c in zip(sums, counts, strict=True)]
