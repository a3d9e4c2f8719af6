"""Four named mixtures: three unlike components, a ring, a bent valley and two equal wells.

Stationary points are typed to nine digits and polished by Newton steps; barriers follow from them, lengths
are those of the integrated reference paths.

References:
    Moreau, Coeurdoux, Ferre, Vanden-Eijnden, "Probing the Geometry of Diffusion Models with the String
        Method", 2026, appendix C, https://arxiv.org/abs/2602.22122 (the covariance of the bent valley as
        repaired there: diag(7, 0.3) turned by plus and minus 60 degrees)
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from workbench.errors import SettingError
from workbench.worlds.facts import Facts, Route
from workbench.worlds.mixture import GaussianMixture
from workbench.worlds.reference import polish_stationary

_G3_ACROSS = 6.384672520
_G3_OVER = 9.506935446
_RING_MODES, _RING_RADIUS, _RING_WIDTH = 8, 4.0, 0.6
_RING_HALF = 12.245853903
_V_VALLEY = 10.797949972


def _tensor(rows: list) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def _polished(mixture: GaussianMixture, points: Tensor) -> Tensor:
    return polish_stationary(lambda x: mixture.score(x, 0.0), mixture.hessian, points)


def _route(mixture: GaussianMixture, name: str, minima: Tensor, saddles: Tensor, length: float) -> Route:
    energy = -mixture.log_prob(torch.cat([minima[:1], saddles]), 0.0)
    return Route(name, minima, saddles, float(energy[1:].max() - energy[0]), length)


def three_gaussians() -> GaussianMixture:
    """Three components of unlike weights and covariances in the plane.

    Two minimum-energy paths join its first two modes: one straight across, one over the third mode with the
    lower barrier.
    """
    mixture = GaussianMixture(
        "g3",
        _tensor([0.5, 0.3, 0.2]),
        _tensor([[-3.0, 0.0], [3.0, 1.0], [0.0, 4.0]]),
        _tensor([[[1.0, 0.3], [0.3, 0.5]], [[0.6, -0.2], [-0.2, 0.8]], [[0.4, 0.0], [0.0, 0.4]]]),
    )
    minima = _polished(
        mixture, _tensor([[-3.0, 0.0], [0.000053512, 3.999963871], [2.999999947, 1.000000036]])
    )
    saddles = _polished(mixture, _tensor([[0.42186, 1.3095], [-0.68515, 2.1188], [1.3650, 2.8546]]))
    across = _route(mixture, "across", minima[[0, 2]], saddles[:1], _G3_ACROSS)
    over = _route(mixture, "over the third mode", minima, saddles[1:], _G3_OVER)
    facts = Facts(
        minima, saddles, minima[0], minima[2], (across, over), (-6.0, 6.0, -3.0, 7.0), levels=(0.05, 8.0)
    )
    return replace(mixture, known=facts)


def ring_mixture() -> GaussianMixture:
    """Eight equal round components of standard deviation 0.6 evenly on a circle of radius 4.

    Opposite modes are joined by a path round the ring over four equal barriers. The straight line between
    them is itself a critical path, through a point of higher index: the trap of symmetric starts.
    """
    count, radius, width = _RING_MODES, _RING_RADIUS, _RING_WIDTH
    angles = 2.0 * math.pi * torch.arange(count, dtype=torch.float64) / count
    circle = torch.stack([angles.cos(), angles.sin()], dim=-1)
    turned = torch.stack([(angles + math.pi / count).cos(), (angles + math.pi / count).sin()], dim=-1)
    mixture = GaussianMixture(
        "ring",
        torch.ones(count, dtype=torch.float64),
        radius * circle,
        (width**2 * torch.eye(2, dtype=torch.float64)).expand(count, 2, 2),
    )
    minima = _polished(mixture, radius * circle)
    saddles = _polished(mixture, radius * math.cos(math.pi / count) * turned)
    half = count // 2
    names = ("over the top", "under the bottom")
    upper = _route(mixture, names[0], minima[: half + 1], saddles[:half], _RING_HALF)
    lower = replace(
        upper,
        name=names[1],
        minima=minima[(-torch.arange(half + 1)) % count],
        saddles=saddles[(-1 - torch.arange(half)) % count],
    )
    edge = 1.5 * radius
    facts = Facts(
        minima,
        saddles,
        minima[0],
        minima[half],
        (upper, lower),
        (-edge, edge, -edge, edge),
        levels=(0.05, 4.0 * radius),
    )
    return replace(mixture, known=facts)


def v_mixture() -> GaussianMixture:
    """Two long components that meet like the strokes of a V: the straight path is far above the bent one."""
    slant = 6.7 * math.sqrt(3.0) / 4.0
    mixture = GaussianMixture(
        "v_mixture",
        _tensor([0.5, 0.5]),
        _tensor([[3.0, 0.0], [-3.0, 0.0]]),
        _tensor([[[7.9 / 4.0, slant], [slant, 21.3 / 4.0]], [[7.9 / 4.0, -slant], [-slant, 21.3 / 4.0]]]),
    )
    minima = _polished(mixture, _tensor([[-3.0, 0.0], [0.0, -4.406863447], [3.0, 0.0]]))
    saddles = _polished(mixture, _tensor([[-0.171033229, -4.339284613], [0.171033229, -4.339284613]]))
    valley = _route(mixture, "valley", minima, saddles, _V_VALLEY)
    facts = Facts(
        minima, saddles, minima[0], minima[2], (valley,), (-7.0, 7.0, -8.0, 6.0), levels=(0.05, 10.0)
    )
    return replace(mixture, known=facts)


def two_wells(offset: float = 2.0, width: float = 0.5, dim: int = 2) -> GaussianMixture:
    """Two equal round components at plus and minus offset on the first axis.

    By symmetry the axis is the minimum-energy path at every noise level; with S^2 = width^2 + sigma^2 the
    modes solve x = offset tanh(x offset / S^2) and merge at S = offset.

    Args:
        offset: Distance of each centre from the origin, above `width`.
        width: Standard deviation of a component.
        dim: Number of coordinates.

    Raises:
        SettingError: If the offset is not above a positive width: then there is one mode, and no path.
    """
    if not 0.0 < width < offset:
        raise SettingError(f"offset {offset:g} and width {width:g}", "0 < width < offset", "offset=2.0")
    centre = torch.zeros(dim, dtype=torch.float64)
    centre[0] = offset
    mixture = GaussianMixture(
        "two_wells",
        _tensor([0.5, 0.5]),
        torch.stack([-centre, centre]),
        (width**2 * torch.eye(dim, dtype=torch.float64)).expand(2, dim, dim),
    )
    mode = offset
    for _ in range(200):  # a contraction, as tanh is flatter than its argument there
        mode = offset * math.tanh(mode * offset / width**2)
    minima = torch.stack([-centre, centre]) * (mode / offset)
    saddles = torch.zeros(1, dim, dtype=torch.float64)
    straight = _route(mixture, "straight", minima, saddles, 2.0 * mode)
    edge = offset + 4.0 * width
    facts = Facts(
        minima,
        saddles,
        minima[0],
        minima[1],
        (straight,),
        (-edge, edge, -edge, edge),
        levels=(0.05, 2.5 * offset),
    )
    return replace(mixture, known=facts)
