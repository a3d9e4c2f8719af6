"""The command that trains a shipped network."""

import argparse
import sys
from pathlib import Path

import torch

from workbench.errors import WorkbenchError
from workbench.recipes.making import make_denoiser, make_judge
from workbench.recipes.shipped import JUDGE_RECIPES, RECIPES


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
