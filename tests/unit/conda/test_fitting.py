"""Training: known factors come back, rings stay rings, chance stays chance, copies do not see each other."""

import math

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch.testing import assert_close

from tests.oracles import conda as oracle
from workbench.conda.consistency import linear_r2
from workbench.conda.context import make_context
from workbench.conda.encoders import Plan, embed_table, encode_stack, initial_weights
from workbench.conda.estimator import ConDA
from workbench.conda.fitting import split_runs, train
from workbench.conda.infonce import expected_scale
from workbench.conda.latents import open_latents
from workbench.conda.scaling import fit_scaling, shared_directions
from workbench.conda.settings import CondaConfig
from workbench.errors import ConvergenceWarning, DataError, SettingError, ShapeError

TURNING = {"dim": 2, "iterations": 120, "batch": 64, "rate": 5e-3}


def _turning(count=300, dim=6):
    latents, angle = oracle.ring(count=count, dim=dim, seed=0)
    return latents, torch.stack([angle.cos(), angle.sin()], dim=1)


def _fit(latents, *indices, seed=0, **settings):
    config = CondaConfig(**settings)
    generator = torch.Generator().manual_seed(seed)
    return train(open_latents(latents), make_context(len(latents), *indices), config, generator=generator)


def _stretch(embedding, factors):
    """Singular values of the linear map from factors to the embedding."""
    design = torch.cat([factors, torch.ones(len(factors), 1)], dim=1)
    return torch.linalg.svdvals(torch.linalg.lstsq(design, embedding.double()).solution[:-1])


def test_known_factors_come_back_at_the_known_scale_in_small():
    mixtures, factors = oracle.mixed_factors(axes=2, seed=0, count=2000)
    settings = {"dim": 2, "positives": "delta", "delta": 0.1, "iterations": 500, "batch": 256, "restarts": 1}
    trained = _fit(mixtures, factors, rate=3e-3, **settings)
    embedding = trained.encoder(mixtures)
    assert linear_r2(embedding, factors) > max(0.96, linear_r2(mixtures, factors))
    stretch = _stretch(embedding, factors)
    assert_close(stretch.mean().item(), expected_scale(0.1), rtol=0.25, atol=0)
    assert abs(trained.control_loss - math.log(256)) < 0.03
    assert trained.bits > 2


@pytest.mark.slow
@pytest.mark.parametrize(("axes", "seed"), [(2, 0), (2, 1), (2, 2), (3, 0)])
def test_known_factors_come_back_at_the_known_scale(axes, seed):
    mixtures, factors = oracle.mixed_factors(axes=axes, seed=seed)
    settings = {"dim": axes, "positives": "delta", "delta": 0.1, "iterations": 1500}
    trained = _fit(mixtures, factors, seed=seed, **settings)
    embedding = trained.encoder(mixtures)
    half = torch.arange(len(factors)) < len(factors) // 2
    assert linear_r2(embedding, factors, train=half) > 0.95
    stretch = _stretch(embedding, factors)
    assert 5.0 < float(stretch.min()) <= float(stretch.max()) < 1.05 * expected_scale(0.1)
    assert abs(trained.control_loss - math.log(512)) < 0.03


RING = {"dim": 2, "similarity": "cosine", "temperature": 0.1, "iterations": 1000}


def _ring_is_right(seed: int, **settings) -> bool:
    latents, angle = oracle.blobs(count=3000, seed=seed)
    trained = _fit(latents.float(), seed=seed, **(RING | settings))
    found = trained.encoder(latents)
    return linear_r2(found, torch.stack([angle.cos(), angle.sin()], dim=1)) > 0.95


@pytest.mark.parametrize("seed", [0, 1])
def test_a_ring_is_not_folded_in_small(seed):
    assert _ring_is_right(seed, iterations=200, batch=128, rate=3e-3)


@pytest.mark.slow
def test_a_ring_is_right_in_nine_of_ten_seeds():
    assert sum(_ring_is_right(seed, batch=128) for seed in range(10)) >= 9


def test_a_folded_copy_has_a_higher_loss_than_the_chosen_one():
    latents, _ = oracle.blobs(count=1500, seed=0)
    trained = _fit(
        latents,
        iterations=200,
        batch=128,
        restarts=6,
        **{k: RING[k] for k in ("dim", "similarity", "temperature")},
    )
    assert trained.loss == float(trained.held_losses.min())
    dropped = torch.isnan(trained.losses[-1])
    assert int(dropped.sum()) == 4  # six, then three, then two
    assert not dropped[trained.chosen]


def test_copies_are_trained_as_if_alone():
    latents, _ = _turning()
    settings = TURNING | {"iterations": 20}
    many = _fit(latents, restarts=3, seed=4, **settings)
    again = _fit(latents, restarts=3, seed=4, **settings)
    assert torch.equal(torch.nan_to_num(many.losses), torch.nan_to_num(again.losses))
    plan = Plan("mlp", 6, 2)
    axes = torch.eye(6)
    both = initial_weights(plan, [7, 8], axes, dtype=torch.float64, device="cpu")
    alone = [w[1:] for w in both]
    assert_close(encode_stack(plan, alone, latents)[0], encode_stack(plan, both, latents)[1])


@pytest.mark.parametrize("architecture", ["mlp", "conv"])
@pytest.mark.parametrize("similarity", ["euclidean", "cosine"])
def test_both_encoders_find_the_phase(architecture, similarity):
    latents, circle = _turning()
    tau = 0.1 if similarity == "cosine" else 1.0
    settings = TURNING | {"architecture": architecture, "similarity": similarity, "temperature": tau}
    trained = _fit(latents, restarts=2, **settings)
    context = make_context(len(latents))
    found = embed_table(trained.encoder, open_latents(latents), context)
    assert linear_r2(found, circle) > 0.95
    if similarity == "cosine":
        assert_close(found.norm(dim=1), torch.ones(len(found), dtype=found.dtype))


def test_a_convolution_sees_nothing_across_an_edge():
    latents, _ = _turning()
    groups = (torch.arange(300) >= 150).long()
    trained = _fit(latents, restarts=1, **(TURNING | {"architecture": "conv", "iterations": 10}))
    context = make_context(300, groups=groups)
    before = embed_table(trained.encoder, open_latents(latents), context)
    spoilt = torch.where(groups[:, None] == 1, latents + 5.0, latents)
    after = embed_table(trained.encoder, open_latents(spoilt), context)
    assert torch.equal(before[:150], after[:150])
    assert not torch.allclose(before[150:], after[150:])
    crossed = embed_table(trained.encoder, open_latents(spoilt), make_context(300))
    assert not torch.allclose(before[:150], crossed[:150])


def test_a_learnt_temperature_stays_above_its_floor():
    latents, _ = _turning()
    trained = _fit(
        latents, restarts=1, learn_temperature=True, least_temperature=0.5, temperature=0.6, **TURNING
    )
    assert trained.encoder.temperature >= 0.5
    moved = _fit(
        latents, restarts=1, learn_temperature=True, least_temperature=1e-3, temperature=0.6, **TURNING
    )
    assert moved.encoder.temperature != 0.6


def test_held_out_stretches_are_never_trained_on(generator):
    context = make_context(1000, groups=torch.arange(1000) // 250)
    kept, held = split_runs(context, 0.1, 3, generator)
    assert len(held) == 100
    assert not set(kept.tolist()) & set(held.tolist())
    assert (torch.bincount(held // 250) == 25).all()
    assert (held[:25].diff() == 1).all()


def test_short_trajectories_are_held_out_whole(generator):
    context = make_context(1000, groups=torch.arange(1000) // 10)
    _, held = split_runs(context, 0.1, 3, generator)
    counts = torch.bincount(held // 10, minlength=100)
    assert set(counts.tolist()) == {0, 10}
    assert 90 <= len(held) <= 110


def test_too_few_frames_are_judged_by_new_pairs_and_say_so():
    latents, _ = _turning(count=30)
    trained = _fit(latents, restarts=2, **(TURNING | {"iterations": 10}))
    assert not trained.honest
    assert "no frames could be held out" in trained.warnings[0]


@pytest.mark.parametrize("scaling", ["columns", "pca", "white"])
def test_scalings_give_the_spreads_they_name(scaling, generator):
    latents = torch.randn(500, 80) * torch.logspace(0, 1, 80) + 4.0
    config = CondaConfig(scaling=scaling, components=10)
    center, basis = fit_scaling(open_latents(latents), config, generator, torch.float64)
    shifted = latents - center
    inputs = shifted * basis if basis.ndim == 1 else shifted @ basis
    assert inputs.shape[1] == (80 if scaling == "columns" else 10)
    assert_close(inputs.mean(dim=0), torch.zeros(inputs.shape[1]), rtol=0, atol=1e-9)
    spread = inputs.std(dim=0)
    if scaling == "pca":
        assert_close(spread[0].item(), 1.0)
        assert (spread.diff() <= 1e-9).all()
    else:
        assert_close(spread, torch.ones_like(spread))


def test_more_entries_than_frames_find_the_same_components(generator):
    latents = torch.randn(30, 100)
    config = CondaConfig(scaling="pca", components=5)
    center, basis = fit_scaling(open_latents(latents), config, generator, torch.float64)
    values = torch.linalg.svdvals(latents - latents.mean(dim=0))
    assert_close(((latents - center) @ basis).norm(dim=0), values[:5] / values[0] * 29**0.5)


@pytest.mark.parametrize(("frames", "kept"), [(40, 6), (200, 20), (2000, 64)])
def test_few_frames_are_seen_in_few_components(frames, kept, generator):
    latents = torch.randn(frames, 100, generator=generator)
    _, basis = fit_scaling(open_latents(latents), CondaConfig(dim=3), generator, torch.float64)
    assert basis.shape == (100, kept)


def test_a_direction_is_as_long_as_its_partner_is_known_from_it():
    """Every combination of signs: all shared, half shared, nothing shared, and turned around."""
    sign = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    shared, half, own, other, noise, fresh, turned = torch.cartesian_prod(*[sign] * 7).T
    first = torch.stack([shared, (half + own) / 2**0.5, noise, turned], dim=1)
    second = torch.stack([shared, (half + other) / 2**0.5, fresh, -turned], dim=1)
    rows = torch.arange(2 * len(first))
    found = shared_directions(torch.cat([first, second]), rows.chunk(2), 4)
    assert_close(found.abs(), torch.diag(torch.tensor([1.0, 0.5, 0.0, 0.0], dtype=torch.float64)))


def test_shared_directions_of_broad_inputs_are_those_among_few(generator):
    """Two slow sources in 3000 noisy entries: the same span as in the few axes that carry them."""
    t = torch.arange(600) * 0.05
    sources = torch.stack([t.sin(), (1.7 * t).cos()], dim=1)
    mixing = torch.randn(2, 3000)
    inputs = sources @ mixing + 0.01 * torch.randn(600, 3000)
    rows = torch.randint(0, 599, (3000,), generator=generator)
    found = shared_directions(inputs, (rows, rows + 1), 2)
    assert found.shape == (3000, 2)
    read = inputs @ found
    assert linear_r2(read, sources) > 0.99
    assert_close(read[rows[:1024]].std(dim=0), torch.ones(2), rtol=0.05, atol=0)


@pytest.mark.parametrize("scaling", ["columns", "pca", "white"])
def test_latents_that_are_all_the_same_are_refused(scaling, generator):
    config = CondaConfig(scaling=scaling)
    with pytest.raises(SettingError, match=r"^got latents that are all the same; expected latents that vary"):
        fit_scaling(open_latents(torch.full((50, 4), 0.1)), config, generator, torch.float64)


@pytest.fixture(scope="module")
def fitted():
    latents, _ = _turning()
    return ConDA(restarts=2, **TURNING).fit(latents), latents


def test_the_estimator_follows_the_conventions(fitted):
    model, latents = fitted
    _, circle = _turning()
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(batch=64) is model
    found = model.transform(latents.numpy())
    assert_close(found, model.embedding_)
    assert linear_r2(torch.from_numpy(found), circle) > 0.95
    assert model.n_features_in_ == 6
    assert model.loss_ < model.control_loss_ - 1.0
    assert model.score(latents) > 1.0
    assert_close(model.score(latents), (math.log(64) - model.infonce_loss(latents)) / math.log(2))
    assert model.losses_.shape == (120, 2)


def test_the_estimator_comes_back_without_pickle(fitted, tmp_path):
    model, latents = fitted
    path = model.save(tmp_path / "model")
    back = ConDA.load(path)
    assert back.get_params() == model.get_params()
    assert np.array_equal(back.transform(latents), model.transform(latents))
    assert back.loss_ == model.loss_
    (tmp_path / "other.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match="holds no estimator"):
        ConDA.load(tmp_path / "other.safetensors")


def test_partial_fit_goes_on_where_fit_ended():
    latents, _ = _turning()
    model = ConDA(restarts=1, **(TURNING | {"iterations": 30})).fit(latents)
    first = model.loss_
    center = model.encoder_.center
    model.partial_fit(latents)
    assert model.loss_ < first
    assert torch.equal(model.encoder_.center, center)


def test_sessions_are_lists_and_never_mix():
    latents, circle = _turning()
    sessions, y = [latents[:140], latents[140:]], [circle[:140], circle[140:]]
    model = ConDA(positives="multi", inner="time_delta", restarts=1, **TURNING).fit(sessions, y)
    assert model.embedding_.shape == (300, 2)
    assert linear_r2(torch.from_numpy(model.embedding_), circle) > 0.9


def test_shuffled_labels_are_found_out(generator):
    latents, circle = _turning()
    with pytest.warns(ConvergenceWarning, match="nothing was learnt"):
        ConDA(restarts=1, positives="delta", delta=0.2, **TURNING).fit(
            latents, circle[torch.randperm(300, generator=generator)]
        )


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"dim": 0}, SettingError, "dim=0"),
        ({"temperature": 0.0}, SettingError, "temperature=0.0"),
        ({"held_out": 0.5}, SettingError, "held_out=0.5"),
        ({"architecture": "transformer"}, SettingError, "architecture='transformer'"),
        ({"similarity": "cosine", "dim": 1}, SettingError, "1 dimension"),
        ({"restarts": True}, SettingError, "restarts=True"),
    ],
)
def test_settings_are_refused_in_one_sentence(given, error, says):
    latents, _ = _turning(count=40)
    with pytest.raises(error, match=says):
        ConDA(**(TURNING | given)).fit(latents)


def test_frames_that_are_not_finite_are_refused():
    latents, _ = _turning(count=40)
    latents[7, 2] = torch.nan
    with pytest.raises(DataError, match="1 frames with values that are not finite, the first in row 7"):
        ConDA(**TURNING).fit(latents)


def test_frames_of_another_width_are_refused(fitted):
    with pytest.raises(ShapeError, match="frames of 5 features"):
        fitted[0].transform(torch.zeros(10, 5))
