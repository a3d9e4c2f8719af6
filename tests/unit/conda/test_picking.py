"""What a lasso encloses and where a polygon is nearest, against shapes whose answer is known."""

import pytest
import torch

from workbench.conda.picking import enclosed_rows, nearest_leg
from workbench.errors import ShapeError


def test_a_star_encloses_by_the_even_odd_rule():
    """A pentagram's tips are inside, its middle, wound twice, is not, nor is the space between two tips."""
    turn = torch.arange(5, dtype=torch.float64) * 4 * torch.pi / 5
    star = torch.stack([turn.sin(), turn.cos()], dim=1)
    between = torch.tensor([0.5 * torch.pi / 2.5], dtype=torch.float64)
    gap = 0.9 * torch.stack([between.sin(), between.cos()], dim=1)
    points = torch.cat([0.8 * star, torch.zeros(1, 2, dtype=torch.float64), gap])
    assert enclosed_rows(points, star).tolist() == [0, 1, 2, 3, 4]


def test_an_oblique_triangle_encloses_what_its_barycentric_coordinates_say(generator: torch.Generator):
    corners = torch.tensor([[0.0, 0.0], [1.0, 0.2], [0.3, 0.9]])
    points = torch.rand(400, 2, generator=generator)
    both = torch.linalg.solve((corners[1:] - corners[0]).T, (points - corners[0]).T)
    inside = (both >= 0).all(0) & (both.sum(0) <= 1)
    assert enclosed_rows(points, corners).tolist() == inside.nonzero()[:, 0].tolist()


@pytest.mark.parametrize(
    "corners", [[], [[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [torch.nan, 1.0], [1.0, 0.0]]]
)
def test_no_area_encloses_nothing(corners: list):
    assert not len(enclosed_rows(torch.zeros(3, 2), torch.tensor(corners).reshape(-1, 2)))


@pytest.mark.parametrize(
    ("place", "leg", "share"),
    [((0.5, 0.1), 0, 0.5), ((1.2, 0.75), 1, 0.75), ((-1.0, -1.0), 0, 0.0), ((1.0, 9.0), 1, 1.0)],
)
def test_the_nearest_leg_and_its_share(place: tuple[float, float], leg: int, share: float):
    corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    found = nearest_leg(corners, torch.tensor(place))
    assert found == (leg, pytest.approx(share))


def test_two_corners_at_one_place_are_a_leg_of_no_length():
    found = nearest_leg(torch.zeros(2, 2), torch.ones(2))
    assert found == (0, 0.0)


def test_another_dimension_is_one_sentence():
    with pytest.raises(ShapeError, match=r"^got points of shape \(3, 3\); expected \(any, 2\)"):
        enclosed_rows(torch.zeros(3, 3), torch.zeros(3, 2))
    with pytest.raises(ShapeError, match=r"^got corners of shape \(1, 2\) and a place"):
        nearest_leg(torch.zeros(1, 2), torch.zeros(2))
