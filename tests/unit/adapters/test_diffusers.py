"""Pipelines of diffusers from local folders: exactness in every convention; the traps of schedulers."""

import json
import os

import diffusers
import pytest
import torch
from torch.testing import assert_close

from tests.oracles import frames, tables
from tests.unit.adapters import ideal
from workbench import open_model, score
from workbench.decoders import Autoencoder, LatentModel
from workbench.errors import DataError, SettingError
from workbench.models import ScoreModel

PLANE = dict(  # points of two entries, for patched networks
    sample_size=(1, 2),
    in_channels=1,
    out_channels=1,
    block_out_channels=(4,),
    layers_per_block=1,
    norm_num_groups=2,
    down_block_types=("DownBlock2D",),
    up_block_types=("UpBlock2D",),
    add_attention=False,
)
PICTURE = dict(
    sample_size=8,
    in_channels=1,
    out_channels=1,
    block_out_channels=(8, 8),
    layers_per_block=1,
    norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=4,
)
BETAS = dict(linear={}, scaled_linear=dict(beta_start=0.00085, beta_end=0.012), squaredcos_cap_v2={})
PREDICTIONS = {"epsilon": "eps", "v_prediction": "v", "sample": "x0"}
STEPS = (0, 1, 40, 300, 700, 950, 990)


def save(folder, scheduler, **settings):
    """A pipeline folder with a tiny random network."""
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    network = diffusers.UNet2DModel(**{**PICTURE, **settings})
    diffusers.DDPMPipeline(network, scheduler).save_pretrained(folder)
    torch.set_default_dtype(torch.float64)
    return folder


def patched(model, network):
    """The same model with its network's forward replaced by a function (x, t) -> F."""
    model.module.network.forward = lambda x, timestep, return_dict, **_: (network(x, timestep),)
    return model


def level(scheduler, step):
    """Noise level of a step, in float64."""
    share = float(scheduler.alphas_cumprod[step])
    return ((1 - share) / share) ** 0.5


@pytest.mark.parametrize(
    ("made", "betas"),
    [
        *(("DDPMScheduler", betas) for betas in BETAS),
        ("DDIMScheduler", "scaled_linear"),
        ("EulerDiscreteScheduler", "scaled_linear"),
        ("UniPCMultistepScheduler", "linear"),
    ],
)
@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_the_ideal_network_gives_the_exact_mean_at_and_between_steps(tmp_path, made, prediction, betas):
    scheduler = getattr(diffusers, made)(beta_schedule=betas, prediction_type=prediction, **BETAS[betas])
    model = open_model(save(tmp_path, scheduler, **PLANE), dtype="float64")
    frame = tables.frame_of(scheduler.alphas_cumprod)
    patched(model, ideal.answer(frame, PREDICTIONS[prediction]))
    whole = [level(scheduler, step) for step in STEPS]
    between = [1.003 * sigma for sigma in whole[:-1]]
    assert max(ideal.worst(model, sigma) for sigma in (*whole, *between)) <= 1e-10


@pytest.mark.parametrize("betas", BETAS)
@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_the_librarys_own_mean_is_ours_in_float32(tmp_path, prediction, betas):
    scheduler = diffusers.DDIMScheduler(
        beta_schedule=betas, prediction_type=prediction, clip_sample=False, **BETAS[betas]
    )
    model = open_model(save(tmp_path, scheduler))
    scheduler.set_timesteps(1000)
    x = torch.randn(3, 1, 8, 8, dtype=torch.float32)
    for step in (1, 300, 900):
        a = float(scheduler.alphas_cumprod[step]) ** 0.5
        output = model.module.network(x, torch.tensor(step)).sample
        theirs = scheduler.step(output, step, x).pred_original_sample.flatten(1)
        ours = model.denoise(x.flatten(1) / a, level(scheduler, step))
        assert_close(ours, theirs, rtol=1e-5, atol=1e-5 * float(theirs.abs().max()))


def test_a_flow_reads_its_own_clock(tmp_path):
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0)
    model = open_model(save(tmp_path, scheduler, **PLANE), dtype="float64")
    patched(model, ideal.answer(frames.rectified, "velocity", clock=lambda t: t / 1000))
    assert max(ideal.worst(model, sigma) for sigma in (0.02, 0.2, 1.0, 10.0, 80.0)) <= 1e-10


def test_a_step_of_the_flow_scheduler_to_zero_is_our_mean(tmp_path):
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler()
    model = open_model(save(tmp_path, scheduler))
    scheduler.set_timesteps(sigmas=[0.6])  # its last step goes to 0
    x = torch.randn(3, 1, 8, 8, dtype=torch.float32)
    output = model.module.network(x, scheduler.timesteps[0]).sample
    theirs = scheduler.step(output, scheduler.timesteps[0], x).prev_sample.flatten(1)
    assert_close(model.denoise(x.flatten(1) / 0.4, 1.5), theirs, rtol=1e-5, atol=1e-5)


def test_an_edm_scheduler_is_its_preconditioning(tmp_path):
    scheduler = diffusers.EDMEulerScheduler(sigma_data=0.7)
    model = open_model(save(tmp_path, scheduler, **PLANE), dtype="float64")

    def network(x, t):
        sigma = torch.exp(4 * t)
        y = x.flatten(1) * torch.sqrt(sigma**2 + 0.7**2)[:, None]
        return frames.edm_output(ideal.TABLES, y, sigma, 0.7).reshape(x.shape)

    patched(model, network)
    assert max(ideal.worst(model, sigma) for sigma in (0.002, 0.1, 1.0, 80.0)) <= 1e-10
    y, output = torch.randn(3, 2), torch.randn(3, 2)
    model.module.network.forward = lambda x, timestep, return_dict: (output.reshape(x.shape),)
    assert_close(model.denoise(y, 0.9), scheduler.precondition_outputs(y, output, 0.9), rtol=1e-12, atol=0)


def test_a_variance_exploding_scheduler_predicts_the_score(tmp_path):
    scheduler = diffusers.ScoreSdeVeScheduler(sigma_min=0.01, sigma_max=50.0)
    model = open_model(save(tmp_path, scheduler, **PLANE), dtype="float64")
    patched(model, ideal.answer(frames.exploding, "score"))
    assert max(ideal.worst(model, sigma) for sigma in (0.01, 0.1, 1.0, 50.0)) <= 1e-10
    assert (model.frame.sigma_min, model.frame.sigma_max) == (0.01, 50.0)


def test_the_frame_says_what_the_folder_says(tmp_path):
    scheduler = diffusers.DDPMScheduler(clip_sample=True, thresholding=True)
    model = open_model(save(tmp_path / "mine", scheduler))
    assert isinstance(model, ScoreModel)
    assert model.frame.name == "mine"
    assert model.frame.shape == (1, 8, 8)
    assert model.frame.value_range == (-1.0, 1.0)
    assert model.frame.sigma_min == pytest.approx(0.01000, abs=1e-4)
    assert model.frame.sigma_max == pytest.approx(157.4, abs=0.1)
    assert [note.split()[0] for note in model.frame.notes] == ["clip_sample", "thresholding", "below"]
    assert "dtype='float64'" in model.frame.notes[-1]
    assert not any("float64" in note for note in open_model(tmp_path / "mine", dtype="float64").frame.notes)


def test_clipping_and_thresholding_never_touch_the_mean(tmp_path):
    plain = open_model(save(tmp_path / "a", diffusers.DDPMScheduler(clip_sample=False)))
    clipped = open_model(save(tmp_path / "b", diffusers.DDPMScheduler(clip_sample=True, thresholding=True)))
    y = 3 * torch.randn(4, 64)
    assert plain.denoise(y, 20.0).abs().max() > 1.0
    assert_close(clipped.denoise(y, 20.0), plain.denoise(y, 20.0), rtol=0, atol=0)


def test_derivatives_of_both_kinds_pass_through_attention_and_norms(tmp_path):
    model = open_model(save(tmp_path, diffusers.DDPMScheduler()), dtype="float64")
    y, v, w = torch.randn(3, 2, 64)
    forward = torch.func.jvp(lambda p: model.denoise(p, 0.7), (y,), (v,))[1]
    backward = torch.func.vjp(lambda p: model.denoise(p, 0.7), y)[1](w)[0]
    assert_close((forward * w).sum(), (backward * v).sum(), rtol=1e-9, atol=1e-9)
    step = (model.denoise(y + 1e-5 * v, 0.7) - model.denoise(y - 1e-5 * v, 0.7)) / 2e-5
    assert_close(forward, step, rtol=1e-5, atol=1e-7)


def test_steps_of_zero_terminal_snr_are_dropped(tmp_path):
    scheduler = diffusers.DDIMScheduler(rescale_betas_zero_snr=True, prediction_type="v_prediction")
    model = open_model(save(tmp_path, scheduler, **PLANE), dtype="float64")
    assert any("zero terminal SNR" in note for note in model.frame.notes)
    patched(model, ideal.answer(tables.frame_of(scheduler.alphas_cumprod), "v"))
    assert ideal.worst(model, model.frame.sigma_max) <= 1e-10
    assert 10.0 < model.frame.sigma_max < 1e4


def test_a_learned_variance_is_left_out(tmp_path):
    scheduler = diffusers.DDPMScheduler(variance_type="learned_range")
    model = open_model(save(tmp_path, scheduler, out_channels=2))
    assert model.denoise(torch.randn(2, 64), 1.0).shape == (2, 64)
    assert any("learned variance" in note for note in model.frame.notes)


def flat_folder(folder, network, scheduler_facts):
    """Weights and configuration in the root, as early revisions have them."""
    network.save_pretrained(folder)
    (folder / "scheduler_config.json").write_text(json.dumps(scheduler_facts))
    return folder


def test_an_old_flat_folder_is_the_same_model(tmp_path):
    new = open_model(save(tmp_path / "new", diffusers.DDPMScheduler(num_train_timesteps=500, beta_end=0.03)))
    facts = {
        "_class_name": "GaussianDDPMScheduler",
        "timesteps": 500,
        "beta_start": 1e-4,
        "beta_end": 0.03,
        "beta_schedule": "linear",
        "clip_predicted_image": True,
        "variance_type": "fixed_large",
    }
    old = open_model(flat_folder(tmp_path / "old", new.module.network, facts))
    y = torch.randn(3, 64)
    assert_close(old.denoise(y, 2.0), new.denoise(y, 2.0), rtol=0, atol=0)
    assert old.frame.sigma_max == new.frame.sigma_max
    assert any("clip_sample" in note for note in old.frame.notes)


def test_weights_in_a_plain_torch_file_are_read_and_a_program_is_not(tmp_path):
    folder = save(tmp_path / "mine", diffusers.DDPMScheduler())
    safe = open_model(folder)
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    torch.save(safe.module.network.state_dict(), weights.with_suffix(".bin"))
    weights.unlink()
    y = torch.randn(2, 64)
    assert_close(open_model(folder).denoise(y, 1.0), safe.denoise(y, 1.0), rtol=0, atol=0)

    class Trap:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'ran'}",)

    torch.save({"weight": Trap()}, weights.with_suffix(".bin"))
    with pytest.raises(DataError, match="would run code on loading"):
        open_model(folder)
    assert not (tmp_path / "ran").exists()


def test_a_pipeline_in_memory_is_opened_and_left_as_it_is(tmp_path):
    network = diffusers.UNet2DModel(**PICTURE).train()
    pipeline = diffusers.DDPMPipeline(network, diffusers.DDPMScheduler())
    model = open_model(pipeline, dtype="float64")
    assert model.denoise(torch.randn(2, 64), 1.0).shape == (2, 64)
    assert all(weight.requires_grad for weight in pipeline.unet.parameters())


def test_a_class_is_bound_by_number_and_guidance_is_declared(tmp_path):
    folder = save(tmp_path, diffusers.DDPMScheduler(), num_class_embeds=4)
    y = torch.randn(2, 64)
    with pytest.raises(SettingError, match="no class for none"):
        open_model(folder)
    with pytest.raises(SettingError, match="from 0 to 3"):
        open_model(folder, condition=7)
    bound, free = open_model(folder, condition=1), open_model(folder, condition=3)
    guided = open_model(folder, condition=1, null=3, guidance=0.5)
    expected = 1.5 * bound.denoise(y, 2.0) - 0.5 * free.denoise(y, 2.0)
    assert_close(guided.denoise(y, 2.0), expected, rtol=1e-5, atol=1e-5)
    assert guided.frame.guidance == 0.5
    assert "guidance 0.5" in str(guided.frame)
    assert "class 1" in str(guided.frame)


TEXT_UNET = dict(
    sample_size=8,
    in_channels=2,
    out_channels=2,
    block_out_channels=(8,),
    layers_per_block=1,
    norm_num_groups=2,
    down_block_types=("CrossAttnDownBlock2D",),
    up_block_types=("CrossAttnUpBlock2D",),
    cross_attention_dim=6,
    attention_head_dim=2,
)
COARSE_VAE = dict(
    block_out_channels=(8, 8),
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
    latent_channels=2,
    norm_num_groups=4,
    sample_size=16,
)


def save_parts(folder, index, **parts):
    """A pipeline folder from its parts."""
    for name, part in parts.items():
        part.save_pretrained(folder / name)
    folder.joinpath("model_index.json").write_text(json.dumps({"_class_name": "Any", **index}))
    return folder


@pytest.fixture
def text_pipeline(tmp_path):
    torch.manual_seed(1)
    return save_parts(
        tmp_path,
        {},
        unet=diffusers.UNet2DConditionModel(**TEXT_UNET).float(),
        scheduler=diffusers.DDIMScheduler(beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012),
        vae=diffusers.AutoencoderKL(**COARSE_VAE, scaling_factor=1.5, shift_factor=0.06).float(),
    )


def test_latent_diffusion_brings_its_scale_and_shift(text_pipeline):
    words = torch.randn(3, 6)
    model = open_model(text_pipeline, condition=words, dtype="float64")
    assert isinstance(model, LatentModel)
    assert isinstance(model.decoder, Autoencoder)
    assert model.frame.shape == (2, 8, 8)
    assert model.frame.space == "latent"
    assert model.decoder.picture.shape == (3, 16, 16)
    coder = diffusers.AutoencoderKL.from_pretrained(text_pipeline / "vae", local_files_only=True).double()
    x, z = torch.rand(2, 3 * 256), torch.randn(2, 128)
    with torch.no_grad():
        latents = (coder.encode(x.reshape(2, 3, 16, 16)).latent_dist.mean - 0.06) * 1.5
        pictures = coder.decode(z.reshape(2, 2, 8, 8) / 1.5 + 0.06).sample
    assert_close(model.decoder.encode(x), latents.flatten(1), rtol=1e-9, atol=1e-9)
    assert_close(model.decoder.decode(z), pictures.flatten(1), rtol=1e-9, atol=1e-9)


def test_a_texts_embedding_is_passed_through(text_pipeline):
    words, other, y = torch.randn(3, 6), torch.randn(3, 6), torch.randn(2, 128)
    model = open_model(text_pipeline, condition=words, dtype="float64")
    network, step = model.model.module.network, 500
    sigma = level(diffusers.DDIMScheduler.from_pretrained(text_pipeline / "scheduler"), step)
    a = (1 + sigma**2) ** -0.5
    with torch.no_grad():
        output = network(
            a * y.reshape(2, 2, 8, 8), torch.tensor(step), encoder_hidden_states=words.expand(2, 3, 6)
        ).sample
    assert_close(model.denoise(y, sigma), y - sigma * output.flatten(1), rtol=1e-7, atol=1e-7)
    named = open_model(text_pipeline, condition={"encoder_hidden_states": other}, dtype="float64")
    assert not torch.allclose(named.denoise(y, sigma), model.denoise(y, sigma))
    with pytest.raises(SettingError, match="text's embedding"):
        open_model(text_pipeline)


def test_a_class_conditional_transformer_knows_its_null_class_and_names(tmp_path):
    transformer = diffusers.DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=4,
        in_channels=2,
        out_channels=4,
        num_layers=1,
        sample_size=8,
        num_embeds_ada_norm=3,
        norm_num_groups=2,
    )
    folder = save_parts(
        tmp_path,
        {"id2label": {"0": "cat, tabby", "1": "dog", "2": "owl"}},
        transformer=transformer.float(),
        scheduler=diffusers.DDIMScheduler(),
        vae=diffusers.AutoencoderKL(**COARSE_VAE).float(),
    )
    free, dog = open_model(folder, dtype="float64"), open_model(folder, condition="dog", dtype="float64")
    assert free.frame.classes == ("cat", "dog", "owl")
    assert dog.frame.condition == "dog"
    assert any("learned variance" in note for note in dog.frame.notes)
    y = torch.randn(2, 128)
    assert not torch.allclose(free.denoise(y, 5.0), dog.denoise(y, 5.0))
    forward = torch.func.jvp(lambda p: dog.denoise(p, 0.7), (y,), (y,))[1]
    assert torch.isfinite(forward).all()
    with pytest.raises(SettingError, match="condition 'fish'"):
        open_model(folder, condition="fish")


def test_a_vector_quantised_autoencoder_decodes_smoothly(tmp_path):
    coder = diffusers.VQModel(
        block_out_channels=(8, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=2,
        norm_num_groups=4,
        num_vq_embeddings=8,
        scaling_factor=0.5,
    )
    folder = save_parts(
        tmp_path,
        {},
        unet=diffusers.UNet2DModel(**{**PICTURE, "in_channels": 2, "out_channels": 2}).float(),
        scheduler=diffusers.DDIMScheduler(),
        vqvae=coder.float(),
    )
    model = open_model(folder, dtype="float64")
    z = torch.randn(2, 128)
    pushed = torch.func.jvp(model.decoder.decode, (z,), (torch.randn_like(z),))[1]
    assert float(pushed.abs().max()) > 0
    assert any("without quantisation" in note for note in model.frame.notes)


def test_an_autoencoder_alone_is_a_decoder(tmp_path):
    coder = diffusers.AutoencoderKL(**COARSE_VAE, scaling_factor=2.0).float()
    coder.save_pretrained(tmp_path)
    decoder = open_model(tmp_path, dtype="float64")
    assert not isinstance(decoder, ScoreModel)
    assert decoder.latent_shape == (2, 8, 8)
    assert decoder.encode(decoder.decode(torch.randn(2, 128))).shape == (2, 128)


@pytest.mark.parametrize("name", ["CMStochasticIterativeScheduler", "LCMScheduler"])
def test_a_distilled_model_is_no_score(tmp_path, name):
    with pytest.raises(SettingError, match="distilled model"):
        open_model(save(tmp_path, getattr(diffusers, name)()))


def test_what_is_missing_or_foreign_is_named(tmp_path):
    folder = save(tmp_path / "a", diffusers.DDPMScheduler())
    facts = json.loads((folder / "unet" / "config.json").read_text())
    (folder / "unet" / "config.json").write_text(json.dumps({**facts, "_class_name": "my_module.Net"}))
    with pytest.raises(SettingError, match="code that comes with a folder is never run"):
        open_model(folder)
    (folder / "unet" / "config.json").write_text("{")
    with pytest.raises(DataError, match="unreadable"):
        open_model(folder)
    (folder / "unet" / "config.json").write_text(json.dumps(facts))
    (folder / "scheduler" / "scheduler_config.json").unlink()
    with pytest.raises(DataError, match="the scheduler that the network was trained with"):
        open_model(folder)
    (folder / "unet" / "diffusion_pytorch_model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="unreadable unet"):
        open_model(folder)


def test_float64_is_what_small_noise_needs(tmp_path):
    folder = save(tmp_path, diffusers.DDPMScheduler(), **PLANE)
    worst = {}
    for dtype in ("float32", "float64"):
        model = open_model(folder, dtype=dtype)
        scheduler = diffusers.DDPMScheduler()
        patched(model, ideal.answer(tables.frame_of(scheduler.alphas_cumprod), "eps"))
        y = ideal.WORLD.sample(30, generator=torch.Generator().manual_seed(0), sigma=0.01002)
        exact = ideal.WORLD.score(y, 0.01002)
        worst[dtype] = float(((score(model, y, 0.01002) - exact).norm(dim=-1) / exact.norm(dim=-1)).max())
    assert worst["float64"] <= 1e-9
    assert worst["float32"] > 1e-5
