"""One network in four conventions, with and without one thing declared wrongly."""

from dataclasses import dataclass, replace

from torch import Tensor

from tests.oracles import frames
from workbench.adapters.wrap import WrappedModel, wrap
from workbench.models import ScoreModel
from workbench.schedules import LINEAR, RECTIFIED, VE, VP_COSINE, VP_LINEAR, Schedule

FAMILIES = ("vp_eps", "v", "edm", "flow")
"""DDPM's noise prediction, v on a cosine, EDM's inner network, rectified flow."""

_CONVENTIONS = {
    "vp_eps": (VP_LINEAR, frames.linear_betas, "eps"),
    "v": (VP_COSINE, frames.cosine, "v"),
    "edm": (VE, frames.exploding, "edm"),
    "flow": (RECTIFIED, frames.rectified, "velocity"),
}
OTHER = {"vp_eps": ("v", "x0"), "v": ("eps", "x0"), "edm": ("eps", "x0"), "flow": ("eps", "x0")}
"""Wrong predictions that people confuse a family's own with."""


def own_prediction(family: str) -> str:
    return _CONVENTIONS[family][2]


@dataclass(frozen=True)
class Network:
    """Raw output of a network of a family that denoises like a model."""

    model: ScoreModel
    family: str

    def __call__(self, x: Tensor, t: Tensor, condition=None) -> Tensor:
        _, frame, prediction = _CONVENTIONS[self.family]
        if prediction == "edm":
            std, sigma = self.model.frame.data_std, (4.0 * t).exp()
            total = (sigma**2 + std**2).unsqueeze(-1)
            y = x.flatten(1) * total.sqrt()
            clean = self.model.denoise(y, sigma)
            level = sigma.unsqueeze(-1)
            return ((clean - std**2 / total * y) * total.sqrt() / (level * std)).reshape(x.shape)
        a, s, a_rate, s_rate = (value.unsqueeze(-1) for value in frame(t))
        y, sigma = x.flatten(1) / a, s / a
        clean = self.model.denoise(y, sigma.squeeze(-1))
        eps = (y - clean) / sigma
        made = {"eps": eps, "v": a * eps - s * clean, "velocity": a_rate * clean + s_rate * eps}
        return made[prediction].reshape(x.shape)


def _settings(model: ScoreModel, family: str) -> dict:
    schedule, _, prediction = _CONVENTIONS[family]
    frame = model.frame
    levels = (0.004 * frame.data_std, 60.0 * frame.data_std)
    return dict(
        prediction=prediction,
        schedule=schedule,
        shape=frame.shape,
        sigma_range=levels,
        data_std=frame.data_std,
        name=f"{frame.name} as {family}",
    )


def right(model: ScoreModel, family: str) -> WrappedModel:
    """The network, declared as it is."""
    return wrap(Network(model, family), **_settings(model, family))


def wrong_prediction(model: ScoreModel, family: str, prediction: str) -> WrappedModel:
    """The network, said to predict something else."""
    return replace(right(model, family), prediction=prediction)


def wrong_clock(model: ScoreModel, family: str) -> WrappedModel:
    """The network, told the mirrored time; of EDM's levels the largest where the smallest is."""
    made = right(model, family)
    schedule: Schedule = made.schedule
    if family == "edm":
        product = made.frame.sigma_min * made.frame.sigma_max
        return replace(made, told=lambda t: (product / t).log() / 4.0)
    return replace(made, told=lambda t: schedule.t_noise + schedule.t_data - t)


def wrong_direction(model: ScoreModel) -> WrappedModel:
    """A rectified flow, data at t = 0, taken for flow matching, noise at t = 0."""
    return replace(right(model, "flow"), schedule=LINEAR)
