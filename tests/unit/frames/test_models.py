"""One door for frames, a model of one's own, the phase of a cycle, and the shipped wake as it says it is."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from workbench.errors import DataError, SettingError, ShapeError
from workbench.frames.glyphs import load_glyphs
from workbench.frames.models import fit_frame_model, open_frames, wake_as_frames
from workbench.frames.prepared import prepare_frames
from workbench.frames.wake_set import (
    REYNOLDS,
    WAKE_CLASSES,
    WakeFrames,
    hidden_frames,
    load_wake,
    phase_of,
    sample_of,
    simulate_frames,
    write_sample,
)
from workbench.inversions import decode, encode
from workbench.sampling import sample
from workbench.subjects import open_subject


def test_shipped_wake_is_what_it_says():
    found = load_wake()
    counts = found.labels.bincount(minlength=len(REYNOLDS)).tolist()
    assert counts == [28, 0, 28, 0, 250, 0, 28, 0, 28, 0, 28]
    assert float(found.points.min()) >= -1.0
    assert float(found.points.max()) <= 1.0
    assert int(found.hidden[found.labels == 4].sum()) == 36
    frames = open_frames("wake")
    flow = frames.at((frames.groups == 4).nonzero()[:, 0])
    phase = phase_of(flow.points, flow.times)
    assert phase.r2 > 0.9999
    assert 25.5 < phase.period < 26.5
    assert frames.variables is not None
    assert frames.variables.unique().tolist() == [60.0, 80.0, 100.0, 120.0, 140.0, 160.0]
    assert len(frames.context()) == len(frames)


def test_shipped_model_of_the_wake_opens_as_a_subject():
    subject = open_subject(model="wake", condition="Re 100")
    assert subject.frame.shape == (1, 30, 50)
    assert subject.frame.condition == "Re 100"
    assert subject.choices is not None
    hidden = load_wake().at((load_wake().hidden & (load_wake().labels == 4)).nonzero()[:, 0]).points
    noise = 0.2 * torch.randn(hidden.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    error = (subject.model.denoise(hidden + noise, 0.2) - hidden).square().mean().sqrt()
    assert float(error) < 0.015  # frames that it never saw, in noise of 0.2


def test_flows_and_splits_that_are_not_of_the_set_are_refused():
    with pytest.raises(SettingError, match=r"^got split='tset'; expected one of sample, train, test"):
        load_wake("tset")
    with pytest.raises(SettingError, match=r"^got a flow at Reynolds number 105; expected some of 60, 70"):
        simulate_frames((100.0, 105.0))


def test_gaps_are_the_last_six_of_every_forty_one():
    steps = 8000 + 20 * torch.arange(82)
    assert hidden_frames(steps).nonzero().flatten().tolist() == [*range(35, 41), *range(76, 82)]


def test_sample_is_written_and_read_alike(tmp_path: Path):
    steps = (8000.0 + 20 * torch.arange(250)).repeat(11)
    draw = torch.Generator().manual_seed(0)
    frames = WakeFrames(
        2 * torch.rand(2750, 4, generator=draw) - 1,
        torch.arange(11).repeat_interleave(250),
        steps,
        hidden_frames(steps),
    )
    kept = sample_of(frames)
    write_sample(kept, str(tmp_path / "sample.npz"))
    archive = np.load(tmp_path / "sample.npz")
    assert archive["points"].dtype == np.float16
    np.testing.assert_allclose(archive["points"], kept.points.numpy(), atol=1e-3)
    assert archive["labels"].tolist() == kept.labels.tolist()


@pytest.mark.slow
def test_shipped_frames_are_the_computed_ones():
    fresh = simulate_frames((100.0,))
    shipped = load_wake()
    shipped = shipped.at((shipped.labels == 4).nonzero()[:, 0])
    torch.testing.assert_close(fresh.points, shipped.points, rtol=0, atol=0.02)
    assert torch.equal(fresh.hidden, shipped.hidden)
    assert len(wake_as_frames(fresh)) == 250


def test_phase_of_a_known_turn():
    times = torch.arange(200.0)
    angle = 0.37 * times + 1.0
    points = torch.stack([3 * angle.cos(), 2 * angle.sin(), 0.01 * times], dim=1)
    found = phase_of(points, times, torch.arange(170))
    assert found.period == pytest.approx(2 * torch.pi / 0.37, rel=1e-3)
    assert found.r2 > 0.999
    with pytest.raises(ShapeError, match=r"^got 2 frames; expected at least three"):
        phase_of(points[:2], times[:2])


def test_model_of_ones_own_frames(tmp_path: Path):
    """A blob that circles: the model's latents lead back, and its samples look like the frames."""
    y, x = np.mgrid[:8, :8]
    angle = np.arange(200) * 2 * np.pi / 19.7
    centre = 3.5 + 2.0 * np.stack([np.cos(angle), np.sin(angle)], 1)
    blobs = np.exp(-0.5 * ((y - centre[:, :1, None]) ** 2 + (x - centre[:, 1:, None]) ** 2) / 1.5)
    np.savez(tmp_path / "blob.npz", frames=2 * blobs - 1, labels=np.arange(200) % 2)
    frames = open_frames(tmp_path / "blob.npz")
    draw = torch.Generator().manual_seed(0)
    model = fit_frame_model(frames, rows=torch.arange(150), steps=500, width=64, generator=draw)
    assert model.frame.shape == (1, 8, 8)
    assert model.frame.classes == ("0", "1")
    latent = encode(model, frames.points, low=0.2, depth=2.0, steps=15)
    assert float((decode(model, latent).points - frames.points).abs().max()) < 1e-4
    made = sample(model, 40, generator=draw)
    near = torch.cdist(made, frames.points).amin(1).mean()
    assert float(near) < 0.5 * float((frames.points - frames.points.mean(0)).norm(dim=1).mean())


def test_bad_requests_are_one_sentence(tmp_path: Path):
    with pytest.raises(DataError, match=r"^got 'nowhere.npz'; expected a .npz or .npy file"):
        open_frames("nowhere.npz")
    np.save(tmp_path / "few.npy", np.zeros((5, 3, 3)))
    with pytest.raises(SettingError, match=r"^got 5 frames to learn from; expected at least 16"):
        fit_frame_model(open_frames(tmp_path / "few.npy"))


def test_frames_are_prepared_with_the_model_that_fits_them():
    ready = prepare_frames(open_frames("wake"))
    assert ready.condition == "Re 100"
    assert ready.model.frame.condition is not None
    assert ready.frames.labels.unique().tolist() == [WAKE_CLASSES.index("Re 100")]
    assert not ready.hidden[ready.visible].any()
    assert int(ready.hidden.sum()) == 6 * 6


def test_a_model_of_one_flow_among_several_has_no_classes(tmp_path: Path):
    """It would have them without ever having seen the others."""
    movie = np.random.default_rng(0).normal(size=(160, 4, 4))
    groups = np.repeat([0, 1], 80)
    np.savez(tmp_path / "two.npz", frames=movie, groups=groups, labels=groups)
    ready = prepare_frames(open_frames(tmp_path / "two.npz"), train_steps=2)
    assert ready.model.frame.classes == ()
    assert ready.condition == ""
    assert ready.flows is ready.frames


def test_frames_of_ones_own_get_a_model_that_has_not_seen_the_hidden_ones(tmp_path: Path):
    angle = torch.arange(130, dtype=torch.float64) / 26.0 * 2 * torch.pi
    own = tmp_path / "own.npy"
    np.save(own, torch.stack([angle.cos(), angle.sin()], 1).numpy())
    made = [prepare_frames(open_frames(own), train_steps=3)]
    frames = made[0].frames
    spoilt = frames.points.clone()
    spoilt[made[0].hidden] = 0.9
    made.append(prepare_frames(replace(frames, points=spoilt), train_steps=3))
    y = torch.zeros(1, 2)
    assert torch.equal(*(ready.model.denoise(y, torch.tensor(1.0)) for ready in made))
    with pytest.raises(ShapeError, match=r"^got the model 'wake' of 1500 numbers for frames of 2; expected"):
        prepare_frames(frames, model="wake")
    with pytest.raises(SettingError, match="condition='Re 1'"):
        prepare_frames(open_frames("wake"), condition="Re 1")


def test_glyphs_are_sent_to_their_own_notebook():
    with pytest.raises(SettingError, match=r"^got glyphs, which have no order; .* the notebook 41_glyphs"):
        prepare_frames(load_glyphs())
