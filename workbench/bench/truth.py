r"""Exact answers at the bench: what a known world says about each curve, by another way than the lens's own.

Paths are held against the world's known route. Geodesics are held against the geodesic equation itself,
solved as a two-point boundary value problem by collocation of fourth order with its own mesh. With the score
s of a world at the noise level and its Jacobian H,

.. math::
    x'' = |x'|^2 \nabla f - 2 (\nabla f \cdot x') x' \quad (g = e^{2f} I,\ f = -b \log p), \qquad
    x'' = -\frac{\lambda\, s\, (x'^\top H x')}{1 + \lambda |s|^2} \quad (g = I + \lambda s s^\top).

Straight lines are held against quadrature of their own integrand.

References:
    do Carmo, "Riemannian Geometry", 1992, chapter 3
    Kierzenka, Shampine, "A BVP solver based on residual control and the Matlab PSE", 2001
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.integrate import quad, solve_bvp
from torch import Tensor

from workbench.bench.answers import Line
from workbench.metrics import Metric
from workbench.models import ExactScore
from workbench.subjects import Subject
from workbench.types import Nodes
from workbench.worlds import World
from workbench.worlds.answers import energy_of, known_answer

_BVP_TOL = 1e-7
_MOST_NODES = 20000
_FINE = 8001  # points of a straight line whose highest energy is looked up


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known about one curve of a bench.

    Attributes:
        barrier: Highest energy on it minus that at the start; None where not known.
        length: Its Euclidean length; None where not known.
        metric_length: Its length under the chosen metric; None where not known.
        curve: The exact curve, shape (nodes, dim); None where not known.
        how: Where the exact answers come from, in words.
    """

    barrier: float | None = None
    length: float | None = None
    metric_length: float | None = None
    curve: Tensor | None = None
    how: str = ""


def truth_of(
    line: Line, subject: Subject, metric_name: str, metric: Metric, sigma: float, weight: float | None
) -> Truth:
    """The exact answers about a curve, where the subject is a known world.

    Args:
        line: The curve.
        subject: The subject.
        metric_name: Name of the chosen metric.
        metric: The metric.
        sigma: Noise level.
        weight: Weight of the score metric as the metric has it; None for metrics without one.

    Returns:
        What is known; nothing outside of known worlds.
    """
    world = subject.world
    if world is None:
        return Truth()
    start, end = line.points[0], line.points[-1]
    if line.kind == "straight":
        return _straight(subject, world, metric, sigma, start, end)
    if line.kind == "path" and line.sigma == 0.0 and ("mep" in line.name or "static" in line.name):
        known = known_answer(world, start, end, near=line.points)
        if known is None:
            return Truth()
        if not known.between_minima:
            return Truth(barrier=known.barrier, how=f"saddles of the route {known.route.name}")
        curve = world.reference_path(known.route.name).to(line.points)
        return Truth(known.barrier, known.route.length, None, curve, f"the known route {known.route.name}")
    if line.kind == "trajectory" and sigma == 0.0:
        curve = world.reference_path().to(line.points)
        return Truth(curve=curve, how=f"the known route {world.facts.routes[0].name}")
    if line.kind == "geodesic" and line.report is not None and line.report.iterations:
        return _geodesic(line, subject, metric_name, metric, sigma, weight)
    return Truth()


def _straight(
    subject: Subject, world: World, metric: Metric, sigma: float, start: Tensor, end: Tensor
) -> Truth:
    """The straight line by its own integrals."""
    u = torch.linspace(0.0, 1.0, _FINE, dtype=start.dtype, device=start.device)[:, None]
    points = torch.lerp(start, end, u)
    energies = (
        -subject.model.log_prob(points, sigma)
        if isinstance(subject.model, ExactScore)
        else energy_of(world, points)
    )
    step = end - start

    def speed(t: float) -> float:
        return float(metric.inner((start + t * step)[None], step[None], step[None]).sqrt())

    length = float(step.norm())
    measured = (
        length if metric.calls == 0 else quad(speed, 0.0, 1.0, epsabs=1e-10, epsrel=1e-10, limit=400)[0]
    )
    return Truth(float(energies.max() - energies[0]), length, measured, None, "quadrature along the line")


def _geodesic(
    line: Line, subject: Subject, name: str, metric: Metric, sigma: float, weight: float | None
) -> Truth:
    """The geodesic equation solved by collocation, started from the curve that was found."""
    dim = line.points.shape[-1]
    if name == "euclidean":
        straight = float((line.points[-1] - line.points[0]).norm())
        return Truth(length=straight, metric_length=straight, curve=line.points[[0, -1]], how="the chord")
    model = subject.model
    hessian = getattr(model, "hessian", None)
    if name not in ("score", "density") or not isinstance(model, ExactScore) or hessian is None:
        return Truth()
    turn = (
        _conformal(model, sigma, 1.0 / dim)
        if name == "density"
        else _graph(model, hessian, sigma, weight or 0.0)
    )

    def equation(_t: np.ndarray, state: np.ndarray) -> np.ndarray:
        x, v = (
            torch.as_tensor(part.T.copy(), dtype=line.points.dtype) for part in (state[:dim], state[dim:])
        )
        return np.concatenate([state[dim:], turn(x, v).T.numpy()])

    ends = line.points[[0, -1]].cpu().numpy()

    def at_ends(first: np.ndarray, last: np.ndarray) -> np.ndarray:
        return np.concatenate([first[:dim] - ends[0], last[:dim] - ends[1]])

    nodes = line.points.detach().cpu()
    mesh = np.linspace(0.0, 1.0, len(nodes))
    guess = np.concatenate([nodes.T.numpy(), np.gradient(nodes.numpy(), mesh, axis=0).T])
    with np.errstate(all="ignore"):
        found = solve_bvp(equation, at_ends, mesh, guess, tol=_BVP_TOL, max_nodes=_MOST_NODES)
    if found.status != 0:
        return Truth()
    fine = np.linspace(0.0, 1.0, 2001)
    state = torch.as_tensor(found.sol(fine), dtype=line.points.dtype)
    x, v = state[:dim].T.contiguous(), state[dim:].T.contiguous()
    speeds = metric.inner(x, v, v).clamp_min(0.0).sqrt()
    length = float(torch.trapezoid(speeds, torch.as_tensor(fine, dtype=speeds.dtype)))
    if not math.isfinite(length):
        return Truth()
    return Truth(metric_length=length, curve=x, how="the geodesic equation by collocation")


def _conformal(model: ExactScore, sigma: float, power: float) -> Callable[[Nodes, Nodes], Nodes]:
    def turn(x: Tensor, v: Tensor) -> Tensor:
        slope = -power * model.score(x, sigma)
        return v.square().sum(-1, keepdim=True) * slope - 2.0 * (slope * v).sum(-1, keepdim=True) * v

    return turn


def _graph(
    model: ExactScore, hessian: Callable[..., Tensor], sigma: float, weight: float
) -> Callable[[Nodes, Nodes], Nodes]:
    def turn(x: Tensor, v: Tensor) -> Tensor:
        score = model.score(x, sigma)
        bend = torch.einsum("ni,nij,nj->n", v, hessian(x, sigma), v)
        return -weight * score * (bend / (1.0 + weight * score.square().sum(-1)))[:, None]

    return turn
