"""Laws of every score model: worlds, shipped networks, and one mixture in every convention."""

import inspect
import math

import pytest
import torch
from torch.testing import assert_close

from tests.oracles import frames
from tests.oracles.worlds import G3
from workbench.adapters.wrap import wrap
from workbench.cards import MODELS
from workbench.errors import ModelOutputError, SettingError, ShapeError
from workbench.models import ExactScore, ScoreModel, check_finite, check_points, fields_along, noise, score
from workbench.schedules import (
    LINEAR,
    OU,
    RECTIFIED,
    SCHEDULES,
    TRIGONOMETRIC,
    VE,
    VP_COSINE,
    VP_LINEAR,
    Schedule,
)
from workbench.worlds import LANDSCAPES, WORLDS, load_world
from workbench.zoo import load_model

DENSITIES = tuple(name for name in WORLDS if name not in LANDSCAPES)


NETWORKS = MODELS
EVERY = DENSITIES + NETWORKS
TABLES = tuple(torch.tensor(part, dtype=torch.float64) for part in G3)
UNPUBLISHED = Schedule(
    "unpublished", lambda t: (torch.exp(-(t**2)) / (1 + t), t + t**2 / 3), t_noise=3.0, t_data=0.0
)
CONVENTIONS = {  # name: (schedule, the same by hand, prediction, largest sigma)
    "vp linear eps": (VP_LINEAR, frames.linear_betas, "eps", 150.0),
    "vp linear v": (VP_LINEAR, frames.linear_betas, "v", 150.0),
    "vp linear score": (VP_LINEAR, frames.linear_betas, "score", 150.0),
    "vp cosine eps": (VP_COSINE, frames.cosine, "eps", 100.0),
    "vp cosine v": (VP_COSINE, frames.cosine, "v", 100.0),
    "vp cosine x0": (VP_COSINE, frames.cosine, "x0", 100.0),
    "vp cosine velocity": (VP_COSINE, frames.cosine, "velocity", 100.0),
    "ve eps": (VE, frames.exploding, "eps", 100.0),
    "ve score": (VE, frames.exploding, "score", 100.0),
    "edm denoiser": (VE, frames.exploding, "x0", 100.0),
    "rectified flow": (RECTIFIED, frames.rectified, "velocity", 100.0),
    "flow matching": (LINEAR, frames.matching, "velocity", 100.0),
    "flow matching eps": (LINEAR, frames.matching, "eps", 100.0),
    "unpublished eps": (UNPUBLISHED, frames.unpublished, "eps", 100.0),
    "unpublished v": (UNPUBLISHED, frames.unpublished, "v", 100.0),
    "unpublished velocity": (UNPUBLISHED, frames.unpublished, "velocity", 100.0),
    "unpublished score": (UNPUBLISHED, frames.unpublished, "score", 100.0),
}
LEVELS = (0.02, 0.05, 0.2, 0.7, 2.0, 10.0, 60.0, 100.0)


def _model(name):
    return load_world(name) if name in DENSITIES else load_model(name, dtype=torch.float64)


@pytest.fixture(params=EVERY)
def model(request):
    return _model(request.param)


@pytest.fixture
def points(model, generator):
    return model.frame.data_std * torch.randn(6, model.frame.dim, generator=generator)


def _wrapped(convention):
    schedule, by_hand, prediction, highest = CONVENTIONS[convention]

    def network(x, t, condition):
        assert condition is None
        return frames.ideal_output(TABLES, by_hand, x, t, prediction)

    return wrap(network, prediction=prediction, schedule=schedule, shape=(2,), sigma_range=(0.02, highest))


@pytest.mark.parametrize("sigma", LEVELS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_one_mixture_in_every_convention_has_one_denoiser(convention, sigma, generator):
    world = load_world("g3")
    y = world.sample(30, generator=generator, sigma=sigma)
    exact = world.denoise(y, sigma)
    found = _wrapped(convention).denoise(y, sigma)
    relative = (found - exact).norm(dim=-1) / exact.norm(dim=-1)
    assert float(relative.max()) <= 1e-10


@pytest.mark.parametrize("sigma", LEVELS)
@pytest.mark.parametrize("data_std", [0.5, 2.0])
def test_the_inner_network_of_edm_has_it_too(data_std, sigma, generator):
    world = load_world("g3")

    def network(x, c_noise, condition):
        level = torch.exp(4.0 * c_noise)
        return frames.edm_output(TABLES, x * torch.sqrt(level**2 + data_std**2)[:, None], level, data_std)

    wrapped = wrap(
        network, prediction="edm", schedule=VE, shape=(2,), sigma_range=(0.002, 200.0), data_std=data_std
    )
    y = world.sample(30, generator=generator, sigma=sigma)
    exact = world.denoise(y, sigma)
    relative = (wrapped.denoise(y, sigma) - exact).norm(dim=-1) / exact.norm(dim=-1)
    assert float(relative.max()) <= 1e-10


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_wrapped_models_are_differentiable_and_take_a_level_for_each_point(convention, generator):
    world, wrapped = load_world("g3"), _wrapped(convention)
    y = world.sample(5, generator=generator, sigma=0.5)
    sigma = torch.tensor([0.05, 0.3, 1.0, 5.0, 30.0])
    assert_close(wrapped.denoise(y, sigma), world.denoise(y, sigma), rtol=1e-9, atol=1e-9)
    direction = torch.ones_like(y)
    found = torch.func.jvp(lambda p: wrapped.denoise(p, 0.7), (y,), (direction,))[1]
    exact = torch.func.jvp(lambda p: world.denoise(p, 0.7), (y,), (direction,))[1]
    assert_close(found, exact, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("schedule", [s for s in SCHEDULES if s is not VE], ids=lambda s: s.name)
def test_velocity_and_score_along_a_schedule_are_those_of_its_ideal_networks(schedule, generator):
    by_hand = {
        "linear": frames.matching,
        "rectified": frames.rectified,
        "vp_linear": frames.linear_betas,
        "vp_cosine": frames.cosine,
        "trigonometric": lambda t: (*frames.cosine(1 - t)[:2], *(-v for v in frames.cosine(1 - t)[2:])),
        "ou": lambda t: (t, torch.sqrt(1 - t**2), torch.ones_like(t), -t / torch.sqrt(1 - t**2)),
    }[schedule.name]
    world = load_world("g3")
    t = torch.full((12,), 0.35)
    x = torch.randn(12, 2, generator=generator)
    b, s = fields_along(world, x, t, schedule)
    assert_close(b, frames.ideal_output(TABLES, by_hand, x, t, "velocity"), rtol=1e-10, atol=1e-11)
    assert_close(s, frames.ideal_output(TABLES, by_hand, x, t, "score"), rtol=1e-10, atol=1e-11)


def test_every_model_plays_the_role(model):
    assert isinstance(model, ScoreModel)
    assert 0.0 <= model.frame.sigma_min < model.frame.sigma_max
    assert model.frame.data_std > 0


@pytest.mark.parametrize("sigma", [0.1, 1.0])
def test_score_and_noise_are_the_denoiser_in_other_words(model, points, sigma):
    clean = model.denoise(points, sigma)
    assert_close(score(model, points, sigma), (clean - points) / sigma**2, rtol=1e-7, atol=1e-9)
    assert_close(noise(model, points, sigma), (points - clean) / sigma, rtol=1e-9, atol=1e-12)


def test_a_batch_equals_a_loop_and_a_batch_of_one_keeps_its_axis(model, points):
    whole = model.denoise(points, 0.4)
    single = torch.stack([model.denoise(row, 0.4) for row in points])
    assert_close(whole, single, rtol=1e-9, atol=1e-11)
    assert model.denoise(points[:1], 0.4).shape == (1, model.frame.dim)
    assert_close(
        model.denoise(points.reshape(2, 3, -1), 0.4).reshape(points.shape), whole, rtol=1e-9, atol=1e-11
    )


def test_a_level_for_each_point(model, points):
    sigma = torch.linspace(0.1, 3.0, len(points))
    rows = torch.stack([model.denoise(row, float(level)) for row, level in zip(points, sigma, strict=True)])
    assert_close(model.denoise(points, sigma), rows, rtol=1e-9, atol=1e-11)


def test_derivatives_flow_forward_backward_and_vectorised(model, points):
    direction = torch.ones_like(points)

    def field(y):
        return model.denoise(y, 0.5)

    forward = torch.func.jvp(field, (points,), (direction,))[1]
    step = 1e-5
    quotient = (field(points + step * direction) - field(points - step * direction)) / (2 * step)
    assert_close(forward, quotient, rtol=1e-5, atol=1e-7)
    both = torch.func.vmap(lambda v: torch.func.jvp(field, (points,), (v,))[1])(
        torch.stack([direction, -direction])
    )
    assert_close(both, torch.stack([forward, -forward]), rtol=1e-9, atol=1e-11)
    y = points.clone().requires_grad_()
    (backward,) = torch.autograd.grad((field(y) * direction).sum(), y)
    assert backward.shape == points.shape
    level = torch.tensor(0.5, requires_grad=True)
    (slope,) = torch.autograd.grad(model.denoise(points, level).sum(), level)
    assert torch.isfinite(slope)


def test_single_precision_agrees_and_is_returned_as_such(model, points):
    found = model.denoise(points.float(), 0.5)
    assert found.dtype == torch.float32
    assert_close(found.double(), model.denoise(points, 0.5), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", DENSITIES)
def test_exact_models_have_symmetric_jacobians_and_are_themselves_without_noise(name, generator):
    world = load_world(name)
    assert isinstance(world, ExactScore)
    y = world.sample(5, generator=generator)
    assert_close(world.denoise(y, 0.0), y, rtol=1e-14, atol=1e-14)
    jacobian = torch.func.vmap(torch.func.jacfwd(lambda p: world.denoise(p, 0.3)))(y)
    assert_close(jacobian, jacobian.mT, rtol=1e-9, atol=1e-11)
    assert (torch.linalg.eigvalsh(0.5 * (jacobian + jacobian.mT)) > -1e-12).all()


@pytest.mark.parametrize("name", DENSITIES)
def test_exact_models_forget_everything_in_infinite_noise(name, generator):
    world = load_world(name)
    mean = world.sample(100_000, generator=generator).mean(0)
    y = 1e8 * torch.randn(3, 2, generator=generator)
    assert_close(world.denoise(y, 1e8), mean.expand(3, 2), rtol=0, atol=0.05)


def test_levels_outside_the_range_are_refused():
    wrapped = wrap(lambda x, t, c: x, prediction="x0", schedule=LINEAR, shape=(2,), sigma_range=(0.02, 80.0))
    with pytest.raises(
        SettingError, match=r"got sigma 0\.001 for wrapped; expected a noise level from 0\.02 to 80"
    ):
        wrapped.denoise(torch.zeros(1, 2), 0.001)
    with pytest.raises(SettingError, match=r"got sigma 0 for wrapped"):
        wrapped.denoise(torch.zeros(1, 2), 0)
    with pytest.raises(SettingError, match=r"try sigma=80"):
        wrapped.denoise(torch.zeros(1, 2), 1e3)


@pytest.mark.parametrize(
    ("schedule", "low", "high"), [(VP_LINEAR, 0.004, 152.2), (LINEAR, 0.004, 160.0), (VE, 0.004, 160.0)]
)
def test_default_range_is_what_the_schedule_reaches(schedule, low, high):
    frame = wrap(lambda x, t, c: x, prediction="x0", schedule=schedule, shape=(2,)).frame
    assert frame.sigma_min == pytest.approx(low)
    assert frame.sigma_max == pytest.approx(high, rel=1e-3)


def test_the_module_sees_images_its_own_time_and_its_condition():
    seen = {}

    def network(x, t, condition):
        seen.update(shape=tuple(x.shape), t=float(t[0]), condition=condition)
        return x

    wrapped = wrap(
        network,
        prediction="v",
        schedule=RECTIFIED,
        shape=(1, 3, 4),
        told=lambda t: 1000 * t,
        dtype=torch.float32,
    ).given(7, "bag")
    clean = wrapped.denoise(torch.zeros(2, 5, 12), 1.0)
    assert clean.shape == (2, 5, 12)
    assert clean.dtype == torch.float64
    assert seen == {"shape": (10, 1, 3, 4), "t": 500.0, "condition": 7}
    assert str(wrapped.frame) == "wrapped given bag"
    assert wrapped.given(None).frame.condition is None


def test_bad_wraps_are_one_sentence():
    def same(x, t, c):
        return x

    with pytest.raises(SettingError, match="got prediction 'noise'; expected one of eps, v, x0"):
        wrap(same, prediction="noise", schedule=LINEAR, shape=(2,))
    with pytest.raises(SettingError, match="the schedule 've'"):
        wrap(same, prediction="edm", schedule=OU, shape=(2,))
    with pytest.raises(SettingError, match="smallest < largest"):
        wrap(same, prediction="eps", schedule=TRIGONOMETRIC, shape=(2,), sigma_range=(2.0, 1.0))
    double = wrap(lambda x, t, c: torch.cat([x, x], 1), prediction="eps", schedule=LINEAR, shape=(3, 4, 4))
    with pytest.raises(ShapeError, match="learned variance"):
        double.denoise(torch.zeros(1, 48), 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"module": None}, "module=None; expected a callable"),
        ({"schedule": "ve"}, "schedule='ve'; expected a Schedule; try schedule_of"),
        ({"schedule": None}, "schedule=None; expected a Schedule"),
        ({"shape": ()}, "shape=.*; expected positive lengths"),
        ({"shape": (3, 0)}, "shape=.*; expected positive lengths"),
        ({"sigma_range": (0.0, math.inf)}, "sigma_range .0, inf.; expected .* both finite"),
        ({"sigma_range": (1.0,)}, "sigma_range=.*; expected a pair"),
        ({"sigma_range": ()}, "sigma_range=.*; expected a pair"),
        ({"data_std": 0.0}, "data_std=0.0; expected a finite number above 0"),
        ({"data_std": math.nan}, "data_std=nan; expected"),
        ({"value_range": (1.0, 0.0)}, "value_range .1, 0.; expected lowest < highest"),
    ],
    ids=str,
)
def test_settings_of_a_wrap_are_refused_at_construction(change, message):
    settings = {"module": lambda x, t, c: x, "schedule": LINEAR, "shape": (2,)} | change
    with pytest.raises(SettingError, match=f"^got {message}"):
        inspect.unwrap(wrap)(settings.pop("module"), prediction="x0", **settings)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (lambda x: None, ModelOutputError, "an output of NoneType from the module of wrapped"),
        (lambda x: (x, x), ModelOutputError, "an output of tuple from"),
        (lambda x: x.numpy(), ModelOutputError, "an output of ndarray from"),
        (lambda x: x.to(torch.complex128), ModelOutputError, "an output of torch.complex128 from"),
        (lambda x: x.long(), ModelOutputError, "an output of torch.int64 from"),
        (
            lambda x: x[:1],
            ShapeError,
            "an output of shape .1, 2. for an input of shape .4, 2.; .* a module",
        ),
    ],
    ids=["none", "tuple", "numpy", "complex", "integer", "batch"],
)
def test_an_odd_output_is_named(answer, error, message):
    wrapped = wrap(lambda x, t, c: answer(x), prediction="x0", schedule=LINEAR, shape=(2,))
    with pytest.raises(error, match=f"^got {message}"):
        wrapped.denoise(torch.zeros(4, 2), 0.5)


def test_points_are_checked_at_the_door():
    with pytest.raises(ShapeError, match=r"got points of shape \(3,\); expected a last axis of 2"):
        check_points(torch.zeros(3), 2)
    with pytest.raises(ShapeError, match=r"non-finite entries, the first at \(0, 1\)"):
        check_points(torch.tensor([[0.0, torch.nan]]), 2)
    with pytest.raises(ShapeError, match="floating"):
        check_points(torch.zeros(2, dtype=torch.int64), 2)
    with pytest.raises(ModelOutputError, match=r"at image 1, sigma 0\.3"):
        check_finite(torch.tensor([[0.0], [torch.nan]]), model="net", sigma=0.3)
