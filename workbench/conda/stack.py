"""Copies of an encoder in training, side by side: one step of all, judged and halved by held-out loss."""

import math

import torch
from torch import Tensor

from workbench.conda.encoders import Encoder, Plan, encode_stack, initial_weights
from workbench.conda.infonce import infonce
from workbench.conda.settings import CondaConfig
from workbench.errors import SettingError


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
