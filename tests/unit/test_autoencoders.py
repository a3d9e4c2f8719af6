"""The autoencoder's loss against its formula, its latents against their definition, and the shipped model."""

import math

import numpy as np
import pytest
import torch

from tests.oracles import nets as oracle
from workbench.autoencoders import Vae, VaeModel, VaeSettings, draw_latents, fit_vae, vae_loss
from workbench.cards import find_card, read_card
from workbench.data import load_images
from workbench.decoders import Autoencoder, LatentModel, decoder_of, show_points
from workbench.errors import DataError, SettingError
from workbench.lenses.fisher import find_geodesic
from workbench.metrics import Chart, decoder_metric, matrix
from workbench.models import Frame
from workbench.nets import given
from workbench.sampling import sample
from workbench.subjects import open_subject
from workbench.zoo import build_net, load_model, save_model

PICTURE = Frame("squares", (1, 4, 4), 0.0, 0.0, (-1.0, 1.0))


@pytest.fixture
def vae() -> Vae:
    torch.manual_seed(3)
    return Vae(16, 2, (8,)).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def shipped() -> LatentModel:
    return load_model("fashion_latent", dtype=torch.float64)


def test_loss_is_the_evidence_bound(generator):
    torch.manual_seed(3)
    net = Vae(16, 2, (8,))
    p = torch.rand(5, 16, generator=generator)
    noise = torch.randn(5, 2, generator=generator)
    with torch.no_grad():
        mean, log_variance = net.posterior(p)
        logits = net.logits(mean + (0.5 * log_variance).exp() * noise)
        loss = float(vae_loss(net, p, noise, 0.3))
    expected = oracle.evidence_bound(*(v.numpy() for v in (p, logits, mean, log_variance)), 0.3)
    assert loss == pytest.approx(expected, rel=1e-10)


def test_decoding_undoes_the_shift_and_scale(vae, generator):
    vae.shift.copy_(torch.tensor([0.5, -1.0]))
    vae.scale.copy_(torch.tensor([2.0, 0.25]))
    h = torch.randn(3, 2, generator=generator)
    pictures = VaeModel(vae, PICTURE).decode((h - vae.shift) * vae.scale)
    torch.testing.assert_close(pictures, 2 * torch.sigmoid(vae.logits(h)) - 1, rtol=1e-12, atol=1e-12)


def test_encoding_is_the_scaled_mean_of_the_encoder(vae, generator):
    vae.shift.copy_(torch.tensor([0.5, -1.0]))
    vae.scale.copy_(torch.tensor([2.0, 0.25]))
    x = 2 * torch.rand(3, 16, generator=generator) - 1
    mean, _ = vae.posterior((x + 1) / 2)
    found = VaeModel(vae, PICTURE).encode(x)
    torch.testing.assert_close(found, (mean - vae.shift) * vae.scale, rtol=1e-12, atol=1e-12)


def test_chunks_do_not_change_the_answer(vae, generator):
    z = torch.randn(2, 5, 2, generator=generator)
    whole, parts = VaeModel(vae, PICTURE).decode(z), VaeModel(vae, PICTURE, memory=1).decode(z)
    assert whole.shape == (2, 5, 16)
    torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)


def test_training_learns_and_standardises_its_latents():
    generator = torch.Generator().manual_seed(1)
    on = torch.randint(2, (400, 1), generator=generator).double()
    images = (2 * on - 1).expand(400, 16).contiguous()
    torch.manual_seed(3)
    net = Vae(16, 2, (16,))
    settings = VaeSettings(steps=150, batch=32, rate=1e-2, beta=0.1, shift=0)
    messages: list[str] = []
    fit_vae(net, images, settings=settings, generator=generator, progress=lambda _, m: messages.append(m))
    net.requires_grad_(False)
    z = draw_latents(net, images, generator=generator)
    torch.testing.assert_close(z.mean(dim=0), torch.zeros(2), atol=0.2, rtol=0)
    torch.testing.assert_close(z.std(dim=0), torch.ones(2), atol=0.15, rtol=0)
    model = VaeModel(net, PICTURE)
    assert float((model.decode(model.encode(images)) - images).square().mean()) < 0.02
    assert messages[0].startswith("step 100 of 150")


def test_pictures_that_are_no_squares_are_refused():
    with pytest.raises(SettingError, match="square pictures"):
        fit_vae(
            Vae(12, 2, (4,)),
            torch.zeros(4, 12),
            settings=VaeSettings(steps=1),
            generator=torch.Generator(),
        )


def test_the_shipped_frame_says_that_points_are_latents(shipped):
    assert shipped.frame.space == "latent"
    assert str(given(shipped, "bag").frame) == "fashion_latent given bag, latent space"
    assert decoder_of(shipped) is shipped.decoder
    assert isinstance(shipped.decoder, Autoencoder)
    assert shipped.decoder.picture.shape == (1, 28, 28)
    assert shipped.decoder.latent_shape == shipped.frame.shape == (16,)


def test_shipped_latents_have_unit_spread_and_come_back_as_pictures(shipped):
    images = load_images("fashion").points.double()
    z = shipped.decoder.encode(images)
    torch.testing.assert_close(z.mean(dim=0), torch.zeros(16).double(), atol=0.15, rtol=0)
    assert 0.8 < float(z.std(dim=0).min()) < float(z.std(dim=0).max()) < 1.15  # none was given up
    worth = read_card_value("reconstruction")
    error = float((shipped.decoder.decode(z) - images).square().mean())
    assert error == pytest.approx(worth, rel=0.05)


def read_card_value(figure: str) -> float:
    return read_card(find_card("fashion_latent"))["figures"][figure]["value"]


def test_samples_are_shown_as_pictures(shipped):
    z = sample(shipped, 3, steps=6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pictures, frame = show_points(shipped, z)
    assert pictures.shape == (3, 784)
    assert frame.name == "fashion"
    assert float(pictures.min()) >= -1.0
    assert float(pictures.max()) <= 1.0


def test_the_pullback_of_the_decoder_is_its_jacobian_squared(shipped):
    z = shipped.decoder.encode(load_images("fashion", limit=1).points.double())
    metric = decoder_metric(shipped.decoder.decode, Chart("latents", 16))
    step = 1e-5 * torch.eye(16, dtype=torch.float64)
    slopes = (shipped.decoder.decode(z + step) - shipped.decoder.decode(z - step)) / 2e-5
    torch.testing.assert_close(matrix(metric, z)[0], slopes @ slopes.T, rtol=1e-6, atol=1e-6)


def test_real_images_name_their_latents():
    subject = open_subject(model="fashion_latent")
    images = load_images("fashion").points
    torch.testing.assert_close(subject.point("7"), subject.decoder.encode(images[7]), rtol=1e-5, atol=1e-5)
    assert subject.pictures
    assert subject.show(torch.stack(subject.ends())).shape == (2, 784)
    assert subject.frame.dim == 16


def test_directions_are_seen_through_the_decoder():
    subject = open_subject(model="fashion_latent", dtype="float64")
    z, v = subject.point("0"), torch.eye(16)[:3]
    slopes = (subject.decoder.decode(z + 1e-5 * v) - subject.decoder.decode(z - 1e-5 * v)) / 2e-5
    torch.testing.assert_close(subject.seen(z, v), slopes, rtol=1e-6, atol=1e-7)
    points = open_subject(model="ring")
    assert points.seen(points.point("0,1"), v) is v


def test_a_picture_file_names_its_latent(tmp_path):
    from PIL import Image

    Image.new("L", (28, 28), 128).save(tmp_path / "grey.png")
    subject = open_subject(model="fashion_latent")
    expected = subject.decoder.encode(torch.full((784,), 2 * 128 / 255 - 1, dtype=torch.float32))
    torch.testing.assert_close(subject.point(str(tmp_path / "grey.png")), expected, rtol=1e-4, atol=1e-4)


LATENT_FACTS = {
    "name": "tiny_latent",
    "shape": [2],
    "classes": [],
    "value_range": None,
    "sigma_min": 0.002,
    "sigma_max": 10.0,
    "data_std": 1.0,
    "network": {"kind": "mlp", "dim": 2, "width": 8, "depth": 1, "classes": 0, "data_std": 1.0},
    "autoencoder": {
        "data": "squares",
        "pixels": 16,
        "latents": 2,
        "widths": [8],
        "shape": [1, 4, 4],
        "value_range": [-1.0, 1.0],
    },
}


def test_a_latent_model_is_saved_and_read_back(vae, tmp_path, generator):
    card = save_model(build_net(LATENT_FACTS["network"]), LATENT_FACTS, tmp_path, vae=vae)
    found = load_model(card, dtype=torch.float64)
    z = torch.randn(3, 2, generator=generator)
    half = {name: tensor.half().double() for name, tensor in vae.state_dict().items()}
    vae.load_state_dict(half)
    torch.testing.assert_close(
        found.decoder.decode(z), VaeModel(vae, PICTURE).decode(z), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("latents", 3, "autoencoder.latents 3"),
        ("pixels", 15, "autoencoder.pixels 15"),
        ("widths", "8", "autoencoder.widths '8'"),
        ("shape", [0], "autoencoder.shape [0]"),
        ("value_range", [1.0, -1.0], "autoencoder.value_range [1.0, -1.0]"),
        ("data", 3, "autoencoder.data 3"),
    ],
)
def test_a_damaged_card_is_refused_by_its_entry(vae, tmp_path, key, value, words):
    facts = LATENT_FACTS | {"autoencoder": LATENT_FACTS["autoencoder"] | {key: value}}
    card = save_model(build_net(LATENT_FACTS["network"]), facts, tmp_path, vae=vae)
    with pytest.raises(DataError) as caught:
        load_model(card)
    assert words in str(caught.value)


def test_the_card_tells_the_evidence_of_a_good_model():
    assert read_card_value("class_accuracy_samples") > 0.7
    assert math.isfinite(read_card_value("frechet_conditional"))
    assert np.isfinite(read_card_value("denoising_null_1"))


@pytest.mark.slow
def test_a_geodesic_of_the_decoder_is_shorter_than_the_straight_line(shipped):
    start, end = shipped.decoder.encode(load_images("fashion", limit=2).points.double())
    metric = decoder_metric(shipped.decoder.decode, Chart("latents", 16))
    found = find_geodesic(metric, start, end, nodes=9, levels=1, starts=1)
    assert found.report.converged
    assert found.shortest.length.value < found.references[0].length.value
