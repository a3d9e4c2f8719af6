r"""The average output geometry of untrained networks.

.. math::  G = \mathbb E_{\theta, x, t}\big[\, w_t\, F_\theta(x, t)\, F_\theta(x, t)^\top \big],

the uncentred second moment of the score's network part over initialisations, probe inputs and noise levels.
It is kept as a core matrix A with a number of copies and a layout of the flat output indices, G = Q (A x I)
Q^T: a colour convolution needs one spatial core, a transformer one matrix over its tokens, anything else
has one copy of itself.

The core is summed in float64 while networks stream past, in two halves (even and odd indices), whose
difference is the error bar.

References:
    On the Anisotropy of Score-Based Generative Models (Floros, Moosavi-Dezfooli, Dragotti, 2025), section 3,
    https://arxiv.org/abs/2510.22899
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.anisotropy.ensemble import Ensemble, make_ensemble
from workbench.anisotropy.levels import Levels, ddpm_levels
from workbench.anisotropy.probes import ZERO, Probe
from workbench.architectures import Architecture
from workbench.errors import SettingError, ShapeError
from workbench.report import Estimate

DENSE_LIMIT = 4096
"""Largest core that is kept as a matrix; 128 MiB in float64."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """A second moment G = Q (core x identity) Q^T.

    Attributes:
        core: A, shape (m, m), float64.
        halves: The same from even and from odd networks, shape (2, m, m); equal to A for a closed form.
        copies: Size of the identity.
        layout: Flat index of row r, copy c at place r * copies + c, shape (m * copies,).
        shape: Shape of one sample.
        networks: Number of networks.
        first: Index of the first one.
        seed: Seed that keyed them; None for a closed form.
        architecture: Its name.
        head: Kind of the last layer: "linear", "convolution", "token" or "other".
        estimator: How it was estimated, "closed form" if exact.
        probe: The inputs, in words.
        levels: The noise levels, in words.
        mean_weight: Mean weight of the levels; G over it is the second moment of the bare output.
        blind: Whether the networks do not see the time.
        dtype: Precision of the networks.
    """

    core: Tensor
    halves: Tensor
    copies: int
    layout: Tensor
    shape: tuple[int, ...]
    networks: int = 0
    first: int = 0
    seed: int | None = None
    architecture: str = ""
    head: str = "other"
    estimator: str = "closed form"
    probe: str = "x = 0"
    levels: str = ""
    mean_weight: float = 1.0
    blind: bool = False
    dtype: str = "float64"

    @property
    def dim(self) -> int:
        """Rows of G."""
        return self.core.shape[0] * self.copies

    @property
    def trace(self) -> Estimate:
        """Trace of G, the mean squared size of the score's network part; error from the two halves."""
        halves = self.copies * self.halves.diagonal(dim1=-2, dim2=-1).sum(-1)
        value = float(self.copies * self.core.trace())
        return Estimate(value, abs(float(halves[0] - halves[1])) / 2, how="even against odd networks")

    @property
    def error(self) -> float:
        """Estimated relative Frobenius error of G: half the difference of its halves over its size."""
        return float((self.halves[0] - self.halves[1]).norm() / (2 * self.core.norm()))

    @property
    def participation(self) -> float:
        """tr(G)^2 / ||G||_F^2: how many directions share the score."""
        return float(self.copies * self.core.trace() ** 2 / self.core.square().sum())

    def apply(self, vectors: Tensor) -> Tensor:
        """G v for vectors (*batch, dim), in their dtype; no matrix larger than the core."""
        layout = self.layout.to(vectors.device)
        tall = vectors[..., layout].reshape(*vectors.shape[:-1], -1, self.copies)
        out = (self.core.to(vectors) @ tall).flatten(-2)
        return torch.zeros_like(vectors).index_copy(-1, layout, out)

    def rayleigh(self, vectors: Tensor) -> Tensor:
        """v^T G v / v^T v for vectors (*batch, dim); the predictor of how badly data along v is generated."""
        return (vectors * self.apply(vectors)).sum(-1) / vectors.square().sum(-1)

    def matrix(self) -> Tensor:
        """G itself, (dim, dim).

        Raises:
            SettingError: If dim is above `DENSE_LIMIT`.
        """
        if self.dim > DENSE_LIMIT:
            raise SettingError(f"a dense G of {self.dim} rows", f"at most {DENSE_LIMIT}", "apply or rayleigh")
        return self.apply(torch.eye(self.dim, dtype=self.core.dtype, device=self.core.device))


def average_geometry(
    architecture: Architecture,
    *,
    networks: int = 200,
    probe: Probe = ZERO,
    levels: Levels | None = None,
    estimator: str = "auto",
    reinitialise: str = "none",
    generator: torch.Generator | None = None,
    seed: int | None = None,
    first: int = 0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    chunk: int | None = None,
    progress: Callable[[float, str], None] | None = None,
    cancel=None,
) -> Geometry:
    """Average output geometry of an architecture's untrained networks.

    Args:
        architecture: The recipe.
        networks: How many networks; at least two.
        probe: Inputs at which they are asked.
        levels: Noise levels; the thousand levels of denoising diffusion for the architecture's output if
            None.
        estimator: "plain", "weighted", "rao_blackwell", "combined", or "auto", see
            `workbench.anisotropy.ensemble`.
        reinitialise: "none", "output" or "all": draw zero-initialised weights like default ones.
        generator: Where the seed is drawn from.
        seed: The seed itself, in place of a generator: the same seed gives the same networks.
        first: Index of the first network; disjoint ranges of indices are independent ensembles.
        dtype: Precision of the networks.
        device: Where they are evaluated.
        chunk: Networks evaluated together; None fits 128 MiB. It changes the answer by rounding alone.
        progress: Called with a fraction and a sentence.
        cancel: An object whose `is_set()` stops early; what has been summed is returned.

    Returns:
        The geometry.

    Raises:
        SettingError: If a setting is out of range, the outputs are zero, or the core is above `DENSE_LIMIT`.
        ModelOutputError: If a network's output is not finite.

    Cost:
        One model call a network.
    """
    if networks < 2:
        raise SettingError(f"{networks} networks", "at least 2, one for each half")
    seed = seed_from(generator, seed)
    ensemble = make_ensemble(
        architecture,
        levels=levels or ddpm_levels(prediction=architecture.prediction),
        probe=probe,
        seed=seed,
        estimator=estimator,
        reinitialise=reinitialise,
        dtype=dtype,
        device=device,
    )
    return sum_geometry(ensemble, networks, first=first, chunk=chunk, progress=progress, cancel=cancel)


def sum_geometry(
    ensemble: Ensemble,
    networks: int,
    *,
    first: int = 0,
    chunk: int | None = None,
    progress: Callable[[float, str], None] | None = None,
    cancel=None,
) -> Geometry:
    """The geometry of networks first .. first + networks - 1; arguments as in `average_geometry`."""
    head = ensemble.head
    if head.core > DENSE_LIMIT:
        raise SettingError(
            f"a core of {head.core} rows",
            f"at most {DENSE_LIMIT} for a matrix",
            "SeededGeometry",
        )
    chunk = chunk or chunk_size(ensemble)
    sums = torch.zeros(2, head.core, head.core, dtype=torch.float64, device=ensemble.device)
    done = 0
    while done < networks and not (cancel is not None and cancel.is_set() and done >= 2):
        indices = range(first + done, first + min(done + chunk, networks))
        rows = ensemble.rows(indices)
        for half in (0, 1):
            own = rows[(half - indices[0]) % 2 :: 2].flatten(0, 1)
            sums[half] += own.T @ own
        done += len(indices)
        if progress is not None:
            progress(done / networks, f"{done} of {networks} networks")
    even = len(range(first + (first % 2), first + done, 2))
    counts = torch.tensor([even, done - even], dtype=torch.float64, device=sums.device).clamp(min=1)
    return Geometry(
        core=sums.sum(0).cpu() / done,
        halves=(sums / counts[:, None, None]).cpu(),
        copies=head.copies,
        layout=head.layout.cpu(),
        shape=ensemble.architecture.shape,
        networks=done,
        first=first,
        seed=ensemble.seed,
        architecture=ensemble.architecture.name,
        head=ensemble.found.kind,
        estimator=ensemble.estimator,
        probe=str(ensemble.probe),
        levels=ensemble.levels.name,
        mean_weight=ensemble.levels.mean_weight,
        blind=ensemble.blind,
        dtype=str(ensemble.dtype).removeprefix("torch."),
    )


def chunk_size(ensemble: Ensemble, budget: int = 128 * 2**20) -> int:
    """How many networks at once stay within a memory budget in bytes for parameters and factors."""
    parameters = sum(size.numel() for size in ensemble.laws.shapes.values())
    factors = ensemble.rows(range(2)).numel() // 2
    return max(2, min(64, budget // (2 * parameters * ensemble.dtype.itemsize + 2 * 8 * factors)))


def relative_error(geometry: Geometry, reference: Geometry) -> float:
    """Relative Frobenius distance of a geometry from a reference made of other networks.

    Args:
        geometry: What is judged.
        reference: What it is judged by.

    Returns:
        ||G - R||_F / ||R||_F.

    Raises:
        ShapeError: If they have different dimensions.
        SettingError: If the two share networks (same seed, overlapping indices).
    """
    if geometry.dim != reference.dim:
        raise ShapeError(f"geometries of {geometry.dim} and {reference.dim} rows", "the same size")
    apart = geometry.first + geometry.networks <= reference.first or (
        reference.first + reference.networks <= geometry.first
    )
    if geometry.seed is not None and geometry.seed == reference.seed and not apart:
        raise SettingError(
            f"two geometries of seed {geometry.seed} with networks in common",
            "disjoint networks",
            "another seed",
        )
    if geometry.copies == reference.copies and torch.equal(geometry.layout, reference.layout):
        return float((geometry.core - reference.core).norm() / reference.core.norm())
    return float((geometry.matrix() - reference.matrix()).norm() / reference.matrix().norm())


def seed_from(generator: torch.Generator | None, seed: int | None) -> int:
    """A seed of the ensemble: the one given, or one drawn from the generator.

    Raises:
        SettingError: If neither or both are given, or the seed is negative.
    """
    if generator is not None and seed is None:
        return int(torch.randint(0, 2**62, (), generator=generator, device=generator.device))
    if generator is not None or seed is None:
        raise SettingError("both or neither of generator and seed", "exactly one of them", "seed=0")
    if seed < 0:
        raise SettingError(f"seed {seed}", "0 or more")
    return seed
