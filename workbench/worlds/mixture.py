r"""Gaussian mixtures with full covariances, exact at every noise level.

With weights :math:`w_k`, means :math:`\mu_k` and covariances :math:`C_k`, the data plus noise
:math:`y = x_0 + \sigma\varepsilon` are again a mixture, of covariances :math:`S_k = C_k + \sigma^2 I`. Let
:math:`q_k = S_k^{-1}(\mu_k - y)` be the score of component k and :math:`r_k` its responsibility. Then

.. math::
    \nabla\log p = \bar q = \sum_k r_k q_k, \qquad
    \nabla^2\log p = \sum_k r_k\,[(q_k - \bar q)(q_k - \bar q)^\top - S_k^{-1}], \qquad
    D = \sum_k r_k\,[\mu_k + C_k S_k^{-1}(y - \mu_k)].

Covariances are diagonalised once, so that every level costs the same, and the denoiser is computed from its
own formula instead of :math:`y + \sigma^2\nabla\log p`, which would lose all digits at large noise.

References:
    Bishop, "Pattern Recognition and Machine Learning", 2006, section 2.3
    Efron, "Tweedie's Formula and Selection Bias", 2011, https://doi.org/10.1198/jasa.2011.tm11181
"""

import math
from dataclasses import dataclass, field, replace
from functools import cache

import torch
from torch import Tensor

from workbench.draws import draw_normal
from workbench.errors import SettingError, ShapeError
from workbench.models import Frame, expand_sigma
from workbench.types import Matrices, Nodes, Points, Scalars, Sigma, Vectors
from workbench.worlds.facts import Facts
from workbench.worlds.reference import follow_route, route_of


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class GaussianMixture:
    """A mixture of Gaussians as a score model.

    Attributes:
        name: Its name, as figures print it.
        weights: Positive weights, shape (components,); normalised here.
        means: Shape (components, dim).
        covariances: Positive definite, shape (components, dim, dim).
        known: Known answers at zero noise, if there are any.
    """

    name: str
    weights: Tensor
    means: Tensor
    covariances: Tensor
    known: Facts | None = None
    frame: Frame = field(init=False, repr=False)
    _spectra: Tensor = field(init=False, repr=False)  # (components, dim)
    _axes: Tensor = field(init=False, repr=False)  # (components, dim, dim), eigenvectors in columns

    def __post_init__(self) -> None:
        count, dim = self.means.shape
        if self.weights.shape != (count,) or self.covariances.shape != (count, dim, dim):
            raise ShapeError(
                f"weights {tuple(self.weights.shape)} and covariances {tuple(self.covariances.shape)}",
                f"({count},) and ({count}, {dim}, {dim}) beside means of shape {tuple(self.means.shape)}",
            )
        spectra, axes = torch.linalg.eigh(self.covariances)
        if float(spectra.min()) <= 0 or float(self.weights.min()) <= 0:
            raise SettingError(
                f"a smallest covariance eigenvalue of {float(spectra.min()):.3g} and a smallest weight of "
                f"{float(self.weights.min()):.3g}",
                "both positive",
                "a symmetric positive definite matrix for each component",
            )
        weights = self.weights / self.weights.sum()
        centred = self.means - weights @ self.means
        variance = float((weights[:, None] * (spectra + centred.square())).sum() / dim)
        for name, value in (
            ("weights", weights),
            ("_spectra", spectra),
            ("_axes", axes),
            ("frame", Frame(self.name, (dim,), 0.0, 1e10, data_std=math.sqrt(variance))),
        ):
            object.__setattr__(self, name, value)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.means.shape[1]

    @property
    def facts(self) -> Facts:
        """Known answers at zero noise.

        Raises:
            SettingError: If this mixture came without any.
        """
        if self.known is None:
            raise SettingError(f"{self.name}, a mixture without known answers", "a world", "load_world(name)")
        return self.known

    def _parts(self, y: Points, sigma: Sigma) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Log weighted densities; in each component's eigenbasis y - mean and both spectra; the bases."""
        spectra, axes = self._spectra.to(y), self._axes.to(y)
        noisy = spectra + expand_sigma(y, sigma).unsqueeze(-1) ** 2  # (*batch or (), components, dim)
        inside = torch.einsum("...ki,kij->...kj", y.unsqueeze(-2) - self.means.to(y), axes)
        exponents = -0.5 * (inside.square() / noisy + torch.log(2.0 * math.pi * noisy)).sum(-1)
        return exponents + self.weights.to(y).log(), inside, noisy, spectra, axes

    def log_prob(self, y: Points, sigma: Sigma) -> Scalars:
        """Log density of y = x0 + sigma eps, in nats; sigma from 0 on."""
        return torch.logsumexp(self._parts(y, sigma)[0], dim=-1)

    def responsibilities(self, y: Points, sigma: Sigma) -> Tensor:
        """Probability of each component given y, shape (*batch, components)."""
        return torch.softmax(self._parts(y, sigma)[0], dim=-1)

    def denoise(self, y: Points, sigma: Sigma) -> Points:
        """E[x0 | y]; to rounding from sigma = 0, where it is y, to 1e8, where it is the mean of the data."""
        logs, inside, noisy, spectra, axes = self._parts(y, sigma)
        clean = self.means.to(y) + torch.einsum("...kj,kij->...ki", inside * (spectra / noisy), axes)
        return (torch.softmax(logs, dim=-1).unsqueeze(-1) * clean).sum(-2)

    def score(self, y: Points, sigma: Sigma) -> Vectors:
        """Gradient of `log_prob` in y."""
        logs, inside, noisy, _, axes = self._parts(y, sigma)
        pulls = torch.einsum("...kj,kij->...ki", -inside / noisy, axes)
        return (torch.softmax(logs, dim=-1).unsqueeze(-1) * pulls).sum(-2)

    def hessian(self, y: Points, sigma: Sigma = 0.0) -> Matrices:
        """Second derivatives of `log_prob` in y, shape (*batch, dim, dim); exactly symmetric."""
        logs, inside, noisy, _, axes = self._parts(y, sigma)
        share = torch.softmax(logs, dim=-1)
        spread = _spread(share, torch.einsum("...kj,kij->...ki", -inside / noisy, axes))
        precision = torch.einsum("...kj,kij,klj->...kil", noisy.expand_as(inside).reciprocal(), axes, axes)
        outer = spread.unsqueeze(-1) * spread.unsqueeze(-2)
        matrix = (share[..., None, None] * (outer - precision)).sum(-3)
        return 0.5 * (matrix + matrix.mT)

    def divergence(self, y: Points, sigma: Sigma = 0.0) -> Scalars:
        """Divergence of the score, the Laplacian of `log_prob`, without any matrix."""
        logs, inside, noisy, _, axes = self._parts(y, sigma)
        share = torch.softmax(logs, dim=-1)
        spread = _spread(share, torch.einsum("...kj,kij->...ki", -inside / noisy, axes))
        return (share * (spread.square().sum(-1) - noisy.reciprocal().sum(-1))).sum(-1)

    def sample(self, count: int, *, generator: torch.Generator, sigma: float = 0.0) -> Points:
        """Draw points of x0 + sigma eps.

        Args:
            count: How many.
            generator: Source of randomness.
            sigma: Noise level.

        Returns:
            Points of shape (count, dim), in the dtype of the means.
        """
        own = self.means
        odds = self.weights.to(generator.device)
        component = torch.multinomial(odds, count, replacement=True, generator=generator).to(own.device)
        draw = draw_normal((count, self.dim), own, generator)
        spread = (self._spectra + sigma**2).sqrt()[component] * draw
        return own[component] + torch.einsum("nj,nij->ni", spread, self._axes[component])

    def rotated(self, dim: int, *, generator: torch.Generator) -> "GaussianMixture":
        """The same mixture turned into more dimensions, where every added coordinate is N(0, 1).

        Energies, barriers and lengths are unchanged, only harder to find.

        Args:
            dim: New dimension, at least the old one.
            generator: Draws the rotation, uniformly.

        Returns:
            The turned mixture with its turned facts.

        Raises:
            SettingError: If dim is smaller than the mixture's own.
        """
        if dim < self.dim:
            raise SettingError(f"dim {dim}", f"at least the world's own {self.dim}", f"dim={self.dim}")
        own = self.means
        draw = draw_normal((dim, dim), own, generator)
        turn, upper = torch.linalg.qr(draw)
        turn = turn * torch.sign(torch.diagonal(upper))  # makes the draw uniform
        plane = turn[:, : self.dim]
        rest = torch.eye(dim, dtype=own.dtype, device=own.device) - plane @ plane.T
        return GaussianMixture(
            f"{self.name} in {dim} dimensions",
            self.weights,
            own @ plane.T,
            plane @ self.covariances @ plane.T + rest,
            None if self.known is None else self.known.turned(plane),
        )

    def to(
        self, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> "GaussianMixture":
        """The same mixture with its tables on another device or in another dtype, so that calls copy nothing.

        Its facts stay where they are, in float64.
        """
        move = {"device": device or self.means.device, "dtype": dtype or self.means.dtype}
        return replace(
            self,
            weights=self.weights.to(**move),
            means=self.means.to(**move),
            covariances=self.covariances.to(**move),
        )

    def reference_path(self, route: str | None = None, *, nodes: int = 2001) -> Nodes:
        """The minimum-energy path of the density itself (zero noise) from start to end.

        Args:
            route: Name of a known route; None for the reference one.
            nodes: Number of points, equally spaced.

        Returns:
            Points of shape (nodes, dim). Computed once, then remembered.
        """
        return _reference_path(self, route, nodes)


@cache
def _reference_path(world: GaussianMixture, route: str | None, nodes: int) -> Nodes:
    exact = world.to(device="cpu", dtype=torch.float64)
    known = route_of(world.facts, route)
    return follow_route(lambda x: exact.score(x, 0.0), exact.hessian, known, nodes=nodes, unstable=-1)[0]


def _spread(share: Tensor, pulls: Tensor) -> Tensor:
    """Scores of the components around their mean, shape (*batch, components, dim)."""
    return pulls - (share.unsqueeze(-1) * pulls).sum(-2, keepdim=True)
