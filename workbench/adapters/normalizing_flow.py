r"""Normalizing flows of zuko: a density that is known exactly, and a latent space that decodes.

With the transformation f from data to the base, :math:`\log p(x) = \log p_Z(f(x)) + \log|\det f'(x)|`. There
is no noise level in such a model, hence no denoiser: it is a landscape, whose energy is -log p, and its
`coder` takes base points z to samples :math:`f^{-1}(z)` and back.

References:
    Rozet et al., "Zuko", 2022, https://github.com/probabilists/zuko
    Papamakarios, Nalisnick, Rezende, Mohamed, Lakshminarayanan, "Normalizing Flows for Probabilistic Modeling
        and Inference", 2021, https://arxiv.org/abs/1912.02762
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workbench.adapters.files import read_tensors
from workbench.adapters.latents import Coder, Generator, generator_of
from workbench.adapters.settings import Settings, import_extra, named_after, said
from workbench.errors import DataError, SettingError
from workbench.models import Frame
from workbench.types import Points, Scalars, Vectors


@dataclass(frozen=True, slots=True, eq=False)
class FlowDensity:
    """A normalizing flow as a landscape whose energy is -log p.

    Attributes:
        frame: Name and shape of a point; there is no noise.
        distribution: Callable without arguments that gives the distribution p(x | condition).
        dtype: Floating type that it computes in.
        coder: Its base space: decodes z to x and encodes x to z.
    """

    frame: Frame
    distribution: Callable[[], Any]
    dtype: torch.dtype
    coder: Coder | Generator

    @property
    def name(self) -> str:
        """Its name, with the condition."""
        return str(self.frame)

    @property
    def unit(self) -> str:
        """Energies are negative log densities."""
        return "nats"

    def log_prob(self, x: Points) -> Scalars:
        """Exact log density, in nats.

        Args:
            x: Points, shape (*batch, dim).

        Returns:
            Shape (*batch,). Differentiable. One pass through the flow a point.
        """
        return self.distribution().log_prob(x.to(self.dtype)).to(x.dtype)

    def energy(self, x: Points) -> Scalars:
        """-log p, in nats; one pass a point."""
        return -self.log_prob(x)

    def force(self, x: Points) -> Vectors:
        """Gradient of log p; one pass forth and back a point. Differentiable."""
        with torch.enable_grad():
            y = x if x.requires_grad else x.detach().requires_grad_()
            (found,) = torch.autograd.grad(self.log_prob(y).sum(), y, create_graph=x.requires_grad)
        return found

    def sample(self, count: int, *, generator: torch.Generator) -> Points:
        """Draw points.

        Args:
            count: How many.
            generator: Source of randomness, on the CPU.

        Returns:
            Shape (count, dim). The base is drawn by torch's own samplers, seeded from the generator.
        """
        seed = int(torch.randint(2**31, (1,), generator=generator))
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(seed)
            return self.distribution().sample((count,))


def open_zuko(source: Any, settings: Settings) -> FlowDensity:
    """Open a normalizing flow of zuko.

    Args:
        source: A `zuko.lazy.Flow` in memory, or a weights file with its constructor's arguments beside it:
            ``{"kind": "zuko", "arguments": {"flow": "NSF", "features": 2, ...}}``.
        settings: What was asked for; a condition is a tensor of the context.

    Returns:
        The density.

    Raises:
        MissingExtra: If zuko is not installed.
        SettingError: If the source is no flow, or its arguments are missing or wrong.
        DataError: If the weights do not fit.
    """
    zuko = import_extra("zuko")
    flow = _built(source, settings, zuko) if isinstance(source, Path) else source
    if not isinstance(flow, zuko.lazy.Flow):
        raise SettingError(
            f"a {type(flow).__name__} as a flow of zuko", "a zuko.lazy.Flow", "zuko.flows.NSF(2)"
        )
    network = settings.ready(flow, own=isinstance(source, Path))
    context = _context(settings)

    def distribution() -> Any:
        return network() if context is None else network(context)

    with torch.no_grad():
        shape = tuple(distribution().base.event_shape)
    name = settings.name or (named_after(source) if isinstance(source, Path) else type(flow).__name__)
    frame = Frame(name, shape, 0.0, 0.0, settings.value_range, settings.data_std or 1.0)
    if context is not None:
        frame = Frame(
            name, shape, 0.0, 0.0, settings.value_range, settings.data_std or 1.0, condition=said(context, ())
        )
    coder = generator_of(
        lambda z: distribution().transform.inv(z),
        latent_shape=shape,
        shape=shape,
        name=name,
        value_range=settings.value_range,
        encoding=lambda x: distribution().transform(x),
        dtype=settings.dtype,
        batch=settings.batch,
    )
    return FlowDensity(frame, distribution, settings.dtype, coder)


def _context(settings: Settings) -> Tensor | None:
    """The condition as a tensor."""
    if settings.condition is None:
        return None
    if not isinstance(settings.condition, Tensor | list | tuple | float | int):
        raise SettingError(f"condition {settings.condition!r}", "numbers of the context", "condition=[0.5]")
    made = torch.as_tensor(settings.condition, dtype=settings.dtype, device=settings.device)
    return made if made.ndim else made.unsqueeze(0)


def _built(path: Path, settings: Settings, zuko: Any) -> nn.Module:
    """A flow from a weights file and its constructor's arguments."""
    arguments = dict(settings.arguments or {})
    name = arguments.pop("flow", None)
    made = getattr(zuko.flows, str(name), None)
    if not (isinstance(made, type) and issubclass(made, zuko.lazy.Flow)):
        raise SettingError(
            f"flow {name!r} for {path}",
            "the name of a flow in zuko.flows with its arguments",
            'arguments={"flow": "NSF", "features": 2}, here or in the JSON beside the file',
        )
    try:
        flow = made(**arguments)
        flow.load_state_dict(read_tensors(path))
    except (TypeError, ValueError, RuntimeError) as error:
        first = str(error).partition("\n")[0]
        raise DataError(
            f"weights {path} for {name} with {arguments} ({first})", "weights of that flow"
        ) from error
    return flow
