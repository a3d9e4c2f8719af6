"""The linked view: the same two points under all lenses, on one canvas, with one table and one badge."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ipywidgets
import torch
import traitlets

from widgets.canvas.canvas import Canvas
from widgets.canvas.scene import Gesture
from widgets.controls import STYLE, FigureBox, StatusBar, narrow
from widgets.figures.scrubber import scrubber_figure
from widgets.figures.status import sentence
from widgets.figures.strips import strip_figure
from widgets.sessions.bench import BenchSession
from widgets.sessions.beside import BESIDE, Beside, value_of
from widgets.stage import subject_of
from widgets.theme import SIZES, theme_of
from widgets.views.bench_controls import OWN, BenchControls
from widgets.views.second import SecondPanel
from workbench.bench.bench import Bench
from workbench.bench.export import FORMATS, export_filmstrip, strip_of
from workbench.bench.geodesics import metrics_for
from workbench.bench.opening import opener_with
from workbench.bench.results import BenchEvent, BenchResult
from workbench.bench.state import BenchState, read_view
from workbench.errors import WorkbenchError
from workbench.models import Landscape, ScoreModel
from workbench.scheduling import sentence_of
from workbench.worlds import WORLDS, load_world

SETTLE = 0.25
"""Seconds that a control must rest before the full answer is computed."""


class BenchExplorer(ipywidgets.VBox):
    """All lenses on the same two points, found again as the points are dragged.

    Coarse answers follow the pointer, the full ones come on release, lens by lens. What is shown can be read
    and set from code: `bench` (the state, the answers, the table), `canvas`, `state`.

    Args:
        subject: A world's or a shipped model's name, a folder or file with a model, any score model or
            landscape, or a bench that is there already.
        start: First end: coordinates "x,y", the number of a real sample, or a picture file.
        end: Last end.
        theme: "light" or "dark".
        settings: Further entries of `BenchState`, e.g. metric="density", sigma=0.5.

    Raises:
        SettingError: For an unknown subject or setting.
    """

    state = traitlets.Instance(BenchState)
    session: BenchSession = None  # type: ignore[assignment]  # a view whose settings are refused has none
    beside: Beside | None = None

    def __init__(
        self,
        subject: str | Path | ScoreModel | Landscape | Bench = "v_mixture",
        start: str | int = "",
        end: str | int = "",
        *,
        theme: str = "light",
        **settings: Any,
    ) -> None:
        self._look = theme_of(theme)
        ends = {name: str(text) for name, text in (("start", start), ("end", end)) if str(text)}
        self.bench = subject if isinstance(subject, Bench) else _bench_of(subject, {**ends, **settings})
        self._own = "" if self.bench.state.world else self.bench.state.model
        self.session = BenchSession(self.bench, self._look)
        self.bench.place  # noqa: B018 - opened now, so that a wrong name is an error here and no blank view
        self._syncing = False
        self.status = StatusBar(lambda: self.cancel(), theme=self._look)
        self.badge = ipywidgets.HTML()
        self.canvas = Canvas(theme=self._look.name, layout=ipywidgets.Layout(width="100%"))
        self.canvas.on_gesture(self._gestured)
        self.canvas.takes_files = True
        self.canvas.observe(self._dropped, "dropped")
        self.table, self.words = ipywidgets.HTML(), ipywidgets.HTML()
        waiting = sentence("This appears with the first answer.", theme=self._look)
        self.strip, self.marks = FigureBox(waiting), FigureBox(waiting)
        self.other = ipywidgets.VBox([], layout=ipywidgets.Layout(width="100%"))
        self._build_controls()
        self.strip.layout.display = None if self.bench.place.subject.pictures else "none"
        super().__init__(self._rows(), layout=ipywidgets.Layout(width="100%", max_width="1240px"))
        self.state = self.bench.state
        self.canvas.show(**self.session.frame())
        self._leave = self.bench.subscribe(self._heard)
        self.observe(self._restated, "state")
        self.bench.refresh()

    # -- reading and setting

    @property
    def result(self) -> BenchResult | None:
        """All answers that were delivered last."""
        return self.session.result()

    def to_parameters(self) -> str:
        """The parameters cell of the notebook `90_side_by_side` that repeats this view."""
        return self.bench.to_parameters()

    def from_parameters(self, cell: str | Mapping[str, Any]) -> None:
        """Show what a parameters cell asks for."""
        self.bench.from_parameters(cell)

    def save(self, path: str | Path = "view.yaml") -> Path:
        """Write the view as a file; returns its path."""
        return self.bench.save(path)

    def load(self, path: str | Path) -> None:
        """Show a saved view."""
        self.bench.look_at(read_view(Path(path).read_bytes(), source=str(path)))

    def wait(self, timeout: float = 60.0) -> bool:
        """Block until the answers to the last request are on the screen; False if that took longer."""
        done = self.bench.wait(timeout)
        return done and (self.beside is None or self.beside.second.wait(timeout))

    def cancel(self) -> None:
        """Stop computing and keep what was delivered."""
        self.session.stop_precompute()
        self.bench.cancel()

    def close(self) -> None:
        """Stop computing and remove the view."""
        if self.beside is not None:
            self.beside.close()
        if self.session is not None:
            self.session.close()
        super().close()

    # -- controls

    def _build_controls(self) -> None:
        shown = narrow()
        self.settings = BenchControls(self.bench.state, self.bench.place.subject, self._own)
        self.controls, self.sigma = self.settings.controls, self.settings.sigma
        for control in self.controls.values():
            control.observe(self._controlled, "value")
        self.sigma.observe(self._scrubbed, "value")
        button = self._button
        self.ahead = button(
            "Precompute", "fast-forward", "all noise levels, so that the slider is instant", self._ahead
        )
        self.copy = button(
            "Copy as parameters", "copy", "the parameters cell of 90_side_by_side", self._copied
        )
        self.saving = button("Save view", "save", "write the file named beside", self._saved)
        self.citing = button("Cite this view", "quote-left", "BibTeX of the methods used", self._cited)
        self.exporting = button(
            "Export strip", "film", "PNG, GIF or MP4, by the name's ending", self._exported
        )
        self.distort = ipywidgets.ToggleButton(
            value=False, description="Distortion", tooltip="what the projection does to lengths along curves"
        )
        self.distort.observe(self._distorted, "value")
        self.file = ipywidgets.Text(value="view.yaml", description="file", layout=shown, style=STYLE)
        self.upload = ipywidgets.FileUpload(accept=".yaml,.yml", multiple=False, description="Open view")
        self.upload.observe(self._uploaded, "value")
        self.text = ipywidgets.Textarea(layout=ipywidgets.Layout(width="98%", height="170px", display="none"))
        self.line = ipywidgets.Dropdown(options=[], description="strip of", layout=shown, style=STYLE)
        self.line.observe(self._chosen, "value")
        self.setting = ipywidgets.Dropdown(
            options=[("no second panel", ""), *((one, one) for one in BESIDE)],
            value="",
            description="A/B",
            layout=shown,
            style=STYLE,
        )
        self.setting.observe(self._split, "value")
        self.value = ipywidgets.Text(
            value="",
            description="B has",
            placeholder="its value",
            continuous_update=False,
            layout=shown,
            style=STYLE,
        )
        self.value.observe(self._split, "value")

    def _button(self, text: str, icon: str, tip: str, act: Any) -> ipywidgets.Button:
        made = ipywidgets.Button(
            description=text, icon=icon, tooltip=tip, layout=ipywidgets.Layout(width="auto")
        )
        made.on_click(act)
        return made

    def _rows(self) -> list[ipywidgets.Widget]:
        wrap = ipywidgets.Layout(flex_flow="row wrap", align_items="flex-start")
        tools = ipywidgets.HBox(
            [self.copy, self.saving, self.upload, self.citing, self.exporting], layout=wrap
        )
        noise = [self.sigma, ipywidgets.HBox([self.ahead, self.distort, self.status.cancel], layout=wrap)]
        side = ipywidgets.VBox(
            [
                *self.controls.values(),
                *noise,
                self.line,
                self.file,
                tools,
                self.setting,
                self.value,
                self.text,
            ],
            layout=ipywidgets.Layout(width="330px"),
        )
        picture = ipywidgets.Box([self.canvas], layout=ipywidgets.Layout(width="640px", max_width="100%"))
        main = ipywidgets.VBox(
            [ipywidgets.HBox([self.badge], layout=ipywidgets.Layout(justify_content="flex-end")), picture],
            layout=ipywidgets.Layout(width="650px", max_width="100%"),
        )
        return [
            self.status,
            ipywidgets.HBox([main, side], layout=wrap),
            self.table,
            ipywidgets.HBox([self.strip, self.marks], layout=wrap),
            self.other,
            self.words,
        ]

    def _fit(self) -> None:
        """Another subject or plane: the same controls with other choices, another picture."""
        subject = self.bench.place.subject
        self.strip.layout.display = None if subject.pictures else "none"
        with self._saying():
            self.settings.fit(self.bench.state, subject)
        self.canvas.show(**self.session.frame())

    @contextmanager
    def _saying(self) -> Iterator[None]:
        """While the controls say what the state is, they ask for nothing."""
        before, self._syncing = self._syncing, True
        try:
            yield
        finally:
            self._syncing = before

    # -- what the user does

    def _controlled(self, change: Any) -> None:
        if self._syncing:
            return
        name = next(name for name, control in self.controls.items() if control is change["owner"])
        value = change["new"]
        if name == "subject":
            entry = "world" if value in WORLDS and value != self._own else "model"
            self._try(lambda: self.bench.look_at(self.bench.with_subject(**{entry: value})))
            return
        if name in ("regimes", "lenses"):
            value = ",".join(value)
        self._try(lambda: self.bench.look_at(self.bench.state.but(**{name: value}), delay=SETTLE))

    def _scrubbed(self, change: Any) -> None:
        """The slider moved: levels that were computed ahead show at once, the full answer follows."""
        if not self._syncing:
            level = None if change["new"] == OWN else change["new"]
            self._try(lambda: self.bench.change(speed="coarse", sigma=level))
            self._try(lambda: self.bench.refresh(delay=SETTLE))

    def _ahead(self, _: Any) -> None:
        if not self.bench.place.subject.flows:
            self._fail(f"{self.bench.place.subject.frame} has no noise levels")
            return
        self.status.start()
        self.session.precompute(self._computed_ahead, lambda share, words: self.status.advance(share, words))

    def _computed_ahead(self, problem: str) -> None:
        if problem:
            self._fail(problem)
            return
        self.status.rest()
        self._show_marks()

    def _restated(self, change: Any) -> None:
        if change["new"] != self.bench.state:
            self._try(lambda: self.bench.look_at(change["new"], delay=SETTLE))

    def _gestured(self, gesture: Gesture) -> None:
        def follow() -> None:
            asked = self.session.after(gesture)
            if asked is not None:
                self.bench.look_at(asked[0], speed=asked[1])

        self._try(follow)

    def _distorted(self, change: Any) -> None:
        self.session.distortion = change["new"]
        self.canvas.show(**self.session.scene())

    def _copied(self, _: Any) -> None:
        self._reveal(self.to_parameters())
        self.canvas.clip = self.text.value

    def _cited(self, _: Any) -> None:
        self._reveal(self.session.citations() or "No published method was used yet.")

    def _saved(self, _: Any) -> None:
        self._try(lambda: self.status.say(f"saved {self.save(self.file.value)}"))

    def _exported(self, _: Any) -> None:
        def export() -> None:
            path = Path(self.file.value)
            path = path if path.suffix.lower() in FORMATS else path.with_suffix(".png")
            result = self.result
            if result is not None:
                with torch.no_grad():
                    strip = strip_of(result, line=self.session.strip_line)
                self.status.say(f"wrote {export_filmstrip(strip, result.place.subject, path)}")

        self._try(export)

    def _uploaded(self, change: Any) -> None:
        for item in change["new"] or ():
            self._open(bytes(item["content"]), item["name"])

    def _dropped(self, change: Any) -> None:
        file = change["new"]
        self._open(str(file.get("text", "")).encode(), str(file.get("name", "a file")))

    def _open(self, content: bytes, name: str) -> None:
        """Look at a saved view that came from the browser."""
        self._try(lambda: self.bench.look_at(read_view(content, source=name)))

    def _reveal(self, text: str) -> None:
        self.text.value = text
        self.text.layout.display = None

    def _chosen(self, change: Any) -> None:
        if not self._syncing and change["new"]:
            self.session.strip_line = change["new"]
            self.canvas.show(**self.session.thumbs())
            self._show_strip()

    def _split(self, _: Any) -> None:
        """Open, change or close the second panel."""
        if self.beside is not None:
            self.beside.close()
            self.beside, self.other.children = None, []
        name, text = self.setting.value, self.value.value.strip()
        if not name or not text:
            return

        def open_second() -> None:
            self.beside = Beside(self.bench, name, value_of(name, text))
            SecondPanel(self, self.beside)

        self._try(open_second)

    def _try(self, act: Any) -> None:
        try:
            act()
        except (WorkbenchError, OSError, LookupError, ValueError) as error:
            self._fail(sentence_of(error))

    # -- what the bench says, from whichever thread

    def _heard(self, event: BenchEvent) -> None:
        if event.what == "state":
            self._new_state(event)
        elif event.what == "progress":
            self.status.advance(event.share, event.words)
        elif self.session.draws(event):
            self._show_picture()
        elif event.what == "table":
            self._show_table(event)
        elif event.what == "error":
            self._fail(event.words)
        elif event.what == "done":
            self._done(event)
        elif event.what == "idle":
            self.canvas.busy = False
            self.status.rest()

    def _new_state(self, event: BenchEvent) -> None:
        before = self.state
        self.state = event.state
        other = any(getattr(before, n) != getattr(event.state, n) for n in ("world", "model", "projection"))
        if other:
            self._fit()
        with self._saying():
            self.settings.show(event.state)
        if event.speed == "full":
            self.canvas.show(**self.session.handles())
            self.status.start()
            self.status.say("computing …")
        self.canvas.show(busy=True, note="")

    def _show_picture(self) -> None:
        self.canvas.show(**self.session.scene())
        self.badge.value = self.session.badge()

    def _show_table(self, event: BenchEvent) -> None:
        self._show_picture()
        changed = frozenset() if self.beside is None else self.beside.changed()
        self.table.value = self.session.table(changed=changed)
        if event.speed == "full" or not self.words.value:
            self.words.value = self.session.words()
        if event.speed == "full":
            self.canvas.show(**self.session.thumbs())
            result = self.result
            if result is not None:
                names = [line.name for line in result.lines]
                chosen = self.session.strip_line
                first = next((n for n in names if n in ("geodesic", chosen)), names[0] if names else None)
                with self._saying():
                    self.line.options = names
                    self.line.value = chosen if chosen in names else first
            self._show_strip()
            self._show_marks()

    def _show_strip(self) -> None:
        result = self.result
        if result is None or not result.lines or not result.place.subject.pictures:
            return
        with torch.no_grad():
            strip = strip_of(result, line=self.line.value or "")
        self.strip.show(strip_figure(strip, result.place.subject, theme=self._look, width=SIZES.width - 60))

    def _show_marks(self) -> None:
        scrub = self.session.scrub
        if scrub is not None:
            self.marks.show(scrubber_figure(scrub, current=self.bench.state.sigma, theme=self._look))

    def _done(self, event: BenchEvent) -> None:
        if event.speed != "full":
            return
        failed = [
            a.lens for a in self.bench.answers.values() if a.report is not None and not a.report.converged
        ]
        words = [event.words] if event.words else []
        if failed:
            words.append(f"not converged: {', '.join(failed)}")
        self.status.say("; ".join(words) or "all lenses answered", kind="warning" if failed else "idle")

    def _fail(self, text: str) -> None:
        self.status.say(text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."), kind="error")
        self.canvas.note = self.status.text

    def __repr__(self) -> str:
        return f"BenchExplorer({self.bench!r}, {self.status.text or 'idle'})"


def _bench_of(subject: str | Path | ScoreModel | Landscape, settings: Mapping[str, Any]) -> Bench:
    if isinstance(subject, str | Path):
        name = str(subject)
        if name not in WORLDS:
            return Bench({"model": name, **settings})
        metric = metrics_for(subject_of(load_world(name)))[0]
        return Bench({"world": name, "metric": metric, **settings})
    made = subject_of(subject)
    first = {"model": made.frame.name, "metric": metrics_for(made)[0]}
    return Bench({**first, **settings}, open_subject=opener_with(made))
