r"""A tiny pipeline of the diffusers library, trained here: handwritten digits, eight by eight pixels.

It is in everything but size what a researcher has on disk: a `UNet2DModel` with attention that predicts the
noise of DDPM's thousand steps, written with `save_pretrained`. It serves as the worked example of a model
from elsewhere, and as a test that a folder gives every lens the numbers of the network that it holds.

`python -m workbench.pipelines` trains it, about three minutes on one core, and writes folder and card. The
loss is the plain error of the predicted noise at steps drawn evenly; the weights kept are a running average.

References:
    Ho, Jain, Abbeel, "Denoising Diffusion Probabilistic Models", 2020, algorithm 1 and equation 14,
        https://arxiv.org/abs/2006.11239
    von Platen et al., "Diffusers", 2022, https://github.com/huggingface/diffusers
"""

import argparse
import copy
import sys
import time
from pathlib import Path
from typing import Any

import torch

from workbench.adapters.open import open_model
from workbench.cards import write_card
from workbench.data import load_images
from workbench.draws import draw_integers, draw_normal
from workbench.errors import MissingExtra, WorkbenchError
from workbench.integrators import Progress
from workbench.models import ScoreModel
from workbench.quality import DENOISING_LEVELS, figures_as_facts, measure_denoising, measure_frechet
from workbench.report import Estimate, versions_in_use
from workbench.sampling import sample
from workbench.zoo import load_judge

NAME = "digits_pipeline"
NETWORK: dict[str, Any] = {
    "sample_size": 8,
    "in_channels": 1,
    "out_channels": 1,
    "layers_per_block": 1,
    "block_out_channels": (16, 32),
    "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
    "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    "norm_num_groups": 8,
    "attention_head_dim": 8,
}
"""Arguments of `UNet2DModel`."""
STEPS, BATCH, RATE, WARMUP, SEED = 3000, 64, 2e-3, 100, 0
TABLE = 1000
"""Steps of the noise table."""


def fit_pipeline(*, steps: int = STEPS, seed: int = SEED, progress: Progress | None = None) -> Any:
    """Train the pipeline on the training split of the digits.

    Args:
        steps: Optimiser steps.
        seed: Of the initial weights and of all draws.
        progress: Called every 100 steps with the fraction done and a sentence.

    Returns:
        A `DDPMPipeline` with averaged weights.

    Raises:
        MissingExtra: If diffusers is not installed.
    """
    diffusers = _diffusers()
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        net = diffusers.UNet2DModel(**NETWORK)
    scheduler = diffusers.DDPMScheduler(num_train_timesteps=TABLE, clip_sample=False)
    images = load_images("digits", split="train").points
    shares, generator = scheduler.alphas_cumprod, torch.Generator().manual_seed(seed)
    average = copy.deepcopy(net).eval().requires_grad_(False)
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.0)
    for step in range(steps):
        clean = images[draw_integers(len(images), (BATCH,), images, generator)].reshape(-1, 1, 8, 8)
        index = draw_integers(TABLE, (BATCH,), images, generator)
        eps = draw_normal(clean.shape, clean, generator)
        share = shares[index][:, None, None, None]
        loss = (net(share.sqrt() * clean + (1 - share).sqrt() * eps, index).sample - eps).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / WARMUP, 2.0 * (1.0 - step / steps))
        optimiser.step()
        with torch.no_grad():
            for kept, now in zip(average.parameters(), net.parameters(), strict=True):
                kept.lerp_(now, 1.0 - (1.0 - 1.0 / (step + 1)) ** 7.94)
        if progress is not None and (step + 1) % 100 == 0:
            progress((step + 1) / steps, f"step {step + 1} of {steps}, loss {loss.detach().item():.4f}")
    return diffusers.DDPMPipeline(unet=average, scheduler=scheduler)


def measure_pipeline(model: ScoreModel, *, count: int = 500, seed: int = 0) -> dict[str, Estimate]:
    """How good the opened pipeline is: samples against held-out digits, and denoising.

    Args:
        model: The pipeline as `open_model` returns it.
        count: Samples.
        seed: Of all draws.

    Returns:
        Name of each figure to its value.
    """
    generator, held_out = torch.Generator().manual_seed(seed), load_images("digits", split="test").points
    judge, train = load_judge("digits"), load_images("digits", split="train").points
    drawn = sample(model, count, generator=generator)
    figures = {
        "frechet_null": measure_frechet(judge, drawn, held_out, generator=generator),
        "frechet_real": measure_frechet(judge, train[:count], held_out, generator=generator),
    }
    for sigma in DENOISING_LEVELS:
        figures[f"denoising_null_{sigma:g}"] = measure_denoising(model, held_out, sigma, generator=generator)
    return figures


def make_pipeline(folder: Path, *, steps: int = STEPS, progress: Progress | None = None) -> Path:
    """Train the pipeline, write its folder with `save_pretrained`, measure it, and write its card beside.

    Args:
        folder: Folder to write into; the pipeline becomes a folder in it.
        steps: Optimiser steps.
        progress: As for `fit_pipeline`.

    Returns:
        The pipeline's folder.
    """
    began, target = time.process_time(), folder / NAME
    pipeline = fit_pipeline(steps=steps, progress=progress)
    pipeline.save_pretrained(target)
    seconds = round(time.process_time() - began)
    opened = open_model(target)
    figures = measure_pipeline(opened) if isinstance(opened, ScoreModel) else {}
    facts = {
        "name": NAME,
        "title": "handwritten digits, 8x8, a pipeline of the diffusers library, unconditional",
        "data": "Optical Recognition of Handwritten Digits (UCI, CC BY 4.0), "
        "the first 1,500 of the 1,797 images in scikit-learn",
        "licence": "Apache-2.0",
        "command": "python -m workbench.pipelines",
        "parameters": sum(parameter.numel() for parameter in pipeline.unet.parameters()),
        "objective": "noise prediction on DDPM's linear table",
        "training": {
            "steps": steps,
            "batch": BATCH,
            "rate": RATE,
            "warmup": WARMUP,
            "seed": SEED,
            "cpu_seconds": seconds,
        },
        "versions": versions_in_use() | {"diffusers": _diffusers().__version__},
        "figures": figures_as_facts(figures),
    }
    write_card(facts, target / "card.json")
    return target


def _diffusers() -> Any:
    try:
        import diffusers
    except ImportError as error:
        raise MissingExtra.of("diffusers", "models") from error
    return diffusers


def main(arguments: list[str] | None = None) -> int:
    """The command `python -m workbench.pipelines`; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m workbench.pipelines", description="Train the shipped pipeline."
    )
    parser.add_argument("--out", type=Path, default=Path("weights"), help="folder (default: weights)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"optimiser steps (default: {STEPS})")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        target = make_pipeline(
            chosen.out,
            steps=chosen.steps,
            progress=lambda fraction, message: print(f"{fraction:6.1%}  {message}", flush=True),
        )
    except WorkbenchError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
