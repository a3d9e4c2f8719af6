"""The session behind a path view: its state, its subject, what it computes, and what its picture shows.

It knows no host. A notebook's view and a page's both hold one, so that they compute and draw the same.
"""

import threading
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from widgets.canvas.scene import (
    Gesture,
    Handle,
    Stroke,
    drag_hint,
    field_traits,
    handle_traits,
    stroke_traits,
    thumb_traits,
    window_traits,
)
from widgets.figures.images import pixels_of
from widgets.figures.paths import projection_line
from widgets.scheduling import Progress, Speed
from widgets.stage import Stage, open_stage
from widgets.state import PathState
from widgets.theme import Theme, theme_of
from workbench.bench.hints import hint_settings
from workbench.bench.vias import add_via, drop_via, put_point
from workbench.checks import check_choice
from workbench.curves import Curve
from workbench.errors import SettingError
from workbench.lenses.paths import PathResult, find_path
from workbench.strings.settings import usual_gamma
from workbench.worlds.answers import KnownAnswer, known_answer
from workbench.worlds.reference import deviation


@dataclass(frozen=True, slots=True)
class Answer:
    """A path, and what is known about it.

    Attributes:
        state: What was asked.
        speed: "coarse" or "full".
        result: The path.
        exact: The exact answer; None where nothing is known.
        reference: Nodes of the exact path between the world's own ends; None where it is not known.
        deviation: Largest distance of an image to the exact path, in data units.
        seconds: Time that the computation took.
    """

    state: PathState
    speed: Speed
    result: PathResult
    exact: KnownAnswer | None
    reference: Tensor | None
    deviation: float | None
    seconds: float

    @property
    def preview(self) -> str:
        """The regime that a coarse path is a preview of; empty for a full one."""
        return self.state.regime if self.speed == "coarse" else ""

    @property
    def barrier_error(self) -> float | None:
        """Barrier found minus the exact one, in the energy's unit."""
        return None if self.exact is None else float(self.result.barrier.value) - self.exact.barrier


class PathSession:
    """One user's look at paths in one subject.

    Args:
        state: What to look at and how; entries that are empty become the subject's own.
        stage: The subject and its picture, if they are at hand; else those that the state names.
    """

    def __init__(self, state: PathState, stage: Stage | None = None) -> None:
        self.stage = open_stage(state) if stage is None else stage
        self.subject = self.stage.subject
        self.state = self.filled(state)
        self._last: Answer | None = None  # of the worker: where a hint starts
        self._grounds: dict[float, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def filled(self, state: PathState) -> PathState:
        """A state whose empty entries are the subject's own.

        Raises:
            SettingError: If the subject has no such regime.
        """
        start, end = self.stage.first_ends()
        if not self.subject.regimes:
            raise SettingError(
                f"a path in {self.subject.frame}, {self.subject.lacking}",
                "a model with noise levels, or an energy",
                "the Fisher lens, whose pullback metric needs no score",
            )
        check_choice("regime", state.regime or self.subject.regimes[0], self.subject.regimes)
        return state.but(
            start=state.start or start,
            end=state.end or end,
            regime=state.regime or self.subject.regimes[0],
            gamma=usual_gamma(self.subject.model) if state.gamma is None else state.gamma,
        )

    def moved(self, handle: str, x: float, y: float) -> PathState:
        """The state after a point was put to a place of the picture.

        Args:
            handle: "start", "end" or "via 0", "via 1", ...
            x: Abscissa.
            y: Ordinate.
        """
        return put_point(self.state, handle, self.stage.text_at(x, y))

    def with_via(self, x: float, y: float) -> PathState:
        """The state with one more point to lead the path through, sorted along the line between the ends."""
        return add_via(self.state, self.subject, self.stage.text_at(x, y))

    def without_via(self, handle: str) -> PathState:
        """The state without one of its via points."""
        return drop_via(self.state, handle)

    def after(self, gesture: Gesture) -> tuple[PathState, Speed] | None:
        """What a gesture asks for: a state and a speed, or None if it asks for nothing yet.

        Raises:
            WorkbenchError: If it leads to no valid state.
            LookupError: If it names a point that is not there.
        """
        if gesture.kind == "start":
            return None
        if gesture.kind == "add":
            return self.with_via(gesture.x, gesture.y), "full"
        if gesture.kind == "remove":
            return self.without_via(gesture.id), "full"
        return self.moved(gesture.id, gesture.x, gesture.y), "coarse" if gesture.kind == "move" else "full"

    # -- computing

    def solve(self, state: PathState, speed: Speed, cancel: threading.Event, progress: Progress) -> Answer:
        """Find the path that a state asks for, and compare it with the exact answer where there is one."""
        began = time.monotonic()
        subject = self.subject
        start, end = subject.point(state.start), subject.point(state.end)
        if bool((start == end).all()):
            raise SettingError("two equal ends", "two different points", "moving one of them")
        settings = self._settings(state)
        if speed == "coarse":
            settings = hint_settings(subject, (start, end), settings, self._near(state))
        result = find_path(
            subject.model,
            start,
            end,
            via=subject.points(state.via),
            measure_share=speed == "full",
            generator=torch.Generator(start.device).manual_seed(state.seed),
            progress=progress,
            cancel=cancel,
            **settings,
        )
        exact, reference, off = self._compare(state, result) if speed == "full" else (None, None, None)
        self._last = Answer(state, speed, result, exact, reference, off, time.monotonic() - began)
        return self._last

    def _near(self, state: PathState) -> Curve | None:
        """The last path, if only its ends were elsewhere."""
        last = self._last
        if last is None or last.state.but(start=state.start, end=state.end) != state:
            return None
        return last.result.curve

    def _settings(self, state: PathState) -> dict[str, Any]:
        """Settings of the solver for the full answer."""
        settings: dict[str, Any] = {
            "regime": state.regime,
            "sigma": state.sigma,
            "nodes": state.nodes,
            "steps": state.steps,
        }
        if state.regime in ("mep", "principal"):
            settings["gamma"] = state.gamma
        if state.regime == "principal" and state.temperature > 0:
            settings["temperature"] = state.temperature
        return settings

    def _compare(
        self, state: PathState, result: PathResult
    ) -> tuple[KnownAnswer | None, Tensor | None, float | None]:
        world = self.subject.world
        if world is None or result.sigma > 0 or state.regime not in ("mep", "static"):
            return None, None, None
        points = result.curve.points
        exact = known_answer(world, points[0], points[-1], near=points)
        if exact is None:
            return None, None, None
        reference = world.reference_path(exact.route.name).to(points)
        off = float(deviation(points, reference).max()) if exact.between_minima else None
        return exact, reference, off

    def ground(self, sigma: float) -> dict[str, Any]:
        """Trait values of the field under the path at a noise level, kept once measured."""
        with self._lock:
            if sigma not in self._grounds:
                if len(self._grounds) > 32:
                    self._grounds.clear()
                self._grounds[sigma] = field_traits(self.stage.ground(sigma))
            return self._grounds[sigma]

    # -- showing

    def handles(self, state: PathState | None = None) -> dict[str, Any]:
        """Trait values of the points that can be dragged."""
        state = state or self.state
        texts = [
            ("start", state.start),
            *((f"via {k}", text) for k, text in enumerate(state.vias)),
            ("end", state.end),
        ]
        handles = []
        for name, text in texts:
            x, y = self.stage.coords(text)
            label = f"{name} (image {text})" if self.subject.choices is not None and text.isdigit() else name
            kind = "start" if name == "start" else "end" if name == "end" else "via"
            handles.append(Handle(name, label, x, y, kind))
        return handle_traits(handles)

    def empty_scene(self, theme: str | Theme) -> dict[str, Any]:
        """Trait values of the picture before there is an answer."""
        stage = self.stage
        strokes = self._samples(theme_of(theme))
        return {
            **window_traits(stage.window, stage.section.axes),
            **self.ground(self.state.sigma or 0.0),
            **stroke_traits(strokes),
            **self.handles(),
            "caption": f"{self.subject.frame.name}, {stage.section.name}, with movable ends",
            "can_add": True,
            "hint": drag_hint(samples=self.subject.choices is not None),
        }

    def scene(self, answer: Answer, theme: str | Theme) -> dict[str, Any]:
        """Trait values of the picture of an answer; the points stay where the user has them."""
        look, section, result = theme_of(theme), self.stage.section, answer.result
        strokes = self._samples(look)
        coords = section.encode(result.lerp.points)
        strokes.append(Stroke("straight line", coords, look.straight, width=1.6, dash="6 5"))
        coords = section.encode(result.slerp.points)
        strokes.append(Stroke("slerp", coords, look.slerp, width=1.8, dash="2 4"))
        if answer.reference is not None:
            strokes.append(Stroke("exact path", section.encode(answer.reference[::8]), look.exact, width=1.5))
        if result.walkers is not None:
            flat = result.walkers.reshape(-1, result.walkers.shape[-1])
            strokes.append(Stroke("walkers", section.encode(flat), look.walkers, "dots", 2.0, opacity=0.5))
        strokes.append(Stroke("path", section.encode(result.curve.points), look.path, nodes=2.6, halo=True))
        saddles = [barrier.saddle for barrier in result.barriers if barrier.saddle is not None]
        if saddles:
            strokes.append(
                Stroke("saddles", section.encode(torch.stack(saddles)), look.saddle, "crosses", 5.0)
            )
        traits = {**self.ground(result.sigma), **stroke_traits(strokes)}
        if self.subject.pictures:
            shown = self.subject.shown
            pixels = pixels_of(self.subject.show(result.curve.points), shown.shape, shown.value_range)
            traits.update(
                thumb_traits(pixels if pixels.ndim == 3 else pixels.mean(-1).astype("uint8"), "path")
            )
        return traits

    def _samples(self, look: Theme) -> list[Stroke]:
        """The samples that ends can be, as a cloud under everything."""
        if self.subject.choices is None:
            return []
        places = self.stage.section.encode(
            self.subject.choices.to(device=self.subject.device, dtype=self.subject.dtype)
        )
        return [Stroke("real images", places, look.muted, "dots", 2.0, opacity=0.35)]

    def facts(self, answer: Answer) -> list[tuple[str, str]]:
        """What a view says about an answer beside its figures: name and value, ready to print."""
        result = answer.result
        rows = [
            ("barrier", str(result.barrier)),
            ("length", str(result.length)),
            ("spacing max/min", f"{float(result.spacing_ratio):.4f}"),
        ]
        if answer.exact is not None:
            rows.append(
                (
                    "exact barrier",
                    f"{answer.exact.barrier:.6g} {result.energy_unit} ({answer.exact.route.name})",
                )
            )
            rows.append(("error", f"{answer.barrier_error:+.2e} {result.energy_unit}"))
        if answer.deviation is not None:
            rows.append(("off the exact path", f"{answer.deviation:.2e}"))
        if max(result.round_trip) > 0:
            rows.append(("round trip of the ends", f"{float(max(result.round_trip)):.1e}"))
        rows.append(("projection", projection_line(self.stage.section, result.curve.points)))
        rows.append(("time", f"{1000 * answer.seconds:.0f} ms, {answer.speed}"))
        return rows
