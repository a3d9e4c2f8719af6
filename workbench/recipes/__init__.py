"""How every shipped network is made: one recipe each, and the command that follows it.

`python -m workbench.recipes NAME` trains NAME and writes NAME.safetensors and NAME.json; a run that is
stopped goes on from its checkpoint when the command is given again (an autoencoder is saved when it is
complete). `python -m workbench.quality NAME` then measures the figures that stand in the card. Both start
from fixed seeds; a repeated training agrees to round-off on one machine and to the spread of training between
machines.
"""

from workbench.recipes.making import (
    denoiser_facts,
    follow,
    follow_vae,
    make_denoiser,
    make_judge,
    training_data,
)
from workbench.recipes.shipped import JUDGE_RECIPES, RECIPES, JudgeRecipe, Latents, Recipe

__all__ = [
    "JUDGE_RECIPES",
    "RECIPES",
    "JudgeRecipe",
    "Latents",
    "Recipe",
    "denoiser_facts",
    "follow",
    "follow_vae",
    "make_denoiser",
    "make_judge",
    "training_data",
]
