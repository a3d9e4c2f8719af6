r"""Shortest curves of denoising distributions in any dimension, from the simulation-free energy alone.

The Fisher-Rao metric on (x, lambda) of images has no matrix that one could build. Its discretised energy does
not need
one: neighbours are :math:`\langle\Delta\eta, \Delta\mu\rangle` apart, and each node costs one denoiser call
and one derivative product. The curve is a cubic spline through a few free nodes; the energy on a finer grid
is minimised by a quasi-Newton method over all free nodes at once.

Ends must keep a positive noise level: towards data the metric diverges like 1/sigma^2.

References:
    Karczewski, Heinonen, Pouplin, Hauberg, Garg, "Spacetime Geometry of Denoising in Diffusion Models", 2025,
        section 5, https://arxiv.org/abs/2505.17517
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.curves import Curve
from workbench.draws import draw_signs, seeded
from workbench.errors import SettingError
from workbench.geodesics.starts import straight_start
from workbench.integrators import Cancel, Progress
from workbench.metrics.spacetime import spacetime_energy
from workbench.models import ScoreModel, check_points
from workbench.report import Estimate, SolveReport, Status


@dataclass(frozen=True, slots=True)
class SpacetimeCurve:
    """A relaxed curve on (x, lambda).

    Attributes:
        curve: Nodes on the fine grid, shape (nodes, dim + 1), the log signal-to-noise ratio last.
        length: sqrt(energy), extrapolated from the grid and half of it.
        straight: The same of the straight line, to compare with.
        report: Status, relative gradient and model calls.
    """

    curve: Curve
    length: Estimate
    straight: float
    report: SolveReport


def find_spacetime_curve(
    model: ScoreModel,
    start: Tensor,
    end: Tensor,
    *,
    free: int = 9,
    nodes: int = 65,
    tol: float = 1e-4,
    max_iterations: int = 60,
    probe: bool | None = None,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> SpacetimeCurve:
    """Relax a curve between two noisy points by its simulation-free energy.

    Args:
        model: The score model of dimension dim.
        start: (x, lambda), shape (dim + 1,), in the variance-preserving frame x_t = alpha x0 + s eps.
        end: The same.
        free: Free nodes of the spline.
        nodes: Odd number of nodes on which the energy is taken.
        tol: Relative size of the energy's gradient at which to stop.
        max_iterations: Rounds of ten quasi-Newton steps at most; a step takes one or a few energies.
        probe: Estimate the divergence with one random sign vector, the same along the curve; None for exact
            up to 16 dimensions.
        generator: Source of the probe; None for one of seed 0.
        progress: Called with the share done and a sentence.
        cancel: Asked at every step.

    Returns:
        The curve. One denoiser call and one derivative product a node and energy (dim products if exact).

    Raises:
        ShapeError: If an end does not fit the model.
        SettingError: If the grid is too small or even.
    """
    dim = model.frame.dim
    for name, point in (("start", start), ("end", end)):
        check_points(point, dim + 1, name=name)
    if nodes < 5 or nodes % 2 == 0 or free < 1:
        raise SettingError(
            f"nodes={nodes}, free={free}", "an odd number of 5 or more, and 1 free node or more"
        )
    signs = None
    if probe if probe is not None else dim > 16:
        signs = draw_signs((dim,), start, seeded(generator))
    base = straight_start(start.detach(), end.detach(), free + 2)
    at = torch.linspace(0.0, 1.0, nodes, dtype=start.dtype, device=start.device)
    inner = base[1:-1].clone().requires_grad_()
    calls = 0
    history: list[float] = []

    def curve() -> Tensor:
        return Curve.through(torch.cat((base[:1], inner, base[-1:])))(at)

    def energy() -> Tensor:
        nonlocal calls
        calls += nodes
        return spacetime_energy(model, curve(), probe=signs)

    before = energy()
    straight = math.sqrt(max(0.0, float(before.detach())))
    scale = float(torch.linalg.vector_norm(torch.autograd.grad(before, inner)[0]))
    optimiser = torch.optim.LBFGS(
        [inner], lr=1.0, max_iter=10, history_size=20, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )
    status = Status.MAX_ITERATIONS

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = energy()
        value.backward()
        return value

    for step in range(max_iterations):
        value = float(optimiser.step(closure).detach())
        if not math.isfinite(value):
            status = Status.DIVERGED
            break
        size = float(torch.linalg.vector_norm(inner.grad))
        history.append(size / scale if scale > 0.0 else 0.0)
        if progress is not None:
            progress((step + 1) / max_iterations, f"energy {value:.6g}")
        if cancel is not None and cancel.is_set():
            status = Status.CANCELLED
            break
        if history[-1] <= tol:
            status = Status.CONVERGED
            break
    with torch.no_grad():
        found = curve()
        fine, half = (
            float(spacetime_energy(model, found[::skip], probe=signs).clamp_min(0.0).sqrt())
            for skip in (1, 2)
        )
    length = Estimate(
        fine + (fine - half) / 3.0, abs(fine - half) / 3.0, "Fisher-Rao", "grid against half of it"
    )
    report = SolveReport(status, len(history), history[-1] if history else math.inf, calls, tuple(history))
    report.warn_if_failed()
    return SpacetimeCurve(Curve.through(found.detach()), length, straight, report)
