"""The stage: a subject with the plane that shows it, as a view of one lens looks at it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from widgets.state import PathState
from workbench.bench.places import Place, place_of, text_of
from workbench.bench.state import BenchState
from workbench.embeddings import Identity, Section
from workbench.errors import SettingError
from workbench.fields import Field, Window
from workbench.models import Frame, Landscape, ScoreModel
from workbench.subjects import Subject, model_samples, open_subject
from workbench.types import Points
from workbench.worlds.facts import World


@dataclass(frozen=True, slots=True)
class Stage:
    """A subject and how it is looked at.

    Attributes:
        place: The subject with its plane.
    """

    place: Place

    @property
    def subject(self) -> Subject:
        """The model or landscape, and how its points are named."""
        return self.place.subject

    @property
    def section(self) -> Section:
        """The plane that shows it."""
        return self.place.section

    @property
    def window(self) -> Window:
        """The part of the plane that shows it."""
        return self.place.window

    def coords(self, text: str) -> tuple[float, float]:
        """Where the point of a text lies in the picture."""
        return self.place.coords(text)

    def text_at(self, x: float, y: float) -> str:
        """The text of the point at a place of the picture: coordinates, or the sample nearest in it."""
        return self.place.text_at(x, y)

    def ground(self, sigma: float = 0.0) -> Field | None:
        """The energy over the picture, where it is known in closed form and costs nothing to speak of."""
        return self.subject.field(sigma, size=256) if isinstance(self.section, Identity) else None

    def first_ends(self) -> tuple[str, str]:
        """Texts of the default ends: coordinates in the plane, else as the subject names them."""
        texts = (self.subject.start, self.subject.end)
        if self.subject.frame.dim == 2:
            return text_of(self.subject.point(texts[0])), text_of(self.subject.point(texts[1]))
        return texts


def open_stage(state: PathState) -> Stage:
    """The stage of the subject that a state names.

    Raises:
        SettingError: If there is no world or model of that name.
    """
    return stage_of(
        open_subject(world=state.world, model=state.model, device=state.device, dtype=state.dtype or None)
    )


def stage_of(subject: Subject) -> Stage:
    """The stage of a subject: the plane itself in two dimensions, else the principal plane of its samples,
    else the plane through its ends."""
    return Stage(place_of(BenchState(), subject))


def subject_of(
    model: ScoreModel | Landscape | World,
    *,
    start: Tensor | None = None,
    end: Tensor | None = None,
    choices: Points | None = None,
) -> Subject:
    """The subject of somebody's own model, landscape or world.

    Args:
        model: What to look at.
        start: Default first end, shape (dim,); needed where neither the model nor a sample has one.
        end: Default last end.
        choices: Samples that ends can be, shape (count, dim); the shipped ones for a shipped image model.

    Returns:
        The subject.

    Raises:
        SettingError: If no ends are known.
    """
    world = model if isinstance(model, World) else None
    given = {name: point for name, point in (("start", start), ("end", end)) if point is not None}
    if world is not None:
        given = {"start": world.facts.start, "end": world.facts.end} | given
    if isinstance(model, Landscape):
        frame = Frame(model.name, tuple(next(iter(given.values())).shape) if given else (0,), 0.0, 0.0)
    else:
        frame = model.frame
    if choices is None and world is None:
        choices = None if isinstance(model, Landscape) else model_samples(model)
    texts = ["start", "end"]
    for k, text in enumerate(texts):
        if text not in given:
            if choices is not None:
                texts[k] = str(k)
            elif frame.dim == 2:
                texts[k] = f"{(2 * k - 1) * frame.data_std:.6g},0"
            else:
                raise SettingError(
                    f"no {text} in {frame.name}", f"a point of {frame.dim} coordinates", f"{text}=..."
                )
    like = choices if choices is not None else next(iter(given.values()), torch.empty(0, dtype=torch.float64))
    return Subject(model, frame, texts[0], texts[1], choices, given, world, like.device, like.dtype)
