r"""The average geometry without a matrix: products regenerated from seeds.

.. math::  G v = Q\,\Big(\frac1n \sum_i U_i^\top (U_i\,\tilde v)\Big)

needs one sweep over the networks and no storage beyond a chunk of them: the same indices give the same
networks, so that every product sees the same G, and Lanczos iteration on it is consistent to rounding.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.anisotropy.ensemble import Ensemble
from workbench.anisotropy.geometry import chunk_size
from workbench.anisotropy.lanczos import find_largest
from workbench.report import Estimate


@dataclass(frozen=True)
class SeededGeometry:
    """A geometry that is only ever multiplied with.

    Attributes:
        ensemble: The networks.
        networks: How many of them.
        first: Index of the first one.
    """

    ensemble: Ensemble
    networks: int
    first: int = 0

    @property
    def dim(self) -> int:
        """Rows of G."""
        return self.ensemble.architecture.dim

    def apply(self, vectors: Tensor) -> Tensor:
        """G v for vectors (count, dim) on any device, float64, where the vectors are.

        Cost:
            One model call a network, whatever the count.
        """
        head = self.ensemble.head
        here = vectors.double().to(self.ensemble.device)
        layout = head.layout.to(here.device)
        tall = here[:, layout].reshape(vectors.shape[0], head.core, head.copies)
        tall = tall.transpose(0, 1).reshape(head.core, -1)
        out = self.apply_core(tall).reshape(head.core, vectors.shape[0], head.copies).transpose(0, 1)
        product = torch.zeros_like(here).index_copy(1, layout, out.reshape(vectors.shape[0], -1))
        return product.to(vectors.device)

    def apply_core(self, columns: Tensor) -> Tensor:
        """A c for columns (core, count) of the core, where the columns are; one model call a network."""
        here = columns.to(self.ensemble.device)
        total = torch.zeros_like(here)
        for rows in self._sweep():
            flat = rows.flatten(0, 1)
            total += flat.T @ (flat @ here)
        return (total / self.networks).to(columns.device)

    def find_largest(
        self, count: int, *, generator: torch.Generator, tol: float = 1e-8
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Largest distinct eigenvalues, one vector of each, by Lanczos iteration on the core.

        Args:
            count: How many.
            generator: Draws the start.
            tol: Relative residual at which to stop.

        Returns:
            (values ascending (count,), unit vectors (count, dim) on the first copy, relative residuals).

        Cost:
            One sweep over the networks an iteration.
        """
        head = self.ensemble.head
        values, rows, residuals = find_largest(
            lambda row: self.apply_core(row.T).T,
            head.core,
            count,
            generator=generator,
            tol=tol,
            device=self.ensemble.device,
        )
        flat = torch.zeros(rows.shape[0], self.dim, dtype=rows.dtype, device=rows.device)
        flat[:, head.layout.to(rows.device).reshape(-1, head.copies)[:, 0]] = rows
        return values, flat, residuals

    def trace(self) -> Estimate:
        """tr G, with the standard error over networks; one model call a network."""
        sizes = torch.cat([rows.square().sum((1, 2)) for rows in self._sweep()]) * self.ensemble.head.copies
        return Estimate(
            float(sizes.mean()), float(sizes.std() / self.networks**0.5), how="spread over networks"
        )

    def frobenius_square(self) -> float:
        """||G||_F^2 without the bias of its own sampling noise; one model call a network.

        Pairs (0, 1), (2, 3), ... of independent networks give <U_i^T U_i, U_j^T U_j> = ||U_i U_j^T||_F^2.
        """
        pairs = []
        for rows in self._sweep(even=True):
            cross = rows[0::2][: rows.shape[0] // 2] @ rows[1::2].transpose(1, 2)
            pairs.append(cross.square().sum((1, 2)))
        return float(torch.cat(pairs).mean()) * self.ensemble.head.copies

    def _sweep(self, *, even: bool = False):
        chunk = chunk_size(self.ensemble)
        chunk -= chunk % 2 if even else 0
        for start in range(self.first, self.first + self.networks, chunk):
            yield self.ensemble.rows(range(start, min(start + chunk, self.first + self.networks)))
