"""What a lens is pointed at: a world or a model by name, and points of it by a few words of text.

Notebooks, widgets and the command line speak of models and points in text; this module is the one place that
turns the text into tensors.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from workbench.adapters.normalizing_flow import FlowDensity
from workbench.adapters.open import open_model
from workbench.cards import MODELS
from workbench.data import load_images
from workbench.decoders import Autoencoder, Decoder, Latents, decoder_of
from workbench.devices import resolve_device
from workbench.embeddings import Identity
from workbench.errors import SettingError
from workbench.fields import Field, Window, measure_field
from workbench.metrics.pullback import jacobian_vector
from workbench.models import ExactScore, Frame, Landscape, LevelLandscape, ScoreModel
from workbench.pictures import INVERT, ground_remarks, read_image
from workbench.sampling import sample
from workbench.types import Points
from workbench.worlds import World, load_world
from workbench.worlds.answers import known_answer

MEMORY = 2**30
"""Bytes that one call of a user's network may take, its derivative included."""

FLOWING = ("mep", "transport", "principal")
"""Regimes of path that need a model at every noise level."""

_FIRST_ENDS = {
    "ring": ("0.8,0", "-0.8,0"),
    "moons": ("-0.9,-0.15", "0.9,0.15"),
    "fashion": ("9", "0"),
    "fashion_latent": ("9", "0"),
    "digits": ("0", "1"),
}


@dataclass(frozen=True, slots=True)
class Subject:
    """A model or a landscape, and how points of it are named.

    Attributes:
        model: What lenses look at.
        frame: What it declares about itself; that of a landscape has no noise.
        start: Text of its default first end.
        end: Text of its default last end.
        choices: Real samples that a number can name, shape (count, dim), encoded where points are latents;
            None where there are none.
        given: Points that have a name.
        world: The model itself, where its answers are known.
        device: Where its tensors live.
        dtype: Their type.
    """

    model: ScoreModel | Landscape
    frame: Frame
    start: str
    end: str
    choices: Points | None = None
    given: Mapping[str, Tensor] = field(default_factory=dict)
    world: World | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float64

    @property
    def flows(self) -> bool:
        """Whether it can be asked at every noise level."""
        return not isinstance(self.model, Landscape)

    @property
    def regimes(self) -> tuple[str, ...]:
        """Regimes of path that it has, the default one first; none of a decoder without a score."""
        if self.flows:
            return (*FLOWING, "static")
        return () if isinstance(self.model, Latents) else ("static",)

    @property
    def lacking(self) -> str:
        """What it is, in words that say what it has not; empty where it can be asked at every noise level."""
        if self.flows:
            return ""
        if isinstance(self.model, Latents):
            return "a decoder without a score"
        known = callable(getattr(self.model, "log_prob", None))
        return "a density without noise levels" if known else "an energy without a density"

    @property
    def decoder(self) -> Decoder | None:
        """What turns its points into pictures where they are latents; None elsewhere."""
        return decoder_of(self.model)

    @property
    def shown(self) -> Frame:
        """The frame of what a person looks at: of decoded pictures where points are latents."""
        return self.frame if self.decoder is None else self.decoder.picture

    @property
    def pictures(self) -> bool:
        """Whether its samples are grey pictures, decoded ones included."""
        return len(self.shown.shape) == 3 and self.shown.shape[0] == 1

    def show(self, points: Points) -> Tensor:
        """What a person looks at: decoded pictures of latents, else the points; one decoder call a point."""
        if self.decoder is None:
            return points
        with torch.no_grad():
            return self.decoder.decode(points)

    def seen(self, point: Tensor, directions: Points) -> Tensor:
        """Directions at a point as a person sees them: through the decoder's Jacobian for latents, J v.

        Args:
            point: Where, shape (dim,).
            directions: Vectors, shape (count, dim).

        Returns:
            Shape (count, dim), or (count, picture dim) for latents; one forward derivative each there.
        """
        decoder = self.decoder
        if decoder is None:
            return directions
        moved = directions.to(point)
        return jacobian_vector(decoder.decode, point.expand_as(moved), moved)[1]

    def landscape(self, sigma: float = 0.0) -> Landscape | None:
        """Its energy at a noise level, where it is known in closed form; None elsewhere."""
        if isinstance(self.model, Landscape):
            return self.model
        return LevelLandscape(self.model, sigma) if isinstance(self.model, ExactScore) else None

    def point(self, text: str | int) -> Tensor:
        """The point that a text names.

        Args:
            text: A given name, the number of a real sample, a picture file, its negative as "invert:FILE",
                or coordinates "x,y,...". Where no real samples are known, a number is the seed of a sample
                that the model draws.

        Returns:
            Shape (dim,), on the subject's device and of its dtype.

        Raises:
            SettingError: If the text names no point.
            DataError: If it names a file that is no picture.
        """
        text = str(text).strip()
        if text in self.given:
            return self._placed(self.given[text])
        if self.choices is not None and text.isdecimal():
            if int(text) >= len(self.choices):
                raise SettingError(f"sample {text}", f"a number from 0 to {len(self.choices) - 1}", "0")
            return self._placed(self.choices[int(text)])
        if self._draws and text.isdecimal():
            return self._drawn(int(text))
        values = _numbers(text)
        if len(values) == self.frame.dim and all(map(math.isfinite, values)):
            return self._placed(torch.tensor(values, dtype=torch.float64))
        if self._reads_files and text and not values:
            path, invert = _path(text), text.startswith(INVERT)
            return self._encoded(self._placed(read_image(path, self.shown, invert=invert)))
        raise SettingError(f"the point {text!r}", self._expected_point(), repr(self.start))

    def files(self, **texts: str) -> dict[str, Path]:
        """Which of the texts name picture files that are there: label to path."""
        if not self._reads_files:
            return {}
        paths = {label: _path(text) for label, text in texts.items() if text and text not in self.given}
        return {label: path for label, path in paths.items() if path.is_file()}

    def remarks(self, **texts: str) -> tuple[str, ...]:
        """One sentence for each text, e.g. start="a.png", that names a picture on an unusual background."""
        return ground_remarks(self.files(**texts), texts, real_samples(self.shown), self.shown)

    def ends(self, start: str | int = "", end: str | int = "") -> tuple[Tensor, Tensor]:
        """Two points by their texts; an empty text takes the default.

        Args:
            start: Text of the first end, or the number of a real sample.
            end: Text of the last end, or the number of a real sample.

        Returns:
            Both, shape (dim,).

        Raises:
            SettingError: If a text names no point.
        """
        first, last = str(start).strip() or self.start, str(end).strip() or self.end
        return self.point(first), self.point(last)

    def points(self, text: str) -> Points | None:
        """The points of a text with semicolons between; None for an empty text.

        Raises:
            SettingError: If a part names no point.
        """
        parts = [part for part in text.split(";") if part.strip()]
        return torch.stack([self.point(part) for part in parts]) if parts else None

    def field(self, sigma: float = 0.0, *, size: int = 128) -> Field | None:
        """The energy over the plane of a two-dimensional world, the ground that paths are drawn on.

        Args:
            sigma: Noise level.
            size: Grid points along the longer side.

        Returns:
            The field, or None where the energy is unknown or the space is no plane.
        """
        if not 0.0 <= sigma < math.inf:
            raise SettingError(f"sigma {sigma}", "a finite noise level, 0 or above", "0")
        landscape = self.landscape(sigma)
        if landscape is None or self.world is None or self.frame.dim != 2:
            return None
        low_x, high_x, low_y, high_y = self.world.facts.window
        longer = max(high_x - low_x, high_y - low_y)
        columns, rows = (max(16, round(size * side / longer)) for side in (high_x - low_x, high_y - low_y))
        return measure_field(
            landscape.energy,
            Identity(),
            Window((low_x, high_x), (low_y, high_y)),
            columns=columns,
            rows=rows,
            title="V" if isinstance(self.model, Landscape) else "−log p",
            unit=landscape.unit,
            like=torch.empty(0, device=self.device, dtype=self.dtype),
        )

    def reference_path(self, near: Points) -> Tensor | None:
        """The known path between the ends of a path, where the world knows one; else None.

        Args:
            near: Nodes of a path, shape (count, dim); of several known routes the closest is meant.

        Returns:
            A fine polyline, shape (corners, dim).
        """
        if self.world is None:
            return None
        answer = known_answer(self.world, near[0], near[-1], near=near)
        if answer is None or not answer.between_minima:
            return None
        return self.world.reference_path(answer.route.name)

    @property
    def _reads_files(self) -> bool:
        """Whether a picture can become a point: a decoder without an encoder has no way back."""
        return self.pictures and (self.decoder is None or isinstance(self.decoder, Autoencoder))

    @property
    def _draws(self) -> bool:
        """Whether a number names a sample that the model draws: a network without real samples at hand."""
        drawn = self.world is None and isinstance(self.model, ScoreModel | Latents)
        return drawn and self.choices is None and self.frame.dim > 1

    def _drawn(self, seed: int) -> Tensor:
        """The sample that the model draws from a seed."""
        generator = torch.Generator(self.device).manual_seed(seed)
        if isinstance(self.model, Latents):
            return self._placed(self.model.sample(1, generator=generator)[0])
        assert isinstance(self.model, ScoreModel)  # another landscape draws nothing
        drawn = sample(self.model, 1, generator=generator, dtype=self.dtype)[0]
        low, high = self.frame.value_range or (-math.inf, math.inf)
        return self._placed(drawn.clamp(low, high))  # the last step may overshoot black or white

    def _encoded(self, picture: Tensor) -> Tensor:
        with torch.no_grad():
            return self.decoder.encode(picture) if isinstance(self.decoder, Autoencoder) else picture

    def _placed(self, point: Tensor) -> Tensor:
        return point.to(device=self.device, dtype=self.dtype)

    def _expected_point(self) -> str:
        kinds = [f"{self.frame.dim} finite numbers with commas between"]
        if self.choices is not None:
            kinds.insert(0, f"the number of a real sample, 0 to {len(self.choices) - 1}")
        if self._draws:
            kinds.insert(0, "the seed of a sample that the model draws")
        if self._reads_files:
            kinds.append(f"a picture file, after {INVERT!r} inverted")
        return ", or ".join(kinds)


def open_subject(
    *,
    world: str = "",
    model: str | Path = "fashion",
    condition: int | str | None = None,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype | None = None,
) -> Subject:
    """The world or the model of that name, with its points.

    Args:
        world: Name of a world; if set, the model is not looked at.
        model: Name of a shipped model, or a file or folder that `open_model` can open.
        condition: Class to bind; None for the null class.
        device: As for `resolve_device`.
        dtype: Type to compute in, or its name; float64 for worlds and float32 for networks if empty.

    Returns:
        The subject.

    Raises:
        SettingError: If a name means nothing or the device is not there.
        DataError: If the model's files cannot be read.
    """
    place = resolve_device(device)
    if world:
        known = load_world(world)
        frame = known.frame if isinstance(known, ExactScore) else Frame(known.name, (known.dim,), 0.0, 0.0)
        ends = {"start": known.facts.start, "end": known.facts.end}
        precision = _dtype_named(dtype) or torch.float64
        return Subject(known, frame, "start", "end", None, ends, known, place, precision)
    precision = _dtype_named(dtype) or torch.float32
    shipped = str(model) in MODELS
    network = open_model(
        model, condition=condition, device=place, dtype=precision, memory=None if shipped else MEMORY
    )
    if isinstance(network, FlowDensity):
        return Subject(network, network.frame, "", "", device=place, dtype=precision)
    if isinstance(network, Decoder) and not isinstance(network, ScoreModel):
        latents = Latents(network)
        return Subject(latents, latents.frame, "0", "1", device=place, dtype=precision)
    if not isinstance(network, ScoreModel):
        raise SettingError(
            f"{type(network).__name__} {network.name}, which has neither samples nor noise levels",
            "a score model, a decoder or a flow with its density",
            "find_path(landscape, start, end)",
        )
    frame = network.frame
    choices = model_samples(network)
    start, end = _FIRST_ENDS.get(str(model), ("0", "1"))
    return Subject(network, frame, start, end, choices, {}, None, place, precision)


def model_samples(model: ScoreModel) -> Points | None:
    """Held-out real samples as points of a model: encoded where its points are latents.

    Args:
        model: The model.

    Returns:
        Shape (count, dim), or None where none are shipped or a decoder has no way back.
    """
    decoder = decoder_of(model)
    if decoder is None:
        return real_samples(model.frame)
    if not isinstance(decoder, Autoencoder):
        return None
    found = real_samples(decoder.picture)
    with torch.no_grad():
        return None if found is None else decoder.encode(found)


def real_samples(frame: Frame) -> Points | None:
    """Held-out real samples of the set that a shipped model was trained on; None where none are shipped.

    Args:
        frame: The model's frame.

    Returns:
        Shape (count, dim), or None.
    """
    try:
        images = load_images(frame.name.removesuffix("_pipeline"), split="sample")
    except SettingError:
        return None
    return images.points if tuple(images.shape) == frame.shape else None


def _dtype_named(name: str | torch.dtype | None) -> torch.dtype | None:
    if not name or isinstance(name, torch.dtype):
        return name or None
    found = getattr(torch, name, None)
    if found not in (torch.float32, torch.float64):
        raise SettingError(f"dtype {name!r}", "float32 or float64", "float64")
    return found


def _path(text: str) -> Path:
    """The path in a text, with its home folder filled in where that is known."""
    path = Path(text.removeprefix(INVERT).replace("\0", ""))
    try:
        return path.expanduser()
    except RuntimeError:  # the home of an unknown user
        return path


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.replace(";", ",").split(",")]
    except ValueError:
        return []
