"""The README's lines for opening one's own model, run as printed on small files and objects so named."""

import dataclasses
import json
import re
from pathlib import Path

import azula.denoise
import azula.noise
import diffusers
import pytest
import torch
import zuko
from torch import nn
from torchcfm.models.models import MLP

import workbench as wb
from tests.unit.adapters import test_diffusers, test_dit, test_edm, test_generators, test_onnx
from workbench.adapters.dit_nets import Transformer
from workbench.decoders import Decoder, LatentModel
from workbench.models import Landscape, ScoreModel

README = Path(__file__).parents[3] / "README.md"
SECTION = README.read_text(encoding="utf-8").split("## Your own model")[1].split("\n## ")[0]
BLOCKS = re.findall(r"```python\n(.*?)```", SECTION, flags=re.DOTALL)
LINES = BLOCKS[1].splitlines()


class Still(nn.Module):
    """A network of (x, t, ...) with one weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((), 0.1))

    def forward(self, x, t=None, **_):
        return self.weight * x


def pipeline(folder):
    test_diffusers.save(folder / "my-pipeline", diffusers.DDPMScheduler())


def edm(folder):
    test_edm.export(folder, test_edm.tiny())
    for end in ("safetensors", "json"):
        (folder / f"net.{end}").rename(folder / f"edm.{end}")


def dit(folder):
    sizes = dataclasses.replace(test_dit.TINY, classes=208)
    torch.save(Transformer(sizes).state_dict(), folder / "DiT-XL-2-256x256.pt")
    coder = diffusers.AutoencoderKL(**test_diffusers.COARSE_VAE, scaling_factor=2.0).float()
    coder.save_pretrained(folder / "sd-vae")


def graph(folder):
    test_onnx.small_net(folder, name="network.onnx")


def dcgan(folder):
    tensors = test_generators.published().state_dict()
    torch.save({f"main.{name}": one for name, one in tensors.items()}, folder / "netG.pth")


def denoiser():
    return azula.denoise.SimpleDenoiser(Still(), azula.noise.VPSchedule())


def flow():
    return zuko.flows.NSF(2, transforms=1, hidden_features=(8,))


FILES = {
    "my-pipeline": pipeline,
    "edm.safetensors": edm,
    "DiT-": dit,
    "network.onnx": graph,
    "netG.pth": dcgan,
}
OBJECTS = {
    "denoiser": denoiser,
    "field": lambda: MLP(dim=2, time_varying=True),
    "flow": flow,
    "network": Still,
}


def opened(line, folder, monkeypatch):
    """The model of a line, with what it names made in a folder that is the present one."""
    first = re.split(r'[",)]', line.removeprefix("wb.open_model(").removeprefix('"'))[0]
    for name, make in FILES.items():
        if first.startswith(name):
            make(folder)
    names = {name: make() for name, make in OBJECTS.items() if name == first}
    monkeypatch.chdir(folder)
    return eval(line, {"wb": wb, **names})  # the line as it is printed


def answer(model):
    """What a model says at two points: a posterior mean, a picture, or a density."""
    if isinstance(model, ScoreModel):
        dim = model.frame.dim
        return model.denoise(torch.zeros(2, dim), 1.0), (2, dim)
    if isinstance(model, Decoder):
        dim = torch.Size(model.latent_shape).numel()
        return model.decode(torch.zeros(2, dim)), (2, torch.Size(model.picture.shape).numel())
    return model.energy(torch.zeros(2, 2)), (2,)


@pytest.mark.parametrize("line", LINES, ids=[line.split(",")[0].split(")")[0] for line in LINES])
def test_a_printed_line_opens_what_it_says(line, tmp_path, monkeypatch):
    model = opened(line, tmp_path, monkeypatch)
    kind = (
        LatentModel
        if "decoder=" in line
        else Decoder
        if 'kind="decoder"' in line
        else Landscape
        if "(flow)" in line
        else ScoreModel
    )
    assert isinstance(model, kind)
    said, shape = answer(model)
    assert said.shape == shape
    assert torch.isfinite(said).all()
    if asked := re.search(r"[( ]shape=(\([\d, ]+\))", line.split("#")[0]):
        own = model.frame.shape if isinstance(model, ScoreModel) else answer(model)[1]
        assert own == eval(asked[1])


@pytest.mark.parametrize(
    ("line", "alternative"),
    [
        (
            'wb.open_model(field, kind="torchcfm"',
            'wb.open_model(field, kind="torchcfm", shape=(2,), schedule="rectified")',
        ),
        ('kind="dit"', 'wb.open_model("DiT-XL-2-256x256.pt", kind="sit", decoder="sd-vae", condition=207)'),
        ('wb.open_model("netG.pth"', 'wb.open_model(network, kind="decoder", shape=(100,))'),
    ],
)
def test_what_a_remark_says_instead_opens_too(line, alternative, tmp_path, monkeypatch):
    (printed,) = [one for one in LINES if line in one]
    remark = printed.split("#")[1]
    assert all(word in alternative for word in re.findall(r"\w+=[^\s,]*[^\s,.;]", remark))
    said, shape = answer(opened(alternative, tmp_path, monkeypatch))
    assert said.shape == shape


def test_every_family_of_the_table_has_its_line():
    rows = re.findall(r"^\| (?!family|-)([^|]+) \|", SECTION, flags=re.MULTILINE)
    words = ("diffusers", "azula", "torchcfm", "zuko", "EDM", "DiT", "onnx", "DCGAN", "network(x, t)")
    assert len(rows) == len(words) == len(LINES)
    for word in words:
        assert sum(word in line for line in LINES) == 1, word


def test_the_settings_of_the_first_block_are_taken(tmp_path, monkeypatch, capsys):
    assert 'condition="dog", dtype="float64", memory=2**30' in BLOCKS[0]
    test_diffusers.save(tmp_path / "pipeline", diffusers.DDPMScheduler(), num_class_embeds=3)
    (tmp_path / "pipeline" / "workbench.json").write_text(json.dumps({"classes": ["cat", "dog", "owl"]}))
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS[0].replace("path/to/", ""), {"wb": wb})
    assert "given dog" in capsys.readouterr().out
