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

from workbench.checks import check_choice, check_count, check_number, check_switch
from workbench.conda.context import Context
from workbench.conda.encoders import Encoder, Plan, encode_stack, initial_weights
from workbench.conda.infonce import SIMILARITIES, goodness_of_fit, infonce
from workbench.conda.latents import Latents
from workbench.conda.positives import KINDS, PRIORS, Positives, make_positives
from workbench.draws import draw_integers
from workbench.errors import SettingError
from workbench.integrators import Cancel, Progress

SCALINGS = ("auto", "none", "columns", "pca", "white")
"""What is done to latents before the network sees them."""

_WIDE = 64  # latents of more entries are reduced to this many components by "auto"
_SAMPLE = 20_000  # rows from which components are found
_BULK = 32  # steps whose pairs are drawn at once
_CUTS = (0.2, 0.5)  # shares of the run after which the worse half of the copies is dropped
_ROUNDS = 16  # batches of the held-out loss
_PAIRS = 8192  # pairs from which the linear start is found
_FLAT = 1e-3  # share of the largest variance below which a direction is noise to the linear start


@dataclass(frozen=True, slots=True)
class CondaConfig:
    """Everything that a fit depends on beside the data and the generator.

    Attributes:
        dim: Dimension of the embedding.
        positives: Sampler of pairs, see `workbench.conda.positives`; "auto" chooses by the context.
        inner: Sampler inside each group, for "multi".
        offset: Steps of time positives and increments.
        delta: Spread of Gaussian positives, in the variable's unit.
        prior: "empirical" or "balanced" references.
        similarity: "euclidean" or "cosine".
        temperature: tau, or where it begins if it is learnt.
        learn_temperature: Whether tau is learnt.
        least_temperature: Floor of a learnt tau.
        architecture: "mlp" or "conv".
        hidden: Width of the hidden layers.
        layers: Hidden layers of the perceptron.
        scaling: "columns" (mean 0, spread 1 each), "pca" (leading components, one common scale), "white"
            (components of spread 1), "none"; "auto" takes columns up to 64 entries and pca above.
        components: How many components "pca" and "white" keep.
        iterations: Optimiser steps.
        batch: References, and negatives, a step.
        rate: Peak learning rate of Adam, falling to zero along a cosine.
        restarts: Copies that start side by side.
        held_out: Share of the frames that choose among them; 0 judges by new pairs of the same frames.
    """

    dim: int = 3
    positives: str = "auto"
    inner: str = "auto"
    offset: int | tuple[int, ...] = 1
    delta: float = 0.1
    prior: str = "empirical"
    similarity: str = "euclidean"
    temperature: float = 1.0
    learn_temperature: bool = False
    least_temperature: float = 0.1
    architecture: str = "mlp"
    hidden: int = 64
    layers: int = 3
    scaling: str = "auto"
    components: int = _WIDE
    iterations: int = 1000
    batch: int = 512
    rate: float = 1e-3
    restarts: int = 4
    held_out: float = 0.1

    def check(self) -> None:
        """Refuse settings that cannot be used.

        Raises:
            SettingError: In one sentence.
        """
        for name in ("dim", "hidden", "layers", "components", "iterations", "restarts"):
            check_count(name, getattr(self, name))
        check_count("batch", self.batch, least=2)
        check_choice("positives", self.positives, ("auto", *KINDS))
        check_choice("prior", self.prior, PRIORS)
        check_choice("similarity", self.similarity, SIMILARITIES)
        check_choice("scaling", self.scaling, SCALINGS)
        for name in ("temperature", "least_temperature", "rate", "delta"):
            check_number(name, getattr(self, name), above=0.0)
        check_switch("learn_temperature", self.learn_temperature)
        check_number("held_out", self.held_out, least=0.0, below=0.5)


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
    def control_bits(self) -> float:
        """Goodness of fit of the control."""
        return goodness_of_fit(self.control_loss, self.negatives)


def fit_scaling(table: Latents, config: CondaConfig, generator: torch.Generator, dtype: torch.dtype):
    """Centre and basis of what the network sees.

    Args:
        table: The latents.
        config: Names the scaling.
        generator: Chooses the rows of a long table.
        dtype: Precision.

    Returns:
        The centre, shape (dim,), and a scale of shape (dim,) or a basis of shape (dim, components).
    """
    wanted = config.scaling
    if wanted == "auto":
        wanted = "columns" if table.dim <= _WIDE else "pca"
    if wanted == "none":
        return torch.zeros(table.dim, dtype=dtype), torch.ones(table.dim, dtype=dtype)
    index = torch.arange(len(table))
    if len(table) > _SAMPLE:
        index = torch.randperm(len(table), generator=generator, device=generator.device).cpu()[:_SAMPLE]
        index = index.sort().values
    rows = table.rows(index, dtype=torch.float64).cpu()
    center = rows.mean(dim=0)
    rows = rows - center
    if wanted == "columns":
        spread = rows.std(dim=0)
        spread = torch.where(spread > 1e-12 * spread.max(), spread, torch.inf)
        return center.to(dtype), spread.reciprocal().to(dtype)
    most = min(config.components, len(rows) - 1, table.dim)
    if len(rows) < table.dim:
        values, vectors = torch.linalg.eigh(rows @ rows.T)
        basis = rows.T @ vectors
    else:
        values, basis = torch.linalg.eigh(rows.T @ rows)
    keep = values.argsort(descending=True)[:most]
    keep = keep[values[keep] > 1e-10 * values.max()]
    if not len(keep):
        raise SettingError("latents that are all the same", "latents that vary")
    basis = basis[:, keep] / basis[:, keep].norm(dim=0)
    spread = (values[keep] / (len(rows) - 1)).sqrt()
    basis = basis / (spread if wanted == "white" else spread[0])
    return center.to(dtype), basis.to(dtype)


def shared_directions(inputs: Tensor, pairs: tuple[Tensor, Tensor], count: int) -> Tensor:
    """Directions that differ least between the frames of a pair, for the variance that they have.

    Args:
        inputs: What the network sees, shape (count, p).
        pairs: Rows of references and of positives, shapes (n,).
        count: How many directions.

    Returns:
        Directions of spread one, shape (p, at most count), the most shared first.

    References:
        Wiskott, Sejnowski, "Slow feature analysis: unsupervised learning of invariances", 2002,
            https://doi.org/10.1162/089976602317318938
    """
    first, second = (inputs[rows].double().cpu() for rows in pairs)
    both = torch.cat([first, second])
    both = both - both.mean(dim=0)
    spread = both.T @ both / len(both)
    step = (first - second).T @ (first - second) / len(first)
    values, axes = torch.linalg.eigh(spread)
    keep = values > _FLAT * values[-1]
    white = axes[:, keep] / values[keep].sqrt()
    return white @ torch.linalg.eigh(white.T @ step @ white).eigenvectors[:, :count]


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


class Stack:
    """The copies in training, the control among them as a stack of its own."""

    def __init__(
        self,
        plan: Plan,
        config: CondaConfig,
        inputs: Tensor,
        windows: Tensor | None,
        seeds: list[int],
        directions: Tensor,
        control: bool,
        dtype: torch.dtype,
    ) -> None:
        self.plan, self.config, self.inputs, self.windows = plan, config, inputs, windows
        device = str(inputs.device)
        start = math.log(config.temperature)
        self.alive = list(range(config.restarts))
        self.weights = initial_weights(plan, seeds[:-1], directions, dtype=dtype, device=device)
        self.log_tau = torch.full((config.restarts,), start, dtype=dtype, device=device)
        self.control_weights = (
            initial_weights(plan, seeds[-1:], directions, dtype=dtype, device=device) if control else []
        )
        self.control_tau = torch.full((1,), start, dtype=dtype, device=device)
        self.losses = torch.full((config.iterations, config.restarts), torch.nan, device=device)
        self.control_losses = torch.full((config.iterations,), torch.nan, device=device)
        self.held = torch.full((config.restarts,), torch.nan, dtype=torch.float64)
        self.control_held = math.nan
        self.columns = torch.arange(config.restarts, device=device)
        self._optimise()

    @classmethod
    def blank(cls, inputs: Tensor, config: CondaConfig, *, control: bool = True) -> "Stack":
        """Fresh copies for inputs that need no scaling; what a benchmark steps.

        Args:
            inputs: What the network sees, shape (count, p).
            config: The settings.
            control: Whether the control is among them.
        """
        plan = Plan(config.architecture, inputs.shape[1], config.dim, config.hidden, config.layers)
        axes = torch.eye(inputs.shape[1], dtype=inputs.dtype)
        return cls(plan, config, inputs, None, list(range(config.restarts + 1)), axes, control, inputs.dtype)

    def begin_at(self, start: Encoder) -> None:
        """Replace the first weights by those of an encoder.

        Raises:
            SettingError: If it has another shape.
        """
        if start.plan != self.plan:
            raise SettingError(
                f"an encoder of {start.plan}", f"one of {self.plan}", "fit in place of partial_fit"
            )
        self.weights = [
            weight.to(old)[None].clone() for weight, old in zip(start.weights, self.weights, strict=True)
        ]
        self._optimise()

    def _optimise(self) -> None:
        trained = [*self.weights, *self.control_weights]
        if self.config.learn_temperature:
            trained += [self.log_tau, self.control_tau]
        for tensor in trained:
            tensor.requires_grad_(True)
        fused = self.inputs.device.type in ("cpu", "cuda")
        self.optimiser = torch.optim.Adam(trained, lr=self.config.rate, fused=fused)

    def temperature(self, log_tau: Tensor | None = None) -> Tensor:
        """tau of each copy, above its floor where it is learnt."""
        tau = (self.log_tau if log_tau is None else log_tau).exp()
        return tau.clamp_min(self.config.least_temperature) if self.config.learn_temperature else tau

    def loss(self, weights: list[Tensor], log_tau: Tensor, rows: Tensor) -> Tensor:
        """Loss of each copy of a stack on rows of shape (3, batch)."""
        index = rows.reshape(-1)
        x = self.inputs[index if self.windows is None else self.windows[index]]
        c = encode_stack(self.plan, weights, x)
        reference, positive, negative = c.chunk(3, dim=1)
        return infonce(
            reference,
            positive,
            negative,
            similarity=self.config.similarity,
            temperature=self.temperature(log_tau),
        )

    def step(self, number: int, own: Tensor, other: Tensor) -> None:
        """One step of all copies."""
        rate = self.config.rate * 0.5 * (1.0 + math.cos(math.pi * number / self.config.iterations))
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        losses = self.loss(self.weights, self.log_tau, own)
        total = losses.sum()
        if self.control_weights:
            control = self.loss(self.control_weights, self.control_tau, other)
            self.control_losses[number] = control.detach()[0]
            total = total + control[0]
        total.backward()
        self.optimiser.step()
        self.losses[number, self.columns] = losses.detach().to(self.losses.dtype)

    @torch.no_grad()
    def judge(self, judged: list[tuple[Tensor, Tensor]]) -> None:
        """Held-out losses of the copies that are left, and of the control."""
        place = self.inputs.device
        own = torch.stack([self.loss(self.weights, self.log_tau, rows.to(place)) for rows, _ in judged])
        self.held[self.alive] = own.double().mean(dim=0).cpu()
        if self.control_weights:
            other = [self.loss(self.control_weights, self.control_tau, rows.to(place)) for _, rows in judged]
            self.control_held = float(torch.stack(other).double().mean())

    def halve(self, judged: list[tuple[Tensor, Tensor]]) -> None:
        """Drop the worse half of the copies, with their optimiser's state."""
        if len(self.alive) == 1:
            return
        self.judge(judged)
        order = torch.nan_to_num(self.held[self.alive], nan=torch.inf).argsort()
        keep = order[: (len(self.alive) + 1) // 2].sort().values
        states = {}
        for tensor in [*self.weights, self.log_tau]:
            states[id(tensor)] = self.optimiser.state.get(tensor)
        others = [(t, self.optimiser.state.get(t)) for t in [*self.control_weights, self.control_tau]]
        old = [*self.weights, self.log_tau]
        new = [tensor.detach()[keep.to(tensor.device)].clone() for tensor in old]
        self.weights, self.log_tau = new[:-1], new[-1]
        self.alive = [self.alive[i] for i in keep.tolist()]
        self.columns = torch.tensor(self.alive, device=self.columns.device)
        self._optimise()
        for before, after in zip(old, new, strict=True):
            state = states[id(before)]
            if state:
                self.optimiser.state[after] = {
                    name: value[keep.to(value.device)].clone() if value.ndim else value
                    for name, value in state.items()
                }
        for tensor, state in others:
            if state:
                self.optimiser.state[tensor] = state
