r"""Training: restarts side by side, the shuffled control beside them, the best by held-out loss.

Restarts differ in their first weights alone and see the same pairs, so that drawing pairs costs the same for
one as for eight. A map to a ring keeps the winding number it began with, and a folded one has a higher loss:
after a fifth and after half of the run the worse half of the copies is dropped.

Held out is one stretch of every trajectory (or whole trajectories where they are short): neither its frames
nor its pairs are seen in training. The control is the same network trained on frames whose context was
permuted; what it reaches, chance reaches.

References:
    Schneider, Lee, Mathis, "Learnable latent embeddings for joint behavioural and neural analysis", 2023,
        https://doi.org/10.1038/s41586-023-06031-6
    Jamieson, Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", 2016,
        https://arxiv.org/abs/1502.07943
"""

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from workbench.conda.context import Context
from workbench.conda.encoders import Encoder, Plan
from workbench.conda.infonce import goodness_of_fit, infonce
from workbench.conda.latents import Latents
from workbench.conda.positives import Positives, make_positives
from workbench.conda.scaling import fit_scaling, shared_directions
from workbench.conda.settings import CondaConfig
from workbench.conda.stack import Stack
from workbench.draws import draw_integers
from workbench.errors import SettingError
from workbench.integrators import Cancel, Progress

LEARNT = 0.05
"""Nats below log N, and below the control, that count as learnt."""

_BULK = 32  # steps whose pairs are drawn at once
_CUTS = (0.2, 0.5)  # shares of the run after which the worse half of the copies is dropped
_ROUNDS = 16  # batches of the held-out loss
_PAIRS = 8192  # pairs from which the linear start is found


@dataclass(frozen=True, slots=True)
class Training:
    """What a training gives.

    Attributes:
        encoder: The best copy.
        losses: Training loss of each copy at each step, shape (iterations done, restarts); NaN after a copy
            was dropped.
        control_losses: The same of the control, shape (iterations done,).
        held_losses: Held-out loss of each copy when it was last judged, shape (restarts,).
        control_loss: Held-out loss of the control.
        chosen: Index of the best copy.
        negatives: N of the losses.
        held_rows: Rows that were held out; all rows if none could be.
        honest: Whether they were really held out.
        cancelled: Whether it stopped early.
        warnings: Sentences for the reader.
    """

    encoder: Encoder
    losses: Tensor
    control_losses: Tensor
    held_losses: Tensor
    control_loss: float
    chosen: int
    negatives: int
    held_rows: Tensor
    honest: bool
    cancelled: bool
    warnings: tuple[str, ...] = field(default=())

    @property
    def loss(self) -> float:
        """Held-out loss of the best copy, in nats."""
        return float(self.held_losses[self.chosen])

    @property
    def bits(self) -> float:
        """Its goodness of fit."""
        return goodness_of_fit(self.loss, self.negatives)

    @property
    def learnt(self) -> bool:
        """Whether the held-out loss is below that of knowing nothing, log N, and below the control's."""
        below = self.loss < math.log(self.negatives) - LEARNT
        return below and not self.control_loss - self.loss < LEARNT

    @property
    def control_bits(self) -> float:
        """Goodness of fit of the control."""
        return goodness_of_fit(self.control_loss, self.negatives)


def split_runs(
    context: Context, share: float, least: int, generator: torch.Generator
) -> tuple[Tensor, Tensor] | None:
    """Rows for training and rows held out.

    Args:
        context: The frames.
        share: Share to hold out.
        least: Frames that a stretch must have to contain a pair.
        generator: Places the stretches.

    Returns:
        Both sets of rows, sorted; None if nothing can be held out without losing the training.
    """
    if share == 0.0:
        return None
    first, last = context.bounds()
    starts = torch.unique(first)
    lengths = last[starts] - starts + 1
    sizes = torch.where(lengths * share >= least, (lengths * share).round().long(), 0)
    held = torch.zeros(len(context), dtype=torch.bool)
    for start, length, size in zip(starts.tolist(), lengths.tolist(), sizes.tolist(), strict=True):
        if size:
            at = start + int(draw_integers(length - size + 1, (1,), starts, generator))
            held[at : at + size] = True
    if int(held.sum()) < 0.5 * share * len(context):  # short runs: hold out whole ones
        usable = ((sizes == 0) & (lengths >= least)).nonzero()[:, 0]
        order = usable[torch.randperm(len(usable), generator=generator, device=generator.device).cpu()]
        for run in order.tolist()[: len(order) // 2]:
            if int(held.sum()) >= share * len(context):
                break
            held[starts[run] : starts[run] + lengths[run]] = True
    if int(held.sum()) < max(2 * least, 8):
        return None
    rows = torch.zeros(len(context), dtype=torch.bool)
    rows[context.order[held]] = True
    return (~rows).nonzero()[:, 0], rows.nonzero()[:, 0]


@dataclass(slots=True)
class _Side:
    """One half of the frames with its pairs: what training or judging draws from."""

    rows: Tensor
    positives: Positives
    shuffle: Tensor

    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Rows of (reference, positive, negative), shape (3, count), and the control's."""
        reference = self.positives.references.draw(count, generator)
        positive = self.positives.draw(reference, generator)
        negative = draw_integers(len(self.rows), (count,), self.rows, generator)
        own = torch.stack([reference, positive, negative])
        other = torch.stack([self.shuffle[reference], self.shuffle[positive], negative])
        return self.rows[own], self.rows[other]


def train(
    table: Latents,
    context: Context,
    config: CondaConfig,
    *,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    control: bool = True,
    start: Encoder | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> Training:
    """Train an encoder.

    Args:
        table: The latents.
        context: What is known about the frames.
        config: The settings.
        generator: Source of all draws.
        dtype: Precision of the network.
        device: Where it is trained.
        control: Whether the shuffled control is trained beside it; a benchmark may leave it out.
        start: An encoder to go on from, with its scaling; there is one copy then.
        progress: Called with a fraction and a sentence.
        cancel: An object whose `is_set()` stops early with what has been learnt.

    Returns:
        The training.

    Raises:
        SettingError: If the settings do not fit the data.
    """
    if start is None:
        center, basis = fit_scaling(table, config, generator, dtype)
    else:
        center, basis = start.center.to(dtype), start.basis.to(dtype)
        config = replace(config, restarts=1, temperature=start.temperature)
    plan = Plan(
        config.architecture,
        basis.shape[-1],
        config.dim,
        config.hidden,
        config.layers,
        config.similarity == "cosine",
    )
    blank = Encoder(plan, (), center, basis, config.temperature)
    inputs = torch.cat([blank.inputs(block.cpu()) for _, block in table.blocks()]).to(device)
    windows = context.windows(plan.width).to(device) if plan.width > 1 else None
    sides, honest, warnings = _sides(context, config, generator)
    seeds = draw_integers(2**62, (config.restarts + 1,), torch.empty(0), generator).tolist()
    own, _ = sides[0].draw(_PAIRS, generator)
    directions = shared_directions(inputs, (own[0], own[1]), 2 * config.dim)
    run = Stack(plan, config, inputs, windows, seeds, directions, control, dtype)
    if start is not None:
        run.begin_at(start)
    judged = [sides[1].draw(config.batch, generator) for _ in range(_ROUNDS)]
    cuts = {max(1, round(share * config.iterations)) for share in _CUTS} if config.restarts > 1 else set()
    step, cancelled = 0, False
    while step < config.iterations and not cancelled:
        stop = min([step + _BULK, config.iterations, *[cut for cut in cuts if cut > step]])
        own, other = sides[0].draw((stop - step) * config.batch, generator)
        own, other = (part.reshape(3, stop - step, config.batch).to(device) for part in (own, other))
        for i in range(stop - step):
            run.step(step + i, own[:, i], other[:, i])
        step = stop
        if step in cuts:
            run.halve(judged)
        if progress is not None:
            progress(step / config.iterations, f"step {step} of {config.iterations}")
        cancelled = cancel is not None and cancel.is_set()
    run.judge(judged)
    place = int(torch.nan_to_num(run.held[run.alive], nan=torch.inf).argmin())
    chosen = run.alive[place]
    encoder = Encoder(
        plan,
        tuple(w[place].detach().cpu() for w in run.weights),
        center,
        basis,
        float(run.temperature().detach()[place]),
    )
    return Training(
        encoder=encoder,
        losses=run.losses[:step].cpu(),
        control_losses=run.control_losses[:step].cpu(),
        held_losses=run.held,
        control_loss=run.control_held,
        chosen=chosen,
        negatives=config.batch,
        held_rows=sides[1].rows,
        honest=honest,
        cancelled=cancelled and step < config.iterations,
        warnings=tuple(warnings),
    )


@torch.no_grad()
def measure_loss(
    encoder: Encoder,
    table: Latents,
    context: Context,
    config: CondaConfig,
    *,
    generator: torch.Generator,
    rounds: int = _ROUNDS,
) -> float:
    """InfoNCE of an encoder on frames, which need not be those it was trained on.

    Args:
        encoder: The encoder.
        table: Latents.
        context: What is known about them.
        config: Names the pairs, the similarity and the batch.
        generator: Draws the pairs.
        rounds: Batches that are averaged.

    Returns:
        The loss in nats, for `config.batch` negatives.
    """
    positives = law_of_pairs(context, config)
    windows = context.windows(encoder.plan.width)
    everything = torch.arange(len(context))
    losses = []
    for _ in range(rounds):
        reference = positives.references.draw(config.batch, generator)
        positive = positives.draw(reference, generator)
        negative = draw_integers(len(context), (config.batch,), everything, generator)
        index = torch.cat([reference, positive, negative])
        z = table.rows(windows[index]).cpu()
        c = encoder(z[:, 0] if encoder.plan.width == 1 else z)
        losses.append(infonce(*c.chunk(3), similarity=config.similarity, temperature=encoder.temperature))
    return float(torch.stack(losses).double().mean())


def law_of_pairs(context: Context, config: CondaConfig) -> Positives:
    """The sampler that a configuration names."""
    return make_positives(
        context,
        config.positives,
        offset=config.offset,
        delta=config.delta,
        inner=config.inner,
        prior=config.prior,
    )


def _sides(
    context: Context, config: CondaConfig, generator: torch.Generator
) -> tuple[tuple[_Side, _Side], bool, list[str]]:
    def side(rows: Tensor, positives: Positives) -> _Side:
        shuffle = torch.randperm(len(rows), generator=generator, device=generator.device).cpu()
        return _Side(rows, positives, shuffle)

    everything = torch.arange(len(context))
    whole = law_of_pairs(context, config)  # refuses what cannot work, in terms of all frames
    furthest = max(config.offset) if isinstance(config.offset, tuple) else config.offset
    split = split_runs(context, config.held_out, furthest + 2, generator)
    if split is not None:
        try:
            train_side, held_side = (side(rows, law_of_pairs(context.select(rows), config)) for rows in split)
        except SettingError:  # a class or a trajectory that one of the halves lost
            split = None
    if split is None:
        both = side(everything, whole)
        warnings = (
            ["no frames could be held out: restarts were judged by new pairs of the training frames"]
            if config.held_out
            else []
        )
        return (both, both), False, warnings
    return (train_side, held_side), True, []
