"""The filmstrip at equal metric steps, and its files."""

import builtins

import imageio_ffmpeg
import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from workbench.bench import Bench, BenchState, Line, export_filmstrip, filmstrip_of, strip_of
from workbench.errors import MissingExtra, SettingError, ShapeError
from workbench.metrics import Chart, Conformal, Euclidean


def _line(points):
    return Line("straight line", "straight", points, 0.0)


U = torch.linspace(0.0, 1.0, 33, dtype=torch.float64)[:, None]
STRAIGHT = _line(U * torch.tensor([3.0, 4.0], dtype=torch.float64))


def test_equal_steps_of_the_plain_metric_are_equal():
    strip = filmstrip_of(STRAIGHT, Euclidean(Chart("plane", 2)), frames=6)
    assert_close(strip.steps, torch.full((5,), 1.0))
    assert_close(strip.plain, torch.full((5,), 1.0))
    assert_close(strip.points[[0, -1]], STRAIGHT.points[[0, -1]], rtol=0.0, atol=0.0)


def test_equal_steps_of_a_metric_follow_its_integral():
    # g = exp(2 x) I along y = 0: length e^x - 1, so frames lie at log(1 + k (e - 1) / n)
    line = _line(torch.stack([torch.linspace(0.0, 1.0, 65), torch.zeros(65)], dim=-1))
    metric = Conformal(lambda x: x[..., 0], Chart("plane", 2))
    strip = filmstrip_of(line, metric, frames=5)
    wanted = torch.log(1 + torch.linspace(0, 1, 5) * (np.e - 1))
    assert_close(strip.points[:, 0], wanted, rtol=0.0, atol=2e-3)
    assert strip.evenness == pytest.approx(1.0, abs=1e-2)
    assert bool((strip.plain.diff() < 0).all())


def test_fewer_than_two_frames_are_refused():
    with pytest.raises(SettingError, match="frames=1"):
        filmstrip_of(STRAIGHT, Euclidean(Chart("plane", 2)), frames=1)


def test_the_strip_of_a_view_is_along_the_geodesic(valley):
    strip = strip_of(valley, frames=7)
    assert strip.line == "geodesic"
    assert strip.metric.startswith("density")
    assert strip.evenness == pytest.approx(1.0, abs=0.02)
    assert strip_of(valley, line="slerp", frames=3).line == "slerp"
    with pytest.raises(SettingError, match="one of"):
        strip_of(valley, line="shortcut")


@pytest.fixture(scope="module")
def pictures():
    torch.set_default_dtype(torch.float64)
    bench = Bench(BenchState(model="digits", lenses="paths"))
    start, end = bench.place.subject.ends()
    points = torch.lerp(start, end, torch.linspace(0, 1, 9, dtype=start.dtype)[:, None])
    return filmstrip_of(_line(points), Euclidean(Chart("pixels", 64)), frames=5), bench.place.subject


@pytest.mark.parametrize("ending", [".png", ".gif", ".mp4"])
def test_each_format_can_be_read_back(pictures, tmp_path, ending):
    strip, subject = pictures
    path = export_filmstrip(strip, subject, tmp_path / f"strip{ending}")
    if ending == ".png":
        with Image.open(path) as picture:
            assert picture.size == (5 * 32 + 4 * 8, 32 + 8 + 48)
    elif ending == ".gif":
        with Image.open(path) as film:
            assert film.n_frames == 8  # there and back
            assert film.size == (32, 32)
    else:
        frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(path))
        assert frames == 8
        assert seconds == pytest.approx(2.0, abs=0.1)


def test_a_film_without_its_packages_names_the_extra(pictures, tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments, **options):
        if name.startswith("imageio"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"\[movies\]"):
        export_filmstrip(*pictures, tmp_path / "strip.mp4")


def test_other_files_are_refused(pictures, tmp_path):
    with pytest.raises(SettingError, match="ending"):
        export_filmstrip(*pictures, tmp_path / "strip.bmp")
    with pytest.raises(SettingError, match="cannot be written"):
        export_filmstrip(*pictures, tmp_path / "none" / "strip.png")


def test_points_have_no_film(valley, tmp_path):
    with pytest.raises(ShapeError, match="pictures"):
        export_filmstrip(strip_of(valley, frames=3), valley.place.subject, tmp_path / "a.png")
