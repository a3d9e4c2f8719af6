"""Linear and perceptron networks for flat points: where the average geometry is known in closed form.

`LinearNet` is Omega x with Omega = Phi Theta, Phi fixed and Theta trained: its average geometry at Gaussian
points is proportional to Phi Phi^T. `PerceptronNet` has an optional rectified output (then one direction,
the constant one, is singled out) and an optional fixed readout Phi.
"""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.architectures.embedding import embed_time


class LinearNet(nn.Module):
    """x -> Phi Theta x, independent of time; Theta has independent entries of variance 1 / inner.

    Args:
        readout: The fixed Phi, shape (dim, inner).
    """

    readout: Tensor

    def __init__(self, readout: Tensor) -> None:
        super().__init__()
        dim, inner = readout.shape
        self.register_buffer("readout", readout.detach().clone())
        self.theta = nn.Parameter(torch.empty(inner, dim, dtype=readout.dtype))
        nn.init.normal_(self.theta, std=inner**-0.5)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Output (n, dim) at x (n, dim)."""
        return F.linear(F.linear(x, self.theta), self.readout)


class PerceptronNet(nn.Module):
    """A perceptron on points and time features.

    Args:
        dim: Size of a point.
        width: Width of the hidden layers.
        depth: Number of hidden layers.
        features: Number of time features; 0 for a network that is not told the time.
        rectified: Whether the output passes a ReLU.
        readout: A fixed map Phi (dim, inner) after the last trained layer, whose outputs are then `inner`.
    """

    readout: Tensor | None

    def __init__(
        self,
        dim: int,
        width: int = 128,
        depth: int = 2,
        *,
        features: int = 32,
        rectified: bool = False,
        readout: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.features, self.rectified = features, rectified
        sizes = [dim + features] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.leave = nn.Linear(width, dim if readout is None else readout.shape[1])
        self.register_buffer("readout", None if readout is None else readout.detach().clone())

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Output (n, dim) at x (n, dim) and times (n,)."""
        h = torch.cat([x, embed_time(t, self.features).to(x.dtype)], dim=-1) if self.features else x
        for layer in self.hidden:
            h = F.silu(layer(h))
        out = self.leave(h)
        out = out if self.readout is None else F.linear(out, self.readout)
        return F.relu(out) if self.rectified else out
