"""Networks of EDM and EDM2: published names and counts, exactness of each wrapper, and the pickles."""

import json
import math
import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

from tests.oracles import frames, tables
from tests.unit.adapters import ideal
from workbench import open_model
from workbench.adapters import convert_edm
from workbench.adapters.edm import build_network, iddpm_schedule
from workbench.errors import DataError, SettingError
from workbench.schedules import VP_LINEAR

SONG = {"model_type": "SongUNet", "model_channels": 128, "channel_mult": [2, 2, 2], "augment_dim": 9}
NCSN = {
    "embedding_type": "fourier",
    "encoder_type": "residual",
    "channel_mult_noise": 2,
    "resample_filter": [1, 3, 3, 1],
}
ADM = {"model_type": "DhariwalUNet", "model_channels": 192, "channel_mult": [1, 2, 3, 4]}
TINY = {
    "SongUNet": {"model_channels": 8, "channel_mult": [1, 2], "num_blocks": 1, "attn_resolutions": [4]},
    "DhariwalUNet": {"model_channels": 8, "channel_mult": [1, 2], "num_blocks": 1, "attn_resolutions": [4]},
}
EDM2_TINY = {
    "class": "Precond",
    "img_resolution": 8,
    "img_channels": 2,
    "label_dim": 3,
    "model_channels": 8,
    "channel_mult": [1, 2],
    "num_blocks": 1,
    "attn_resolutions": [4],
    "channels_per_head": 4,
}


def tiny(**more):
    """Arguments of a tiny network on 8 x 8 pictures."""
    made = {"class": "EDMPrecond", "model_type": "SongUNet", "img_resolution": 8, "img_channels": 1, **more}
    return {**made, **TINY[made["model_type"]]}


@pytest.mark.parametrize(
    ("arguments", "millions"),
    [
        ({"img_resolution": 32, "img_channels": 3, **SONG}, 55.7),
        ({"img_resolution": 64, "img_channels": 3, "label_dim": 1000, **ADM}, 295.9),
        (
            {
                "class": "Precond",
                "img_resolution": 64,
                "img_channels": 4,
                "label_dim": 1000,
                "model_channels": 128,
            },
            124.7,
        ),
        (
            {
                "class": "Precond",
                "img_resolution": 64,
                "img_channels": 4,
                "label_dim": 1000,
                "model_channels": 192,
            },
            280.2,
        ),
        (
            {
                "class": "Precond",
                "img_resolution": 64,
                "img_channels": 4,
                "label_dim": 1000,
                "model_channels": 448,
            },
            1523.2,
        ),
    ],
    ids=["DDPM++ 32", "ADM 64", "EDM2-XS", "EDM2-S", "EDM2-XXL"],
)
def test_published_configurations_have_the_published_number_of_weights(arguments, millions):
    with torch.device("meta"):
        network = build_network(arguments)
    count = sum(weight.numel() for weight in network.parameters())
    assert count / 1e6 == pytest.approx(millions, abs=0.05)


def test_names_of_the_weights_are_the_published_ones():
    song = set(build_network(tiny(**NCSN, label_dim=3)).state_dict())
    assert {
        "map_noise.freqs",
        "map_label.weight",
        "map_layer0.bias",
        "enc.8x8_conv.weight",
        "enc.8x8_block0.affine.weight",
        "enc.4x4_down.conv0.resample_filter",
        "enc.4x4_down.skip.resample_filter",
        "enc.4x4_aux_residual.weight",
        "enc.4x4_block0.qkv.weight",
        "enc.4x4_block0.skip.weight",
        "dec.4x4_in0.proj.bias",
        "dec.4x4_in1.norm1.weight",
        "dec.8x8_up.conv0.weight",
        "dec.8x8_block1.norm0.weight",
        "dec.8x8_aux_norm.weight",
        "dec.8x8_aux_conv.bias",
    } <= song
    adm = set(build_network(tiny(model_type="DhariwalUNet", label_dim=3)).state_dict())
    assert {"map_label.weight", "out_norm.weight", "out_conv.bias", "dec.4x4_block0.qkv.weight"} <= adm
    assert "map_label.bias" not in adm
    new = set(build_network(EDM2_TINY).state_dict())
    assert {
        "out_gain",
        "emb_fourier.phases",
        "emb_label.weight",
        "enc.8x8_block0.emb_gain",
        "enc.4x4_block0.attn_qkv.weight",
        "dec.8x8_block0.conv_skip.weight",
        "out_conv.weight",
    } <= new


class Ideal(torch.nn.Module):
    """A network whose output is that of a function (x, t)."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, x, noise, labels):
        return self.answer(x, noise)


def plane(kind, answer, **more):
    """A preconditioning around an ideal network on points of two entries; the picture is a channel pair."""
    arguments = {"class": kind, "img_resolution": 1, "img_channels": 2, **more}
    return open_model(
        Ideal(answer), kind="edm", arguments=arguments, sigma_range=(0.002, 100.0), dtype="float64"
    )


LEVELS = (0.02, 0.2, 1.0, 10.0, 80.0)


@pytest.mark.parametrize("kind", ["EDMPrecond", "Precond"])
@pytest.mark.parametrize("std", [0.5, 1.3])
def test_edm_and_edm2_give_the_exact_mean(kind, std):
    def answer(x, noise):
        sigma = torch.exp(4 * noise)
        y = x.flatten(1) * torch.sqrt(sigma**2 + std**2)[:, None]
        return frames.edm_output(ideal.TABLES, y, sigma, std).reshape(x.shape)

    model = plane(kind, answer, sigma_data=std)
    assert max(ideal.worst(model, sigma) for sigma in LEVELS) <= 1e-10


def test_the_vp_wrapper_gives_the_exact_mean():
    answer = ideal.answer(frames.linear_betas, "eps", clock=lambda t: t / 999)
    assert max(ideal.worst(plane("VPPrecond", answer), sigma) for sigma in LEVELS) <= 1e-10


def test_the_ve_wrapper_gives_the_exact_mean():
    minus = ideal.answer(frames.exploding, "eps", clock=lambda t: 2 * torch.exp(t))
    model = plane("VEPrecond", lambda x, t: -minus(x, t))
    assert max(ideal.worst(model, sigma) for sigma in LEVELS) <= 1e-10


def test_the_iddpm_wrapper_gives_the_exact_mean_at_its_steps_and_leaves_the_variance():
    schedule = iddpm_schedule({})
    a, _ = schedule(torch.arange(1000.0))
    clean = ideal.answer(tables.frame_of(a**2), "eps")
    model = plane("iDDPMPrecond", lambda x, t: torch.cat([clean(x, t), 0 * x], dim=1))
    for step in (0, 10, 500, 900):
        a, s = schedule(torch.tensor(float(step)))
        assert ideal.worst(model, float(s / a)) <= 1e-9


def test_the_iddpm_table_is_the_published_cosine():
    a, _ = iddpm_schedule({})(torch.arange(1000.0))
    share = [math.sin(math.pi / 2 * j / 1000 / 1.008) ** 2 for j in range(1001)]
    expected = torch.tensor([share[999 - i] / share[1000] for i in (0, 100, 500)])
    assert_close(a[[0, 100, 500]] ** 2, expected, rtol=1e-9, atol=0)


def test_the_default_vp_is_the_shared_schedule():
    model = plane("VPPrecond", lambda x, t: x)
    t = torch.linspace(0.01, 1, 7)
    assert_close(torch.stack(model.schedule(t)), torch.stack(VP_LINEAR(t)))


def export(folder, arguments, prefix="model."):
    """Weights of a random network with their arguments beside them."""
    torch.manual_seed(0)
    network = build_network(arguments)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.05 * torch.randn_like(weight))  # so that no gain is zero
    weights = {prefix + name: one.float().contiguous() for name, one in network.state_dict().items()}
    save_file(weights, folder / "net.safetensors")
    (folder / "net.json").write_text(json.dumps({"kind": "edm", "arguments": arguments}))
    return network


CASES = {
    "DDPM++": tiny(),
    "NCSN++": tiny(**NCSN),
    "skips": tiny(encoder_type="skip", decoder_type="skip"),
    "ADM": tiny(model_type="DhariwalUNet", label_dim=3),
    "iDDPM": tiny(**{"class": "iDDPMPrecond"}, model_type="DhariwalUNet"),
    "EDM2": EDM2_TINY,
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("by", ["net.safetensors", "net.json", "."])
def test_an_export_opens_with_every_derivative(tmp_path, case, by):
    arguments = CASES[case]
    network = export(tmp_path, arguments, "unet." if case == "EDM2" else "model.")
    model = open_model(tmp_path / by, dtype="float64", condition=1 if arguments.get("label_dim") else None)
    assert model.frame.shape == (arguments["img_channels"], 8, 8)
    y, v, w = torch.randn(3, 2, model.frame.dim)
    forward = torch.func.jvp(lambda p: model.denoise(p, 0.7), (y,), (v,))[1]
    backward = torch.func.vjp(lambda p: model.denoise(p, 0.7), y)[1](w)[0]
    assert_close((forward * w).sum(), (backward * v).sum(), rtol=1e-8, atol=1e-8)
    assert next(iter(network.parameters())).requires_grad


def test_a_class_changes_the_answer_and_a_missing_one_is_asked_for(tmp_path):
    export(tmp_path, tiny(model_type="DhariwalUNet", label_dim=3))
    y = torch.randn(2, 64)
    first, second = (open_model(tmp_path, condition=c, classes=("a", "b", "c")) for c in ("a", 1))
    assert not torch.allclose(first.denoise(y, 1.0), second.denoise(y, 1.0))
    assert first.frame.condition == "a"
    with pytest.raises(SettingError, match="trained without dropping"):
        open_model(tmp_path)
    with pytest.raises(SettingError, match="below 3"):
        open_model(tmp_path, condition=3)
    export(tmp_path, tiny(model_type="DhariwalUNet", label_dim=3, label_dropout=0.1))
    assert open_model(tmp_path).denoise(y, 1.0).shape == y.shape


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"class": "Strange"}, SettingError, "class 'Strange'"),
        ({"img_channels": None}, SettingError, "without img_channels"),
        ({"model_type": "Net"}, SettingError, "model_type 'Net'"),
        ({"num_blocks": 2}, DataError, "do not fit their arguments"),
        ({"colour": 1}, SettingError, "those of the training"),
    ],
)
def test_arguments_that_do_not_fit_are_named(tmp_path, change, error, words):
    export(tmp_path, tiny())
    facts = {"kind": "edm", "arguments": {**tiny(), **change}}
    (tmp_path / "net.json").write_text(json.dumps(facts))
    with pytest.raises(error, match=words):
        open_model(tmp_path / "net.safetensors")


def test_weights_without_arguments_are_recognised_and_asked_for(tmp_path):
    export(tmp_path, tiny())
    (tmp_path / "net.json").unlink()
    with pytest.raises(SettingError, match="without its arguments"):
        open_model(tmp_path / "net.safetensors")


class EDMPrecond:
    """Stands for a pickled network that remembers how it was made."""

    def __init__(self):
        self.init_args = (8, 1)
        rest = {
            key: value
            for key, value in tiny().items()
            if key not in ("img_resolution", "img_channels", "class")
        }
        self.init_kwargs = {**rest, "callback": print}

    def state_dict(self):
        torch.manual_seed(0)
        return {f"model.{name}": one for name, one in build_network(tiny()).state_dict().items()}


def test_a_pickle_is_refused_unless_it_is_trusted(tmp_path, capsys):
    path = tmp_path / "edm.pkl"
    path.write_bytes(pickle.dumps({"ema": EDMPrecond()}))
    with pytest.raises(DataError, match=r"would run code on loading.*convert_edm"):
        open_model(path)
    with pytest.raises(SettingError, match="--trust"):
        convert_edm.convert_pickle(path, tmp_path / "out")
    with pytest.raises(SystemExit) as left:
        convert_edm.main([str(path), str(tmp_path / "out")])
    assert left.value.code == 2
    assert "--trust" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    convert_edm.main([str(path), str(tmp_path / "out"), "--trust"])
    converted, direct = open_model(tmp_path / "out"), open_model(path, trust=True)
    y = torch.randn(2, 64)
    assert_close(converted.denoise(y, 1.0), direct.denoise(y, 1.0), rtol=0, atol=0)
    assert direct.frame.name == "edm"


def test_a_pickle_of_something_else_is_no_network(tmp_path):
    path = tmp_path / "list.pkl"
    path.write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(SettingError, match="a pickled list"):
        convert_edm.convert_pickle(path, tmp_path / "out", trust=True)
