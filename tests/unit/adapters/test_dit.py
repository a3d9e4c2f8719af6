"""State dicts of DiT and SiT: another implementation of the network, and exactness of the conversion."""

import diffusers
import pytest
import torch
from torch.testing import assert_close

from tests.oracles import frames, tables
from tests.unit.adapters import ideal
from workbench import open_model
from workbench.adapters.dit import build
from workbench.adapters.dit_nets import Sizes, Transformer
from workbench.adapters.latents import generator_of
from workbench.decoders import LatentModel
from workbench.errors import DataError, SettingError
from workbench.schedules import TRIGONOMETRIC

TINY = Sizes(
    side=8, patch=2, channels=2, channels_out=4, width=128, depth=2, heads=2, hidden=512, waves=256, classes=4
)


def network():
    torch.manual_seed(0)
    made = Transformer(TINY)
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    return made


@pytest.mark.parametrize(
    ("width", "depth", "heads", "millions"),
    [(384, 12, 6, 33), (768, 12, 12, 130), (1024, 24, 16, 458), (1152, 28, 16, 675)],
    ids=["S/2", "B/2", "L/2", "XL/2"],
)
def test_published_sizes_have_the_published_number_of_weights(width, depth, heads, millions):
    with torch.device("meta"):
        made = Transformer(Sizes(32, 2, 4, 8, width, depth, heads, 4 * width, 256, 1001))
    assert sum(weight.numel() for weight in made.parameters()) / 1e6 == pytest.approx(millions, rel=0.01)


def theirs(tensors):
    """The same transformer as diffusers has it, its weights renamed and its two other constants set."""
    made = diffusers.DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=64,
        in_channels=2,
        out_channels=4,
        num_layers=2,
        attention_bias=True,
        sample_size=8,
        num_embeds_ada_norm=3,
        norm_eps=1e-6,
    )
    for part in made.modules():
        if isinstance(part, diffusers.models.embeddings.Timesteps):
            part.downscale_freq_shift = 0  # the library spreads the frequencies a little further
    renamed = {
        "pos_embed.proj.weight": tensors["x_embedder.proj.weight"],
        "pos_embed.proj.bias": tensors["x_embedder.proj.bias"],
        "proj_out_1.weight": tensors["final_layer.adaLN_modulation.1.weight"],
        "proj_out_1.bias": tensors["final_layer.adaLN_modulation.1.bias"],
        "proj_out_2.weight": tensors["final_layer.linear.weight"],
        "proj_out_2.bias": tensors["final_layer.linear.bias"],
    }
    for depth in range(2):
        old, new = f"blocks.{depth}", f"transformer_blocks.{depth}"
        for part in ("weight", "bias"):
            told = f"{new}.norm1.emb.timestep_embedder.linear_"
            renamed[f"{told}1.{part}"] = tensors[f"t_embedder.mlp.0.{part}"]
            renamed[f"{told}2.{part}"] = tensors[f"t_embedder.mlp.2.{part}"]
            renamed[f"{new}.norm1.linear.{part}"] = tensors[f"{old}.adaLN_modulation.1.{part}"]
            for name, piece in zip("qkv", tensors[f"{old}.attn.qkv.{part}"].chunk(3), strict=True):
                renamed[f"{new}.attn1.to_{name}.{part}"] = piece
            renamed[f"{new}.attn1.to_out.0.{part}"] = tensors[f"{old}.attn.proj.{part}"]
            renamed[f"{new}.ff.net.0.proj.{part}"] = tensors[f"{old}.mlp.fc1.{part}"]
            renamed[f"{new}.ff.net.2.{part}"] = tensors[f"{old}.mlp.fc2.{part}"]
        table = f"{new}.norm1.emb.class_embedder.embedding_table.weight"
        renamed[table] = tensors["y_embedder.embedding_table.weight"]
    missing = made.load_state_dict(renamed, strict=False)
    assert not missing.unexpected_keys
    assert set(missing.missing_keys) <= {"pos_embed.pos_embed"}
    return made.double().eval()


def test_the_network_is_the_one_of_diffusers():
    own = network().double()
    other = theirs(own.state_dict())
    with torch.no_grad():
        own.pos_embed.copy_(other.pos_embed.pos_embed)
        x, t = torch.randn(3, 2, 8, 8), torch.tensor([3.0, 500.0, 998.5])
        labels = torch.tensor([0, 2, 3])
        expected = other(x, timestep=t, class_labels=labels).sample
        assert_close(own(x, t, labels), expected, rtol=1e-5, atol=1e-5)  # its waves are single precision


@pytest.mark.parametrize("name", ["DiT-tiny.pt", "SiT-tiny.pt"])
@pytest.mark.parametrize("layout", ["bare", "ema", "module"])
def test_published_layouts_open_without_unpickling(tmp_path, name, layout):
    made = network()
    tensors = made.state_dict()
    content = {
        "bare": tensors,
        "ema": {"ema": tensors, "args": {"depth": 2}},
        "module": {f"module.{key}": one for key, one in tensors.items()},
    }[layout]
    torch.save(content, tmp_path / name)
    model = open_model(tmp_path / name, dtype="float64")
    y, x = torch.randn(2, 128), torch.randn(2, 2, 8, 8)
    t = torch.tensor([0.3, 0.3])
    labels = torch.tensor([3, 3])
    expected = made.double()(x, t, labels)[:, :2]
    assert_close(model.module(x, t, model.null), expected, rtol=1e-9, atol=1e-9)
    assert model.denoise(y, 1.0).shape == y.shape
    assert any("learned variance" in note for note in model.frame.notes)


def test_weights_that_may_be_either_must_say_which(tmp_path):
    torch.save(network().state_dict(), tmp_path / "weights.pt")
    with pytest.raises(SettingError, match="kind='dit' or kind='sit'"):
        open_model(tmp_path / "weights.pt")
    assert open_model(tmp_path / "weights.pt", kind="sit").schedule.name == "linear"


def on_the_plane(kind, answer, **settings):
    """A transformer on points of two entries whose forward is an ideal answer."""
    made = Transformer(Sizes(1, 1, 2, 2, 4, 0, 1, 4, 4, 4))
    model = open_model(made, kind=kind, dtype="float64", **settings)
    model.module.network.forward = lambda x, t, labels: answer(x, t)
    return model


def test_dit_gives_the_exact_mean():
    table = (1 - tables.betas_of("linear")).cumprod(0)
    model = on_the_plane("dit", ideal.answer(tables.frame_of(table), "eps"))
    levels = [float((1 / table[i] - 1).sqrt()) for i in (0, 20, 500, 999)]
    assert max(ideal.worst(model, sigma) for sigma in levels) <= 1e-10


@pytest.mark.parametrize("prediction", ["velocity", "score", "eps"])
def test_sit_gives_the_exact_mean_with_the_data_at_one(prediction):
    model = on_the_plane("sit", ideal.answer(frames.matching, prediction), prediction=prediction)
    assert max(ideal.worst(model, sigma) for sigma in (0.02, 0.3, 1.0, 10.0, 80.0)) <= 1e-10


def test_sit_on_the_circle_gives_the_exact_mean():
    def circle(t):
        a, s, a_rate, s_rate = frames.cosine(1 - t)
        return a, s, -a_rate, -s_rate

    model = on_the_plane("sit", ideal.answer(circle, "velocity"), schedule=TRIGONOMETRIC)
    assert max(ideal.worst(model, sigma) for sigma in (0.02, 0.3, 1.0, 10.0, 80.0)) <= 1e-10


def test_a_class_guidance_and_a_decoder_can_be_bound():
    coder = generator_of(lambda z: z.flatten(1).sum(1, keepdim=True), latent_shape=(2, 8, 8), shape=(1,))
    settings = {"kind": "sit", "dtype": "float64", "classes": ("cat", "dog", "owl")}
    dog, free = open_model(network(), condition="dog", **settings), open_model(network(), **settings)
    guided = open_model(network(), condition="dog", guidance=2.0, decoder=coder, **settings)
    y = torch.randn(2, 128)
    expected = 3 * dog.denoise(y, 1.0) - 2 * free.denoise(y, 1.0)
    assert_close(guided.denoise(y, 1.0), expected, rtol=1e-9, atol=1e-9)
    assert isinstance(guided, LatentModel)
    assert str(guided.frame) == "Transformer given dog, guidance 2, latent space"
    with pytest.raises(SettingError, match="below 4"):
        open_model(network(), condition=4, **settings)
    small = generator_of(lambda z: z, latent_shape=(3,), shape=(3,))
    with pytest.raises(SettingError, match=r"shape \(3,\)"):
        open_model(network(), decoder=small, **settings)


def test_odd_weights_are_named():
    tensors = dict(network().state_dict())
    with pytest.raises(DataError, match=r"without pos_embed"):
        build({name: one for name, one in tensors.items() if name != "pos_embed"})
    with pytest.raises(DataError, match="another architecture"):
        build({**tensors, "blocks.0.attn.qkv.weight": torch.zeros(3, 3)})
    with pytest.raises(DataError, match="heads"):
        build(tensors, heads=3)
