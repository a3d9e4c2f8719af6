r"""Eigenvalues from products with a Jacobian, many points at once and without any matrix of dim x dim.

For a score model the Jacobian of the score is symmetric (it is the Hessian of the log density), so the
Lanczos process applies: after m products with :math:`A = -\nabla s` the eigenvalues of a tridiagonal m x m
matrix lie inside the spectrum of A and converge to its ends first. The largest one, `Lip`, bounds explicit
steps; it never exceeds :math:`1/\sigma^2`, because
:math:`\sigma^2\nabla s = \mathrm{Cov}(x_0\mid y)/\sigma^2 - I`.

References:
    Golub, Van Loan, "Matrix Computations", 2013, sections 7.3 (power method) and 10.1 (Lanczos)
    Parlett, "The Symmetric Eigenvalue Problem", 1998, theorem 4.5.1 (residual bound)
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vjp, vmap

from workbench.draws import draw_normal, seeded
from workbench.forward import jvp
from workbench.models import ScoreModel, score
from workbench.types import Matrices, Points, Scalars, Sigma, Vectors

Field = Callable[[Tensor], Tensor]
"""x -> F(x), row by row: each point's value depends on that point alone."""


def jacobian_product(field: Field, x: Points, direction: Vectors) -> Vectors:
    """J v at every point, by forward-mode differentiation.

    Args:
        field: The field; shapes as x.
        x: Points, shape (*batch, dim).
        direction: v, shape (*batch, dim).

    Returns:
        Shape (*batch, dim). Differentiable. Costs about three calls of the field.
    """
    return jvp(field, (x,), (direction,))[1]


def transposed_product(field: Field, x: Points, direction: Vectors) -> Vectors:
    """J^T v at every point, by reverse-mode differentiation; about two calls of the field."""
    return vjp(field, x)[1](direction)[0]


def dense_jacobian(field: Field, x: Points, *, chunk: int | None = None) -> Matrices:
    """The Jacobian itself, for small dim.

    Args:
        field: The field.
        x: Points, shape (*batch, dim).
        chunk: Rows at a time; None for all.

    Returns:
        Shape (*batch, dim, dim), entry (i, j) = dF_i/dx_j. Costs dim products.
    """
    basis = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    pull = vjp(field, x)[1]
    return vmap(lambda e: pull(e.expand_as(x))[0], chunk_size=chunk)(basis).movedim(0, -2)


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Ends of the spectrum of a symmetric operator at each point.

    Attributes:
        largest: Largest eigenvalue found, shape (*batch); a lower bound of the true one.
        smallest: Smallest eigenvalue found; an upper bound of the true one.
        largest_error: Distance within which an eigenvalue of the operator surely lies, same shape.
        smallest_error: The same for the smallest.
        direction: Unit vector that belongs to the largest, shape (*batch, dim).
        products: Products with the operator that were used, per point.
    """

    largest: Scalars
    smallest: Scalars
    largest_error: Scalars
    smallest_error: Scalars
    direction: Vectors
    products: int


@dataclass(frozen=True, slots=True)
class Tridiagonal:
    """A symmetric operator seen on the space that Lanczos built, at each point.

    Attributes:
        basis: Orthonormal vectors, shape (*batch, steps, dim); zero once the space is exhausted.
        matrix: The operator on them, shape (*batch, steps, steps), tridiagonal.
        rest: Norm of what the last product left outside, shape (*batch).
    """

    basis: Tensor
    matrix: Matrices
    rest: Scalars


def lanczos(
    product: Field,
    start: Vectors,
    steps: int,
    *,
    enough: Callable[[Tensor, Tensor], bool] | None = None,
) -> Tridiagonal:
    """Lanczos with full orthogonalisation, at every point in one batch.

    Args:
        product: v -> A v at every point; symmetric at each.
        start: Starting vectors, shape (*batch, dim), of any length.
        steps: Products at most.
        enough: Asked after every product with the matrix so far and the norm left outside; True stops.

    Returns:
        The tridiagonal form. Where the space is exhausted early, further rows repeat a value from inside the
        spectrum. Memory: steps vectors a point.
    """
    first = start / torch.linalg.vector_norm(start, dim=-1, keepdim=True)
    basis, diagonal, beside = [first], [], []
    scale = torch.zeros_like(start[..., 0])
    for step in range(steps):
        image = product(basis[-1])
        own = (basis[-1] * image).sum(-1)
        scale = torch.maximum(scale, torch.linalg.vector_norm(image, dim=-1))
        for _ in range(2):  # once loses orthogonality to rounding
            for vector in basis:
                image = image - (vector * image).sum(-1, keepdim=True) * vector
        rest = torch.linalg.vector_norm(image, dim=-1)
        alive = rest > 1e-4 * torch.finfo(start.dtype).eps ** 0.5 * scale
        spent = torch.linalg.vector_norm(basis[-1], dim=-1) == 0
        diagonal.append(torch.where(spent, diagonal[0] if diagonal else own, own))
        beside.append(torch.where(alive, rest, 0.0))
        if enough is not None and enough(_tridiagonal(diagonal, beside), beside[-1]):
            break
        if step + 1 < steps:
            basis.append(torch.where(alive, 1.0 / torch.where(alive, rest, 1.0), 0.0).unsqueeze(-1) * image)
    return Tridiagonal(torch.stack(basis, dim=-2), _tridiagonal(diagonal, beside), beside[-1])


def _tridiagonal(diagonal: list[Tensor], beside: list[Tensor]) -> Tensor:
    small = torch.diag_embed(torch.stack(diagonal, dim=-1))
    if len(diagonal) == 1:
        return small
    off = torch.stack(beside[: len(diagonal) - 1], dim=-1)
    return small + torch.diag_embed(off, offset=1) + torch.diag_embed(off, offset=-1)


def find_spectrum(
    product: Field, like: Points, *, steps: int = 16, generator: torch.Generator | None = None
) -> Spectrum:
    """Both ends of the spectrum of a symmetric operator, by Lanczos with full orthogonalisation.

    Args:
        product: v -> A v at every point; symmetric at each.
        like: A tensor of the vectors' shape (*batch, dim), dtype and device.
        steps: Products; no more than dim are used, and dim give the exact answer.
        generator: Draws the starting vector, the same for all points; None for a fixed draw.

    Returns:
        The spectrum's ends. Detached from the starting vectors, not from the operator. Memory: steps vectors
        a point.
    """
    dim = like.shape[-1]
    steps = min(steps, dim)
    draw = draw_normal((dim,), like, seeded(generator))
    found = lanczos(product, draw.expand_as(like), steps)
    values, vectors = torch.linalg.eigh(found.matrix)
    direction = (vectors[..., -1].unsqueeze(-1) * found.basis).sum(-2)
    return Spectrum(
        largest=values[..., -1],
        smallest=values[..., 0],
        largest_error=found.rest * vectors[..., -1, -1].abs(),
        smallest_error=found.rest * vectors[..., -1, 0].abs(),
        direction=direction / torch.linalg.vector_norm(direction, dim=-1, keepdim=True).clamp_min(1e-30),
        products=steps,
    )


def power_iteration(
    product: Field, start: Vectors, *, steps: int = 10, shift: float = 0.0
) -> tuple[Scalars, Vectors]:
    """Eigenvalue of largest distance from -shift, by repeated products; cheap to restart from the last
    vector.

    Args:
        product: v -> A v at every point.
        start: Starting vectors, shape (*batch, dim); not orthogonal to what is sought.
        steps: Products.
        shift: c, so that A + c I is iterated; with c at least minus the smallest eigenvalue the largest one
            is found.

    Returns:
        (Rayleigh quotient of A, unit vector), shapes (*batch) and (*batch, dim).
    """
    vector = start / torch.linalg.vector_norm(start, dim=-1, keepdim=True)
    value = torch.zeros_like(start[..., 0])
    for _ in range(steps):
        image = product(vector)
        value = (vector * image).sum(-1)
        image = image + shift * vector
        vector = image / torch.linalg.vector_norm(image, dim=-1, keepdim=True).clamp_min(1e-300)
    return value, vector


def find_stiffness(
    field: Field, x: Points, *, steps: int = 8, generator: torch.Generator | None = None
) -> Scalars:
    """Largest eigenvalue of -dF/dx at every point: what bounds an explicit step along F.

    Args:
        field: A force or score; its Jacobian is taken to be symmetric.
        x: Points, shape (*batch, dim).
        steps: Products with the Jacobian, each a backward pass; one forward pass serves all.
        generator: Draws the starting vectors.

    Returns:
        Shape (*batch): the Lanczos value plus its residual bound, so that it errs on the safe side.
    """
    pull = vjp(field, x)[1]  # symmetric, so that the cheaper reverse mode gives the same product
    found = find_spectrum(lambda v: -pull(v)[0], x, steps=steps, generator=generator)
    return found.largest + found.largest_error


def score_stiffness(
    model: ScoreModel, y: Points, sigma: Sigma, *, steps: int = 8, generator: torch.Generator | None = None
) -> Scalars:
    """`find_stiffness` of a model's score at a noise level, cut at its bound 1/sigma^2."""
    bound = torch.as_tensor(sigma, dtype=y.dtype, device=y.device) ** -2
    return torch.minimum(
        find_stiffness(lambda p: score(model, p, sigma), y, steps=steps, generator=generator), bound
    )
