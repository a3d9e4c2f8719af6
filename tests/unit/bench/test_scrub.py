"""Where the number of modes changes and directions cross, against closed forms; levels computed ahead."""

import threading

import pytest
import torch

from tests.oracles import bench as oracle
from workbench.bench import Bench, BenchState, scrub_levels
from workbench.bench.events import find_crossings, find_mode_events, find_stationary
from workbench.bench.scrub import level_grid, nearest_level
from workbench.errors import SettingError
from workbench.worlds import load_world, two_wells
from workbench.worlds.mixture import GaussianMixture

LEVELS = (0.1, 0.5, 1.0, 1.7, 2.3, 4.0)


@pytest.mark.parametrize(("offset", "width"), [(2.0, 0.5), (1.5, 0.9)])
def test_two_wells_merge_where_the_formula_says(offset, width):
    events = find_mode_events(two_wells(offset, width), (0.2, 0.9, 1.6, 2.5))
    wanted = oracle.merging_level(2 * offset, width)
    assert sorted((event.kind, event.before, event.after) for event in events) == [
        ("modes merge", 2, 1),
        ("saddle vanishes", 1, 0),
    ]
    for event in events:
        assert event.sigma == pytest.approx(wanted, rel=1e-4)
        assert event.error < 1e-3


@pytest.mark.parametrize("name", ["v_mixture", "g3", "two_wells"])
def test_stationary_points_are_those_that_the_world_knows(name):
    world = load_world(name)
    assert find_stationary(world, 0.0 if name != "v_mixture" else 1e-6) == (
        len(world.facts.minima),
        len(world.facts.saddles),
    )


@pytest.mark.parametrize(("c1", "c2", "a"), [(0.25, 2.0, 1.0), (0.5, 4.0, 1.5)])
def test_eigenvalues_cross_where_the_formula_says(c1, c2, a):
    covariance = torch.diag(torch.tensor([c1, c2])).expand(2, 2, 2).contiguous()
    model = GaussianMixture("pair", torch.ones(2), torch.tensor([[-a, 0.0], [a, 0.0]]), covariance)
    events = find_crossings(model, torch.zeros(2), LEVELS, where="here")
    assert [event.kind for event in events] == ["eigenvalues cross"]
    assert events[0].sigma == pytest.approx(oracle.crossing_level(c1, c2, a), rel=1e-5)
    first, second = oracle.posterior_variances(c1, c2, a, events[0].sigma)
    assert first == pytest.approx(second, rel=1e-4)


def test_an_avoided_crossing_is_none():
    model = GaussianMixture(
        "one", torch.ones(1), torch.zeros(1, 2), torch.diag(torch.tensor([1.0, 2.0]))[None]
    )
    assert find_crossings(model, torch.tensor([0.3, 0.2]), LEVELS) == []


def test_levels_are_computed_ahead_and_looked_up():
    bench = Bench(BenchState(world="two_wells", regimes="static", lenses="paths", background="none", nodes=9))
    said = []
    scrub = scrub_levels(bench, levels=(0.5, 1.0, 2.2), progress=lambda share, words: said.append(share))
    assert len(scrub.results) == 3
    assert said == sorted(said)
    assert said[-1] == 1.0
    assert scrub.at(1.1).state.sigma == 1.0
    assert scrub.at(0.0).state.sigma == 0.5
    assert {event.kind for event in scrub.events} == {"modes merge", "saddle vanishes"}
    before = bench.cache.use
    bench.ask(bench.state.but(sigma=1.0), resolution="coarse")
    assert bench.cache.use.misses == before.misses
    heights = [result.table.row("path, static").barrier.value for result in scrub.results]
    assert heights[0] > heights[1] > heights[2]


def test_a_cancelled_scrub_keeps_what_is_done():
    bench = Bench(BenchState(world="two_wells", regimes="static", lenses="paths", background="none", nodes=9))
    stop = threading.Event()
    scrub = scrub_levels(
        bench,
        levels=(0.5, 1.0, 1.5),
        progress=lambda share, words: stop.set() if share > 0.2 else None,
        cancel=stop,
    )
    assert 1 <= len(scrub.results) < 3
    stop.set()
    nothing = scrub_levels(bench, levels=(0.5, 1.0), cancel=stop)
    with pytest.raises(SettingError, match="computed level"):
        nothing.at(1.0)


def test_an_energy_has_no_levels():
    with pytest.raises(SettingError, match="energy"):
        level_grid(Bench(BenchState(world="muller_brown")).place.subject)


def test_the_grid_spans_the_world_at_equal_ratios():
    levels = level_grid(Bench(BenchState(world="v_mixture")).place.subject, count=5)
    assert levels[0] == pytest.approx(0.05)
    assert levels[-1] == pytest.approx(10.0)
    assert levels[1] / levels[0] == pytest.approx(levels[4] / levels[3])
    assert nearest_level(levels, 0.0) == 0
    assert nearest_level(levels, 9.0) == 4
