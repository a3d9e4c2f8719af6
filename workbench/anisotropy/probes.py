"""Probes: the inputs at which untrained networks are asked. A probe is part of a direction's identity.

References:
    On the Anisotropy of Score-Based Generative Models (Floros et al., 2025), https://arxiv.org/abs/2510.22899
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from workbench.anisotropy.initial import PROBES, keyed
from workbench.errors import SettingError, ShapeError


@dataclass(frozen=True, slots=True)
class Probe:
    """A distribution of inputs.

    Attributes:
        kind: "zero", "gaussian", "point" or "data".
        std: Standard deviation of the Gaussian.
        points: The data (n, dim), noised to the level; or the point (1, dim), taken as it is; else empty.
    """

    kind: str = "zero"
    std: float = 1.0
    points: Tensor = field(default_factory=lambda: torch.zeros(0, 0))

    def __str__(self) -> str:
        words = {"zero": "x = 0", "gaussian": f"x ~ N(0, {self.std:g}^2)", "point": "x = a given point"}
        count = self.points.shape[0]
        return words.get(self.kind, f"noised data, {count} points")

    def draw(self, seed: int, indices: Sequence[int], a: Tensor, s: Tensor, dim: int) -> Tensor:
        """The inputs of these networks.

        Args:
            seed: Seed of the ensemble.
            indices: Indices of the networks.
            a: Data coefficient of each one's level, shape (networks,).
            s: Noise coefficient of each one's level, shape (networks,).
            dim: Entries of a point.

        Returns:
            Points (networks, dim), float64, keyed by the network's index.
        """
        if self.kind == "zero":
            return torch.zeros(len(indices), dim, dtype=torch.float64)
        if self.kind == "point":
            return self.points.double().expand(len(indices), dim)
        rows = []
        for row, index in enumerate(indices):
            stream = keyed(seed, index, PROBES)
            noise = torch.from_numpy(stream.standard_normal(dim, dtype=np.float32)).double()
            if self.kind == "gaussian":
                rows.append(self.std * noise)
            else:
                chosen = self.points[int(stream.integers(self.points.shape[0]))].double()
                rows.append(a[row] * chosen + s[row] * noise)
        return torch.stack(rows)


ZERO = Probe()
"""The origin, where a score's network part shows its bias alone."""


def gaussian_probe(std: float = 1.0) -> Probe:
    """Inputs drawn from N(0, std^2 I)."""
    if not std > 0:
        raise SettingError(f"a probe of standard deviation {std}", "a positive one", "ZERO")
    return Probe("gaussian", std)


def data_probe(points: Tensor) -> Probe:
    """Data (n, dim), each draw one of them noised to the level of its network."""
    if points.ndim != 2 or not torch.isfinite(points).all():
        raise ShapeError(f"probe data of shape {tuple(points.shape)}", "finite points (n, dim)")
    return Probe("data", points=points.detach().clone())


def point_probe(point: Tensor) -> Probe:
    """One input (dim,) at every level."""
    if point.ndim != 1 or not torch.isfinite(point).all():
        raise ShapeError(f"a probe of shape {tuple(point.shape)}", "one finite point (dim,)")
    return Probe("point", points=point.detach().clone()[None])
