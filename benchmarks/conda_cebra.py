"""Our contrastive embedding beside CEBRA's: time a step, and what the embedding knows, in one run.

Both see the same latents, 20 000 points of 30 dimensions that mix two factors, with batches of 512. Times are
of the processor, all threads together, per step, from the difference of a longer and a shorter fit, so that
set-up does not count; "network only" repeats the same step on pairs that are already drawn. Ratios count,
seconds depend on the machine.

Run as `python benchmarks/conda_cebra.py [--steps N] [--iterations N]`; some minutes. CEBRA comes with the
extra `rivals`.
"""

import argparse
import sys
import time

import numpy as np
import torch
from cebra import CEBRA
from cebra.data.datatypes import Batch
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsRegressor

from workbench.conda.consistency import linear_r2, measure_consistency
from workbench.conda.context import make_context
from workbench.conda.fitting import train
from workbench.conda.latents import open_latents
from workbench.conda.settings import CondaConfig
from workbench.conda.stack import Stack

POINTS, BATCH, RATE, DELTA = 20_000, 512, 1e-3, 0.1
HIDDEN = 50  # ours: 30-50-50-50-2, as many products as CEBRA's 30-60-60-20-2
KINDS = ("delta", "time")
BLOCKS = 20


def make_data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Nonlinear mixtures of two factors that walk at random in a box, and the factors."""
    generator = np.random.default_rng(seed)
    walk = np.cumsum(0.1 * generator.normal(size=(POINTS, 2)), axis=0)
    factors = np.abs(np.mod(walk, 2.0) - 1.0)
    turned = 2.0 * factors - 1.0
    for _ in range(3):
        turned = turned @ np.linalg.qr(generator.normal(size=(2, 2)))[0]
        turned = np.where(turned > 0, turned, 0.2 * turned)
    mixed = np.tanh(turned @ generator.normal(size=(2, 30))) + 0.1 * turned @ generator.normal(size=(2, 30))
    return mixed.astype(np.float32), factors.astype(np.float32)


def fit_theirs(latents: np.ndarray, factors: np.ndarray, kind: str, iterations: int) -> CEBRA:
    """CEBRA with a squared-distance InfoNCE and a network of one frame."""
    model = CEBRA(
        model_architecture="offset1-model-mse",
        distance="euclidean",
        conditional=kind,
        delta=DELTA if kind == "delta" else None,
        time_offsets=1,
        batch_size=BATCH,
        learning_rate=RATE,
        output_dimension=2,
        num_hidden_units=32,
        max_iterations=iterations,
        temperature=1.0,
        device="cpu",
        verbose=False,
    )
    return model.fit(latents, factors)


def fit_ours(latents: np.ndarray, factors: np.ndarray, kind: str, iterations: int, seed: int, **settings):
    """Ours: one copy without its control, as CEBRA has neither, unless settings say otherwise."""
    control = settings.pop("control", False)
    config = CondaConfig(
        dim=2,
        positives=kind,
        delta=DELTA,
        batch=BATCH,
        iterations=iterations,
        rate=RATE,
        **({"hidden": HIDDEN, "restarts": 1, "held_out": 0.0} | settings),
    )
    generator = torch.Generator().manual_seed(seed)
    context = make_context(len(latents), factors)
    return train(open_latents(latents), context, config, generator=generator, control=control)


def step_time(fit, steps: int) -> float:
    """Milliseconds a step, set-up left out."""
    fit(5)
    spent = []
    for count in (steps, 3 * steps):
        begin = time.process_time()
        fit(count)
        spent.append(time.process_time() - begin)
    return 1e3 * (spent[1] - spent[0]) / (2 * steps)


def repeat_time(step, count: int = 60) -> float:
    """Milliseconds of a call."""
    for _ in range(5):
        step()
    begin = time.process_time()
    for _ in range(count):
        step()
    return 1e3 * (time.process_time() - begin) / count


def network_theirs(latents: np.ndarray, factors: np.ndarray) -> float:
    """One step of CEBRA's solver on a batch that is already there."""
    solver = fit_theirs(latents, factors, "time", 1).solver_
    rows = torch.randint(len(latents), (3, BATCH))
    parts = [torch.from_numpy(latents[index])[..., None] for index in rows]
    batch = Batch(reference=parts[0], positive=parts[1], negative=parts[2])
    return repeat_time(lambda: solver.step(batch))


def network_ours(latents: np.ndarray) -> float:
    """One step of ours on rows that are already drawn."""
    config = CondaConfig(dim=2, hidden=HIDDEN, restarts=1, batch=BATCH, rate=RATE)
    stack = Stack.blank(torch.from_numpy(latents), config, control=False)
    rows = torch.randint(len(latents), (3, BATCH))
    return repeat_time(lambda: stack.step(0, rows, rows))


def decode(points: np.ndarray, factors: np.ndarray) -> float:
    """R2 of the factors by the mean of 25 neighbours, every block of time predicted from the others."""
    blocks = np.arange(len(points)) * BLOCKS // len(points)
    wrong = 0.0
    for known, asked in GroupKFold(5).split(points, groups=blocks):
        guess = KNeighborsRegressor(25).fit(points[known], factors[known]).predict(points[asked])
        wrong += ((guess - factors[asked]) ** 2).sum()
    return float(1.0 - wrong / ((factors - factors.mean(axis=0)) ** 2).sum())


def show_quality(name: str, embeddings: list[np.ndarray], factors: np.ndarray) -> None:
    """One row: R2 to the factors, agreement of the two seeds, decoding."""
    tables = [torch.from_numpy(np.asarray(points)) for points in embeddings]
    target = torch.from_numpy(factors)
    r2 = np.mean([linear_r2(points, target) for points in tables])
    agreement = measure_consistency(tables).score
    decoding = np.mean([decode(np.asarray(points), factors) for points in embeddings])
    print(f"{name:28s}{r2:12.4f}{agreement:14.4f}{decoding:12.4f}", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--iterations", type=int, default=1000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    latents, factors = make_data()
    print(f"{'milliseconds a step':28s}{'CEBRA':>12s}{'ours':>12s}{'ratio':>12s}{'with control':>14s}")
    for kind in KINDS:
        theirs = step_time(lambda n, k=kind: fit_theirs(latents, factors, k, n), given.steps)
        ours = step_time(lambda n, k=kind: fit_ours(latents, factors, k, n, 0), 4 * given.steps)
        both = step_time(lambda n, k=kind: fit_ours(latents, factors, k, n, 0, control=True), 4 * given.steps)
        print(f"{kind:28s}{theirs:12.2f}{ours:12.2f}{theirs / ours:12.2f}{both:14.2f}", flush=True)
    theirs, ours = network_theirs(latents, factors), network_ours(latents)
    print(f"{'network only':28s}{theirs:12.2f}{ours:12.2f}{theirs / ours:12.2f}", flush=True)
    if not given.iterations:
        sys.exit()
    print(f"\n{'quality':28s}{'R2':>12s}{'consistency':>14s}{'decoding':>12s}")
    for kind in KINDS:
        theirs = []
        for seed in (0, 1):
            torch.manual_seed(seed)
            theirs.append(fit_theirs(latents, factors, kind, given.iterations).transform(latents))
        show_quality(f"CEBRA, {kind}", theirs, factors)
        for name, settings in (
            ("one copy", {}),
            ("defaults", {"restarts": 4, "held_out": 0.1}),
        ):
            ours = [fit_ours(latents, factors, kind, given.iterations, s, **settings) for s in (0, 1)]
            points = [fit.encoder(torch.from_numpy(latents)).numpy() for fit in ours]
            show_quality(f"ours, {kind}, {name}", points, factors)


if __name__ == "__main__":
    main()
