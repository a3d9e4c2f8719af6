r"""Encoders z -> c: a multi-layer perceptron on one frame, or a convolution over a window of frames.

Independent copies of a network are one: every weight has a leading axis of copies, every layer is one batched
product, and the optimiser, which works entry by entry, trains the copies as if each were alone. A copy's
first weights depend on its own seed alone, so that their number changes nothing.

A linear map of the frame is added to the network's output and trained with it. It begins at the directions
that pairs share most (`scaling.shared_directions`), so that the embedding begins unfolded wherever a linear
map can show the data so.

The convolution sees 10 frames: a filter of 2, three residual blocks of filters of 3, a filter of 3. Its
window ends where the run ends (`Context.windows` repeats the edge), so that no value is mixed across an edge.

References:
    Schneider, Lee, Mathis, "Learnable latent embeddings for joint behavioural and neural analysis", 2023,
        methods, https://doi.org/10.1038/s41586-023-06031-6
    Hendrycks, Gimpel, "Gaussian Error Linear Units", 2016, https://arxiv.org/abs/1606.08415
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import gelu, normalize

from workbench.checks import check_choice, check_count
from workbench.conda.context import Context
from workbench.conda.latents import Latents
from workbench.errors import SettingError, ShapeError

ARCHITECTURES = ("mlp", "conv")
"""The encoders to choose from."""

_FILTERS = (2, 3, 3, 3, 3)  # widths of the convolution's filters; the middle ones are residual


@dataclass(frozen=True, slots=True)
class Plan:
    """Shape of an encoder.

    Attributes:
        architecture: "mlp" or "conv".
        inputs: Entries of one frame.
        outputs: Dimension of the embedding.
        hidden: Width of the hidden layers.
        layers: Hidden layers of the perceptron.
        unit: Whether outputs are scaled to length one, as the cosine similarity needs.
    """

    architecture: str
    inputs: int
    outputs: int
    hidden: int = 64
    layers: int = 3
    unit: bool = False

    def __post_init__(self) -> None:
        check_choice("architecture", self.architecture, ARCHITECTURES)
        for name in ("inputs", "outputs", "hidden", "layers"):
            check_count(name, getattr(self, name))
        if self.unit and self.outputs < 2:
            raise SettingError("a cosine similarity of 1 dimension", "2 or more", "similarity='euclidean'")

    @property
    def width(self) -> int:
        """Frames that one output sees."""
        return 1 if self.architecture == "mlp" else sum(_FILTERS) - len(_FILTERS) + 1

    def shapes(self) -> list[tuple[int, int]]:
        """Inputs and outputs of every layer, filters counted as inputs."""
        if self.architecture == "mlp":
            widths = [self.inputs, *[self.hidden] * self.layers, self.outputs]
            return list(pairwise(widths))
        wide = [self.inputs, *[self.hidden] * (len(_FILTERS) - 1)]
        out = [*[self.hidden] * (len(_FILTERS) - 1), self.outputs]
        return [(k * a, b) for k, a, b in zip(_FILTERS, wide, out, strict=True)]


def initial_weights(
    plan: Plan, seeds: list[int], directions: Tensor, *, dtype: torch.dtype, device: str
) -> list[Tensor]:
    """First weights of copies: uniform within one over the root of the inputs.

    Args:
        plan: The encoder.
        seeds: One seed a copy.
        directions: Directions of the frame for the linear map, shape (inputs, any), best first. The first
            copy begins at the leading ones, the others at random mixtures of twice as many.
        dtype: Precision.
        device: Where they go.

    Returns:
        The linear map, shape (copies, inputs, outputs), then weight and bias of every layer in turn, shapes
        (copies, in, out) and (copies, 1, out).
    """
    copies = []
    wide = directions.double().cpu()[:, : 2 * plan.outputs]
    for number, seed in enumerate(seeds):
        generator = torch.Generator().manual_seed(seed)
        mix = torch.randn(wide.shape[1], plan.outputs, generator=generator, dtype=torch.float64)
        mix = torch.eye(*mix.shape, dtype=torch.float64) if number == 0 else mix / mix.norm(dim=0)
        copy = [wide @ mix]
        for inputs, outputs in plan.shapes():
            bound = 1.0 / math.sqrt(inputs)
            for shape in ((inputs, outputs), (1, outputs)):
                draw = torch.rand(shape, generator=generator, dtype=torch.float64)
                copy.append((2.0 * draw - 1.0) * bound)
        copies.append(copy)
    return [torch.stack(parts).to(device=device, dtype=dtype) for parts in zip(*copies, strict=True)]


def encode_stack(plan: Plan, weights: list[Tensor], x: Tensor) -> Tensor:
    """Embed frames by every copy.

    Args:
        plan: The encoder.
        weights: As from `initial_weights`.
        x: Frames, shape (n, inputs) for the perceptron or windows (n, width, inputs) for the convolution.

    Returns:
        Embeddings, shape (copies, n, outputs); differentiable in x and the weights.
    """
    linear, *layers = weights
    frame = x if plan.architecture == "mlp" else x[:, plan.width // 2]
    h = _perceptron(layers, x) if plan.architecture == "mlp" else _convolution(layers, x)
    h = h + frame @ linear
    return normalize(h, dim=-1) if plan.unit else h


def _perceptron(weights: list[Tensor], x: Tensor) -> Tensor:
    copies = weights[0].shape[0]
    h = torch.baddbmm(weights[1], x.expand(copies, *x.shape), weights[0])
    for weight, bias in zip(weights[2::2], weights[3::2], strict=True):
        h = torch.baddbmm(bias, gelu(h), weight)
    return h


def _convolution(weights: list[Tensor], x: Tensor) -> Tensor:
    copies = weights[0].shape[0]
    h = x.expand(copies, *x.shape)  # (copies, n, frames, channels)
    last = len(_FILTERS) - 1
    for layer, (width, weight, bias) in enumerate(zip(_FILTERS, weights[::2], weights[1::2], strict=True)):
        seen = h.unfold(2, width, 1).transpose(-1, -2).flatten(-2)  # (copies, n, frames', width * channels)
        made = torch.baddbmm(bias, seen.flatten(1, 2), weight).unflatten(1, seen.shape[1:3])
        if layer == last:
            return made[:, :, 0]
        made = gelu(made)
        h = made if layer == 0 else made + h[:, :, 1:-1]
    return h


@dataclass(frozen=True, slots=True)
class Encoder:
    """A trained encoder of latents.

    Attributes:
        plan: Its shape.
        weights: The linear map, then weight and bias of every layer, shapes (in, out) and (1, out).
        center: What is subtracted from latents, shape (dim,).
        basis: What they are then multiplied by, shape (dim, inputs), or a scale of shape (dim,).
        temperature: tau that it was trained with or has learnt.
    """

    plan: Plan
    weights: tuple[Tensor, ...]
    center: Tensor
    basis: Tensor
    temperature: float

    @property
    def dim(self) -> int:
        """Dimension of the latents."""
        return len(self.center)

    def inputs(self, z: Tensor) -> Tensor:
        """What the network sees of latents, shape (..., dim) to (..., inputs)."""
        shifted = z.to(self.center) - self.center
        return shifted * self.basis if self.basis.ndim == 1 else shifted @ self.basis

    def __call__(self, z: Tensor) -> Tensor:
        """Embed latents.

        Args:
            z: Latents, shape (n, dim), or windows of them, shape (n, width, dim).

        Returns:
            Embeddings, shape (n, outputs); differentiable in z.
        """
        return self.embed(self.inputs(z))

    def embed(self, inputs: Tensor) -> Tensor:
        """Embed what `inputs` made of latents."""
        return encode_stack(self.plan, [w[None] for w in self.weights], inputs)[0]


def embed_table(encoder: Encoder, table: Latents, context: Context, *, chunk: int | None = None) -> Tensor:
    """Embed a table a block of rows at a time; windows of a convolution never cross a run's edge.

    Args:
        encoder: The encoder.
        table: The latents, shape (count, latent dim).
        context: Their context.
        chunk: Rows together; None fits a memory budget.

    Returns:
        Points, shape (count, dim).

    Raises:
        ShapeError: If the latents have another dimension than the encoder.
    """
    if table.dim != encoder.dim:
        raise ShapeError(f"latents of dimension {table.dim}", f"{encoder.dim}, as in the fit")
    with torch.no_grad():
        if encoder.plan.width == 1 and chunk is None:
            return torch.cat([encoder(block.cpu()) for _, block in table.blocks()])
        windows = context.windows(encoder.plan.width)
        size = chunk or max(1, 2**26 // (table.row_bytes * encoder.plan.width))
        parts = []
        for rows in windows.split(size):
            z = table.rows(rows).cpu()
            parts.append(encoder(z[:, 0] if encoder.plan.width == 1 else z))
        return torch.cat(parts)
