"""Denoisers of azula: their posterior mean is ours, in every schedule of the library."""

import copy

import azula.denoise
import azula.linalg.covariance
import azula.noise
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.unit.adapters import ideal
from workbench import open_model
from workbench.errors import MissingExtra, SettingError
from workbench.worlds import GaussianMixture

SCHEDULES = {
    "ve": azula.noise.VESchedule(1e-2, 1e2),
    "vp": azula.noise.VPSchedule(),
    "cosine": azula.noise.CosineSchedule(),
    "rectified": azula.noise.RectifiedSchedule(),
    "decay": azula.noise.DecaySchedule(),
}
LEVELS = (0.02, 0.2, 1.0, 10.0, 80.0)


class Ideal(nn.Module):
    """The network that makes a denoiser perfect on the mixture: it is told ln(sigma)."""

    def __init__(self, karras):
        super().__init__()
        self.karras = karras
        self.anchor = nn.Parameter(torch.zeros(()))  # the library reads the type of the first parameter

    def forward(self, x, log_sigma):
        sigma = log_sigma.exp().reshape(-1)
        y = x * torch.sqrt(1 + sigma**2)[:, None]  # the library scales by a only in its own frame
        clean = ideal.WORLD.denoise(y, sigma)
        if not self.karras:
            return clean
        return (clean - y / (1 + sigma[:, None] ** 2)) * torch.sqrt(1 + sigma[:, None] ** -2)


@pytest.mark.parametrize("name", ["simple", "karras"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_ideal_network_gives_the_exact_mean(schedule, name):
    made = azula.denoise.SimpleDenoiser if name == "simple" else azula.denoise.KarrasDenoiser
    denoiser = made(Ideal(name == "karras"), SCHEDULES[schedule])
    model = open_model(denoiser, shape=(2,), dtype="float64")
    for sigma in LEVELS:
        t = _time(SCHEDULES[schedule], sigma)
        y = ideal.WORLD.sample(30, generator=torch.Generator().manual_seed(1), sigma=sigma)
        a, _ = SCHEDULES[schedule](t)
        theirs = denoiser(a * y, t.expand(30)).mean
        assert_close(model.denoise(y, sigma), theirs, rtol=1e-10, atol=1e-10)
        assert ideal.worst(model, sigma) <= 1e-10


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_gaussian_denoiser_of_the_library_is_the_gaussian_world(schedule):
    mean = torch.tensor([0.4, -0.2])
    covariance = torch.tensor([[0.5, 0.2], [0.2, 0.3]])
    spread, turn = torch.linalg.eigh(covariance)
    made = azula.linalg.covariance.FullCovariance(turn, spread)
    world = GaussianMixture("one", torch.ones(1), mean[None], covariance[None])
    for sigma in LEVELS:
        t = _time(SCHEDULES[schedule], sigma)
        a, _ = SCHEDULES[schedule](t)
        denoiser = azula.denoise.GaussianDenoiser(mean, made, SCHEDULES[schedule])
        y = world.sample(5, generator=torch.Generator().manual_seed(1), sigma=sigma)
        assert_close(denoiser(a * y, t).mean, world.denoise(y, sigma), rtol=1e-8, atol=1e-8)
        assert_close(_of(denoiser, t).denoise(y, sigma), world.denoise(y, sigma), rtol=1e-8, atol=1e-8)


def _of(denoiser, t):
    """The denoiser opened, told one time for the batch, as the library's Gaussian one wants it."""

    class Single(azula.denoise.Denoiser):
        def __init__(self):
            super().__init__()
            self.schedule = denoiser.schedule

        def forward(self, x, t, **keywords):
            return denoiser(x, t[0], **keywords)

    return open_model(Single(), shape=(2,), dtype="float64")


def _time(schedule, sigma):
    """Time of a noise level, by bisection."""
    low, high = torch.zeros(()), torch.ones(())
    for _ in range(200):
        middle = 0.5 * (low + high)
        a, s = schedule(middle)
        low, high = (middle, high) if s < sigma * a else (low, middle)
    return 0.5 * (low + high)


@torch.no_grad()
@pytest.mark.parametrize("made", [azula.denoise.SimpleDenoiser, azula.denoise.KarrasDenoiser])
@pytest.mark.parametrize("name", SCHEDULES)
def test_float32_is_the_librarys_own_mean(name, made):
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 2)).float()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = backbone

        def forward(self, x, t):
            return self.net(x) + 0.1 * t[..., None]

    denoiser = made(Net(), SCHEDULES[name])
    model = open_model(denoiser, shape=(2,))
    exact = copy.deepcopy(denoiser).double()
    y = torch.randn(6, 2, dtype=torch.float32)
    for sigma in LEVELS:
        t = _time(SCHEDULES[name], sigma)
        a, _ = SCHEDULES[name](t)
        truth = exact(a * y.double(), t.expand(6)).mean
        scale = float(truth.abs().max())
        theirs = denoiser(a.float() * y, t.float().expand(6)).mean
        ours = model.denoise(y, sigma)
        assert float((ours - theirs).abs().max()) <= 1e-5 * scale
        assert float((ours.double() - truth).abs().max()) <= 1e-5 * scale


def test_keywords_and_labels_are_passed_on():
    class Labelled(azula.denoise.Denoiser):
        def __init__(self):
            super().__init__()
            self.schedule = SCHEDULES["ve"]

        def forward(self, x, t, label=None, shift=0.0):
            return azula.denoise.DiracPosterior(x * 0 + (label or 0) + shift)

    y = torch.zeros(1, 2)
    assert float(open_model(Labelled(), shape=(2,), condition=3).denoise(y, 1.0)[0, 0]) == 3.0
    bound = open_model(Labelled(), shape=(2,), condition={"shift": 2.0})
    assert float(bound.denoise(y, 1.0)[0, 0]) == 2.0


def test_what_is_missing_is_named(monkeypatch):
    denoiser = azula.denoise.SimpleDenoiser(nn.Linear(2, 2), SCHEDULES["ve"])
    with pytest.raises(SettingError, match="shape"):
        open_model(denoiser)
    with pytest.raises(SettingError, match="in memory"):
        open_model(nn.Linear(2, 2), kind="azula", shape=(2,))
    monkeypatch.setitem(__import__("sys").modules, "azula.denoise", None)
    with pytest.raises(MissingExtra, match="pip install azula"):
        open_model(denoiser, shape=(2,))
