"""Fields under the curves, against closed forms."""

import math

import pytest
import torch
from torch.testing import assert_close

from workbench.bench import Bench, BenchState
from workbench.bench.background import background_of, potential_of
from workbench.bench.state import BACKGROUNDS
from workbench.errors import SettingError
from workbench.worlds import load_world


def _field(state):
    return background_of(Bench(state).inquiry(resolution="coarse"))


def _grid(field):
    rows, columns = field.values.shape
    x = torch.linspace(*field.window.x, columns)
    y = torch.linspace(*field.window.y, rows)
    return torch.cartesian_prod(y, x).flip(-1)


def test_density_is_the_log_density():
    field = _field(BenchState(world="v_mixture", sigma=0.4))
    assert_close(field.values.flatten(), load_world("v_mixture").log_prob(_grid(field), 0.4))


def test_magnification_of_the_density_metric_is_its_volume():
    field = _field(BenchState(world="v_mixture", sigma=0.4, metric="density", background="magnification"))
    # g = p^(-1) I in the plane: log sqrt det g = -log p
    assert_close(field.values.flatten(), -load_world("v_mixture").log_prob(_grid(field), 0.4))


def test_magnification_of_the_score_metric_is_that_of_a_graph():
    state = BenchState(world="v_mixture", sigma=0.4, metric="score", weight=0.3, background="magnification")
    field = _field(state)
    score = load_world("v_mixture").score(_grid(field), 0.4)
    assert_close(field.values.flatten(), 0.5 * torch.log1p(0.3 * score.square().sum(-1)))


def test_score_is_its_size():
    field = _field(BenchState(world="ring", sigma=0.5, background="score"))
    assert_close(field.values.flatten(), load_world("ring").score(_grid(field), 0.5).norm(dim=-1))


def test_dimension_is_flipd_of_the_closed_form():
    field = _field(BenchState(world="ring", sigma=0.5, background="dimension"))
    world = load_world("ring")
    points = _grid(field)
    wanted = 2 + 0.25 * (world.divergence(points, 0.5) + world.score(points, 0.5).square().sum(-1))
    assert_close(field.values.flatten(), wanted, rtol=1e-8, atol=1e-8)


def test_phase_is_the_most_responsible_component():
    field = _field(BenchState(world="v_mixture", background="phase"))
    points = _grid(field)
    assert set(field.values.unique().tolist()) == {0.0, 1.0}
    own = load_world("v_mixture").responsibilities(points, 0.0).argmax(-1)
    assert_close(field.values.flatten(), own.to(field.values))


def test_a_network_has_a_potential_of_its_score():
    field = _field(BenchState(model="ring", sigma=0.3))
    assert "potential" in field.title
    assert float(field.values.max()) == 0.0
    on_ring = float(field.values[field.values.shape[0] // 2].max())
    assert on_ring > float(field.values[0, 0])


@pytest.mark.parametrize(("rows", "columns"), [(9, 14), (14, 9), (12, 12)])
def test_the_potential_of_a_gradient_is_itself(rows, columns):
    x, y = torch.linspace(-1, 2, columns), torch.linspace(0, 1.3, rows)
    yy, xx = torch.meshgrid(y, x, indexing="ij")
    values = 0.7 * xx**2 - 1.1 * yy**2 + 0.4 * xx * yy + 3 * xx - yy
    slopes = torch.stack([1.4 * xx + 0.4 * yy + 3, -2.2 * yy + 0.4 * xx - 1], dim=-1)
    found = potential_of(slopes, (float(x[1] - x[0]), float(y[1] - y[0])))
    assert_close(found, values - values.max(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", [one for one in BACKGROUNDS if one not in ("density", "none")])
def test_an_energy_has_its_density_only(name):
    with pytest.raises(SettingError, match="without a density"):
        _field(BenchState(world="muller_brown", background=name))


def test_no_field_is_none():
    assert _field(BenchState(world="ring", background="none")) is None


def test_fields_of_one_network_share_the_score_grid():
    bench = Bench(BenchState(model="ring", sigma=0.3))
    background_of(bench.inquiry(resolution="coarse"))
    before = bench.cache.use
    background_of(bench.inquiry(bench.state.but(background="score"), resolution="coarse"))
    assert bench.cache.use.hits == before.hits + 1
    assert math.isclose(bench.cache.use.misses, before.misses + 1)
