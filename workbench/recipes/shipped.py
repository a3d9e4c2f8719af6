"""What every shipped network is made of."""

import math
from dataclasses import dataclass
from typing import Any

from workbench.autoencoders import VaeSettings
from workbench.data import FASHION_CLASSES
from workbench.frames.wake_set import REYNOLDS, WAKE_CLASSES, WAKE_SHAPE
from workbench.training import TrainSettings


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
