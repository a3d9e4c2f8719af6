r"""Preconditioning: strings in landscapes that are stiff in some directions and soft in others.

Steepest descent needs steps below 1 / (largest curvature), so it takes as many steps as the curvatures are
apart: bonds against torsions of a molecule, 10^4. A symmetric positive map :math:`P^{-1}` on the force
across the string leaves the fixed point where it is, since :math:`P^{-1} F_\perp \parallel \tau` only if
:math:`F_\perp = 0`, and with the absolute Hessian at the images for P every direction relaxes at the same
pace:

.. math::
    P_i = \sum_k \max(\lvert\lambda_k\rvert, p)\, e_k e_k^T, \qquad H(x_i) = \sum_k \lambda_k e_k e_k^T.

The floor p is not only a guard against small curvatures. In the direction of soft modes the string is
carried downhill by the force along it, an advection at the speed :math:`F_\tau / p`; an explicit step is
stable only if it carries an image less than to the next one, so :math:`p` must be above :math:`\max_i \lvert
F_\tau\rvert` over the spacing. One floor for the whole string keeps neighbouring images moving alike.

References:
    Packwood et al., "A universal preconditioner for simulating condensed phase materials", 2016,
        https://doi.org/10.1063/1.4947024
    Makri, Ortner, Kermode, "A preconditioning scheme for minimum energy path finding methods", 2019,
        https://doi.org/10.1063/1.5064465
"""

from collections.abc import Callable

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.strings.saddles import hessian_products
from workbench.types import Nodes, Points, Vectors


class CurvaturePreconditioner:
    """The inverse of the absolute Hessian at every image, by force differences, kept while it is good.

    Pass it as ``precondition`` to `relax_string`. The Hessians are made anew where the string has another
    number of images, or an image lies further than ``trust`` spacings from where its Hessian was made; near
    the fixed point nothing is made any more. Some hundreds of dimensions at most: a whole Hessian is kept
    for every image.

    Args:
        force: -grad V at points (rows, dim).
        margin: The floor p over the largest force along the string divided by the spacing; above 1, or kinks
            grow.
        trust: Distance in spacings after which a Hessian is too old.
        smallest: Floor of p itself, over the largest curvature seen.

    Attributes:
        evaluations: Force evaluations that Hessians took so far, in points.

    Raises:
        SettingError: If margin or trust is not positive.
    """

    def __init__(
        self,
        force: Callable[[Points], Vectors],
        *,
        margin: float = 3.0,
        trust: float = 0.5,
        smallest: float = 1e-6,
    ) -> None:
        if not (margin > 0 and trust > 0):
            raise SettingError(f"margin={margin}, trust={trust}", "positive numbers")
        self.force, self.margin, self.trust, self.smallest = force, margin, trust, smallest
        self.evaluations = 0
        self._products = hessian_products(force)
        self._at: Tensor | None = None  # images at which the Hessians were made, (strings, nodes, dim)
        self._values = self._modes = torch.empty(0)
        self._floor = torch.empty(0)

    def __call__(self, points: Nodes, vectors: Nodes) -> Nodes:
        """P^-1 v at every image.

        Args:
            points: Strings, shape (*batch, nodes, dim).
            vectors: Vectors at the images, the points' shape.

        Returns:
            Vectors of the same shape. Two force evaluations a dimension for each image whose Hessian is made.
        """
        self._refresh(points)
        coordinates = (self._modes.mT @ vectors.unsqueeze(-1)).squeeze(-1)
        stiffness = torch.maximum(self._values.abs(), self._floor)
        return (self._modes @ (coordinates / stiffness).unsqueeze(-1)).squeeze(-1)

    def _refresh(self, points: Tensor) -> None:
        spacing = torch.linalg.vector_norm(points.diff(dim=-2), dim=-1).mean(-1, keepdim=True)
        if self._at is None or self._at.shape != points.shape:
            self._at = points.clone()
            self._values, self._modes = self._curvatures(points)
        else:
            old = torch.linalg.vector_norm(points - self._at, dim=-1) > self.trust * spacing
            if not bool(old.any()):
                return
            self._at[old] = points[old]
            self._values[old], self._modes[old] = self._curvatures(points[old])
        forces = self.force(points.reshape(-1, points.shape[-1])).reshape(points.shape)
        self.evaluations += points[..., 0].numel()
        (tangents,) = torch.gradient(points, dim=-2)
        tangents = tangents / torch.linalg.vector_norm(tangents, dim=-1, keepdim=True)
        along = (forces * tangents).sum(-1).abs().amax(-1, keepdim=True)
        stiffest = self._values.abs().amax((-2, -1))[..., None]
        self._floor = torch.maximum(self.margin * along / spacing, self.smallest * stiffest)[..., None]

    def _curvatures(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Eigenvalues (*batch, dim) and eigenvectors (*batch, dim, dim) of the Hessians."""
        rows, dim = points.reshape(-1, points.shape[-1]), points.shape[-1]
        eye = torch.eye(dim, dtype=points.dtype, device=points.device)
        hessians = torch.stack([self._products(row.expand(dim, -1), eye) for row in rows])
        self.evaluations += 2 * dim * rows.shape[0]
        values, modes = torch.linalg.eigh(0.5 * (hessians + hessians.mT))
        return values.reshape(*points.shape[:-1], dim), modes.reshape(*points.shape, dim)
