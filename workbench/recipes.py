"""How every shipped network is made: one recipe each, and the command that follows it.

`python -m workbench.recipes NAME` trains NAME and writes NAME.safetensors and NAME.json; a run that is
stopped goes on from its checkpoint when the command is given again (an autoencoder is saved when it is
complete). `python -m workbench.quality NAME` then measures the figures that stand in the card. Both start
from fixed seeds; a repeated training agrees to round-off on one machine and to the spread of training between
machines.
"""

import argparse
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from workbench.autoencoders import Vae, VaeSettings, draw_latents, fit_vae
from workbench.data import FASHION_CLASSES, TOYS, draw_toy, load_images
from workbench.errors import WorkbenchError
from workbench.frames.wake_set import REYNOLDS, WAKE_CLASSES, WAKE_SHAPE
from workbench.integrators import Cancel, Progress
from workbench.judges import Judge, fit_judge
from workbench.principal import PrincipalMlp
from workbench.quality import measure_accuracy
from workbench.report import versions_in_use
from workbench.training import FitResult, TrainSettings, fit_denoiser
from workbench.types import Points
from workbench.zoo import build_net, load_vae, save_model, save_vae

WEIGHTS_LICENCE = "Apache-2.0"


@dataclass(frozen=True, slots=True)
class Latents:
    """What the autoencoder of a latent denoiser is made of.

    Attributes:
        latents: Entries of a latent.
        widths: Widths of the encoder's hidden layers.
        picture: Shape of a picture.
        settings: Arguments of its training.
        draws: Latents drawn of every picture for the denoiser to learn from.
    """

    latents: int
    widths: tuple[int, ...]
    picture: tuple[int, ...]
    settings: VaeSettings
    draws: int = 4

    @property
    def network(self) -> dict[str, Any]:
        """The autoencoder as a card describes it."""
        return {
            "pixels": math.prod(self.picture),
            "latents": self.latents,
            "widths": list(self.widths),
            "shape": list(self.picture),
            "value_range": [-1.0, 1.0],
        }


@dataclass(frozen=True, slots=True)
class Recipe:
    """What one denoiser is made of.

    Attributes:
        name: Its name.
        title: What it is, in a few words.
        data: Name of the image set or toy set.
        data_text: Where the data come from and their licence.
        shape: Shape of one sample.
        classes: Names of the classes; empty for an unconditional network.
        network: Arguments of `workbench.zoo.build_net`.
        settings: Arguments of the training.
        sigma_max: Largest noise level that the model declares.
        value_range: Lowest and highest value of a sample's entries; None if unbounded.
        seed: Seed of the initial weights, of the toy data and of the training.
        latents: The autoencoder in whose latents it denoises; None for the data themselves.
        sigma_min: Smallest noise level that the model declares.
    """

    name: str
    title: str
    data: str
    data_text: str
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    network: dict[str, Any]
    settings: TrainSettings
    sigma_max: float = 80.0
    value_range: tuple[float, float] | None = None
    seed: int = 0
    latents: Latents | None = None
    sigma_min: float = 0.002


@dataclass(frozen=True, slots=True)
class JudgeRecipe:
    """What one judge is made of.

    Attributes:
        name: Its name.
        title: What it is, in a few words.
        data: Name of the image set.
        data_text: Where the data come from and their licence.
        network: Arguments of `Judge`.
        epochs: Passes over the training split.
        batch: Images a step.
        shift: Largest random shift of an image, in pixels.
        seed: Seed of the initial weights and of the training.
    """

    name: str
    title: str
    data: str
    data_text: str
    network: dict[str, Any]
    epochs: int
    batch: int = 128
    shift: int = 1
    seed: int = 0


_FASHION_TEXT = "Fashion-MNIST, 60,000 training images, Zalando SE, MIT licence"
_DIGITS_TEXT = (
    "Optical Recognition of Handwritten Digits (UCI, CC BY 4.0), "
    "the first 1,500 of the 1,797 images in scikit-learn"
)

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="ring",
            title="eight Gaussian modes on a circle, unconditional perceptron in two dimensions",
            data="ring",
            data_text="drawn by workbench.data.draw_toy('ring'), no foreign data",
            shape=(2,),
            classes=(),
            network={"kind": "mlp", "dim": 2, "width": 128, "depth": 3, "classes": 0, "data_std": 0.5},
            settings=TrainSettings(steps=4000, batch=512, rate=2e-3, decay=1.0, null_share=1.0),
            sigma_max=20.0,
        ),
        Recipe(
            name="moons",
            title="two interleaved half circles, class-conditional perceptron in two dimensions",
            data="moons",
            data_text="drawn by workbench.data.draw_toy('moons'), no foreign data",
            shape=(2,),
            classes=("upper", "lower"),
            network={"kind": "mlp", "dim": 2, "width": 128, "depth": 3, "classes": 2, "data_std": 0.5},
            settings=TrainSettings(steps=4000, batch=512, rate=2e-3, decay=1.0, null_share=0.5),
            sigma_max=20.0,
        ),
        Recipe(
            name="digits",
            title="handwritten digits, 8x8, class-conditional perceptron",
            data="digits",
            data_text=_DIGITS_TEXT,
            shape=(1, 8, 8),
            classes=tuple("0123456789"),
            network={"kind": "mlp", "dim": 64, "width": 256, "depth": 4, "classes": 10, "data_std": 0.5},
            settings=TrainSettings(
                steps=1500, batch=256, rate=1e-3, decay=0.5, sigma_mean=-0.8, sigma_std=1.3, null_share=0.3
            ),
            value_range=(-1.0, 1.0),
        ),
        Recipe(
            name="fashion",
            title="garments, 28x28, class-conditional U-Net",
            data="fashion",
            data_text=_FASHION_TEXT,
            shape=(1, 28, 28),
            classes=FASHION_CLASSES,
            network={"kind": "unet", "side": 28, "channels": 32, "deep": 64, "classes": 10, "data_std": 0.5},
            settings=TrainSettings(
                steps=14_000,
                batch=64,
                rate=2e-3,
                decay=0.3,
                sigma_mean=-0.4,
                sigma_std=1.4,
                null_share=0.3,
            ),
            value_range=(-1.0, 1.0),
        ),
        Recipe(
            name="fashion_latent",
            title="garments, 28x28, class-conditional perceptron on 16 latents of an autoencoder",
            data="fashion",
            data_text=_FASHION_TEXT,
            shape=(16,),
            classes=FASHION_CLASSES,
            network={"kind": "mlp", "dim": 16, "width": 256, "depth": 3, "classes": 10, "data_std": 1.0},
            settings=TrainSettings(
                steps=4000, batch=256, rate=1e-3, decay=1.0, sigma_mean=-0.6, sigma_std=1.2, null_share=0.3
            ),
            latents=Latents(16, (512, 256), (1, 28, 28), VaeSettings(steps=8000, beta=0.2)),
        ),
        Recipe(
            name="wake",
            title="wake of a cylinder, 30x50, conditional on the Reynolds number",
            data="wake",
            data_text="computed by workbench.frames.wake_set.simulate_frames, no foreign data; "
            "hidden gaps left out",
            shape=WAKE_SHAPE,
            classes=WAKE_CLASSES,
            network={
                "kind": "principal",
                "dim": 1500,
                "axes": 32,
                "width": 256,
                "depth": 3,
                "classes": len(REYNOLDS),
                "data_std": 0.15625,
            },
            settings=TrainSettings(
                steps=4000, batch=256, rate=1e-3, decay=0.7, sigma_mean=0.0, sigma_std=2.0, null_share=0.3
            ),
            value_range=(-1.0, 1.0),
            sigma_min=0.01,
        ),
    )
}

JUDGE_RECIPES: dict[str, JudgeRecipe] = {
    recipe.name: recipe
    for recipe in (
        JudgeRecipe(
            name="judge_digits",
            title="classifier of 8x8 digits, for judging samples",
            data="digits",
            data_text=_DIGITS_TEXT,
            network={"side": 8},
            epochs=100,
            batch=64,
            shift=0,
        ),
        JudgeRecipe(
            name="judge_fashion",
            title="classifier of 28x28 garments, for judging samples",
            data="fashion",
            data_text=_FASHION_TEXT,
            network={"side": 28},
            epochs=8,
        ),
    )
}

TOY_COUNT = 100_000
"""Points of a toy set that a network is trained on."""


def training_data(name: str, seed: int) -> tuple[Points, torch.Tensor]:
    """What a recipe trains on.

    Args:
        name: A toy set or an image set.
        seed: Seed of the toy set.

    Returns:
        Points (count, dim) and labels (count,).
    """
    if name in TOYS:
        return draw_toy(name, TOY_COUNT, generator=torch.Generator().manual_seed(seed))
    images = load_images(name, split="train")
    return images.points, images.labels


def follow(
    recipe: Recipe,
    *,
    vae: Vae | None = None,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> FitResult:
    """Train the denoiser of a recipe.

    Args:
        recipe: The recipe.
        vae: The trained autoencoder of a latent recipe.
        checkpoint: File to resume from and to save to; None for neither.
        progress: Called with the fraction done and a sentence.
        cancel: Stops the training, which then saves its checkpoint.

    Returns:
        The trained denoiser with the account of its training.
    """
    data, labels = training_data(recipe.data, recipe.seed)
    if recipe.latents is not None and vae is not None:
        draws, generator = recipe.latents.draws, torch.Generator().manual_seed(recipe.seed + 1)
        data = torch.cat([draw_latents(vae, data, generator=generator) for _ in range(draws)])
        labels = labels.repeat(draws)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(recipe.seed)
        net = build_net(recipe.network)
    if isinstance(net.inner, PrincipalMlp):
        net.inner.fit_axes(data, net.data_std)
    return fit_denoiser(
        net,
        data,
        labels if recipe.classes else None,
        settings=recipe.settings,
        generator=torch.Generator().manual_seed(recipe.seed),
        checkpoint=checkpoint,
        progress=progress,
        cancel=cancel,
    )


def follow_vae(recipe: Recipe, latents: Latents, *, progress: Progress | None = None) -> Vae:
    """Train the autoencoder of a latent recipe.

    Args:
        recipe: The recipe.
        latents: Its autoencoder.
        progress: Called with the fraction done and a sentence.

    Returns:
        The trained network.
    """
    data, _ = training_data(recipe.data, recipe.seed)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(recipe.seed)
        vae = Vae(math.prod(latents.picture), latents.latents, latents.widths)
    generator = torch.Generator().manual_seed(recipe.seed)
    return fit_vae(vae, data, settings=latents.settings, generator=generator, progress=progress)


def denoiser_facts(recipe: Recipe, result: FitResult) -> dict[str, Any]:
    """The card of a freshly trained denoiser, before its figures are measured."""
    facts = {
        "name": recipe.name,
        "title": recipe.title,
        "data": recipe.data_text,
        "licence": WEIGHTS_LICENCE,
        "command": f"python -m workbench.recipes {recipe.name}",
        "shape": list(recipe.shape),
        "classes": list(recipe.classes),
        "value_range": None if recipe.value_range is None else list(recipe.value_range),
        "sigma_min": recipe.sigma_min,
        "sigma_max": recipe.sigma_max,
        "data_std": recipe.network["data_std"],
        "network": recipe.network,
        "parameters": sum(parameter.numel() for parameter in result.net.parameters()),
        "objective": "EDM denoising, ln sigma normal",
        "training": asdict(recipe.settings) | {"seed": recipe.seed, "cpu_seconds": round(result.seconds)},
        "versions": versions_in_use(),
    }
    if recipe.latents is not None:
        facts["autoencoder"] = {"data": recipe.data} | recipe.latents.network
        facts["training"]["autoencoder"] = asdict(recipe.latents.settings)
    return facts


def make_denoiser(recipe: Recipe, folder: Path) -> None:
    """Train, or go on training, and write weights and card; prints its progress."""
    checkpoint = folder / f"{recipe.name}.checkpoint.safetensors"
    vae_file = folder / f"{recipe.name}.autoencoder.safetensors"
    vae = None
    if recipe.latents is not None:
        if not vae_file.exists():
            save_vae(follow_vae(recipe, recipe.latents, progress=_printer()), vae_file)
        vae = load_vae(recipe.latents.network, vae_file)
    result = follow(recipe, vae=vae, checkpoint=checkpoint, progress=_printer())
    print(f"wrote {save_model(result.net, denoiser_facts(recipe, result), folder, vae=vae)}")
    for file in (checkpoint, vae_file):
        file.unlink(missing_ok=True)


def _printer() -> Progress:
    """Progress as lines with the time left."""
    began = time.monotonic()

    def progress(fraction: float, message: str) -> None:
        left = (time.monotonic() - began) * (1 - fraction) / fraction
        print(f"{fraction:6.1%}  {message}, about {left:.0f} s left", flush=True)

    return progress


def make_judge(recipe: JudgeRecipe, folder: Path) -> None:
    """Train a judge and write weights and card with its accuracy on held-out images; prints its progress."""
    train, test = load_images(recipe.data, split="train"), load_images(recipe.data, split="test")
    began = time.process_time()
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(recipe.seed)
        judge = fit_judge(
            Judge(**recipe.network),
            train.points,
            train.labels,
            epochs=recipe.epochs,
            batch=recipe.batch,
            shift=recipe.shift,
            generator=torch.Generator().manual_seed(recipe.seed),
            progress=lambda fraction, message: print(f"{fraction:6.1%}  {message}", flush=True),
        )
    facts = {
        "name": recipe.name,
        "title": recipe.title,
        "data": recipe.data_text,
        "licence": WEIGHTS_LICENCE,
        "command": f"python -m workbench.recipes {recipe.name}",
        "network": recipe.network,
        "parameters": sum(parameter.numel() for parameter in judge.parameters()),
        "training": {
            "epochs": recipe.epochs,
            "batch": recipe.batch,
            "shift": recipe.shift,
            "seed": recipe.seed,
            "cpu_seconds": round(time.process_time() - began),
        },
        "versions": versions_in_use(),
    }
    print(
        f"wrote {save_model(judge, facts, folder)}; right on {len(test)} held-out images: "
        f"{measure_accuracy(judge, test.points, test.labels)}"
    )


def main(arguments: list[str] | None = None) -> int:
    """The command `python -m workbench.recipes`; returns its exit code."""
    names = [*RECIPES, *JUDGE_RECIPES]
    parser = argparse.ArgumentParser(
        prog="python -m workbench.recipes", description="Train a shipped network."
    )
    parser.add_argument("name", choices=names)
    parser.add_argument(
        "--out", type=Path, default=Path("weights"), help="folder to write to (default: weights)"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: 1)")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(chosen.threads)
    try:
        if chosen.name in RECIPES:
            make_denoiser(RECIPES[chosen.name], chosen.out)
        else:
            make_judge(JUDGE_RECIPES[chosen.name], chosen.out)
    except WorkbenchError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
