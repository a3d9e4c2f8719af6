"""Principal curves: cells, known entropic shifts, the stability limit and its filter."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.oracles import strings as oracle
from workbench.curves import Curve, bumped
from workbench.errors import SettingError
from workbench.strings.evolution import evolve_string
from workbench.strings.static import relax_string
from workbench.strings.walkers import Swarm, find_principal_curve, inside_cells, sine_filter, smooth
from workbench.worlds import NoisyCircle, deviation, load_world


def _arc(nodes, radius, strings=1):
    angle = torch.linspace(0, math.pi, nodes)
    points = radius * torch.stack([angle.cos(), angle.sin()], -1)
    return Curve.through(points.expand(strings, nodes, 2))


def _polar_force(sigma):
    def force(x):
        radius = x.norm(dim=-1, keepdim=True)
        return -(radius - 1.0) / sigma**2 * x / radius

    return force


def _radii(found):
    """Mean interior radius of each string."""
    return found.curve.points[..., 1:-1, :].norm(dim=-1).mean(-1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_nearest_image_rule_equals_brute_force(generator, dtype):
    images = torch.randn(7, 5, generator=generator) * 3 + 1000.0  # far from the origin: squares would cancel
    x = images[:, None] + torch.randn(7, 40, 5, generator=generator)
    x, images = x.to(dtype), images.to(dtype)
    nearest = oracle.nearest_image(x.reshape(-1, 5).double(), images.double()).reshape(7, 40)
    assert np.array_equal(inside_cells(x, images).numpy(), nearest == np.arange(7)[:, None])


@pytest.mark.parametrize(
    ("strings", "rounds", "apart"),
    [(8, 200, 3e-3), pytest.param(32, 350, 2e-3, marks=pytest.mark.slow)],
    ids=["short", "long"],
)
def test_polar_density_has_its_mean_radius(strings, rounds, apart):
    """Seven images on a half circle read 1.02816: the entropic shift times the cell's own."""
    expected = oracle.cell_mean(oracle.polar_mean(0.2), math.pi / 6)
    assert_close(expected, 1.02816, rtol=0, atol=1e-5)
    found = find_principal_curve(
        _polar_force(0.2),
        _arc(7, 1.04, strings),
        step=1e-3,
        rounds=rounds,
        walkers=64,
        modes=0,
        generator=torch.Generator().manual_seed(0),
    )
    radii = _radii(found)
    assert radii.std() / math.sqrt(strings) < 0.3 * apart
    assert abs(radii.mean() - 1.028) <= apart
    assert 0.9 < found.acceptance < 0.98
    assert_close(found.width, 0.2, rtol=0.05, atol=0)


@pytest.mark.slow
def test_narrow_polar_density_with_many_images():
    found = find_principal_curve(
        lambda x: 0.05 * _polar_force(math.sqrt(0.05 / 25))(x),
        _arc(33, 1.002, 4),
        temperature=0.05,
        step=2e-3,
        rounds=400,
        walkers=32,
        generator=torch.Generator().manual_seed(0),
    )
    assert abs(_radii(found).mean() - 1.0020) <= 2e-3


def test_ridge_lies_inside_and_the_principal_curve_outside():
    world = NoisyCircle()
    start, end = torch.tensor([0.9793608890, 0.0]), torch.tensor([-0.9793608890, 0.0])
    ridge = relax_string(lambda x: world.score(x, 0.0), bumped(start, end, 33, amplitude=0.9))
    assert_close(ridge.curve.points.norm(dim=-1), torch.full((33,), 0.979360889), rtol=0, atol=2e-5)
    mean = oracle.noisy_circle_mean(0.2, 1.0)
    assert_close(mean, 1.020213928, rtol=0, atol=1e-7)
    found = find_principal_curve(
        lambda x: world.score(x, 0.0),
        _arc(7, mean, 8),
        step=1e-3,
        rounds=200,
        walkers=32,
        modes=0,
        generator=torch.Generator().manual_seed(0),
    )
    expected = oracle.cell_mean(mean, math.pi / 6)
    assert abs(_radii(found).mean() - expected) <= 3e-3
    assert _radii(found).mean() > 1.0 > 0.98


@pytest.mark.parametrize(
    ("sigma", "temperature", "radius"),
    [(0.1, 1.0, 1.005012694), (0.2, 0.5, 0.999776639), (0.3, 0.1, 0.960876603), (0.3, 1.0, 1.046222600)],
)
def test_oracle_of_the_noisy_circle(sigma, temperature, radius):
    assert_close(oracle.noisy_circle_mean(sigma, temperature), radius, rtol=0, atol=1e-7)


def test_crowded_images_ripple_and_the_filter_calms_them():
    """Seventeen images stand one transverse width apart: below the limit of two."""

    def scatter(modes):
        found = find_principal_curve(
            _polar_force(0.2),
            _arc(17, 1.04),
            step=1e-3,
            rounds=150,
            walkers=32,
            modes=modes,
            generator=torch.Generator().manual_seed(0),
        )
        return found, float(found.curve.points[0, 1:-1].norm(dim=-1).std())

    wild, rippled = scatter(0)
    calm, smoothed = scatter(None)
    assert rippled > 0.03
    assert smoothed < 0.02
    assert 1 <= calm.modes <= 6
    assert any("transverse widths apart" in sentence for sentence in calm.report.warnings)
    assert any("transverse widths apart" in sentence for sentence in wild.report.warnings)
    assert abs(_radii(calm).mean() - oracle.cell_mean(1.04, math.pi / 16)) < 0.02


@pytest.mark.slow
def test_cold_walkers_give_the_path_of_least_energy():
    world = load_world("v_mixture")
    cold = evolve_string(
        world,
        world.facts.start,
        world.facts.end,
        nodes=17,
        steps=12,
        cap=1.5,
        temperature=1e-8,
        walkers=2,
        eta=0.5,
        generator=torch.Generator().manual_seed(0),
    )
    path = world.reference_path(nodes=4001)
    assert deviation(cold.curve.points, path).max() < 0.1
    assert cold.walkers.shape == (17, 2, 2)


def test_sine_filter_keeps_its_modes_and_nothing_else():
    nodes = 12
    u = torch.linspace(0, 1, nodes)[1:-1, None]
    project = sine_filter(nodes, 4, u)
    assert_close(project @ torch.sin(3 * math.pi * u), torch.sin(3 * math.pi * u), rtol=0, atol=1e-12)
    assert_close(project @ torch.sin(6 * math.pi * u), torch.zeros_like(u), rtol=0, atol=1e-12)
    assert_close(project @ project, project, rtol=0, atol=1e-12)


def test_smoothing_leaves_ends_and_lines_alone(generator):
    points = torch.randn(9, 3, generator=generator)
    assert torch.equal(smooth(points, 2)[[0, -1]], points[[0, -1]])
    line = torch.linspace(0, 1, 9)[:, None] * torch.ones(3)
    assert_close(smooth(line, 1), line)


def test_walkers_outside_their_moved_cell_restart():
    swarm = Swarm(torch.full((3, 4, 1), 10.0))
    images = torch.tensor([[0.0], [1.0], [2.0]])
    swarm.advance(images, lambda x: torch.zeros_like(x), 1e-9, 0.0, eta=1e-9)
    assert_close(swarm.walkers[:2, :, 0], torch.tensor([[0.0], [1.0]]).expand(2, 4), rtol=0, atol=1e-6)
    assert swarm.reset_rate > 0


def test_same_seed_same_curve():
    def run(seed):
        return find_principal_curve(
            _polar_force(0.2),
            _arc(7, 1.0),
            step=1e-3,
            rounds=20,
            walkers=4,
            generator=torch.Generator().manual_seed(seed),
        ).curve.points

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))


def test_limited_effort_is_reported():
    world = load_world("two_wells")
    found = evolve_string(
        world,
        world.facts.start,
        world.facts.end,
        nodes=7,
        steps=10,
        temperature=1.0,
        walkers=3,
        most_substeps=1,
        tol=1.0,
        generator=torch.Generator().manual_seed(0),
    )
    assert any("effort was left undone" in sentence for sentence in found.report.warnings)


@pytest.mark.parametrize(
    "options", [{"step": 0.0}, {"step": 0.1, "rounds": 1}, {"step": 0.1, "temperature": -1.0}]
)
def test_bad_settings(options):
    with pytest.raises(SettingError, match=r"^got .+expected"):
        find_principal_curve(_polar_force(0.2), _arc(5, 1.0), **options)
