r"""InfoNCE with negatives alone in the denominator, and what its value must be.

For a reference :math:`c`, its positive :math:`c^+` and N negatives :math:`c^-_j` drawn from all frames,

.. math::
    L = \mathbb E\big[-\varphi(c, c^+) + \log\textstyle\sum_j e^{\varphi(c, c^-_j)}\big],

with the similarity :math:`\varphi = -|c - c'|^2/\tau` ("euclidean") or :math:`\langle c, c'\rangle/\tau` of
unit vectors ("cosine"). At the best similarity, the log-ratio of the positives' law to the negatives', L
tends to log N minus the mutual information of c and c^+, so that :math:`(\log N - L)/\log 2` counts bits.
With no positive in the denominator, L may be negative and the bits may exceed log2 N.

Every function takes leading axes, so that independent copies are one call.

References:
    Schneider, Lee, Mathis, "Learnable latent embeddings for joint behavioural and neural analysis", 2023,
        https://doi.org/10.1038/s41586-023-06031-6
    van den Oord, Li, Vinyals, "Representation Learning with Contrastive Predictive Coding", 2018,
        https://arxiv.org/abs/1807.03748
    Mardia, Jupp, "Directional Statistics", 2000, section 3.5 (the von Mises law)
"""

import math

import torch
from scipy.special import ive
from torch import Tensor

from workbench.errors import SettingError

SIMILARITIES = ("euclidean", "cosine")
"""The similarities to choose from."""

CHUNK = 4096
"""Rows of the N x N table of similarities that are held at once."""


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """All squared distances by one product, centred first so that close points keep their digits.

    Args:
        a: Points, shape (*batch, n, dim).
        b: Points, shape (*batch, m, dim).

    Returns:
        Distances, shape (*batch, n, m), at least 0.
    """
    centre = b.mean(dim=-2, keepdim=True).detach()
    a, b = a - centre, b - centre
    sizes = a.square().sum(-1)[..., :, None] + b.square().sum(-1)[..., None, :]
    return (sizes - 2.0 * (a @ b.mT)).clamp_min(0.0)


def similarity_table(a: Tensor, b: Tensor, *, similarity: str, temperature: Tensor | float) -> Tensor:
    """Similarity of every point to every other.

    Args:
        a: Points, shape (*batch, n, dim); unit vectors for "cosine".
        b: Points, shape (*batch, m, dim).
        similarity: "euclidean" or "cosine".
        temperature: tau, positive; a tensor of shape (*batch,) for one a copy.

    Returns:
        The table, shape (*batch, n, m).
    """
    raw = a @ b.mT if similarity == "cosine" else -squared_distances(a, b)
    return raw / _over(temperature, 2)


def similarity_of_pairs(a: Tensor, b: Tensor, *, similarity: str, temperature: Tensor | float) -> Tensor:
    """Similarity of each point to its partner; arguments as for `similarity_table`, n = m.

    Returns:
        Shape (*batch, n).
    """
    raw = (a * b).sum(-1) if similarity == "cosine" else -(a - b).square().sum(-1)
    return raw / _over(temperature, 1)


def infonce_of(positive: Tensor, table: Tensor) -> Tensor:
    """The loss from similarities that are already there.

    Args:
        positive: Similarity of each reference to its positive, shape (*batch, n).
        table: Similarity of each reference to each negative, shape (*batch, n, m).

    Returns:
        The loss in nats, shape (*batch,). Adding one number to all similarities changes nothing.

    Raises:
        SettingError: If the two have different references, which broadcasting would hide.
    """
    if positive.shape != table.shape[:-1]:
        raise SettingError(
            f"positives of shape {tuple(positive.shape)} for a table of shape {tuple(table.shape)}",
            "one positive a row",
            "positive.squeeze(-1)",
        )
    return (torch.logsumexp(table, dim=-1) - positive).mean(dim=-1)


def infonce(
    reference: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    similarity: str = "euclidean",
    temperature: Tensor | float = 1.0,
    chunk: int = CHUNK,
) -> Tensor:
    """The loss of embedded points.

    The gradient of the log-sum is a softmax average, known as soon as the value is: it is taken in the same
    pass, so that the N x N table is never kept and never held for more than `chunk` references.

    Args:
        reference: c, shape (*batch, n, dim).
        positive: c^+, the same shape.
        negative: c^-, shape (*batch, m, dim).
        similarity: "euclidean" or "cosine" (of unit vectors).
        temperature: tau; shape (*batch,) for one a copy.
        chunk: References whose row of similarities is held at once.

    Returns:
        The loss in nats, shape (*batch,); differentiable once, in everything.
    """
    if reference.shape != positive.shape:
        raise SettingError(
            f"positives of shape {tuple(positive.shape)} for references of shape {tuple(reference.shape)}",
            "one positive a reference",
        )
    pairs = similarity_of_pairs(reference, positive, similarity=similarity, temperature=temperature)
    tau = torch.as_tensor(temperature, dtype=reference.dtype, device=reference.device)
    tau = tau.expand(reference.shape[:-2])
    centre = negative.detach().mean(dim=-2, keepdim=True) if similarity == "euclidean" else 0.0
    return _MeanLevel.apply(reference - centre, negative - centre, tau, similarity, chunk) - pairs.mean(-1)


class _MeanLevel(torch.autograd.Function):
    """Mean over references of the log-sum-exp of their similarities to all negatives."""

    @staticmethod
    def forward(  # type: ignore[override] - torch declares any arguments
        ctx, a: Tensor, b: Tensor, tau: Tensor, similarity: str, chunk: int
    ) -> Tensor:
        scale = tau[..., None, None]
        euclidean = similarity == "euclidean"
        sizes = b.square().sum(-1, keepdim=True)
        one = torch.ones_like(a[..., :1])
        # -|a - b|^2 = 2<a, b> - |b|^2 - |a|^2: one more column makes it one product, and |a|^2 cancels
        left = torch.cat([a * (2.0 / scale), one / scale], dim=-1) if euclidean else a / scale
        right = torch.cat([b, -sizes], dim=-1) if euclidean else b
        weighed, wanted = torch.cat([a, one], dim=-1), any(ctx.needs_input_grad[:3])
        total, near, back = torch.zeros_like(tau), [], torch.zeros_like(torch.cat([b, sizes], dim=-1))
        for rows, partners in zip(left.split(chunk, dim=-2), weighed.split(chunk, dim=-2), strict=True):
            table = rows @ right.mT
            share = torch.softmax(table, dim=-1)  # its largest entry is one over the sum of exponentials
            total = total + (table.amax(dim=-1) - share.amax(dim=-1).log()).sum(-1)
            if wanted:  # few columns: the transposed products are several times faster
                near.append((b.mT @ share.mT).mT)
                back += (partners.mT @ share).mT
        n = a.shape[-2]
        if euclidean:
            total = total - (a.square().sum(-1) / tau[..., None]).sum(-1)
        if wanted:
            mean, back, mass = torch.cat(near, dim=-2), back[..., :-1], back[..., -1:]
            if euclidean:
                grad_a, grad_b = 2.0 * (mean - a) / scale, 2.0 * (back - mass * b) / scale
                energy = (2.0 * a * mean - a.square()).sum((-1, -2)) - (mass * sizes).sum((-1, -2))
            else:
                grad_a, grad_b = mean / scale, back / scale
                energy = (a * mean).sum((-1, -2))
            ctx.save_for_backward(grad_a / n, grad_b / n, -energy / (n * tau.square()))
        return total / n

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor):  # type: ignore[override] - torch declares any arguments
        grad_a, grad_b, grad_tau = ctx.saved_tensors
        wide = grad[..., None, None]
        return wide * grad_a, wide * grad_b, grad * grad_tau, None, None


def goodness_of_fit(loss: float, negatives: int) -> float:
    """Bits by which the loss beats an embedding that knows nothing.

    Args:
        loss: L in nats.
        negatives: N, the number of negatives.

    Returns:
        (log N - L) / log 2; may exceed log2 N.
    """
    return (math.log(negatives) - loss) / math.log(2.0)


def von_mises_information(kappa: float) -> float:
    """Mutual information of an angle and its von Mises partner, both uniform by themselves.

    Args:
        kappa: Concentration of the partner around the angle.

    Returns:
        kappa I1/I0 - log I0, in nats.
    """
    scaled = float(ive(0, kappa))  # I0 exp(-kappa)
    return kappa * float(ive(1, kappa)) / scaled - (math.log(scaled) + kappa)


def gaussian_information(sigma: float, axes: int) -> float:
    """Mutual information of a uniform point of the unit cube and its Gaussian partner, edges left out.

    Args:
        sigma: Spread of the partner, small against 1.
        axes: Dimension of the cube.

    Returns:
        -(axes/2) log(2 pi e sigma^2), in nats.
    """
    return -0.5 * axes * math.log(2.0 * math.pi * math.e * sigma**2)


def expected_scale(sigma: float, temperature: float = 1.0) -> float:
    """Factor by which squared-distance InfoNCE stretches a variable whose positives are Gaussian.

    The best similarity is the log-density of the positives, so that |c - c'|^2/tau = |s - s'|^2/(2 sigma^2).

    Args:
        sigma: Spread of the positives.
        temperature: tau.

    Returns:
        sqrt(tau / (2 sigma^2)).
    """
    return math.sqrt(temperature / 2.0) / sigma


def _over(temperature: Tensor | float, axes: int) -> Tensor | float:
    """The temperature with as many trailing axes as what it divides."""
    if not isinstance(temperature, Tensor):
        return temperature
    return temperature.reshape(*temperature.shape, *(1,) * axes)
