"""The Fisher lens: every geodesic found, certified; curves to compare with; fields with their refusals."""

import math
import threading
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import fisher as oracle
from tests.unit.geodesics.cases import SPHERE, TORUS, natural
from workbench.curves import Curve
from workbench.embeddings import Slice
from workbench.errors import ConvergenceWarning, SettingError, ShapeError
from workbench.fields import Window
from workbench.geodesics import NoCurveLeft, relax, relax_levels, torus, torus_distances
from workbench.geodesics.gallery import open_space
from workbench.geodesics.known import two_gaussian_samples
from workbench.geodesics.results import distinct_curves
from workbench.lenses.fisher import (
    GeodesicResult,
    find_frozen_metric_curve,
    find_geodesic,
    measure_metric_field,
    on_section,
)
from workbench.memory import PROBE
from workbench.metrics import Chart, Euclidean, MatrixMetric, Pullback, families, half_plane, hessian
from workbench.report import Status
from workbench.storage import load_result, save_result


def point(*values):
    return torch.tensor(values)


def test_half_plane_distance_with_certificate():
    found = find_geodesic(half_plane(), point(0.0, 1.0), point(3.0, 0.5))
    exact = oracle.half_plane_distance((0.0, 1.0), (3.0, 0.5))
    best = found.shortest
    assert best.length.value == pytest.approx(exact, rel=1e-8)
    assert abs(best.length.value - exact) <= 3.0 * best.length.error + 1e-8
    assert best.index == 0
    assert best.gap < 1e-6
    assert best.speed_spread < 1e-3
    assert found.report.status is Status.CONVERGED
    assert len(found.geodesics) == 1  # negative curvature: only one
    assert torch.equal(best.curve.points[0], point(0.0, 1.0))
    assert torch.equal(best.curve.points[-1], point(3.0, 0.5))
    assert best.curve.nodes == 33
    assert found.chart.axes == ("x", "y")


def test_the_outer_equator_is_found_named_a_saddle_and_left():
    found = find_geodesic(TORUS, point(0.0, 0.0), point(0.0, 2.5), starts=1)
    assert [g.index for g in found.geodesics] == [0, 0, 1]
    lengths = [g.length.value for g in found.geodesics]
    assert lengths == pytest.approx([6.791775610664, 6.791775610664, 7.5], rel=1e-7)
    assert "off the saddle of straight" in found.geodesics[0].origin
    first, second = (g.curve.points for g in found.geodesics[:2])
    assert_close(first[:, 0], -second[:, 0], rtol=0.0, atol=1e-5)  # over the top and under the bottom
    assert any("3 different stationary curves" in w for w in found.report.warnings)


@pytest.mark.parametrize("seed", [0, 1])
def test_burg_from_bent_starts(seed):
    found = find_geodesic(
        hessian.burg(), point(0.2, 3.0), point(2.0, 0.5), generator=torch.Generator().manual_seed(seed)
    )
    assert found.distance.value == pytest.approx(2.917584635627, rel=1e-9)
    names = [r.name for r in found.references]
    assert names == [
        "e-geodesic: straight in natural coordinates",
        "m-geodesic: straight in dual coordinates",
    ]
    assert all(r.length.value > 3.2 for r in found.references)


def test_the_frozen_metric_has_its_own_name_and_fails_its_certificate():
    found = find_frozen_metric_curve(hessian.burg(), point(0.2, 3.0), point(2.0, 0.5))
    dual = found.references[1]
    assert found.kind == "frozen metric, not a geodesic"
    assert found.distance.value == pytest.approx(dual.length.value, rel=1e-5)
    assert_close(found.shortest.curve.points, dual.curve.points, rtol=0.0, atol=3e-3)
    assert found.shortest.gap > 0.1
    assert any("not a geodesic" in w for w in found.report.warnings)


def test_same_seed_same_result_and_saved_results_come_back(tmp_path):
    results = [
        find_geodesic(
            SPHERE, point(1.0, 0.0), point(1.0, 1.5), generator=torch.Generator().manual_seed(7), levels=2
        )
        for _ in range(2)
    ]
    assert torch.equal(results[0].shortest.curve.points, results[1].shortest.curve.points)
    again = load_result(save_result(results[0], tmp_path / "geodesic"), GeodesicResult)
    assert torch.equal(again.shortest.curve.points, results[0].shortest.curve.points)
    assert again.distance == results[0].distance
    assert again.provenance.seed == 7


def test_via_points_and_given_curves():
    annulus = MatrixMetric(
        lambda x: torch.eye(2).expand(*x.shape, 2), Chart("plane", 2), "punctured plane", 0.0,
        lambda x: x.square().sum(dim=-1) > 0.25,
    )  # fmt: skip
    with pytest.raises(SettingError, match="straight start that leaves the domain"):
        find_geodesic(annulus, point(-1.0, 0.0), point(1.0, 0.0), starts=1)
    with pytest.raises(SettingError, match=r"leaves the domain of punctured plane at \(-0\.\d+, 0\.\d+\)"):
        find_geodesic(annulus, point(-1.0, 0.0), point(1.0, 0.0))  # a bend fits, until it is refined
    given = Curve.through(
        torch.stack((torch.linspace(0.0, 1.0, 9), torch.linspace(0.0, 1.0, 9) ** 2 + 1.0), dim=1)
    )
    ends = given.points[0], given.points[-1]
    found = find_geodesic(half_plane(), *ends, init=[given], starts=1)
    assert found.distance.value == pytest.approx(
        oracle.half_plane_distance(ends[0].numpy(), ends[1].numpy()), rel=1e-8
    )
    lifted = find_geodesic(half_plane(), *ends, via=point(0.3, 2.0), starts=1)
    assert lifted.distance.value == pytest.approx(found.distance.value, rel=1e-8)


def holed():
    """A plane whose metric loses its sign inside a disc about the origin, though no domain says so."""
    return MatrixMetric(
        lambda x: torch.eye(2).to(x) / (x.square().sum(dim=-1) - 0.25)[..., None, None],
        Chart("plane", 2),
        "holed plane",
    )


def test_a_start_that_leaves_the_metric_is_dropped_counted_and_named():
    x = torch.linspace(-1.0, 1.0, 9)
    over = Curve.through(torch.stack((x, 1.0 - x.square()), dim=1))
    ends = point(-1.0, 0.0), point(1.0, 0.0)
    with pytest.raises(SettingError, match=r"holed plane that is .*at \(-0\.\d+, 0\)"):
        find_geodesic(holed(), *ends, starts=1)
    found = find_geodesic(holed(), *ends, init=[over], starts=1, nodes=17, levels=2)
    assert found.dropped == ("straight",)
    assert [g.origin for g in found.geodesics] == ["given 1"]
    assert found.shortest.index == 0
    said = "1 of 2 starts left where holed plane is positive definite, and was dropped: straight"
    assert said in found.report.warnings


def test_a_start_outside_the_domain_is_dropped_where_another_is_inside():
    x = torch.linspace(-1.0, 1.0, 9)
    over = Curve.through(torch.stack((x, 1.0 - x.square()), dim=1))
    ends = point(-1.0, 0.0), point(1.0, 0.0)
    fenced = replace(holed(), domain=lambda x: x.square().sum(dim=-1) > 0.25)
    found = find_geodesic(fenced, *ends, init=[over], starts=1, nodes=17, levels=2)
    assert found.dropped == ("straight",)
    with pytest.raises(SettingError, match="straight start that leaves the domain of holed plane at"):
        find_geodesic(fenced, *ends, starts=1)


def test_a_start_that_is_lost_on_a_finer_level_leaves_the_others_their_lengths():
    """The spline between coarse nodes may leave where the nodes were inside; the lengths stay the others'."""
    thin = MatrixMetric(
        lambda x: torch.eye(2).to(x).expand(*x.shape, 2), Chart("plane", 2), "fenced plane", 0.0,
        lambda x: ~((x[..., 0] - 0.28125).abs() < 1e-6) | (x[..., 1] <= 1e-9),
    )  # fmt: skip
    bent = torch.linspace(0.0, 1.0, 9)
    starts = torch.stack(
        (
            torch.stack((bent, 0.1 * torch.sin(math.pi * bent)), dim=1),
            torch.stack((bent, torch.zeros(9)), dim=1),
        )
    )
    found = relax_levels(thin, starts, levels=2, max_iterations=0, drop=True)
    assert found.kept.tolist() == [1]
    assert found.levels.shape == (2, 1)
    assert_close(found.length, torch.ones(1))
    with pytest.raises(NoCurveLeft, match="fenced plane") as left:
        relax_levels(thin, starts[:1], levels=2, max_iterations=0, drop=True)
    assert left.value.evaluations == 8  # those of the coarse level


def test_curves_that_are_dropped_have_cost_their_evaluations(monkeypatch):
    x = torch.linspace(-1.0, 1.0, 9)
    curves = torch.stack((torch.stack((x, 0.0 * x), dim=1), torch.stack((x, 1.0 - x.square()), dim=1)))
    assert relax(holed(), curves, max_iterations=0, drop=True).evaluations == 2 * 8
    with pytest.raises(NoCurveLeft) as left:
        relax(holed(), curves[:1], max_iterations=0, drop=True)
    assert left.value.evaluations == 8

    def lost(metric, points, **options):
        if len(found) == 1:
            found.append(NoCurveLeft("all of them"))
            found[-1].evaluations = 1000
            raise found[-1]
        found.append(relax_levels(metric, points, **options))
        return found[-1]

    found = []
    monkeypatch.setattr("workbench.lenses.fisher.relax_levels", lost)
    report = find_geodesic(TORUS, point(0.0, 0.0), point(0.0, 2.5), starts=1, levels=1).report
    assert report.model_calls == round((found[0].evaluations + 1000) * TORUS.calls) > 0


def test_a_shorter_curve_without_a_certificate_comes_behind():
    sure = find_geodesic(half_plane(), point(0.0, 1.0), point(3.0, 0.5), starts=1, levels=1, nodes=9).shortest
    short = replace(sure, length=replace(sure.length, value=0.5 * sure.length.value), gap=1.3)
    assert [g.gap for g in distinct_curves((short, sure))] == [sure.gap, 1.3]
    assert distinct_curves((short,)) == (short,)


def test_an_energy_far_above_the_squared_length_is_said():
    steep = MatrixMetric(
        lambda x: torch.eye(2) * torch.exp(10.0 * x[..., :1, None]), Chart("plane", 2), "steep"
    )
    found = find_geodesic(steep, point(0.0, 0.0), point(1.0, 0.0), starts=1, levels=1, nodes=5)
    assert found.shortest.gap > 0.1
    assert any("not certified" in w for w in found.report.warnings)


def test_progress_and_cancel():
    said = []
    stop = threading.Event()
    stop.set()
    found = find_geodesic(
        SPHERE, point(1.0, 0.0), point(1.0, 1.5), levels=1, progress=lambda s, m: said.append(s), cancel=stop
    )
    assert found.report.status is Status.CANCELLED
    assert said[0] < said[-1] == 1.0


def test_a_solve_that_did_not_converge_says_so():
    with pytest.warns(ConvergenceWarning):
        found = find_geodesic(
            half_plane(), point(0.0, 0.1), point(3.0, 0.1), starts=1, max_iterations=2, levels=1
        )
    assert found.report.status is Status.MAX_ITERATIONS
    assert not found.shortest.converged
    assert math.isfinite(found.distance.value)


def test_what_cannot_be_asked():
    flat = Euclidean(Chart("plane", 2))
    with pytest.raises(SettingError, match="equal ends"):
        find_geodesic(flat, point(0.0, 1.0), point(0.0, 1.0))
    with pytest.raises(ShapeError, match="start"):
        find_geodesic(flat, point(0.0, 1.0, 2.0), point(0.0, 1.0))
    with pytest.raises(ShapeError, match="non-finite"):
        find_geodesic(flat, point(0.0, math.nan), point(0.0, 1.0))
    with pytest.raises(SettingError, match=r"\(0, -1\) outside the domain of hyperbolic"):
        find_geodesic(half_plane(), point(0.0, 1.0), point(0.0, -1.0))
    with pytest.raises(SettingError, match="20 dimensions"):
        find_geodesic(
            MatrixMetric(lambda x: torch.eye(20).expand(*x.shape, 20), Chart("many", 20)),
            torch.zeros(20),
            torch.ones(20),
        )


def test_field_of_the_half_plane_in_one_batch():
    field = measure_metric_field(
        half_plane(), Window((-1.0, 1.0), (-0.5, 2.0)), columns=8, rows=11, residual=True
    )
    y = torch.linspace(-0.5, 2.0, 11)
    assert field.matrices.shape == (11, 8, 2, 2)
    assert bool((field.indefinite == (y <= 0.0)[:, None]).all())
    assert_close(field.largest[4:, 0], y[4:] ** -2, rtol=1e-12, atol=0.0)
    assert_close(field.log_magnification[4:, 3], -2.0 * torch.log(y[4:]), rtol=1e-10, atol=1e-12)
    assert_close(field.condition[4:], torch.ones(7, 8), rtol=1e-12, atol=0.0)
    assert float(field.anisotropy[4:].max()) < 1e-12
    assert float(field.residual[4:].min()) > 0.1
    assert field.share_indefinite == pytest.approx(3 / 11)


def test_a_large_field_is_one_evaluation():
    calls = []

    def count(x):
        calls.append(len(x))
        return torch.diag_embed(x.square() + 1.0)

    field = measure_metric_field(
        MatrixMetric(count, Chart("plane", 2)), Window((0.0, 1.0), (0.0, 1.0)), columns=256, rows=256
    )
    assert calls == [65536]
    assert not bool(field.indefinite.any())


def test_a_large_field_of_a_model_is_one_evaluation_after_a_trial(monkeypatch):
    rows = []

    def turned(z):
        rows.append(len(z))
        return torch.sin(z)

    plane = Pullback(turned, Chart("plane", 2))
    square = Window((0.0, 1.0), (0.0, 1.0))
    field = measure_metric_field(plane, square, columns=256, rows=256)
    assert rows == [PROBE, 65536]
    assert field.report.model_calls == (PROBE + 65536) * plane.calls
    rows.clear()
    monkeypatch.setattr("workbench.memory.BUDGET", 2**19)
    parts = measure_metric_field(plane, square, columns=256, rows=256)
    assert len(rows) > 10
    assert_close(parts.matrices, field.matrices)


def test_a_field_that_is_cancelled_says_so_and_has_no_metric_where_it_did_not_get():
    stop, said = threading.Event(), []

    def tell(share, words):
        said.append(share)
        if share >= 0.5:
            stop.set()

    asked = replace(half_plane(), calls=3.0)
    field = measure_metric_field(
        asked, Window((0.0, 1.0), (1.0, 2.0)), columns=8, rows=8, chunk=16, progress=tell, cancel=stop
    )
    assert said == [0.0, 0.25, 0.5]
    assert field.report.status is Status.CANCELLED
    assert field.share_indefinite == 0.25
    assert field.report.model_calls == 48 * 3
    assert field.report.warnings == ("not measured at 25% of the points",)


def test_an_indefinite_metric_is_marked_in_a_field():
    saddle = MatrixMetric(
        lambda x: torch.diag_embed(torch.stack((torch.ones_like(x[..., 0]), x[..., 0]), dim=-1)),
        Chart("plane", 2),
    )
    field = measure_metric_field(saddle, Window((-1.0, 1.0), (0.0, 1.0)), columns=4, rows=2)
    assert_close(field.indefinite, torch.tensor([True, True, False, False]).expand(2, 4))
    assert bool(torch.isnan(field.log_magnification[:, :2]).all())


def test_a_plane_through_a_large_space():
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(50, 30, generator=generator) / 6.0
    large = Pullback(lambda z: torch.tanh(z @ weights.mT), Chart("latent", 30))
    directions = torch.linalg.qr(torch.randn(30, 2, generator=generator))[0].mT
    plane = on_section(large, Slice(torch.zeros(30), directions, "a plane", ("a", "b")))
    at = torch.tensor([0.4, -0.2])
    jacobian = torch.func.jacfwd(lambda c: torch.tanh((c @ directions) @ weights.mT))(at)
    assert_close(plane.matrix(at[None])[0], jacobian.mT @ jacobian, rtol=1e-10, atol=1e-13)
    field = measure_metric_field(plane, Window((-1.0, 1.0), (-1.0, 1.0)), columns=5, rows=5)
    assert not bool(field.indefinite.any())
    with pytest.raises(SettingError, match="on_section"):
        measure_metric_field(large, Window((-1.0, 1.0), (-1.0, 1.0)))


def test_natural_and_usual_coordinates_agree():
    usual = find_geodesic(families.gaussian(), point(0.0, 1.0), point(1.0, 2.0), starts=1)
    other = find_geodesic(
        hessian.gaussian_natural(), point(*natural(0.0, 1.0)), point(*natural(1.0, 2.0)), starts=1
    )
    assert usual.distance.value == pytest.approx(other.distance.value, rel=1e-8)


@pytest.mark.parametrize("case", torus_distances(), ids=lambda case: case.name)
def test_known_distances_on_the_torus(case):
    found = find_geodesic(torus(), case.start, case.end, starts=2, levels=3)
    assert found.distance.value == pytest.approx(case.distance, rel=1e-6)


def test_the_latents_of_two_gaussians_are_as_far_apart_as_their_samples():
    space = open_space("two_gaussians", width=0.5)
    found = find_geodesic(space.metric, space.start, space.end, starts=1)
    exact = two_gaussian_samples(torch.stack((space.start, space.end)), 0.5).diff(dim=0).norm()
    assert found.distance.value == pytest.approx(float(exact), rel=1e-6)
    steepest = space.metric.matrix(torch.zeros(1, 2))[0, 0, 0].sqrt()
    assert float(steepest) == pytest.approx(0.5 * math.exp(2.0), rel=1e-12)
    with pytest.raises(SettingError, match=r"width from 0\.4 to 2"):
        open_space("two_gaussians", width=0.1)
