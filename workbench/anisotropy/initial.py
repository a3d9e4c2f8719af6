"""Many fresh networks at once: the law of every parameter, and keyed draws from it.

Constructing a network runs its initialisation layer by layer. Here one construction is watched (every write
into a tensor passes a dispatch hook), the last write to each parameter names its law (uniform, normal or
constant), and whole stacks of networks are drawn from the laws directly. The network of index i has a
generator of its own, keyed by (seed, i): which others are drawn beside it, in which order and on which
device, changes nothing.

A parameter whose last write is none of these (truncated or orthogonal initialisation, say) makes the whole
stack fall back to constructing every network, with the global generator seeded by the same key and put back
afterwards.

References:
    Delving deep into rectifiers (He et al., 2015), the default law of torch's layers,
    https://arxiv.org/abs/1502.01852
    NEP 19 (random number generator policy: seed sequences), https://numpy.org/neps/nep-0019-rng-policy.html
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from workbench.errors import SettingError, ShapeError

UNIFORM, NORMAL, TIMES, PROBES = 0, 1, 2, 3
"""Streams of random numbers of one network, independent of one another."""


def keyed(seed: int, index: int, stream: int = UNIFORM) -> np.random.Generator:
    """The random numbers of one network: a generator keyed by seed, index and stream.

    Args:
        seed: Seed of the whole ensemble, 0 to 2^62 - 1.
        index: Index of the network.
        stream: `UNIFORM`, `NORMAL`, `TIMES` or `PROBES`.

    Returns:
        A generator at its start.
    """
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([seed, index, stream])))


@dataclass(frozen=True, slots=True)
class Law:
    """Independent entries of one distribution.

    Attributes:
        kind: "uniform" (from low to high), "normal" (mean low, standard deviation high), "constant" (value
            low) or "unknown".
        low: First number.
        high: Second number.
    """

    kind: str
    low: float = 0.0
    high: float = 0.0

    @property
    def mean(self) -> float:
        """Mean of an entry; NaN if unknown."""
        return {"uniform": 0.5 * (self.low + self.high), "unknown": math.nan}.get(self.kind, self.low)

    @property
    def variance(self) -> float:
        """Variance of an entry; NaN if unknown."""
        spread = {"uniform": (self.high - self.low) ** 2 / 12, "normal": self.high**2, "constant": 0.0}
        return spread.get(self.kind, math.nan)


@dataclass(frozen=True)
class InitialLaws:
    """How the networks of a factory start.

    Attributes:
        build: The factory.
        laws: Law of every parameter, by dotted name.
        shapes: Their shapes.
        fixed: Buffers and constant parameters, by dotted name.
    """

    build: Callable[[], nn.Module]
    laws: dict[str, Law]
    shapes: dict[str, torch.Size]
    fixed: dict[str, Tensor]

    @property
    def known(self) -> bool:
        """Whether every parameter has a known law, so that stacks are drawn without construction."""
        return all(law.kind != "unknown" for law in self.laws.values())

    def zeroed_weights(self) -> tuple[str, ...]:
        """Names of weight matrices and filters that start at zero."""
        return tuple(
            name
            for name, law in self.laws.items()
            if law.kind == "constant" and law.low == 0.0 and len(self.shapes[name]) >= 2
        )

    def reinitialised(self, names: Sequence[str]) -> "InitialLaws":
        """The same laws with the named zero weights drawn like a default linear layer's.

        Args:
            names: Dotted names of weights, each with at least two axes.

        Returns:
            New laws: uniform on +-1/sqrt(fan in).
        """
        changed = dict(self.laws)
        for name in names:
            bound = 1.0 / math.sqrt(math.prod(self.shapes[name][1:]))
            changed[name] = Law("uniform", -bound, bound)
        return replace(self, laws=changed, fixed={k: v for k, v in self.fixed.items() if k not in names})

    def draw(
        self, seed: int, indices: Sequence[int], dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> dict[str, Tensor]:
        """The networks of these indices, stacked.

        The draws are made in float32 and then cast: both precisions see the same networks.

        Args:
            seed: Seed of the ensemble.
            indices: Indices of the networks.
            dtype: Floating dtype of the result.
            device: Where it goes.

        Returns:
            Dotted name to (networks, *shape) for the random parameters; constant ones are in `fixed`.

        Raises:
            ShapeError: If a construction returns other shapes than the first one.
        """
        if not self.known:
            return self._construct(seed, indices, dtype, device)
        uniform = [name for name, law in self.laws.items() if law.kind == "uniform"]
        normal = [name for name, law in self.laws.items() if law.kind == "normal"]
        drawn: dict[str, Tensor] = {}
        for names, method, stream in ((uniform, "random", UNIFORM), (normal, "standard_normal", NORMAL)):
            sizes = [self.shapes[name].numel() for name in names]
            if not sizes:
                continue
            stack = np.empty((len(indices), sum(sizes)), dtype=np.float32)
            for row, index in zip(stack, indices, strict=True):
                getattr(keyed(seed, index, stream), method)(dtype=np.float32, out=row)
            flat = torch.from_numpy(stack).to(device=device, dtype=dtype)
            for name, part in zip(names, flat.split(sizes, dim=1), strict=True):
                law = self.laws[name]
                scale = law.high - law.low if law.kind == "uniform" else law.high
                drawn[name] = part.mul(scale).add_(law.low).reshape(len(indices), *self.shapes[name])
        return drawn

    def _construct(
        self, seed: int, indices: Sequence[int], dtype: torch.dtype, device: torch.device | str
    ) -> dict[str, Tensor]:
        rows: list[dict[str, Tensor]] = []
        with torch.random.fork_rng(devices=[]):
            for index in indices:
                torch.manual_seed(int(keyed(seed, index).integers(2**62)))
                row = {name: value.detach() for name, value in self.build().named_parameters()}
                if {name: value.shape for name, value in row.items()} != self.shapes:
                    raise ShapeError(f"network {index} of other shapes than the first", "equal shapes")
                rows.append(row)
        return {
            name: torch.stack([row[name] for row in rows]).to(device=device, dtype=dtype)
            for name in self.shapes
            if name not in self.fixed
        }


def read_laws(build: Callable[[], nn.Module]) -> InitialLaws:
    """Read the law of every parameter off two constructions.

    Args:
        build: The factory.

    Returns:
        The laws; a parameter that is equal in both constructions counts as constant.

    Raises:
        SettingError: If the factory returns no module or one without parameters.
        ShapeError: If the two constructions differ in shape.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        with _Watch() as watch:
            first = build()
        torch.manual_seed(2)
        second = build()
    if not isinstance(first, nn.Module):
        raise SettingError(f"a factory that returns {type(first).__name__}", "a torch.nn.Module")
    here, there = dict(first.named_parameters()), dict(second.named_parameters())
    if not here:
        raise SettingError("a network without parameters", "a network with random weights")
    shapes = {name: value.shape for name, value in here.items()}
    if shapes != {name: value.shape for name, value in there.items()}:
        raise ShapeError("a factory whose networks differ in shape", "the same shapes each time")
    laws, fixed = {}, {name: value.detach() for name, value in first.named_buffers()}
    for name, value in here.items():
        if torch.equal(value, there[name]):
            value = value.detach()
            same = value.numel() > 0 and bool((value == value.flatten()[0]).all())
            laws[name] = Law("constant", value.flatten()[0].item() if same else math.nan)
            fixed[name] = value
        else:
            laws[name] = watch.law_of(value)
    return InitialLaws(build, laws, shapes, fixed)


class _Watch(TorchDispatchMode):
    """Remembers the last write into every storage."""

    def __init__(self) -> None:
        super().__init__()
        self.last: dict[int, tuple[Law, int]] = {}
        self.alive: list[Tensor] = []  # a freed storage could come back under the same address

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func._schema.is_mutable and args and isinstance(args[0], Tensor):
            written = args[0]
            self.alive.append(written)
            self.last[written.untyped_storage().data_ptr()] = (_law_of_call(func, args), written.numel())
        return out

    def law_of(self, parameter: Tensor) -> Law:
        law, entries = self.last.get(parameter.untyped_storage().data_ptr(), (Law("unknown"), 0))
        whole = (
            entries == parameter.numel() == parameter.untyped_storage().nbytes() // parameter.element_size()
        )
        return law if whole else Law("unknown")


def _law_of_call(func, args: tuple) -> Law:
    name = func._schema.name
    if name == "aten::uniform_":
        low, high = [*args[1:], *(0.0, 1.0)[len(args) - 1 :]][:2]
        return Law("uniform", float(low), float(high))
    if name == "aten::normal_":
        mean, std = [*args[1:], *(0.0, 1.0)[len(args) - 1 :]][:2]
        return Law("normal", float(mean), float(std))
    return Law("unknown")
