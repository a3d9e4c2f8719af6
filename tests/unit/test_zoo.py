"""Every shipped model loads, declares itself, and says one sentence when something is wrong."""

import inspect
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.oracles import nets as oracle
from workbench.cards import JUDGES, MODELS, card, find_card, read_card
from workbench.errors import DataError, SettingError
from workbench.recipes import JUDGE_RECIPES, RECIPES, denoiser_facts
from workbench.recipes.__main__ import main
from workbench.training import FitResult, TrainSettings
from workbench.zoo import build_net, load_judge, load_model, save_model

NETWORK = {"kind": "mlp", "dim": 2, "width": 16, "depth": 1, "classes": 2, "data_std": 0.5}
FACTS = {
    "name": "tiny",
    "shape": [2],
    "classes": ["a", "b"],
    "value_range": None,
    "sigma_min": 0.002,
    "sigma_max": 10.0,
    "data_std": 0.5,
    "network": NETWORK,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(build_net(NETWORK), FACTS, tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shipped_model_denoises(name: str, dtype: torch.dtype, generator: torch.Generator):
    model = load_model(name, dtype=dtype)
    assert model.frame.name == name
    assert model.frame.condition is None
    y = torch.randn(3, model.frame.dim, generator=generator, dtype=dtype)
    clean = model.denoise(y, 0.5)
    assert clean.dtype == dtype
    assert clean.shape == y.shape
    assert torch.isfinite(clean).all()


@pytest.mark.parametrize("name", MODELS)
def test_shipped_files_are_small_and_carry_a_full_card(name: str):
    path = find_card(name)
    assert path.with_suffix(".safetensors").stat().st_size < 5_000_000
    facts = read_card(path)
    assert {
        "data",
        "licence",
        "command",
        "measured_by",
        "training",
        "figures",
        "shape",
        "network",
    } <= facts.keys()
    assert facts["training"]["null_share"] >= 0.3
    assert any(figure.startswith("denoising_null") for figure in facts["figures"])
    assert facts["command"] == f"python -m workbench.recipes {name}"
    text = card(name)
    for figure in facts["figures"]:
        assert figure in text


@pytest.mark.parametrize("name", MODELS)
def test_card_states_the_recipe_that_is_in_the_code(name: str):
    recipe, facts = RECIPES[name], read_card(find_card(name))
    result = FitResult(build_net(recipe.network), torch.zeros(0), 0, False, 0.0, recipe.settings)
    expected = json.loads(json.dumps(denoiser_facts(recipe, result)))
    for key in ("network", "shape", "classes", "data", "sigma_max", "parameters"):
        assert facts[key] == expected[key], key
    assert {**facts["training"], "cpu_seconds": 0} == {**expected["training"], "cpu_seconds": 0}


@pytest.mark.parametrize("name", JUDGES)
def test_judge_card_states_the_recipe_that_is_in_the_code(name: str):
    recipe, facts = JUDGE_RECIPES[f"judge_{name}"], read_card(find_card(f"judge_{name}"))
    for key in ("epochs", "batch", "shift", "seed"):
        assert facts["training"][key] == getattr(recipe, key)
    assert facts["network"] == recipe.network


@pytest.mark.parametrize(("sigma", "bar"), [(0.1, 0.03), (0.3, 0.005), (1.0, 0.0005)])
def test_shipped_ring_has_the_score_of_the_mixture(sigma: float, bar: float, generator: torch.Generator):
    model = load_model("ring", dtype=torch.float64)
    modes = torch.randint(8, (4000,), generator=generator) * (torch.pi / 4)
    clean = 0.8 * torch.stack([modes.cos(), modes.sin()], -1) + 0.06 * torch.randn(
        4000, 2, generator=generator
    )
    y = clean + sigma * torch.randn(4000, 2, generator=generator)
    exact = torch.as_tensor(oracle.ring_denoised(y.numpy(), sigma))
    relative = (model.denoise(y, sigma) - exact).square().mean() / (exact - y).square().mean()
    assert relative.item() < bar


def test_condition_is_bound_at_loading():
    assert load_model("fashion", condition="bag").frame.condition == "bag"
    assert load_model("fashion", condition=8, guidance=1.0).frame.guidance == 1.0


def test_model_saved_in_a_folder_loads_from_folder_and_card(folder: Path, generator: torch.Generator):
    y = torch.randn(4, 2, generator=generator)
    first, second = load_model(folder), load_model(str(folder / "tiny.json"))
    torch.testing.assert_close(first.denoise(y, 0.3), second.denoise(y, 0.3), rtol=0, atol=0)
    assert first.frame.classes == ("a", "b")


def test_unknown_model_and_device_are_one_sentence():
    with pytest.raises(SettingError, match=r"^got model 'nowhere'; expected ring, moons, .*; try load_model"):
        load_model("nowhere")
    with pytest.raises(SettingError, match=r"^got device 'cuda:99', which is not there; expected .*; try "):
        load_model("ring", device="cuda:99")
    with pytest.raises(SettingError, match="got judge 'mnist'"):
        load_judge("mnist")


def test_folder_without_exactly_one_card(folder: Path, tmp_path: Path):
    save_model(build_net(NETWORK), FACTS | {"name": "other"}, folder)
    with pytest.raises(DataError, match="with 2 cards beside their weights; expected exactly one"):
        load_model(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": NETWORK | {"width": 32}}, "that do not fit their card"),
        (
            {"network": {"kind": "transformer"}},
            "a card with network 'transformer'; expected one of mlp, unet",
        ),
        ({"network": NETWORK | {"colour": 3}}, "a card whose network 'mlp' has settings"),
    ],
    ids=["width", "kind", "setting"],
)
def test_card_that_does_not_fit_is_one_sentence(folder: Path, change: dict, message: str):
    (folder / "tiny.json").write_text(json.dumps(FACTS | change))
    with pytest.raises(DataError, match=message):
        load_model(folder)


def test_weights_are_never_unpickled(folder: Path):
    torch.save(build_net(NETWORK).state_dict(), folder / "tiny.safetensors")
    with pytest.raises(DataError, match=r"got unreadable weights .* expected a safetensors file"):
        load_model(folder)


def test_unreadable_card_is_one_sentence(folder: Path):
    (folder / "tiny.json").write_text("{")
    with pytest.raises(DataError, match="got an unreadable card"):
        load_model(folder)
    (folder / "tiny.json").write_text("{}")
    with pytest.raises(DataError, match="without a name or a network"):
        load_model(folder)


def test_command_trains_a_model_that_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    torch.set_default_dtype(torch.float32)
    recipe = replace(RECIPES["ring"], settings=TrainSettings(steps=50, batch=16, null_share=1.0))
    monkeypatch.setitem(RECIPES, "ring", recipe)
    assert main(["ring", "--out", str(tmp_path)]) == 0
    assert "step 50 of 50" in capsys.readouterr().out
    assert load_model(tmp_path).frame.name == "ring"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ring.json", "ring.safetensors"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, "with name 3; expected a text"),
        ({"network": [1]}, "with network .1.; expected a mapping"),
        ({"network": NETWORK | {"width": -3}}, "with network.width -3; expected a whole number, at least 1"),
        ({"network": NETWORK | {"width": "16"}}, "with network.width '16'; expected a whole number"),
        ({"network": NETWORK | {"kind": ["mlp"]}}, "a card with network .'mlp'.; expected one of"),
        ({"network": NETWORK | {"data_std": 0}}, "with network.data_std 0; expected a number above 0"),
        ({"shape": 2}, "with shape 2; expected a list of positive"),
        ({"shape": [-2]}, "with shape .-2.; expected a list of positive"),
        ({"classes": None}, "with classes None; expected a list of names"),
        ({"sigma_min": "0.1"}, "with sigma_min '0.1'; expected a finite number above 0"),
        ({"sigma_max": math.inf}, "with sigma_max inf; expected a finite"),
        ({"sigma_min": 20.0}, "with sigma_min 20.0; expected a level below sigma_max, 10"),
        ({"value_range": [1, -1]}, "with value_range .1, -1.; expected null or"),
        ({"value_range": [1]}, "with value_range .1.; expected null or"),
        ({"data_std": True}, "with data_std True; expected a finite number"),
    ],
    ids=str,
)
def test_damaged_card_is_one_sentence(folder: Path, change: dict, message: str):
    (folder / "tiny.json").write_text(json.dumps(FACTS | change))
    with pytest.raises(DataError, match=f"^got .*{message}"):
        load_model(folder)


@pytest.mark.parametrize("key", sorted(FACTS))
def test_card_without_an_entry_is_one_sentence(folder: Path, key: str):
    (folder / "tiny.json").write_text(json.dumps({k: v for k, v in FACTS.items() if k != key}))
    with pytest.raises(DataError, match=f"^got .*tiny.json without .*{key}"):
        load_model(folder)


@pytest.mark.parametrize(
    "content",
    [json.dumps(FACTS).encode("utf-16"), b"[" * 100_000, b'{"name": 1' + b"0" * 5000 + b"}"],
    ids=["utf-16", "deep", "digits"],
)
def test_unreadable_bytes_of_a_card_are_one_sentence(folder: Path, content: bytes):
    (folder / "tiny.json").write_bytes(content)
    with pytest.raises(DataError, match=r"^got an unreadable card"):
        load_model(folder)


@pytest.mark.parametrize(
    "figures", [[1], {"error": 3}, {"error": {"value": "x", "how": "so"}}, {"error": {"value": 1.0}}]
)
def test_figures_of_another_kind_are_one_sentence(folder: Path, figures: object):
    (folder / "tiny.json").write_text(json.dumps(FACTS | {"figures": figures}))
    with pytest.raises(DataError, match=r"with figures.*; expected a mapping"):
        card(folder)


@pytest.mark.parametrize("name", [None, 3])
def test_a_name_of_another_kind_is_one_sentence(name: object):
    with pytest.raises(SettingError, match=r"^got model .*; expected ring, moons"):
        inspect.unwrap(find_card)(name)


@pytest.mark.parametrize("dtype", ["float32", torch.int64])
def test_a_dtype_of_another_kind_is_one_sentence(dtype: object):
    with pytest.raises(SettingError, match=r"^got dtype=.*; expected a floating torch.dtype; try dtype="):
        inspect.unwrap(load_model)("ring", dtype=dtype)
