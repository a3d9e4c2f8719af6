"""Where the bench stands: the subject of a state, its noise level, and the plane that is looked at.

Every picture names its plane and can show what it does to distances: at a point of the plane a small ball of
the space, of the size of the points' spread off the plane, shows as the distortion ellipse.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.adapters.open import open_model
from workbench.bench.state import BenchState
from workbench.embeddings import Distortion, Identity, Section, Slice, fit_pca, measure_distortion
from workbench.errors import SettingError
from workbench.fields import Window, frame_window
from workbench.flows import noise_range
from workbench.models import ExactScore, Landscape, ScoreModel
from workbench.subjects import Subject, open_subject
from workbench.types import Points

_MARGIN = 0.06  # of the longer side around real samples


@dataclass(frozen=True, slots=True)
class Place:
    """A subject with the plane that shows it.

    Attributes:
        subject: What lenses look at.
        section: The plane.
        window: The part of the plane that a picture shows.
        cloud: Real samples as coordinates of the plane, shape (count, 2); None where there are none.
    """

    subject: Subject
    section: Section
    window: Window
    cloud: Tensor | None

    def coords(self, text: str) -> tuple[float, float]:
        """Where the point of a text lies in the picture."""
        x, y = self.section.encode(self.subject.point(text)[None])[0].tolist()
        return x, y

    def text_at(self, x: float, y: float) -> str:
        """The text of the point at a place of the picture: coordinates, or the real sample nearest in it."""
        place = torch.tensor([x, y], dtype=self.subject.dtype, device=self.subject.device)
        if self.cloud is not None:
            return str(int((self.cloud.to(place) - place).norm(dim=-1).argmin()))
        return text_of(self.section.decode(place), digits=6)

    def says(self, points: Points) -> str:
        """The plane's name, and how far distances among points can be trusted in it."""
        return f"{self.section.name}; {measure_distortion(self.section, points)}"

    def distortion(self, points: Points) -> Distortion:
        """What the plane does to distances among points, shape (count, dim)."""
        return measure_distortion(self.section, points)


def text_of(point: Tensor, *, digits: int = 9) -> str:
    """Coordinates as text."""
    return ",".join(f"{round(value, 9) + 0.0:.{digits}g}" for value in point.tolist())


def subject_of_state(state: BenchState) -> Subject:
    """The subject that a state names.

    Raises:
        SettingError: If a name means nothing, or guidance is asked of a world.
        DataError: If the model's files cannot be read.
    """
    if state.world and (state.condition or state.guidance):
        raise SettingError(
            f"condition {state.condition!r} and guidance {state.guidance:g} in the world {state.world}",
            "a model with classes",
            "an empty world",
        )
    opened = open_subject(
        world=state.world,
        model=state.model,
        condition=_class_of(state.condition),
        device=state.device,
        dtype=state.dtype or None,
    )
    if state.guidance:
        model = open_model(
            state.model,
            condition=_class_of(state.condition),
            guidance=state.guidance,
            device=opened.device,
            dtype=opened.dtype,
        )
        if isinstance(model, ScoreModel):
            return replace(opened, model=model, frame=model.frame)
    return opened


def _class_of(text: str) -> int | str | None:
    """A class by its index or its name; None for the null class."""
    return int(text) if text.isdecimal() else text or None


def level_of(subject: Subject, sigma: float | None) -> float:
    """The noise level at which fields, metrics and Jacobians are taken.

    Args:
        subject: The subject.
        sigma: What the state asks for; None for the subject's own: the data themselves in a world, a blur of
            half the data's spread in a network, whose score is poor near its cleanest level.

    Returns:
        A level in the model's range; 0 for a landscape.

    Raises:
        SettingError: If the level is outside the range.
    """
    if isinstance(subject.model, Landscape):
        return 0.0
    low, high = noise_range(subject.model)
    if sigma is None:
        return low if isinstance(subject.model, ExactScore) else max(low, 0.5 * subject.frame.data_std)
    if not low * (1 - 1e-9) <= sigma <= high:
        raise SettingError(f"sigma={sigma:g} in {subject.frame}", f"a level from {low:g} to {high:g}", "None")
    return sigma


def place_of(state: BenchState, subject: Subject) -> Place:
    """The plane of a state: what it names, else the plane itself, the samples' principal plane or the slice
    through the ends and the first via point.

    Raises:
        SettingError: If the subject has no such plane.
    """
    frame, cloud = subject.frame, None
    kind = state.projection or (
        "plane" if frame.dim == 2 else "pca" if subject.choices is not None else "slice"
    )
    if kind == "plane" and frame.dim != 2:
        raise SettingError(
            f"the plane itself for {frame.dim} coordinates", "two coordinates", "projection='slice'"
        )
    samples = subject.choices
    if samples is not None:
        samples = samples.to(device=subject.device, dtype=subject.dtype)
    if kind == "pca" and samples is None:
        raise SettingError(
            f"a principal plane of {frame}", "a subject with real samples", "projection='slice'"
        )
    if kind == "plane":
        section, window = Identity(), _plain_window(subject)
    elif kind == "pca" and samples is not None:
        section = fit_pca(samples)
        window = frame_window(section.encode(samples), margin=_MARGIN)
    else:
        section = _slice(state, subject)
        ends = section.encode(torch.stack(subject.ends(state.start, state.end)))
        window = frame_window(ends, margin=0.35, aspect=1.3)
    if samples is not None:
        cloud = section.encode(samples)
    return Place(subject, section, window, cloud)


def _slice(state: BenchState, subject: Subject) -> Slice:
    """The plane through both ends and the first via point; without one, through the samples' mean."""
    start, end = subject.ends(state.start, state.end)
    vias = subject.points(state.via)
    if vias is not None:
        return Slice.through(start, end, vias[0], name="slice through start, end and via point")
    if subject.choices is not None:
        middle = subject.choices.to(start).mean(0)
        return Slice.through(start, end, middle, name="slice through start, end and the samples' mean")
    middle = 0.5 * (start + end) + torch.ones_like(start) * (end - start).norm() / math.sqrt(len(start))
    return Slice.through(start, end, middle, name="slice through the ends")


def _plain_window(subject: Subject) -> Window:
    """A world's own window, else three standard deviations of the data and the ends."""
    if subject.world is not None:
        low_x, high_x, low_y, high_y = subject.world.facts.window
        return Window((low_x, high_x), (low_y, high_y))
    reach = 3.0 * subject.frame.data_std
    corners = torch.tensor([[-reach, -reach], [reach, reach]], dtype=subject.dtype, device=subject.device)
    return frame_window(torch.cat([corners, torch.stack(subject.ends())]), margin=0.02)
