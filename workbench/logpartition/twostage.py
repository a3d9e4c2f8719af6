r"""The published two-stage recipe, under its own name: posteriors from bundles, then a potential that
explains them.

Stage one trains a free softmax over the sampled points on bundles of K samples of one point. Stage two fits
psi so that :math:`p_\psi(t \mid t') \propto e^{K(\langle t, \nabla\psi(t')\rangle - \psi(t))}` matches the
mean posterior of bundles from t', by the Jensen-Shannon divergence. At finite K a bundle's posterior sits at
its own mean statistic, not at t', so that its spread counts twice and the fitted Hessian is half the metric:
`doubled=True` corrects for it.

The metric is nowhere positive by construction (unless the potential is convex), and a free head that reaches
the best possible loss is still biased; `fit_family` has neither problem and one stage less. A potential
without a second derivative is refused: the published layers (ReLU) have a Hessian that is zero or wrong.

References:
    Lobashev, Guskov, Larchenko, Tamm, "Hessian Geometry of Latent Space in Generative Models", 2025,
        sections 3 and 4, https://arxiv.org/abs/2506.10632 (there a U-Net, the Gaussian target and images as
        channels)
    Amos, Xu, Kolter, "Input Convex Neural Networks", 2017, https://arxiv.org/abs/1609.07152
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from workbench.checks import check_count, check_number, check_switch
from workbench.draws import draw_integers, draw_uniform, seeded
from workbench.errors import SettingError, ShapeError
from workbench.logpartition.family import network_for, span_of
from workbench.metrics.base import Chart
from workbench.metrics.hessian import Hessian, check_smooth
from workbench.report import Provenance, SolveReport, Status, provenance_of

_BATCH = 256


class SmoothPotential(nn.Module):
    """psi as a perceptron with softplus layers: smooth, not necessarily convex.

    Args:
        dim: Number of natural coordinates.
        width: Units of each of its three hidden layers.
    """

    def __init__(self, dim: int, width: int = 64) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for size in (dim, width, width):
            layers += [nn.Linear(size, width), nn.Softplus()]
        self.body = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, t: Tensor) -> Tensor:
        """psi at points (*batch, dim), shape (*batch)."""
        return self.body(t).squeeze(-1)


class ConvexPotential(nn.Module):
    """psi as an input-convex network: its Hessian is positive semidefinite everywhere.

    Args:
        dim: Number of natural coordinates.
        width: Units of each of its two hidden layers.
    """

    def __init__(self, dim: int, width: int = 64) -> None:
        super().__init__()
        self.first = nn.Linear(dim, width)
        self.skip = nn.Linear(dim, width)
        self.mix = nn.Parameter(torch.full((width, width), math.log(1.0 / width)))
        self.out = nn.Parameter(torch.full((width,), math.log(1.0 / width)))
        self.line = nn.Linear(dim, 1)

    def forward(self, t: Tensor) -> Tensor:
        """psi at points (*batch, dim), shape (*batch); weights on hidden units are positive."""
        hidden = nn.functional.softplus(self.first(t))
        hidden = nn.functional.softplus(hidden @ torch.exp(self.mix) + self.skip(t))
        return hidden @ torch.exp(self.out) + self.line(t).squeeze(-1)


class _Posterior(nn.Module):
    def __init__(self, features: nn.Module, width: int, cells: int) -> None:
        super().__init__()
        self.features = features
        self.head = nn.Sequential(nn.Linear(width, 128), nn.SiLU(), nn.Linear(128, cells))

    def forward(self, bundles: Tensor) -> Tensor:
        flat = self.features(bundles.flatten(0, 1))
        return self.head(flat.unflatten(0, bundles.shape[:2]).mean(dim=1))


@dataclass(frozen=True, slots=True)
class TwoStageFit:
    """The published recipe's answer.

    Attributes:
        metric: Hessian of the fitted potential (doubled or not), in natural coordinates; may be indefinite.
        posteriors: Mean posterior of bundles from each point, shape (cells, cells), rows sum to one.
        stage_one: Cross-entropy of each epoch, in nats.
        stage_two: Jensen-Shannon divergence at a few steps, in nats.
        doubled: Whether the finite-bundle factor two was corrected.
        report: Steps of both stages and samples seen.
        provenance: Settings and seed.
    """

    metric: Hessian
    posteriors: Tensor
    stage_one: tuple[float, ...]
    stage_two: tuple[float, ...]
    doubled: bool
    report: SolveReport
    provenance: Provenance


def fit_two_stage(
    samples: Tensor,
    points: Tensor,
    cells: Tensor,
    *,
    potential: nn.Module | None = None,
    network: nn.Module | None = None,
    bundle: int = 4,
    doubled: bool = True,
    epochs: int = 20,
    steps: int = 800,
    rate: float = 1e-2,
    chart: Chart | None = None,
    generator: torch.Generator | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> TwoStageFit:
    """Fit bundle posteriors, then a log partition function to them.

    Args:
        samples: Shape (samples, *shape): lattices or vectors.
        points: Natural points, shape (cells, dim); the posterior lives on them.
        cells: Index of each sample's point, shape (samples,).
        potential: psi from (*batch, dim) to (*batch), smooth; a `ConvexPotential` if None.
        network: Features of a sample, to (batch, 16); None for a small smooth one.
        bundle: K, samples to a bundle.
        doubled: Correct the factor two of finite bundles.
        epochs: Passes over the samples in stage one.
        steps: Steps of stage two.
        rate: Largest learning rate of both.
        chart: Name of the natural coordinates.
        generator: Source of all draws; None for one of seed 0.
        progress: Called with the share done and a message.

    Returns:
        The fit. Its metric is refused by the solvers at points where it is indefinite.

    Raises:
        SettingError: If the potential has no second derivative, a point has fewer samples than a bundle, an
            index has no point, or a setting is out of range.
        ShapeError: If shapes do not fit, or samples are not finite.
    """
    for setting, value in (("bundle", bundle), ("epochs", epochs), ("steps", steps)):
        check_count(setting, value)
    check_number("rate", rate, above=0.0)
    check_switch("doubled", doubled)
    span_of(points)
    dim, count = points.shape[1], len(points)
    if cells.shape != samples.shape[:1]:
        raise ShapeError(f"{tuple(cells.shape)} cell indices", f"one for each of {len(samples)} samples")
    if len(cells) and (int(cells.min()) < 0 or int(cells.max()) >= count):
        raise SettingError(
            f"cell indices from {int(cells.min())} to {int(cells.max())}", f"0 to {count - 1}, one a point"
        )
    if not bool(torch.isfinite(samples).all()):
        raise ShapeError("samples that are not finite", "finite values", "leaving them out")
    held = torch.bincount(cells, minlength=count)
    if int(held.min()) < bundle:
        raise SettingError(
            f"{int(held.min())} samples at point {int(held.argmin())}", f"{bundle}, a bundle", "bundle=1"
        )
    generator = seeded(generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator, device=generator.device)))
        psi = ConvexPotential(dim) if potential is None else potential
        features = network_for(samples, 16) if network is None else network
        posterior = _Posterior(features, 16, count).to(samples.device, torch.float32)
    check_smooth(psi)
    order = torch.argsort(cells, stable=True)
    first = held.cumsum(0) - held

    def draw(which: Tensor) -> Tensor:
        share = draw_uniform((len(which), bundle), points, generator)
        return samples[order[first[which, None] + (share * held[which, None]).long()]].float()

    stage_one = _train_posterior(posterior, draw, count, len(samples), epochs, rate, generator, progress)
    with torch.no_grad():
        every = torch.arange(count, device=points.device)
        rows = [
            torch.softmax(posterior(draw(every)), dim=1) for _ in range(max(4, int(held.min()) // bundle))
        ]
    target = torch.stack(rows).mean(dim=0)
    fitted = fit_potential(
        target,
        points,
        bundle=bundle,
        potential=psi,
        steps=steps,
        rate=rate,
        progress=None if progress is None else lambda share, words: progress(0.7 + 0.3 * share, words),
    )
    stage_two = fitted.divergences
    factor = 2.0 if doubled else 1.0

    def natural(t: Tensor) -> Tensor:
        return factor * fitted.potential(t)

    name = f"two-stage Fisher, bundles of {bundle}" + (", doubled" if doubled else "")
    settings = {"bundle": bundle, "doubled": doubled, "epochs": epochs, "steps": steps, "rate": rate}
    provenance = provenance_of(
        points,
        model=type(psi).__name__,
        settings=settings,
        generator=generator,
        sources=("Hessian Geometry of Latent Space in Generative Models",),
    )
    metric = Hessian(natural, Chart("natural", dim) if chart is None else chart, name)
    seen = epochs * max(1, len(samples) // _BATCH) * _BATCH * bundle
    message = f"posterior at {stage_one[-1]:.3f} nats, divergence {stage_two[-1]:.4f} nats"
    finite = math.isfinite(stage_one[-1]) and math.isfinite(stage_two[-1])
    status = Status.CONVERGED if finite else Status.DIVERGED
    report = SolveReport(status, epochs + steps, None, seen, stage_two, (), message)
    report.warn_if_failed()
    return TwoStageFit(metric, target.to(points.dtype), stage_one, stage_two, doubled, report, provenance)


def _train_posterior(posterior, draw, count, total, epochs, rate, generator, progress) -> tuple[float, ...]:
    optimiser = torch.optim.Adam(posterior.parameters(), lr=rate)
    losses = []
    steps = max(1, total // _BATCH)
    for epoch in range(epochs):
        running = torch.zeros((), device=posterior.head[0].weight.device)
        for group in optimiser.param_groups:
            group["lr"] = rate * 0.5 * (1.0 + math.cos(math.pi * epoch / epochs))
        for _ in range(steps):
            which = draw_integers(count, (_BATCH,), posterior.head[0].weight, generator)
            loss = nn.functional.cross_entropy(posterior(draw(which)), which)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            running += loss.detach()
        losses.append(float(running) / steps)
        if progress is not None:
            progress(0.7 * (epoch + 1) / epochs, f"bundle posterior: cross-entropy {losses[-1]:.3f} nats")
    return tuple(losses)


@dataclass(frozen=True, slots=True)
class FittedPotential:
    """A potential that explains posteriors.

    Attributes:
        potential: psi at natural points (*batch, dim), shape (*batch); twice differentiable.
        divergences: Mean Jensen-Shannon divergence at a few steps, in nats.
    """

    potential: Callable[[Tensor], Tensor]
    divergences: tuple[float, ...]


def fit_potential(
    posteriors: Tensor,
    points: Tensor,
    *,
    bundle: int = 1,
    potential: nn.Module | None = None,
    steps: int = 800,
    rate: float = 1e-2,
    generator: torch.Generator | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> FittedPotential:
    """The second stage alone: the potential whose posteriors are closest to given ones.

    Args:
        posteriors: p(t | t'), rows t' sum to one, shape (cells, cells).
        points: Natural points of the cells, shape (cells, dim).
        bundle: K, how many samples a posterior saw.
        potential: psi of the points scaled to -1 .. 1, smooth; a `ConvexPotential` if None. Trained in place.
        steps: Steps of the optimiser.
        rate: Largest learning rate.
        generator: Source of initial weights; None for one of seed 0.
        progress: Called with the share done and a message.

    Returns:
        psi as a function of the points themselves.

    Raises:
        ShapeError: If the posteriors do not fit the points.
        SettingError: If the potential has no second derivative, the points agree along an axis,
            or a setting is out of range.
    """
    for setting, value in (("bundle", bundle), ("steps", steps)):
        check_count(setting, value)
    check_number("rate", rate, above=0.0)
    centre, scale = span_of(points)
    if posteriors.shape != (len(points), len(points)):
        raise ShapeError(f"posteriors of shape {tuple(posteriors.shape)}", f"{(len(points), len(points))}")
    if potential is None:
        generator = seeded(generator)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(draw_integers(2**31, (), points, generator)))
            potential = ConvexPotential(points.shape[1])
    check_smooth(potential)
    unit, target = ((points - centre) / scale).float(), posteriors.float()
    psi, trace = _train_potential(potential.to(unit), unit, target, bundle, steps, rate, progress)
    psi = psi.to(points.dtype)
    return FittedPotential(lambda t: psi((t - centre) / scale), trace)


def _train_potential(psi, unit, target, bundle, steps, rate, progress) -> tuple[nn.Module, tuple[float, ...]]:
    optimiser = torch.optim.Adam(psi.parameters(), lr=rate)
    log_target = torch.log(target.clamp_min(1e-12))
    trace: list[float] = []
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * 0.5 * (1.0 + math.cos(math.pi * step / steps))
        at = unit.clone().requires_grad_()
        value = psi(at)
        (slope,) = torch.autograd.grad(value.sum(), at, create_graph=True)
        log_model = torch.log_softmax(bundle * (slope @ unit.mT - value), dim=1)
        middle = torch.logaddexp(log_model, log_target) - math.log(2.0)
        divergence = log_model.exp() * (log_model - middle) + target * (log_target - middle)
        loss = 0.5 * divergence.sum(dim=1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % max(1, steps // 20) == 0 or step == steps - 1:
            trace.append(float(loss.detach()))
            if progress is not None:
                progress((step + 1) / steps, f"potential: divergence {trace[-1]:.4f} nats")
    return psi, tuple(trace)
