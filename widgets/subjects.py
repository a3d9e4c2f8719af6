"""What a path view looks at: a model or a world, the plane that shows it, and the points that can be ends."""

import math
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from widgets.figures.images import is_picture
from widgets.state import PathState
from workbench.embeddings import Identity, Section, Slice, fit_pca
from workbench.errors import SettingError
from workbench.fields import Field, Window, frame_window, measure_field
from workbench.models import ExactScore, Frame, Landscape, LevelLandscape, ScoreModel
from workbench.types import Points
from workbench.worlds.facts import World

FLOWING = ("mep", "transport", "principal")
"""Regimes that need a model at every noise level."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A model or a landscape with its picture.

    Attributes:
        model: What paths are found in.
        frame: Its frame; that of a landscape has no noise.
        section: The plane that shows it.
        window: The part of the plane that shows it.
        start: Default first end, as text.
        end: Default last end.
        choices: Samples that ends can be, shape (count, dim); None where any point of the plane can be one.
        given: Points that have a name instead of coordinates.
        world: The model itself, where its answers are known.
    """

    model: ScoreModel | Landscape
    frame: Frame
    section: Section
    window: Window
    start: str
    end: str
    choices: Points | None = None
    given: dict[str, Tensor] = field(default_factory=dict)
    world: World | None = None

    @property
    def flows(self) -> bool:
        """Whether it can be asked at every noise level."""
        return not isinstance(self.model, Landscape)

    @property
    def regimes(self) -> tuple[str, ...]:
        """Regimes of path that it has."""
        return (*FLOWING, "static") if self.flows else ("static", "principal")

    @property
    def pictures(self) -> bool:
        """Whether its samples can be shown as pictures."""
        return is_picture(self.frame.shape)

    def point(self, text: str) -> Tensor:
        """The point that a text names.

        Args:
            text: A given name, an index of a sample, coordinates, or a picture file.

        Returns:
            Shape (dim,).

        Raises:
            SettingError: If the text names no point.
        """
        text = text.strip()
        if text in self.given:
            return self.given[text]
        if self.choices is not None and text.isdigit():
            if int(text) >= len(self.choices):
                raise SettingError(f"image {text}", f"an index from 0 to {len(self.choices) - 1}", "'0'")
            return self.choices[int(text)]
        if self.pictures and Path(text).suffix:
            from workbench.data import read_image

            return read_image(text, self.frame).to(self._like)
        try:
            values = [float(part) for part in text.replace(";", ",").split(",")]
        except ValueError:
            values = []
        if len(values) != self.frame.dim or not all(map(math.isfinite, values)):
            hint = "'0' for the first real image" if self.choices is not None else f"'{self.start}'"
            raise SettingError(f"the point {text!r}", self._expected_point, hint)
        return self._like.new_tensor(values)

    @property
    def _expected_point(self) -> str:
        if self.choices is not None:
            return f"an index from 0 to {len(self.choices) - 1} or a picture file"
        return f"{self.frame.dim} finite numbers with commas between"

    @property
    def _like(self) -> Tensor:
        if self.choices is not None:
            return self.choices[:0, 0]
        return next(iter(self.given.values()), torch.empty(0, dtype=torch.float64))

    def coords(self, text: str, section: Section | None = None) -> tuple[float, float]:
        """Where the point of a text lies in the picture."""
        x, y = (section or self.section).encode(self.point(text)[None])[0].tolist()
        return x, y

    def text_at(self, x: float, y: float, section: Section | None = None) -> str:
        """The text of the point at a place of the picture: coordinates, or the sample nearest in it."""
        section = section or self.section
        if self.choices is not None:
            places = section.encode(self.choices)
            return str(int((places - places.new_tensor([x, y])).norm(dim=-1).argmin()))
        point = section.decode(self._like.new_tensor([x, y]))
        return ",".join(f"{round(value, 9) + 0.0:.6g}" for value in point.tolist())

    def ground(self, sigma: float = 0.0, *, size: int = 256) -> Field | None:
        """The energy over the picture, where it is known in closed form and costs nothing to speak of.

        Args:
            sigma: Noise level.
            size: Grid points along the longer side.
        """
        landscape = self.landscape(sigma)
        if landscape is None or not isinstance(self.section, Identity):
            return None
        width, height = (high - low for low, high in (self.window.x, self.window.y))
        columns, rows = (max(16, round(size * side / max(width, height))) for side in (width, height))
        title = "V" if isinstance(self.model, Landscape) else "−log p"
        return measure_field(
            landscape.energy,
            self.section,
            self.window,
            columns=columns,
            rows=rows,
            title=title,
            unit=landscape.unit,
            like=self._like,
        )

    def landscape(self, sigma: float = 0.0) -> Landscape | None:
        """The energy at a noise level, where it is known in closed form."""
        if isinstance(self.model, Landscape):
            return self.model
        return LevelLandscape(self.model, sigma) if isinstance(self.model, ExactScore) else None


def open_subject(state: PathState) -> Subject:
    """The subject that a state names.

    Args:
        state: Names a world, or else a model.

    Returns:
        The subject.

    Raises:
        SettingError: If there is no world or model of that name.
    """
    if state.world:
        from workbench.worlds import load_world

        return subject_of(load_world(state.world))
    from workbench.zoo import load_model

    return subject_of(load_model(state.model, device=state.device))


def subject_of(
    model: ScoreModel | Landscape | World,
    *,
    start: Tensor | None = None,
    end: Tensor | None = None,
    choices: Points | None = None,
) -> Subject:
    """The subject of a model, a landscape or a world.

    Args:
        model: What to look at.
        start: Default first end, shape (dim,); needed where neither the model nor a sample has one.
        end: Default last end.
        choices: Samples that ends can be, shape (count, dim); the shipped real images for a shipped image
            model.

    Returns:
        The subject: in two dimensions on the plane itself, else on the principal plane of the samples, or on
        the plane through the ends.

    Raises:
        SettingError: If no ends are known.
    """
    world = model if isinstance(model, World) else None
    if isinstance(model, Landscape):
        dim = world.dim if world is not None else len(start if start is not None else ())
        frame = Frame(model.name, (dim,), 0.0, 0.0)
    else:
        frame = model.frame
    given = {name: point for name, point in (("start", start), ("end", end)) if point is not None}
    if choices is None and is_picture(frame.shape):
        choices = _shipped_images(frame, model)
    if world is not None and frame.dim == 2:
        low_x, high_x, low_y, high_y = world.facts.window
        section, window = Identity(), Window((low_x, high_x), (low_y, high_y))
        first, last = (_text(point) for point in (world.facts.start, world.facts.end))
    elif choices is not None:
        section = fit_pca(choices)
        window = frame_window(section.encode(choices), margin=0.06)
        first, last = "0", str(min(len(choices) - 1, 1))
    elif frame.dim == 2:
        section, window = Identity(), _plain_window(frame, given)
        first, last = (f"{sign * frame.data_std:.6g},0" for sign in (-1, 1))
    elif len(given) == 2:
        middle = 0.5 * (start + end) + torch.ones_like(start) * (end - start).norm() / math.sqrt(len(start))
        section = Slice.through(start, end, middle, name="slice through the ends")
        window = frame_window(section.encode(torch.stack([start, end])), margin=0.35, aspect=1.3)
        first, last = "start", "end"
    else:
        raise SettingError(
            f"no ends for {frame.name} in {frame.dim} dimensions", "start and end", "samples as choices"
        )
    if frame.dim == 2:
        first, last = (
            _text(given[name]) if name in given else text for name, text in (("start", first), ("end", last))
        )
    elif len(given) == 2:
        first, last = "start", "end"
    return Subject(model, frame, section, window, first, last, choices, given, world)


def _text(point: Tensor) -> str:
    return ",".join(f"{round(value, 9) + 0.0:.9g}" for value in point.tolist())


def _plain_window(frame: Frame, given: dict[str, Tensor]) -> Window:
    """Where the samples of a model in the plane lie: three standard deviations, and its given ends."""
    reach = 3.0 * frame.data_std
    points = [torch.tensor([-reach, -reach]), torch.tensor([reach, reach]), *given.values()]
    return frame_window(torch.stack([point.double() for point in points]), margin=0.02)


def _shipped_images(frame: Frame, model: ScoreModel | Landscape) -> Points | None:
    """Real held-out images of a shipped image model, in its dtype; None for a foreign one."""
    from workbench.data import load_images

    try:
        images = load_images(frame.name, split="sample")
    except SettingError:
        return None
    return images.points if tuple(images.shape) == tuple(frame.shape) else None
