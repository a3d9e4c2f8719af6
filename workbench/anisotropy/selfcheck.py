"""A self-check of seconds: closed forms and linear theory, each beside what this machine computes."""

from dataclasses import dataclass

import torch

from workbench.anisotropy.alignment import align, alignment_of
from workbench.anisotropy.closed_forms import circulant_geometry, rectified_geometry, transformer_geometry
from workbench.anisotropy.geometry import average_geometry, relative_error
from workbench.anisotropy.levels import ddpm_levels
from workbench.anisotropy.linear_theory import linear_diffusion
from workbench.anisotropy.spectrum import find_score_spectrum
from workbench.architectures import load_architecture
from workbench.draws import draw_normal


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison with a known answer.

    Attributes:
        name: What is compared.
        got: What this machine computed.
        expected: What is known.
        tol: Largest absolute difference that passes.
    """

    name: str
    got: float
    expected: float
    tol: float

    @property
    def passed(self) -> bool:
        """Whether they agree."""
        return abs(self.got - self.expected) <= self.tol


def check_anisotropy() -> tuple[Check, ...]:
    """Compare the lens with what is known exactly.

    Returns:
        One check a line; all should pass on any machine. A few seconds.
    """
    levels = ddpm_levels()
    exact = transformer_geometry((1, 16, 16), 4, 48, levels.mean_weight)
    drawn = average_geometry(load_architecture("dit16-4"), networks=2, seed=0, dtype=torch.float64)
    settings = {"networks": 12, "seed": 0, "dtype": torch.float64}
    whole = average_geometry(load_architecture("unet8-time"), chunk=12, **settings)
    parts = average_geometry(load_architecture("unet8-time"), chunk=5, **settings)
    rectified = find_score_spectrum(rectified_geometry(16, 4.7136))
    kernel = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64) / 4
    circular = find_score_spectrum(circulant_geometry(kernel.outer(kernel), 16, 16))
    linear = linear_diffusion()
    generator = torch.Generator().manual_seed(0)
    half = draw_normal((exact.dim, exact.dim), exact.core, generator)
    chunks = float((whole.core - parts.core).norm() / whole.core.norm())
    size = exact.trace.value / levels.mean_weight
    best = align(exact, half @ half.T)
    return (
        Check("mean weight of the thousand-level ladder", levels.mean_weight, 32.0543, 1e-4),
        Check("fresh transformer: sampled against closed form", relative_error(drawn, exact), 0.0, 1e-6),
        Check("fresh transformer: rank", float(find_score_spectrum(exact).rank), 112.0, 0.0),
        Check("fresh transformer: trace over mean weight", size, 384.0, 0.005),
        Check("chunks of 12 and 5 networks", chunks, 0.0, 1e-12),
        Check("rectified outputs: largest eigenvalue", rectified.lambda_max, 13.610, 1e-3),
        Check("rectified outputs: fifteen-fold eigenvalue", rectified.lambda_min, 1.6066, 1e-3),
        Check("circular filter: largest eigenvalue", circular.lambda_max, 1.0, 1e-12),
        Check("linear theory: W2 along lambda_max", float(linear.distances[-1]), 1.780, 5e-4),
        Check("linear theory: W2 along lambda_min", float(linear.distances[0]), 1.154, 5e-4),
        Check(
            "rotation of least alignment reaches the bound",
            alignment_of(exact, half @ half.T, best.w_min) / best.minimum,
            1.0,
            1e-9,
        ),
    )
