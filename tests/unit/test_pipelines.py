"""A folder of the diffusers library gives every lens the numbers of the network that is in it."""

import json
from pathlib import Path

import diffusers
import pytest
import torch
from safetensors.torch import load_file

from workbench.adapters.files import local_path
from workbench.adapters.open import open_model
from workbench.adapters.wrap import wrap
from workbench.anisotropy.neighbours import find_harmonics
from workbench.data import load_images
from workbench.lenses.paths import find_path
from workbench.metrics import matrix, seen_metric
from workbench.pipelines import NETWORK, TABLE, fit_pipeline
from workbench.schedules import Schedule
from workbench.subjects import open_subject

RELATIVE = 1e-5
"""Between two ways to the same network in float64: the library embeds the time in float32, so that a last bit
of the time is worth so much."""


def native(folder: Path):
    """The torch module of a pipeline, wrapped by hand: DDPM's table written out, no adapter."""
    net = diffusers.UNet2DModel(**NETWORK)
    net.load_state_dict(load_file(folder / "unet" / "diffusion_pytorch_model.safetensors"))
    net = net.double().eval().requires_grad_(False)
    for part in net.modules():  # torch's forward derivative of this norm wants its input in memory order
        if isinstance(part, torch.nn.GroupNorm):
            part.register_forward_pre_hook(
                lambda _, inputs: tuple(x.clone(memory_format=torch.contiguous_format) for x in inputs)
            )
    betas = torch.linspace(1e-4, 0.02, TABLE, dtype=torch.float32)
    shares = torch.cumprod(1.0 - betas, dim=0).double()
    logs = 0.5 * ((1.0 - shares) / shares).log()

    def levels(t):
        low = t.detach().floor().long().clamp(0, TABLE - 2)
        sigma = (logs[low] + (t - low) * (logs[low + 1] - logs[low])).exp()
        return (1 + sigma**2).rsqrt(), sigma * (1 + sigma**2).rsqrt()

    def module(x, t, condition):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return net(x, t).sample

    schedule = Schedule("ddpm", levels, float(TABLE - 1), 0.0)
    low, high = float(logs[0].exp()), float(logs[-1].exp())
    return wrap(module, prediction="eps", schedule=schedule, shape=(1, 8, 8), sigma_range=(low, high))


@pytest.fixture(scope="module")
def pair():
    torch.set_default_dtype(torch.float64)
    folder = local_path("digits_pipeline")
    return open_model(folder, dtype="float64"), native(folder)


@pytest.fixture(scope="module")
def ends():
    return load_images("digits", limit=2, dtype=torch.float64).points


@pytest.mark.parametrize("sigma", [0.0101, 0.1, 1.0, 10.0, 150.0])
def test_both_denoise_alike(pair, ends, sigma):
    noisy = ends + sigma * torch.randn(ends.shape, generator=torch.Generator().manual_seed(0))
    opened, own = (model.denoise(noisy, sigma) for model in pair)
    torch.testing.assert_close(opened, own, rtol=RELATIVE, atol=RELATIVE * (1.0 + sigma))


def test_both_have_the_same_string(pair, ends):
    found = [
        find_path(
            model,
            *ends,
            regime="transport",
            nodes=5,
            steps=4,
            measure_share=False,
            energy_sigma=0.1,
            tol=10.0,
        )
        for model in pair
    ]
    torch.testing.assert_close(found[0].curve.points, found[1].curve.points, rtol=RELATIVE, atol=RELATIVE)
    torch.testing.assert_close(found[0].energy, found[1].energy, rtol=1e-4, atol=1e-4)
    assert found[0].length.value == pytest.approx(found[1].length.value, rel=RELATIVE)


def test_both_have_the_same_metric_and_directions(pair, ends):
    plane = torch.linalg.qr(torch.randn(64, 2, generator=torch.Generator().manual_seed(1)))[0].T
    metrics = [seen_metric(model, 0.5) for model in pair]
    inner = [metric.push(ends, plane)[1] for metric in metrics]
    torch.testing.assert_close(inner[0], inner[1], rtol=1e-4, atol=RELATIVE)
    values = [
        find_harmonics(model, ends[0], 0.5, count=3, generator=torch.Generator().manual_seed(2)).values
        for model in pair
    ]
    torch.testing.assert_close(values[0], values[1], rtol=RELATIVE, atol=RELATIVE)


def test_a_pipeline_is_trained_saved_and_opened_back(tmp_path):
    torch.set_default_dtype(torch.float32)
    messages = []
    pipeline = fit_pipeline(steps=100, progress=lambda _, message: messages.append(message))
    pipeline.save_pretrained(tmp_path / "made")
    opened = open_model(tmp_path / "made")
    x = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    share = pipeline.scheduler.alphas_cumprod[300]
    sigma = float(((1 - share) / share).sqrt())
    with torch.no_grad():
        eps = pipeline.unet(x, torch.full((2,), 300.0)).sample
        found = opened.denoise((x / share.sqrt()).flatten(1), sigma)
    expected = (x - (1 - share).sqrt() * eps) / share.sqrt()
    torch.testing.assert_close(found, expected.flatten(1), rtol=1e-3, atol=1e-3)
    assert messages == ["step 100 of 100, " + messages[0].split(", ")[1]]
    assert float(messages[0].split()[-1]) < 0.9  # less than what zero predicts


def test_the_shipped_folder_is_small_and_has_a_card():
    folder = local_path("digits_pipeline")
    assert sum(file.stat().st_size for file in folder.rglob("*")) < 1_000_000
    facts = json.loads((folder / "card.json").read_text())
    assert facts["figures"]["frechet_null"]["value"] < 2 * facts["figures"]["frechet_real"]["value"]
    assert facts["command"] == "python -m workbench.pipelines"


def test_numbers_name_real_digits_of_the_shipped_folder():
    subject = open_subject(model="digits_pipeline")
    torch.testing.assert_close(subject.point("3"), load_images("digits").points[3])


def test_the_seen_metric_of_a_denoiser_is_its_jacobian_squared(pair):
    ring = open_model("ring", dtype="float64")
    x = torch.tensor([[0.5, 0.2]])
    step = 1e-5 * torch.eye(2)
    slopes = (ring.denoise(x + step, 0.3) - ring.denoise(x - step, 0.3)) / 2e-5
    torch.testing.assert_close(matrix(seen_metric(ring, 0.3), x)[0], slopes @ slopes.T, rtol=1e-6, atol=1e-8)
