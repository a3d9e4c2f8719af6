r"""The Ising model on a torus: exact partition functions, the infinite lattice, and samplers that reach
equilibrium.

Spins s = +1 or -1 with weight :math:`e^{K A + B M}`, A the sum over bonds of :math:`s_i s_j` and M the sum of
spins. This is an exponential family in its natural coordinates (K, B): its Fisher metric is the Hessian of
log Z, the covariance of (A, M). In temperature and field, T = 1/K and H = B/K, the metric is that Hessian
pulled back, not the Hessian of log Z taken in (T, H).

Without a field Kaufman's product is exact for every size; with one the transfer matrix is, up to about ten
columns.

References:
    Kaufman, "Crystal Statistics II", 1949, https://doi.org/10.1103/PhysRev.76.1232
    Onsager, "Crystal Statistics I", 1944, https://doi.org/10.1103/PhysRev.65.117
    Wolff, "Collective Monte Carlo Updating for Spin Systems", 1989,
    https://doi.org/10.1103/PhysRevLett.62.361
"""

import math
from dataclasses import dataclass

import torch
from scipy.integrate import quad
from scipy.special import ellipe, ellipk
from torch import Tensor

from workbench.draws import draw_integers, draw_uniform
from workbench.errors import SettingError
from workbench.metrics import Chart, Hessian, Pullback, in_coordinates
from workbench.types import Points, Scalars

CRITICAL_COUPLING = 0.5 * math.log(1.0 + math.sqrt(2.0))
"""K at which the infinite lattice orders."""

NATURAL = Chart("natural: coupling and field", 2, ("K", "B"))
THERMAL = Chart("temperature and field", 2, ("T", "H"))
_WIDEST = 12


@dataclass(frozen=True, slots=True)
class Ising:
    """An Ising torus of rows x columns spins, at least three each way (two would count bonds twice).

    Attributes:
        rows: Number of rows.
        columns: Number of columns; the transfer matrix has 2^columns rows.
    """

    rows: int
    columns: int

    def __post_init__(self) -> None:
        if min(self.rows, self.columns) < 3:
            raise SettingError(f"a torus of {self.rows} x {self.columns} spins", "3 x 3 or more")

    @property
    def sites(self) -> int:
        """Number of spins."""
        return self.rows * self.columns

    def statistics(self, spins: Tensor) -> Tensor:
        """(A, M) of configurations, shape (*batch, rows, columns) to (*batch, 2), in the spins' dtype."""
        bonds = spins * (spins.roll(1, -1) + spins.roll(1, -2))
        return torch.stack((bonds.sum(dim=(-2, -1)), spins.sum(dim=(-2, -1))), dim=-1)

    def log_partition_zero_field(self, coupling: Scalars) -> Scalars:
        """log Z at B = 0 and K > 0 by Kaufman's product; any size, twice differentiable everywhere."""
        m, n = self.rows, self.columns
        k = coupling.unsqueeze(-1)
        order = torch.arange(n, dtype=coupling.dtype, device=coupling.device)
        bulk = torch.cosh(2.0 * k) / torch.tanh(2.0 * k)
        odd = torch.acosh(bulk - torch.cos(math.pi * (2.0 * order + 1.0) / n))
        even = torch.acosh(bulk - torch.cos(math.pi * 2.0 * order[1:] / n))
        first = 2.0 * k + torch.log(torch.tanh(k))  # signed: negative above the critical temperature
        half = 0.5 * m * first.squeeze(-1)

        def log_product(g: Tensor, sign: float) -> Tensor:
            return (0.5 * m * g + torch.log1p(sign * torch.exp(-m * g))).sum(dim=-1)

        log_even = log_product(even, -1.0)
        terms = torch.stack(
            (
                log_product(odd, 1.0),
                log_product(odd, -1.0),
                log_product(even, 1.0) + half + torch.nn.functional.softplus(-2.0 * half),
                log_even + half,
                log_even - half,
            ),
            dim=-1,
        )
        top = terms.amax(dim=-1, keepdim=True).detach()
        signs = torch.tensor([1.0, 1.0, 1.0, 1.0, -1.0], dtype=coupling.dtype, device=coupling.device)
        total = top.squeeze(-1) + torch.log((signs * torch.exp(terms - top)).sum(dim=-1))
        return total - math.log(2.0) + 0.5 * m * n * torch.log(2.0 * torch.sinh(2.0 * coupling))

    def log_partition(self, x: Points) -> Scalars:
        """log Z at natural points x = (K, B) by the transfer matrix; twice differentiable.

        Args:
            x: Shape (*batch, 2).

        Returns:
            Shape (*batch). Cost: about 2 log2(rows) products of 2^columns-square matrices a point.

        Raises:
            SettingError: If the lattice is too wide for its transfer matrix.
        """
        if self.columns > _WIDEST:
            raise SettingError(
                f"a transfer matrix for {self.columns} columns",
                f"at most {_WIDEST}",
                "log_partition_zero_field, or Ising(columns, rows) if the other side is shorter",
            )
        states = torch.cartesian_prod(
            *[torch.tensor([1.0, -1.0], dtype=x.dtype, device=x.device)] * self.columns
        )
        along = (states * states.roll(1, -1)).sum(dim=-1)
        coupling, field = x[..., 0, None, None], x[..., 1, None, None]
        own = coupling * along + field * states.sum(dim=-1)  # (*batch, 1, states)
        exponent = coupling * (states @ states.mT) + 0.5 * (own + own.mT)
        top = exponent.amax(dim=(-2, -1), keepdim=True).detach()
        base, log_scale = torch.exp(exponent - top), self.rows * top[..., 0, 0]
        half = _power(base, self.rows // 2)
        other = half[0] if self.rows % 2 == 0 else half[0] @ base
        trace = (half[0] * other).sum(dim=(-2, -1))  # symmetric factors: tr(P Q) = sum P * Q
        return log_scale + 2.0 * half[1] + torch.log(trace)

    def metric(self) -> Hessian:
        """The Fisher metric in natural coordinates: covariance of (A, M), by the transfer matrix."""
        return Hessian(self.log_partition, NATURAL, f"Fisher of a {self.rows} x {self.columns} Ising torus")

    def thermal_metric(self) -> Pullback:
        """The same metric in temperature and field, T = 1/K and H = B/K, pulled back."""
        return in_coordinates(self.metric(), natural_of_thermal, THERMAL, domain=lambda x: x[..., 0] > 0.0)


def natural_of_thermal(x: Points) -> Points:
    """(K, B) of (T, H): K = 1/T, B = H/T."""
    return torch.stack((1.0 / x[..., 0], x[..., 1] / x[..., 0]), dim=-1)


def _power(base: Tensor, exponent: int) -> tuple[Tensor, Tensor]:
    """base^exponent over exp(log scale), and log scale, for symmetric positive matrices; exponent from 1."""
    log_scale = torch.zeros(base.shape[:-2], dtype=base.dtype, device=base.device)
    result, result_scale, square = None, log_scale, base
    while exponent:
        if exponent & 1:
            result = square if result is None else result @ square
            result_scale = result_scale + log_scale
        exponent >>= 1
        if exponent:
            square = square @ square
            top = square.amax(dim=(-2, -1), keepdim=True).detach()
            square, log_scale = square / top, 2.0 * log_scale + torch.log(top[..., 0, 0])
    return base if result is None else result, result_scale


@dataclass(frozen=True, slots=True)
class InfiniteIsing:
    """Thermodynamics of the infinite lattice at one coupling, a spin.

    Attributes:
        log_partition: log Z.
        bonds: Mean of A; the energy is its negative in units of the coupling.
        bonds_variance: Variance of A, infinite at the critical point; K^2 times it is the specific heat.
        magnetisation: Spontaneous M, zero in the disordered phase.
    """

    log_partition: float
    bonds: float
    bonds_variance: float
    magnetisation: float


def infinite_ising(coupling: float) -> InfiniteIsing:
    """Onsager's solution at B = 0.

    Args:
        coupling: K > 0.

    Returns:
        The quantities a spin.
    """
    two = 2.0 * coupling
    modulus = 2.0 * math.sinh(two) / math.cosh(two) ** 2
    square = min(modulus**2, 1.0)
    integral = quad(
        lambda p: math.log(0.5 * (1.0 + math.sqrt(max(0.0, 1.0 - square * math.sin(p) ** 2)))),
        0.0,
        0.5 * math.pi,
        epsabs=1e-14,
        epsrel=1e-13,
        limit=400,
    )[0]
    log_z = math.log(2.0 * math.cosh(two)) + integral / math.pi
    coth, tanh2 = 1.0 / math.tanh(two), math.tanh(two) ** 2
    signed = 2.0 * tanh2 - 1.0
    critical = abs(signed) < 1e-9
    first = 0.0 if critical else float(ellipk(square))
    bonds = coth * (1.0 + (2.0 / math.pi) * signed * first)
    if critical:
        variance = math.inf
    else:
        bracket = 2.0 * (first - float(ellipe(square)))
        bracket -= 2.0 * (1.0 - tanh2) * (0.5 * math.pi + signed * first)
        variance = (2.0 / math.pi) * coth**2 * bracket
    ordered = coupling > CRITICAL_COUPLING
    magnetisation = max(0.0, 1.0 - math.sinh(two) ** -4) ** 0.125 if ordered else 0.0
    return InfiniteIsing(log_z, bonds, variance, magnetisation)


def _start(lattice: Ising, x: Tensor, generator: torch.Generator) -> Tensor:
    shape = (x.shape[0], lattice.rows, lattice.columns)
    draw = draw_uniform(shape, x.float(), generator)
    return torch.where(draw < 0.5, -1.0, 1.0).float()


def sample_heat_bath(lattice: Ising, x: Tensor, *, sweeps: int = 200, generator: torch.Generator) -> Tensor:
    """One configuration for each natural point, by checkerboard heat bath.

    A global flip follows every sweep, accepted with exp(-2 B M). It lets a lattice that froze into the wrong
    sign out of it; without it, means below the critical temperature are wrong by many standard errors.

    Args:
        lattice: A torus with an even number of rows and columns.
        x: Natural points (K, B), one for each chain, shape (count, 2).
        sweeps: Sweeps from a random start; all chains in one batch.
        generator: Source of all draws.

    Returns:
        Spins, shape (count, rows, columns), float32. Beyond about 32 x 32 near the critical point use
        `sample_wolff`.

    Raises:
        SettingError: If a side is odd, so that a checkerboard does not close.
    """
    if lattice.rows % 2 or lattice.columns % 2:
        raise SettingError(
            f"a checkerboard on {lattice.rows} x {lattice.columns} spins", "even sides", "sample_wolff"
        )
    spins = _start(lattice, x, generator)
    coupling, field = (2.0 * x[:, k].float()[:, None, None] for k in (0, 1))
    rows = torch.arange(lattice.rows, device=x.device)[:, None]
    black = (rows + torch.arange(lattice.columns, device=x.device)) % 2 == 0
    for _ in range(sweeps):
        for colour in (black, ~black):
            around = spins.roll(1, 1) + spins.roll(-1, 1) + spins.roll(1, 2) + spins.roll(-1, 2)
            up = torch.sigmoid(coupling * around + field)
            draw = draw_uniform(spins.shape, spins, generator)
            spins = torch.where(colour, torch.where(draw < up, 1.0, -1.0), spins)
        magnetisation = spins.sum(dim=(1, 2))
        draw = draw_uniform(magnetisation.shape, spins, generator)
        flip = draw < torch.exp(-field[:, 0, 0] * magnetisation)
        spins = torch.where(flip[:, None, None], -spins, spins)
    return spins


def sample_wolff(
    lattice: Ising,
    x: Tensor,
    *,
    clusters: int = 200,
    start: Tensor | None = None,
    generator: torch.Generator,
) -> Tensor:
    """One configuration for each natural point, by single clusters with a ghost spin for the field.

    A cluster grows from a random site along bonds that join equal spins, open with probability 1 - exp(-2K);
    a spin along the field is tied to the ghost with probability 1 - exp(-2|B|), and a cluster that reaches it
    stays.

    Args:
        lattice: The torus, any size.
        x: Natural points (K, B) with K >= 0, one for each chain, shape (count, 2).
        clusters: Clusters grown; near the critical point a few hundred suffice at any size. At weak coupling
            clusters are small: begin from `sample_heat_bath` there.
        start: Spins to begin with, shape (count, rows, columns); random ones if None.
        generator: Source of all draws.

    Returns:
        Spins, shape (count, rows, columns), float32.

    Raises:
        SettingError: If a coupling is negative.
    """
    if bool((x[:, 0] < 0.0).any()):
        raise SettingError(f"a coupling of {float(x[:, 0].min()):g}", "K >= 0", "sample_heat_bath")
    spins = _start(lattice, x, generator) if start is None else start
    count = x.shape[0]
    open_bond = -torch.expm1(-2.0 * x[:, 0].float())[:, None, None]
    tied = -torch.expm1(-2.0 * x[:, 1].float().abs())[:, None, None]
    along = torch.sign(x[:, 1].float())[:, None, None]
    every = torch.arange(count, device=x.device)
    for _ in range(clusters):
        draws = draw_uniform((3, *spins.shape), spins, generator)
        right = (draws[0] < open_bond) & (spins == spins.roll(-1, 2))
        down = (draws[1] < open_bond) & (spins == spins.roll(-1, 1))
        ghost = (draws[2] < tied) & (spins == along)
        seed = draw_integers(lattice.sites, (count,), x, generator)
        cluster = torch.zeros(count, lattice.sites, dtype=torch.bool, device=x.device)
        cluster[every, seed] = True
        cluster = cluster.view_as(right)
        while True:
            grown = cluster | (cluster & right).roll(1, 2) | (cluster.roll(-1, 2) & right)
            grown = grown | (grown & down).roll(1, 1) | (grown.roll(-1, 1) & down)
            if torch.equal(grown, cluster):
                break
            cluster = grown
        free = ~(cluster & ghost).flatten(1).any(dim=1)[:, None, None]
        spins = torch.where(cluster & free, -spins, spins)
    return spins
