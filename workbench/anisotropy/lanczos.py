"""Largest eigenpairs of a symmetric operator known by its products.

References:
    Templates for the solution of algebraic eigenvalue problems (Bai et al., 2000), section 4.4,
    https://doi.org/10.1137/1.9780898719581
"""

from collections.abc import Callable

import torch
from torch import Tensor

from workbench.draws import draw_normal
from workbench.errors import SettingError
from workbench.linalg import lanczos


def find_largest(
    apply: Callable[[Tensor], Tensor],
    dim: int,
    count: int,
    *,
    generator: torch.Generator,
    steps: int | None = None,
    tol: float = 1e-8,
    device: torch.device | str = "cpu",
) -> tuple[Tensor, Tensor, Tensor]:
    """Largest eigenvalues of a symmetric operator by Lanczos iteration with full reorthogonalisation.

    A flat spectrum makes block power iteration slow; Lanczos is exact to rounding after a few times `count`
    steps. A multiple eigenvalue is found once.

    Args:
        apply: (1, dim) -> (1, dim), the product with the operator.
        dim: Rows of the operator.
        count: How many eigenpairs.
        generator: Draws the start.
        steps: Most products; min(dim, 8 count + 32) if None.
        tol: Stop when every wanted residual is below tol times the largest eigenvalue.
        device: Where the vectors live.

    Returns:
        (values ascending (count,), row vectors (count, dim), relative residuals (count,)). Residuals above
        tol mean that more steps are needed.

    Raises:
        SettingError: If count is not between 1 and dim.

    Cost:
        At most `steps` products.
    """
    if not 1 <= count <= dim:
        raise SettingError(f"{count} eigenpairs of a {dim} x {dim} operator", f"1 to {dim}")
    steps = min(dim, 8 * count + 32 if steps is None else steps)
    like = torch.zeros(dim, dtype=torch.float64, device=device)

    def residuals_of(matrix: Tensor, rest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        values, inner = torch.linalg.eigh(matrix)
        return values, inner, rest * inner[-1].abs() / values[-1].abs().clamp(min=1e-300)

    def enough(matrix: Tensor, rest: Tensor) -> bool:
        values, _, residuals = residuals_of(matrix, rest)
        spent = float(rest) <= 1e-14 * float(values.abs().max())
        return spent or (len(values) >= count and float(residuals[-count:].max()) <= tol)

    start = draw_normal((dim,), like, generator)
    built = lanczos(lambda v: apply(v[None])[0].double(), start, steps, enough=enough)
    values, inner, residuals = residuals_of(built.matrix, built.rest)
    found = min(count, len(values))
    return values[-found:], inner.mT[-found:] @ built.basis, residuals[-found:]
