"""Training by a recipe, and the files that it leaves."""

import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from workbench.autoencoders import Vae, draw_latents, fit_vae
from workbench.data import TOYS, draw_toy, load_images
from workbench.integrators import Cancel, Progress
from workbench.judges import Judge, fit_judge
from workbench.principal import PrincipalMlp
from workbench.quality import measure_accuracy
from workbench.recipes.shipped import JudgeRecipe, Latents, Recipe
from workbench.report import versions_in_use
from workbench.training import FitResult, fit_denoiser
from workbench.types import Points
from workbench.zoo import build_net, load_vae, save_model, save_vae

WEIGHTS_LICENCE = "Apache-2.0"

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
