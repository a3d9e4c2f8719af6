"""Files read back as written, sets as documented, and one sentence for everything that is wrong."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.oracles.nets import idx_bytes
from workbench.data import FASHION_CLASSES, draw_toy, load_images, read_idx
from workbench.errors import DataError, SettingError
from workbench.models import Frame

FRAME = Frame("grey", (1, 28, 28), 0.002, 80.0, (-1.0, 1.0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small Fashion-MNIST: one file plain, the others compressed."""
    rng = np.random.default_rng(0)
    for prefix, count in (("train", 7), ("t10k", 5)):
        images = rng.integers(0, 256, (count, 28, 28))
        (tmp_path / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(images)))
        (tmp_path / f"{prefix}-labels-idx1-ubyte").write_bytes(idx_bytes(np.arange(count)))
    return tmp_path


@pytest.mark.parametrize("shape", [(6,), (3, 4), (2, 3, 5)])
@pytest.mark.parametrize("compressed", [False, True])
def test_idx_file_reads_back(tmp_path: Path, shape: tuple[int, ...], compressed: bool):
    values = np.random.default_rng(1).integers(0, 256, shape)
    raw = idx_bytes(values)
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(raw) if compressed else raw)
    np.testing.assert_array_equal(read_idx(path), values)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "expected an IDX file of bytes"),
        (b"\x00\x00\x0d\x01" + bytes(8), "starting with bytes 00000d01"),
        (idx_bytes(np.zeros((3, 4)))[:-1], r"of 23 bytes; expected 24 for the declared shape \(3, 4\)"),
        (gzip.compress(idx_bytes(np.zeros(9)))[:-6], "an unreadable file"),
        (b"\x00\x00\x08\x03\x00", r"got .* of 5 bytes"),
    ],
    ids=["empty", "floats", "cut", "cut-gzip", "cut-header"],
)
def test_damaged_idx_file_is_one_sentence(tmp_path: Path, raw: bytes, message: str):
    path = tmp_path / "file"
    path.write_bytes(raw)
    with pytest.raises(DataError, match=message):
        read_idx(path)


@pytest.mark.parametrize(("split", "prefix", "count"), [("train", "train", 7), ("test", "t10k", 5)])
def test_fashion_from_a_folder(folder: Path, split: str, prefix: str, count: int):
    images = load_images("fashion", split=split, folder=folder, dtype=torch.float64)
    raw = read_idx(folder / f"{prefix}-images-idx3-ubyte.gz").reshape(count, 784).astype(float)
    torch.testing.assert_close(images.points, torch.as_tensor(raw / 127.5 - 1), rtol=1e-6, atol=1e-6)
    assert images.labels.tolist() == list(range(count))
    assert images.classes == FASHION_CLASSES
    assert str(folder) in images.source


def test_folder_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORKBENCH_DATA", str(folder))
    assert len(load_images("fashion", split="train", limit=3)) == 3


def test_missing_folder_and_file_are_one_sentence(folder: Path):
    with pytest.raises(DataError, match=r"got no folder .*nowhere.*; try split='sample', apt install"):
        load_images("fashion", split="test", folder=folder / "nowhere")
    (folder / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="got no file t10k-labels-idx1-ubyte"):
        load_images("fashion", split="test", folder=folder)


def test_images_and_labels_must_match(folder: Path):
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx_bytes(np.arange(4)))
    with pytest.raises(DataError, match="expected one label an image"):
        load_images("fashion", split="test", folder=folder)


def test_shipped_sample_needs_no_folder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORKBENCH_DATA", "/nowhere")
    images = load_images("fashion")
    assert images.points.shape == (500, 784)
    assert images.points.dtype == torch.float32
    assert (images.points.min(), images.points.max()) == (-1, 1)
    assert images.labels.bincount(minlength=10).min() >= 39
    assert [images.classes[label] for label in images.labels[:3]] == ["ankle boot", "pullover", "trouser"]


def test_digits_splits_are_disjoint_and_complete():
    train, test = load_images("digits", split="train"), load_images("digits", split="test")
    assert (len(train), len(test)) == (1500, 297)
    assert train.points.shape[1] == test.points.shape[1] == 64
    assert torch.cdist(test.points, train.points).min() > 0
    torch.testing.assert_close(load_images("digits").points, test.points, rtol=0, atol=0)


@pytest.mark.parametrize(("name", "split"), [("mnist", "test"), ("digits", "validation")])
def test_unknown_set_or_split_is_one_sentence(name: str, split: str):
    with pytest.raises(SettingError, match=r"^got .*; expected .*; try "):
        load_images(name, split=split)


def test_negative_limit_is_one_sentence():
    assert len(load_images("digits", limit=0)) == 0
    with pytest.raises(SettingError, match=r"^got limit=-1; expected a count of at least 0"):
        load_images("digits", limit=-1)


def test_ring_has_the_moments_of_its_mixture(generator: torch.Generator):
    points, labels = draw_toy("ring", 40_000, generator=generator, dtype=torch.float64)
    second = points.square().sum(dim=-1).mean().item()
    assert second == pytest.approx(0.8**2 + 2 * 0.06**2, abs=0.005)
    for mode in range(8):
        mean = points[labels == mode].mean(dim=0)
        angle = 2 * math.pi * mode / 8
        expected = 0.8 * torch.tensor([math.cos(angle), math.sin(angle)])
        torch.testing.assert_close(mean, expected, rtol=0, atol=0.005)


def test_moons_lie_on_their_arcs(generator: torch.Generator):
    points, labels = draw_toy("moons", 20_000, generator=generator, dtype=torch.float64)
    upper = points[labels == 0] + torch.tensor([0.3, 0.15])
    lower = -points[labels == 1] + torch.tensor([0.3, 0.15])
    for arc in (upper, lower):
        assert arc.norm(dim=-1).mean().item() == pytest.approx(0.6 + 0.05**2 / 1.2, abs=0.003)
        assert arc[:, 1].min() > -0.25
    with pytest.raises(SettingError, match="got toy set 'spiral'"):
        draw_toy("spiral", 3, generator=generator)
