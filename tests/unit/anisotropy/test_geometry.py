"""The average geometry: exact forms, laws, the draw by index, and one sentence for every bad input."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.testing import assert_close

from tests.oracles import anisotropy as oracle
from workbench.anisotropy.closed_forms import (
    circulant_geometry,
    colour_geometry,
    exact_geometry,
    readout_geometry,
    rectified_geometry,
    token_geometry,
    transformer_geometry,
)
from workbench.anisotropy.ensemble import ESTIMATORS, make_ensemble
from workbench.anisotropy.geometry import average_geometry, relative_error
from workbench.anisotropy.heads import find_head
from workbench.anisotropy.initial import read_laws
from workbench.anisotropy.levels import ddpm_levels, edm_levels, schedule_levels, weight_of
from workbench.anisotropy.probes import ZERO, data_probe, gaussian_probe, point_probe
from workbench.architectures import (
    Architecture,
    FlatNet,
    PerceptronNet,
    ShiftUNet,
    architecture_of,
    call_without_time,
    load_architecture,
)
from workbench.errors import ModelOutputError, SettingError, ShapeError
from workbench.schedules import RECTIFIED, VE, VP_COSINE

ONE_LEVEL = ddpm_levels().only(-1)  # weight 1.00004


def small(module, shape, name="", **settings):
    return Architecture(name or "small", shape, module, call=call_without_time, **settings)


# ---- noise levels


def test_weights_of_the_ladder_match_the_loop():
    levels = ddpm_levels()
    assert_close(levels.weight.numpy(), oracle.linear_beta_weights(1000), rtol=1e-10, atol=0)
    assert_close(levels.mean_weight, 32.0543, rtol=0, atol=1e-4)
    assert_close(levels.effective_share, 0.00742, rtol=0, atol=1e-5)
    assert_close(float(levels.weight[0]), 1e4, rtol=1e-9, atol=0)
    share = levels.weight.cumsum(0) / levels.weight.sum()
    assert_close(share[[0, 9, 49]], torch.tensor([0.312, 0.767, 0.925]), rtol=0, atol=5e-4)


@pytest.mark.parametrize("prediction", ["eps", "x0", "v", "score"])
def test_weight_is_the_square_of_the_outputs_coefficient_in_the_score(prediction):
    angle = torch.tensor([0.3, 0.9])
    a, s, x = angle.cos(), angle.sin(), torch.tensor(0.7)

    def score(out):
        clean, noise = {
            "eps": ((x - s * out) / a, out),
            "x0": (out, (x - a * out) / s),
            "v": (a * x - s * out, s * x + a * out),
            "score": ((x + s**2 * out) / a, -s * out),
        }[prediction]
        assert_close(a * clean + s * noise, x.expand(2))
        return -noise / s

    assert_close(weight_of(prediction, a, s), (score(torch.ones(2)) - score(torch.zeros(2))) ** 2)


def test_edm_weight_is_the_square_of_c_out_over_sigma_squared():
    levels = edm_levels(7, data_std=0.5)
    sigma = levels.s / levels.a
    c_out = sigma * 0.5 / (sigma**2 + 0.25).sqrt()
    assert_close(levels.weight, (c_out / sigma**2) ** 2)
    assert_close(levels.time, sigma.log() / 4)


def test_a_schedule_of_ones_own_gives_levels():
    levels = schedule_levels(VP_COSINE, "v", count=5)
    assert_close(levels.a**2 + levels.s**2, torch.ones(5))
    bent = schedule_levels(RECTIFIED, "v", count=5)  # v = a eps - s x0 where a^2 + s^2 is not 1
    assert_close(bent.weight, (bent.a / (bent.s * (bent.a**2 + bent.s**2))) ** 2)
    with pytest.raises(SettingError, match="one of eps, x0, v, score"):
        schedule_levels(RECTIFIED, "velocity")
    with pytest.raises(SettingError, match="unbounded clock"):
        schedule_levels(VE)


# ---- heads


@pytest.mark.parametrize(
    ("name", "kind", "core", "copies"),
    [
        ("unet8", "convolution", 64, 1),
        ("unet32-colour", "convolution", 1024, 3),
        ("dit8-2", "token", 16, 4),
        ("mlp64", "linear", 1, 64),
        ("mlp64-rectified", "other", 64, 1),
        ("mlp32-readout", "other", 32, 1),
        ("linear8", "other", 8, 1),
    ],
)
def test_heads_are_found(name, kind, core, copies):
    architecture = load_architecture(name)
    net = FlatNet(architecture).eval()
    head = find_head(net, read_laws(lambda: FlatNet(architecture)))
    assert (head.kind, head.core, head.copies) == (kind, core, copies)
    assert torch.equal(head.layout.sort().values, torch.arange(architecture.dim))


class Folded(nn.Module):
    """A convolution to four channels, unfolded into an image of twice the size."""

    def __init__(self, bias=0.0):
        super().__init__()
        self.inner, self.last = nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(6, 4, 3, padding=1)
        nn.init.constant_(self.last.bias, bias)

    def forward(self, x):
        return nn.functional.pixel_shuffle(
            self.last(self.inner(nn.functional.pixel_unshuffle(x, 2)).tanh()), 2
        )


def test_a_rearranged_convolution_is_a_head_and_a_shifted_one_is_not():
    laws = [read_laws(lambda b=b: FlatNet(small(lambda: Folded(b), (1, 6, 6)))) for b in (0.0, 1.0)]
    kinds = [find_head(FlatNet(small(Folded, (1, 6, 6))), law).kind for law in laws]
    assert kinds == ["convolution", "other"]


class Tied(nn.Module):
    """The last layer is also used before."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(self.layer(x).tanh())


def test_a_layer_used_twice_is_no_head():
    assert (
        find_head(FlatNet(small(Tied, (4,))), read_laws(lambda: FlatNet(small(Tied, (4,))))).kind == "other"
    )


def test_a_named_head_must_be_one():
    with pytest.raises(SettingError, match=r"got head 'net.hidden'|got head"):
        average_geometry(small(lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()), (4,), head="0"), seed=0)


# ---- closed forms against estimates


def test_fixed_readout_is_w_w_transposed_with_the_predicted_error():
    dim, inner, count = 24, 40, 10_000
    weight = torch.randn(dim, inner)
    exact = readout_geometry(weight)
    outputs = torch.randn(count, inner) @ weight.T
    error = float((outputs.T @ outputs / count - exact.core).norm() / exact.core.norm())
    size = exact.core.norm()
    predicted = float(((size**2 + exact.core.trace() ** 2) / count).sqrt() / size)
    assert_close(error, predicted, rtol=0.15, atol=0)


def test_rectified_outputs_single_out_the_constant_direction():
    exact = rectified_geometry(16, 4.7136)
    alpha, beta = oracle.rectified_moments(4.7136)
    values = torch.linalg.eigvalsh(exact.core)
    assert_close(values[:-1], torch.full((15,), alpha), rtol=1e-6, atol=0)
    assert_close(values[-1].item(), alpha + 16 * beta, rtol=1e-6, atol=0)
    assert_close([alpha, beta, alpha + 16 * beta], [1.6066, 0.7502, 13.610], rtol=0, atol=1e-3)


def test_rectified_network_agrees_with_its_closed_form():
    dim, inner = 8, 5
    point = torch.linspace(-1, 1, dim)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(dim, dim)
            nn.init.normal_(self.layer.weight, std=0.7)
            nn.init.normal_(self.layer.bias, std=0.3)

        def forward(self, x):
            return self.layer(x).relu()

    estimate = average_geometry(
        small(Net, (dim,)),
        networks=6000,
        seed=inner,
        probe=point_probe(point),
        levels=ONE_LEVEL,
        dtype=torch.float64,
    )
    exact = rectified_geometry(dim, 0.49 * float(point.square().sum()) + 0.09)
    assert estimate.head == "other"
    assert float((estimate.core - exact.core * ONE_LEVEL.mean_weight).norm() / exact.core.norm()) < 0.04


def test_circular_convolution_of_white_noise():
    kernel = torch.tensor([1.0, 2.0, 1.0]).outer(torch.tensor([1.0, 2.0, 1.0])) / 16
    exact = circulant_geometry(kernel, 16, 16)
    transfer = np.abs(np.fft.fft2(kernel.numpy(), (16, 16))) ** 2
    assert_close(
        torch.linalg.eigvalsh(exact.core), torch.from_numpy(np.sort(transfer.ravel())), rtol=0, atol=2e-14
    )
    noise = torch.randn(4000, 1, 16, 16)
    out = nn.functional.conv2d(nn.functional.pad(noise, (2, 0, 2, 0), mode="circular"), kernel[None, None])
    flat = out.reshape(4000, -1)
    assert float((flat.T @ flat / 4000 - exact.core).norm() / exact.core.norm()) < 0.3


@pytest.mark.parametrize(("mode", "largest", "smallest"), [("nearest", 4.0, 4.0), ("bilinear", 4.0, 0.3103)])
def test_upsampling_white_noise_has_a_quarter_of_the_rank(mode, largest, smallest):
    basis = torch.eye(64).reshape(64, 1, 8, 8)
    options = {"align_corners": False} if mode == "bilinear" else {}
    weight = nn.functional.interpolate(basis, scale_factor=2.0, mode=mode, **options).reshape(64, 256).T
    values = torch.linalg.eigvalsh(readout_geometry(weight).core)
    assert int((values > 1e-10).sum()) == 64
    assert_close(values[[-1, -64]], torch.tensor([largest, smallest]), rtol=0, atol=5e-5)


def test_convolution_with_colour_equals_the_average_over_its_filters():
    class Colour(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(5, 3, 3, padding=1)

        def forward(self, x):
            return self.last(self.first(x).tanh())

    architecture = small(Colour, (3, 4, 4))
    estimate = average_geometry(architecture, networks=2, seed=1, levels=ONE_LEVEL, dtype=torch.float64)
    assert (estimate.head, estimate.estimator, estimate.copies) == ("convolution", "combined", 3)
    laws = read_laws(lambda: FlatNet(architecture))
    drawn = laws.draw(1, range(2), torch.float64)
    core = np.zeros((16, 16))
    for i in range(2):
        bias = drawn["net.first.bias"][i][:, None, None].expand(5, 4, 4)
        core += oracle.convolution_moment(bias.tanh().numpy(), 3, 1 / (3 * 45), 1 / (3 * 45)) / 2
    assert_close(estimate.core, torch.from_numpy(core) * ONE_LEVEL.mean_weight, rtol=1e-7, atol=1e-12)
    exact = colour_geometry(torch.from_numpy(core), (3, 4, 4))
    assert_close(exact.matrix(), torch.kron(torch.eye(3), exact.core))
    assert torch.equal(exact.layout, estimate.layout)


@pytest.mark.parametrize(("patch", "rank", "trace"), [(2, 52, 472.61), (4, 112, 384.00)])
def test_fresh_transformer_at_zero_is_known_without_sampling(patch, rank, trace):
    architecture = load_architecture(f"dit16-{patch}")
    levels = ddpm_levels()
    exact = transformer_geometry((1, 16, 16), patch, 48, levels.mean_weight)
    estimate = average_geometry(architecture, networks=2, seed=0, dtype=torch.float64)
    assert estimate.head == "token"
    assert_close(estimate.core, exact.core, rtol=1e-10, atol=1e-10)
    assert torch.equal(estimate.layout, exact.layout)
    assert_close(exact.trace.value / levels.mean_weight, trace, rtol=0, atol=5e-3)
    values = torch.linalg.eigvalsh(exact.core)
    assert int((values > 1e-10 * values[-1]).sum()) * exact.copies == rank
    core = oracle.transformer_core(16 // patch, 48, patch**2)
    assert_close(exact.core / levels.mean_weight, torch.from_numpy(core), rtol=1e-12, atol=1e-12)


def test_token_readout_puts_every_patch_where_the_network_does():
    architecture = load_architecture("dit8-2")
    net = FlatNet(architecture).eval()
    exact = transformer_geometry((1, 8, 8), 2, 32)
    with torch.no_grad():
        outputs = []
        for _ in range(800):
            nn.init.xavier_uniform_(net.net.leave.weight)
            outputs.append(net(torch.zeros(1, 64), torch.zeros(1))[0])
    flat = torch.stack(outputs)
    assert float((flat.T @ flat / 800 - exact.matrix()).norm() / exact.matrix().norm()) < 0.1


def test_last_layer_average_is_the_kernel_of_the_last_layer():
    architecture = small(lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4)), (4,))
    point = torch.randn(4)
    estimate = average_geometry(
        architecture, networks=2, seed=3, probe=point_probe(point), levels=ONE_LEVEL, dtype=torch.float64
    )
    drawn = read_laws(lambda: FlatNet(architecture)).draw(3, range(2), torch.float64)
    kernels = []
    for i in range(2):
        parameters = {k.removeprefix("net."): v[i] for k, v in drawn.items()}
        net = architecture.build()
        last = {k: v for k, v in parameters.items() if k.startswith("2")}
        rest = {k: v for k, v in parameters.items() if not k.startswith("2")}
        jacobian = torch.func.jacrev(lambda p, r=rest, n=net: functional_call(n, {**r, **p}, (point,)))(last)
        kernels.append(sum(j.flatten(1) @ j.flatten(1).T for j in jacobian.values()))
    expected = sum(kernels) / 2 / (3 * 6) * ONE_LEVEL.mean_weight
    assert_close(estimate.matrix(), expected, rtol=1e-7, atol=1e-12)


def test_time_scale_of_a_shift_bias_is_shared_by_the_tokens():
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(2, 2)

        def forward(self, x):
            return self.last(x.reshape(-1, 3, 2)).flatten(1)

    exact = average_geometry(
        small(Tokens, (6,)), networks=2, seed=0, probe=point_probe(torch.zeros(6)), levels=ONE_LEVEL
    )
    assert exact.head == "token"
    assert_close(exact.core / exact.core[0, 0], torch.ones(3, 3))


# ---- laws


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_all_estimators_have_the_same_mean(estimator):
    architecture = Architecture("tiny", (1, 4, 4), lambda: ShiftUNet(1, 4, 1, 1, groups=2, heads=2))
    levels = schedule_levels(VP_COSINE, count=4, cut=0.2)
    reference = average_geometry(architecture, networks=800, seed=1, levels=levels, dtype=torch.float64)
    estimate = average_geometry(
        architecture, networks=800, seed=2, levels=levels, estimator=estimator, dtype=torch.float64
    )
    assert relative_error(estimate, reference) < 4 * (estimate.error + reference.error)
    assert relative_error(estimate, reference) < 0.35


@pytest.mark.parametrize(("dtype", "tol"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("name", ["unet8-time", "mlp64-rectified"])
def test_any_chunk_size_draws_the_same_networks(name, dtype, tol):
    settings = {"networks": 23, "seed": 5, "dtype": dtype, "probe": gaussian_probe()}
    whole = average_geometry(load_architecture(name), chunk=23, **settings)
    for chunk in (1, 7):
        parts = average_geometry(load_architecture(name), chunk=chunk, **settings)
        assert float((whole.core - parts.core).norm() / whole.core.norm()) <= tol
        assert float((whole.halves - parts.halves).norm() / whole.core.norm()) <= 3 * tol


def test_trace_is_the_mean_square_output_and_g_is_positive():
    architecture = load_architecture("unet8-time")
    geometry = average_geometry(architecture, networks=16, seed=0, estimator="weighted", dtype=torch.float64)
    ensemble = make_ensemble(architecture, levels=ddpm_levels(), probe=ZERO, seed=0, dtype=torch.float64)
    outputs = ensemble.outputs(range(16))
    assert_close(geometry.trace.value, float(outputs.square().sum(1).mean()) * geometry.mean_weight)
    assert_close(geometry.core, geometry.core.T, rtol=0, atol=1e-10)
    assert torch.linalg.eigvalsh(geometry.core)[0] > -1e-9 * geometry.trace.value


def test_a_rotated_output_rotates_the_geometry():
    rotation = torch.linalg.qr(torch.randn(6, 6))[0]

    class Net(nn.Module):
        def __init__(self, turn):
            super().__init__()
            self.layer = nn.Linear(6, 6)
            self.register_buffer("turn", turn)

        def forward(self, x):
            return self.layer(x).relu() @ self.turn.T

    plain, turned = (
        average_geometry(
            small(lambda t=t: Net(t), (6,)),
            networks=50,
            seed=1,
            levels=ONE_LEVEL,
            dtype=torch.float64,
            probe=gaussian_probe(),
        )
        for t in (torch.eye(6), rotation)
    )
    assert_close(turned.core, rotation @ plain.core @ rotation.T, rtol=0, atol=5e-14)


def test_transposing_images_leaves_the_geometry_and_flipping_does_not():
    geometry = average_geometry(load_architecture("unet8"), networks=600, seed=0)
    grid = torch.arange(64).reshape(8, 8)
    size = geometry.core.norm()
    change = {
        name: float((geometry.core[order][:, order] - geometry.core).norm() / size)
        for name, order in (("transpose", grid.T.flatten()), ("flip", grid.flip(1).flatten()))
    }
    error = geometry.error
    assert change["transpose"] < 2 * error
    assert change["flip"] > 2.5 * error


def test_products_and_quotients_agree_with_the_matrix():
    core = torch.randn(6, 6)
    exact = token_geometry(core @ core.T, (2, 4, 6), 2)
    vectors = torch.randn(3, 48)
    matrix = exact.matrix()
    assert_close(exact.apply(vectors), vectors @ matrix)
    assert_close(exact.rayleigh(vectors), (vectors @ matrix * vectors).sum(1) / vectors.square().sum(1))
    assert_close(exact.trace.value, float(matrix.trace()))
    assert_close(exact.participation, float(matrix.trace() ** 2 / matrix.square().sum()))


def test_blind_networks_are_flagged():
    blind, sighted = (
        average_geometry(load_architecture(name), networks=2, seed=0) for name in ("unet8", "unet8-time")
    )
    assert (blind.blind, sighted.blind) == (True, False)


@pytest.mark.parametrize(
    "probe", [gaussian_probe(2.0), data_probe(torch.randn(5, 64)), point_probe(torch.ones(64))], ids=str
)
def test_the_probe_is_part_of_the_answer(probe):
    zero, other = (
        average_geometry(load_architecture("unet8"), networks=40, seed=0, probe=p) for p in (ZERO, probe)
    )
    assert other.probe != zero.probe
    change = float((zero.core - other.core).norm() / zero.core.norm())
    assert change > 1.3 * max(zero.error + other.error, 0.1)


def test_noised_data_carries_the_level():
    points = torch.full((1, 3), 5.0)
    drawn = data_probe(points).draw(0, range(4000), torch.full((4000,), 0.6), torch.full((4000,), 0.8), 3)
    assert_close(drawn.mean().item(), 3.0, rtol=0, atol=0.03)
    assert_close(drawn.std().item(), 0.8, rtol=0, atol=0.03)


class Loud(nn.Module):
    """A network that torch cannot vectorise over."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        out = self.layer(x)
        return out if float(out.sum()) > 1e9 else out * 1.0


def test_a_network_that_cannot_be_vectorised_is_looped():
    geometry = average_geometry(
        small(Loud, (4,)), networks=4, seed=0, probe=gaussian_probe(), levels=ONE_LEVEL
    )
    assert geometry.trace.value > 0


# ---- bad input


def zeroed():
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4))
    nn.init.zeros_(net[2].weight)
    nn.init.zeros_(net[2].bias)
    return net


def test_zero_output_is_an_error_that_offers_reinitialisation():
    architecture = small(zeroed, (4,))
    with pytest.raises(SettingError, match=r"output is zero.*reinitialise='output'"):
        average_geometry(architecture, seed=0)
    mended = average_geometry(architecture, seed=0, reinitialise="output")
    assert (mended.head, mended.estimator) == ("linear", "combined")
    assert mended.trace.value > 0


class Broken(nn.Module):
    """Returns infinity where its first weight is negative."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x) / self.layer.weight.flatten()[0].clamp(min=0.0)


def test_a_non_finite_output_names_the_network():
    with pytest.raises(ModelOutputError, match=r"network \d+ at time"):
        average_geometry(small(Broken, (4,)), seed=0, probe=gaussian_probe())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"networks": 1}, "at least 2"),
        ({"estimator": "best"}, "one of auto"),
        ({"reinitialise": "some"}, "one of none"),
        ({"seed": None}, "exactly one"),
        ({"seed": -1}, "0 or more"),
        ({"levels": edm_levels(3)}, "predicts eps"),
        ({"estimator": "combined"}, "last layer is not linear"),
    ],
)
def test_settings_out_of_range_get_one_sentence(settings, words):
    with pytest.raises(SettingError, match=words):
        average_geometry(load_architecture("mlp64-rectified"), **{"seed": 0, "networks": 4, **settings})


def test_a_geometry_is_not_judged_by_its_own_networks():
    architecture = load_architecture("mlp64")
    first, second = (average_geometry(architecture, networks=4, seed=0, first=f) for f in (0, 3))
    with pytest.raises(SettingError, match="networks in common"):
        relative_error(first, second)
    assert relative_error(first, average_geometry(architecture, networks=4, seed=0, first=4)) > 0
    with pytest.raises(ShapeError, match="64 and 8 rows"):
        relative_error(first, exact_geometry(torch.eye(8), shape=(8,)))


def test_a_core_too_large_for_a_matrix_is_refused_before_anything_runs():
    architecture = architecture_of(
        lambda: nn.Conv2d(1, 1, 3, padding=1), shape=(1, 65, 65), call=call_without_time, name="big"
    )
    with pytest.raises(SettingError, match="SeededGeometry"):
        average_geometry(architecture, seed=0)
    with pytest.raises(SettingError, match="dense G"):
        colour_geometry(torch.eye(1681), (3, 41, 41)).matrix()


def test_cancelling_returns_what_has_been_summed():
    class After:
        count = 0

        def is_set(self):
            self.count += 1
            return self.count > 2

    geometry = average_geometry(load_architecture("mlp64"), networks=1000, seed=0, chunk=10, cancel=After())
    assert geometry.networks == 20


def test_the_perceptron_without_time_is_blind():
    architecture = Architecture("deaf", (4,), lambda: PerceptronNet(4, 8, features=0))
    assert average_geometry(architecture, networks=2, seed=0).blind
