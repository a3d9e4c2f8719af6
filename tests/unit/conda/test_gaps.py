"""Scores on hidden frames: which frames they hide, how long a gap must be, and what the methods reach."""

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import conda as oracle
from workbench.conda.context import make_context
from workbench.conda.fitting import train
from workbench.conda.gaps import GapScore, hide_gaps, measure_gaps, quarter_cycle
from workbench.conda.latents import open_latents
from workbench.conda.settings import CondaConfig
from workbench.errors import SettingError
from workbench.storage import load_result, save_result

PERIOD = 26.1


def test_gaps_are_inside_runs_and_equally_far():
    groups = torch.tensor([0] * 90 + [1] * 30 + [2] * 60)
    hidden = hide_gaps(make_context(180, groups=groups), gap=6, every=41)
    assert hidden.nonzero()[:, 0].tolist() == [*range(35, 41), *range(76, 82), *range(155, 161)]


def test_quarter_cycle_of_a_wave_is_a_quarter_of_its_period():
    latents, _ = oracle.travelling_wave(period=PERIOD)
    assert_close(quarter_cycle(latents, make_context(len(latents))), PERIOD / 4, rtol=0.1, atol=0)


def test_gaps_short_of_a_quarter_cycle_are_refused():
    latents, _ = oracle.travelling_wave(period=PERIOD)
    context = make_context(len(latents))
    hidden = hide_gaps(context, gap=3)
    with pytest.raises(SettingError, match="span 4 steps where a quarter cycle is 6"):
        measure_gaps(latents, context, hidden, lambda z: z)


def test_a_gap_at_an_end_is_refused():
    latents, _ = oracle.travelling_wave(period=PERIOD)
    hidden = torch.arange(len(latents)) < 10
    with pytest.raises(SettingError, match="at the end of a run"):
        measure_gaps(latents, make_context(len(latents)), hidden, lambda z: z)


def test_hidden_frames_do_not_reach_the_prediction():
    latents, _ = oracle.travelling_wave(period=PERIOD)
    context = make_context(len(latents))
    hidden = hide_gaps(context)
    known = measure_gaps(latents, context, hidden, lambda z: z[:, :3])
    spoilt = torch.where(hidden[:, None], latents + torch.randn_like(latents), latents)
    again = measure_gaps(spoilt, context, hidden, lambda z: z[:, :3])
    for name, guess in known.predictions.items():
        assert torch.equal(guess, again.predictions[name])


def test_the_true_phase_is_nearly_exact_and_straight_lines_are_not(tmp_path):
    latents, phase = oracle.travelling_wave(period=PERIOD)
    context = make_context(len(latents))
    hidden = hide_gaps(context)
    ring = torch.stack([phase.cos(), phase.sin()], dim=1)
    score = measure_gaps(latents, context, hidden, lambda z: ring[~hidden])
    assert score.errors["spline_c"] < 0.03 < 0.3 < score.errors["lerp_z"]
    assert score.per_gap["spline_c"].shape == (6,)
    assert score.report.message == "6 gaps of 36 hidden frames; 6.2 steps are a quarter cycle"
    assert score.provenance.settings["weights"] == "linear"
    again = load_result(save_result(score, tmp_path / "score"), GapScore)
    assert again.errors == score.errors


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_spline_in_the_embedding_crosses_hidden_gaps(seed):
    latents, _ = oracle.travelling_wave(period=PERIOD)
    context = make_context(len(latents))
    hidden = hide_gaps(context)
    shown = (~hidden).nonzero()[:, 0]
    config = CondaConfig(dim=3, positives="time", iterations=1200, batch=214)
    generator = torch.Generator().manual_seed(seed)
    trained = train(open_latents(latents[shown]), context.select(shown), config, generator=generator)
    score = measure_gaps(latents, context, hidden, trained.encoder)
    assert score.errors["spline_c"] <= 0.03
    assert score.errors["lerp_z"] >= 0.3
    assert score.errors["lerp_c"] < 0.5 * score.errors["slerp_z"]
