"""The door: what a source is taken for, what is refused in which words; nothing is run or fetched."""

import json
import os
import pickle
import socket
import sys

import diffusers
import pytest
import torch
import zuko
from safetensors.torch import save_file
from torch import nn
from torch.testing import assert_close

from tests.oracles import frames
from tests.unit.adapters import ideal
from widgets.figures.status import status_line
from workbench import invert, load_model, open_model, open_subject
from workbench.adapters.dit_nets import Sizes, Transformer
from workbench.adapters.files import read_plain, read_tensors
from workbench.adapters.tables import table_schedule
from workbench.errors import DataError, MissingExtra, SettingError
from workbench.models import ScoreModel
from workbench.schedules import LINEAR, sigma_of, time_of


def test_shipped_names_are_the_shipped_models():
    model = open_model("digits", condition=3, guidance=1.5)
    expected = load_model("digits", condition=3, guidance=1.5)
    y = torch.randn(2, 64, dtype=torch.float32)
    assert_close(model.denoise(y, 1.0), expected.denoise(y, 1.0), rtol=0, atol=0)
    assert "guidance 1.5" in str(model.frame)


def test_a_name_on_a_hub_is_no_folder_and_nothing_is_fetched(monkeypatch):
    def refuse(*arguments, **settings):
        raise AssertionError("a connection was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    for text in ("google/ddpm-cifar10-32", "https://huggingface.co/google/ddpm-cifar10-32"):
        with pytest.raises(
            SettingError, match=r"hf download google/ddpm-cifar10-32 --local-dir ddpm-cifar10-32"
        ):
            open_model(text)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nirvana", "no file or folder"),
        ("./a/b", "no file or folder"),
        ("https://example.org/model.pt", "the address"),
        ("a\0b", "no file or folder"),
        (7, "a source of type int"),
    ],
)
def test_what_is_not_there_is_one_sentence(source, words):
    with pytest.raises(SettingError) as caught:
        open_model(source)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize(
    "name", ["net.pkl", "net.pickle", "net.pt", "net.pth", "net.ckpt", "net.bin", "net.tar"]
)
@pytest.mark.parametrize("protocol", ["bare", "torch"])
def test_a_pickle_never_runs(tmp_path, name, protocol):
    path, witness = tmp_path / name, tmp_path / "ran"
    if protocol == "bare":
        path.write_bytes(pickle.dumps({"weight": Trap(witness)}))
    else:
        torch.save({"weight": Trap(witness)}, path)
    with pytest.raises(DataError, match=r"would run code on loading|unreadable weights"):
        open_model(path)
    assert not witness.exists()
    pickle.loads(pickle.dumps(Trap(witness)))
    assert witness.exists()  # the trap works where it is let in


def test_a_whole_pickled_network_is_refused_with_the_way_to_convert_it(tmp_path):
    torch.save(nn.Linear(2, 2), tmp_path / "net.pt")
    with pytest.raises(DataError, match=r"would run code on loading.*save_file"):
        open_model(tmp_path / "net.pt")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_torchscript_archive_is_code(tmp_path):
    torch.jit.script(nn.Linear(2, 2)).save(tmp_path / "net.pt")
    with pytest.raises(DataError, match="TorchScript"):
        open_model(tmp_path / "net.pt")


def test_damaged_and_foreign_files_are_one_sentence(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"nonsense")
    (tmp_path / "b.pt").write_bytes(b"nonsense")
    (tmp_path / "c.txt").write_text("text")
    save_file({"something": torch.zeros(2)}, tmp_path / "d.safetensors")
    torch.save([1, 2], tmp_path / "e.pt")
    (tmp_path / "empty").mkdir()
    for name, words in (
        ("a.safetensors", "unreadable weights"),
        ("b.pt", "code on loading|unreadable weights"),
        ("c.txt", "safetensors, a torch file of tensors, or ONNX"),
        ("d.safetensors", "with tensors something"),
        ("e.pt", "without a set of named tensors"),
        ("empty", "with nothing"),
    ):
        with pytest.raises((DataError, SettingError), match=words) as caught:
            open_model(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_weights_under_a_key_are_found_in_the_order_of_preference(tmp_path):
    content = {"model": {"w": torch.zeros(1)}, "ema": {"w": torch.ones(1)}, "step": 3}
    torch.save(content, tmp_path / "a.pt")
    assert float(read_tensors(tmp_path / "a.pt")["w"]) == 1.0
    assert read_plain(tmp_path / "a.pt")["step"] == 3


class Net(nn.Module):
    """A network of (x, t) in memory."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.answer = ideal.answer(frames.matching, "velocity")

    def forward(self, x, t):
        return self.weight * self.answer(x, t)


def test_any_network_opens_by_what_it_predicts_and_stays_as_it_is():
    network = Net().train()
    model = open_model(network, prediction="velocity", schedule="linear", shape=(2,), dtype="float64")
    assert max(ideal.worst(model, sigma) for sigma in (0.02, 0.5, 5.0, 80.0)) <= 1e-10
    assert network.training
    assert network.weight.requires_grad
    assert model.frame.name == "Net"


def test_a_network_in_memory_must_say_what_it_is():
    with pytest.raises(SettingError, match="without prediction, schedule, shape"):
        open_model(Net())
    with pytest.raises(SettingError, match="None"):
        open_model(Net(), prediction="velocity", schedule=LINEAR, shape=(2,), condition=1).denoise(
            torch.zeros(1, 2), 1.0
        )


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (dict(kind="magic"), "kind='magic'"),
        (dict(prediction="noise"), "prediction='noise'"),
        (dict(schedule="cosine"), "schedule 'cosine'"),
        (dict(guidance=float("nan")), "guidance"),
        (dict(batch=0), "batch=0"),
        (dict(dtype="float8"), "dtype='float8'"),
        (dict(device="warp"), "device 'warp'"),
        (dict(data_std=0.0), "data_std=0.0"),
        (dict(guidance=1.0), "guidance 1 without a condition"),
    ],
)
def test_settings_without_use_are_refused(setting, words):
    base = dict(prediction="velocity", schedule=LINEAR, shape=(2,))
    with pytest.raises(SettingError) as caught:
        open_model(lambda x, t: x, **{**base, **setting})
    assert words in str(caught.value)


def test_batches_and_null_conditions_change_nothing_but_the_calls():
    seen = []

    def network(x, t, condition):
        seen.append((len(x), condition))
        return x if condition == "null" else 2 * x

    settings = dict(prediction="x0", schedule=LINEAR, shape=(2,), null="null")
    y = torch.randn(7, 2)
    whole, parts = open_model(network, **settings), open_model(network, **settings, batch=3)
    assert_close(parts.denoise(y, 1.0), whole.denoise(y, 1.0), rtol=0, atol=0)
    assert seen == [(3, "null"), (3, "null"), (1, "null"), (7, "null")]


def test_guidance_is_declared_where_figures_look():
    model = open_model(
        lambda x, t, c: x * (0 if c is None else c),
        prediction="x0",
        schedule=LINEAR,
        shape=(2,),
        condition=1,
        guidance=3.0,
    )
    y = torch.ones(1, 2)
    assert_close(model.denoise(y, 1.0), 4 * 0.5 * y)
    assert str(model.frame) == "<lambda> given class 1, guidance 3"
    assert model.given(2).frame.guidance == 0.0
    loop = invert(model, y, steps=4)
    assert "guidance 3" in status_line(loop.report, loop.provenance)
    assert "no guidance" in status_line(loop.report, invert(model.given(2), y, steps=4).provenance)


@pytest.mark.parametrize(
    ("library", "kind", "name"),
    [
        ("diffusers", None, "model_index.json"),
        ("onnx", "onnx", "net.onnx"),
        ("zuko", "zuko", "net.safetensors"),
    ],
)
def test_a_missing_library_names_the_extra_that_brings_it(tmp_path, monkeypatch, library, kind, name):
    (tmp_path / name).write_text("{}")
    if library == "diffusers":
        (tmp_path / "unet").mkdir()
        (tmp_path / "unet" / "config.json").write_text("{}")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=r"pip install 'latent-workbench\[models\]'"):
        open_model(tmp_path if library == "diffusers" else tmp_path / name, kind=kind)


def test_a_json_beside_the_weights_holds_the_settings(tmp_path):
    made = network_of(8)
    save_file(
        {name: one.contiguous() for name, one in made.state_dict().items()}, tmp_path / "SiT.safetensors"
    )
    facts = {"kind": "sit", "classes": ["cat", "dog", "owl"], "condition": "dog", "autocast": "bfloat16"}
    (tmp_path / "SiT.json").write_text(json.dumps({**facts, "remark": "mine"}))
    model = open_model(tmp_path, name="named here")
    assert str(model.frame) == "named here given dog"
    assert any(note.startswith("autocast to bfloat16: D differs by") for note in model.frame.notes)
    assert open_model(tmp_path / "SiT.json", condition=2).frame.condition == "owl"


def test_a_json_nested_without_end_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"abc")
    (tmp_path / "m.json").write_text("[" * 5000)
    with pytest.raises(DataError, match=r"unreadable .*m\.json .*expected a JSON file"):
        open_model(tmp_path / "m.onnx")


def test_the_settings_of_a_folder_need_no_kind_and_those_of_a_foreign_json_do(tmp_path):
    scheduler = diffusers.DDPMScheduler()
    one = dict(block_out_channels=(4,), layers_per_block=1, norm_num_groups=2, add_attention=False)
    blocks = dict(down_block_types=("DownBlock2D",), up_block_types=("UpBlock2D",))
    shape = dict(sample_size=4, in_channels=1, out_channels=1, num_class_embeds=3)
    network = diffusers.UNet2DModel(**shape, **one, **blocks).float()
    diffusers.DDPMPipeline(network, scheduler).save_pretrained(tmp_path)
    facts = {"classes": ["cat", "dog", "owl"], "condition": "dog"}
    (tmp_path / "workbench.json").write_text(json.dumps(facts))
    assert open_model(tmp_path).frame.condition == "dog"
    torch.save(network_of(8).state_dict(), tmp_path / "SiT.pt")
    (tmp_path / "SiT.json").write_text(json.dumps(facts))  # may be anybody's
    assert open_model(tmp_path / "SiT.pt").frame.classes == ()


def network_of(side):
    """A tiny transformer."""
    torch.manual_seed(0)
    return Transformer(Sizes(side, 2, 1, 1, 8, 1, 2, 16, 8, 4))


def test_a_table_is_continued_between_its_steps():
    shares = torch.linspace(0.99, 0.01, 50).double()
    schedule = table_schedule(shares)
    steps = torch.arange(50.0)
    assert_close(schedule(steps)[0] ** 2, shares, rtol=1e-12, atol=1e-12)
    sigma = torch.linspace(0.11, 9.9, 40)
    assert_close(sigma_of(schedule, time_of(schedule, sigma)), sigma, rtol=1e-12, atol=0)
    with pytest.raises(SettingError, match="growing noise"):
        table_schedule(torch.tensor([0.5, 0.9]))


def test_every_door_opens_a_path(tmp_path):
    torch.set_default_dtype(torch.float32)
    network = diffusers.UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        block_out_channels=(8,),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D",),
        up_block_types=("UpBlock2D",),
        add_attention=False,
    )
    diffusers.DDPMPipeline(network, diffusers.DDPMScheduler()).save_pretrained(tmp_path / "mine")
    subject = open_subject(model=str(tmp_path / "mine"))
    assert isinstance(subject.model, ScoreModel)
    assert subject.frame.name == "mine"
    assert subject.pictures
    start, end = subject.ends()
    assert start.shape == (64,)
    assert_close(start, subject.point("0"), rtol=0, atol=0)
    assert float(start.abs().max()) <= 1.0
    assert not torch.equal(start, end)
    assert any("found by trial" in note for note in subject.frame.notes)
    (tmp_path / "mine" / "workbench.json").write_text('{"kind": "diffusers", "name": "other"}')
    assert open_model(tmp_path / "mine").frame.name == "other"
    with pytest.raises(SettingError, match="the seed of a sample that the model draws"):
        subject.point("1,2")


def test_the_lenses_door_takes_a_flows_density_and_names_what_a_decoder_lacks(tmp_path):
    flow = zuko.flows.NICE(2, transforms=1, hidden_features=(4,))
    save_file(
        {name: one.contiguous() for name, one in flow.state_dict().items()}, tmp_path / "flow.safetensors"
    )
    arguments = {"flow": "NICE", "features": 2, "transforms": 1, "hidden_features": [4]}
    (tmp_path / "flow.json").write_text(json.dumps({"kind": "zuko", "arguments": arguments}))
    subject = open_subject(model=tmp_path / "flow.safetensors")
    assert subject.regimes == ("static",)
    assert subject.lacking == "a density without noise levels"
    assert subject.landscape() is subject.model
    assert_close(subject.point("0.5,1"), torch.tensor([0.5, 1.0], dtype=torch.float32))
    sizes = dict(encoder_block_out_channels=(4,), decoder_block_out_channels=(4,))
    coder = diffusers.AutoencoderTiny(**sizes, num_encoder_blocks=(1,), num_decoder_blocks=(1,))
    coder.save_pretrained(tmp_path / "coder")
    decoder = open_subject(model=tmp_path / "coder")
    assert decoder.regimes == ()
    assert not decoder.flows
    assert decoder.lacking == "a decoder without a score"
    assert decoder.shown.shape == (3, 32, 32)
    first, second = decoder.ends()
    assert_close(first, decoder.point("0"), rtol=0.0, atol=0.0)
    assert float((first - second).norm()) > 1.0
