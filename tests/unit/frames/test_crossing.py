"""Curves between conditions: in an exact world, following the condition leads to the true frames."""

from dataclasses import replace

import pytest
import torch

from workbench.conda.context import make_context
from workbench.conda.latents import Latents
from workbench.conda.lifts import NeighbourIndex, lift
from workbench.embeddings import fit_pca
from workbench.errors import SettingError, ShapeError
from workbench.frames.crossing import part_conditions, render_crossing
from workbench.frames.files import FrameSet
from workbench.frames.models import open_frames
from workbench.frames.wake import simulate_wake
from workbench.frames.wake_set import EVERY, FIRST_STEP, load_wake, scaled
from workbench.inversions import encode, given_each
from workbench.lenses.conda import fit_conda, trace
from workbench.worlds import GaussianMixture
from workbench.zoo import load_model

TURNS = 24
STEP = torch.tensor([2.0, 0.0, 0.0], dtype=torch.float64)


def flow(place: float) -> torch.Tensor:
    """One cycle of the flow at a place among the conditions."""
    angle = torch.arange(TURNS, dtype=torch.float64) * 2 * torch.pi / TURNS
    circle = torch.stack([torch.zeros_like(angle), angle.cos(), angle.sin()], dim=1)
    return place * STEP + circle


@pytest.fixture(scope="module")
def crossing():
    """Four components of one mixture, each a condition: the model of a place between two has its mean."""
    spread = torch.diag(torch.tensor([0.05, 0.5, 0.5], dtype=torch.float64))[None]
    one = torch.ones(1, dtype=torch.float64)
    models = [GaussianMixture(f"condition {k}", one, k * STEP[None], spread) for k in range(4)]
    labels = torch.arange(4).repeat_interleave(TURNS)
    x = torch.cat([flow(float(k)) for k in range(4)])
    latent = encode(given_each(models, labels), x, depth=3.0, steps=12)
    narrow = torch.tensor([0.05, 1.0, 1.0], dtype=torch.float64)  # conditions lie nearer than moments
    index = NeighbourIndex(x * narrow)  # a map that is known
    places = torch.linspace(0.0, 3.0, 13, dtype=torch.float64)[:, None]
    moment = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    lifted = lift(
        index, Latents(latent.joined()), (places * STEP + moment) * narrow, k=2, weights="barycentric"
    )
    return models, latent, lifted, labels


def test_a_condition_that_follows_leads_to_the_true_frames_and_a_held_one_does_not(crossing):
    """The latents carry the place only as far as the depth left it: the rest is the condition's to say."""
    truth = {place: flow(place) for place in (0.5, 1.25, 2.5)}
    found = render_crossing(*crossing, truth)
    torch.testing.assert_close(found.conditions, torch.linspace(0, 3, 13).double(), rtol=0, atol=0.01)
    assert found.following_error < 0.02
    assert found.held_error > 20 * found.following_error
    assert bool((found.held.diff() > 0).all())  # farther on, what stayed is farther off
    assert f"{found.following_error:.3f} spreads off the true flow with the condition following" in str(found)


def test_what_a_held_condition_loses_is_what_the_flow_contracts(crossing):
    """For normal laws the flow maps offsets from the mean by sqrt(s^2 / (s^2 + depth^2))."""
    found = render_crossing(*crossing, {3.0: flow(3.0)})
    kept = (0.05 / (0.05 + 3.0**2)) ** 0.5
    assert found.following_error < 1e-3
    assert found.held_error == pytest.approx(3 * float(STEP[0]) * (1 - kept), rel=0.02)
    same = render_crossing(*crossing, {3.0: flow(3.0)}, held=3)
    assert same.held_error < 1e-3  # where the held one is right, nothing is lost


def test_a_curve_that_passes_no_known_condition_is_refused(crossing):
    models, latent, lifted, labels = crossing
    with pytest.raises(SettingError, match=r"^got no known frames"):
        render_crossing(*crossing, {})
    with pytest.raises(
        SettingError, match=r"^got known frames at 5; expected conditions that the curve passes"
    ):
        render_crossing(*crossing, {5.0: flow(5.0)})
    with pytest.raises(SettingError, match=r"^got known frames that do not differ"):
        render_crossing(*crossing, {1.0: flow(1.0)[:1]})
    with pytest.raises(ShapeError, match=r"^got known frames of shape \(24, 2\)"):
        render_crossing(*crossing, {1.0: flow(1.0)[:, :2]})
    with pytest.raises(ShapeError, match=r"^got labels of shape \(3,\)"):
        render_crossing(models, latent, lifted, labels[:3], {1.0: flow(1.0)})


def flows(order=(2, 0, 4, 1, 3), lengths=(30, 24, 26, 24, 40)):
    """Circles at places of a scale, class k at 10 k + 5, in any order and of any length."""
    points, labels = [], []
    for k, count in zip(order, lengths, strict=True):
        angle = torch.arange(count, dtype=torch.float64) * 2 * torch.pi / TURNS
        circle = torch.stack([angle.cos(), angle.sin(), torch.zeros_like(angle)], dim=1)
        points.append(5 * circle + k * torch.tensor([0.0, 0.0, 0.1]))
        labels.append(torch.full((count,), k))
    label = torch.cat(labels)
    return FrameSet(
        "flows", torch.cat(points), (3,), torch.arange(len(label), dtype=torch.float64), label, label,
        tuple("abcde"), 10.0 * label.double()[:, None] + 5, ("speed",),
    )  # fmt: skip


def test_every_other_condition_makes_the_map_and_those_between_are_known():
    parts = part_conditions(flows())
    assert parts is not None
    assert parts.labels.unique().tolist() == [0, 2, 4]
    assert parts.labels.bincount().tolist() == [24, 0, 24, 0, 24]
    assert sorted(parts.truth) == [1.0, 3.0]
    assert len(parts.truth[3.0]) == 40
    assert parts.labels[parts.anchors].tolist() == [0, 2, 4]
    assert parts.context.variables is not None
    moments = parts.context.variables[parts.anchors]
    assert bool((moments[:, 0] > 0.95).all())  # one moment of the cycle
    assert moments[:, 2].tolist() == [-1.0, 0.0, 1.0]
    assert parts.values_at(torch.tensor([0.0, 2.5, 4.0])) == [5.0, 30.0, 45.0]
    assert parts.name == "speed"


def test_an_even_number_of_conditions_leaves_the_last_out_of_both():
    parts = part_conditions(flows((0, 1, 2, 3), (24,) * 4))
    assert parts is not None
    assert parts.labels.unique().tolist() == [0, 2]
    assert sorted(parts.truth) == [1.0]


def test_frames_without_a_scale_are_not_parted():
    found = flows()
    assert found.variables is not None
    assert part_conditions(replace(found, variables=None)) is None
    assert part_conditions(replace(found, labels=None)) is None
    assert part_conditions(replace(found, variables=found.times[:, None])) is None
    assert part_conditions(flows((0, 1), (24, 24))) is None
    swapped = torch.tensor([1, 0, 2, 3, 4])[found.labels]
    assert part_conditions(replace(found, labels=swapped)) is None  # 0.5 would be between first and third
    assert part_conditions(replace(found, labels=4 - found.labels)) is not None


def test_the_shipped_flows_are_parted_though_their_classes_are_two_apart():
    parts = part_conditions(open_frames("wake"))
    assert sorted(parts.truth) == [2.0, 6.0]


@pytest.mark.slow
def test_between_reynolds_numbers_the_wake_is_simulated_and_a_following_condition_shows_it():
    """From Re 60 to 160 at one moment of the cycle; 95 is of no class, 70, 110, 130, 150 of no frame."""
    between = (70.0, 95.0, 110.0, 130.0, 150.0)
    flows = simulate_wake(between, steps=FIRST_STEP + 32 * EVERY, frames_from=FIRST_STEP, every=EVERY)
    truth = {(re - 60) / 10: scaled(film) for re, film in zip(between, flows.frames, strict=True)}
    sample, net = load_wake(), load_model("wake")
    stops = (0, 2, 4, 6, 8, 10)
    kept = torch.cat([(sample.labels == k).nonzero()[:28, 0] for k in stops])
    x, labels, times = sample.points[kept], sample.labels[kept], sample.steps[kept]
    pair = fit_pca(x.double(), axes=2).encode(x.double())
    moment = torch.atan2(pair[:, 1], pair[:, 0])
    known = torch.stack([moment.cos(), moment.sin(), labels / 5.0], dim=1)
    latent = encode(given_each(net, labels.tolist()), x, low=0.3, depth=2.0, steps=20)
    fit = fit_conda(
        latent.joined(), make_context(len(x), known, groups=labels, times=times), positives="delta",
        delta=0.15, dim=3, iterations=600, restarts=2, batch=160, topology=False,
    )  # fmt: skip
    anchors = [int(torch.where(labels == k, moment.abs(), torch.inf).argmin()) for k in stops]
    path = trace(fit, fit.points[anchors], steps=33)
    found = render_crossing(net, latent, path.lifted, labels, truth)
    assert found.following_error < 0.15
    assert found.held_error > 0.5
