"""Training along directions: the protocol, its measurements, and the two published signs."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from workbench.anisotropy.closed_forms import readout_geometry
from workbench.anisotropy.comparison import (
    Comparison,
    Interval,
    compare_trials,
    median_interval,
    rank_correlation,
    undecided,
)
from workbench.anisotropy.denoising import (
    DenoisingSettings,
    build_network,
    sample_noise_predictor,
    stream,
    train_noise_predictor,
)
from workbench.anisotropy.levels import ddpm_levels
from workbench.anisotropy.spectrum import find_score_spectrum
from workbench.anisotropy.tracking import track_geometry
from workbench.anisotropy.trials import direction_data, rows_at, train_direction, train_rotated
from workbench.architectures import Architecture, FlatNet, PerceptronNet, load_architecture
from workbench.errors import SettingError, ShapeError
from workbench.lenses.anisotropy import find_directions

TINY = Architecture("tiny", (4,), lambda: PerceptronNet(4, 16, 1, features=8))
SHORT = DenoisingSettings(steps=6, batch=8, levels=10)


class Exact(nn.Module):
    """The noise in Gaussian data of variance 16 along the first axis."""

    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(torch.zeros(()))

    def forward(self, x, t):
        levels = ddpm_levels(1000)
        level = t.round().long()
        a, s = levels.a[level, None], levels.s[level, None]
        spread = s**2 + a**2 * torch.tensor([16.0, 0.0, 0.0, 0.0])
        return s * x / spread + self.place


@pytest.mark.parametrize("sampler", ["ancestral", "ode"])
def test_both_samplers_recover_the_data_from_the_exact_noise(sampler, generator):
    net = FlatNet(Architecture("exact", (4,), Exact)).eval()
    made = sample_noise_predictor(
        net, 1500, levels=ddpm_levels(1000), sampler=sampler, generator=generator, batch=700
    )
    assert made.shape == (1500, 4)
    assert_close(float(made[:, 0].std()), 4.0, rtol=0.1, atol=0)
    assert float(made[:, 1:].std()) < 0.02


def test_data_along_one_direction_is_gaussian_and_along_several_a_sphere(generator):
    line = direction_data(torch.eye(9)[:1])(4000, generator)
    assert_close(float(line[:, 0].std()), 3.0, rtol=0.05, atol=0)
    ball = direction_data(torch.eye(9)[:3])(100, generator)
    assert_close(ball.norm(dim=1), torch.full((100,), 3.0))
    assert_close(ball[:, 3:], torch.zeros(100, 6))
    with pytest.raises(ShapeError, match="orthonormal"):
        direction_data(torch.ones(2, 3))


def test_streams_are_separate_and_seeds_apart():
    names = ("initialisation", "data", "noise", "sampling", "projections")
    seeds = {stream(seed, name).initial_seed() for seed in range(4) for name in names}
    assert len(seeds) == 20


def test_the_same_seed_repeats_a_trial_and_pauses_change_nothing():
    axis = torch.eye(4)[:1]
    once = train_direction(TINY, axis, settings=SHORT, seed=3, samples=20, projections=16)
    again = train_direction(TINY, axis, settings=SHORT, seed=3, samples=20, projections=16, stops=(2, 4))
    other = train_direction(TINY, axis, settings=SHORT, seed=4, samples=20, projections=16)
    assert again.steps.tolist() == [2, 4, 6]
    assert once.sliced[-1] == again.sliced[-1]
    assert once.sliced[-1] != other.sliced[-1]
    assert (once.finite == 1.0).all()
    assert once.baselines.zero.mean > once.baselines.real.mean


def test_training_lowers_the_loss():
    net = build_network(TINY, 0)
    losses = [
        loss
        for _, loss in train_noise_predictor(
            net,
            direction_data(torch.eye(4)[:1]),
            settings=DenoisingSettings(steps=150, batch=64, levels=10, rate=3e-3),
            seed=0,
            stops=(50,),
        )
    ]
    assert losses[1] < 0.8 * losses[0]


def test_training_records_gradients_where_the_caller_does_not():
    with torch.no_grad():
        trial = train_direction(TINY, torch.eye(4)[:1], settings=SHORT, samples=20, projections=16)
    assert torch.isfinite(trial.losses).all()


def test_samples_that_are_not_finite_are_counted_not_hidden():
    class Wild(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(1.0))

        def forward(self, x, t):
            return torch.where(x[:, :1] > 0.5, torch.inf, 0.0) * self.scale + x * self.scale

    settings = DenoisingSettings(steps=1, batch=4, levels=4, clip=1e-9, rate=0.0)
    trial = train_direction(
        Architecture("wild", (2,), Wild), torch.eye(2)[:1], settings=settings, samples=40, projections=8
    )
    assert 0.0 <= float(trial.finite[-1]) < 1.0


def test_rotated_data_are_measured_among_the_data(generator):
    points = direction_data(torch.eye(4)[:1])(200, generator)
    turn = torch.eye(4)[[1, 0, 2, 3]]
    plain = train_rotated(TINY, points, settings=SHORT, samples=20, projections=16)
    turned = train_rotated(TINY, points, rotation=turn, settings=SHORT, samples=20, projections=16)
    assert plain.baselines.zero.mean == turned.baselines.zero.mean
    assert plain.sliced[-1] != turned.sliced[-1]
    with pytest.raises(SettingError, match="more than 400"):
        train_rotated(TINY, points, samples=200)
    with pytest.raises(ShapeError, match="points"):
        train_rotated(TINY, points[:, :3])


def test_cancelling_keeps_the_last_measurement():
    class Now:
        def is_set(self):
            return True

    trial = train_direction(TINY, torch.eye(4)[:1], settings=SHORT, samples=20, projections=16, cancel=Now())
    assert trial.steps.tolist() == [1]


def test_medians_carry_intervals():
    found = median_interval([1.0, 2.0, 9.0])
    assert (found.median, found.seeds) == (2.0, 3)
    assert found.low == 1.0
    assert found.high == 9.0
    with pytest.raises(SettingError, match="no values"):
        median_interval([])


def test_rank_correlation_averages_ties():
    assert rank_correlation(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 90.0])) == pytest.approx(
        1.0
    )
    assert rank_correlation(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 2.0, 1.0])) == pytest.approx(
        -1.0
    )
    assert rank_correlation(torch.tensor([1.0, 1.0]), torch.tensor([3.0, 2.0])) == 0.0


def test_comparison_groups_seeds_and_remembers_the_zero_generator():
    trials = [
        train_direction(
            TINY,
            torch.eye(4)[i : i + 1],
            settings=SHORT,
            seed=seed,
            samples=20,
            projections=16,
            eigenvalue=float(i),
        )
        for i in (1, 0)
        for seed in (0, 1)
    ]
    found = compare_trials(trials)
    assert found.eigenvalues.tolist() == [0.0, 1.0]
    assert [d.seeds for d in found.distances] == [2, 2]
    assert len(found.beats_zero) == 2
    with pytest.raises(SettingError, match="at least two"):
        compare_trials(trials[:2])
    twins = [replace(t, eigenvalue=0.0, index=int(t.eigenvalue)) for t in trials]
    assert [d.seeds for d in compare_trials(twins).distances] == [2, 2]


def test_geometry_is_tracked_from_its_start():
    track = track_geometry(
        TINY,
        direction_data(torch.eye(4)[:1]),
        torch.eye(4)[0],
        stops=(2, 5),
        networks=3,
        count=2,
        settings=SHORT,
    )
    assert track.steps.tolist() == [0, 2, 5]
    assert_close(track.largest_angles[0], torch.zeros(2), rtol=0, atol=1e-6)
    assert track.largest_angles[2].max() > 0
    assert track.rayleigh.shape == (3,)
    with pytest.raises(SettingError, match="ascending"):
        track_geometry(TINY, direction_data(torch.eye(4)[:1]), torch.eye(4)[0], stops=(5, 2))


def test_directions_of_another_length_get_one_sentence():
    with pytest.raises(ShapeError, match="rows of length 4"):
        train_direction(TINY, torch.eye(5)[:1])
    with pytest.raises(SettingError, match="ancestral or ode"):
        sample_noise_predictor(
            build_network(TINY, 0), 2, levels=ddpm_levels(4), sampler="x", generator=stream(0, "data")
        )


# ---- the published sizes and signs


@pytest.mark.slow
def test_time_aware_unet_learns_lambda_min_better():
    """Median over three seeds at 300 steps: more than twice as far along lambda_max as along lambda_min."""
    directions = find_directions("unet8-time", networks=400, seed=0).spectrum
    medians = {}
    for index in (0, 63):
        trials = [
            train_direction(load_architecture("unet8-time"), directions.direction(index)[None], seed=seed)
            for seed in range(3)
        ]
        medians[index] = median_interval([float(t.sliced[-1]) for t in trials]).median
        if index == 0:
            assert medians[0] < trials[0].baselines.zero.mean
    assert medians[63] > 2.0 * medians[0]


@pytest.mark.slow
def test_perceptron_with_a_fixed_readout_has_the_opposite_sign():
    """The documented counter-example: lambda_max is learnt, lambda_min is not."""
    architecture = load_architecture("mlp32-readout")
    spectrum = find_score_spectrum(readout_geometry(architecture.build().readout))
    settings = DenoisingSettings(steps=1000)
    medians = {
        index: median_interval(
            [
                float(
                    train_direction(
                        architecture, spectrum.direction(index)[None], settings=settings, seed=seed
                    ).sliced[-1]
                )
                for seed in range(3)
            ]
        ).median
        for index in (0, 31)
    }
    assert medians[0] > 5.0 * medians[31]
    assert medians[0] > 20.0


def test_a_sphere_takes_its_neighbours_and_their_mean():
    spectrum = find_directions("unet8-time", networks=20, seed=0, tol=1.0).spectrum
    rows, value = rows_at(spectrum, -1, "sphere")
    assert_close(rows, spectrum.directions([61, 62, 63]), rtol=0, atol=0)
    assert value == pytest.approx(sum(spectrum.eigenvalue(i) for i in (61, 62, 63)) / 3)
    assert rows_at(spectrum, 0, "sphere")[0].shape == (3, 64)
    line, alone = rows_at(spectrum, 7)
    assert line.shape == (1, 64)
    assert alone == spectrum.eigenvalue(7)
    points = direction_data(rows)(50, torch.Generator().manual_seed(0))
    assert_close(points.norm(dim=1), torch.full((50,), 8.0, dtype=points.dtype), rtol=1e-6, atol=0)
    with pytest.raises(SettingError, match="line, or sphere"):
        rows_at(spectrum, 0, "cube")


@pytest.mark.parametrize(
    ("low", "high", "seeds", "words"),
    [
        ((0.1, 0.2), (0.5, 0.6), 3, ""),
        ((0.1, 0.5), (0.5, 0.6), 3, "overlap"),
        ((0.1, 0.2), (0.5, 0.6), 1, "1 seed a direction"),
    ],
)
def test_what_few_seeds_cannot_decide_is_said(low, high, seeds, words):
    ends = tuple(Interval(sum(ends) / 2, *ends, seeds) for ends in (low, high))
    said = undecided(Comparison(torch.tensor([1.0, 2.0]), ends, 1.0, (True, True)))
    assert words in said
    assert bool(said) == bool(words)
