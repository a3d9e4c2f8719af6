"""Extrema next to the ends of a string: ripples of the interpolation go, true dips stay."""

import pytest
import torch

from workbench.curves import Curve
from workbench.strings.profile import Extremum, refine_extrema

LINE = Curve.through(torch.stack([torch.linspace(0, 1, 9), torch.zeros(9)], dim=-1).double())


def refined(shift, seen):
    """Refine what was seen on a straight string over V = (x - shift)^2 - shift^2."""

    def force(rows):
        return torch.stack([-2 * (rows[:, 0] - shift), 0 * rows[:, 1]], dim=-1)

    def energy(rows):
        return (rows[:, 0] - shift).square() - shift**2

    return refine_extrema(LINE, seen, force, energy)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_ripple_beside_a_minimum_is_the_minimum(backwards):
    """V = x^2 rises from the start (falls to the end); the profile saw a dip of 1e-5 beside it."""
    shift = 1.0 if backwards else 0.0
    ends = (Extremum(0.0, 0.0, 0.0, "maximum"), Extremum(1.0, 1.0, 1 - 2 * shift, "maximum"))
    ripple = Extremum(0.99 if backwards else 0.01, 0.0, ends[backwards].energy - 1e-5, "minimum")
    found = refined(shift, (ends[0], ripple, ends[1]))
    assert [(point.t, point.kind) for point in found] == (
        [(0.0, "maximum"), (1.0, "minimum")] if backwards else [(0.0, "minimum"), (1.0, "maximum")]
    )


def test_a_dip_beside_an_end_stays():
    seen = (
        Extremum(0.0, 0.0, 0.0, "maximum"),
        Extremum(0.04, 0.04, 0.0, "minimum"),
        Extremum(1.0, 1.0, 0.9, "maximum"),
    )
    found = refined(0.05, seen)
    assert [point.kind for point in found] == ["maximum", "minimum", "maximum"]
    assert found[1].t == pytest.approx(0.05, abs=1e-6)
    assert found[1].energy == pytest.approx(-0.0025, abs=1e-9)
