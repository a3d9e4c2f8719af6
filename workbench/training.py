"""Training of the small denoisers that ship with the workbench, and of a user's own.

The loss is the preconditioned denoising loss of Karras et al. (2022): with y = x0 + sigma eps and
ln sigma ~ N(sigma_mean, sigma_std^2),

    E [ (sigma^2 + s^2) / (sigma s)^2 * mean_dim (D(y, sigma, class) - x0)^2 ],

which is the plain squared error of the inner network F against its unit-variance target. A share of the
samples is shown the null class instead of its own, so that one network holds both the conditional and the
unconditional score. The weights that are kept are a running average with the power-function profile of
Karras et al. (2024): after step k, beta_k = (1 - 1/k)^(power + 1); it has no length to tune.

A checkpoint holds everything that the next step depends on (weights, average, optimiser moments, state of the
random generator), so that a resumed run repeats the uninterrupted one bit for bit on the same machine.

References:
    Elucidating the design space of diffusion-based generative models (Karras et al., 2022), section 5,
    https://arxiv.org/abs/2206.00364
    Analyzing and improving the training dynamics of diffusion models (Karras et al., 2024), section 3.1,
    https://arxiv.org/abs/2312.02696
"""

import copy
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from workbench.draws import draw_integers, draw_normal, draw_uniform
from workbench.errors import DataError, SettingError, ShapeError
from workbench.integrators import Cancel, Progress
from workbench.nets import Denoiser, precondition


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """What the training of one denoiser depends on, beside the network, the data and the generator.

    Attributes:
        steps: optimiser steps.
        batch: samples a step.
        rate: peak learning rate of AdamW.
        warmup: steps over which the rate rises linearly from zero.
        decay: share of the run, at its end, over which the rate falls linearly to zero.
        sigma_mean: mean of ln sigma.
        sigma_std: standard deviation of ln sigma.
        null_share: share of the samples that see the null class.
        clip: largest gradient norm.
        ema_power: exponent of the averaging profile.
    """

    steps: int = 1000
    batch: int = 256
    rate: float = 1e-3
    warmup: int = 100
    decay: float = 1.0
    sigma_mean: float = -1.2
    sigma_std: float = 1.2
    null_share: float = 0.3
    clip: float = 1.0
    ema_power: float = 6.94


@dataclass(frozen=True, slots=True)
class FitResult:
    """A trained denoiser and how its training went.

    Attributes:
        net: the network with its averaged weights, in evaluation mode.
        losses: loss of every step of this call.
        step: optimiser steps done in all, resumed ones included.
        cancelled: whether the run was stopped before its last step.
        seconds: processor seconds of this call.
        settings: the settings it was trained with.
    """

    net: Denoiser
    losses: Tensor
    step: int
    cancelled: bool
    seconds: float
    settings: TrainSettings


def learning_rate(settings: TrainSettings, step: int) -> float:
    """Rate of a step: linear warm-up, flat, linear decay to zero.

    Args:
        settings: The settings of the training.
        step: The step, counted from 0.

    Returns:
        The rate.
    """
    rise = (step + 1) / max(settings.warmup, 1)
    fall = (settings.steps - step) / max(settings.decay * settings.steps, 1)
    return settings.rate * min(1.0, rise, fall)


def denoising_loss(
    net: Denoiser,
    x0: Float[Tensor, "n dim"],
    labels: Int[Tensor, " n"],
    settings: TrainSettings,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """The loss of the module docstring on one batch.

    Args:
        net: The network in training.
        x0: Clean points, shape (n, dim).
        labels: Their classes, shape (n,).
        settings: Prior of the noise level and share of the null class.
        generator: Source of the noise levels, the noise and the null classes.

    Returns:
        The loss, a tensor without axes, differentiable in the network's weights. One network call a point.
    """
    n = x0.shape[0]
    draws = draw_normal((n,), x0, generator)
    sigma = (settings.sigma_mean + settings.sigma_std * draws).exp()
    eps = draw_normal(x0.shape, x0, generator)
    null = draw_uniform((n,), torch.empty(0, device=x0.device), generator) < settings.null_share
    labels = torch.where(null, net.classes, labels)
    y = x0 + sigma[:, None] * eps
    skip, out, into = precondition(sigma[:, None], net.data_std)
    target = (x0 - skip * y) / out
    return (net.inner(into * y, sigma.log() / 4, labels) - target).square().mean()


def fit_denoiser(
    net: Denoiser,
    data: Float[Tensor, "count dim"],
    labels: Int[Tensor, " count"] | None = None,
    *,
    settings: TrainSettings,
    generator: torch.Generator,
    checkpoint: Path | None = None,
    checkpoint_every: int = 500,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> FitResult:
    """Train a denoiser, going on from a checkpoint if there is one.

    Args:
        net: The network; trained in place. Its averaged copy is what the result holds.
        data: Points to learn from, shape (count, dim), in the dtype and on the device of the network.
        labels: Class of each, shape (count,); None trains the null class alone.
        settings: Steps, batch, rate, noise prior, share of the null class.
        generator: Source of all randomness, on any device. The initial weights are the caller's.
        checkpoint: File to go on from, if it exists, and to save to; None for neither. A run that was stopped
            may be given another number of steps as long as its rate had not begun to fall.
        checkpoint_every: Steps between two saves.
        progress: Called every 50 steps with the fraction done and a sentence.
        cancel: Asked before every step; a stopped run saves its checkpoint.

    Returns:
        The averaged network, the losses, and the account of the run.

    Raises:
        ShapeError: If data and labels do not fit each other.
        SettingError: If a label is outside the network's classes, or a setting outside its range.
        DataError: If the checkpoint is damaged or belongs to another run.

    References:
        Karras et al. 2022, section 5; Karras et al. 2024, section 3.1.
    """
    _check(net, data, labels, settings)
    if labels is None:
        labels = torch.full((data.shape[0],), net.classes, device=data.device)
    net.train()
    average = copy.deepcopy(net).eval().requires_grad_(False)
    optimiser = torch.optim.AdamW(net.parameters(), lr=settings.rate, betas=(0.9, 0.99), weight_decay=0.0)
    for parameter in net.parameters():  # made now, so that a checkpoint is always complete
        optimiser.state[parameter] = {
            "step": torch.tensor(0.0),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    run = _Run(net, average, optimiser, generator, settings)
    step = run.load(checkpoint) if checkpoint is not None and checkpoint.exists() else 0
    losses: list[Tensor] = []
    began = time.process_time()
    first = step
    while step < settings.steps and not (cancel is not None and cancel.is_set()):
        rows = draw_integers(data.shape[0], (settings.batch,), data, generator)
        optimiser.zero_grad(set_to_none=True)
        loss = denoising_loss(net, data[rows], labels[rows], settings, generator)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), settings.clip)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(settings, step)
        optimiser.step()
        step += 1
        _average(average, net, (1 - 1 / step) ** (settings.ema_power + 1))
        losses.append(loss.detach())
        if checkpoint is not None and (step % checkpoint_every == 0 or step == settings.steps):
            run.save(checkpoint, step)
        if progress is not None and step % 50 == 0:
            recent = torch.stack(losses[-50:]).mean().item()
            progress(step / settings.steps, f"step {step} of {settings.steps}, loss {recent:.4f}")
    cancelled = step < settings.steps
    if cancelled and checkpoint is not None and step > first:
        run.save(checkpoint, step)
    return FitResult(
        net=average,
        losses=torch.stack(losses).cpu() if losses else torch.zeros(0),
        step=step,
        cancelled=cancelled,
        seconds=time.process_time() - began,
        settings=settings,
    )


@torch.no_grad()
def _average(average: nn.Module, net: nn.Module, beta: float) -> None:
    """Move the averaged weights towards the current ones: average <- beta average + (1 - beta) net."""
    weights: list[Tensor] = list(average.parameters())
    now: list[Tensor] = list(net.parameters())
    torch._foreach_lerp_(weights, now, 1 - beta)  # pyright: ignore[reportPrivateImportUsage]  # one launch for all


@dataclass(frozen=True, slots=True)
class _Run:
    """Everything that the next step of a training depends on."""

    net: Denoiser
    average: Denoiser
    optimiser: torch.optim.Optimizer
    generator: torch.Generator
    settings: TrainSettings

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the run by name, not copied."""
        found: dict[str, Tensor] = {}
        for (name, parameter), averaged in zip(
            self.net.named_parameters(), self.average.parameters(), strict=True
        ):
            state = self.optimiser.state[parameter]
            found[f"net.{name}"], found[f"average.{name}"] = parameter.detach(), averaged
            found[f"first.{name}"], found[f"second.{name}"] = state["exp_avg"], state["exp_avg_sq"]
        return found

    def save(self, path: Path, step: int) -> None:
        """Write the run as safetensors, replacing the file in one move."""
        tensors = {name: tensor.contiguous() for name, tensor in self.tensors().items()}
        header = {"step": str(step), "settings": json.dumps(asdict(self.settings))}
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        save_file(tensors | {"generator": self.generator.get_state()}, partial, metadata=header)
        os.replace(partial, path)

    @torch.no_grad()
    def load(self, path: Path) -> int:
        """Restore the run and return the number of steps that are done."""
        try:
            with safe_open(path, framework="pt", device="cpu") as file:
                header = file.metadata() or {}
                step, settings = int(header["step"]), json.loads(header["settings"])
                self._check_settings(path, step, settings)
                for name, tensor in self.tensors().items():
                    tensor.copy_(file.get_tensor(name))
                self.generator.set_state(file.get_tensor("generator"))
        except (OSError, SafetensorError, KeyError, RuntimeError) as error:
            raise DataError(
                f"checkpoint {path} that does not fit this run ({error})",
                "one of the same network",
                "another file",
            ) from error
        for state in self.optimiser.state.values():
            state["step"].fill_(step)
        return step

    def _check_settings(self, path: Path, step: int, saved: dict) -> None:
        """Refuse a checkpoint whose past the present settings would not have made."""
        wanted = asdict(self.settings)
        changed = [name for name in wanted if name != "steps" and wanted[name] != saved.get(name)]
        flat = min((1 - steps["decay"]) * steps["steps"] for steps in (wanted, saved))
        if wanted["steps"] != saved["steps"] and step > flat:
            changed.append("steps")
        if changed:
            raise DataError(
                f"checkpoint {path} of a run with other {', '.join(changed)}",
                ", ".join(f"{name}={wanted[name]}" for name in changed),
                "another checkpoint file",
            )


def _check(net: Denoiser, data: Tensor, labels: Tensor | None, settings: TrainSettings) -> None:
    """Refuse data, labels and settings that do not fit."""
    if labels is not None and labels.shape != data.shape[:1]:
        raise ShapeError(f"labels of shape {tuple(labels.shape)} for {len(data)} points", "one label a point")
    if labels is not None and (labels.min() < 0 or labels.max() > net.classes):
        raise SettingError(
            f"labels from {int(labels.min())} to {int(labels.max())}",
            f"0 to {net.classes - 1}, or {net.classes} for the null class",
            "a network with more classes",
        )
    if (
        settings.steps < 1
        or settings.batch < 1
        or not 0 <= settings.null_share <= 1
        or not 0 < settings.decay <= 1
    ):
        raise SettingError(
            f"steps={settings.steps}, batch={settings.batch}, null_share={settings.null_share}, "
            f"decay={settings.decay}",
            "positive steps and batch, a share from 0 to 1, a decay above 0 and up to 1",
        )
