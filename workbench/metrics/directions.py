r"""Leading directions of a pullback metric in any dimension: randomised singular values of its Jacobian.

The right singular vectors of J(x) are the eigenvectors of :math:`J^\top J`, the squares of its singular
values the eigenvalues. A random block is pushed through J and pulled back through :math:`J^\top` a fixed few
times; unlike a long block power iteration it takes (count + oversampling)(power + 1) products of each kind,
and all of them in one batch. For a diffusion model the map may end at a bottleneck: the directions are then
the local basis of its h-space.

References:
    Halko, Martinsson, Tropp, "Finding Structure with Randomness", 2011, algorithms 4.4 and 5.1,
        https://arxiv.org/abs/0909.4061
    Park, Kwon, Choi, Jo, Uh, "Understanding the Latent Space of Diffusion Models through the Lens of
        Riemannian Geometry", 2023, https://arxiv.org/abs/2307.12868
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from workbench.draws import draw_normal, seeded
from workbench.errors import SettingError, ShapeError
from workbench.metrics.base import Chart
from workbench.metrics.pullback import Pullback


@dataclass(frozen=True, slots=True)
class TopDirections:
    """Leading singular triplets of a Jacobian at one point.

    Attributes:
        values: Singular values, descending, shape (count,).
        directions: Unit directions of the input in rows, shape (count, dim), signs arbitrary.
        outputs: Unit directions of the output in rows, shape (count, out).
        residual: |J^T u - s v| / s_1 of each triplet, shape (count,); small if it is one.
        products: Jacobian products of each kind that were taken.
    """

    values: Tensor
    directions: Tensor
    outputs: Tensor
    residual: Tensor
    products: int


def top_directions(
    metric: Pullback,
    x: Tensor,
    count: int,
    *,
    oversampling: int = 8,
    power: int = 1,
    chunk: int = 64,
    generator: torch.Generator | None = None,
) -> TopDirections:
    """Leading singular directions of the Jacobian of a pullback at one point.

    Args:
        metric: A pullback onto a Euclidean output.
        x: One point, shape (dim,).
        count: How many.
        oversampling: Additional random directions; more is more exact.
        power: Power iterations; one suffices if the singular values fall off, more for flat spectra.
        chunk: Directions to a batch.
        generator: Source of the random block; None for one of seed 0.

    Returns:
        The triplets. Costs (count + oversampling)(power + 1) forward and as many reverse products.

    Raises:
        ShapeError: If x is not one point.
        SettingError: If the pullback has an output metric, or more directions than dimensions are asked for.
    """
    if x.ndim != 1:
        raise ShapeError(f"a point of shape {tuple(x.shape)}", "one point, shape (dim,)", "x[0]")
    dim = x.shape[0]
    if not 1 <= count <= dim:
        raise SettingError(f"count {count}", f"1 to {dim} directions")
    if metric.onto is not None:
        raise SettingError(f"the output metric {metric.onto.name}", "a Euclidean output", "onto=None")
    width = min(dim, count + oversampling)

    def push(rows: Tensor) -> Tensor:
        parts = [metric.push(x.expand_as(part).contiguous(), part)[1] for part in rows.split(chunk)]
        return torch.cat(parts).detach()

    def pull(rows: Tensor) -> Tensor:
        parts = [metric.pull(x.expand(part.shape[0], dim).contiguous(), part) for part in rows.split(chunk)]
        return torch.cat(parts).detach()

    block = draw_normal((width, dim), x, seeded(generator))
    for _ in range(power):
        range_rows = _orthonormal(push(block))
        block = _orthonormal(pull(range_rows))
    range_rows = _orthonormal(push(block))  # (width, out)
    small = pull(range_rows)  # Q^T J, (width, dim)
    left, values, right = torch.linalg.svd(small, full_matrices=False)
    directions, outputs = right[:count], (left.mT @ range_rows)[:count]
    pushed = push(directions)  # what the best value of J v says about u and s
    residual = torch.linalg.vector_norm(pushed - values[:count, None] * outputs, dim=-1) / values[0]
    return TopDirections(values[:count], directions, outputs, residual, width * (power + 1) + count)


def bottleneck_map(
    network: nn.Module, layer: nn.Module, call: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    """The map from a network's input to the flattened output of one of its layers (the h-space).

    Args:
        network: The network, in evaluation mode.
        layer: One of its modules, e.g. the middle block of a U-Net.
        call: Runs the network on flat points, e.g. ``lambda x: model.denoise(x, sigma)``.

    Returns:
        A function from (*batch, dim) to (*batch, features) for one batch axis.

    Raises:
        SettingError: If the layer is not part of the network, or the network is in training mode.
    """
    if not any(layer is part for part in network.modules()):
        raise SettingError("a layer that is not part of the network", "one of network.modules()")
    if network.training:
        raise SettingError("a network in training mode", "evaluation mode", "network.eval()")

    def features(x: Tensor) -> Tensor:
        caught: list[Tensor] = []

        def catch(_module: nn.Module, _inputs: tuple, output: Tensor) -> None:
            caught.append(output)

        hook = layer.register_forward_hook(catch)
        try:
            call(x)
        finally:
            hook.remove()
        return caught[-1].flatten(1)

    return features


def bottleneck_metric(
    network: nn.Module, layer: nn.Module, call: Callable[[Tensor], Tensor], chart: Chart
) -> Pullback:
    """The pullback of the Euclidean metric of a layer's output: a diffusion model's h-space metric."""
    return Pullback(bottleneck_map(network, layer, call), chart, None, "h-space pullback")


def _orthonormal(rows: Tensor) -> Tensor:
    return torch.linalg.qr(rows.mT)[0].mT
