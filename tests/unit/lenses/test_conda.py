"""The lens: what a fit says of itself, the curves it draws, and latents that stay in their file."""

import threading

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.oracles import conda as oracle
from workbench.conda.consistency import linear_r2
from workbench.conda.context import make_context
from workbench.errors import ConvergenceWarning, SettingError, ShapeError
from workbench.lenses.conda import CondaFit, TraceResult, fit_conda, trace
from workbench.report import Status
from workbench.storage import load_result, save_result

SMALL = {"iterations": 120, "batch": 64, "rate": 5e-3, "restarts": 2}
PERIOD = 30.0


@pytest.fixture(scope="module")
def turning():
    torch.set_default_dtype(torch.float64)
    latents, angle = oracle.ring(count=300, dim=40, seed=0, period=PERIOD)
    context = make_context(300, torch.stack([angle.cos(), angle.sin()], dim=1))
    return fit_conda(latents, context, positives="time", dim=2, **SMALL), latents, angle


def test_a_fit_says_that_it_has_learnt(turning):
    fit, _, angle = turning
    assert fit.report.status is Status.CONVERGED
    assert fit.control_gap > 1.0
    assert fit.bits > 1.0
    assert fit.topology.folded is False
    assert linear_r2(fit.points, torch.stack([angle.cos(), angle.sin()], dim=1)) > 0.98
    assert "bits on held-out frames" in fit.report.message


def test_frames_without_order_teach_nothing():
    latents = torch.randn(300, 5)
    with pytest.warns(ConvergenceWarning):
        fit = fit_conda(latents, dim=2, **SMALL)
    assert fit.report.status is Status.MAX_ITERATIONS
    assert any("nothing was learnt" in text for text in fit.report.warnings)


def test_a_trajectory_that_is_too_short_for_a_pair_is_named_in_one_sentence():
    groups = torch.cat([torch.zeros(90, dtype=torch.long), torch.ones(6, dtype=torch.long)])
    latents = torch.randn(96, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(0)
    options = dict(iterations=20, restarts=1, batch=32, positives="time", topology=False)
    context = make_context(96, groups=groups)
    short = "too short for a pair at offset=8: 1 of 2 trajectories"
    assert any(short in text for text in fit_conda(latents, context, offset=8, **options).report.warnings)
    fitting = fit_conda(latents, context, offset=4, **options).report.warnings
    assert not any("too short" in text for text in fitting)


def test_a_spline_through_observed_frames_follows_the_ring(turning):
    fit, latents, angle = turning
    rows = torch.arange(60, 121, 4)
    path = trace(fit, rows, steps=61)
    assert_close(path.times[[0, -1]], torch.tensor([60.0, 120.0]))
    true = torch.stack(
        [torch.cos(2 * torch.pi * path.times / PERIOD), torch.sin(2 * torch.pi * path.times / PERIOD)], 1
    )
    assert_close(path.variables, true, rtol=0, atol=0.05)
    plane = torch.linalg.lstsq(torch.stack([angle.cos(), angle.sin()], dim=1), latents).solution
    wrong = (path.latents - true @ plane).norm(dim=1).mean()
    cut = (path.lerp_z - true @ plane).norm(dim=1).mean()
    assert wrong < 0.7 * cut  # half of which is the noise of single frames
    assert path.lifted.norm_ratio.min() > 0.9
    assert path.bending < 0.2


def test_a_closed_spline_comes_back_to_its_start(turning):
    fit, _, _ = turning
    path = trace(fit, list(range(0, 30, 3)), period=PERIOD, steps=90)
    gap = (path.points[-1] - path.points[0]).norm()
    assert gap < 2 * path.length / 89


def test_a_line_ends_at_its_anchors_with_its_baselines(turning):
    fit, latents, _ = turning
    path = trace(fit, [0, 8], kind="line", steps=9, weights="nearest")
    assert_close(path.points[[0, -1]], fit.points[[0, 8]])
    assert_close(path.latents[[0, -1]], latents[[0, 8]])
    assert_close(path.lerp_z, torch.lerp(latents[0], latents[8], torch.linspace(0, 1, 9)[:, None]))
    assert_close(path.slerp_z[[0, -1]], latents[[0, 8]])
    size = latents[[0, 8]].norm(dim=1).min()
    assert path.slerp_z.norm(dim=1).min() > 0.99 * size > path.lerp_z.norm(dim=1).min()
    assert path.bending < 1e-12


def test_a_forecast_goes_on_around_the_ring(turning):
    fit, _, _ = turning
    path = trace(fit, [150], kind="forecast", steps=60)
    assert_close(path.times, torch.arange(151.0, 211.0))
    wrong = (path.points - fit.points[151:211]).norm(dim=1)
    assert wrong.max() < 0.25 * (fit.points - fit.points.mean(dim=0)).norm(dim=1).mean()
    assert path.lerp_z is None


def test_a_shift_moves_the_phase(turning):
    fit, _, _ = turning
    goal = torch.tensor([-1.0, 0.0])
    path = trace(fit, [0], kind="shift", after=goal, steps=5)
    assert_close(path.points[0], fit.points[0])
    assert_close(path.variables[-1], goal, rtol=0, atol=0.2)


def test_a_shift_by_a_whole_number_reads_the_variable_where_there_are_no_labels(turning):
    _, latents, _ = turning
    known = torch.linspace(0.0, 4.0, len(latents))
    fit = fit_conda(latents, known, positives="time", dim=2, topology=False, **SMALL)
    path, same = (trace(fit, [30], kind="shift", after=goal) for goal in (2, 2.0))
    assert torch.equal(path.points, same.points)
    assert path.provenance.settings["after"] == 2


def test_a_curve_away_from_data_turns_the_light_off(turning):
    fit, _, _ = turning
    center = fit.points.mean(dim=0)
    path = trace(fit, torch.stack([fit.points[0], center]), kind="line", steps=5)
    assert path.lifted.off_support[-1]
    assert "usual spacings" in path.report.warnings[0]


def test_latents_in_a_file_give_the_same_fit_and_stay_there(turning, tmp_path):
    fit, latents, _ = turning
    path = tmp_path / "latents.npy"
    np.save(path, latents.numpy())
    again = fit_conda(path, fit.context, positives="time", dim=2, dtype=torch.float64, **SMALL)
    assert again.latents is None
    assert again.source == str(path)
    assert torch.equal(again.points, fit.points)
    assert_close(trace(again, [0, 5, 9]).latents, trace(fit, [0, 5, 9]).latents)


def test_further_latents_are_embedded_as_the_frames_were(turning):
    fit, latents, _ = turning
    assert_close(fit.embed(latents[10:20]), fit.points[10:20])
    assert_close(fit.embed(latents[:1]), fit.points[:1])
    with pytest.raises(ShapeError, match="latents of dimension 3"):
        fit.embed(torch.zeros(4, 3))


def test_fit_and_curve_come_back_from_a_file(turning, tmp_path):
    fit, _, _ = turning
    back = load_result(save_result(fit, tmp_path / "fit"), CondaFit)
    path = trace(back, [0, 5, 9])
    again = load_result(save_result(path, tmp_path / "path"), TraceResult)
    assert torch.equal(again.latents, trace(fit, [0, 5, 9]).latents)


def test_progress_is_told_and_a_cancelled_fit_says_so():
    latents, _ = oracle.ring(count=200, dim=4, seed=0)
    told, stop = [], threading.Event()

    def progress(share: float, text: str) -> None:
        told.append(share)
        if share > 0.3:
            stop.set()

    fit = fit_conda(latents, dim=2, progress=progress, cancel=stop, **SMALL)
    assert fit.report.status is Status.CANCELLED
    assert told == sorted(told)
    assert 0.3 < told[-1] < 1


@pytest.mark.parametrize(
    ("anchors", "options", "error", "says"),
    [
        ([0, 300], {}, SettingError, "rows from 0 to 299"),
        ([0], {}, SettingError, "1 anchors for a spline"),
        ([0, 1, 2], {"kind": "line"}, SettingError, "3 anchors for a line"),
        (torch.zeros(3, 3), {}, ShapeError, "anchors of shape"),
        (torch.zeros(3, 2), {}, SettingError, "two anchors at the same point"),
        ([0], {"kind": "shift"}, SettingError, "a shift without a goal"),
        ([0, 9], {"kind": "shift", "after": torch.zeros(2)}, SettingError, "a shift of 2 anchors"),
        ([0], {"kind": "shift", "after": torch.full((2,), torch.nan)}, SettingError, "the value"),
        ([True, False], {"kind": "line"}, SettingError, "anchors of dtype torch.bool"),
        ([0], {"kind": "forecast"}, SettingError, "the number 1 of its run"),
        ([5, 9], {"k": 301}, SettingError, "k=301 for 300 frames"),
        ([5, 9], {"kind": "orbit"}, SettingError, "kind='orbit'"),
        ([5, 9], {"steps": 1}, SettingError, "steps=1"),
    ],
)
def test_a_curve_that_cannot_be_drawn_is_refused_in_one_sentence(turning, anchors, options, error, says):
    with pytest.raises(error, match=says):
        trace(turning[0], anchors, **options)


@pytest.mark.parametrize(
    ("context", "settings", "error", "says"),
    [
        (torch.zeros(9), {}, ShapeError, "9 entries"),
        (torch.zeros(40, dtype=torch.long), {}, SettingError, "constant labels"),
        (None, {"offset": 40}, SettingError, "offset=40 where the longest trajectory has 40 frames"),
        (None, {"offset": ()}, SettingError, "offset=\\(\\)"),
        (None, {"temprature": 1.0}, SettingError, "the setting 'temprature'"),
        (make_context(9), {}, ShapeError, "a context of 9 frames"),
    ],
)
def test_a_fit_that_cannot_be_is_refused_in_one_sentence(context, settings, error, says):
    with pytest.raises(error, match=says):
        fit_conda(torch.randn(40, 3), context, **settings)
