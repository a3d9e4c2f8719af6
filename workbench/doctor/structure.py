"""What holds for every posterior mean, whatever the data: shapes, rows, the clean end, derivatives."""

import math

import torch
from torch import Tensor

from workbench.doctor.diagnosis import Finding
from workbench.draws import draw_normal
from workbench.errors import SettingError, WorkbenchError
from workbench.metrics.pullback import (
    jacobian_vector,
    jacobian_vector_twice_backward,
    vector_jacobian,
    with_math_attention,
)
from workbench.models import ScoreModel
from workbench.types import Points

ROWS_AGREE = 1e-3
"""Largest relative difference between a point alone and in a batch that counts as rounding."""
CLEAN_LIMIT = 2.0
"""Largest |D(x0 + sigma eps) - x0| / sigma, root mean square, at the cleanest level."""
SYMMETRIC = 0.05
"""Largest relative asymmetry of a Jacobian that is called symmetric."""

ASKING = (WorkbenchError, RuntimeError, ValueError, TypeError, IndexError, ArithmeticError)
"""What networks raise when they are asked in a way that they were not made for."""


def check_answers(model: ScoreModel, y: Points, sigma: float) -> tuple[Finding, ...]:
    """Whether the model can be asked at all: shape, type, finiteness, rows of a batch, repetition.

    Args:
        model: The model.
        y: Noisy points, shape (count, dim), three at least.
        sigma: Noise level.

    Returns:
        Findings; the first is a fault if it cannot be asked, and then the only one.
    """
    try:
        with torch.no_grad():
            whole, again = model.denoise(y, sigma), model.denoise(y, sigma)
    except ASKING as error:
        first = " ".join(str(error).split())[:200]
        return (
            Finding("shapes", "fault", f"it cannot be asked: {first}", "the shape and settings it needs"),
        )
    if whole.shape != y.shape or whole.dtype != y.dtype or whole.device != y.device:
        said = f"{tuple(whole.shape)} {whole.dtype} on {whole.device}"
        return (
            Finding(
                "shapes", "fault", f"points {tuple(y.shape)} {y.dtype} on {y.device} come back as {said}"
            ),
        )
    if not bool(torch.isfinite(whole).all()):
        share = 1.0 - float(torch.isfinite(whole).float().mean())
        return (
            Finding(
                "shapes", "fault", f"{share:.0%} of the answer is not finite at sigma {sigma:.3g}", "float32"
            ),
        )
    kind = str(y.dtype).removeprefix("torch.")
    found = [Finding("shapes", "ok", f"points of shape {tuple(model.frame.shape)}, {kind} on {y.device}")]
    return found[0], _check_rows(model, y, sigma, whole, again)


def _check_rows(model: ScoreModel, y: Points, sigma: float, whole: Tensor, again: Tensor) -> Finding:
    """Whether an answer depends on nothing but its own point."""
    repeated = float((whole - again).norm()) / (float(whole.norm()) or 1.0)
    if repeated > ROWS_AGREE:
        said = f"two calls differ by {repeated:.1e}: it draws at random"
        return Finding("rows", "fault", said, "module.eval()")
    try:
        with torch.no_grad():
            alone = torch.cat([model.denoise(row, sigma) for row in y[:3].split(1)])
    except ASKING as error:
        first = " ".join(str(error).split())[:120]
        return Finding("rows", "fault", f"a point alone cannot be asked: {first}", "module.eval()")
    apart = float((whole[:3] - alone).norm()) / (float(alone.norm()) or 1.0)
    if apart > ROWS_AGREE:
        said = f"a point alone and in a batch differ by {apart:.1e}: rows of a batch are mixed"
        return Finding("rows", "fault", said, "module.eval()")
    return Finding("rows", "ok", f"a point alone and in a batch agree to {apart:.0e}")


def check_clean_end(model: ScoreModel, clean: Points, *, generator: torch.Generator) -> Finding:
    """Whether D goes to its argument as the noise vanishes.

    Args:
        model: The model.
        clean: Clean points.
        generator: Source of the noise.

    Returns:
        The finding, with the ratio at the smallest level that the model and the arithmetic have.
    """
    frame = model.frame
    rounding = torch.finfo(clean.dtype).eps * float(clean.abs().max())
    low = max(frame.sigma_min, 1e-3 * frame.data_std, 100.0 * rounding) * 1.0001
    eps = draw_normal(clean.shape, clean, generator)
    with torch.no_grad():
        ratios = [
            float((model.denoise(clean + sigma * eps, sigma) - clean).square().mean().sqrt()) / sigma
            for sigma in (low, 4.0 * low)
        ]
    sentence = (
        f"|D(x + sigma eps) − x| = {ratios[0]:.2g} sigma at {low:.3g}, {ratios[1]:.2g} sigma at {4 * low:.3g}"
    )
    if math.isfinite(ratios[0]) and ratios[0] <= CLEAN_LIMIT:
        return Finding("clean end", "ok", sentence)
    return Finding(
        "clean end", "fault", f"{sentence}: no posterior mean does that", "the right time at small noise"
    )


def check_derivatives(
    model: ScoreModel, y: Points, sigma: float, *, generator: torch.Generator
) -> tuple[Finding, ...]:
    """Symmetry of the denoiser's Jacobian, and which derivatives exist.

    Args:
        model: The model.
        y: Noisy points.
        sigma: Noise level.
        generator: Source of the directions.

    Returns:
        A finding on symmetry, which is a note at worst, and one on forward derivatives.
    """

    def denoise(points: Tensor) -> Tensor:
        return model.denoise(points, sigma)

    v = draw_normal(y.shape, y, generator)
    try:
        pulled = vector_jacobian(denoise, y, v)
    except ASKING as error:
        first = " ".join(str(error).split())[:120]
        missing = Finding(
            "Jacobian", "note", f"no derivative: {first}", "a model of differentiable operations"
        )
        return (missing,)
    pushed, forward = push_by(denoise, y, v)
    if pushed is None:
        return (forward,)
    pushed, pulled = pushed.detach(), pulled.detach()
    both = pushed.square().sum() + pulled.square().sum()
    asymmetry = float(((pushed - pulled).square().sum() / both).sqrt()) if float(both) > 0 else 0.0
    sentence = f"|Jv − Jᵀv| = {asymmetry:.2g} of |Jv| at sigma {sigma:.3g}"
    if model.frame.guidance != 0.0:
        sentence += f"; guidance {model.frame.guidance:g} makes a field that is no score"
    elif asymmetry > SYMMETRIC:
        sentence += "; a score's is symmetric, a trained network's only nearly so"
    verdict = "ok" if asymmetry <= SYMMETRIC else "note"
    return Finding("Jacobian", verdict, sentence), forward


def push_by(denoise, y: Tensor, v: Tensor) -> tuple[Tensor | None, Finding]:
    """J v by the best way there is, and which one that was."""
    try:
        return jacobian_vector(denoise, y, v)[1], Finding("forward derivative", "ok", "J v in one pass")
    except (SettingError, RuntimeError):
        pass
    try:
        plain = with_math_attention(lambda points: jacobian_vector(denoise, points, v)[1])(y)
        sentence = "J v only with attention by its plain formula: the fused kernel has no forward derivative"
        return plain, Finding("forward derivative", "note", sentence, "with_math_attention(map)")
    except (SettingError, RuntimeError):
        pass
    try:
        twice = with_math_attention(lambda points: jacobian_vector_twice_backward(denoise, points, v)[1])(y)
        sentence = "no forward derivative; J v by two backward passes"
        return twice, Finding("forward derivative", "note", sentence, "double_backward=True")
    except (SettingError, RuntimeError) as error:
        first = " ".join(str(error).split())[:120]
        return None, Finding("forward derivative", "note", f"none: {first}", "operations with derivatives")
