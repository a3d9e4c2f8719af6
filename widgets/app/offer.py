"""What a page offers its visitors: worlds, models and ends by name, and sizes that one machine can bear.

A visitor names things by words. Files of the server are not among them: a model is one of those that the page
was started with, and an end is a sample's number, coordinates, or a picture that was uploaded.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from widgets.app.uploads import PREFIX, Uploads
from widgets.stage import Stage, stage_of
from workbench.bench.cache import ContentCache
from workbench.bench.places import subject_of_state
from workbench.bench.state import BenchState
from workbench.cards import MODELS
from workbench.checks import shown
from workbench.errors import DataError, SettingError
from workbench.pictures import INVERT
from workbench.subjects import Subject, open_subject
from workbench.worlds import WORLDS

LARGEST = {
    "k": 200,
    "rank": 64,
    "nodes": 257,
    "steps": 200,
    "gamma": 30.0,
    "temperature": 10.0,
    "networks": 1000,
    "seeds": 5,
    "directions": 8,
    "sites": 200,
    "size": 5,
    "level": 999,
    "resolution": 64,
    "flow_steps": 64,
    "zoom": 60,
    "seed": 2**62,
    "probe_std": 100.0,
    "guidance": 100.0,
    "sigma": 1e4,
}
"""Largest values that a visitor may ask for; a run on one's own machine has no such limits."""
Made = TypeVar("Made")

MOST_VIAS = 32
"""Most points to lead a curve through."""
FIXED = ("device", "dtype")
"""Settings that are the server's own."""


@lru_cache(maxsize=12)
def _stage(world: str, model: str) -> Stage:
    """A stage that all visitors share; it is never changed."""
    return stage_of(open_subject(world=world, model=model))


class Offer:
    """Subjects by name.

    Args:
        model: A folder, or a file, with a model of one's own; none if empty.
        uploads: Pictures that visitors have sent.
        here: Whether visitors sit at this machine, so that they may see where its files lie.
    """

    def __init__(self, model: str = "", uploads: Uploads | None = None, *, here: bool = True) -> None:
        self._here = here
        self.uploads = uploads or Uploads()
        self._models = {name: name for name in MODELS}
        self.first = ""
        if model:
            self.first = Path(model).stem if model not in MODELS else model
            self._models[self.first] = model
        self.worlds = tuple(WORLDS)
        self.cache = ContentCache()

    @property
    def models(self) -> tuple[str, ...]:
        """Names of models, one's own first."""
        return tuple(dict.fromkeys(filter(None, (self.first, *self._models))))

    @property
    def pictured(self) -> str:
        """The model that a visitor's picture opens where no model of pictures is looked at."""
        return "fashion"

    @property
    def subjects(self) -> tuple[str, ...]:
        """Names of worlds and models."""
        own = (self.first,) if self.first else ()
        return tuple(dict.fromkeys((*own, *self.worlds, *self.models)))

    def entries(self, name: str) -> dict[str, str]:
        """The entries of a state that name a subject.

        Raises:
            SettingError: If it is not offered.
        """
        if name in self._models:
            return {"world": "", "model": name}
        if name in self.worlds:
            return {"world": name}
        raise SettingError(f"the subject {name!r}", f"one of {', '.join(self.subjects)}", self.subjects[0])

    def path_of(self, model: str) -> str:
        """Where a model of that name lies, for a run outside the page."""
        return self._models.get(model, model)

    def named(self, model: str) -> str:
        """What a run outside the page is told: the model's path, or its name alone to those elsewhere."""
        return self.path_of(model) if self._here else model

    def portable(self, state: Any, subject: Subject) -> Any:
        """A state for a run outside the page, to which the page's names of models and pictures mean nothing.

        Args:
            state: Anything with `model`, `start`, `end` and `via`.
            subject: Its subject.

        Returns:
            The state with its model's path, and the coordinates of every uploaded picture, digit by digit.
        """

        def spelt(text: str) -> str:
            if not text.strip().removeprefix(INVERT).startswith(PREFIX):
                return text
            return ",".join(f"{value:.9g}" for value in subject.point(text).tolist())

        return state.but(
            model=self.named(state.model),
            start=spelt(state.start),
            end=spelt(state.end),
            via=";".join(spelt(part) for part in state.via.split(";")),
        )

    def stage(self, state: Any) -> Stage:
        """The stage of a state.

        Args:
            state: Anything with `world`, `model`, `start`, `end` and `via`.

        Raises:
            SettingError: If it names what is not offered.
        """
        self.entries(state.world or state.model)
        stage = _stage(state.world, "" if state.world else self._models[state.model])
        subject = self._known(stage.subject)
        self.check_points(subject, state)
        return Stage(dataclasses.replace(stage.place, subject=subject))

    def open_subject(self, state: BenchState) -> Subject:
        """The subject of a bench's state.

        Raises:
            WorkbenchError: If it names what is not offered, or cannot be opened.
        """
        self.entries(state.world or state.model)
        if state.condition or state.guidance:
            subject = self._known(subject_of_state(state.but(model=self.path_of(state.model))))
            self.check_points(subject, state)
            return subject
        return self.stage(state).subject

    def open_model(self, state: Any) -> Subject:
        """The model of a state, which has no points of its own to check.

        Args:
            state: Anything with `model`.

        Raises:
            SettingError: If it is not offered.
        """
        self._check_model(state)
        return _stage("", self._models[state.model]).subject

    def facing(self, name: str, subject: Subject) -> str:
        """An uploaded picture's name as an end: as its negative, if it lies on another background than images
        of the subject do.

        Raises:
            DataError: If it is no picture.
        """
        data = self.uploads.find(name)
        unlike = data is not None and _with_file(data, lambda path: subject.remarks(picture=path))
        return INVERT + name if unlike else name

    def check_points(self, subject: Subject, state: Any) -> None:
        """Refuse points that name a file of the server, or a picture that has been forgotten; and too many.

        Raises:
            SettingError: If a state has one.
        """
        if len(state.vias) > MOST_VIAS:
            raise SettingError(f"{len(state.vias)} via points", f"{MOST_VIAS} at most on this page")
        for text in (state.start, state.end, *state.via.split(";")):
            text = text.strip()
            if text.removeprefix(INVERT).startswith(PREFIX) and text not in subject.given:
                raise SettingError("a picture that the server does not know any more", "an uploaded one")
            if text not in subject.given and not _is_numbers(text):
                raise SettingError(f"the point {text!r}", _expected(subject), repr(subject.start))

    def check_slice(self, state: Any) -> None:
        """Refuse a slice of a model that is not offered, or one that files of the server span.

        Args:
            state: Anything with `model` and `corners`.

        Raises:
            SettingError: If it names one.
        """
        self._check_model(state)
        for text in state.corners.split(";"):
            if not _is_numbers(text.strip()):
                raise SettingError(f"the corner {text!r}", "a number of a sample, or coordinates", "0;1;2")

    def _check_model(self, state: Any) -> None:
        if state.model not in self._models:
            raise SettingError(
                f"the model {state.model!r}", f"one of {', '.join(self.models)}", self.models[0]
            )

    def _known(self, subject: Subject) -> Subject:
        """A subject among whose points are the uploaded pictures."""
        return dataclasses.replace(subject, given=Gallery(subject, self.uploads))


class Gallery(Mapping[str, Tensor]):
    """The named points of a subject, and the uploaded pictures, which are read when they are asked for.

    Args:
        subject: The subject.
        uploads: The pictures.
    """

    def __init__(self, subject: Subject, uploads: Uploads) -> None:
        self._subject, self._uploads = subject, uploads

    def __getitem__(self, name: str) -> Tensor:
        data, inverted = self._found(name), name.startswith(INVERT)
        return self._subject.given[name] if data is None else read_picture(data, self._subject, inverted)

    def __contains__(self, name: object) -> bool:
        return name in self._subject.given or (isinstance(name, str) and self._found(name) is not None)

    def _found(self, name: str) -> bytes | None:
        return self._uploads.find(name.removeprefix(INVERT))

    def __iter__(self) -> Iterator[str]:
        return iter(self._subject.given)

    def __len__(self) -> int:
        return len(self._subject.given)


def read_picture(data: bytes, subject: Subject, inverted: bool = False) -> Tensor:
    """An uploaded picture, or its negative, as a point of a subject.

    Raises:
        SettingError: If samples of the subject are no pictures.
        DataError: If the data are no picture.
    """
    if not subject.pictures:
        raise SettingError(f"a picture for {subject.frame.name}", "coordinates", "a model of pictures")
    return _with_file(data, lambda path: subject.point(f"{INVERT if inverted else ''}{path}"))


def _with_file(data: bytes, read: Callable[[str], Made]) -> Made:
    """What is read from an uploaded picture."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "upload"
        path.write_bytes(data)
        try:
            return read(str(path))
        except DataError as error:
            raise DataError("a file that is no readable picture", "PNG or JPEG", "another file") from error


def _is_numbers(text: str) -> bool:
    """Whether a text is empty or nothing but numbers with commas between."""
    try:
        [float(part) for part in text.split(",")]
    except ValueError:
        return not text
    return True


def _expected(subject: Subject) -> str:
    """What a point of a subject can be on a page."""
    parts = [f"{subject.frame.dim} numbers with commas between"]
    if subject.choices is not None:
        parts.insert(0, f"the number of a real sample, 0 to {len(subject.choices) - 1}")
    return ", or ".join(parts)


def bearable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values from outside without what a visitor may not set.

    Args:
        values: Entries of a state by name.

    Returns:
        The entries that may be set.

    Raises:
        SettingError: If one of them is larger than this machine is to bear.
    """
    kept = {name: value for name, value in values.items() if name not in FIXED}
    for name, most in LARGEST.items():
        value = kept.get(name)
        if isinstance(value, int | float) and not abs(value) <= most:
            raise SettingError(shown(name, value), f"{most} at most on this page", str(most))
    return kept
