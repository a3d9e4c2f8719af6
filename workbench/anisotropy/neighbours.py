r"""Neighbouring notions of a network's preferred directions, on the same axes and with their own sign.

**Neural anisotropy directions** of a classifier f: eigenvectors of :math:`\mathbb E_\theta[\nabla_x f
\nabla_x f^\top]` at an input. They live in INPUT space and are ordered DESCENDING: the largest is
preferred. Score directions live in output space and prefer the smallest. Plots must say which.

**Neural tangent kernel** in output space, K = J J^T with J the Jacobian of the output in the parameters:
large eigenvalues are FITTED faster. Of the last layer alone its expectation is the average geometry up to a
factor.

**Geometry-adaptive harmonics** of a trained denoiser: eigenvectors of its Jacobian at a noisy point,
eigenvalues near 1 kept and near 0 removed; the mean squared error is about :math:`\sigma^2\sum_k\lambda_k`.
They depend on the input and exist only after training.

References:
    Neural anisotropy directions (Ortiz-Jimenez et al., 2020), https://arxiv.org/abs/2006.09717
    Neural tangent kernel (Jacot, Gabriel, Hongler, 2018), https://arxiv.org/abs/1806.07572
    Generalization in diffusion models arises from geometry-adaptive harmonic representations (Kadkhodaie et
    al., 2024), https://arxiv.org/abs/2310.02557
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vjp, vmap

from workbench.anisotropy.denoising import build_network
from workbench.anisotropy.heads import find_head
from workbench.anisotropy.initial import read_laws
from workbench.anisotropy.lanczos import find_largest
from workbench.architectures import Architecture, FlatNet
from workbench.draws import draw_normal
from workbench.errors import Cancelled, SettingError, ShapeError
from workbench.forward import jvp
from workbench.integrators import Cancel
from workbench.models import Landscape, ScoreModel
from workbench.subjects import Subject


@dataclass(frozen=True, slots=True)
class NeighbourDirections:
    """Directions of another kind, in their own convention.

    Attributes:
        kind: What they are, in words.
        space: "input" or "output".
        order: "descending": the first row has the largest eigenvalue.
        preferred: Which end the theory behind them prefers, in words.
        values: Eigenvalues in that order, shape (count,).
        vectors: Unit rows (count, dim).
        residuals: Relative residuals of an iterative solve, zero for a dense one, shape (count,).
        asymmetry: ||J - J^T|| / ||J + J^T|| where a Jacobian was symmetrised, else 0.
    """

    kind: str
    space: str
    order: str
    preferred: str
    values: Tensor
    vectors: Tensor
    residuals: Tensor
    asymmetry: float = 0.0


def classifier_directions(
    factory: Callable[[], nn.Module],
    point: Tensor,
    *,
    networks: int = 1000,
    output: int = 0,
    seed: int = 0,
    chunk: int = 64,
) -> NeighbourDirections:
    """Neural anisotropy directions of untrained classifiers at an input.

    Args:
        factory: Returns a new classifier; called on inputs (1, *shape) it returns (1, outputs).
        point: The input, shape (*shape,).
        networks: How many untrained networks.
        output: Which output's gradient.
        seed: Keys the networks.
        chunk: Networks at once.

    Returns:
        All directions of the flat input, descending.

    Raises:
        SettingError: If the gradient vanishes.

    Cost:
        One gradient a network.
    """
    laws = read_laws(factory)
    template = factory().to(point).eval().requires_grad_(False)

    def score(x: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        return functional_call(template, parameters, (x[None],)).reshape(-1)[output]

    total = torch.zeros(point.numel(), point.numel(), dtype=torch.float64)
    for start in range(0, networks, chunk):
        indices = range(start, min(start + chunk, networks))
        drawn = laws.draw(seed, indices, point.dtype, point.device)
        slopes = vmap(grad(score), in_dims=(None, 0))(point, drawn).flatten(1).double().cpu()
        total += slopes.T @ slopes
    if not float(total.trace()) > 0:
        raise SettingError("classifiers whose gradient is zero here", "a gradient", "another input")
    values, columns = torch.linalg.eigh(total / networks)
    return NeighbourDirections(
        kind="neural anisotropy directions",
        space="input",
        order="descending",
        preferred="large eigenvalues are preferred (opposite to score directions)",
        values=values.flip(0).clamp(min=0.0),
        vectors=columns.flip(1).T,
        residuals=torch.zeros_like(values),
    )


def kernel_matrix(net: nn.Module, inputs: tuple[Tensor, ...], *, layer: str | None = None) -> Tensor:
    """Output-space tangent kernel J J^T of one network at one input.

    Args:
        net: The network; called on `inputs` it returns one sample (1, ...).
        inputs: Its arguments.
        layer: Dotted name of a layer to restrict the parameters to; all if None.

    Returns:
        (dim, dim), dim the entries of the output.

    Cost:
        dim reverse passes and a Jacobian in memory; `kernel_product` needs neither.
    """
    chosen, call = _parameters_of(net, inputs, layer)
    blocks = jacrev(call)(chosen)
    return torch.stack([block.flatten(1) @ block.flatten(1).T for block in blocks.values()]).sum(0)


def kernel_directions(
    architecture: Architecture,
    *,
    networks: int = 20,
    seed: int = 0,
    time: float = 500.0,
    device: torch.device | str = "cpu",
) -> NeighbourDirections:
    """Eigenvectors of the tangent kernel of the last layer at x = 0, averaged over untrained networks.

    Args:
        architecture: The recipe; its last layer must be linear or convolutional.
        networks: How many networks.
        seed: Seed of the first; the next follow.
        time: Time at which they are asked, on the networks' own clock.
        device: Where they are evaluated.

    Returns:
        All directions of the output, descending.

    Raises:
        SettingError: If no last linear layer is found.

    Cost:
        A Jacobian of the last layer a network.
    """
    total = torch.zeros(architecture.dim, architecture.dim, dtype=torch.float64)
    for index in range(networks):
        net = build_network(architecture, seed + index, dtype=torch.float64).eval()
        if index == 0:
            head = find_head(net, read_laws(lambda: FlatNet(architecture)))
            if head.kind == "other":
                got = f"{architecture.name}, whose last layer is not linear"
                raise SettingError(got, "a linear or convolutional last layer")
        net = net.to(device)
        x = torch.zeros(1, architecture.dim, dtype=torch.float64, device=device)
        inputs = (x, torch.full((1,), time, dtype=torch.float64, device=device))
        total += kernel_matrix(net, inputs, layer=head.name).cpu() / networks
    values, columns = (part.flip(-1) for part in torch.linalg.eigh(total))
    return NeighbourDirections(
        kind="tangent kernel of the last layer",
        space="output",
        order="descending",
        preferred="large eigenvalues are fitted faster; the average geometry up to a factor",
        values=values.clamp(min=0.0),
        vectors=columns.T,
        residuals=torch.zeros_like(values),
    )


def kernel_product(
    net: nn.Module, inputs: tuple[Tensor, ...], vector: Tensor, *, layer: str | None = None
) -> Tensor:
    """J (J^T v) for a vector (dim,): one reverse and one forward pass, memory of one gradient."""
    chosen, call = _parameters_of(net, inputs, layer)
    return jvp(call, (chosen,), (vjp(call, chosen)[1](vector)[0],))[1]


def _parameters_of(net: nn.Module, inputs: tuple[Tensor, ...], layer: str | None):
    every = {name: value.detach() for name, value in net.named_parameters()}
    chosen = {name: value for name, value in every.items() if layer is None or name.startswith(f"{layer}.")}
    if not chosen:
        raise SettingError(f"layer {layer!r}", "the dotted name of a layer with parameters", "layer=None")
    rest = {name: value for name, value in every.items() if name not in chosen}
    return chosen, lambda parameters: functional_call(net, {**rest, **parameters}, inputs).flatten()


def find_harmonics(
    model: ScoreModel,
    point: Tensor,
    sigma: float,
    *,
    count: int = 16,
    generator: torch.Generator,
    tol: float = 1e-4,
    cancel: Cancel | None = None,
) -> NeighbourDirections:
    """Leading eigenvectors of a trained denoiser's Jacobian at a noisy point, by Lanczos iteration.

    Args:
        model: The trained model.
        point: The noisy point, shape (dim,).
        sigma: Its noise level.
        count: How many.
        generator: Draws the start.
        tol: Relative residual at which to stop.
        cancel: Asked at every iteration.

    Returns:
        The harmonics, descending, of the symmetric part of the Jacobian, with its asymmetry.

    Raises:
        Cancelled: If it was cancelled.
        ShapeError: If the point has not the model's dimension.

    Cost:
        One forward and one reverse derivative an iteration, at most 8 count + 32.
    """
    if point.shape != (model.frame.dim,):
        raise ShapeError(f"a point of shape {tuple(point.shape)}", f"({model.frame.dim},)")

    def denoise(y: Tensor) -> Tensor:
        return model.denoise(y[None], sigma)[0]

    backward = vjp(denoise, point)[1]
    sizes = torch.zeros(2, dtype=torch.float64, device=point.device)

    def product(row: Tensor) -> Tensor:
        if cancel is not None and cancel.is_set():
            raise Cancelled("the harmonics were cancelled before they settled")
        vector = row[0].to(point)
        right, left = jvp(denoise, (point,), (vector,))[1], backward(vector)[0]
        sizes.add_(torch.stack([(right - left).square().sum(), (right + left).square().sum()]).double())
        return (0.5 * (right + left))[None]

    values, vectors, residuals = find_largest(
        product, point.shape[0], count, generator=generator, tol=tol, device=point.device
    )
    return NeighbourDirections(
        kind="geometry-adaptive harmonics",
        space="output",
        order="descending",
        preferred="large eigenvalues are kept by the denoiser, small ones removed as noise",
        values=values.flip(0),
        vectors=vectors.flip(0),
        residuals=residuals.flip(0),
        asymmetry=float((sizes[0] / sizes[1]).sqrt()),
    )


def harmonics_of(
    subject: Subject, *, count: int = 9, seed: int = 0, cancel: Cancel | None = None
) -> NeighbourDirections:
    """Harmonics of an opened model at its default first end, blurred by the data's own deviation.

    Args:
        subject: The opened model with its points.
        count: How many at most.
        seed: Seed of the noise and of the iteration's start.
        cancel: Asked at every iteration.

    Returns:
        The harmonics, descending.

    Raises:
        Cancelled: If it was cancelled.
        SettingError: If it is an energy or a decoder, which has no denoiser.

    Cost:
        That of `find_harmonics`.
    """
    if isinstance(subject.model, Landscape):
        raise SettingError(
            f"{subject.frame.name}, {subject.lacking}",
            "a denoiser, whose Jacobian has the harmonics",
            "a model that was trained to denoise",
        )
    generator = torch.Generator().manual_seed(seed)
    clean = subject.ends()[0]
    spread = draw_normal((subject.frame.dim,), clean.double(), generator)
    return find_harmonics(
        subject.model,
        clean + (subject.frame.data_std * spread).to(clean.dtype),
        subject.frame.data_std,
        count=min(count, subject.frame.dim),
        generator=generator,
        cancel=cancel,
    )
