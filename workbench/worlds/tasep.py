r"""The open asymmetric exclusion process: particles enter at rate alpha, hop right at rate 1, leave at rate
beta.

Its stationary weights are matrix products, so that everything is exact at any size. With
:math:`x = -\ln\alpha,\ y = -\ln\beta` the normalisation is a partition function with positive weights,

.. math::
    Z_N = \sum_{p=1}^N B_{N,p} \sum_{q=0}^p e^{q x + (p-q) y}, \qquad B_{N,p} =
    \frac{p\,(2N-1-p)!}{N!\,(N-p)!},

so (x, y) are natural coordinates of a model of contacts (q, p - q), whose Fisher metric is the Hessian of ln
Z. The configurations are a marginal of it: their own Fisher metric is smaller (`configuration_metric`). In
(alpha, beta) neither is the Hessian of ln Z.

Current :math:`J_N = Z_{N-1}/Z_N`, and ln Z / N tends to -ln J: alpha(1 - alpha) at low density, beta(1 -
beta) at high density, 1/4 at maximal current.

References:
    Derrida, Evans, Hakim, Pasquier, "Exact solution of a 1D asymmetric exclusion model using a matrix
        formulation", 1993, https://doi.org/10.1088/0305-4470/26/7/011
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.draws import draw_uniform
from workbench.errors import SettingError
from workbench.forward import jvp
from workbench.metrics import Chart, Hessian, Pullback, in_coordinates
from workbench.report import Estimate
from workbench.types import Matrices, Points, Scalars

NATURAL = Chart("natural: minus log rates", 2, ("-ln α", "-ln β"))
RATES = Chart("rates", 2, ("α", "β"))
_ENUMERATED = 16


@dataclass(frozen=True, slots=True)
class Tasep:
    """The process on a chain of sites.

    Attributes:
        sites: Length N of the chain.
    """

    sites: int

    def __post_init__(self) -> None:
        if self.sites < 1:
            raise SettingError(f"a chain of {self.sites} sites", "one or more")

    def log_partition(self, t: Points) -> Scalars:
        """ln Z_N at natural points t = (-ln alpha, -ln beta), (*batch, 2); differentiable, N^2 terms."""
        return _log_partition(self.sites, t)

    def metric(self) -> Hessian:
        """The Fisher metric of the contacts in natural coordinates: the covariance of (q, p - q)."""

        def covariance(t: Tensor) -> Tensor:
            exponent, contacts = _terms(self.sites, t)
            weights = torch.softmax(exponent, dim=-1)
            centred = contacts - (weights.unsqueeze(-1) * contacts).sum(dim=-2, keepdim=True)
            return torch.einsum("...k,...ki,...kj->...ij", weights, centred, centred)

        return Hessian(
            self.log_partition, NATURAL, f"Fisher of TASEP contacts, N = {self.sites}", closed=covariance
        )

    def rate_metric(self) -> Pullback:
        """The same metric in the rates (alpha, beta), pulled back."""
        return in_coordinates(
            self.metric(), lambda r: -torch.log(r), RATES, domain=lambda r: (r > 0.0).all(dim=-1)
        )

    def current(self, rates: Points) -> Scalars:
        """Exact J_N = Z_{N-1} / Z_N at rates (alpha, beta), shape (*batch, 2)."""
        t = -torch.log(rates)
        if self.sites == 1:
            return torch.exp(-self.log_partition(t))
        return torch.exp(_log_partition(self.sites - 1, t) - self.log_partition(t))

    def density(self, rates: Tensor) -> Tensor:
        """Exact mean occupation of every site at one pair of rates, shape (sites,)."""
        left, right = self._ends(rates)
        into, _, both = self._matrices(rates)
        forward, backward = [left], [right]
        for _ in range(self.sites):
            forward.append(_unit(forward[-1] @ both))
            backward.append(_unit(both @ backward[-1]))
        occupied = []
        for i in range(self.sites):
            before, after = forward[i], backward[self.sites - 1 - i]
            occupied.append((before @ into @ after) / (before @ both @ after))
        return torch.stack(occupied)

    def _matrices(self, rates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """D for a particle, E for a hole and their sum, truncated to N + 2 rows, at one pair of rates."""
        alpha, beta = rates[0], rates[1]
        size = self.sites + 2
        eye = torch.eye(size, dtype=rates.dtype, device=rates.device)
        corner = torch.zeros_like(eye)
        corner[0, 0] = 1.0
        above = torch.diag(torch.ones(size - 1, dtype=rates.dtype, device=rates.device), 1)
        step = torch.zeros_like(eye)
        step[0, 1] = 1.0
        particle = (
            eye + above + (1.0 / beta - 1.0) * corner + ((alpha + beta - 1.0) / (alpha * beta) - 1.0) * step
        )
        hole = eye + above.mT + (1.0 / alpha - 1.0) * corner
        return particle, hole, particle + hole

    def _ends(self, rates: Tensor) -> tuple[Tensor, Tensor]:
        first = torch.zeros(self.sites + 2, dtype=rates.dtype, device=rates.device)
        first[0] = 1.0
        return first, first

    def log_weights(self, rates: Tensor) -> Tensor:
        """ln weight of all 2^N configurations, site 1 the highest bit, at one pair of rates."""
        if self.sites > _ENUMERATED:
            raise SettingError(f"{self.sites} sites to enumerate", f"at most {_ENUMERATED}", "sample")
        left, right = self._ends(rates)
        particle, hole, _ = self._matrices(rates)
        rows = left.unsqueeze(0)
        for _ in range(self.sites):
            rows = torch.stack((rows @ hole, rows @ particle), dim=1).flatten(0, 1)
        return torch.log(rows @ right)

    def configuration_metric(self, rates: Tensor) -> Matrices:
        """Fisher metric of the configurations in natural coordinates at one pair of rates, by enumeration.

        Never larger than `metric`: the configurations are a marginal of the contact model.
        """
        t = -torch.log(rates)

        def log_prob(at: Tensor) -> Tensor:
            return torch.log_softmax(self.log_weights(torch.exp(-at)), dim=0)

        slopes = [jvp(log_prob, (t,), (axis,))[:2] for axis in torch.eye(2, dtype=t.dtype, device=t.device)]
        slope = torch.stack([tangent for _, tangent in slopes], dim=-1)  # (configurations, 2)
        return torch.einsum("k,ki,kj->ij", torch.exp(slopes[0][0]), slope, slope)

    def sample(self, rates: Tensor, count: int, *, generator: torch.Generator) -> Tensor:
        """Independent draws from the stationary state, exact: no burn-in, all rates.

        Sites are drawn left to right from their probability given those before; all chains of all rates in
        one batch. The matrices have two diagonals, so that a site costs sites operations a chain.

        Args:
            rates: (alpha, beta), shape (*batch, 2).
            count: Number of chains at each.
            generator: Source of the draws.

        Returns:
            Occupations 0 or 1, shape (*batch, count, sites), in the rates' dtype.
        """
        flat = rates.reshape(-1, 2)
        tail = torch.zeros(len(flat), self.sites + 2, dtype=rates.dtype, device=rates.device)
        tail[:, 0] = 1.0
        tails = [tail]
        for _ in range(self.sites - 1):
            tail = _apply_both(flat, tails[-1])
            tails.append(tail / tail.abs().amax(dim=1, keepdim=True))
        rows = tails[0].unsqueeze(1).expand(-1, count, -1)
        alpha, beta = flat[:, 0, None], flat[:, 1, None]
        enter, leave = 1.0 / alpha - 1.0, 1.0 / beta - 1.0
        step = (alpha + beta - 1.0) / (alpha * beta) - 1.0
        found = []
        for k in range(self.sites):
            first = rows[..., 0]
            with_particle, with_hole = rows.clone(), rows.clone()
            with_particle[..., 1:] += rows[..., :-1]
            with_particle[..., 0] += leave * first
            with_particle[..., 1] += step * first
            with_hole[..., :-1] += rows[..., 1:]
            with_hole[..., 0] += enter * first
            tail = tails[self.sites - 1 - k].unsqueeze(-1)
            yes, no = (with_particle @ tail).squeeze(-1), (with_hole @ tail).squeeze(-1)
            here = draw_uniform((len(flat), count), rates, generator) * (yes + no) < yes
            found.append(here)
            rows = torch.where(here.unsqueeze(-1), with_particle, with_hole)
            rows = rows / rows.abs().amax(dim=-1, keepdim=True)
        return torch.stack(found, dim=-1).to(rates.dtype).reshape(*rates.shape[:-1], count, self.sites)


def measure_current(chain: Tasep, rates: Tensor, count: int, *, generator: torch.Generator) -> Estimate:
    """Current of a chain from independent draws of its stationary state.

    Args:
        chain: The chain, two sites or more.
        rates: (alpha, beta), shape (2,).
        count: Number of draws.
        generator: Their source.

    Returns:
        Mean share of bonds across which a particle can hop, with its standard error; `Tasep.current` is
        exact.
    """
    draws = chain.sample(rates, count, generator=generator)
    hops = (draws[:, :-1] * (1.0 - draws[:, 1:])).mean(dim=1)
    return Estimate(
        float(hops.mean()), float(hops.std()) / math.sqrt(count), "hops per time", "spread of the draws"
    )


def _apply_both(rates: Tensor, columns: Tensor) -> Tensor:
    """(D + E) v at every pair of rates: rates (cells, 2), columns (cells, sites + 2)."""
    alpha, beta = rates[:, 0], rates[:, 1]
    found = 2.0 * columns
    found[:, :-1] += columns[:, 1:]
    found[:, 1:] += columns[:, :-1]
    found[:, 0] += (1.0 / alpha + 1.0 / beta - 2.0) * columns[:, 0]
    found[:, 0] += ((alpha + beta - 1.0) / (alpha * beta) - 1.0) * columns[:, 1]
    return found


def _unit(v: Tensor) -> Tensor:
    return v / v.abs().max()


def _terms(sites: int, t: Tensor) -> tuple[Tensor, Tensor]:
    """Exponent and contacts (q, p - q) of every term of Z, shapes (*batch, terms) and (terms, 2)."""
    p, q = torch.tril_indices(sites + 1, sites + 1, device=t.device).to(t.dtype)
    p, q = p[1:], q[1:]  # p from 1 to N, q from 0 to p
    n = float(sites)
    log_count = torch.log(p) + torch.lgamma(2.0 * n - p) - math.lgamma(n + 1.0) - torch.lgamma(n - p + 1.0)
    contacts = torch.stack((q, p - q), dim=-1)
    return log_count + t @ contacts.mT, contacts


def _log_partition(sites: int, t: Tensor) -> Tensor:
    return torch.logsumexp(_terms(sites, t)[0], dim=-1)


def phase_of(rates: Points) -> Tensor:
    """Phase of the infinite chain: 0 low density, 1 high density, 2 maximal current, shape (*batch).

    On the first-order line alpha = beta < 1/2 the answer is high density.
    """
    alpha, beta = rates[..., 0], rates[..., 1]
    ordered = torch.where(alpha < beta, 0, 1)
    return torch.where((alpha >= 0.5) & (beta >= 0.5), 2, ordered)


def limit_current(rates: Points) -> Scalars:
    """Current of the infinite chain, shape (*batch); minus its logarithm is the limit of ln Z / N."""
    smallest = rates.clamp_max(0.5).amin(dim=-1)
    return smallest * (1.0 - smallest)


def limit_density(rates: Points) -> Scalars:
    """Bulk density of the infinite chain: alpha, 1 - beta or 1/2."""
    phase = phase_of(rates)
    half = torch.full_like(rates[..., 0], 0.5)
    return torch.where(phase == 2, half, torch.where(phase == 0, rates[..., 0], 1.0 - rates[..., 1]))
