r"""Pullback metrics: the length of a step is the length of what it does to an output.

For a map f into a space with its own metric F, :math:`g = J^\top F(f(x))\, J`. With F the identity this is
:math:`J^\top J`; with F the Fisher metric of an output family it is the Fisher metric of the decoder's
distribution; with f = (mean, standard deviation) and F the identity it is the expected metric
:math:`J_\mu^\top J_\mu + J_s^\top J_s` of a Gaussian decoder. It is positive semidefinite by construction.

Everything goes through Jacobian-vector products J v and vector-Jacobian products :math:`J^\top w` of the
whole batch at once. The map must treat the rows of a batch independently (batch normalisation in training
mode does not).

References:
    Arvanitidis, Hansen, Hauberg, "Latent Space Oddity", 2018, equation 8, https://arxiv.org/abs/1710.11379
    Arvanitidis, Gonzalez-Duque, Pouplin, Kalatzis, Hauberg, "Pulling back information geometry", 2022,
        https://arxiv.org/abs/2106.05367
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from workbench.errors import SettingError
from workbench.forward import jvp as forward_derivative
from workbench.metrics.base import DENSE_LIMIT, Chart, Metric, inside, lower, matrix
from workbench.types import Matrices, Points, Scalars, Vectors

Map = Callable[[Tensor], Tensor]


def jacobian_vector(function: Map, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """f(x) and J(x) v for a batch, by one forward derivative.

    Args:
        function: f, from (*batch, dim) to (*batch, out), row by row.
        x: Points, shape (*batch, dim).
        v: Vectors, the same shape.

    Returns:
        (f(x), J v), both (*batch, out). Differentiable. About two forward evaluations.

    Raises:
        SettingError: If an operation inside has no forward derivative, as fused attention; the sentence has
            the way out.
    """
    try:
        return forward_derivative(function, (x.contiguous(),), (v.contiguous(),))
    except RuntimeError as error:
        said = str(error)
        if all(part not in said for part in ("forward AD", "forward-mode", "view size is not compatible")):
            raise
        raise SettingError(
            f"a map with an operation that has no forward derivative ({str(error).splitlines()[0][:120]})",
            "operations with forward derivatives",
            "with_math_attention(map), attention by its plain formula, or double_backward=True",
        ) from error


def vector_jacobian(function: Map, x: Tensor, w: Tensor) -> Tensor:
    """J(x)^T w for a batch, by one reverse derivative; about three forward evaluations. Differentiable."""
    with torch.enable_grad():
        y = x if x.requires_grad else x.detach().requires_grad_()
        (answer,) = torch.autograd.grad(function(y), y, w, create_graph=x.requires_grad or w.requires_grad)
    return answer


def jacobian_vector_twice_backward(function: Map, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """f(x) and J(x) v by two reverse derivatives, for maps without forward ones: J v = d/dw <J^T w, v>.

    Args:
        function: f, row by row.
        x: Points, shape (*batch, dim).
        v: Vectors of x's shape.

    Returns:
        (f(x), J v). Differentiable. About five forward evaluations.
    """
    with torch.enable_grad():
        y = x if x.requires_grad else x.detach().requires_grad_()
        value = function(y)
        w = torch.zeros_like(value, requires_grad=True)
        (pulled,) = torch.autograd.grad(value, y, w, create_graph=True)
        try:
            (pushed,) = torch.autograd.grad(pulled, w, v, create_graph=True)
        except RuntimeError as error:
            if "not implemented" not in str(error):
                raise
            raise SettingError(
                f"a map with an operation that has no second derivative ({str(error).splitlines()[0][:120]})",
                "operations with second derivatives",
                "with_math_attention(map), attention by its plain formula",
            ) from error
    keep = x.requires_grad or v.requires_grad
    return (value, pushed) if keep else (value.detach(), pushed.detach())


def with_math_attention(function: Map) -> Map:
    """The same map with attention computed by its plain formula, which has forward and second derivatives.

    Args:
        function: A map that calls ``torch.nn.functional.scaled_dot_product_attention``.

    Returns:
        A map of equal values up to rounding; it needs memory for the attention matrix.
    """

    def plain(x: Tensor) -> Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return function(x)

    return plain


Push = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def _directions_together(push: Push, x: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """f(x) and J along each row of a basis, (directions, count, out); f is evaluated once for all of them.

    Maps whose operations cannot be mapped over directions take each direction as a batch of its own.
    """
    try:
        dims: Any = (None, 0)  # the value is not mapped; torch's annotation knows numbers only
        return vmap(lambda v: push(x, v.expand_as(x)), out_dims=dims)(basis)
    except (RuntimeError, ValueError) as error:
        if "vmap" not in str(error) and "BatchedTensor" not in str(error):
            raise
    return _directions_in_batch(push, x, basis)


def _directions_in_batch(push: Push, x: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """The same with the points repeated for every direction."""
    spread = x.expand(len(basis), *x.shape)
    value, columns = push(spread, basis[:, None].expand_as(spread))
    return value[0], columns


@dataclass(frozen=True, slots=True)
class Pullback:
    """g = J^T F J of a map f from a chart into a space with metric F.

    Attributes:
        function: f, from (count, dim) to (count, out), row by row and smooth.
        chart: Coordinates of its input.
        onto: Metric F of the output space; None for Euclidean.
        name: Its name.
        domain: True inside the domain; None for everywhere.
        double_backward: Take J v by two reverse derivatives instead of a forward one.
    """

    function: Map
    chart: Chart
    onto: Metric | None = None
    name: str = "pullback"
    domain: Callable[[Tensor], Tensor] | None = None
    double_backward: bool = False

    @property
    def calls(self) -> float:
        """Two Jacobian-vector products an inner product (one for a norm)."""
        return (10.0 if self.double_backward else 4.0) + (0.0 if self.onto is None else self.onto.calls)

    def push(self, x: Points, v: Vectors) -> tuple[Tensor, Tensor]:
        """f(x) and J v, shape (*batch, out) each; one Jacobian-vector product."""
        product = jacobian_vector_twice_backward if self.double_backward else jacobian_vector
        value, pushed = product(self.function, x.reshape(-1, x.shape[-1]), v.reshape(-1, x.shape[-1]))
        return value.reshape(*x.shape[:-1], -1), pushed.reshape(*x.shape[:-1], -1)

    def pull(self, x: Points, w: Tensor) -> Vectors:
        """J^T w for output vectors w, shape (*batch, out); one vector-Jacobian product."""
        pulled = vector_jacobian(self.function, x.reshape(-1, x.shape[-1]), w.reshape(-1, w.shape[-1]))
        return pulled.reshape(x.shape)

    def lower(self, x: Points, v: Vectors) -> Vectors:
        """g v = J^T F J v without the matrix; one product of each kind."""
        value, pushed = self.push(x, v)
        return self.pull(x, pushed if self.onto is None else lower(self.onto, value, pushed))

    def inner(self, x: Points, u: Vectors, v: Vectors) -> Scalars:
        """<J u, J v> in the output's metric; two Jacobian-vector products, one if v is u."""
        value, first = self.push(x, u)
        second = first if v is u else self.push(x, v)[1]
        return (first * second).sum(dim=-1) if self.onto is None else self.onto.inner(value, first, second)

    def jacobian(self, x: Points) -> tuple[Tensor, Tensor]:
        """f(x), (*batch, out), and J, (*batch, out, dim), by dim Jacobian-vector products that share f(x)."""
        dim = x.shape[-1]
        flat = x.reshape(-1, dim)
        basis = torch.eye(dim, dtype=x.dtype, device=x.device)
        if self.double_backward:
            value, columns = _directions_in_batch(self.push, flat, basis)
        else:
            value, columns = _directions_together(self.push, flat, basis)
        return value.reshape(*x.shape[:-1], -1), columns.movedim(0, -1).reshape(*x.shape[:-1], -1, dim)

    def matrix(self, x: Points) -> Matrices:
        """J^T F J; dim Jacobian-vector products."""
        value, jacobian = self.jacobian(x)
        if self.onto is None:
            return jacobian.mT @ jacobian
        if self.onto.chart.dim <= DENSE_LIMIT:
            return jacobian.mT @ matrix(self.onto, value) @ jacobian
        columns = jacobian.mT  # (*batch, dim, out)
        spread = value[..., None, None, :].expand(*columns.shape[:-1], columns.shape[-2], columns.shape[-1])
        rows = columns[..., :, None, :].expand_as(spread)
        return self.onto.inner(spread, rows, columns[..., None, :, :].expand_as(spread))

    def inside(self, x: Points) -> Tensor:
        """Inside the domain, if there is one; the output must lie inside the domain of F."""
        here = torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)
        if self.domain is not None:
            here = here & self.domain(x)
        if self.onto is not None and bool(here.any()):
            here = here.clone()
            here[here.clone()] = inside(self.onto, self.function(x[here]))
        return here


def decoder_metric(
    mean: Map, chart: Chart, *, deviation: Map | None = None, name: str = "decoder pullback"
) -> Pullback:
    """The expected pullback metric of a Gaussian decoder N(mean(z), deviation(z)^2).

    The uncertainty term only helps if the deviation grows away from the data; without it geodesics cut
    through regions that the decoder has never seen.

    Args:
        mean: Mean of the output, row by row.
        chart: The latent coordinates.
        deviation: Standard deviation of each output entry; None for a deterministic decoder.
        name: Its name.

    Returns:
        J_mean^T J_mean + J_deviation^T J_deviation as one pullback.
    """
    if deviation is None:
        return Pullback(mean, chart, None, name)
    return Pullback(
        lambda z: torch.cat((mean(z), deviation(z)), dim=-1), chart, None, f"{name} with its uncertainty"
    )


def feature_metric(generate: Map, features: Map, chart: Chart, *, name: str = "feature pullback") -> Pullback:
    """The metric of features of what a generator makes: J of features(generate(z)).

    Args:
        generate: The generator, deterministic, row by row.
        features: A judge's features of its output.
        chart: The latent coordinates.
        name: Its name.

    Returns:
        The pullback; one product goes through both networks.
    """
    return Pullback(lambda z: features(generate(z)), chart, None, name)
