r"""Stationary points near a string: climbing to saddles, Newton polish, the Hessian index, modes.

Climbing follows :math:`F - 2(F\cdot n)n`, uphill along the string's tangent n and downhill across it.
Newton's step solves :math:`H\delta = F` with Hessian products alone: all columns at once in few
dimensions, a Lanczos space in many. The same products give the lowest eigenvalues of H and so its index,
the number of directions in
which the energy falls: 0 at a minimum, 1 at a transition state, more where a string got caught by symmetry.

References:
    Henkelman, Uberuaga, Jonsson, "A climbing image nudged elastic band method", 2000,
        https://doi.org/10.1063/1.1329672
    Paige, Saunders, "Solution of sparse indefinite systems of linear equations", 1975,
        https://doi.org/10.1137/0712047
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from workbench.linalg import lanczos
from workbench.types import Points, Scalars, Vectors

Force = Callable[[Points], Vectors]
Products = Callable[[Points, Vectors], Vectors]

DENSE_DIM = 96
"""Largest dimension in which the whole Hessian is made."""


@dataclass(frozen=True, slots=True)
class Stationary:
    """A point where the force vanishes.

    Attributes:
        point: Where, shape (dim,).
        residual: Size of the force there over its size at the first guess.
        index: Number of negative eigenvalues of the Hessian; of the lowest ones where only those are known.
        eigenvalues: All eigenvalues, ascending, or the lowest Ritz values in many dimensions.
        mode: Eigenvector of the lowest eigenvalue, shape (dim,).
        converged: Whether the force fell below the tolerance.
    """

    point: Points
    residual: float
    index: int
    eigenvalues: Tensor
    mode: Vectors
    converged: bool


def hessian_products(force: Force, *, how: Literal["difference", "vjp"] = "difference") -> Products:
    """v -> H v for the Hessian H of the energy, from its force.

    Args:
        force: -grad V.
        how: "difference" takes central differences of the force (any callable, also outside torch); "vjp"
            takes one backward pass (exact; the force must be differentiable by torch).

    Returns:
        A function of points (rows, dim) and vectors (rows, dim). Two force evaluations a row, or one with
        its backward pass.
    """
    if how == "vjp":

        def product(x: Points, v: Vectors) -> Vectors:
            with torch.enable_grad():
                x = x.detach().requires_grad_(True)
                (pulled,) = torch.autograd.grad(force(x), x, v)
            return -pulled

        return product

    def difference(x: Points, v: Vectors) -> Vectors:
        size = torch.linalg.vector_norm(v, dim=-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
        scale = 1.0 + torch.linalg.vector_norm(x, dim=-1, keepdim=True) / x.shape[-1] ** 0.5
        reach = torch.finfo(x.dtype).eps ** (1.0 / 3.0) * scale
        step = reach * v / size
        both = force(torch.cat([x - step, x + step]))
        minus, plus = both.chunk(2)
        return (minus - plus) * size / (2.0 * reach)

    return difference


def _hessian(products: Products, x: Points) -> Tensor:
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    matrix = products(x.expand(x.shape[-1], -1), eye)
    return 0.5 * (matrix + matrix.T)


def _spectrum(products: Products, x: Points, start: Vectors, space: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, and unit vectors in columns: all of them, or the Krylov space's of a start
    vector."""
    if x.shape[-1] <= DENSE_DIM:
        values, vectors = torch.linalg.eigh(_hessian(products, x))
        return values, vectors
    found = lanczos(lambda v: products(x[None], v[None])[0], start, min(space, x.shape[-1]))
    alive = torch.linalg.vector_norm(found.basis, dim=-1) > 0.0  # fewer where the space closes
    values, vectors = torch.linalg.eigh(found.matrix[alive][:, alive])
    return values, found.basis[alive].T @ vectors


def _solved(values: Tensor, vectors: Tensor, force: Vectors) -> Vectors:
    """Newton's step, without the directions that cost no energy."""
    safe = torch.where(values.abs() < 1e-10 * values.abs().max(), torch.inf, values)
    return vectors @ ((vectors.T @ force) / safe)


@torch.no_grad()
def climb(
    force: Force,
    guess: Points,
    direction: Vectors,
    *,
    tol: float = 1e-10,
    max_iterations: int = 500,
    step: float = 0.5,
) -> tuple[Points, Scalars, int]:
    """Climb from near a maximum of the string to the saddle: uphill along a direction, downhill across it.

    The direction turns with the lowest curvature seen by one force difference along it, so that it need not
    be the saddle's own mode.

    Args:
        force: -grad V.
        guess: Points, shape (rows, dim).
        direction: Unit tangents of the string there.
        tol: Size of the force relative to stiffness times the distance of one step, at which a point stops.
        max_iterations: Limit.
        step: Step in units of the inverse stiffness.

    Returns:
        (points, sizes of the force there, iterations). Two force evaluations a point and iteration.
    """
    x, n = guess, direction / torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
    stiffness = torch.zeros_like(x[..., :1])
    probe = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(x)
    probe = probe / torch.linalg.vector_norm(probe, dim=-1, keepdim=True)
    scale = 1.0 + torch.linalg.vector_norm(x, dim=-1, keepdim=True) / x.shape[-1] ** 0.5
    reach = torch.finfo(x.dtype).eps ** 0.4 * scale
    done, f = 0, force(x)
    for iteration in range(max_iterations):
        bend = (f - force(x + reach * probe)) / reach
        size = torch.linalg.vector_norm(bend, dim=-1, keepdim=True)
        probe = bend / size.clamp_min(torch.finfo(x.dtype).tiny)
        stiffness = torch.maximum(size, 0.9 * stiffness)
        h = step / stiffness.clamp_min(torch.finfo(x.dtype).tiny)
        move = h * (f - 2.0 * (f * n).sum(-1, keepdim=True) * n)
        x, done = x + move, iteration + 1
        f = force(x)
        if bool((torch.linalg.vector_norm(move, dim=-1, keepdim=True) < tol * scale).all()):
            break
    return x, torch.linalg.vector_norm(f, dim=-1), done


@torch.no_grad()
def polish(
    force: Force,
    guess: Points,
    *,
    products: Products | None = None,
    direction: Vectors | None = None,
    tol: float = 1e-10,
    max_iterations: int = 12,
    max_move: float = float("inf"),
    space: int = 40,
    ignore: int = 0,
) -> Stationary:
    """Newton's method to the stationary point near a guess, with its Hessian index.

    Args:
        force: -grad V at points (rows, dim).
        guess: Where to start, shape (dim,).
        products: Hessian products; None for central differences of the force.
        direction: A direction in which the curvature is expected to be lowest (the string's tangent).
        tol: Newton step, relative to 1 + |x|/sqrt(dim), at which to stop.
        max_iterations: Limit.
        max_move: Distance from the guess beyond which the point counts as another one.
        space: Krylov vectors in more than `DENSE_DIM` dimensions.
        ignore: Eigenvalues of smallest size to leave out of the index (rigid motions).

    Returns:
        The point; unconverged where Newton left the neighbourhood or ran out of steps, then with the guess.

    Cost: 2 dim force evaluations an iteration in few dimensions, else 2 space.
    """
    products = hessian_products(force) if products is None else products
    x, first = guess, None
    hint = torch.zeros_like(x) if direction is None else direction
    scale = 1.0 + float(torch.linalg.vector_norm(x)) / x.shape[-1] ** 0.5
    converged = False
    for _ in range(max_iterations):
        f = force(x[None])[0]
        first = float(torch.linalg.vector_norm(f)) if first is None else first
        start = f + 0.1 * torch.linalg.vector_norm(f) * hint
        if not bool(start.any()):
            converged = True
            break
        step = _solved(*_spectrum(products, x, start, space), f)
        x = x + step
        if not bool(torch.isfinite(x).all()) or float(torch.linalg.vector_norm(x - guess)) > max_move:
            x = guess
            break
        floor = max(tol, 16 * torch.finfo(x.dtype).eps)
        if float(torch.linalg.vector_norm(step)) < floor * scale:
            converged = True
            break
    f = force(x[None])[0]
    draw = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(x)
    values, vectors = _spectrum(products, x, hint + draw / torch.linalg.vector_norm(draw), space)
    if ignore:
        kept = values.abs().argsort()[ignore:]
        counted = values[kept]
    else:
        counted = values
    size = float(torch.linalg.vector_norm(f))
    return Stationary(
        point=x,
        residual=size / first if first else 0.0,
        index=int((counted < -1e-8 * values.abs().max()).sum()),
        eigenvalues=values,
        mode=vectors[:, 0],
        converged=converged,
    )


@torch.no_grad()
def descend(
    force: Force, guess: Points, *, tol: float = 1e-9, max_iterations: int = 2000
) -> tuple[Points, int]:
    """Steepest descent with momentum to the minima below points.

    Args:
        force: -grad V.
        guess: Points, shape (rows, dim).
        tol: Move relative to 1 + |x|/sqrt(dim) at which to stop.
        max_iterations: Limit.

    Returns:
        (points, iterations). One force evaluation a point and iteration, a second in one of eight.
    """
    x, v = guess, torch.zeros_like(guess)
    probe = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(x)
    probe = probe / torch.linalg.vector_norm(probe, dim=-1, keepdim=True)
    scale = 1.0 + torch.linalg.vector_norm(x, dim=-1, keepdim=True) / x.shape[-1] ** 0.5
    reach = torch.finfo(x.dtype).eps ** 0.4 * scale
    stiffness, done = torch.zeros_like(x[..., :1]), 0
    for iteration in range(max_iterations):
        f = force(x)
        if iteration < 4 or iteration % 8 == 0:
            bend = (f - force(x + reach * probe)) / reach
            size = torch.linalg.vector_norm(bend, dim=-1, keepdim=True)
            probe = bend / size.clamp_min(torch.finfo(x.dtype).tiny)
            stiffness = torch.maximum(size, 0.7 * stiffness)
        v = 0.5 * v + 0.8 * f / stiffness.clamp_min(torch.finfo(x.dtype).tiny)
        x, done = x + v, iteration + 1
        if bool((torch.linalg.vector_norm(v, dim=-1, keepdim=True) < tol * scale).all()):
            break
    return x, done


def cluster(points: Points, reach: float) -> tuple[Tensor, list[int]]:
    """Merge points closer than a reach.

    Args:
        points: Shape (rows, dim).
        reach: Distance below which two are the same.

    Returns:
        (distinct points in order of first appearance, for each row the index of its point).
    """
    kept: list[Tensor] = []
    owner = []
    for point in points:
        apart = [float(torch.linalg.vector_norm(point - other)) for other in kept]
        if apart and min(apart) < reach:
            owner.append(apart.index(min(apart)))
        else:
            owner.append(len(kept))
            kept.append(point)
    return torch.stack(kept), owner
