r"""Average geometries that are known exactly; the ground truth of the estimators.

======================================= ========================================================
networks                                G
======================================= ========================================================
y = W h, h ~ N(0, 1)                    W W^T
y = ReLU(z), z iid N(0, s^2)            alpha 1 + beta 11^T, alpha = s^2 (1/2 - 1/2pi), beta = s^2/2pi
white noise through a circular filter   circulant; eigenvalues |b(omega)|^2 on Fourier modes
convolution, zero-mean filters          (spatial A) x 1 over the colours
shared readout of tokens                (token A) x 1 over the entries of a patch
fresh transformer at x = 0              tokens A = 2/(d + L) H H^T, H the normalised position code
======================================= ========================================================

References:
    On the Anisotropy of Score-Based Generative Models (Floros et al., 2025), propositions 1 to 3,
    https://arxiv.org/abs/2510.22899
"""

import math

import torch
from torch import Tensor

from workbench.anisotropy.geometry import Geometry
from workbench.architectures import embed_grid
from workbench.errors import SettingError


def exact_geometry(
    core: Tensor, *, shape: tuple[int, ...], copies: int = 1, layout: Tensor | None = None
) -> Geometry:
    """A geometry without sampling error from its core.

    Args:
        core: A, (m, m), symmetric.
        shape: Shape of one sample.
        copies: Size of the identity.
        layout: See `Geometry`; row-major if None.

    Returns:
        The geometry.
    """
    core = core.double()
    layout = torch.arange(core.shape[0] * copies) if layout is None else layout
    return Geometry(core=core, halves=torch.stack([core, core]), copies=copies, layout=layout, shape=shape)


def readout_geometry(readout: Tensor, variance: float = 1.0) -> Geometry:
    """y = W h for independent h of that variance: variance * W W^T."""
    return exact_geometry(variance * readout.double() @ readout.double().T, shape=(readout.shape[0],))


def rectified_geometry(dim: int, square: float) -> Geometry:
    """Independent rectified Gaussian outputs of pre-activation variance `square`: alpha 1 + beta 11^T."""
    alpha, beta = square * (0.5 - 0.5 / math.pi), square * 0.5 / math.pi
    core = alpha * torch.eye(dim, dtype=torch.float64) + beta * torch.ones(dim, dim, dtype=torch.float64)
    return exact_geometry(core, shape=(dim,))


def circulant_geometry(kernel: Tensor, rows: int, columns: int) -> Geometry:
    """White noise through a circular convolution with a small kernel: eigenvalues |b(omega)|^2.

    Args:
        kernel: The filter, (a, b).
        rows: Rows of the image.
        columns: Columns.

    Returns:
        The geometry of (1, rows, columns) images.
    """
    padded = torch.zeros(rows, columns, dtype=torch.float64)
    padded[: kernel.shape[0], : kernel.shape[1]] = kernel.double()
    correlation = torch.fft.ifft2(torch.fft.fft2(padded).abs() ** 2).real
    i, j = (
        index.flatten() for index in torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    )
    core = correlation[(i[:, None] - i[None]) % rows, (j[:, None] - j[None]) % columns]
    return exact_geometry(core, shape=(1, rows, columns))


def colour_geometry(spatial: Tensor, shape: tuple[int, int, int]) -> Geometry:
    """Independent zero-mean filters: one spatial matrix (rows * columns square) in every colour."""
    colours, places = shape[0], shape[1] * shape[2]
    layout = torch.arange(colours * places).reshape(colours, places).T.flatten()
    return exact_geometry(spatial, shape=shape, copies=colours, layout=layout)


def token_geometry(tokens: Tensor, shape: tuple[int, int, int], patch: int) -> Geometry:
    """A shared zero-mean readout of tokens (one a patch, row by row) into the entries of their patch.

    Args:
        tokens: A over the tokens, (tokens, tokens).
        shape: (colours, rows, columns).
        patch: Side of a patch.

    Returns:
        The geometry, each eigenvalue of A repeated patch^2 * colours times.
    """
    colours, rows, columns = shape
    if rows % patch or columns % patch:
        raise SettingError(f"patches of {patch} on {rows} x {columns}", "a side that divides both")
    flat = torch.arange(colours * rows * columns)
    tiles = flat.reshape(colours, rows // patch, patch, columns // patch, patch).permute(1, 3, 2, 4, 0)
    return exact_geometry(tokens, shape=shape, copies=patch * patch * colours, layout=tiles.flatten())


def transformer_geometry(
    shape: tuple[int, int, int], patch: int, width: int, mean_weight: float = 1.0
) -> Geometry:
    """A fresh `TokenNet` at x = 0: no Monte Carlo, independent of depth, heads, ratio and time.

    Every block is the identity and the patches contribute nothing, so that the readout (Xavier uniform,
    variance 2 / (width + entries of a patch)) sees the normalised position code.

    Args:
        shape: (colours, rows, columns).
        patch: Side of a patch.
        width: Width of a token.
        mean_weight: Mean weight of the noise levels.

    Returns:
        The geometry.
    """
    colours, rows, columns = shape
    code = embed_grid(rows // patch, columns // patch, width)
    hidden = torch.nn.functional.layer_norm(code, (width,), eps=1e-6)
    variance = 2.0 / (width + patch * patch * colours)
    return token_geometry(mean_weight * variance * hidden @ hidden.T, shape, patch)
