"""Compiling and lower precision as options, with what each does to the numbers.

A faster network is only the same network if its answers are. Both options are measured when they are taken,
at three noise levels: the denoiser, the score and a derivative against those of the network without the
option, in relative terms, and the time of a call. The sentence goes into the frame's notes.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import debug_unwrap

from workbench.adapters.budget import wrapped_in
from workbench.adapters.networks import asking, network_of
from workbench.adapters.wrap import WrappedModel
from workbench.decoders import LatentModel
from workbench.draws import draw_normal, seeded
from workbench.errors import SettingError
from workbench.models import ScoreModel, score


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change of a network did to its numbers; errors are relative, the largest of the levels.

    Attributes:
        what: The change in words.
        denoiser: Error of D.
        score: Error of the score.
        derivative: Error of a vector-Jacobian product of D.
        milliseconds: Time of a call, after the first.
        before: The same without the change.
        sigmas: Noise levels at which it was measured.
    """

    what: str
    denoiser: float
    score: float
    derivative: float
    milliseconds: float
    before: float
    sigmas: tuple[float, ...]

    def __str__(self) -> str:
        return (
            f"{self.what}: D differs by {self.denoiser:.1e}, the score by {self.score:.1e}, "
            f"its derivative by {self.derivative:.1e} (relative, sigma {self.sigmas[0]:.3g} to "
            f"{self.sigmas[-1]:.3g}); {self.milliseconds:.3g} ms a call against {self.before:.3g}"
        )


def measure_effect(
    plain: ScoreModel,
    changed: ScoreModel,
    *,
    what: str = "change",
    points: int = 4,
    sigmas: tuple[float, ...] | None = None,
    device: torch.device | str = "cpu",
    generator: torch.Generator | None = None,
) -> Effect:
    """Compare two versions of one model: compiled, in lower precision, on another device's kernels.

    Args:
        plain: The one to compare with; float64 for what precision costs.
        changed: The other.
        what: The change in words.
        points: Points to a level.
        sigmas: Noise levels; by default three over the middle of the range, in the logarithm.
        device: Where both lie.
        generator: Draws the points.

    Returns:
        The effect. Six calls of each with three derivatives, and one more of each to warm up.
    """
    generator = seeded(generator)
    frame = plain.frame
    low, high = max(frame.sigma_min, 1e-3 * frame.data_std), min(frame.sigma_max, 1e3 * frame.data_std)
    levels = sigmas or tuple(low * (high / low) ** share for share in (0.25, 0.5, 0.75))
    like = torch.empty(0, dtype=torch.float64, device=device)
    worst, spent = {"denoiser": 0.0, "score": 0.0, "derivative": 0.0}, {"plain": 0.0, "changed": 0.0}
    for sigma in levels:
        spread = (frame.data_std**2 + sigma**2) ** 0.5
        y = spread * draw_normal((points, frame.dim), like, generator)
        w = draw_normal((points, frame.dim), like, generator)
        found: dict[str, dict[str, Tensor]] = {}
        for name, model in (("plain", plain), ("changed", changed)):
            model.denoise(y, sigma)  # compiles and allocates
            begin = time.perf_counter()
            clean = model.denoise(y, sigma).detach()
            spent[name] += time.perf_counter() - begin
            found[name] = {
                "denoiser": clean,
                "score": score(model, y, sigma).detach(),
                "derivative": _pull(model, y, sigma, w),
            }
        for key, value in found["plain"].items():
            gap = (found["changed"][key] - value).norm() / value.norm().clamp(min=1e-300)
            worst[key] = max(worst[key], float(gap))
    calls = len(levels) / 1000
    return Effect(
        what, **worst, milliseconds=spent["changed"] / calls, before=spent["plain"] / calls, sigmas=levels
    )


def _pull(model: ScoreModel, y: Tensor, sigma: float, w: Tensor) -> Tensor:
    """J^T w of the denoiser; zeros where nothing depends on y."""
    with torch.enable_grad():
        x = y.detach().requires_grad_()
        made = model.denoise(x, sigma)
        if not made.requires_grad:
            return torch.zeros_like(y)
        return torch.autograd.grad(made, x, w)[0]


@dataclass(frozen=True, slots=True)
class Autocast:
    """A network computed under autocast.

    Attributes:
        plain: The network's callable.
        device: Kind of device.
        dtype: The lower type.
    """

    plain: Callable[[Tensor, Tensor, Any], Tensor]
    device: str
    dtype: torch.dtype

    def __call__(self, x: Tensor, t: Tensor, condition: Any) -> Tensor:
        with torch.autocast(self.device, dtype=self.dtype):
            return self.plain(x, t, condition).to(x.dtype)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled network that keeps its compiler's remarks on gradients of inner tensors to itself.

    Derivatives go to the plain network. Compiled code has no second ones and lets go of what a second pass
    backward would need; and a compiler that meets a forward one gives up on the network for good, without a
    word.

    Attributes:
        module: The callable around the compiled network; the adapter's own lines are not compiled.
        plain: The same without the compiler.
    """

    module: Callable[[Tensor, Tensor, Any], Tensor]
    plain: Callable[[Tensor, Tensor, Any], Tensor]

    def __call__(self, x: Tensor, t: Tensor, condition: Any) -> Tensor:
        if any(_is_differentiated(one) for one in (x, t)):
            return self.plain(x, t, condition)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a leaf")
            return self.module(x, t, condition)


def _is_differentiated(x: Tensor) -> bool:
    """Whether a tensor is being differentiated by, either way, or is inside a transform of torch.func."""
    if torch.is_grad_enabled() and x.requires_grad:
        return True
    return debug_unwrap(x) is not x or forward_ad.unpack_dual(x).tangent is not None


def with_autocast(
    model: Any, dtype: torch.dtype, *, device: torch.device | str = "cpu"
) -> tuple[Any, Effect]:
    """The same model with its network under autocast, and what that did to the numbers.

    Args:
        model: A wrapped network, or one on latents.
        dtype: bfloat16 or float16.
        device: Where the network lies.

    Returns:
        The model and the effect, whose sentence is in the frame's notes.

    Raises:
        SettingError: For another type, or a model of another make.
    """
    if dtype not in (torch.bfloat16, torch.float16):
        raise SettingError(f"autocast={dtype}", "torch.bfloat16 or torch.float16", "autocast='bfloat16'")
    inner = wrapped_in(model)
    kind = torch.device(device).type
    changed = replace(inner, module=Autocast(inner.module, kind, dtype))
    return _noted(model, inner, changed, f"autocast to {str(dtype).removeprefix('torch.')}", device)


def with_compile(
    model: Any, *, backend: str = "inductor", device: torch.device | str = "cpu"
) -> tuple[Any, Effect]:
    """The same model with its network compiled by torch, and what that did to the numbers.

    Derivatives are those of the plain network, at its speed. The first call compiles, which takes seconds for
    a small network and minutes for a large one.

    Args:
        model: A wrapped network, or one on latents.
        backend: Of torch.compile.
        device: Where the network lies.

    Returns:
        The model and the effect, whose sentence is in the frame's notes.

    Raises:
        SettingError: For a backend that torch does not have, or a model of another make.
    """
    known = torch.compiler.list_backends(exclude_tags=())
    if backend not in known:
        raise SettingError(f"backend {backend!r}", f"one of {', '.join(known)}", "compile=True")
    inner = wrapped_in(model)
    plain = inner.module.plain if isinstance(inner.module, Compiled) else inner.module
    network = network_of(plain)
    made = torch.compile(plain if network is None else network, backend=backend, dynamic=True)
    faster = made if network is None else asking(plain, made, bare=False)
    changed = replace(inner, module=Compiled(faster, plain))
    return _noted(model, inner, changed, f"compiled by {backend}", device)


def _noted(
    model: Any, plain: WrappedModel, changed: WrappedModel, what: str, device: torch.device | str
) -> tuple[Any, Effect]:
    """The changed model with its effect measured and written down."""
    effect = measure_effect(plain, changed, what=what, device=device)
    frame = replace(changed.frame, notes=(*changed.frame.notes, str(effect)))
    inner = replace(changed, frame=frame)
    return (replace(model, model=inner) if isinstance(model, LatentModel) else inner), effect
