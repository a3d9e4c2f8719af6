"""The lift: exact at data, its order of convergence, its diagnostics, and how little it reads."""

import math

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

from tests.oracles import conda as oracle
from workbench.conda.latents import Latents, open_latents
from workbench.conda.lifts import WEIGHTS, NeighbourIndex, lift
from workbench.errors import SettingError, ShapeError

AVERAGES = (("nearest", 1), ("uniform", 5), ("inverse", 5), ("softmax", 8), ("tapered", 8))
LINEAR = (("barycentric", 8), ("linear", 8))


def _error(axes: int, count: int, weights: str, k: int) -> float:
    generator = torch.Generator().manual_seed(0)
    smooth = oracle.smooth_map(axes=axes)
    points = torch.rand(count, axes, generator=generator)
    queries = 0.1 + 0.8 * torch.rand(300, axes, generator=generator)
    found = lift(NeighbourIndex(points), open_latents(smooth(points)), queries, k=k, weights=weights)
    return float((found.latents - smooth(queries)).square().mean().sqrt())


@pytest.mark.parametrize(("weights", "k"), AVERAGES + LINEAR)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_error_falls_by_the_order_of_the_weights(axes, weights, k):
    errors = [_error(axes, count, weights, k) for count in (250, 4000)]
    slope = math.log(errors[0] / errors[1]) / math.log(16)
    order = (2.0 if (weights, k) in LINEAR else 1.0) / axes
    assert_close(slope, order, rtol=0.25, atol=0)


@pytest.mark.parametrize(
    ("axes", "weights", "k", "known"),
    [
        (1, "uniform", 5, 3.2e-4),
        (1, "linear", 8, 8.7e-7),
        (2, "nearest", 1, 0.012),
        (2, "inverse", 5, 0.0077),
        (2, "barycentric", 8, 7.2e-4),
        (2, "linear", 8, 5.4e-4),
        (3, "softmax", 8, 0.028),
        (3, "linear", 8, 6.0e-3),
    ],
)
def test_error_of_four_thousand_points(axes, weights, k, known):
    assert_close(_error(axes, 4000, weights, k), known, rtol=0.35, atol=0)


@pytest.mark.parametrize(
    ("weights", "k", "ridge", "tolerance"),
    [
        ("nearest", 1, 0.0, 0.0),
        ("inverse", 8, 0.0, 3e-12),
        ("barycentric", 3, 1e-12, 1e-8),
        ("linear", 8, 0.0, 0.06),
    ],
)
def test_data_points_come_back(weights, k, ridge, tolerance):
    points = torch.rand(500, 2)
    latents = oracle.smooth_map(axes=2)(points)
    table = open_latents(latents)
    found = lift(NeighbourIndex(points), table, points[:100], k=k, weights=weights, ridge=ridge)
    assert_close(found.latents, latents[:100], rtol=0, atol=tolerance)
    assert (found.distance == 0).all()
    assert torch.equal(found.neighbours[:, 0], torch.arange(100))


@pytest.mark.parametrize("weights", WEIGHTS)
def test_weights_sum_to_one_and_make_the_latents(weights):
    points, latents = torch.rand(200, 3), torch.randn(200, 7)
    found = lift(NeighbourIndex(points), open_latents(latents), torch.rand(20, 3), k=6, weights=weights)
    assert_close(found.weights.sum(dim=1), torch.ones(20))
    assert_close(found.latents, (found.weights[..., None] * latents[found.neighbours]).sum(dim=1))
    if weights in ("nearest", "uniform", "inverse", "softmax", "tapered"):
        assert (found.weights >= 0).all()
        ball = (latents[found.neighbours] - latents[found.neighbours[:, :1]]).norm(dim=-1).amax(dim=1)
        assert ((found.latents - latents[found.neighbours[:, 0]]).norm(dim=-1) <= ball + 1e-12).all()


@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_mean_of_unrelated_latents_shrinks_by_a_root_of_k(k):
    points, latents = torch.rand(400, 2), torch.randn(400, 2000)
    index, table = NeighbourIndex(points), open_latents(latents)
    found = lift(index, table, torch.rand(50, 2), k=k, weights="uniform")
    assert_close(found.norm_ratio.mean().item(), 1 / math.sqrt(k), rtol=0.02, atol=0)
    full = lift(index, table, torch.rand(50, 2), k=k, weights="uniform", renorm=True)
    size = (full.weights * latents[full.neighbours].norm(dim=-1)).sum(dim=1)
    assert_close(full.latents.norm(dim=1), size)


def test_tapered_weights_are_continuous_where_neighbours_change():
    points, latents = torch.rand(60, 2), torch.randn(60, 4)
    queries = torch.stack([torch.linspace(0.2, 0.8, 4001), torch.full((4001,), 0.5)], dim=1)
    index = NeighbourIndex(points)

    def jump(weights: str) -> float:
        return float(
            lift(index, open_latents(latents), queries, k=5, weights=weights).latents.diff(dim=0).abs().max()
        )

    assert jump("tapered") < 0.05 < jump("uniform")


def test_off_support_is_counted_in_usual_spacings():
    points = torch.linspace(0, 1, 101)[:, None]
    found = lift(NeighbourIndex(points), open_latents(points), torch.tensor([[0.505], [1.05]]), k=2)
    assert_close(found.distance, torch.tensor([0.5, 5.0]), rtol=1e-6, atol=1e-6)
    assert found.off_support.tolist() == [False, True]
    assert found.warning.startswith("1 of 2 points lie more than 3")


def test_a_curve_in_space_has_one_local_axis_and_a_surface_two():
    t = torch.linspace(0, 6.28, 400)
    curve = torch.stack([t.cos(), t.sin(), 0.3 * (2 * t).cos()], dim=1)
    flat = torch.cat([torch.rand(400, 2), torch.zeros(400, 1)], dim=1)
    assert NeighbourIndex(curve).local_rank(8) == 1
    assert NeighbourIndex(flat).local_rank(8) == 2


def test_search_without_a_tree_finds_the_same():
    points, queries = torch.rand(300, 14), torch.rand(5, 14)
    distances, rows = NeighbourIndex(points).find(queries, 4)
    known = torch.cdist(queries, points).topk(4, largest=False)
    assert torch.equal(rows, known.indices)
    assert_close(distances, known.values)


@pytest.mark.parametrize("kind", ["npy", "safetensors"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_files_give_the_rows_of_memory(tmp_path, kind, dtype):
    latents = torch.randn(50, 3, 4).to(dtype)
    path = tmp_path / f"latents.{kind}"
    if kind == "npy":
        np.save(path, latents.numpy())
    else:
        save_file({"z": latents, "other": torch.zeros(3)}, path)
    table = open_latents(path, key=None if kind == "npy" else "z")
    index = torch.tensor([[3, 1], [3, 49]])
    assert_close(table.rows(index), latents.flatten(1)[index].float())
    assert table.rows_read == 3  # each row once


def test_a_million_latents_are_not_read_to_lift_a_few(tmp_path):
    count, dim = 1_000_000, 4096
    path = tmp_path / "million.npy"
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(count, dim))
    array[::50_000] = 1.0  # the file has holes: it takes a few pages of the disk
    del array
    points = torch.linspace(0, 1, count, dtype=torch.float32)[:, None]
    index = NeighbourIndex(points, spacing=1e-6)
    before = psutil.Process().memory_info().rss
    table = open_latents(path)
    found = lift(index, table, torch.rand(33, 1), k=8)
    grown = psutil.Process().memory_info().rss - before
    assert found.latents.shape == (33, dim)
    assert table.rows_read <= 33 * 8
    assert grown < 200e6 < count * dim * 2 / 40


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"k": 11}, SettingError, "k=11 for 10 frames"),
        ({"k": 10, "weights": "tapered"}, SettingError, "k=10 for 10 frames"),
        ({"weights": "kriging"}, SettingError, "weights='kriging'"),
        ({"ridge": -1.0}, SettingError, "ridge=-1.0"),
        ({"queries": torch.zeros(2, 3)}, ShapeError, "points of shape"),
        ({"queries": torch.full((2, 2), torch.nan)}, SettingError, "not finite"),
    ],
)
def test_what_cannot_be_lifted_is_refused_in_one_sentence(options, error, says):
    points = torch.rand(10, 2)
    queries = options.pop("queries", torch.zeros(1, 2))
    with pytest.raises(error, match=says):
        lift(NeighbourIndex(points), Latents(torch.randn(10, 4)), queries, **({"k": 2} | options))
