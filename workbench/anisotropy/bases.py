"""Orthonormal bases of images, and what the average geometry predicts along them without any training.

References:
    Discrete cosine and sine transforms (Britanak, Yip, Rao, 2007), the kinds II
    Walsh functions in sequency order (Harmuth, 1972), https://doi.org/10.1007/978-3-642-96131-1
"""

import math

import torch
from torch import Tensor

from workbench.anisotropy.geometry import Geometry
from workbench.errors import SettingError, ShapeError

BASES = ("dct", "dst", "hadamard", "haar", "pixel")
"""Names of the bases: cosines and sines (kind II), Walsh-Hadamard in sequency order, Haar, single pixels."""


def line_basis(name: str, count: int) -> Tensor:
    """An orthonormal basis of signals of that length, coarse before fine.

    Args:
        name: One of `BASES`.
        count: Length; a power of two for "hadamard" and "haar".

    Returns:
        Rows (count, count), float64.

    Raises:
        SettingError: If the name is unknown or the length does not fit.
    """
    if name not in BASES:
        raise SettingError(f"basis {name!r}", f"one of {', '.join(BASES)}")
    if name in ("hadamard", "haar") and (count < 1 or count & (count - 1)):
        raise SettingError(f"a {name} basis of length {count}", "a power of two", "'dct'")
    k = torch.arange(count, dtype=torch.float64)[:, None]
    n = torch.arange(count, dtype=torch.float64)[None]
    if name == "dct":
        rows = torch.cos(math.pi * k * (n + 0.5) / count)
    elif name == "dst":
        rows = torch.sin(math.pi * (k + 1) * (n + 0.5) / count)
    elif name == "hadamard":
        rows = torch.ones(1, 1, dtype=torch.float64)
        while rows.shape[0] < count:
            rows = torch.cat([torch.cat([rows, rows], 1), torch.cat([rows, -rows], 1)])
        rows = rows[(rows.diff(dim=1) != 0).sum(1).argsort()]
    elif name == "haar":
        rows = torch.ones(1, 1, dtype=torch.float64)
        while rows.shape[0] < count:
            ones, step = torch.tensor([[1.0, 1.0]]).double(), torch.tensor([[1.0, -1.0]]).double()
            fine = torch.kron(torch.eye(rows.shape[0], dtype=torch.float64), step)
            rows = torch.cat([torch.kron(rows, ones), fine])
    else:
        rows = torch.eye(count, dtype=torch.float64)
    return rows / rows.norm(dim=1, keepdim=True)


def image_basis(name: str, rows: int, columns: int) -> Tensor:
    """Products of two line bases: vector i * columns + j has row frequency i and column frequency j.

    Returns:
        Orthonormal rows (rows * columns, rows * columns).
    """
    return torch.kron(line_basis(name, rows), line_basis(name, columns))


def rayleigh_map(geometry: Geometry, name: str) -> Tensor:
    """v^T G v for every vector of an image basis: predicted difficulty of rank-one data along it.

    Args:
        geometry: The geometry of (colours, rows, columns) samples.
        name: One of `BASES`.

    Returns:
        Shape (colours, rows, columns), float64; each colour by itself. No model calls.

    Raises:
        ShapeError: If the samples are no images.
    """
    if len(geometry.shape) != 3:
        raise ShapeError(
            f"samples of shape {geometry.shape}", "images (colours, rows, columns)", "rayleigh(v)"
        )
    colours, rows, columns = geometry.shape
    basis = image_basis(name, rows, columns)
    values = torch.empty(colours, rows * columns, dtype=torch.float64)
    for colour in range(colours):
        for start in range(0, basis.shape[0], 256):
            flat = basis.new_zeros(basis[start : start + 256].shape[0], colours, rows * columns)
            flat[:, colour] = basis[start : start + 256]
            values[colour, start : start + 256] = geometry.rayleigh(flat.flatten(1))
    return values.reshape(geometry.shape)


def mean_frequency(vectors: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """Mean radius of vectors in the cosine basis, 0 for a constant image.

    Args:
        vectors: Flat images (count, dim).
        shape: (colours, rows, columns).

    Returns:
        sum |c|^2 sqrt(i^2 + j^2) / sum |c|^2, shape (count,).
    """
    colours, rows, columns = shape
    images = vectors.double().reshape(-1, colours, rows, columns)
    power = (line_basis("dct", rows) @ images @ line_basis("dct", columns).T).square().sum(1)
    i, j = torch.arange(rows, dtype=torch.float64), torch.arange(columns, dtype=torch.float64)
    return (power * i[:, None].hypot(j[None])).sum((1, 2)) / power.sum((1, 2))
