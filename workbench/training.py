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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from workbench.nets import Denoiser, precondition


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """What the training of one denoiser depends on, beside the network, the data and the generator.

    Args:
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

    Args:
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
    """Rate at a step counted from 0: linear warm-up, flat, linear decay to zero."""
    rise = (step + 1) / max(settings.warmup, 1)
    fall = (settings.steps - step) / max(settings.decay * settings.steps, 1)
    return settings.rate * min(1.0, rise, fall)


def denoising_loss(
    net: Denoiser, x0: Tensor, labels: Tensor, settings: TrainSettings, generator: torch.Generator
) -> Tensor:
    """The loss of the module docstring on one batch x0 (n, dim) with labels (n,); differentiable in the net."""
    n = x0.shape[0]
    draws = torch.randn(n, generator=generator, dtype=x0.dtype, device=x0.device)
    sigma = (settings.sigma_mean + settings.sigma_std * draws).exp()
    eps = torch.randn(x0.shape, generator=generator, dtype=x0.dtype, device=x0.device)
    null = torch.rand(n, generator=generator, device=x0.device) < settings.null_share
    labels = torch.where(null, net.classes, labels)
    y = x0 + sigma[:, None] * eps
    skip, out, into = precondition(sigma[:, None], net.data_std)
    target = (x0 - skip * y) / out
    return (net.inner(into * y, sigma.log() / 4, labels) - target).square().mean()


def fit_denoiser(
    net: Denoiser,
    data: Tensor,
    labels: Tensor | None = None,
    *,
    settings: TrainSettings,
    generator: torch.Generator,
    checkpoint: Path | None = None,
    checkpoint_every: int = 500,
    progress: Callable[[float, str], None] | None = None,
    cancel=None,
) -> FitResult:
    """Train a denoiser; resume from the checkpoint if there is one."""
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
    step = 0
    if checkpoint is not None and Path(checkpoint).exists():
        step = _load_checkpoint(Path(checkpoint), net, average, optimiser, generator, settings)
    losses: list[Tensor] = []
    began = time.process_time()
    first = step
    while step < settings.steps and not (cancel is not None and cancel.is_set()):
        rows = torch.randint(data.shape[0], (settings.batch,), generator=generator, device=data.device)
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
            _save_checkpoint(Path(checkpoint), net, average, optimiser, generator, settings, step)
        if progress is not None and step % 50 == 0:
            recent = torch.stack(losses[-50:]).mean().item()
            progress(step / settings.steps, f"step {step} of {settings.steps}, loss {recent:.4f}")
    cancelled = step < settings.steps
    if cancelled and checkpoint is not None and step > first:
        _save_checkpoint(Path(checkpoint), net, average, optimiser, generator, settings, step)
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
    torch._foreach_lerp_(list(average.parameters()), list(net.parameters()), 1 - beta)


def _save_checkpoint(path, net, average, optimiser, generator, settings, step) -> None:
    """Write the whole state of a run as safetensors, replacing the file in one move."""
    tensors = {"generator": generator.get_state()}
    for (name, parameter), averaged in zip(net.named_parameters(), average.parameters(), strict=True):
        state = optimiser.state[parameter]
        tensors[f"net.{name}"] = parameter.detach()
        tensors[f"average.{name}"] = averaged
        tensors[f"first.{name}"] = state["exp_avg"]
        tensors[f"second.{name}"] = state["exp_avg_sq"]
    header = {"step": str(step), "settings": json.dumps(asdict(settings))}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, partial, metadata=header)
    os.replace(partial, path)


@torch.no_grad()
def _load_checkpoint(path, net, average, optimiser, generator, settings) -> int:
    """Restore the whole state of a run and return the number of steps already done."""
    with safe_open(path, framework="pt", device="cpu") as file:
        header = file.metadata()
        step = int(header["step"])
        for (name, parameter), averaged in zip(net.named_parameters(), average.parameters(), strict=True):
            state = optimiser.state[parameter]
            parameter.copy_(file.get_tensor(f"net.{name}"))
            averaged.copy_(file.get_tensor(f"average.{name}"))
            state["exp_avg"].copy_(file.get_tensor(f"first.{name}"))
            state["exp_avg_sq"].copy_(file.get_tensor(f"second.{name}"))
            state["step"].fill_(step)
        generator.set_state(file.get_tensor("generator"))
    return step
