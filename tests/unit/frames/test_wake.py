"""The lattice flow: each step against the plain scheme, its frequency against experiment, its sentences."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.oracles import wake as oracle
from workbench.errors import SettingError, ShapeError
from workbench.frames.wake import CRITICAL_REYNOLDS, WakeGrid, WakeResult, measure_shedding, simulate_wake
from workbench.report import Status
from workbench.storage import load_result, save_result

SMALL = WakeGrid(columns=60, rows=31, diameter=5.0)  # no symmetry: the probe sees the cylinder at once


@pytest.mark.parametrize("reynolds", [30.0, 100.0])
def test_series_of_the_probe_is_that_of_the_plain_scheme(reynolds: float):
    found = simulate_wake([reynolds, 50.0], grid=SMALL, steps=120, dtype=torch.float64)
    expected = oracle.run(60, 31, 5.0, 0.1, reynolds, 120)
    assert np.abs(expected).max() > 1e-4
    np.testing.assert_allclose(found.probe[0].numpy(), expected, rtol=1e-9, atol=1e-12)


def test_single_precision_follows_double():
    probes = [
        simulate_wake([100.0], grid=SMALL, steps=400, dtype=dtype).probe[0].double()
        for dtype in (torch.float32, torch.float64)
    ]
    torch.testing.assert_close(probes[0], probes[1], rtol=0, atol=1e-4)


def test_wake_sheds_at_the_known_frequency_and_is_steady_below_onset():
    found = measure_shedding(simulate_wake([100.0, 40.0], steps=11_000))
    low, high = oracle.STROUHAL_BAND
    assert low < float(found.strouhal[0]) < high
    assert float(found.strouhal[0]) > oracle.strouhal(100.0)  # the sides raise it
    assert float(found.rms[0]) == pytest.approx(0.55, abs=0.03)
    assert found.steady == (False, True)
    assert CRITICAL_REYNOLDS == oracle.CRITICAL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grid", "steps", "strouhal", "rms"),
    [
        (WakeGrid(180, 90, 9.0), 11_000, 0.1725, 0.55),
        (WakeGrid(220, 110, 11.0), 12_000, 0.1760, 0.56),
        (WakeGrid(200, 160, 8.0), 10_000, 0.1675, 0.58),
    ],
    ids=["coarse", "fine", "wide"],
)
def test_numbers_of_the_table(grid: WakeGrid, steps: int, strouhal: float, rms: float):
    found = measure_shedding(simulate_wake([100.0], grid=grid, steps=steps))
    assert float(found.strouhal[0]) == pytest.approx(strouhal, abs=0.002)
    assert float(found.rms[0]) == pytest.approx(rms, abs=0.015)


@pytest.mark.slow
def test_frequency_rises_with_the_reynolds_number():
    found = measure_shedding(simulate_wake([60.0, 100.0, 140.0], steps=13_000))
    assert list(found.strouhal) == sorted(found.strouhal)
    for reynolds, value in zip((60.0, 100.0, 140.0), found.strouhal, strict=True):
        assert 0.0 < float(value) - oracle.strouhal(reynolds) < 0.02


def test_spectrum_reads_a_known_frequency():
    steps = torch.arange(4000)
    series = 0.5 * torch.sin(2 * torch.pi * steps / 521.3) + 0.2
    plain = simulate_wake([100.0], grid=SMALL, steps=20)
    found = measure_shedding(replace(plain, probe=series[None]), padding=16)
    assert float(found.period[0]) == pytest.approx(521.3, rel=0.01)
    assert float(found.strouhal[0]) == pytest.approx(5.0 / 0.1 / 521.3, rel=0.01)
    assert found.steady == (False,)


def test_pictures_show_the_stream_from_left_to_right():
    found = simulate_wake([100.0], grid=SMALL, steps=201, frames_from=100, every=50)
    assert found.frames.shape == (1, 3, 10, 17)
    assert found.times.tolist() == [100.0, 150.0, 200.0]
    last = found.frames[0, -1]
    assert float(last[:, :6].min()) < 0.4 < float(last[:, -1].min())  # the cylinder stands at the left
    assert float(last[0].mean()) == pytest.approx(1.0, abs=0.25)
    spin = simulate_wake([100.0], grid=SMALL, steps=201, frames_from=200, shows="vorticity").frames[0, 0]
    assert float(spin[:5].mean()) * float(spin[5:].mean()) < 0  # the two shear layers turn against each other


def test_flows_of_a_batch_do_not_meet():
    both = simulate_wake([80.0, 120.0], grid=SMALL, steps=150, frames_from=149)
    alone = simulate_wake([120.0], grid=SMALL, steps=150, frames_from=149)
    torch.testing.assert_close(both.probe[1], alone.probe[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(both.frames[1], alone.frames[0], rtol=0, atol=1e-5)


def test_result_is_saved_and_can_be_cancelled(tmp_path):
    stop = threading.Event()
    found = simulate_wake([100.0], grid=SMALL, steps=2000, progress=lambda f, m: stop.set(), cancel=stop)
    assert found.report.status is Status.CANCELLED
    assert found.probe.shape == (1, 500)
    again = load_result(save_result(found, tmp_path / "wake"), WakeResult)
    assert torch.equal(again.probe, found.probe)
    assert again.grid == SMALL


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reynolds": []}, r"^got reynolds=\[\]; expected a sequence of Reynolds numbers"),
        ({"reynolds": [-5.0]}, "^got reynolds=-5.0; expected a finite number and above 0"),
        (
            {"reynolds": [100_000.0]},
            "^got Reynolds number 100000 on a cylinder of 9 nodes; expected at most 540",
        ),
        ({"grid": WakeGrid(rows=10)}, "^got rows=10; expected a whole number, at least 18"),
        (
            {"grid": WakeGrid(speed=0.5)},
            "^got speed=0.5; expected a finite number and above 0 and at most 0.2",
        ),
        ({"steps": 0}, "^got steps=0; expected"),
        ({"shows": "pressure"}, "^got shows='pressure'; expected one of speed, vorticity"),
        ({"dtype": torch.float16}, "^got dtype=torch.float16; expected torch.float32 or torch.float64"),
    ],
    ids=["none", "negative", "fast", "narrow", "compressible", "steps", "shows", "dtype"],
)
def test_bad_settings_are_one_sentence(options: dict, message: str):
    with pytest.raises(SettingError, match=message):
        simulate_wake(**{"reynolds": [100.0], **options})


def test_short_series_has_no_frequency():
    with pytest.raises(ShapeError, match=r"^got a window of 10 values; expected at least 16; try more steps"):
        measure_shedding(simulate_wake([100.0], grid=SMALL, steps=20))
