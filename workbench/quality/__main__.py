"""The command that measures a model and writes its card."""

import argparse
import sys

import torch

from workbench.cards import find_card, read_card, write_card
from workbench.data import TOYS, load_images
from workbench.errors import WorkbenchError
from workbench.judges import Judge
from workbench.quality.figures import figures_as_facts, measure_frames, measure_images, measure_toy
from workbench.quality.measures import measure_accuracy
from workbench.report import Estimate
from workbench.zoo import load_judge, load_model


def main(arguments: list[str] | None = None) -> int:
    """The command `python -m workbench.quality`; measures a model, writes its card, returns an exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m workbench.quality", description="Measure a model for its card."
    )
    parser.add_argument("name", help="a shipped model, judge_NAME, or the path of a card")
    parser.add_argument("--count", type=int, default=1000, help="samples (default: 1000)")
    parser.add_argument("--steps", type=int, default=18, help="levels of the sampler (default: 18)")
    parser.add_argument("--seed", type=int, default=0, help="seed (default: 0)")
    parser.add_argument("--dry", action="store_true", help="print the figures without writing the card")
    chosen = parser.parse_args(arguments)
    generator = torch.Generator().manual_seed(chosen.seed)
    try:
        path = find_card(chosen.name)
        facts = read_card(path)
        data = facts["name"].removeprefix("judge_")
        if facts["name"].startswith("judge_"):
            figures = _judge_figures(load_judge(data), data)
        elif data in TOYS:
            figures = measure_toy(load_model(path), steps=chosen.steps, generator=generator)
        elif data == "wake":
            figures = measure_frames(
                load_model(path),
                load_images(data, split="test"),
                load_images(data, split="train"),
                count=chosen.count,
                steps=chosen.steps,
                generator=generator,
            )
        else:
            data = facts.get("autoencoder", {}).get("data", data)
            figures = measure_images(
                load_model(path),
                load_judge(data),
                load_images(data, split="test"),
                load_images(data, split="train"),
                count=chosen.count,
                steps=chosen.steps,
                generator=generator,
            )
    except WorkbenchError as error:
        print(error, file=sys.stderr)
        return 2
    for name, figure in figures.items():
        print(f"{name:28s} {figure}  ({figure.how})")
    if not chosen.dry:
        given_options = f" --count {chosen.count}" if chosen.count != 1000 else ""
        given_options += f" --steps {chosen.steps}" if chosen.steps != 18 else ""
        given_options += f" --seed {chosen.seed}" if chosen.seed != 0 else ""
        facts["measured_by"] = f"python -m workbench.quality {facts['name']}{given_options}"
        facts["figures"] = figures_as_facts(figures)
        write_card(facts, path)
    return 0


def _judge_figures(judge: Judge, data: str) -> dict[str, Estimate]:
    """Accuracy of a judge on all held-out images and on those that are shipped."""
    return {
        f"class_accuracy_{split}": measure_accuracy(judge, images.points, images.labels)
        for split, images in ((split, load_images(data, split=split)) for split in ("test", "sample"))
    }


if __name__ == "__main__":
    sys.exit(main())
