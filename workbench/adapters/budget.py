"""How many points a network takes at once: found by trial, on the device, within a budget of memory.

Activations grow with the batch and nothing on paper says by how much, so one and two points are sent through,
with the record that a derivative needs, and the peak is measured: by the allocator's own count on CUDA,
elsewhere by counting the live storages that operations make. The batch that fits is tried before it is used.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch

from workbench.adapters.wrap import WrappedModel
from workbench.checks import check_count
from workbench.decoders import LatentModel
from workbench.errors import SettingError
from workbench.memory import Live

LARGEST = 4096
"""Points beyond which a larger batch is not looked for."""


@dataclass(frozen=True, slots=True)
class BatchFit:
    """What a trial found.

    Attributes:
        batch: Most points to a network call.
        bytes_a_point: Peak memory of one more point, its derivative's record included.
        budget: Bytes that a call may take.
        tried: Batches that were sent through, in order.
    """

    batch: int
    bytes_a_point: int
    budget: int
    tried: tuple[int, ...]


def peak_bytes(model: WrappedModel, count: int, *, device: torch.device | str = "cpu") -> int:
    """Peak memory of one network call with its derivative in the points.

    Args:
        model: The model; what it has as `batch` is set aside.
        count: Points.
        device: Where the network lies.

    Returns:
        Bytes above what was there before, the points themselves included. Two network calls' time or so.
    """
    whole = replace(model, batch=None)
    device = torch.device(device)
    dtype = model.dtype or torch.get_default_dtype()
    sigma = (model.frame.sigma_min * model.frame.sigma_max) ** 0.5

    def call() -> None:
        y = torch.zeros(
            count, model.frame.dim, device=device, dtype=dtype, requires_grad=_has_derivatives(model)
        )
        made = whole.denoise(y, sigma)
        if made.requires_grad:
            torch.autograd.grad(made.sum(), y)

    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        return torch.cuda.max_memory_allocated(device) - before
    with Live() as counter:
        call()
    return counter.peak


def find_batch(
    model: Any,
    budget: int,
    *,
    device: torch.device | str = "cpu",
    largest: int = LARGEST,
) -> BatchFit:
    """The largest batch whose call, derivative included, stays within a budget.

    Args:
        model: A wrapped network, or one on latents.
        budget: Bytes that a call may take.
        device: Where the network lies.
        largest: Batch beyond which is not looked.

    Returns:
        The batch, at least 1, and what the trial measured. Three network calls or a few more.

    Raises:
        SettingError: If the budget is no positive number of bytes.
    """
    check_count("budget", budget, hint="2**30 for one gibibyte")
    inner = wrapped_in(model)
    tried = [1, 2]
    first, second = peak_bytes(inner, 1, device=device), peak_bytes(inner, 2, device=device)
    each = max(1, second - first)
    batch = max(1, min(largest, 1 + (budget - first) // each))
    while batch > 2:
        tried.append(batch)
        try:
            needed = peak_bytes(inner, batch, device=device)
        except torch.OutOfMemoryError:
            batch //= 2
            continue
        if needed <= budget:
            break
        batch = min(batch - 1, int(batch * budget / needed))
    return BatchFit(max(1, batch), each, budget, tuple(tried))


def with_memory(model: Any, budget: int, *, device: torch.device | str = "cpu") -> Any:
    """The same model with the batch that a budget of memory allows; the frame's notes say which.

    Args:
        model: A wrapped network, or one on latents.
        budget: Bytes that a call may take.
        device: Where the network lies.

    Returns:
        A model of equal values.

    Raises:
        SettingError: For a model of another make.
    """
    found = find_batch(model, budget, device=device)
    inner = wrapped_in(model)
    note = (
        f"{found.batch} points to a call: {found.bytes_a_point / 2**20:.1f} MiB a point "
        f"in a budget of {budget / 2**20:.0f} MiB, found by trial"
    )
    frame = replace(inner.frame, notes=(*inner.frame.notes, note))
    limited = replace(inner, batch=found.batch, frame=frame)
    return replace(model, model=limited) if isinstance(model, LatentModel) else limited


def wrapped_in(model: Any) -> WrappedModel:
    """The wrapped network inside a model.

    Raises:
        SettingError: If there is none.
    """
    inner = model.model if isinstance(model, LatentModel) else model
    if not isinstance(inner, WrappedModel):
        raise SettingError(
            f"a {type(model).__name__}", "a model that open_model or wrap made from a network", "batch=None"
        )
    return inner


def _has_derivatives(model: WrappedModel) -> bool:
    """Whether its derivative can be asked for."""
    return not any("without derivatives" in note for note in model.frame.notes)
