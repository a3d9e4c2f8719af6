"""Largest eigenpairs of a symmetric operator known by its products.

References:
    Templates for the solution of algebraic eigenvalue problems (Bai et al., 2000), section 4.4,
    https://doi.org/10.1137/1.9780898719581
"""

from collections.abc import Callable

import torch
from torch import Tensor

from workbench.errors import SettingError


def find_largest(
    apply: Callable[[Tensor], Tensor],
    dim: int,
    count: int,
    *,
    generator: torch.Generator,
    steps: int | None = None,
    tol: float = 1e-8,
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
    basis = torch.zeros(steps + 1, dim, dtype=torch.float64)
    start = torch.randn(dim, generator=generator, dtype=torch.float64)
    basis[0] = start / start.norm()
    alphas, betas = torch.zeros(steps, dtype=torch.float64), torch.zeros(steps, dtype=torch.float64)
    done = 0
    for step in range(steps):
        image = apply(basis[step : step + 1])[0].double()
        alphas[step] = image @ basis[step]
        for _ in range(2):  # twice is enough
            image = image - basis[: step + 1].T @ (basis[: step + 1] @ image)
        betas[step] = image.norm()
        done = step + 1
        small = (
            torch.diag(alphas[:done]) + torch.diag(betas[: done - 1], 1) + torch.diag(betas[: done - 1], -1)
        )
        values, inner = torch.linalg.eigh(small)
        residuals = betas[step] * inner[-1].abs() / values[-1].abs().clamp(min=1e-300)
        if betas[step] <= 1e-14 * values.abs().max():
            break
        if done >= count and float(residuals[-count:].max()) <= tol:
            break
        basis[step + 1] = image / betas[step]
    found = min(count, done)
    return values[-found:], inner.T[-found:] @ basis[:done], residuals[-found:]
