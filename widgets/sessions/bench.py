"""The session behind a view of the bench: what is drawn of its answers, and what gestures ask of it.

It knows no host. A notebook's view and a page's both hold one, so that they show and do the same.
"""

import html
import threading
from collections.abc import Callable, Sequence
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
from widgets.figures.bench import (
    badge_html,
    ellipse_coords,
    ellipse_scale,
    field_limits,
    line_colours,
)
from widgets.figures.comparison import comparison_html
from widgets.figures.images import pixels_of
from widgets.theme import Theme
from workbench.bench.answers import LensAnswer
from workbench.bench.bench import Bench
from workbench.bench.citations import cite
from workbench.bench.compare import Comparison
from workbench.bench.lenses import BENCH_LENSES
from workbench.bench.outlines import distortion_outlines
from workbench.bench.results import BenchEvent, BenchResult
from workbench.bench.scrub import Scrub, scrub_levels
from workbench.bench.state import BenchState
from workbench.bench.trust import trust_of
from workbench.fields import Field
from workbench.scheduling import Progress, Speed, sentence_of

DASHES = {"straight": "6 5", "slerp": "2 4", "other": "8 4 2 4"}
"""Dash of a curve by its kind; solid for the rest."""
BALLS = {"metric": "metric's unit balls", "posterior": "posterior at the ends"}
"""Names of the ellipses in the legend, by kind."""


class BenchSession:
    """One user's look at a bench.

    Args:
        bench: The bench.
        look: Colours.
    """

    def __init__(self, bench: Bench, look: Theme) -> None:
        self.bench, self.look = bench, look
        self.distortion = False
        self.strip_line = ""
        self.scrub: Scrub | None = None
        self._field: tuple[Field | None, dict[str, Any]] | None = None
        self._scrubbing: threading.Thread | None = None
        self._stop = threading.Event()

    # -- gestures

    def after(self, gesture: Gesture) -> tuple[BenchState, Speed] | None:
        """What a gesture asks for: a state and a speed, or None if it asks for nothing yet.

        Raises:
            WorkbenchError: If it leads to no valid state.
        """
        if gesture.kind == "start":
            return None
        if gesture.kind == "add":
            return self.bench.with_via(gesture.x, gesture.y), "full"
        if gesture.kind == "remove":
            if not gesture.id.startswith("via"):
                return None
            return self.bench.without_via(gesture.id), "full"
        moved = self.bench.moved(gesture.id, gesture.x, gesture.y)
        if gesture.kind == "move":
            return None if moved == self.bench.state else (moved, "coarse")
        return moved, "full"

    # -- the picture

    def frame(self) -> dict[str, Any]:
        """Trait values of the canvas before there is an answer: axes, points, samples."""
        place = self.bench.place
        return {
            **window_traits(place.window, place.section.axes),
            **self.handles(),
            **stroke_traits(self._samples()),
            **field_traits(None),
            **thumb_traits(None),
            "caption": f"{place.subject.frame}, {place.section.name}, with movable ends",
            "can_add": True,
            "hint": drag_hint(samples=place.subject.choices is not None),
        }

    def handles(self) -> dict[str, Any]:
        """Trait values of the points that can be dragged."""
        state, place = self.bench.state, self.bench.place
        subject = place.subject
        texts = [("start", state.start or subject.start)]
        texts += [(f"via {k}", text) for k, text in enumerate(state.vias)]
        texts.append(("end", state.end or subject.end))
        handles = []
        for name, text in texts:
            x, y = place.coords(text)
            picture = subject.choices is not None and text.isdecimal()
            kind = "start" if name == "start" else "end" if name == "end" else "via"
            handles.append(Handle(name, f"{name} (image {text})" if picture else name, x, y, kind))
        return handle_traits(handles)

    def result(self) -> BenchResult | None:
        """What was delivered last, as one value; None before the first answer."""
        bench = self.bench
        answers = tuple(bench.answers[name] for name in bench.state.lens_names if name in bench.answers)
        if not answers:
            return None
        empty = Comparison((), torch.zeros(0, 0), 0.0, "", bench.state.metric, 0)
        return BenchResult(
            bench.state, answers[0].speed, bench.place, answers, bench.background, bench.table or empty
        )

    def scene(self) -> dict[str, Any]:
        """Trait values of the field, the curves and the ellipses as they were delivered last."""
        result = self.result()
        if result is None:
            return stroke_traits(self._samples())
        strokes = [*self._samples(), *self._curves(result), *self._ellipses(result)]
        if self.distortion:
            pieces = distortion_outlines(result)
            if pieces:
                strokes.append(Stroke("distortion", _pieces(pieces), self.look.muted, width=1.0))
        return {**self._ground(result), **stroke_traits(strokes)}

    def draws(self, event: BenchEvent) -> bool:
        """Whether the picture is drawn for an event before the table comes. Coarse answers follow each other
        so fast that only the first of them is worth it."""
        if event.what not in ("answer", "background"):
            return False
        first = event.state.lens_names[0] if event.state.lens_names else ""
        return event.speed == "full" or (event.answer is not None and event.answer.lens == first)

    def _ground(self, result: BenchResult) -> dict[str, Any]:
        """Trait values of the field; made again for another field only."""
        if self._field is None or self._field[0] is not result.background:
            made = field_traits(result.background, limits=field_limits(result))
            self._field = (result.background, made)
        return self._field[1]

    def thumbs(self) -> dict[str, Any]:
        """Trait values of the pictures at the nodes of a curve; none where samples are no pictures."""
        result = self.result()
        subject = self.bench.place.subject
        if result is None or not subject.pictures:
            return thumb_traits(None)
        order = {"path": 0, "geodesic": 1}
        lines = sorted(result.lines, key=lambda line: order.get(line.kind, 2))
        named = [line for line in lines if line.name == self.strip_line] or lines[:1]
        if not named:
            return thumb_traits(None)
        pixels = pixels_of(subject.show(named[0].points), subject.shown.shape, subject.shown.value_range)
        return thumb_traits(pixels if pixels.ndim == 3 else pixels.mean(-1).astype("uint8"), named[0].name)

    def _samples(self) -> list[Stroke]:
        cloud = self.bench.place.cloud
        if cloud is None:
            return []
        return [Stroke("real samples", cloud, self.look.muted, "dots", 2.0, opacity=0.35)]

    def _curves(self, result: BenchResult) -> list[Stroke]:
        section, lines = result.place.section, result.lines
        colours = line_colours(lines, self.look)
        plain = {"straight", "slerp", "exact", "other"}
        return [
            Stroke(
                line.name,
                section.encode(line.points),
                colours[line.name],
                width=1.7 if line.kind in plain else 2.4,
                dash=DASHES.get(line.kind, ""),
                nodes=0.0 if line.kind in plain else 2.6,
                halo=line.kind not in plain,
            )
            for line in lines
        ]

    def _ellipses(self, result: BenchResult) -> list[Stroke]:
        every = [one for answer in result.answers for one in answer.ellipses]
        window = result.place.window
        scale = ellipse_scale(every, window.x[1] - window.x[0])
        strokes = []
        for kind, name in BALLS.items():
            own = [one for one in every if one.kind == kind]
            if own:
                factor = scale if kind == "metric" else 1.0
                coords = _pieces([ellipse_coords(one, scale=factor) for one in own])
                colour = self.look.other if kind == "metric" else self.look.start
                strokes.append(
                    Stroke(name, coords, colour, width=1.5, dash="" if kind == "metric" else "3 3")
                )
        return strokes

    # -- words and tables

    def badge(self) -> str:
        """The trust badge as HTML."""
        bench = self.bench
        return badge_html(trust_of(bench.answers.values(), bench.state, bench.place.subject.frame), self.look)

    def table(self, *, changed: frozenset[str] = frozenset()) -> str:
        """The comparison as HTML."""
        table = self.bench.table
        return "" if table is None else comparison_html(table, self.look, changed=changed)

    def words(self) -> str:
        """What each lens answers and says beside its curves, as HTML."""
        parts = []
        said = self.bench.answers
        for lens in BENCH_LENSES:
            answer = said.get(lens.name)
            if answer is not None:
                parts.append(_said(lens.question, answer))
        result = self.result()
        if result is not None and result.lines:
            points = torch.cat([line.points for line in result.lines])[:400]
            parts.append(f"<p><b>projection</b>: {html.escape(result.place.says(points))}</p>")
        return f'<div class="wb-bench-words" style="font-size:12px;line-height:1.4">{"".join(parts)}</div>'

    def citations(self) -> str:
        """BibTeX of what is on the screen."""
        return cite(self.bench.answers.values(), self.bench.state)

    # -- the noise scrubber

    @property
    def scrubbing(self) -> bool:
        """Whether levels are being computed ahead."""
        return self._scrubbing is not None and self._scrubbing.is_alive()

    def precompute(self, done: Callable[[str], None], progress: Progress | None = None) -> None:
        """Compute all levels ahead on a thread of their own; a second call while it runs does nothing.

        Args:
            done: Called at the end with an empty text, or a sentence if it failed.
            progress: Called with a share and a level.
        """
        if self.scrubbing:
            return
        self._stop.clear()

        def work() -> None:
            try:
                with torch.no_grad():
                    self.scrub = scrub_levels(self.bench, progress=progress, cancel=self._stop)
            except Exception as error:  # a view shows a sentence, whatever went wrong
                done(sentence_of(error))
            else:
                done("")

        self._scrubbing = threading.Thread(target=work, name="workbench-scrub", daemon=True)
        self._scrubbing.start()

    def stop_precompute(self) -> None:
        """Stop computing ahead; what is done so far is kept."""
        self._stop.set()

    def wait_precompute(self, timeout: float = 60.0) -> bool:
        """Block until the levels are computed; False if that took longer."""
        if self._scrubbing is not None:
            self._scrubbing.join(timeout)
        return not self.scrubbing

    def close(self) -> None:
        """Stop everything."""
        self.stop_precompute()
        self.bench.close()


def _pieces(coords: Sequence[Tensor]) -> Tensor:
    """Several polylines as one: a vertex that is no number lifts the pen."""
    gap = torch.full((1, 2), torch.nan, dtype=torch.float64)
    joined = [part for one in coords for part in (one.double().cpu(), gap)]
    return torch.cat(joined[:-1])


def _said(question: str, answer: LensAnswer) -> str:
    head = f"<b>{html.escape(answer.lens)}</b>: {html.escape(question)}"
    if answer.sentence:
        return f"<p>{head}<br>{html.escape(answer.sentence)}</p>"
    facts = " · ".join(f"{html.escape(name)} {html.escape(str(fact))}" for name, fact in answer.facts)
    notes = "".join(f"<br>{html.escape(note)}" for note in answer.notes)
    warnings = "".join(
        f"<br>▲ {html.escape(text)}" for text in (answer.report.warnings if answer.report else ())
    )
    return f"<p>{head}<br>{facts}{notes}{warnings}</p>"
