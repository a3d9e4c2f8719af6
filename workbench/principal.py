r"""A network for pictures that fill few directions: a normal law everywhere, a perceptron where it matters.

Frames of one flow span few principal directions, and a perceptron on raw pixels wastes itself on telling the
noise in all others from signal. Let :math:`\mu` be the mean, :math:`B` the leading principal directions with
deviations :math:`s_k`, and :math:`r` the deviation of what is left in every direction. For
:math:`y = x_0 + \sigma\varepsilon` with scores :math:`c = B (y - \mu)` the posterior mean is written as

.. math::
    D = \mu + B^\top\!\Big[\frac{s_k^2}{\sigma^2 + s_k^2}\,c_k
        + \frac{\sigma s_k}{\sqrt{\sigma^2 + s_k^2}}\,F_k\Big]
        + \frac{r^2}{\sigma^2 + r^2}\,\big(y - \mu - B^\top c\big) :

the exact answer for a normal law with these deviations, corrected by a network F that sees the scores alone,
each at unit variance, and is asked for unit variance. Nothing is cut off: what the leading directions miss is
kept as far as it stands out of the noise.

References:
    Tipping, Bishop, "Probabilistic Principal Component Analysis", 1999, https://doi.org/10.1111/1467-9868.00196
    Karras, Aittala, Aila, Laine, "Elucidating the design space of diffusion-based generative models", 2022,
        appendix B.6 (the factors, here one pair a direction), https://arxiv.org/abs/2206.00364
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.embeddings import fit_pca
from workbench.errors import ShapeError
from workbench.nets import Mlp


class PrincipalMlp(nn.Module):
    """F(x, c_noise, class) of `workbench.nets.Denoiser` for the posterior mean above.

    Args:
        dim: entries of a point.
        axes: leading principal directions that the perceptron sees.
        width: its hidden width.
        depth: its residual blocks.
        classes: number of classes; 0 for none.
    """

    mean: Tensor
    basis: Tensor
    spreads: Tensor
    rest: Tensor
    scale: Tensor

    def __init__(self, dim: int, axes: int, width: int = 256, depth: int = 3, classes: int = 0) -> None:
        super().__init__()
        self.core = Mlp(axes, width, depth, classes)
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("basis", torch.eye(axes, dim))
        self.register_buffer("spreads", torch.ones(axes))
        self.register_buffer("rest", torch.ones(()))
        self.register_buffer("scale", torch.ones(()))
        self.entries_a_point = self.core.entries_a_point + 4 * dim
        """Entries that one point needs in a pass, for the memory budget."""

    @torch.no_grad()
    def fit_axes(self, data: Float[Tensor, "count dim"], data_std: float) -> None:
        """Take mean, directions and deviations from the data that the network is to learn.

        Args:
            data: Points, shape (count, dim).
            data_std: Deviation that the surrounding `Denoiser` scales by.

        Raises:
            ShapeError: If there are fewer points than directions.
        """
        axes, dim = self.basis.shape
        if len(data) <= axes or data.shape[1] != dim:
            raise ShapeError(
                f"data of shape {tuple(data.shape)}", f"more than {axes} points of {dim} entries"
            )
        pca = fit_pca(data.double(), axes=axes)
        scores = pca.encode(data.double())
        left = data - pca.decode(scores)
        self.mean.copy_(pca.origin)
        self.basis.copy_(pca.directions)
        self.spreads.copy_(scores.square().mean(0).sqrt())
        self.rest.copy_((left.square().sum(1) / max(dim - axes, 1)).mean().sqrt().clamp_min(1e-6))
        self.scale.fill_(data_std)

    def forward(self, x: Tensor, c_noise: Tensor, labels: Tensor) -> Tensor:
        """F of x (n, dim) at c_noise (n,) for labels (n,)."""
        sigma = (4 * c_noise).exp()[..., None]
        skip, out, into = _factors(sigma, self.scale)
        y = x / into
        centred = y - self.mean
        scores = centred @ self.basis.mT
        own_skip, own_out, own_into = _factors(sigma, self.spreads)
        clean = own_skip * scores + own_out * self.core(own_into * scores, c_noise, labels)
        kept = self.rest.square() / (sigma.square() + self.rest.square())
        answer = self.mean + kept * centred + (clean - kept * scores) @ self.basis
        return (answer - skip * y) / out


def _factors(sigma: Tensor, spread: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(skip, out, in) of `workbench.nets.precondition`, one for each deviation."""
    total = sigma.square() + spread.square()
    return spread.square() / total, sigma * spread * total.rsqrt(), total.rsqrt()
