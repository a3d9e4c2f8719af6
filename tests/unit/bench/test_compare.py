"""The table: the same ground for every curve, and errors against answers found another way."""

import math
from dataclasses import replace

import pytest
import torch

from workbench.bench import Bench, BenchState, trust_of
from workbench.bench.citations import ENTRIES, METHODS, cite
from workbench.bench.compare import Comparison
from workbench.curves import Curve
from workbench.errors import SettingError
from workbench.report import Status
from workbench.strings.ground import ground_of
from workbench.strings.profile import line_integral
from workbench.worlds import load_world


def test_the_straight_line_has_its_own_formula(valley):
    row = valley.table.row("straight line")
    world = load_world("v_mixture")
    middle = -world.log_prob(torch.tensor([[0.0, 0.0], [-3.0, 0.0]]), 0.0)
    assert row.lengths["euclidean"].value == pytest.approx(6.0, abs=1e-6)
    assert row.barrier.value == pytest.approx(float(middle[0] - middle[1]), abs=1e-3)
    assert row.lowest.value == pytest.approx(-float(middle[0]), abs=1e-3)
    assert abs(row.errors["metric length"]) < 1e-3 * row.lengths["density"].value


def test_errors_are_found_minus_exact(valley):
    path, geodesic = valley.table.row("path, static"), valley.table.row("geodesic")
    assert abs(path.errors["barrier"]) < 1e-4
    assert path.errors["barrier"] == pytest.approx(
        dict(valley.answer("paths").facts)["own barrier, static"].value
        - load_world("v_mixture").facts.barrier
    )
    assert abs(geodesic.errors["metric length"]) < 1e-4
    assert geodesic.errors["off the exact curve"] < 1e-2
    assert "collocation" in geodesic.how


def test_each_metric_calls_its_own_curve_the_shortest(valley):
    rows = [row for row in valley.table.rows if row.kind != "exact"]
    assert min(rows, key=lambda row: row.lengths["euclidean"].value).line == "straight line"
    assert min(rows, key=lambda row: row.lengths["density"].value).line == "geodesic"
    assert min(rows, key=lambda row: row.barrier.value).line == "path, static"


def test_distances_are_a_distance(valley):
    apart = valley.table.distances
    assert bool((apart == apart.T).all())
    assert bool((apart.diagonal() == 0).all())
    names = [row.line for row in valley.table.rows]
    k, m = names.index("straight line"), names.index("exact path")
    assert float(apart[k, m]) == pytest.approx(4.406863, abs=1e-2)  # the middle mode below the line


def test_a_network_has_energies_relative_to_the_start_and_no_errors(ring):
    row = ring.table.row("straight line")
    assert row.lowest.how == "relative to the start"
    assert row.lowest.value == pytest.approx(-row.barrier.value)
    assert row.errors == {}


def test_a_networks_barriers_are_integrals_that_more_points_do_not_move(ring):
    full = Bench(ring.state).ask()
    place, table = full.place, full.table
    ground = ground_of(place.subject.model, table.sigma)
    for answer in full.answers:
        for line in answer.lines:
            fine = Curve.through(line.points).resample(801)
            dense = line_integral(fine, ground.force(fine.points))
            barrier = table.row(line.name).barrier
            span = float(dense.max() - dense.min())
            assert abs(barrier.value - float(dense.max())) <= 0.02 * span + 3 * barrier.error, line.name
            assert barrier.error <= 0.05 * span + 1e-6, line.name


def test_numbers_have_names_that_can_be_recorded(valley):
    numbers = valley.numbers()
    assert numbers["straight_line.length_euclidean"].value == pytest.approx(6.0, abs=1e-6)
    assert numbers["path_static.barrier_error"].value >= 0
    assert all(name.replace(".", "_").isidentifier() for name in numbers)
    assert numbers["model_calls"].value > 100


def test_an_unknown_row_is_a_key_error(valley):
    with pytest.raises(KeyError):
        valley.table.row("shortcut")


def test_an_empty_table_is_empty():
    assert Comparison((), torch.zeros(0, 0), 0.0, "", "score", 0).numbers() == {}


def test_the_badge_takes_the_worst_of_all(valley, ring):
    frame = valley.place.subject.frame
    trust = trust_of(valley.answers, valley.state, frame)
    assert trust.converged
    assert trust.residual == max(said.report.residual for said in valley.answers)
    assert trust.calls == sum(said.report.model_calls for said in valley.answers)
    assert "coarse" not in str(trust)
    assert "coarse" in str(trust_of(ring.answers, ring.state, ring.place.subject.frame))
    failed = replace(valley.answers[0].report, status=Status.MAX_ITERATIONS)
    mixed = trust_of((replace(valley.answers[0], report=failed), *valley.answers[1:]), valley.state, frame)
    assert mixed.converged is False
    assert mixed.failed == ("paths",)
    assert "▲ iteration limit reached (paths)" in str(mixed)
    nothing = trust_of((), BenchState(), valley.place.subject.frame)
    assert nothing.converged is None
    assert "nothing solved" in str(nothing)


def test_citations_hold_the_methods_used_and_no_others(valley):
    text = cite(valley.answers, valley.state)
    assert "e2007simplified" in text
    assert "sorrenson2024learning" in text
    assert "rygaard2025georce" in text
    assert "azeglio2025inside" not in text
    assert "floros2025anisotropy" not in text  # a formula has no architecture
    assert text.count("@") == text.count("\n}")
    assert "kamkari2024geometric" in cite((), valley.state.but(background="dimension"))
    assert cite(()) == ""


def test_every_method_has_an_entry_of_balanced_braces():
    for keys in METHODS.values():
        for key in keys:
            entry = ENTRIES[key]
            assert entry.startswith(("@article{" + key, "@inproceedings{" + key, "@misc{" + key))
            assert entry.count("{") == entry.count("}")
            assert all(field in entry for field in ("title", "author", "year"))


def test_an_unknown_method_is_refused(valley):
    with pytest.raises(SettingError, match="magic"):
        cite([replace(valley.answers[0], methods=("magic",))])


def test_numbers_are_finite(valley):
    assert all(math.isfinite(number.value) for number in valley.numbers().values())
