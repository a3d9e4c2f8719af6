"""Time and memory of asking a model, measured on the device at hand.

Times are medians over a few repetitions after one that is not counted. Memory is the peak of what lives
during one call: the device's own count on CUDA; elsewhere every tensor is followed from the operation that
makes it to its end, storages shared by views counted once.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from workbench.decoders import decoder_of
from workbench.doctor.diagnosis import Costs
from workbench.errors import SettingError
from workbench.memory import Live
from workbench.metrics.pullback import jacobian_vector, vector_jacobian, with_math_attention
from workbench.models import ScoreModel
from workbench.report import Estimate

REPEATS = 5
_LONG = 0.5  # seconds after which a measurement is not repeated


def peak_memory(call: Callable[[], object], device: torch.device) -> float:
    """Megabytes that a call holds at its peak, beyond what was there before.

    Args:
        call: What to run; once.
        device: Where it runs.

    Returns:
        The peak in MB.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        return (torch.cuda.max_memory_allocated(device) - before) / 1e6
    with Live() as counter:
        call()
    return counter.peak / 1e6


def timed(call: Callable[[], object], device: torch.device, share: int = 1) -> Estimate:
    """Milliseconds of a call, divided by the points in it.

    Args:
        call: What to time.
        device: Where it runs.
        share: Points in a call.

    Returns:
        The median with the spread of the repetitions.
    """
    times = []
    for _ in range(REPEATS + 1):
        began = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(1e3 * (time.perf_counter() - began) / share)
        if sum(times) * share > 1e3 * _LONG and len(times) > 1:
            break
    counted = sorted(times[1:])
    return Estimate(
        counted[len(counted) // 2], (counted[-1] - counted[0]) / 2, "ms", f"{len(counted)} repetitions"
    )


def measure_costs(model: ScoreModel, points: Tensor, sigma: float) -> Costs:
    """Time and memory of a score model at some points.

    Args:
        model: The model.
        points: Noisy points, shape (count, dim), on the device that is asked about.
        sigma: Noise level.

    Returns:
        The costs. About 30 evaluations of the batch.
    """
    costs, decoder = measure_call(lambda y: model.denoise(y, sigma), points), decoder_of(model)
    if decoder is None:
        return costs

    def decode() -> None:
        with torch.no_grad():
            decoder.decode(points)

    return replace(costs, decoding=timed(decode, points.device, len(points)))


def measure_call(function: Callable[[Tensor], Tensor], points: Tensor) -> Costs:
    """Time and memory of a function of points, and of its derivatives.

    Args:
        function: The function, row by row.
        points: Points, shape (count, dim).

    Returns:
        The costs, without a decoding.
    """
    device, count = points.device, len(points)
    with torch.no_grad():
        weights = torch.ones_like(function(points))
    direction = torch.ones_like(points)

    def evaluate() -> None:
        with torch.no_grad():
            function(points)

    def alone() -> None:
        with torch.no_grad():
            function(points[:1])

    def forward() -> None:
        with_math_attention(lambda y: jacobian_vector(function, y, direction)[1])(points)

    def backward() -> None:
        vector_jacobian(function, points, weights)

    pulls = _possible(backward)
    return Costs(
        evaluation=timed(evaluate, device, count),
        single=timed(alone, device),
        forward=timed(forward, device, count) if _possible(forward) else None,
        backward=timed(backward, device, count) if pulls else None,
        decoding=None,
        memory=peak_memory(evaluate, device) / count,
        memory_backward=peak_memory(backward, device) / count if pulls else None,
        batch=count,
    )


def _possible(call: Callable[[], object]) -> bool:
    """Whether a derivative exists."""
    try:
        call()
    except (SettingError, RuntimeError):
        return False
    return True
