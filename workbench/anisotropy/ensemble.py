r"""An ensemble of untrained networks, asked again and again: factors of its second moment, by index.

Network i contributes :math:`U_i^\top U_i` to the core of the average geometry. U is one row, the weighted
output itself, or, averaged exactly over the last layer, the features that enter it. Nothing is stored: the
same index gives the same U every time.

Four estimators, from least to most efficient:

=============== ============================ ==========================================
name            noise level of a network     last layer
=============== ============================ ==========================================
plain           uniform, weighted by w       drawn
weighted        in proportion to w           drawn
rao_blackwell   uniform, weighted by w       averaged exactly
combined        in proportion to w           averaged exactly
=============== ============================ ==========================================

Levels drawn in proportion to w follow a golden-ratio sequence through its distribution function, randomly
shifted by the seed: any run of indices covers the levels evenly.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from workbench.anisotropy.heads import Head, capture, find_head
from workbench.anisotropy.initial import TIMES, InitialLaws, keyed, read_laws
from workbench.anisotropy.levels import Levels
from workbench.anisotropy.probes import Probe
from workbench.architectures import Architecture, FlatNet
from workbench.errors import ModelOutputError, SettingError

ESTIMATORS = ("plain", "weighted", "rao_blackwell", "combined")
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


@dataclass(frozen=True)
class Ensemble:
    """Untrained networks of one architecture under one probe.

    Attributes:
        architecture: The recipe.
        laws: How its parameters start.
        head: The last layer as the estimator uses it.
        found: The last layer as it was found.
        template: One network, into which the drawn parameters are put.
        levels: The noise levels.
        probe: The inputs.
        estimator: One of `ESTIMATORS`.
        seed: Keys every draw together with the network's index.
        blind: Whether the network's output does not depend on its time.
        dtype: Precision of the networks.
        device: Where they are evaluated.
    """

    architecture: Architecture
    laws: InitialLaws
    head: Head
    found: Head
    template: FlatNet
    levels: Levels
    probe: Probe
    estimator: str
    seed: int
    blind: bool
    dtype: torch.dtype
    device: torch.device | str

    def level_of(self, index: int) -> int:
        """The noise level of network `index`."""
        if self.estimator in ("plain", "rao_blackwell"):
            return int(keyed(self.seed, index, TIMES).integers(self.levels.count))
        shift = keyed(self.seed, 0, TIMES).random()
        share = torch.cumsum(self.levels.weight, 0) / self.levels.weight.sum()
        place = (shift + index * _GOLDEN) % 1.0
        return min(int(torch.searchsorted(share, place)), self.levels.count - 1)

    def rows(self, indices: Sequence[int]) -> Tensor:
        """Factors of these networks, weights included.

        Args:
            indices: Indices of the networks.

        Returns:
            U of shape (networks, factors, core), float64; the geometry's core is the mean of U^T U.

        Raises:
            ModelOutputError: If a network's output is not finite.

        Cost:
            One model call a network.
        """
        chosen = torch.tensor([self.level_of(i) for i in indices])
        levels = self.levels
        x = self.probe.draw(self.seed, indices, levels.a[chosen], levels.s[chosen], self.architecture.dim)
        t = levels.time[chosen]
        x, t = (value.to(device=self.device, dtype=self.dtype) for value in (x, t))
        drawn = self.laws.draw(self.seed, indices, self.dtype, self.device)
        out = self._evaluate(drawn, x, t)
        weighted = self.estimator in ("weighted", "combined")
        weight = torch.full(chosen.shape, levels.mean_weight) if weighted else levels.weight[chosen]
        factor = self.head.rows(out) if self.head.name else out.double()[:, None]
        finite = torch.isfinite(factor).flatten(1).all(dim=1)
        if not finite.all():
            bad = int((~finite).nonzero()[0])
            raise ModelOutputError(
                f"a non-finite output of network {indices[bad]} at time {float(t[bad]):.4g}",
                "finite values",
                "float64, or another initialisation",
            )
        return factor * weight.double().sqrt().to(factor.device)[:, None, None]

    def outputs(self, indices: Sequence[int], *, levels: Sequence[int] | None = None) -> Tensor:
        """Plain outputs (networks, dim) of these networks at their probes, without weights."""
        chosen = torch.tensor([self.level_of(i) for i in indices] if levels is None else list(levels))
        a, s = self.levels.a[chosen], self.levels.s[chosen]
        x = self.probe.draw(self.seed, indices, a, s, self.architecture.dim).to(self.device, self.dtype)
        t = self.levels.time[chosen].to(device=self.device, dtype=self.dtype)
        drawn = self.laws.draw(self.seed, indices, self.dtype, self.device)
        return self._evaluate(drawn, x, t, whole=True)

    def _evaluate(self, drawn: dict[str, Tensor], x: Tensor, t: Tensor, *, whole: bool = False) -> Tensor:
        """Outputs, or what enters the head, of a stack of networks; one forward where torch can."""
        seen: list[Tensor] = []
        handle = None
        if self.head.name and not whole:
            seen, handle = capture(self.template, self.head.name)

        def one(parameters: dict[str, Tensor], point: Tensor, time: Tensor) -> Tensor:
            seen.clear()
            out = functional_call(self.template, parameters, (point[None], time[None]))
            return seen[-1][0] if seen else out[0]

        try:
            with torch.no_grad():
                return _stacked(one, drawn, x, t)
        finally:
            seen.clear()
            if handle is not None:
                handle.remove()


def _stacked(one: Callable, drawn: dict[str, Tensor], x: Tensor, t: Tensor) -> Tensor:
    try:
        return vmap(one)(drawn, x, t)
    except RuntimeError as error:
        if "vmap" not in str(error):
            raise
    return torch.stack([one({k: v[i] for k, v in drawn.items()}, x[i], t[i]) for i in range(x.shape[0])])


def make_ensemble(
    architecture: Architecture,
    *,
    levels: Levels,
    probe: Probe,
    seed: int,
    estimator: str = "auto",
    reinitialise: str = "none",
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Ensemble:
    """Read an architecture's laws, find its head and fix the estimator.

    Args:
        architecture: The recipe.
        levels: Noise levels.
        probe: Inputs.
        seed: Keys all draws.
        estimator: One of `ESTIMATORS`; "auto" is "combined" where a last linear layer is found, else
            "weighted".
        reinitialise: What to do with weights that start at zero: "none", "output" (the last layer alone) or
            "all".
        dtype: Precision of the networks.
        device: Where they are evaluated.

    Returns:
        The ensemble.

    Raises:
        SettingError: If a setting is unknown, the last layer that the estimator needs is not there, or the
            networks' outputs are zero.
        ModelOutputError: If a network's output is not finite.

    Cost:
        Three constructions and a few model calls.
    """
    if estimator not in ("auto", *ESTIMATORS):
        raise SettingError(f"estimator {estimator!r}", f"one of auto, {', '.join(ESTIMATORS)}")
    if reinitialise not in ("none", "output", "all"):
        raise SettingError(f"reinitialise {reinitialise!r}", "one of none, output, all")
    if levels.prediction != architecture.prediction:
        raise SettingError(
            f"levels for {levels.prediction} and an architecture that predicts {architecture.prediction}",
            "the same meaning in both",
            f"prediction={architecture.prediction!r} in the levels",
        )
    laws = read_laws(lambda: FlatNet(architecture))
    template = FlatNet(architecture).to(device=device, dtype=dtype).eval().requires_grad_(False)
    if reinitialise == "all":
        laws = laws.reinitialised(laws.zeroed_weights())
    if reinitialise == "output":
        laws = _with_output(template, laws)
    found = find_head(template, laws, name=architecture.head)
    if estimator == "auto":
        estimator = "combined" if found.name else "weighted"
    exact = estimator in ("rao_blackwell", "combined")
    if exact and not found.name:
        raise SettingError(
            f"estimator {estimator!r} for {architecture.name}, whose last layer is not linear",
            "an estimator without it",
            "'weighted'",
        )
    dense = Head("other", "", math.nan, math.nan, architecture.dim, 1, torch.arange(architecture.dim))
    made = Ensemble(
        architecture,
        laws,
        found if exact else dense,
        found,
        template,
        levels,
        probe,
        estimator,
        seed,
        False,
        dtype,
        device,
    )
    _refuse_zero(made)
    return replace(made, blind=_is_blind(made))


def _with_output(template: FlatNet, laws: InitialLaws) -> InitialLaws:
    """The laws with the last layer drawn, if it is one that starts at zero."""
    for name in reversed(laws.zeroed_weights()):
        changed = laws.reinitialised([name])
        if find_head(template, changed).name == name.removesuffix(".weight"):
            return changed
    return laws


def _refuse_zero(made: Ensemble) -> None:
    size = made.rows(range(4)).square().mean() / made.levels.mean_weight
    if float(size) > 1e-24:
        return
    zeroed = made.laws.zeroed_weights()
    raise SettingError(
        f"networks of {made.architecture.name} whose output is zero at {made.probe}",
        "an output that the initial weights move",
        "reinitialise='output'" if zeroed else "another probe",
    )


def _is_blind(made: Ensemble) -> bool:
    """Whether four networks give the same output at both ends of the levels, to rounding in float64."""
    if made.levels.count < 2 or not made.laws.known:
        return False
    exact = _in_double(made)
    drawn = exact.laws.draw(made.seed, range(4), torch.float64)
    x = torch.linspace(-1.0, 1.0, made.architecture.dim, dtype=torch.float64).expand(4, -1)
    first, last = (
        exact._evaluate(drawn, x, made.levels.time[[place] * 4].double(), whole=True) for place in (0, -1)
    )
    return bool((first - last).norm() <= 1e-10 * first.norm())


def _in_double(made: Ensemble) -> Ensemble:
    template: nn.Module = copy.deepcopy(made.template).to(device="cpu", dtype=torch.float64)
    return replace(made, template=template, dtype=torch.float64, device="cpu")
