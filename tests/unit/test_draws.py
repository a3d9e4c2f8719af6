"""Draws: reproducible from a seed, in the right type, and made where the generator lives."""

import ast
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from workbench.draws import draw_integers, draw_normal, draw_signs, draw_uniform, seeded

KINDS = {
    "normal": draw_normal,
    "uniform": draw_uniform,
    "signs": draw_signs,
    "integers": lambda shape, like, generator: draw_integers(7, shape, like, generator),
}


@pytest.mark.parametrize("kind", KINDS)
def test_points_elsewhere_get_the_numbers_of_the_generators_device(kind):
    # the meta device stands for an accelerator: drawing there with this generator is an error of torch
    elsewhere = torch.empty(1, device="meta", dtype=torch.float32)
    found = KINDS[kind]((3, 2), elsewhere, torch.Generator().manual_seed(1))
    assert found.device == elsewhere.device
    assert found.shape == (3, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_repeats_its_draws(kind):
    like = torch.empty(1, dtype=torch.float32)
    first, second = (KINDS[kind]((50,), like, torch.Generator().manual_seed(4)) for _ in range(2))
    assert_close(first, second, rtol=0, atol=0)
    assert first.dtype == (torch.int64 if kind == "integers" else torch.float32)


def test_draws_have_the_moments_of_their_laws():
    like, generator, count = torch.empty(1), torch.Generator().manual_seed(0), 40_000
    # five standard errors of each mean
    assert abs(float(draw_normal((count,), like, generator).mean())) < 5 / count**0.5
    assert abs(float(draw_uniform((count,), like, generator).mean()) - 0.5) < 5 * (1 / 12 / count) ** 0.5
    signs = draw_signs((count,), like, generator)
    assert set(signs.tolist()) == {-1.0, 1.0}
    assert abs(float(signs.mean())) < 5 / count**0.5
    assert set(draw_integers(3, (200,), like, generator).tolist()) == {0, 1, 2}


def test_no_generator_is_one_of_seed_zero():
    like = torch.empty(1)
    torch.manual_seed(5)
    first = draw_normal((4,), like, seeded(None))
    torch.manual_seed(6)
    assert_close(first, draw_normal((4,), like, seeded(None)), rtol=0, atol=0)
    own = torch.Generator()
    assert seeded(own) is own


DRAWING = ("phases", "geodesics", "logpartition", "anisotropy", "metrics", "lenses", "worlds")


@pytest.mark.parametrize("package", DRAWING)
def test_draws_of_a_given_generator_go_through_one_place(package):
    """A generator of one device and points on another meet in `workbench.draws` alone."""
    bare = []
    for path in sorted((Path(__file__).parents[2] / "workbench" / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("torch.rand"):
                continue
            named = {word.arg: ast.unparse(word.value) for word in node.keywords}
            source = named.get("generator", "")
            made_here = "Generator(" in source or source.startswith("stream(")
            if source and not made_here and named.get("device") != f"{source}.device":
                bare.append(f"{path.name}:{node.lineno}")
    assert bare == []
