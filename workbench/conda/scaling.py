"""What a network sees of latents, and the directions in which it begins.

References:
    Wiskott, Sejnowski, "Slow feature analysis: unsupervised learning of invariances", 2002,
        https://doi.org/10.1162/089976602317318938
"""

import torch
from torch import Tensor

from workbench.conda.latents import Latents
from workbench.conda.settings import WIDE, CondaConfig
from workbench.errors import SettingError

_SAMPLE = 20_000  # rows from which components are found
_BROAD = 2048  # entries above which no matrix of entries by entries is made, and as many rows are enough
_FLAT = 1e-3  # share of the largest variance below which a direction is noise to the linear start


def fit_scaling(table: Latents, config: CondaConfig, generator: torch.Generator, dtype: torch.dtype):
    """Centre and basis of what the network sees.

    Args:
        table: The latents.
        config: Names the scaling.
        generator: Chooses the rows of a long table.
        dtype: Precision.

    Returns:
        The centre, shape (dim,), and a scale of shape (dim,) or a basis of shape (dim, components).

    Raises:
        SettingError: If all latents are the same.
    """
    wanted = config.scaling
    if wanted == "auto":
        wanted = "columns" if table.dim <= WIDE else "pca"
    if wanted == "none":
        return torch.zeros(table.dim, dtype=dtype), torch.ones(table.dim, dtype=dtype)
    index, most = torch.arange(len(table)), _SAMPLE if table.dim <= _BROAD else _BROAD
    if len(table) > most:
        index = torch.randperm(len(table), generator=generator, device=generator.device).cpu()[:most]
        index = index.sort().values
    rows = table.rows(index, dtype=torch.float64).cpu()
    center = rows.mean(dim=0)
    rows = rows - center
    if not bool((rows.abs() > 1e-12 * center.abs()).any()):
        raise SettingError("latents that are all the same", "latents that vary")
    if wanted == "columns":
        spread = rows.std(dim=0)
        spread = torch.where(spread > 1e-12 * spread.max(), spread, torch.inf)
        return center.to(dtype), spread.reciprocal().to(dtype)
    few = max(2 * config.dim, min(WIDE, len(table) // 10))
    most = few if config.components is None else config.components
    values, basis = _principal(rows, min(most, len(rows) - 1, table.dim))
    spread = (values / (len(rows) - 1)).sqrt()
    basis = basis / (spread if wanted == "white" else spread[0])
    return center.to(dtype), basis.to(dtype)


def shared_directions(inputs: Tensor, pairs: tuple[Tensor, Tensor], count: int) -> Tensor:
    """Directions that differ least between the frames of a pair, for the variance that they have.

    A frame of a pair is what both share and what is its own. Of a direction with spread one the best linear
    guess of the partner is rho times the frame, rho = 1 - mean squared difference / 2 being their
    correlation: that is how long the direction is. One that pairs do not share is nothing.

    Args:
        inputs: What the network sees, shape (count, p).
        pairs: Rows of references and of positives, shapes (n,).
        count: How many directions.

    Returns:
        Directions of spread rho, shape (p, at most count), the most shared first. Of latents with more than
        2048 entries the first 1024 pairs are looked at.

    References:
        Wiskott, Sejnowski, "Slow feature analysis: unsupervised learning of invariances", 2002,
            https://doi.org/10.1162/089976602317318938
    """
    broad = inputs.shape[1] > _BROAD
    first, second = (inputs[rows[: _BROAD // 2] if broad else rows].double().cpu() for rows in pairs)
    both = torch.cat([first, second])
    both = both - both.mean(dim=0)
    if broad:  # among the axes that the pairs span, so that no matrix is as wide as the latents
        _, axes = _principal(both, len(both) - 1)
        halves = torch.arange(2 * len(first)).chunk(2)
        inner = shared_directions(both @ axes, (halves[0], halves[1]), count)
        return axes @ inner
    spread = both.T @ both / len(both)
    step = (first - second).T @ (first - second) / len(first)
    values, axes = torch.linalg.eigh(spread)
    keep = values > _FLAT * values[-1]
    white = axes[:, keep] / values[keep].sqrt()
    differences, turned = torch.linalg.eigh(white.T @ step @ white)
    return white @ turned[:, :count] * (1.0 - differences[:count] / 2.0).clamp_min(0.0)


def _principal(rows: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Sums of squares along the leading principal axes of centred rows, and the axes, shape (p, some).

    The smaller of the two matrices of inner products is decomposed, so that nothing is wider than `_BROAD`
    where there are no more rows than that.
    """
    if len(rows) < rows.shape[1]:
        values, vectors = torch.linalg.eigh(rows @ rows.T)
        basis = rows.T @ vectors
    else:
        values, basis = torch.linalg.eigh(rows.T @ rows)
    keep = values.argsort(descending=True)[:most]
    keep = keep[values[keep] > 1e-10 * values.max()]
    return values[keep], basis[:, keep] / basis[:, keep].norm(dim=0)
