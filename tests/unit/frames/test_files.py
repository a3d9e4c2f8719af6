"""Frames read back as written, whatever they lie in, and one sentence for everything that is wrong."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageFont

from workbench.errors import DataError, MissingExtra, SettingError
from workbench.frames.files import FrameSet, load_frames
from workbench.frames.glyphs import find_fonts, render_glyphs
from workbench.frames.recordings import GESTURES, load_recording


@pytest.fixture
def movie() -> np.ndarray:
    """Twelve frames of 6 x 8 bytes, a bright column that walks to the right."""
    frames = np.zeros((12, 6, 8), dtype=np.uint8)
    for i in range(12):
        frames[i, :, i % 8] = 255
    return frames


def expected(movie: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(movie.astype(np.float32)).flatten(1) / 127.5 - 1


def test_array_file_with_what_is_known(tmp_path: Path, movie: np.ndarray):
    np.savez(
        tmp_path / "movie.npz",
        frames=movie,
        times=np.arange(12) * 0.5,
        labels=np.array(["left", "right"] * 6),
        groups=np.repeat([3, 7], 6),
        variables=np.arange(12.0),
    )
    found = load_frames(tmp_path / "movie.npz")
    torch.testing.assert_close(found.points, expected(movie))
    assert found.shape == (1, 6, 8)
    assert found.classes == ("left", "right")
    assert found.times[-1] == 5.5
    assert found.groups.tolist() == [0] * 6 + [1] * 6
    context = found.context()
    assert context.variables is not None
    assert context.variables.shape == (12, 1)
    assert len(torch.unique(context.runs)) == 2
    some = found.at(torch.tensor([1, 4]))
    assert len(some) == 2
    assert some.times.tolist() == [0.5, 2.0]


@pytest.mark.parametrize("name", ["bare.npz", "bare.npy"])
def test_a_single_array_needs_no_name(tmp_path: Path, movie: np.ndarray, name: str):
    (np.savez if name.endswith("z") else np.save)(tmp_path / name, movie)
    found = load_frames(tmp_path / name, every=3, limit=2)
    torch.testing.assert_close(found.points, expected(movie)[[0, 3]])
    assert found.times.tolist() == [0.0, 3.0]


def test_colours_floats_and_flat_windows(tmp_path: Path):
    colour = np.full((2, 4, 4, 3), (30, 60, 90), dtype=np.uint8)
    np.save(tmp_path / "colour.npy", colour)
    assert torch.allclose(load_frames(tmp_path / "colour.npy").points, torch.tensor(60 / 127.5 - 1).float())
    np.save(tmp_path / "small.npy", np.linspace(-0.5, 0.9, 24).reshape(2, 3, 4))
    found = load_frames(tmp_path / "small.npy", dtype=torch.float64)
    assert float(found.points.max()) == pytest.approx(0.9)
    assert "as they are" in found.source
    np.save(tmp_path / "large.npy", np.linspace(10, 30, 24).reshape(2, 12))
    flat = load_frames(tmp_path / "large.npy")
    assert flat.shape == (12,)
    assert (float(flat.points.min()), float(flat.points.max())) == (-1.0, 1.0)
    assert "values 10 to 30" in flat.source


def test_folder_of_pictures_in_the_order_of_their_numbers(tmp_path: Path, movie: np.ndarray):
    for i, frame in enumerate(movie):
        Image.fromarray(frame).save(tmp_path / f"frame{i}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    found = load_frames(tmp_path)
    torch.testing.assert_close(found.points, expected(movie))
    half = load_frames(tmp_path, size=(3, 4))
    assert half.shape == (1, 3, 4)
    assert float(half.points.mean()) == pytest.approx(float(found.points.mean()), abs=0.05)


def test_video_has_its_times_in_seconds(tmp_path: Path, movie: np.ndarray):
    wide = np.kron(movie, np.ones((1, 4, 4), dtype=np.uint8))
    pictures = [Image.fromarray(frame) for frame in wide]
    pictures[0].save(tmp_path / "walk.gif", save_all=True, append_images=pictures[1:], duration=200, loop=0)
    found = load_frames(tmp_path / "walk.gif", size=(6, 8))
    assert len(found) == 12
    assert found.unit == "seconds"
    torch.testing.assert_close(found.times, torch.arange(12.0, dtype=torch.float64) * 0.2)
    assert float((found.points - expected(movie)).abs().mean()) < 0.15


def test_video_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "walk.mp4").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "imageio.v3", None)
    with pytest.raises(MissingExtra, match=r"package 'imageio'; expected the optional extra \[conda\]"):
        load_frames(tmp_path / "walk.mp4")


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, movie: np.ndarray):
    bad = movie.astype(np.float32)
    bad[7, 2, 2] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    np.savez(tmp_path / "short.npz", frames=movie, labels=np.arange(5))
    np.savez(tmp_path / "other.npz", pictures=movie, sounds=movie)
    np.save(tmp_path / "text.npy", np.array([["a", "b"]]))
    np.save(tmp_path / "first.npy", np.zeros((5, 3, 8, 8)))
    np.savez(tmp_path / "when.npz", frames=movie, times=np.array(["noon"] * 12))
    np.savez(tmp_path / "twice.npz", frames=movie, labels=np.zeros((12, 2), dtype=int))
    (tmp_path / "broken.npz").write_bytes(b"nothing")
    (tmp_path / "broken.gif").write_bytes(b"nothing")
    (tmp_path / "empty").mkdir()
    for name, message in (
        (
            "bad.npy",
            r"^got 1 frames with NaN or infinity in .*, the first is frame 7; expected finite",
        ),
        ("short.npz", r"^got labels of shape \(5,\) for 12 frames in .*; expected one labels entry a frame"),
        ("other.npz", r"with arrays pictures, sounds; expected one that is named 'frames'"),
        ("text.npy", "frames of type <U1"),
        (
            "first.npy",
            r"\(5, 3, 8, 8\) .*; expected 1 to 4 channels on the last axis.*transpose\(0, 2, 3, 1\)",
        ),
        ("when.npz", r"^got times of type <U4 in .*; expected numbers"),
        ("twice.npz", r"^got labels of shape \(12, 2\) for 12 frames"),
        ("broken.npz", "an unreadable file"),
        ("broken.gif", "an unreadable video"),
        ("empty", "no picture in"),
        ("absent.npz", r"expected a \.npz or \.npy file, a folder of pictures, or a video"),
    ):
        with pytest.raises(DataError, match=message):
            load_frames(tmp_path / name)
    np.save(tmp_path / "good.npy", movie)
    with pytest.raises(SettingError, match=r"^got size=\(3, 0\); expected \(rows, columns\), or None"):
        load_frames(tmp_path / "good.npy", size=(3, 0))
    with pytest.raises(SettingError, match=r"^got every=0; expected a whole number"):
        load_frames(tmp_path / "good.npy", every=0)


def test_pictures_of_two_sizes_are_refused(tmp_path: Path):
    Image.new("L", (4, 4)).save(tmp_path / "a1.png")
    Image.new("L", (5, 4)).save(tmp_path / "a2.png")
    with pytest.raises(DataError, match=r"^got pictures of 2 sizes in"):
        load_frames(tmp_path)


def write_gestures(path: Path, rows: int = 40) -> Path:
    """A table of gestures like the packaged one: two sessions, three gestures, loudness by gesture."""
    rng = np.random.default_rng(0)
    lines = ["time,c0,c1,c2,c3,c4,c5,c6,c7,label,exp"]
    for session in ("a_s1", "a_s2"):
        for gesture, loud in (("rest", 2), ("rock", 20), ("ok", 8)):
            for values in 128 + rng.normal(0, loud, (rows, 8)).round().astype(int):
                lines.append(",".join(["0", *map(str, values), gesture, session]))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_windows_of_muscle_signals(tmp_path: Path):
    found = load_recording("emg", path=write_gestures(tmp_path / "emg.csv"), window=16, hop=8)
    assert isinstance(found, FrameSet)
    assert found.points.shape == (2 * 3 * 4, 32)
    assert found.classes == GESTURES
    assert found.labels is not None
    assert found.labels.unique().tolist() == [0, 1, 4]
    assert found.groups.tolist() == [0] * 12 + [1] * 12
    torch.testing.assert_close(found.points.mean(0), torch.zeros(32).float(), rtol=0, atol=1e-5)
    loud = [float(found.points[found.labels == code].mean()) for code in (0, 4, 1)]
    assert loud == sorted(loud)


def test_windows_of_brain_activity(tmp_path: Path):
    from scipy.io import savemat

    rng = np.random.default_rng(0)
    series = rng.normal(3.0, 2.0, (5, 30))
    for subject in ("100", "200"):
        folder = tmp_path / subject / "functional"
        folder.mkdir(parents=True)
        savemat(folder / "rest.mat", {"tc": series})
    found = load_recording("fmri", path=tmp_path, window=6, hop=3)
    assert found.points.shape == (2 * 9, 30)
    assert found.classes == ("subject 1", "subject 2")
    scaled = (series - series.mean(1, keepdims=True)) / series.std(1, keepdims=True)
    np.testing.assert_allclose(found.points[1].numpy(), scaled[:, 3:9].T.ravel(), atol=1e-6)
    assert float(found.times[1]) == pytest.approx(3 * 0.72)


def test_absent_recordings_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def absent(name: str):
        from importlib.metadata import PackageNotFoundError

        raise PackageNotFoundError(name)

    monkeypatch.setattr("workbench.frames.recordings.distribution", absent)
    with pytest.raises(DataError, match=r"^got no installed package 'geomstats', .* --no-deps"):
        load_recording("emg")
    with pytest.raises(DataError, match=r"^got no .*nowhere"):
        load_recording("fmri", path=tmp_path / "nowhere")
    with pytest.raises(SettingError, match=r"^got name='ecg'; expected one of emg, fmri"):
        load_recording("ecg")
    (tmp_path / "emg.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"is not the table of gestures"):
        load_recording("emg", path=tmp_path / "emg.csv")
    with pytest.raises(DataError, match=r"no SUBJECT/functional"):
        load_recording("fmri", path=tmp_path)


@pytest.fixture
def font(tmp_path: Path) -> Path:
    """The font that Pillow carries, as a file."""
    font = ImageFont.load_default(size=20)
    data = font.font_bytes if hasattr(font, "font_bytes") else None
    path = tmp_path / "fonts" / "carried.ttf"
    path.parent.mkdir()
    path.write_bytes(data if data else Path(str(font.path)).read_bytes())
    return path


def test_glyphs_have_their_letter_and_style(font: Path):
    (font.parent / "again.ttf").write_bytes(font.read_bytes())
    found = render_glyphs("abI", folder=font.parent, side=16)
    assert found.points.shape == (3, 256)  # the same font under two names is one style
    assert found.shape == (1, 16, 16)
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1, 2]
    assert found.groups.tolist() == [0] * 3
    assert found.source.startswith("1 fonts, 1 that draw nothing or the same left out: ")
    ink = (found.points.reshape(3, 16, 16) + 1).sum(1)
    middle = (ink * torch.arange(16)).sum(1) / ink.sum(1)
    assert float((middle - 7.5).abs().max()) < 1.5  # drawn in the middle
    assert float(ink[2].gt(0.1).sum()) < float(ink[0].gt(0.1).sum())  # an I is narrower than an a
    assert len(found.context()) == 3


def test_a_letter_that_a_font_lacks_is_left_out(font: Path):
    found = render_glyphs("a\u4e2d", folder=font.parent)
    assert found.labels is not None
    assert found.labels.tolist() == [0]


def test_fonts_of_one_name_in_two_folders_are_two(tmp_path: Path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "Regular.ttf").write_bytes(folder.encode())
    assert [file.parent.name for file in find_fonts(tmp_path)] == ["a", "b"]


def test_glyphs_without_fonts_are_one_sentence(tmp_path: Path):
    with pytest.raises(DataError, match=r"^got no font in"):
        find_fonts(tmp_path)
    (tmp_path / "fake.ttf").write_bytes(b"no font")
    with pytest.raises(DataError, match=r"which is no readable font"):
        render_glyphs("a", folder=tmp_path)
    with pytest.raises(SettingError, match=r"^got letters=''; expected a text"):
        render_glyphs("")
