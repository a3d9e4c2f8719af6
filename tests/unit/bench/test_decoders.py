"""A decoder without a score at the bench: geodesics of its pullback, and one sentence of every other lens."""

import inspect

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from workbench import open_model
from workbench.bench import Bench
from workbench.bench.geodesics import metrics_for
from workbench.bench.opening import opener_with, suited
from workbench.decoders import Latents, decoder_of, show_points
from workbench.errors import SettingError
from workbench.models import Landscape
from workbench.subjects import Subject


def subject(dim=2):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(dim, 6), nn.Tanh(), nn.Linear(6, 5))
    latents = Latents(open_model(net, kind="decoder", shape=(dim,), name="toy", dtype="float64"))
    return Subject(latents, latents.frame, "0", "1")


@pytest.fixture
def bench():
    own = subject()
    made = Bench({"model": "toy", "metric": "pullback"}, open_subject=opener_with(own))
    yield made
    made.close()


def test_latents_are_those_of_a_standard_normal():
    model = subject().model
    assert isinstance(model, Landscape)
    z = torch.randn(4, 2)
    assert_close(model.force(z), -torch.func.grad(lambda z: model.energy(z).sum())(z), rtol=0.0, atol=1e-12)
    drawn = model.sample(4000, generator=torch.Generator().manual_seed(0))
    assert_close(drawn.mT.cov().to(z), torch.eye(2), rtol=0.0, atol=0.1)
    pictures, frame = show_points(model, z)
    assert_close(pictures, decoder_of(model).decode(z), rtol=0.0, atol=0.0)
    assert frame.shape == (5,)


def test_the_fisher_lens_answers_and_the_others_say_what_they_lack(bench):
    found = bench.ask()
    said = {answer.lens: answer for answer in found.answers}
    assert said["fisher"].lines[0].kind == "geodesic"
    assert {"paths", "anisotropy", "conda"} == {name for name, one in said.items() if one.sentence}
    for name in ("paths", "anisotropy"):
        assert "a decoder without a score" in said[name].sentence
    straight = bench.place.subject.ends()
    length = said["fisher"].facts[0][1].value
    line = torch.lerp(straight[0], straight[1], torch.linspace(0.0, 1.0, 400)[:, None])
    decoded = decoder_of(bench.place.subject.model).decode(line)
    bound = float((decoded[1:] - decoded[:-1]).norm(dim=-1).sum())
    assert 0.5 * bound < length <= bound * (1 + 1e-3)


@pytest.mark.parametrize(("dim", "names"), [(2, ("pullback", "euclidean")), (40, ("euclidean",))])
def test_metrics_are_those_that_need_no_score(dim, names):
    own = subject(dim)
    assert metrics_for(own) == names
    state = suited(Bench({"model": "toy"}, open_subject=opener_with(own)).state, own)
    assert state.metric == names[0]


def test_what_has_neither_decoder_nor_frame_is_refused_in_a_sentence():
    with pytest.raises(SettingError, match=r"got object, which has no frame; expected .*; try open_model"):
        inspect.unwrap(show_points)(object(), torch.zeros(1, 2))  # a user's run has no type checker
