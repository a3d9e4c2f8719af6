"""Velocity fields of flow_matching and torchcfm: exactness on both clocks, and the libraries' formulas."""

import pytest
import torch
from flow_matching.path import AffineProbPath, CondOTProbPath
from flow_matching.path.scheduler import (
    CondOTScheduler,
    CosineScheduler,
    PolynomialConvexScheduler,
    VPScheduler,
)
from flow_matching.utils import ModelWrapper
from torch import nn
from torch.testing import assert_close
from torchcfm import conditional_flow_matching as matching
from torchcfm.models.models import MLP
from torchcfm.models.unet.unet import UNetModelWrapper

from tests.oracles import frames
from tests.unit.adapters import ideal
from workbench import open_model
from workbench.adapters.vector_fields import field_schedule
from workbench.errors import SettingError
from workbench.schedules import RECTIFIED, rates

LEVELS = (0.02, 0.2, 1.0, 10.0, 80.0)
SCHEDULERS = {
    "straight": CondOTScheduler(),
    "polynomial": PolynomialConvexScheduler(2.0),
    "variance preserving": VPScheduler(),
    "cosine": CosineScheduler(),
}


def frame_of(scheduler):
    """A scheduler's coefficients and rates, as the library states them."""

    def frame(t):
        made = scheduler(t)
        return made.alpha_t, made.sigma_t, made.d_alpha_t, made.d_sigma_t

    return frame


class Field(ModelWrapper):
    """A wrapper of flow_matching around the ideal velocity of a frame."""

    def __init__(self, frame):
        super().__init__(nn.Identity())
        self.answer = ideal.answer(frame, "velocity")

    def forward(self, x, t, **extras):
        return self.answer(x, t)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_ideal_field_gives_the_exact_mean(name):
    field = Field(frame_of(SCHEDULERS[name]))
    model = open_model(
        field, shape=(2,), schedule=SCHEDULERS[name], sigma_range=(0.02, 80.0), dtype="float64"
    )
    assert max(ideal.worst(model, sigma) for sigma in LEVELS) <= 1e-10


def test_without_a_path_it_is_the_straight_one_with_noise_at_zero():
    model = open_model(Field(frames.matching), shape=(2,), dtype="float64")
    assert max(ideal.worst(model, sigma) for sigma in LEVELS) <= 1e-10


def test_the_other_clock_is_the_rectified_schedule():
    field = Field(frames.rectified)
    model = open_model(field, shape=(2,), schedule=RECTIFIED, dtype="float64")
    assert max(ideal.worst(model, sigma) for sigma in LEVELS) <= 1e-10
    reversed_clock = open_model(field, shape=(2,), dtype="float64")
    assert ideal.worst(reversed_clock, 0.2) > 0.1


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_librarys_own_target_is_our_mean(name, dtype):
    path = AffineProbPath(SCHEDULERS[name])
    net = nn.Linear(2, 2).to(dtype)
    model = open_model(
        lambda x, t: net(x), kind="flow_matching", schedule=path, shape=(2,), sigma_range=(0.02, 80.0)
    )
    t, x = torch.full((5,), 0.4, dtype=dtype), torch.randn(5, 2, dtype=dtype)
    theirs = path.velocity_to_target(net(x), x, t[:, None])
    made = SCHEDULERS[name](t)
    sigma = made.sigma_t / made.alpha_t
    tolerance = 1e-9 if dtype is torch.float64 else 1e-5
    assert_close(model.denoise(x / made.alpha_t[:, None], sigma), theirs, rtol=tolerance, atol=tolerance)


MATCHERS = {
    "independent": (matching.ConditionalFlowMatcher(0.0), 0.02),
    "independent, wide": (matching.ConditionalFlowMatcher(0.1), 0.12),
    "target": (matching.TargetConditionalFlowMatcher(0.01), 0.02),
    "variance preserving": (matching.VariancePreservingConditionalFlowMatcher(0.0), 0.02),
    "variance preserving, wide": (matching.VariancePreservingConditionalFlowMatcher(0.1), 0.12),
}


@pytest.mark.parametrize("name", MATCHERS)
def test_a_matchers_samples_have_its_schedule_and_its_velocity(name):
    matcher, _ = MATCHERS[name]
    schedule = field_schedule(matcher)
    t = torch.tensor([0.1, 0.5, 0.9])
    a, s, a_rate, s_rate = rates(schedule, t)
    data, noise, other = torch.randn(3, 3, 20000, generator=torch.Generator().manual_seed(0))
    for k in range(3):
        clock = t[k].expand(1)
        mean = matcher.compute_mu_t(noise[k : k + 1], data[k : k + 1], clock)
        width = torch.as_tensor(float(matcher.compute_sigma_t(clock)))
        x = mean + width * other[k : k + 1]
        flow = matcher.compute_conditional_flow(noise[k : k + 1], data[k : k + 1], clock, x)
        rest = x - a[k] * data[k]
        assert float(rest.std()) == pytest.approx(float(s[k]), rel=0.02)
        # regress the velocity on data and total noise: its coefficients are the schedule's rates
        basis = torch.stack([data[k], (rest / s[k])[0]], dim=1)
        found = torch.linalg.lstsq(basis, flow[0][:, None]).solution[:, 0]
        assert_close(found, torch.stack([a_rate[k], s_rate[k]]), rtol=0, atol=0.03)


@pytest.mark.parametrize("name", MATCHERS)
def test_the_ideal_field_of_a_matcher_gives_the_exact_mean(name):
    matcher, cleanest = MATCHERS[name]
    schedule = field_schedule(matcher)
    field = ideal.answer(lambda t: rates(schedule, t), "velocity")
    model = open_model(
        lambda t, x, y=None: field(x, t),
        kind="torchcfm",
        schedule=matcher,
        shape=(2,),
        sigma_range=(cleanest, 80.0),
    )
    assert max(ideal.worst(model, sigma) for sigma in LEVELS if sigma >= cleanest) <= 1e-10


@pytest.mark.parametrize(
    "made",
    [matching.ExactOptimalTransportConditionalFlowMatcher, matching.SchrodingerBridgeConditionalFlowMatcher],
)
def test_coupled_noise_and_data_have_no_score(made):
    with pytest.raises(SettingError, match="pairs noise with data"):
        open_model(Field(frames.matching), shape=(2,), schedule=made(0.1))


def test_networks_of_torchcfm_are_asked_in_their_own_order():
    torch.set_default_dtype(torch.float32)
    flat, wide = (
        MLP(dim=2, time_varying=True),
        UNetModelWrapper((1, 8, 8), 32, 1, channel_mult=(1, 1), num_classes=3, class_cond=True),
    )
    torch.set_default_dtype(torch.float64)
    y, sigma = torch.randn(3, 2), 1.0
    model = open_model(flat, kind="torchcfm", shape=(2,), dtype="float64")
    x, t = 0.5 * y, torch.full((3, 1), 0.5)
    velocity = flat.double()(torch.cat([x, t], dim=1))
    assert_close(model.denoise(y, sigma), x + 0.5 * velocity, rtol=1e-9, atol=1e-9)
    bound = open_model(wide, shape=(1, 8, 8), condition=1, dtype="float32")
    picture = torch.randn(2, 64)
    with torch.no_grad():
        output = wide.eval().float()(
            torch.full((2,), 0.5).float(), 0.5 * picture.float().reshape(2, 1, 8, 8), torch.tensor([1, 1])
        )
    expected = (0.5 * picture.float() + 0.5 * output.flatten(1)).double()
    assert_close(bound.denoise(picture, 1.0), expected, rtol=1e-4, atol=1e-4)


def test_a_field_without_shape_or_with_an_odd_condition_is_refused():
    with pytest.raises(SettingError, match="shape"):
        open_model(Field(frames.matching))
    model = open_model(lambda x, t: x, kind="flow_matching", shape=(2,), condition="0")
    with pytest.raises(SettingError, match="where it takes y"):
        model.denoise(torch.zeros(1, 2), 1.0)


def test_a_whole_path_and_its_scheduler_are_the_same():
    a, s = field_schedule(CondOTProbPath())(torch.tensor([0.3]))
    assert_close(torch.cat([a, s]), torch.tensor([0.3, 0.7]))
