"""Slices through latents, learned potentials on them, and the plateaus of their gradients, on known maps."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import workbench
from workbench.errors import Cancelled, SettingError, ShapeError
from workbench.fields import Window
from workbench.lenses.fisher import measure_metric_field
from workbench.memory import PROBE
from workbench.metrics import hessian_residual, matrix
from workbench.phases import (
    MEASURES,
    FlowMap,
    compare_metrics,
    grid_metric,
    latent_slice,
    learn_slice,
    measure_plateaus,
    open_slice,
    slice_metric,
    two_gaussians,
)
from workbench.worlds import load_world

UNIT = Window((0.0, 1.0), (0.0, 1.0))
MIDDLE = torch.tensor([0.4, 0.6], dtype=torch.float64)
STEEP = 12.0


def four_phases(side):
    """Features tanh(12 (t - t0)) in both coordinates: four phases; the metric of the map is a Hessian."""
    axis = torch.linspace(0.0, 1.0, side, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis).flip(-1)
    slopes = STEEP / torch.cosh(STEEP * (grid - MIDDLE)) ** 2
    metric = torch.diag_embed(slopes**2).reshape(side, side, 2, 2)
    labels = (grid[:, 0] > MIDDLE[0]).long() + 2 * (grid[:, 1] > MIDDLE[1]).long()
    features = torch.tanh(STEEP * (grid - MIDDLE)).reshape(side, side, 2)
    return features, metric, labels.reshape(side, side)


@pytest.fixture(scope="module")
def learned():
    return learn_slice(four_phases(12)[0], UNIT)


def test_the_learned_metric_has_the_ridges_of_the_map(learned):
    _, exact, _ = four_phases(12)
    scale, correlation = compare_metrics(learned.matrices, exact)
    assert correlation > 0.85
    assert 0.5 < scale < 2.0
    assert bool((torch.linalg.eigvalsh(learned.matrices) > 0.0).all())
    assert learned.report.history[-1] < 0.3 * learned.report.history[0]


def test_a_grid_sees_linear_features_exactly_and_others_to_second_order():
    axis = torch.linspace(0.0, 1.0, 9, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), dim=-1)
    turn = torch.tensor([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])
    assert_close(grid_metric(grid @ turn, UNIT), (turn @ turn.mT).expand(9, 9, 2, 2), rtol=1e-10, atol=1e-10)
    errors = []
    for side in (33, 65):
        features, exact, _ = four_phases(side)
        errors.append((grid_metric(features, UNIT) - exact)[1:-1, 1:-1].abs().max())
    assert float(errors[0] / errors[1]) == pytest.approx(4.0, rel=0.25)
    with pytest.raises(ShapeError, match="3 x 3"):
        grid_metric(features[:2], UNIT)


def test_the_learned_metric_is_what_the_grid_shows_up_to_its_kernel():
    plane = open_slice("fashion_latent", latents="decoder", corners="0;1;2")
    axis = torch.linspace(0.0, 1.0, 10)
    places = torch.cartesian_prod(axis, axis).flip(-1)
    with torch.no_grad():
        features = plane.read(places).reshape(10, 10, -1)
    learned = learn_slice(features, UNIT)
    assert compare_metrics(grid_metric(features, UNIT), matrix(plane.metric(), places))[1] > 0.9
    assert compare_metrics(learned.matrices, grid_metric(features, UNIT))[1] > 0.8
    hasty = learn_slice(features, UNIT, steps=60)
    assert compare_metrics(hasty.matrices, grid_metric(features, UNIT))[1] < 0.8


def test_the_gradient_of_the_learned_potential_is_a_staircase(learned):
    _, _, labels = four_phases(12)
    stairs = measure_plateaus(learned.gradient, labels=labels)
    assert stairs.flatness > 0.75
    assert stairs.heights.shape == (4, 2)
    found = measure_plateaus(learned.gradient, count=4)
    agree = (found.labels[:, :, None, None] == found.labels) == (labels[:, :, None, None] == labels)
    assert float(agree.double().mean()) > 0.85


def test_plateaus_of_an_exact_staircase_and_of_a_ramp():
    _, _, labels = four_phases(8)
    heights = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 2.0]], dtype=torch.float64)
    exact = measure_plateaus(heights[labels], labels=labels)
    assert exact.flatness == pytest.approx(1.0, abs=1e-12)
    assert exact.spread == pytest.approx(0.0, abs=1e-12)
    assert_close(exact.heights, heights, rtol=0.0, atol=1e-12)
    axis = torch.linspace(0.0, 1.0, 64, dtype=torch.float64)
    ramp = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), dim=-1)
    halves = (
        ramp[..., 0] > 0.5
    ).long()  # halves explain 3/4 of one coordinate's variance, none of the other's
    assert measure_plateaus(ramp, labels=halves).flatness == pytest.approx(0.375, abs=0.01)
    with pytest.raises(ShapeError, match="labels of shape"):
        measure_plateaus(ramp, labels=labels)


def test_features_that_never_change_are_refused():
    with pytest.raises(SettingError, match="same everywhere"):
        learn_slice(torch.zeros(6, 6, 3), UNIT)
    with pytest.raises(ShapeError, match="features of shape"):
        learn_slice(torch.zeros(36, 3), UNIT)


def test_the_flow_backwards_returns_the_latents():
    flow = FlowMap(two_gaussians(0.5), sigma_max=100.0, softness=0.25, steps=80)
    z = torch.tensor([[-1.1], [0.3], [0.9]])
    assert_close(flow.invert(flow(z)), z, rtol=1e-4, atol=1e-5)


def test_a_slice_through_a_decoder_has_its_pullback():
    plane = open_slice("fashion_latent", latents="decoder", corners="0;1;2", dtype=torch.float64)
    at = torch.tensor([[0.2, 0.3], [0.5, 0.1]])
    found = matrix(plane.picture_metric(), at)
    step = 1e-5  # central differences through plane and decoder
    columns = [
        (plane.pictures(at + step * axis) - plane.pictures(at - step * axis)) / (2.0 * step)
        for axis in torch.eye(2)
    ]
    jacobian = torch.stack(columns, dim=-1)
    assert_close(found, jacobian.mT @ jacobian, rtol=1e-6, atol=1e-6)
    assert plane.calls == 0
    assert plane.pictures(at).shape == (2, 784)
    assert plane.labels(at).shape == (2,)


def test_named_corners_lead_back_to_their_samples():
    plane = open_slice("fashion_latent", corners="3;1;0", steps=24)
    there = plane.samples(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float32))
    direct = open_slice("fashion_latent", corners="3;1;0", latents="decoder").corners
    assert_close(there, direct, rtol=0.0, atol=0.15)


def test_few_steps_of_a_sampler_see_what_many_see():
    at = torch.rand(8, 2, generator=torch.Generator().manual_seed(3))
    rough, fine = (open_slice("fashion_latent", steps=steps) for steps in (6, 24))
    with torch.no_grad():
        exact = fine.read(at)
        assert float((rough.read(at) - exact).norm() / exact.norm()) < 0.03
    found, exact = matrix(rough.metric(), at), matrix(fine.metric(), at)
    gap = torch.linalg.matrix_norm(found - exact) / torch.linalg.matrix_norm(exact)
    assert float(gap.median()) < 0.15


def test_what_names_no_slice_is_said():
    with pytest.raises(SettingError, match="three points"):
        open_slice("digits", corners="0;1")
    with pytest.raises(SettingError, match="decoder where the model has one"):
        open_slice("digits", latents="decoder")
    with pytest.raises(SettingError, match="without a judge"):
        latent_slice(load_world("g3"), dtype=torch.float64).labels(torch.zeros(1, 2))


@pytest.fixture(scope="module")
def decoded():
    return open_slice("fashion_latent", latents="decoder", corners="0;1;2")


def test_a_slice_is_measured_in_three_ways(decoded):
    at = torch.tensor([[0.2, 0.3], [0.5, 0.1]])
    found = {name: matrix(slice_metric(decoded, name, UNIT, side=8), at) for name in MEASURES}
    assert_close(found["features"], matrix(decoded.metric(), at))
    assert_close(found["pictures"], matrix(decoded.picture_metric(), at))
    learned = slice_metric(decoded, "learned", UNIT, side=8)
    assert bool((torch.linalg.eigvalsh(found["learned"]) > 0.0).all())
    residual = hessian_residual(learned, at.double()).detach()
    assert float(residual.max()) < 1e-6  # a Hessian, unlike the other two
    assert float(hessian_residual(decoded.picture_metric(), at).min()) > 0.05
    with pytest.raises(SettingError, match="one of features, pictures, learned"):
        slice_metric(decoded, "colours", UNIT)


class Counted:
    """A world that notes how many points it is asked about."""

    def __init__(self, world):
        self.world, self.frame, self.points = world, world.frame, []

    def denoise(self, y, sigma):
        self.points.append(len(y))
        return self.world.denoise(y, sigma)


def test_a_field_of_256_by_256_is_one_batch_through_the_flow():
    world = Counted(load_world("g3"))
    corners = torch.tensor([[-1.5, -1.5], [1.5, -1.5], [-1.5, 1.5]])
    plane = latent_slice(world, corners=corners, steps=2, dtype=torch.float64)
    field = measure_metric_field(plane.metric(), UNIT, columns=256, rows=256)
    assert world.points[:8] == [PROBE] * 8  # what a point takes
    assert world.points[8:] == [65536] * 8  # four stages a step, all points and both directions at once
    assert field.share_indefinite == 0.0
    assert field.report.model_calls > 0


def test_a_watched_slice_tells_each_step_and_ends_with_what_is_raised():
    plane = latent_slice(two_gaussians(0.5), steps=6)
    said = []

    def tell(share, words):
        said.append(words)
        if len(said) == 9:
            raise Cancelled("enough")

    watched = plane.watched(tell)
    at = torch.rand(3, 2)
    assert_close(watched.samples(at), plane.samples(at), rtol=0.0, atol=0.0)
    assert said == [f"step {k} of 6 of the flow" for k in range(1, 7)]
    with pytest.raises(Cancelled, match="enough"):
        matrix(watched.metric(), at)
    assert len(said) == 9


def test_a_pipeline_of_ones_own_is_cut_inside_its_levels_and_falls_into_clusters():
    """An opened network refuses levels below its smallest; no judge is shipped for it."""
    plane = open_slice(Path(workbench.__file__).parent / "weights" / "digits_pipeline", steps=2)
    assert plane.flow.lowest == plane.model.frame.sigma_min > 0.0
    axis = torch.linspace(0.0, 1.0, 4)
    grid = torch.cartesian_prod(axis, axis).flip(-1)
    labels = plane.phases(grid)
    assert labels.shape == (16,)
    assert set(labels.tolist()) == {0, 1, 2}
    assert bool((torch.linalg.eigvalsh(matrix(plane.metric(), grid[5:6])) > 0.0).all())
    with pytest.raises(SettingError, match="a slice without a judge"):
        plane.labels(grid)


def test_a_flow_that_ends_at_a_small_level_is_the_flow_to_that_order():
    whole = FlowMap(two_gaussians(0.5), softness=0.25, steps=60)
    z = torch.linspace(-2.0, 2.0, 9).unsqueeze(1)
    assert_close(replace(whole, lowest=0.01)(z), whole(z), rtol=0.0, atol=2e-3)
    assert_close(replace(whole, lowest=0.001)(z), whole(z), rtol=0.0, atol=2e-5)
